//! Which words of `server` and `bind` lines mean something outside of proxies.
//!
//! What a section like `ring` or `peers` does with its servers and listeners is less than what a proxy does, and reads the same
//! lines. A word that does nothing there is not passed over in silence: it is warned of where the reference takes it, and refused
//! where it is no matter of files that there are.

use thalweg_syntax::{Diagnostic, Lead, Line};

use crate::bind::BindContext;
use crate::build::Cx;
use crate::keyword::{NoteBoxed, Outcome, fail, not_supported};

/// Whose servers a section has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Servers {
    /// A proxy's: all words mean something.
    #[default]
    OfProxy,
    /// Of `ring`.
    OfRing,
    /// Of `peers`.
    Peers,
    /// Of `opentelemetry`.
    Collectors,
    /// Of `resolvers`.
    OfDns,
}

/// Words about the way to a server, and about what it is called.
const REACHED: &[&str] = &[
    "cc",
    "from",
    "guid",
    "id",
    "init-addr",
    "namespace",
    "source",
    "socks4",
    "tcp-md5sig",
    "tcp-ut",
    "tfo",
];

/// Words about TLS on that way. Those that are not here are about requests or health checks.
const ENCRYPTED: &[&str] = &[
    "alpn",
    "ca-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "crt",
    "curves",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "sigalgs",
    "sni",
    "ssl",
    "ssl-max-ver",
    "ssl-min-ver",
    "ssl-reuse",
    "tls-tickets",
    "verify",
    "verifyhost",
];

/// Words that say what is so anyway, besides all that begin with `no-`.
const USUAL: &[&str] = &["enabled", "stick"];

impl Servers {
    /// How its servers are called in messages.
    fn called(self) -> &'static str {
        match self {
            Servers::OfProxy => "proxies",
            Servers::OfRing => "rings",
            Servers::Peers => "peers",
            Servers::Collectors => "collectors",
            Servers::OfDns => "DNS",
        }
    }

    /// Whether something reads what this word says.
    fn read(self, word: &str) -> bool {
        let own = match self {
            Servers::OfProxy => return true,
            Servers::OfRing => "log-proto",
            Servers::Peers => "shard",
            // One connection carries all queries, which every limit allows.
            Servers::OfDns => "maxconn",
            Servers::Collectors => "",
        };
        if self == Servers::Peers && word == "init-addr" {
            // Their names are looked up once, and nobody starts without the address of a peer.
            return false;
        }
        let introduces = self == Servers::OfDns && word.starts_with("send-proxy");
        word == own
            || introduces
            || word.starts_with("no-")
            || [REACHED, ENCRYPTED, USUAL].iter().any(|words| words.contains(&word))
    }

    /// Says so when the option whose name is at `at` does nothing for these servers.
    pub fn look_at(self, cx: &mut Cx<'_>, line: &Line, at: usize, word: &str) -> Outcome {
        if self.read(word) {
            // There is no client whose address a connection could come from, and no request that has one.
            let clients = |at: &usize| {
                let from = line.text(at + 1);
                line.text(*at) == "usesrc" && (from.starts_with("client") || from.starts_with("hdr_ip("))
            };
            let asked =
                (self != Servers::OfProxy && word == "source").then(|| (at + 2..at + 6).find(clients));
            return match asked.flatten() {
                Some(at) => self.ignore(cx, line, at, "usesrc"),
                None => Ok(()),
            };
        }
        if word == "proto" && line.text(at + 1) != "none" {
            let message = format!(
                "MUX protocol '{}' is not usable for servers of {}",
                line.text(at + 1),
                self.called()
            );
            return Err(fail(line, at + 1, message));
        }
        let is_header = word.starts_with("send-proxy");
        self.ignore(cx, line, at, if is_header { "send-proxy*" } else { word })
    }

    fn ignore(self, cx: &mut Cx<'_>, line: &Line, at: usize, word: &str) -> Outcome {
        let called = self.called();
        if self == Servers::Collectors {
            return Err(fail(line, at, format!("'{word}' means nothing for {called}")).note_boxed(
                "they are only sent to: the options that count are those of the way there and of TLS",
            ));
        }
        let message = format!("'{word}' server option is unsupported there, ignoring it");
        let span = line.span_at(at);
        // The reference says nothing of name servers.
        let warning = match self {
            Servers::OfDns => Diagnostic::notice_at(span, message),
            _ => Diagnostic::warning_at(span, message),
        };
        let mut warning = warning.lead(Lead::Located);
        warning.notes.push(format!("servers of {called} are only connected to: the options that count are those of the way there and of TLS"));
        cx.diagnostics.push(warning);
        Ok(())
    }
}

/// Words of `bind` that say who may do what on the CLI.
const OF_CLI: &[&str] = &["expose-fd", "level", "severity-output"];

/// Words of `bind` about clients whose traffic is passed on, and about how threads share them.
const OF_PROXIES: &[&str] =
    &["allow-0rtt", "idle-ping", "maxconn", "nice", "process", "shards", "tcp-ss", "thread"];

/// Says so when the option of a listener whose name is at `at` does nothing in this place. `title` begins the message.
pub(crate) fn look_at_bind(
    cx: &mut Cx<'_>,
    line: &Line,
    at: usize,
    context: &BindContext,
    title: &str,
) -> Outcome {
    let word = line.text(at);
    let (is_cli, is_service) = (matches!(context, BindContext::StatsSocket), !context.is_of_proxy());
    if is_cli && matches!(word, "accept-proxy" | "accept-netscaler-cip") {
        let why = "nothing is done with the addresses of operators";
        return Err(not_supported(line, at, &format!("stats socket ... {word}"), why));
    }
    if is_service && word == "proto" && line.text(at + 1) != "none" {
        return Err(fail(
            line,
            at + 1,
            format!("{title}MUX protocol '{}' is not usable there", line.text(at + 1)),
        ));
    }
    let (does_nothing, why) = if OF_CLI.contains(&word) {
        (!is_cli, "it says who may do what on the CLI, and belongs on 'stats socket'")
    } else {
        (
            is_service && OF_PROXIES.contains(&word),
            "one thread accepts connections there, and they are no proxy's",
        )
    };
    if does_nothing {
        let message = format!("{title}'{word}' does nothing there, ignoring it.");
        let mut warning = Diagnostic::warning_at(line.span_at(at), message);
        warning.notes.push(why.to_owned());
        cx.diagnostics.push(warning);
    }
    Ok(())
}
