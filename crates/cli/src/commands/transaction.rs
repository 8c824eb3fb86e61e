//! Several changes as one: `begin config`, `check config`, `commit config`, `abort config`.

use std::io;
use std::sync::Arc;

use thalweg_config::model::CliLevel::Admin;
use thalweg_runtime::aside;

use crate::command::{Call, Command, Run};
use crate::output::Reply;
use crate::session::Session;
use crate::transaction::{NotMade, Plan, Transaction};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("begin config", Admin, Run::Now(begin))
        .help("[<revision>]", "note the changes that follow, to make them all at once"),
    Command::new("check config", Admin, Run::Waiting(|call| Box::pin(check(call))))
        .help("", "say whether the changes that were noted can be made"),
    Command::new("commit config", Admin, Run::Waiting(|call| Box::pin(commit(call))))
        .help("", "make the changes that were noted, all or none"),
    Command::new("abort config", Admin, Run::Now(abort)).help("", "forget the changes that were noted"),
];

/// `begin config`.
fn begin(call: Call<'_>) -> Reply {
    let now = call.cli().revision();
    let wanted = match call.args {
        [] => now,
        [number] => match number.parse::<u64>() {
            Ok(number) => number,
            Err(_) => {
                return Reply::error(format!("'{number}' is no revision: 'show config' begins with it."));
            }
        },
        _ => return Reply::error("'begin config' takes a revision, or nothing."),
    };
    if call.session.transaction.is_some() {
        return Reply::error("There is a transaction: 'commit config' or 'abort config' ends it.");
    }
    if wanted != now {
        return Reply::error(overtaken(wanted, now));
    }
    call.session.transaction = Some(Transaction::new(now));
    Reply::info(format!("Transaction begun at revision {now}."))
}

fn overtaken(wanted: u64, now: u64) -> String {
    format!("Somebody else made changes: the revision is {now}, not {wanted}. Look at 'show config diff'.")
}

const NONE: &str = "There is no transaction: 'begin config' begins one.";

/// `abort config`.
fn abort(call: Call<'_>) -> Reply {
    match call.session.transaction.take() {
        Some(transaction) => Reply::info(format!("{} changes are forgotten.", transaction.changes.len())),
        None => Reply::error(NONE),
    }
}

/// Plans the changes of a session, on a thread that serves nobody: servers may name files to read.
async fn plan(session: &Session, transaction: &Transaction) -> Result<Plan, Reply> {
    let (instance, changes) = (Arc::clone(&session.instance), transaction.changes.clone());
    let planned = aside("plan-config", move || {
        Plan::of(&instance, &changes).map_err(|(at, why)| {
            let command = changes[at].words.join(" ");
            format!("Change {} of {}, '{command}': {why}\nNothing was changed.", at + 1, changes.len())
        })
    });
    match planned.await {
        Ok(Ok(plan)) => Ok(plan),
        Ok(Err(why)) => Err(Reply::error(why)),
        Err(error) => Err(Reply::error(format!("Cannot look at the changes: {error}. Nothing was changed."))),
    }
}

/// `check config`.
async fn check(call: Call<'_>) -> io::Result<Reply> {
    let Some(mut transaction) = call.session.transaction.take() else { return Ok(Reply::error(NONE)) };
    let revision = call.cli().revision();
    let planned = plan(call.session, &transaction).await;
    let reply = match planned {
        Ok(_) => {
            // From here on it is for what is in force now.
            transaction.revision = revision;
            Reply::info(format!("{} changes can be made, at revision {revision}.", transaction.changes.len()))
        }
        Err(reply) => reply,
    };
    call.session.transaction = Some(transaction);
    Ok(reply)
}

/// `commit config`.
async fn commit(call: Call<'_>) -> io::Result<Reply> {
    if !call.args.is_empty() {
        return Ok(Reply::error("'commit config' takes nothing; 'commit config to <file>' writes a file."));
    }
    let Some(transaction) = call.session.transaction.take() else { return Ok(Reply::error(NONE)) };
    let before = call.cli().revision();
    let reply = make(call.session, &transaction).await;
    if let Err(reply) = reply {
        call.session.transaction = Some(transaction);
        return Ok(reply);
    }
    let cli = call.cli();
    cli.count_change(before);
    Ok(Reply::notice(format!(
        "{} changes were made: revision {}.",
        transaction.changes.len(),
        cli.revision()
    )))
}

/// Makes the changes of a transaction, if nobody was faster.
async fn make(session: &Session, transaction: &Transaction) -> Result<(), Reply> {
    let overtaken = || {
        let said = overtaken(transaction.revision, session.cli.revision());
        Reply::error(format!(
            "{said} 'check config' says whether these changes still fit, and 'commit config' makes them then."
        ))
    };
    let plan = plan(session, transaction).await?;
    if session.cli.revision() != transaction.revision {
        return Err(overtaken());
    }
    let Some(worker) = crate::worker() else { return Err(Reply::error("The process ends.")) };
    // Nothing is awaited from here on: nobody on this thread comes in between.
    plan.carry_out(&worker).map_err(|why| match why {
        NotMade::Overtaken => overtaken(),
        NotMade::Refused(why) => Reply::error(format!("{why}\nNothing was changed.")),
    })
}
