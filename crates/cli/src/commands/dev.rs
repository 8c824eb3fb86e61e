//! For developers: `show dev`, what they ask for first (the program, the machine, the limits), and `debug dev log`.

use thalweg_config::model::CliLevel::{Admin, User};
use thalweg_config::model::LogLevel;

use crate::anonymous;
use crate::command::{Call, Command, Mode, Run};
use crate::json::Shape;
use crate::machine::read;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show dev", User, Run::Now(show))
        .help("", "show the program, the machine and the limits")
        .json(|_| Shape::Lines),
    Command::new("debug dev log", Admin, Run::Now(log))
        .help("   [msg] ...", "send this message to the global log targets")
        .only(Mode::Expert),
];

/// The words of the message come with one space between them, as in the reference.
fn log(call: Call<'_>) -> Reply {
    if let Some(worker) = crate::worker() {
        worker.log_globally(LogLevel::Info, call.args.join(" ").as_bytes());
    }
    Reply::Done
}

fn show(call: Call<'_>) -> Reply {
    let (cli, key) = (call.cli(), call.session.anon_key);
    let mut text = format!("{} version {}\n", cli.product, cli.version);
    let mut section = |title: &str, fields: Vec<(String, String)>| {
        text.push_str(&format!("{title}:\n"));
        // What the system does not say is left out.
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("  {name}: {value}\n"));
        }
    };
    let field = |name: &str, value: String| (name.to_owned(), value);
    let kernel = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
    let system = read("/etc/os-release");
    let pretty = value_of(&system, "PRETTY_NAME", '=').trim_matches('"').to_owned();
    section(
        "Platform info",
        vec![
            field("cpu model", value_of(&read("/proc/cpuinfo"), "model name", ':')),
            field("OS name", kernel("ostype")),
            field("OS release", kernel("osrelease")),
            field("OS version", kernel("version")),
            field("OS architecture", std::env::consts::ARCH.to_owned()),
            field("node name", anonymous::text(key, &cli.live.hostname).into_owned()),
            field("distro pretty name", anonymous::text(key, &pretty).into_owned()),
        ],
    );
    let (status, limits) = (read("/proc/self/status"), read("/proc/self/limits"));
    let command = read("/proc/self/cmdline").replace('\0', " ");
    let limit = |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
    let column = |text: &str, nth: usize| text.split_whitespace().nth(nth).unwrap_or("").to_owned();
    let (files, memory) = (limit("Max open files"), limit("Max address space"));
    section(
        "Process info",
        vec![
            field("pid", std::process::id().to_string()),
            field("cmdline", anonymous::text(key, command.trim_end()).into_owned()),
            field("uid", thalweg_sys::process::effective_user().to_string()),
            field("gid", column(&value_of(&status, "Gid", ':'), 1)),
            field("capabilities", value_of(&status, "CapEff", ':')),
            field("fd limit (soft)", column(&files, 0)),
            field("fd limit (hard)", column(&files, 1)),
            field("ram limit (soft)", column(&memory, 0)),
            field("ram limit (hard)", column(&memory, 1)),
            field("threads", thalweg_runtime::thread_count().to_string()),
        ],
    );
    Reply::Text(text)
}

/// What follows a name and a separator on the first line that has them.
fn value_of(text: &str, name: &str, separator: char) -> String {
    let values = text.lines().filter_map(|line| line.split_once(separator));
    values
        .filter(|(found, _)| found.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .next()
        .unwrap_or_default()
}
