//! No word of a `server` or `bind` line does nothing in silence: in each section that has such lines, each option either is read
//! by somebody, or is warned of or refused.

mod common;

use common::{load_text, rendered};
use thalweg_config::all_keywords;

/// Options that say how a server is reached, which `proxy::backend::reach` does for rings, peers and collectors alike, and
/// what it is called.
const WAY: &str = "cc from guid id source socks4 tcp-md5sig tcp-ut tfo";

/// Options of TLS to servers: what is spoken there is made of them.
const TLS: &str = "alpn ca-file ciphers ciphersuites client-sigalgs crl-file crt curves force-sslv3 force-tlsv10 \
                   force-tlsv11 force-tlsv12 force-tlsv13 sigalgs ssl ssl-max-ver ssl-min-ver ssl-reuse tls-tickets \
                   verify verifyhost";

/// Options that say what is so anyway: `proto` is refused unless it says `none`.
const USUAL: &str = "enabled proto stick";

/// Options of sockets that listen, and their names.
const SOCKET: &str = "backlog cc defer-accept gid group guid-prefix id interface mode mss name label tcp-md5sig tcp-ut tfo \
                      transparent uid user v4v6 v6only";

/// Options of TLS to clients.
const BIND_TLS: &str = "alpn ca-file ca-ignore-err ca-sign-file ca-sign-pass ca-verify-file ciphers ciphersuites \
                        client-sigalgs crl-file crt crt-ignore-err crt-list curves default-crt ecdhe force-sslv3 \
                        force-tlsv10 force-tlsv11 force-tlsv12 force-tlsv13 generate-certificates \
                        prefer-client-ciphers sigalgs ssl ssl-max-ver ssl-min-ver strict-sni tls-ticket-keys \
                        tls-tickets verify";

/// The options of a kind of line that do nothing in a section and of which nothing is said: each example of an option is loaded
/// there. `read` are those that somebody reads.
fn silent(place: &str, read: &[&str], file: impl Fn(&str) -> String) -> Vec<&'static str> {
    let known: Vec<&str> = all_keywords().iter().filter(|k| k.place == place).map(|k| k.name).collect();
    let read: Vec<&str> = read.iter().flat_map(|words| words.split_whitespace()).collect();
    let mut silent = Vec::new();
    let lines = include_str!("data/examples.txt").lines().filter_map(|line| line.split_once('\t'));
    for (_, text) in lines.filter(|(kind, text)| *kind == place && !text.contains("\\n")) {
        let loaded = load_text(&file(text));
        if loaded.config.is_none() {
            continue;
        }
        let said = rendered(&loaded);
        // Its value is the name of another option.
        let text = text.trim_start_matches("hash-key addr");
        let names = text.split_whitespace().map(|word| word.split('(').next().unwrap_or(word));
        silent.extend(names.filter(|name| {
            let shown = if name.starts_with("send-proxy") { "send-proxy*" } else { name };
            known.contains(name)
                && !read.contains(name)
                && !name.starts_with("no-")
                && !said.contains(&format!("'{shown}'"))
        }));
    }
    silent
}

#[test]
fn options_of_servers_mean_something_in_their_section() {
    let ring = |text: &str| format!("ring r\n server s 127.0.0.1:514 {text}\n");
    assert_eq!(silent("server", &[WAY, TLS, USUAL, "init-addr log-proto"], ring), Vec::<&str>::new());
    let peers = |text: &str| {
        format!(
            "global\n localpeer A\npeers p\n bind 127.0.0.1:80\n server A\n server B 127.0.0.2:80 {text}\n"
        )
    };
    assert_eq!(silent("server", &[WAY, TLS, USUAL, "shard sni"], peers), Vec::<&str>::new());
    let collectors = |text: &str| format!("opentelemetry\n server s 127.0.0.1:4318 {text}\n");
    assert_eq!(silent("server", &[WAY, TLS, USUAL, "init-addr"], collectors), Vec::<&str>::new());
}

#[test]
fn options_of_listeners_mean_something_in_their_section() {
    let forward =
        |text: &str| format!("log-forward l\n bind 127.0.0.1:514 {text}\n log 127.0.0.1:1 local0\n");
    assert_eq!(
        silent("bind", &[SOCKET, BIND_TLS, "accept-netscaler-cip accept-proxy proto"], forward),
        Vec::<&str>::new()
    );
    let peers = |text: &str| format!("global\n localpeer A\npeers p\n bind 127.0.0.1:80 {text}\n server A\n");
    assert_eq!(
        silent("bind", &[SOCKET, BIND_TLS, "accept-netscaler-cip accept-proxy proto"], peers),
        Vec::<&str>::new()
    );
    let cli = |text: &str| format!("global\n stats socket 127.0.0.1:80 {text}\n");
    assert_eq!(
        silent("bind", &[SOCKET, BIND_TLS, "expose-fd level proto severity-output"], cli),
        Vec::<&str>::new()
    );
    let proxy = |text: &str| format!("frontend f\n timeout client 5s\n bind 127.0.0.1:80 {text}\n");
    for text in ["level user", "expose-fd listeners", "severity-output number"] {
        let said = rendered(&load_text(&proxy(text)));
        let name = text.split(' ').next().unwrap_or(text);
        assert!(said.contains(&format!("'{name}' does nothing there")), "{text}: {said}");
    }
}

#[test]
fn what_does_nothing_is_refused_for_collectors_and_warned_of_for_rings() {
    let said = |section: &str| {
        let loaded = load_text(&format!(
            "{section}\n server s 127.0.0.1:514 source 127.0.0.2 send-proxy-v2 weight 3\n"
        ));
        (loaded.config.is_some(), rendered(&loaded))
    };
    let (accepted, ring) = said("ring r");
    assert!(accepted, "{ring}");
    for word in ["send-proxy*", "weight"] {
        assert!(
            ring.contains(&format!("'{word}' server option is unsupported there, ignoring it")),
            "{ring}"
        );
    }
    assert!(!ring.contains("'source'"), "{ring}");
    let (accepted, collectors) = said("opentelemetry");
    assert!(!accepted && collectors.contains("'send-proxy*' means nothing for collectors"), "{collectors}");
    let usesrc = "ring r\n server s 127.0.0.1:514 source 127.0.0.2 usesrc clientip\n";
    let said = rendered(&load_text(usesrc));
    assert!(said.contains("'usesrc' server option is unsupported there"), "{said}");
}
