//! The command line (management manual, chapter 3).
//!
//! One pass over the arguments gives a [`Command`]; nothing is done here. Options HAProxy knows and this program
//! does not are refused by name: a start script must not believe that it got what it asked for.

use std::fmt;
use std::path::PathBuf;

use crate::report::Verbosity;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Show something and leave with success.
    Show(Shown),
    /// Evaluate a condition (`-cc`).
    Condition(String),
    /// Load a configuration, then check it or run it.
    Start(Box<Options>),
}

/// What is shown by an option that does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// `-v`: version and system.
    Version,
    /// `-vv`: also what is built in.
    Build,
    /// `-vq`: only the version.
    VersionOnly,
    /// `-vqs`: only the numbers of the version.
    ShortVersion,
    /// `-vqb`: only the branch.
    Branch,
    /// `-dMhelp`: the memory debugging options.
    MemoryOptions,
    /// `-h`, `--help`: every option, by task. Only under our own name: HAProxy has no such option.
    Help,
}

/// How the process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// Stay in the foreground unless the configuration says `daemon`.
    #[default]
    Default,
    /// `-D`: become a daemon.
    Daemon,
    /// `-db`: stay in the foreground whatever the configuration says.
    Foreground,
    /// `-d`: as `-db`, with debugging output.
    Debug,
}

/// Whether a master process watches over workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MasterMode {
    /// This process serves by itself.
    #[default]
    None,
    /// `-W`.
    Master,
    /// `-Ws`: and it tells the service manager how it does.
    Notifying,
}

/// What to tell the processes that are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldProcesses {
    /// `-sf`: finish.
    Finish,
    /// `-st`: leave at once.
    Terminate,
}

/// Everything `Command::Start` needs. Numbers that were not given are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--quickstart`: serve the example that is built in.
    pub quickstart: bool,
    /// Files and directories, in order.
    pub files: Vec<String>,
    /// `-C`: directory to change to before anything is read.
    pub directory: Option<PathBuf>,
    /// `-c`: check and leave.
    pub check: bool,
    /// `-d`, `-db`, `-D`.
    pub mode: RunMode,
    /// `-W` and `-Ws`.
    pub master: MasterMode,
    /// Each `-S`: address and options of the master CLI, with commas between them.
    pub master_cli: Vec<String>,
    /// `-q` and `-V`.
    pub verbosity: Verbosity,
    /// `-dD`: show suspicious statements.
    pub diagnostic_mode: bool,
    /// `-dW`: warnings are fatal.
    pub zero_warning: bool,
    /// `-L`: name of the local peer.
    pub local_peer: Option<String>,
    /// `-m`: megabytes of memory.
    pub memory_limit_mb: Option<u64>,
    /// `-n`: connections of the process.
    pub maxconn: Option<usize>,
    /// `-N`: connections of a proxy that does not say.
    pub proxy_maxconn: Option<u32>,
    /// `-p`: file to write the process id to.
    pub pid_file: Option<PathBuf>,
    /// `-sf` and `-st`: how, and which processes.
    pub old_processes: Option<(OldProcesses, Vec<u32>)>,
    /// `-x`: socket of the process to take listeners from.
    pub listeners_from: Option<PathBuf>,
    /// `-x /dev/null`: a reloading master does not let workers hand sockets over either.
    pub refuses_listeners: bool,
    /// `-dr`: a server whose name cannot be resolved does not prevent the start.
    pub ignore_resolution_failures: bool,
    /// `-dI`: allow forks, as `insecure-fork-wanted`.
    pub insecure_fork: bool,
    /// `-dK`: classes of keywords to list once the configuration is loaded.
    pub keyword_classes: Vec<String>,
    /// `-4`: resolve names to IPv4 addresses only.
    pub ipv4_only: bool,
    /// `-dV`, as `ssl-server-verify none`.
    pub no_server_verify: bool,
    /// `-dS`, as `nosplice`.
    pub no_splice: bool,
    /// `-dR`, as `noreuseport`.
    pub no_reuseport: bool,
    /// `-de`, as `noepoll`.
    pub no_epoll: bool,
    /// `-dp`, as `nopoll`.
    pub no_poll: bool,
    /// `-dG`, as `nogetaddrinfo`.
    pub no_getaddrinfo: bool,
    /// `-dF`, as `tune.disable-fast-forward`.
    pub no_fast_forward: bool,
    /// `-dZ`, as `tune.disable-zero-copy-forwarding`.
    pub no_zero_copy: bool,
}

