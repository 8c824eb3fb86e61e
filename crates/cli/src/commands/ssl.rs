//! Certificates, authorities, lists and keys of TLS (management manual, section 9.3: `set ssl cert` and its siblings).
//!
//! The answers are those of [`thalweg_tls::live`], which makes a change beside what is served and puts it in place when it is
//! whole.

use std::io;
use std::sync::{MutexGuard, PoisonError};

use thalweg_config::model::CliLevel::{Admin, User};
use thalweg_proxy::Instance;
use thalweg_runtime::timer;
use thalweg_syntax::{TimeUnit, parse_time};
use thalweg_tls::live::{Answer, Live};

use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new(
        "abort ssl ca-file",
        Admin,
        Run::Now(|call| on_file(&call, "ca-file", "abort", Live::abort_ca_file)),
    )
    .help("<cafile>", "abort a transaction for a CA file"),
    Command::new(
        "abort ssl cert",
        Admin,
        Run::Now(|call| on_file(&call, "cert", "abort", Live::abort_certificate)),
    )
    .help("<certfile>", "abort a transaction for a certificate file"),
    Command::new(
        "abort ssl crl-file",
        Admin,
        Run::Now(|call| on_file(&call, "crl-file", "abort", Live::abort_crl_file)),
    )
    .help("<crlfile>", "abort a transaction for a CRL file"),
    Command::new(
        "add ssl ca-file",
        Admin,
        Run::Now(|call| payload(&call, "add ssl ca-file", "CAs", Live::add_ca_file)),
    )
    .help("<cafile> <payload>", "add a certificate into the CA file")
    .noted(),
    Command::new("add ssl crt-list", Admin, Run::Now(|call| add_to_list(&call)))
        .help("<list> <cert> [opts]*", "add a line to a crt-list, or a payload with one")
        .noted(),
    Command::new("add ssl jwt", Admin, Run::Now(|call| use_for_tokens(&call, true)))
        .help("<certfile>", "let a certificate verify and decrypt JSON Web Tokens"),
    Command::new(
        "commit ssl ca-file",
        Admin,
        Run::Now(|call| on_file(&call, "ca-file", "commit", Live::commit_ca_file)),
    )
    .help("<cafile>", "commit a CA file")
    .noted(),
    Command::new(
        "commit ssl cert",
        Admin,
        Run::Now(|call| on_file(&call, "cert", "commit", Live::commit_certificate)),
    )
    .help("<certfile>", "commit a certificate file")
    .noted(),
    Command::new(
        "commit ssl crl-file",
        Admin,
        Run::Now(|call| on_file(&call, "crl-file", "commit", Live::commit_crl_file)),
    )
    .help("<crlfile>", "commit a CRL file")
    .noted(),
    Command::new(
        "del ssl ca-file",
        Admin,
        Run::Now(|call| on_file(&call, "ca-file", "del", Live::delete_ca_file)),
    )
    .help("<cafile>", "delete an unused CA file")
    .noted(),
    Command::new(
        "del ssl cert",
        Admin,
        Run::Now(|call| on_file(&call, "cert", "del", Live::delete_certificate)),
    )
    .help("<certfile>", "delete an unused certificate file")
    .noted(),
    Command::new(
        "del ssl crl-file",
        Admin,
        Run::Now(|call| on_file(&call, "crl-file", "del", Live::delete_crl_file)),
    )
    .help("<crlfile>", "delete an unused CRL file")
    .noted(),
    Command::new("del ssl jwt", Admin, Run::Now(|call| use_for_tokens(&call, false)))
        .help("<certfile>", "let a certificate no longer verify and decrypt JSON Web Tokens"),
    Command::new("del ssl crt-list", Admin, Run::Now(|call| delete_from_list(&call)))
        .help("<list> <cert[:line]>", "delete a line from a crt-list")
        .noted(),
    Command::new(
        "dump ssl cert",
        Admin,
        Run::Now(|call| {
            let name = call.args.first().copied().unwrap_or_default();
            show(&call, |live| live.dump_certificate(name))
        }),
    )
    .help("<certfile>", "show a certificate and its key in PEM"),
    Command::new(
        "new ssl ca-file",
        Admin,
        Run::Now(|call| on_file(&call, "ca-file", "new", Live::new_ca_file)),
    )
    .help("<cafile>", "create a new CA file to be used in a crt-list")
    .noted(),
    Command::new(
        "new ssl cert",
        Admin,
        Run::Now(|call| on_file(&call, "cert", "new", Live::new_certificate)),
    )
    .help("<certfile>", "create a new certificate file to be used in a crt-list or a directory")
    .noted(),
    Command::new(
        "new ssl crl-file",
        Admin,
        Run::Now(|call| on_file(&call, "crl-file", "new", Live::new_crl_file)),
    )
    .help("<crlfile>", "create a new CRL file to be used in a crt-list")
    .noted(),
    Command::new(
        "set ssl ca-file",
        Admin,
        Run::Now(|call| payload(&call, "set ssl ca-file", "CAs", Live::set_ca_file)),
    )
    .help("<cafile> <payload>", "replace a CA file")
    .noted(),
    Command::new(
        "set ssl cert",
        Admin,
        Run::Now(|call| payload(&call, "set ssl cert", "a certificate", Live::set_certificate)),
    )
    .help("<certfile> <payload>", "replace a certificate file")
    .noted(),
    Command::new(
        "set ssl crl-file",
        Admin,
        Run::Now(|call| payload(&call, "set ssl crl-file", "CRLs", Live::set_crl_file)),
    )
    .help("<crlfile> <payload>", "replace a CRL file")
    .noted(),
    Command::new("set ssl ocsp-response", Admin, Run::Now(|call| set_ocsp_response(&call)))
        .help("<resp|payload>", "update a certificate's OCSP response from a base64-encoded DER"),
    Command::new("set ssl tls-key", Admin, Run::Now(|call| set_ticket_key(&call)))
        .help("[id|file] <key>", "set the next TLS ticket key of a file of them"),
    Command::new(
        "show ssl ca-file",
        User,
        Run::Now(|call| match call.args.first() {
            None => listed(&call, Live::show_ca_files),
            Some(name) => show(&call, |live| live.show_ca_file(name)),
        }),
    )
    .help("[<cafile>[:<index>]]", "list the CA files, or show one or a certificate of it")
    .json(|_| Shape::Lines),
    Command::new(
        "show ssl cert",
        User,
        Run::Now(|call| match call.args.first() {
            None => listed(&call, Live::show_certificates),
            Some(name) => show(&call, |live| live.show_certificate(name)),
        }),
    )
    .help("[<certfile>]", "list the certificates, or show one")
    .json(|args| if args.is_empty() { Shape::Lines } else { Shape::Pairs }),
    Command::new(
        "show ssl crl-file",
        User,
        Run::Now(|call| match call.args.first() {
            None => listed(&call, Live::show_crl_files),
            Some(name) => show(&call, |live| live.show_crl_file(name)),
        }),
    )
    .help("[<crlfile>[:<index>]]", "list the CRL files, or show one or a list of it")
    .json(|_| Shape::Lines),
    Command::new("show ssl crt-list", Admin, Run::Now(|call| show_lists(&call)))
        .help("[-n] [<list>]", "list the crt-lists, or show one")
        .json(|_| Shape::Lines),
    Command::new("show ssl jwt", User, Run::Now(|call| listed(&call, Live::show_token_certificates)))
        .help("", "list the certificates that verify and decrypt JSON Web Tokens")
        .json(|_| Shape::Lines),
    Command::new("show ssl ocsp-response", Admin, Run::Now(|call| show_ocsp(&call)))
        .help("[[text|base64] id]", "list the OCSP responses, or show one")
        .json(|_| Shape::Lines),
    Command::new(
        "show ssl providers",
        User,
        Run::Now(|_| Reply::Text("Loaded providers : \n\t- default\n".to_owned())),
    )
    .help("", "show what computes")
    .json(|_| Shape::Lines),
    Command::new("show ssl sni", User, Run::Now(|call| show_sni(&call)))
        .help(
            "[-f <frontend>] [-A] [-t <offset>]",
            "list the names that clients may ask for, and their certificates",
        )
        .json(|_| Shape::Table),
    Command::new(
        "show ssl ocsp-updates",
        Admin,
        Run::Now(|call| {
            live(call.instance()).map_or_else(no_tls, |mut live| Reply::Text(live.show_updates()))
        }),
    )
    .help("", "list the OCSP responses that are fetched, and what came of it")
    .json(|_| Shape::Lines),
    Command::new("update ssl ocsp-response", Admin, Run::Waiting(|call| Box::pin(update_ocsp(call))))
        .help("<certfile>", "fetch the OCSP response of a certificate, and show it"),
    Command::new("show tls-keys", Admin, Run::Now(|call| show_ticket_keys(&call)))
        .help("[id|*]", "list the files of TLS ticket keys, or show the keys of one")
        .json(|args| if args.is_empty() { Shape::Table } else { Shape::Lines }),
];

