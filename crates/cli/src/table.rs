//! Every command: its words, its usage, its rights. `help`, "did you mean" and the dispatch derive from it.

use thalweg_config::model::CliLevel::{self, Admin, Operator, User};

/// A command, for the dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Id {
    AddAcl,
    AddMap,
    ClearAcl,
    ClearCounters,
    ClearMap,
    CommitAcl,
    CommitMap,
    DelAcl,
    DelMap,
    DisableFrontend,
    DisableServer,
    Echo,
    EnableFrontend,
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
    ShowInfo,
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
    /// The level it needs.
    pub level: CliLevel,
    /// It needs `experimental-mode on`.
    pub experimental: bool,
}

const fn works(
    id: Id,
    words: &'static str,
    usage: &'static str,
    text: &'static str,
    level: CliLevel,
) -> Command {
    Command { id, words, usage, text, level, experimental: false }
}

const fn experimental(id: Id, words: &'static str, level: CliLevel) -> Command {
    Command { id, words, usage: "", text: "", level, experimental: true }
}

const fn not_yet(words: &'static str) -> Command {
    Command { id: Id::Unsupported, words, usage: "", text: "", level: User, experimental: false }
}

/// All commands, in the order of `help`.
pub static COMMANDS: &[Command] = &[
    works(Id::AddAcl, "add acl", "add acl [@<ver>] <acl> <pattern>", "add a pattern to an ACL", Operator),
    works(
        Id::AddMap,
        "add map",
        "add map [@<ver>] <map> <key> <val>",
        "add an entry to a map (or a payload of entries)",
        Operator,
    ),
    works(Id::ClearAcl, "clear acl", "clear acl [@<ver>] <acl>", "remove all patterns of an ACL", Operator),
    works(
        Id::ClearCounters,
        "clear counters",
        "clear counters [all|server <bk>/<srv> [force]]",
        "reset the maxima, or all counters, or those of a server",
        Operator,
    ),
    works(Id::ClearMap, "clear map", "clear map [@<ver>] <map>", "remove all entries of a map", Operator),
    works(Id::CommitAcl, "commit acl", "commit acl @<ver> <acl>", "put a prepared ACL in place", Operator),
    works(Id::CommitMap, "commit map", "commit map @<ver> <map>", "put a prepared map in place", Operator),
    works(Id::DelAcl, "del acl", "del acl <acl> [<key>|#<ref>]", "remove patterns of an ACL", Operator),
    works(Id::DelMap, "del map", "del map <map> [<key>|#<ref>]", "remove entries of a map", Operator),
    works(
        Id::DisableFrontend,
        "disable frontend",
        "disable frontend <frontend>",
        "stop accepting connections for a while",
        Admin,
    ),
    works(
        Id::DisableServer,
        "disable server",
        "disable server (DEPRECATED)",
        "put a server into maintenance (rather: 'set server')",
        Admin,
    ),
    works(Id::Echo, "echo", "echo <text>", "answer with a text", User),
    works(
        Id::EnableFrontend,
        "enable frontend",
        "enable frontend <frontend>",
        "accept connections again",
        Admin,
    ),
    works(
        Id::EnableServer,
        "enable server",
        "enable server  (DEPRECATED)",
        "end a server's maintenance (rather: 'set server')",
        Admin,
    ),
    Command {
        id: Id::Experimental,
        words: "experimental-mode",
        usage: "",
        text: "allow commands that may still change",
        level: Admin,
        experimental: false,
    },
    Command {
        id: Id::Expert,
        words: "expert-mode",
        usage: "",
        text: "allow commands that are dangerous",
        level: Admin,
        experimental: false,
    },
    works(
        Id::GetAcl,
        "get acl",
        "get acl <acl> <value>",
        "show which pattern of an ACL matches a value",
        User,
    ),
    works(Id::GetMap, "get map", "get map <map> <value>", "show which entry of a map matches a value", User),
    works(Id::GetVar, "get var", "get var <name>", "show a variable of the process", User),
    works(Id::GetWeight, "get weight", "get weight <bk>/<srv>", "show the weight of a server", User),
    works(Id::GetSocks, "_getsocks", "", "", User),
    works(Id::Operator, "operator", "operator", "go on with the rights of an operator", User),
    works(Id::PrepareAcl, "prepare acl", "prepare acl <acl>", "begin a new version of an ACL", Operator),
    works(Id::PrepareMap, "prepare map", "prepare map <map>", "begin a new version of a map", Operator),
    works(
        Id::PublishBackend,
        "publish backend",
        "publish backend <backend>",
        "let switching rules choose a backend",
        Admin,
    ),
    works(
        Id::SetMap,
        "set map",
        "set map <map> [<key>|#<ref>] <value>",
        "change the value of entries of a map",
        Operator,
    ),
    works(
        Id::SetMaxconnFrontend,
        "set maxconn frontend",
        "set maxconn frontend <frontend> <value>",
        "change the connection limit of a frontend",
        Operator,
    ),
    works(
        Id::SetMaxconnGlobal,
        "set maxconn global",
        "set maxconn global <value>",
        "change the connection limit of the process",
        Operator,
    ),
    works(
        Id::SetMaxconnServer,
        "set maxconn server",
        "set maxconn server <bk>/<srv>",
        "change the request limit of a server",
        Operator,
    ),
    works(
        Id::SetProfiling,
        "set profiling",
        "set profiling <what> {auto|on|off}",
        "switch the measurement of tasks",
        Operator,
    ),
    works(
        Id::SetServer,
        "set server",
        "set server <bk>/<srv> [opts]",
        "change the state, health, weight or address of a server",
        Admin,
    ),
    works(
        Id::SetSeverity,
        "set severity-output",
        "set severity-output [none|number|string]",
        "show how serious a message is",
        User,
    ),
    works(
        Id::SetTimeout,
        "set timeout",
        "set timeout [cli] <delay>",
        "change the timeout of this session",
        User,
    ),
    experimental(Id::SetVar, "set var", Operator),
    works(
        Id::SetWeight,
        "set weight",
        "set weight <bk>/<srv>  (DEPRECATED)",
        "change the weight of a server (rather: 'set server')",
        Admin,
    ),
    works(Id::ShowAcl, "show acl", "show acl [@<ver>] <acl>", "list the ACLs, or the patterns of one", User),
    works(
        Id::ShowActivity,
        "show activity",
        "show activity [-1|0|thread_num]",
        "show what each thread did (for developers)",
        Operator,
    ),
    works(Id::ShowBackend, "show backend", "show backend", "list the backends", User),
    works(Id::ShowCliLevel, "show cli level", "show cli level", "show the rights of this session", User),
    works(Id::ShowCliSockets, "show cli sockets", "show cli sockets", "list the sockets of the CLI", User),
    works(Id::ShowEnv, "show env", "show env [var]", "list the environment of the process", Operator),
    works(
        Id::ShowErrors,
        "show errors",
        "show errors [<px>] [request|response]",
        "show the last message that was not understood, by proxy",
        Operator,
    ),
    works(
        Id::ShowInfo,
        "show info",
        "show info [desc|json|typed|float]*",
        "show figures of the process",
        User,
    ),
    works(Id::ShowMap, "show map", "show map [@<ver>] [map]", "list the maps, or the entries of one", User),
    works(
        Id::ShowPools,
        "show pools",
        "show pools [by*] [match <pfx>] [nb]",
        "show what the memory pools hold",
        User,
    ),
    works(
        Id::ShowProfiling,
        "show profiling",
        "show profiling [<what>|<#lines>|<opts>]*",
        "show what each kind of task costs",
        Operator,
    ),
    works(
        Id::ShowSchema,
        "show schema json",
        "show schema json",
        "show the JSON schema of the statistics",
        User,
    ),
    works(
        Id::ShowServersConn,
        "show servers conn",
        "show servers conn [<backend>]",
        "show the connections to servers",
        User,
    ),
    works(
        Id::ShowServersState,
        "show servers state",
        "show servers state [<backend>]",
        "show the live state of servers, as a state file holds it",
        User,
    ),
    works(
        Id::ShowSess,
        "show sess",
        "show sess [help|<id>|all] [opts...]",
        "list the current sessions, or one in detail",
        Operator,
    ),
    works(
        Id::ShowStartupLogs,
        "show startup-logs",
        "show startup-logs",
        "show what was said while starting",
        User,
    ),
    works(
        Id::ShowStat,
        "show stat",
        "show stat [desc|json|no-maint|typed|up]*",
        "show the counters of proxies and servers",
        User,
    ),
    works(Id::ShowTasks, "show tasks", "show tasks", "show the tasks that wait for a thread", Operator),
    works(Id::ShowThreads, "show threads", "show threads", "show what each thread does now", Operator),
    works(Id::ShowVersion, "show version", "show version", "show the version of this process", User),
    works(
        Id::ShutdownFrontend,
        "shutdown frontend",
        "shutdown frontend <frontend>",
        "close the listeners of a frontend for good",
        Admin,
    ),
    works(
        Id::UnpublishBackend,
        "unpublish backend",
        "unpublish backend <backend>",
        "keep switching rules from choosing a backend",
        Admin,
    ),
    works(Id::User, "user", "user", "go on with the rights of a user", User),
    works(
        Id::Wait,
        "wait",
        "wait {-h|<delay_ms>} cond [args...]",
        "wait for a delay or a condition (-h lists them)",
        User,
    ),
    not_yet("abort ssl ca-file"),
    not_yet("abort ssl cert"),
    not_yet("abort ssl crl-file"),
    not_yet("acme"),
    not_yet("add backend"),
    not_yet("add server"),
    not_yet("add ssl"),
    not_yet("clear table"),
    not_yet("commit ssl"),
    not_yet("debug"),
    not_yet("del backend"),
    not_yet("del server"),
    not_yet("del ssl"),
    not_yet("disable agent"),
    not_yet("disable dynamic-cookie"),
    not_yet("disable health"),
    not_yet("dump ssl"),
    not_yet("dump stats-file"),
    not_yet("enable agent"),
    not_yet("enable dynamic-cookie"),
    not_yet("enable health"),
    not_yet("httpclient"),
    not_yet("new ssl"),
    not_yet("set anon"),
    not_yet("set dynamic-cookie-key"),
    not_yet("set rate-limit"),
    not_yet("set ssl"),
    not_yet("set table"),
    not_yet("show anon"),
    not_yet("show cache"),
    not_yet("show default-server"),
    not_yet("show defaults"),
    not_yet("show dev"),
    not_yet("show events"),
    not_yet("show fd"),
    not_yet("show libs"),
    not_yet("show peers"),
    not_yet("show quic"),
    not_yet("show resolvers"),
    not_yet("show ssl"),
    not_yet("show table"),
    not_yet("show tls-keys"),
    not_yet("show trace"),
    not_yet("shutdown session"),
    not_yet("shutdown sessions"),
    not_yet("trace"),
    not_yet("update ssl"),
];

/// Commands that end every list.
pub static ALWAYS: &[Command] = &[
    works(Id::Help, "help", "help [<command>]", "list all commands, or those that look like one", User),
    works(
        Id::Prompt,
        "prompt",
        "prompt [help | n | i | p | timed ]*",
        "go on after each line, with or without a prompt",
        User,
    ),
    works(Id::Quit, "quit", "quit", "end the session", User),
];

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

/// The list that `help` and an unknown command show: all commands, or those that look like `words`.
pub fn list(title: &str, words: &[String]) -> String {
    let mut text = format!("{title}\n");
    let shown = COMMANDS.iter().filter(|c| !c.usage.is_empty());
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
            let list = list("x", &words(text));
            assert!(list.contains(expected) && !list.contains(absent), "{text}: {list}");
        }
        let all = list("title", &[]);
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