/// Why the command line is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// Not understood: the usage is shown as well.
    Usage(Option<String>),
    /// Understood, and refused.
    Refused(String),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Usage(Some(message)) | CommandError::Refused(message) => f.write_str(message),
            CommandError::Usage(None) => f.write_str("no configuration file was given"),
        }
    }
}

/// Options HAProxy has and this program does not, each with what to say about it.
const NOT_SUPPORTED: [(&str, &str); 6] = [
    ("-dA", "collecting libraries into an archive is not supported: the program is a single file"),
    ("-dC", "dumping the configuration is not supported yet"),
    ("-dL", "listing loaded libraries is not supported: the program is a single file, see /proc/<pid>/maps"),
    ("-dc", "listing CPUs is not supported yet"),
    ("-dt", "traces are not supported yet"),
    ("-dT", "the kernel's TLS is not used, hence there is none to disable"),
];

/// Memory debugging options of `-dM`. Memory is never read before it is written in this program, so that none of
/// them has anything to change: they are accepted for scripts that pass them.
const MEMORY_OPTIONS: [&str; 18] = [
    "fail",
    "no-fail",
    "no-merge",
    "merge",
    "cold-first",
    "hot-first",
    "integrity",
    "no-integrity",
    "no-global",
    "global",
    "no-cache",
    "cache",
    "caller",
    "no-caller",
    "tag",
    "no-tag",
    "poison",
    "no-poison",
];

struct Arguments<I: Iterator<Item = String>> {
    rest: std::iter::Peekable<I>,
}

impl<I: Iterator<Item = String>> Arguments<I> {
    /// The value of an option; it may begin with a dash, as in the reference.
    fn value(&mut self, option: &str, what: &str) -> Result<String, CommandError> {
        self.rest.next().ok_or_else(|| CommandError::Usage(Some(format!("option '{option}' expects {what}"))))
    }

    fn number<N: std::str::FromStr>(&mut self, option: &str, what: &str) -> Result<N, CommandError> {
        let text = self.value(option, what)?;
        text.parse().map_err(|_| {
            CommandError::Refused(format!("option '{option}' expects {what}, which '{text}' is not"))
        })
    }

    /// The numbers of processes behind an option, up to the next option.
    fn processes(&mut self, option: &str) -> Result<Vec<u32>, CommandError> {
        let mut pids = Vec::new();
        while let Some(text) = self.rest.next_if(|next| !next.starts_with('-')) {
            let pid = text.parse().ok().filter(|pid| (1..=i32::MAX as u32).contains(pid));
            pids.push(pid.ok_or_else(|| {
                CommandError::Refused(format!(
                    "{option} option: some bytes unconsumed in PID list {{{text}}}"
                ))
            })?);
        }
        Ok(pids)
    }
}

