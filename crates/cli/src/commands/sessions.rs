//! The sessions of clients: `show sess`.

use thalweg_config::model::CliLevel::Operator;
use thalweg_config::model::Proxy;
use thalweg_runtime::clock;
use thalweg_syntax::{TimeUnit, parse_time};

use super::find_proxy;
use crate::anonymous;
use crate::command::{self, Command, Run};
use crate::output::Reply;
use crate::session::Session;
use crate::threads::on_all;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[Command::new(
    "show sess",
    Operator,
    Run::Waiting(|call| Box::pin(async move { Ok(show(call.session, call.args).await) })),
)
.help("[help|<id>|all] [opts...]", "list the current sessions, or one in detail")];

const HELP: &str = "Usage: show sess [<id> | all | help] [<options>*]
Lists the sessions of clients. What may be given:
   <id>         only this session (0x...)
   all          everything known about each
   help         this text
   older <age>  only sessions older than <age> seconds
   frontend <f> only sessions of this frontend
";

/// `show sess`.
async fn show(session: &Session, args: &[&str]) -> Reply {
    let instance = &session.cli.instance;
    let mut args = args.iter();
    let (mut id, mut frontend, mut older_s) = (None, None, 0);
    while let Some(arg) = args.next() {
        match *arg {
            "help" => return Reply::Text(HELP.into()),
            // Everything that is known of a session fits in its line.
            "all" => {}
            "show-uri" | "susp" => {
                return command::missing(&format!("show sess {arg}"), "streams are not known to others");
            }
            "frontend" => {
                let Some(name) = args.next() else { return Reply::error("Missing frontend name.") };
                match find_proxy(instance, name, Proxy::is_fe) {
                    Some(proxy) => frontend = Some(proxy.id),
                    None => return Reply::error("No such frontend."),
                }
            }
            "older" => {
                let Some(age) = args.next() else {
                    return Reply::error("Expects a minimum age (in seconds by default).");
                };
                match parse_time(age, TimeUnit::Seconds, TimeUnit::Seconds) {
                    Ok(age) => older_s = age,
                    Err(_) => return Reply::error("Invalid age."),
                }
            }
            "backend" | "server" => {
                return command::missing(&format!("show sess {arg}"), "streams are not known to others");
            }
            other => match parse_id(other) {
                Some(number) => id = Some(number),
                None => {
                    return Reply::error(format!("Unsupported option '{other}', try 'help' for more info."));
                }
            },
        }
    }
    let lists = on_all(|worker| worker.sessions.borrow().iter().copied().collect::<Vec<_>>()).await;
    let anon_key = session.anon_key;
    let now_ms = clock::now_ms();
    let mut text = String::new();
    for (thread, list) in lists.into_iter().enumerate() {
        for entry in list.into_iter().flatten() {
            let age_s = now_ms.saturating_sub(entry.since_ms) / 1000;
            if id.is_some_and(|id| id != entry.task.to_bits())
                || frontend.is_some_and(|wanted| wanted != entry.frontend)
                || age_s < older_s
            {
                continue;
            }
            let proxy = instance.config.proxy(entry.frontend);
            text.push_str(&format!(
                "{:#x}: proto={} src={} fe={} be=<NONE> srv=<none> ts=00 age={age_s}s tid={}\n",
                entry.task.to_bits(),
                proxy.mode.name(),
                entry.source.map_or_else(|| "unix:1".into(), |source| anonymous::address(anon_key, source)),
                anonymous::text(anon_key, &proxy.name),
                thread + 1
            ));
        }
    }
    if text.is_empty() && id.is_some() {
        // In the reference this is no message but a line of the dump.
        return Reply::Text("Session not found.\n".into());
    }
    Reply::Text(text)
}

fn parse_id(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
