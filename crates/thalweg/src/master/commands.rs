//! The commands of the master CLI that are not the worker's (management manual, section 9.4.1).

use thalweg_cli::command;
use thalweg_cli::help::Listed;

const fn own(words: &'static str, arguments: &'static str, text: &'static str) -> Listed {
    Listed { words, arguments, text, always: false }
}

/// What only a master has, in the order of the words.
const OWN: [Listed; 8] = [
    own("@!<pid>", "[command]", "run a command in the process with this pid, or go on there"),
    own("@<relative pid>", "[command]", "run a command in the current worker (@1), or go on there"),
    own("@@<[!]pid>", "[commands]", "talk to a process directly until it ends the session"),
    own("@master", "[command]", "run a command in the master, or go on there"),
    own("hard-reload", "", "start a new worker, and end the former ones at once"),
    own("mcli-debug-mode", "[on|off]", "show in the prompt that this mode is on"),
    own("reload", "", "start a new worker, and let the former ones finish"),
    own("show proc", "[debug]", "list the master and its workers"),
];

/// All commands that the master itself answers, for lists.
pub fn listed() -> Vec<Listed> {
    let shared = command::all().iter().filter(|command| command.master && !command.text.is_empty());
    let mut all: Vec<Listed> = shared.map(|command| Listed::from(*command)).chain(OWN).collect();
    all.sort_unstable_by_key(|command| command.words);
    all
}

/// What `prompt help` shows.
pub const PROMPT_HELP: &str = "Usage: prompt [help | i | p | timed]*
Decides what is shown between lines:
  help    show this
  i       no prompt
  p       a prompt
  timed   show the uptime in the prompt, or stop showing it
Without an argument, i becomes p and p becomes i.
";
