//! What the CLI of a worker and that of a master show alike.

use thalweg_config::model::CliLevel;
use thalweg_syntax::Environment;
use thalweg_syntax::carry::carry;

/// `show env`: one variable, `None` where there is none of this name, or all. Bytes that are not UTF-8 are carried
/// ([`thalweg_syntax::carry`]).
pub fn environment(environment: &Environment, name: Option<&str>) -> Option<String> {
    let line = |name: &[u8], value: &[u8]| format!("{}={}\n", carry(name), carry(value));
    match name {
        Some(name) => environment.get(name).map(|value| line(name.as_bytes(), value)),
        None => Some(environment.iter().map(|(name, value)| line(name, value)).collect()),
    }
}

/// `show cli sockets`: names and levels.
pub fn sockets<'s>(sockets: impl Iterator<Item = (&'s str, CliLevel)>) -> String {
    let rows = sockets.map(|(name, level)| format!("{name} {} all\n", crate::level_name(level)));
    std::iter::once("# socket lvl processes\n".to_owned()).chain(rows).collect()
}

/// The uptime in a prompt, without its brackets: `1:02:03:04`.
pub fn prompt_time(seconds: u64) -> String {
    let (days, hours) = (seconds / 86400, seconds / 3600 % 24);
    format!("{days}:{hours:02}:{:02}:{:02}", seconds / 60 % 60, seconds % 60)
}