/// What can be changed; nothing when TLS could not be made ready.
fn live(instance: &Instance) -> Option<MutexGuard<'_, Live>> {
    instance.config.tls.as_ref().map(|live| live.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The answer where there is nothing to change.
fn no_tls() -> Reply {
    Reply::error("TLS cannot be used.")
}

fn told(answer: Answer) -> Reply {
    match answer {
        Ok(text) => Reply::notice(text),
        Err(text) => Reply::error(text),
    }
}

/// A dump: its lines end.
fn shown(answer: Answer) -> Reply {
    match answer {
        Ok(text) if text.is_empty() => Reply::Done,
        Ok(text) => Reply::Text(text),
        Err(text) => Reply::error(text),
    }
}

/// A command about one file of a kind.
fn on_file(call: &Call<'_>, kind: &str, verb: &str, run: fn(&mut Live, &str) -> Answer) -> Reply {
    let Some(name) = call.args.first().filter(|name| !name.is_empty()) else {
        let what = match (kind, verb) {
            ("cert", "del") => "a certificate name",
            ("ca-file", "del") => "a CA file name",
            ("crl-file", "del") => "a CRL file name",
            _ => "a filename",
        };
        return Reply::error(format!("'{verb} ssl {kind}' expects {what}"));
    };
    live(call.instance()).map_or_else(no_tls, |mut live| told(run(&mut live, name)))
}

/// A command about one file, with what it is to hold.
fn payload(call: &Call<'_>, command: &str, what: &str, run: fn(&mut Live, &str, &[u8]) -> Answer) -> Reply {
    match (call.args.first().filter(|name| !name.is_empty()), call.payload) {
        (Some(name), Some(payload)) => live(call.instance())
            .map_or_else(no_tls, |mut live| told(run(&mut live, name, payload.as_bytes()))),
        _ => Reply::error(format!("'{command}' expects a filename and {what} as a payload")),
    }
}

fn listed(call: &Call<'_>, run: fn(&Live) -> String) -> Reply {
    show(call, |live| Ok(run(live)))
}

fn show(call: &Call<'_>, run: impl Fn(&Live) -> Answer) -> Reply {
    live(call.instance()).map_or_else(no_tls, |live| shown(run(&live)))
}

/// `add ssl crt-list`
fn add_to_list(call: &Call<'_>) -> Reply {
    let Some((list, args)) = call.args.split_first() else {
        return Reply::error(NO_LINE);
    };
    match line_of_list(args, call.payload) {
        Ok(line) => live(call.instance()).map_or_else(no_tls, |mut live| told(live.add_to_list(list, &line))),
        Err(why) => Reply::error(why),
    }
}

const NO_LINE: &str = "'add ssl crtlist' expects a filename and a certificate name";

/// The line for a list: it is in the arguments or in the payload.
pub(crate) fn line_of_list(args: &[&str], payload: Option<&str>) -> Result<String, &'static str> {
    let line = payload.map_or_else(|| args.join(" "), |payload| payload.trim().to_owned());
    if line.is_empty() {
        return Err(NO_LINE);
    }
    if line.contains('\n') {
        return Err("Can't edit the crt-list: unexpected content after a line feed!");
    }
    Ok(line)
}

