//! `wait`: for a delay, or for a condition no longer than that.

use std::io;

use thalweg_config::model::CliLevel::Admin;
use thalweg_config::model::{Proxy, Server};
use thalweg_proxy::Instance;
use thalweg_proxy::change::{Refused, is_backend_removable, is_removable};
use thalweg_runtime::timer;
use thalweg_syntax::{TimeUnit, parse_time};

use super::{NAME_A_SERVER, find_proxy, find_server};
use crate::command::{Call, Command, Run};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[Command::new("wait", Admin, Run::Waiting(|call| Box::pin(wait(call))))
    .help("{-h|<delay_ms>} cond [args...]", "wait for a delay or a condition (-h lists them)")];

const HELP: &str = "Usage: wait {-h|<duration>} [condition [args...]]
  - '-h' shows this
  - <duration> is the longest time to wait, in milliseconds unless followed by
    one of 'us', 'ms', 's', 'm', 'h', 'd'.
  - <condition> is what to wait for:
    - none: the whole duration.
    - be-removable <px> : this backend is unpublished, unused and has no server.
    - srv-removable <px>/<sv> : this server is in maintenance and unused.
";

/// How often a condition is looked at, in milliseconds: at first often, as most streams are short, then more and more rarely.
const STEP_MS: (u64, u64) = (1, 50);

/// How often it is looked whether the client is still there, in milliseconds.
const LOOK_MS: u64 = 200;

/// What is to be removable.
enum Wanted<'i> {
    Server(&'i Proxy, &'i Server),
    Backend(&'i Proxy),
}

impl Wanted<'_> {
    /// Whether it is; else why it never will be by itself, or nothing if it may.
    fn look(&self, instance: &Instance) -> Result<(), Option<&'static str>> {
        let (result, words): (_, fn(Refused) -> &'static str) = match self {
            Wanted::Server(proxy, server) => (is_removable(instance, proxy, server), super::change::words),
            Wanted::Backend(proxy) => (is_backend_removable(instance, proxy), super::change::backend_words),
        };
        result.map_err(|why| (why != Refused::InUse).then(|| words(why)))
    }
}

/// See the module's documentation.
async fn wait(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance: &Instance = &session.instance;
    let duration = match args.first() {
        Some(&"-h") => return Ok(Reply::Text(HELP.into())),
        Some(text) => parse_time(text, TimeUnit::Milliseconds, TimeUnit::Milliseconds),
        None => return Ok(Reply::error("Expects a duration in milliseconds.")),
    };
    let Some(duration_ms) = duration.ok().filter(|ms| *ms > 0) else {
        return Ok(Reply::error("Invalid duration."));
    };
    let removable = match args.get(1) {
        None => None,
        Some(&"srv-removable") if args.len() < 3 => {
            return Ok(Reply::error("Missing server name (<backend>/<server>)."));
        }
        Some(&"srv-removable") if !args[2].contains('/') => {
            return Ok(Reply::error(NAME_A_SERVER));
        }
        Some(&"srv-removable") => match find_server(instance, &args[2..]) {
            Ok((proxy, server)) => Some(Wanted::Server(proxy, server)),
            Err(_) => return Ok(Reply::error("Failed. No such server.")),
        },
        Some(&"be-removable") if args.len() < 3 => return Ok(Reply::error("Missing backend name.")),
        Some(&"be-removable") => match find_proxy(instance, args[2], Proxy::is_be) {
            Some(proxy) => Some(Wanted::Backend(proxy)),
            None => return Ok(Reply::error("Failed. No such backend.")),
        },
        Some(_) => return Ok(Reply::Text(HELP.into())),
    };
    // Answers of commands before this one on the line are not kept back meanwhile.
    output.flush().await?;
    let deadline = timer::deadline_in(duration_ms);
    let mut soon_ms = STEP_MS.0;
    loop {
        match removable.as_ref().map(|wanted| wanted.look(instance)) {
            Some(Ok(())) => return Ok(Reply::info("Done.")),
            Some(Err(Some(why))) => return Ok(Reply::error(format!("Failed. {why}"))),
            Some(Err(None)) | None => {}
        }
        if thalweg_runtime::clock::now_ms() >= deadline {
            return Ok(match removable {
                None => Reply::info("Done."),
                Some(_) => Reply::error("Interrupted. The condition was not met in time."),
            });
        }
        let step_ms = if removable.is_some() { soon_ms } else { LOOK_MS };
        soon_ms = (soon_ms * 2).min(STEP_MS.1);
        timer::sleep_until(deadline.min(timer::deadline_in(step_ms))).await;
        // Whoever is gone waits no more, and leaves the place to others. A client that only says no more still waits.
        if thalweg_sys::fd::is_hung_up(output.stream().as_fd()) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
}