/// Reads the arguments that follow the program's name.
/// In one piece, as it is the list of options.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, CommandError> {
    let mut arguments = Arguments { rest: arguments.into_iter().peekable() };
    let mut options = Options::default();
    let mut condition = None;
    while let Some(argument) = arguments.rest.next() {
        if let Some((_, why)) = NOT_SUPPORTED.iter().find(|(name, _)| {
            // -dA, -dC and -dt take a value without a space.
            *name == argument || (matches!(*name, "-dA" | "-dC" | "-dt") && argument.starts_with(name))
        }) {
            return Err(CommandError::Refused(format!("option '{argument}' : {why}")));
        }
        if let Some(shown) = Shown::asked_by(&argument) {
            return Ok(Command::Show(shown));
        }
        match argument.as_str() {
            "--" => {
                options.files.extend(arguments.rest.by_ref());
            }
            "--quickstart" => options.quickstart = true,
            "-f" => options.files.push(arguments.value("-f", "a configuration file or directory")?),
            "-C" => options.directory = Some(arguments.value("-C", "a directory")?.into()),
            "-c" => options.check = true,
            "-cc" => condition = Some(arguments.value("-cc", "a condition")?),
            "-d" => options.mode = RunMode::Debug,
            "-db" => options.mode = RunMode::Foreground,
            "-D" if options.mode == RunMode::Default => options.mode = RunMode::Daemon,
            // -d and -db win whatever the order.
            "-D" => {}
            "-W" if options.master == MasterMode::None => options.master = MasterMode::Master,
            "-W" => {}
            "-Ws" => options.master = MasterMode::Notifying,
            "-S" => options.master_cli.push(arguments.value("-S", "an address of the master CLI")?),
            "-q" => options.verbosity.quiet = true,
            "-V" => options.verbosity.verbose = true,
            "-L" => options.local_peer = Some(arguments.value("-L", "the name of the local peer")?),
            "-m" => options.memory_limit_mb = Some(arguments.number("-m", "a number of megabytes")?),
            "-n" => options.maxconn = Some(arguments.number("-n", "a number of connections")?),
            "-N" => options.proxy_maxconn = Some(arguments.number("-N", "a number of connections")?),
            "-p" => options.pid_file = Some(arguments.value("-p", "a file for the process id")?.into()),
            "-x" => {
                let path = arguments.rest.next();
                let path = path.ok_or_else(|| {
                    CommandError::Usage(Some("Unix socket path expected with the -x flag".into()))
                })?;
                options.refuses_listeners = path == "/dev/null";
                options.listeners_from = (path != "/dev/null").then(|| path.into());
            }
            "-sf" | "-st" => {
                let pids = arguments.processes(&argument)?;
                let how = if argument == "-sf" { OldProcesses::Finish } else { OldProcesses::Terminate };
                // Repeated lists add up; the last option says how.
                let mut all = options.old_processes.take().map_or(Vec::new(), |(_, pids)| pids);
                all.extend(pids);
                options.old_processes = Some((how, all));
            }
            "-4" => options.ipv4_only = true,
            "-dD" => options.diagnostic_mode = true,
            "-dW" => options.zero_warning = true,
            "-dI" => options.insecure_fork = true,
            "-dr" => options.ignore_resolution_failures = true,
            "-dV" => options.no_server_verify = true,
            "-dS" => options.no_splice = true,
            "-dR" => options.no_reuseport = true,
            "-de" => options.no_epoll = true,
            "-dp" => options.no_poll = true,
            "-dG" => options.no_getaddrinfo = true,
            "-dF" => options.no_fast_forward = true,
            "-dZ" => options.no_zero_copy = true,
            // Pollers of other systems: not there, hence already disabled.
            "-dk" | "-dv" => {}
            _ => {
                if let Some(text) = argument.strip_prefix("-dM") {
                    if memory_options(text)? {
                        return Ok(Command::Show(Shown::MemoryOptions));
                    }
                } else if let Some(classes) = argument.strip_prefix("-dK").filter(|c| !c.is_empty()) {
                    // The last one counts, as with other options.
                    options.keyword_classes = classes.split(',').map(str::to_string).collect();
                } else {
                    return Err(CommandError::Usage(Some(unknown(&argument))));
                }
            }
        }
    }
    if let Some(condition) = condition {
        return Ok(Command::Condition(condition));
    }
    options.agree()?;
    Ok(Command::Start(Box::new(options)))
}

impl Options {
    /// Checks what depends on several options.
    fn agree(&mut self) -> Result<(), CommandError> {
        // The service manager knows the process that it started: `daemon` in the configuration must not replace it.
        if self.master == MasterMode::Notifying && self.mode == RunMode::Default {
            self.mode = RunMode::Foreground;
        }
        if !self.master_cli.is_empty() && self.master == MasterMode::None {
            return Err(CommandError::Refused(
                "a master CLI socket was defined, but master-worker mode (-W) is not enabled.".into(),
            ));
        }
        if self.files.is_empty() && !self.quickstart {
            return Err(CommandError::Usage(None));
        }
        Ok(())
    }
}