fn delete_from_list(call: &Call<'_>) -> Reply {
    let (Some(list), Some(entry)) = (call.args.first(), call.args.get(1)) else {
        return Reply::error("'del ssl crtlist' expects a filename and a certificate name");
    };
    live(call.instance()).map_or_else(no_tls, |mut live| told(live.delete_from_list(list, entry)))
}

fn show_lists(call: &Call<'_>) -> Reply {
    let with_numbers = call.args.first() == Some(&"-n");
    let name = call.args.get(usize::from(with_numbers)).copied();
    if with_numbers && name.is_none() {
        return Reply::error("'show ssl crt-list -n' expects a filename or a directory");
    }
    show(call, |live| live.show_lists(name, with_numbers))
}

fn set_ocsp_response(call: &Call<'_>) -> Reply {
    let Some(text) = call.payload.or(call.args.first().copied()).filter(|text| !text.is_empty()) else {
        return Reply::error("'set ssl ocsp-response' expects response in base64 encoding.");
    };
    let text: String = text.split_whitespace().collect();
    live(call.instance()).map_or_else(no_tls, |mut live| told(live.set_ocsp_response(&text)))
}

fn use_for_tokens(call: &Call<'_>, on: bool) -> Reply {
    let Some(name) = call.args.first().filter(|name| !name.is_empty()) else {
        let verb = if on { "add" } else { "del" };
        return Reply::error(format!("'{verb} ssl cert' expects a filename"));
    };
    live(call.instance()).map_or_else(no_tls, |mut live| shown(live.use_for_tokens(name, on)))
}

