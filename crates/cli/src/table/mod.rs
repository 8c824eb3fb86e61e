//! Every command: its words, its usage, its rights. `help`, "did you mean" and the dispatch derive from it.

mod commands;

use thalweg_config::model::CliLevel;

pub use commands::{ALWAYS, COMMANDS};

/// A command, for the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Id {
    AddAcl,
    AddMap,
    ClearAcl,
    ClearCounters,
    ClearCountersAll,
    ClearCountersServer,
    ClearMap,
    CommitAcl,
    CommitMap,
    DelAcl,
    DelMap,
    DisableAgent,
    DisableFrontend,
    DisableHealth,
    DisableServer,
    Echo,
    EnableAgent,
    EnableFrontend,
    EnableHealth,
    EnableServer,
    Experimental,
    Expert,
    GetAcl,
    GetMap,
    GetSocks,
    GetVar,
    GetWeight,
    Help,
    Operator,
    PrepareAcl,
    PrepareMap,
    Prompt,
    PublishBackend,
    Quit,
    SetMap,
    SetMaxconnFrontend,
    SetMaxconnGlobal,
    SetMaxconnServer,
    SetProfiling,
    SetRateLimit,
    SetServer,
    SetSeverity,
    SetTimeout,
    SetVar,
    SetWeight,
    ShowAcl,
    ShowActivity,
    ShowBackend,
    ShowCliLevel,
    ShowCliSockets,
    ShowEnv,
    ShowErrors,
    ShowFd,
    ShowInfo,
    ShowLibs,
    ShowMap,
    ShowPools,
    ShowProfiling,
    ShowSchema,
    ShowServersConn,
    ShowServersState,
    ShowSess,
    ShowStartupLogs,
    ShowStat,
    ShowTasks,
    ShowThreads,
    ShowVersion,
    ShutdownFrontend,
    ShutdownServerSessions,
    UnpublishBackend,
    User,
    Wait,
    /// Known to the reference, not here yet.
    Unsupported,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Command {
    /// What it does, for the dispatch.
    pub id: Id,
    /// The words that select it.
    pub words: &'static str,
    /// How it is shown: its words and arguments. Empty for one that `help` does not list.
    pub usage: &'static str,
    /// What it does, for people.
    pub text: &'static str,
    /// The level it needs, as in the reference. Where its arguments decide, each of them is a command of its own.
    pub level: CliLevel,
    /// What must have been switched on before it, whatever the level.
    pub mode: Mode,
    /// It is a form of another command, and no list has it.
    pub form: bool,
}

/// Whether a command works in every session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    Any,
    /// Only after `experimental-mode on`.
    Experimental,
    /// Only after `expert-mode on`.
    Expert,
}

/// The command whose words are the first ones of `words`, and how many they are; the one with most words wins.
pub fn find(words: &[String]) -> Option<(&'static Command, usize)> {
    let mut best: Option<(&Command, usize)> = None;
    for command in COMMANDS.iter().chain(ALWAYS) {
        let count = command.words.split(' ').count();
        let given = words.iter().map(String::as_str).take(count);
        if given.eq(command.words.split(' ')) && best.is_none_or(|(_, n)| n < count) {
            best = Some((command, count));
        }
    }
    best
}

/// The most commands suggested for one that does not exist.
const SUGGESTIONS_MAX: usize = 5;

/// The list that `help` and an unknown command show: all commands of a session in which `allowed` modes are on, or
/// those that look like `words`.
pub fn list(title: &str, words: &[String], allowed: impl Fn(Mode) -> bool) -> String {
    let mut text = format!("{title}\n");
    let shown = COMMANDS.iter().filter(|c| !c.usage.is_empty() && allowed(c.mode));
    let mut chosen: Vec<&Command> = if words.is_empty() { shown.collect() } else { similar(shown, words) };
    chosen.extend(ALWAYS);
    for command in chosen {
        let space = if command.usage.len() > 40 { " " } else { "" };
        text.push_str(&format!("  {:<40}{space}: {}\n", command.usage, command.text));
    }
    text
}

/// Commands that begin with all the words; else those that begin with the first ones; else those that look like them.
fn similar<'c>(commands: impl Iterator<Item = &'c Command>, words: &[String]) -> Vec<&'c Command> {
    let commands: Vec<&Command> = commands.collect();
    for taken in (1..=words.len()).rev() {
        let begins: Vec<&Command> = commands
            .iter()
            .copied()
            .filter(|c| c.words.split(' ').take(taken).eq(words.iter().map(String::as_str).take(taken)))
            .collect();
        // Some words lead somewhere, the next one does not: among those places, the ones it could have meant.
        if !begins.is_empty() && taken < words.len() {
            let near = nearest(&begins, words);
            return if near.is_empty() { begins } else { near };
        }
        if !begins.is_empty() {
            return begins;
        }
    }
    nearest(&commands, words)
}

/// The few commands whose words need the fewest changes.
fn nearest<'c>(commands: &[&'c Command], words: &[String]) -> Vec<&'c Command> {
    let distance = |c: &Command| {
        let count = c.words.split(' ').count();
        let typed: Vec<&str> = words.iter().map(String::as_str).take(count).collect();
        edits(&typed.join(" "), c.words)
    };
    let mut ranked: Vec<(usize, usize)> = commands
        .iter()
        .enumerate()
        .map(|(i, c)| (distance(c), i))
        .filter(|(d, i)| *d * 2 <= commands[*i].words.len())
        .collect();
    ranked.sort_unstable();
    // Something much further away than the best is not what was meant.
    let best = ranked.first().map_or(0, |(d, _)| *d);
    ranked.retain(|(d, _)| *d <= best + 1);
    ranked.truncate(SUGGESTIONS_MAX);
    ranked.sort_unstable_by_key(|(_, i)| *i);
    ranked.into_iter().map(|(_, i)| commands[i]).collect()
}

/// The longest text that is compared: a command and a little more.
const COMPARED_MAX: usize = 48;

/// Insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let a = &a.as_bytes()[..a.len().min(COMPARED_MAX)];
    let b = b.as_bytes();
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i.max(j)
            } else {
                let changed = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + changed);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|w| !w.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn the_longest_command_is_found() {
        for (text, expected) in [
            ("show info typed", Some((Id::ShowInfo, 2))),
            ("show servers state be", Some((Id::ShowServersState, 3))),
            ("show servers", None),
            ("quit", Some((Id::Quit, 1))),
            ("show table", Some((Id::Unsupported, 2))),
            ("", None),
        ] {
            assert_eq!(find(&words(text)).map(|(c, n)| (c.id, n)), expected, "{text}");
        }
    }

    #[test]
    fn near_misses_are_suggested() {
        for (text, expected, absent) in [
            ("shwo stat", "show stat ", "set weight"),
            ("show stats", "show stat ", "set weight"),
            ("show servers", "show servers state", "show stat "),
            ("set maxcon global", "set maxconn global", "show map"),
            ("qqqqqqqq", "quit", "show"),
        ] {
            let list = list("x", &words(text), |_| true);
            assert!(list.contains(expected) && !list.contains(absent), "{text}: {list}");
        }
        let all = list("title", &[], |mode| mode == Mode::Any);
        assert!(all.starts_with("title\n") && all.lines().count() > 50, "{all}");
        assert!(all.lines().skip(1).all(|l| l.len() > 42 && l.contains(": ")));
    }

    #[test]
    fn no_two_commands_have_the_same_words() {
        let mut all: Vec<_> = COMMANDS.iter().chain(ALWAYS).map(|c| c.words).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