impl Shown {
    /// What an option asks to be shown, if that is all it does.
    fn asked_by(option: &str) -> Option<Shown> {
        Some(match option {
            "-v" => Shown::Version,
            "-vv" => Shown::Build,
            "-vq" => Shown::VersionOnly,
            "-vqs" => Shown::ShortVersion,
            "-vqb" => Shown::Branch,
            "-h" | "--help" => Shown::Help,
            _ => return None,
        })
    }
}

/// The complaint about a word that is no option.
pub fn unknown(argument: &str) -> String {
    if argument.starts_with('-') {
        format!("unknown option '{argument}'")
    } else {
        format!("unexpected argument '{argument}'; configuration files come after '-f' or '--'")
    }
}

/// Checks what follows `-dM`: `[<byte>[,]][option,...]`. Returns whether help was asked for.
fn memory_options(text: &str) -> Result<bool, CommandError> {
    for (index, word) in text.split(',').enumerate() {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let is_byte = match digits {
            Some(digits) => u8::from_str_radix(digits, 16).is_ok(),
            None => word.parse::<u8>().is_ok(),
        };
        match word {
            "help" => return Ok(true),
            "" => {}
            _ if index == 0 && is_byte => {}
            "fail" => {
                let message = "-dM: 'fail' is not supported: an allocation that fails ends the process";
                return Err(CommandError::Refused(message.into()));
            }
            _ if MEMORY_OPTIONS.contains(&word) => {}
            _ => {
                let message = format!("-dM: unknown pool debugging feature <{word}>");
                return Err(CommandError::Refused(message));
            }
        }
    }
    Ok(false)
}

/// What `-dMhelp` shows.
pub const MEMORY_HELP: &str = "\
-dM[<byte>][,<option>]* debugs memory in HAProxy. This program never reads memory it has not written,
so there is nothing to poison or to check: these options are accepted and change nothing.

    fail no-fail no-merge merge cold-first hot-first integrity no-integrity no-global global
    no-cache cache caller no-caller tag no-tag poison no-poison

Only 'fail' (let allocations fail at random) is refused.
";

/// The options by task: the title, then each option with what it does.
pub const HELP: [(&str, &[(&str, &str)]); 7] = [
    (
        "Configuration",
        &[
            (
                "-f <file|directory>",
                "read a file, or the '.cfg' files of a directory in order; may be repeated",
            ),
            ("-- <file>...", "read these files"),
            ("--quickstart", "serve the example that is built in, on 127.0.0.1:8080"),
            ("-C <directory>", "change to this directory first"),
            ("-L <name>", "name of the local peer (default: name of the host)"),
        ],
    ),
    (
        "Check",
        &[
            ("-c", "check the configuration and leave: 0 if it is valid, 1 if not"),
            ("-V", "say what goes well, too"),
            ("-q", "print no message"),
            ("-dW", "warnings are fatal"),
            ("-dD", "also report suspicious statements"),
            ("-cc <condition>", "evaluate a condition as in '.if': 0 if true, 1 if false, 2 if wrong"),
        ],
    ),
    (
        "Run",
        &[
            ("-D", "become a daemon"),
            ("-db", "stay in the foreground"),
            ("-d", "stay in the foreground, with debugging output"),
            ("-p <file>", "write the process id to this file"),
            ("-W", "let a master start, reload (SIGUSR2) and replace the process that serves"),
            ("-Ws", "the same, and tell the service manager (systemd, Type=notify)"),
            ("-S <address>[,...]", "CLI of the master; behind commas the options of 'bind'"),
        ],
    ),
    (
        "Replace a running process",
        &[
            ("-sf <pid>...", "tell these processes to finish once this one is ready"),
            ("-st <pid>...", "tell them to leave at once"),
            ("-x <socket>", "take the listening sockets of the process with this stats socket"),
        ],
    ),
    (
        "Limits",
        &[
            ("-n <number>", "most connections of the process"),
            ("-N <number>", "most connections of a proxy that has no limit of its own"),
            ("-m <megabytes>", "most memory"),
        ],
    ),
    (
        "Do without",
        &[
            ("-4", "accept IPv4 addresses only from resolvers"),
            ("-dr", "start although names of servers cannot be resolved"),
            ("-de, -dp", "no epoll, no poll"),
            ("-dV", "servers are not verified that do not say"),
            ("-dS, -dF, -dZ", "no splice, no fast-forward, no zero-copy"),
            ("-dR", "no SO_REUSEPORT"),
            ("-dG", "no getaddrinfo"),
            ("-dI", "allow forks (external checks)"),
        ],
    ),
    (
        "Look",
        &[
            ("-v, -vv", "show the version; also what is built in"),
            ("-vq, -vqs, -vqb", "show only the version, its numbers, its branch"),
            ("-dK<class>,...", "list keywords (see -dKhelp)"),
            ("-dM[...]", "accepted for HAProxy's sake and does nothing (see -dMhelp)"),
            ("-h, --help", "show this"),
        ],
    ),
];