/// How often it is looked whether an OCSP response came, in milliseconds.
const LOOK_MS: u64 = 50;

async fn update_ocsp(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance: &Instance = &session.instance;
    let Some(name) = args.first().filter(|name| !name.is_empty()) else {
        return Ok(Reply::error("'update ssl ocsp-response' expects a filename"));
    };
    let asked = live(instance).map(|mut live| live.ask_for_update(name));
    let (key, tries) = match asked {
        None => return Ok(no_tls()),
        Some(Err(why)) => return Ok(Reply::error(why)),
        Some(Ok(asked)) => asked,
    };
    output.flush().await?;
    loop {
        timer::sleep(LOOK_MS).await;
        let result = live(instance).and_then(|live| live.update_result(name, &key, tries));
        if let Some(answer) = result {
            return Ok(shown(answer));
        }
        if thalweg_sys::fd::is_hung_up(output.stream().as_fd()) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
}

fn show_ocsp(call: &Call<'_>) -> Reply {
    let (base64, which) = match call.args {
        ["base64" | "text"] => {
            return Reply::error("'show ssl ocsp-response [text|base64]' expects a valid certid.");
        }
        ["base64", which, ..] => (true, Some(*which)),
        ["text", which, ..] | [which, ..] => (false, Some(*which)),
        [] => (false, None),
    };
    show(call, |live| live.show_ocsp_responses(which, base64))
}

fn show_sni(call: &Call<'_>) -> Reply {
    let (mut frontend, mut expired, mut offset_s) = (None, false, 0);
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "-A" => expired = true,
            "-f" => match args.next() {
                Some(name) => frontend = Some(*name),
                None => return Reply::error("'-f' requires a frontend name!"),
            },
            "-t" => {
                let offset = args.next().map(|text| parse_time(text, TimeUnit::Seconds, TimeUnit::Seconds));
                match offset.and_then(Result::ok).and_then(|offset| i64::try_from(offset).ok()) {
                    Some(offset) => offset_s = offset,
                    None => return Reply::error("'-t' requires an offset, '30d' for example!"),
                }
            }
            _ => {
                return Reply::error(
                    "Invalid parameters, 'show ssl sni' only supports '-f', '-A' and '-t' options!",
                );
            }
        }
    }
    let mut proxies = call.instance().config.proxies.iter();
    if frontend.is_some_and(|name| !proxies.any(|proxy| proxy.is_fe() && *proxy.name == *name)) {
        return Reply::error("Couldn't find the specified frontend!");
    }
    show(call, |live| Ok(live.show_sni(frontend, expired.then_some(offset_s))))
}

fn show_ticket_keys(call: &Call<'_>) -> Reply {
    let unknown = "'show tls-keys' unable to locate referenced filename";
    show(call, |live| live.show_ticket_keys(call.args.first().copied()).ok_or(unknown.to_owned()))
}

fn set_ticket_key(call: &Call<'_>) -> Reply {
    let (Some(which), Some(key)) = (call.args.first(), call.args.get(1)) else {
        return Reply::error("'set ssl tls-key' expects a filename and the new TLS key in base64 encoding.");
    };
    match live(call.instance()).and_then(|mut live| live.set_ticket_key(which, key)) {
        None => Reply::error("'set ssl tls-key' unable to locate referenced filename"),
        Some(false) => Reply::error("'set ssl tls-key' received invalid base64 encoded TLS key."),
        Some(true) => Reply::info("TLS ticket key updated!"),
    }
}