/// What `--help` shows.
pub fn help(name: &str) -> String {
    let mut text = format!(
        "Usage: {name} -f <file|directory>... [options]\n       {name} -c -f <file|directory>...\n\n\
         A load balancer and reverse proxy that reads HAProxy's configuration and command line.\n"
    );
    for (title, options) in HELP {
        text.push_str(&format!("\n{title}:\n"));
        for (option, what) in options {
            text.push_str(&format!("  {option:<20} {what}\n"));
        }
    }
    text.push_str("\nCommands (each has --help):\n");
    for tool in crate::tools::TOOLS {
        text.push_str(&format!("  {:<20} {}\n", format!("{name} {}", tool.name), tool.text));
    }
    text.push_str("\nMessages are coloured on a terminal unless NO_COLOR is set.\n");
    text
}

/// The usage, without the version lines above it.
pub fn usage(name: &str) -> String {
    let indent = " ".repeat(8);
    let mut text = format!(
        "Usage : {name} [-f <cfgfile|cfgdir>]* [ -vdVD ] [ -n <maxconn> ] [ -N <maxpconn> ]\n{indent}[ -p <pidfile> ] \
         [ -m <max megs> ] [ -C <dir> ] [-- <cfgfile>*]\n"
    );
    for line in [
        "-v shows the version ; -vv also what is built in ; -vq/-vqs/-vqb only the version, its numbers, its branch",
        "-c checks the configuration and leaves ; -V says that it is valid ; -q says nothing at all",
        "-cc <condition> evaluates a condition as in '.if' and leaves with 0 if true, 1 if false, 2 if wrong",
        "-f <file|directory> reads a file, or the '.cfg' files of a directory ; repeat it, or list files after '--'",
        "--quickstart serves the example that is built in, on 127.0.0.1:8080",
        "-C <dir> changes to <dir> first",
        "-D becomes a daemon ; -db stays in the foreground ; -d too, with debugging output",
        "-n <n> limits the connections of the process, -N <n> those of each proxy that has no limit",
        "-m <n> limits memory to <n> megabytes",
        "-L <name> sets the name of the local peer (default: name of the host)",
        "-W starts a master that starts, reloads (SIGUSR2) and replaces the process that serves ; -Ws tells systemd, too",
        "-S <address>[,<option>...] is where the master's CLI listens",
        "-p <file> writes the process id to <file>",
        "-sf/-st <pid>* tells old processes to finish / to leave once this one is ready",
        "-x <socket> takes the listening sockets of the process that has this stats socket",
        "-4 accepts IPv4 addresses only from resolvers ; -dr ignores servers that cannot be resolved",
        "-dW makes warnings fatal ; -dD also reports suspicious statements",
        "-dK<class,...> lists keywords (see -dKhelp)",
        "-dI allows forks (external checks) ; -dM[...] is accepted and does nothing (see -dMhelp)",
        "-dV does not verify servers whose line does not say (as 'ssl-server-verify none')",
        "-de, -dp, -dS, -dG, -dR, -dF, -dZ do without epoll, poll, splice, getaddrinfo, SO_REUSEPORT,",
        "   fast-forward, zero-copy",
    ] {
        text.push_str(&indent);
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Result<Command, CommandError> {
        parse(line.split_whitespace().map(str::to_string))
    }

    fn options(line: &str) -> Options {
        match command(line) {
            Ok(Command::Start(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_option_does_what_it_says() {
        let base = || Options { files: vec!["a".into()], ..Options::default() };
        let check = |line: &str, expected: Options| assert_eq!(options(line), expected, "{line}");
        check("-f a", base());
        check(
            "-f a -f b -- c -d",
            Options { files: ["a", "b", "c", "-d"].map(String::from).to_vec(), ..base() },
        );
        check(
            "-f a -c -V",
            Options { check: true, verbosity: Verbosity { quiet: false, verbose: true }, ..base() },
        );
        check("-f a -q", Options { verbosity: Verbosity { quiet: true, verbose: false }, ..base() });
        check("-f a -d", Options { mode: RunMode::Debug, ..base() });
        check("-f a -db", Options { mode: RunMode::Foreground, ..base() });
        check("-f a -D", Options { mode: RunMode::Daemon, ..base() });
        check("-f a -D -db", Options { mode: RunMode::Foreground, ..base() });
        check("-f a -db -D", Options { mode: RunMode::Foreground, ..base() });
        check("-f a -W", Options { master: MasterMode::Master, ..base() });
        let notifying = || Options { master: MasterMode::Notifying, mode: RunMode::Foreground, ..base() };
        check("-f a -Ws -W", notifying());
        check("-f a -D -Ws", Options { mode: RunMode::Daemon, ..notifying() });
        check("-f a -Ws -D", Options { mode: RunMode::Daemon, ..notifying() });
        check(
            "-f a -W -S /a,level,user",
            Options { master: MasterMode::Master, master_cli: vec!["/a,level,user".into()], ..base() },
        );
        check("-f a -C /tmp", Options { directory: Some("/tmp".into()), ..base() });
        check(
            "-f a -L b -m 256 -n 10 -N 20 -p x",
            Options {
                local_peer: Some("b".into()),
                memory_limit_mb: Some(256),
                maxconn: Some(10),
                proxy_maxconn: Some(20),
                pid_file: Some("x".into()),
                ..base()
            },
        );
        check("-f a -L -c", Options { local_peer: Some("-c".into()), ..base() });
        check("-sf 1 2 -f a", Options { old_processes: Some((OldProcesses::Finish, vec![1, 2])), ..base() });
        check(
            "-f a -st 3 -st",
            Options { old_processes: Some((OldProcesses::Terminate, vec![3])), ..base() },
        );
        check("-f a -sf", Options { old_processes: Some((OldProcesses::Finish, vec![])), ..base() });
        check("-f a -x /s", Options { listeners_from: Some("/s".into()), ..base() });
        check("-f a -x /dev/null", Options { refuses_listeners: true, ..base() });
        check(
            "-f a -dr -dI -dW -dD -4",
            Options {
                ignore_resolution_failures: true,
                insecure_fork: true,
                zero_warning: true,
                diagnostic_mode: true,
                ipv4_only: true,
                ..base()
            },
        );
        check(
            "-f a -dS -dR -de -dp -dG -dF -dZ -dk -dv -dV",
            Options {
                no_server_verify: true,
                no_splice: true,
                no_reuseport: true,
                no_epoll: true,
                no_poll: true,
                no_getaddrinfo: true,
                no_fast_forward: true,
                no_zero_copy: true,
                ..base()
            },
        );
        check("-dKall,cfg -f a", Options { keyword_classes: vec!["all".into(), "cfg".into()], ..base() });
        for memory in ["-dM", "-dM0", "-dM0x41", "-dM80,tag,no-merge", "-dMno-fail", "-dMpoison,"] {
            check(&format!("-f a {memory}"), base());
        }
    }

    #[test]
    fn what_only_shows_something_wins_at_once() {
        for (line, expected) in [
            ("-v", Shown::Version),
            ("-dM -dI -dW -vv", Shown::Build),
            ("-vq", Shown::VersionOnly),
            ("-vqs -f", Shown::ShortVersion),
            ("-cc 0 -vqb", Shown::Branch),
            ("-dMhelp", Shown::MemoryOptions),
        ] {
            assert_eq!(command(line), Ok(Command::Show(expected)), "{line}");
        }
        assert_eq!(command("-dM -cc feature(X) -f a"), Ok(Command::Condition("feature(X)".into())));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |line: &str, usage: bool, expected: &str| {
            let error = command(line).unwrap_err();
            assert_eq!(matches!(error, CommandError::Usage(_)), usage, "{line}");
            assert_eq!(error.to_string(), expected, "{line}");
        };
        check("", true, "no configuration file was given");
        check("-c --", true, "no configuration file was given");
        check("-Z", true, "unknown option '-Z'");
        check("-", true, "unknown option '-'");
        check("-dK", true, "unknown option '-dK'");
        check("a.cfg", true, "unexpected argument 'a.cfg'; configuration files come after '-f' or '--'");
        check("-f", true, "option '-f' expects a configuration file or directory");
        check("-cc", true, "option '-cc' expects a condition");
        check("-x", true, "Unix socket path expected with the -x flag");
        check("-f a -n 1x", false, "option '-n' expects a number of connections, which '1x' is not");
        check("-f a -m -1", false, "option '-m' expects a number of megabytes, which '-1' is not");
        check("-f a -sf abc", false, "-sf option: some bytes unconsumed in PID list {abc}");
        check("-f a -st 0", false, "-st option: some bytes unconsumed in PID list {0}");
        check("-dMx -f a", false, "-dM: unknown pool debugging feature <x>");
        check("-dM256 -f a", false, "-dM: unknown pool debugging feature <256>");
        check("-dMfail", false, "-dM: 'fail' is not supported: an allocation that fails ends the process");
        check(
            "-f a -S x",
            false,
            "a master CLI socket was defined, but master-worker mode (-W) is not enabled.",
        );
        for option in ["-dA", "-dA/tmp/x", "-dC", "-dC12", "-dL", "-dt", "-dth1", "-dT", "-dc"] {
            let error = command(&format!("-f a {option}")).unwrap_err();
            assert!(matches!(error, CommandError::Refused(_)), "{option}");
            assert!(error.to_string().starts_with(&format!("option '{option}' : ")), "{option}");
        }
    }

    #[test]
    fn the_help_knows_every_option() {
        let text = help("thalweg");
        assert!(text.starts_with("Usage: thalweg -f <file|directory>... [options]\n"));
        assert!(text.lines().all(|line| line.len() <= 100));
        // Every option of the usage, the other list, is explained.
        let word = |text: &str, option: &str| {
            text.split(|c: char| c.is_whitespace() || matches!(c, ',' | '/' | ';' | '[' | '<'))
                .any(|w| w == option)
        };
        let usage = usage("thalweg");
        for line in usage.lines().skip(2) {
            for option in line.split(|c: char| c.is_whitespace() || matches!(c, ',' | '/' | ';' | '[' | '<'))
            {
                if option.starts_with('-') && option.len() > 1 {
                    assert!(word(&text, option), "{option}");
                }
            }
        }
    }

    #[test]
    fn the_usage_fits_a_terminal_and_names_the_program() {
        let text = usage("haproxy");
        assert!(text.starts_with("Usage : haproxy [-f <cfgfile|cfgdir>]* [ -vdVD ]"));
        assert!(text.lines().all(|line| line.len() <= 120));
    }
}
