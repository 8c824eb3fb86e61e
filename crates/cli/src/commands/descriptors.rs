//! `show fd`: the open descriptors of the process (management manual, section 9.3).
//!
//! The kernel is asked about each number, not `/proc`, which a process does not see in its `chroot`.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use thalweg_config::model::CliLevel::Operator;
use thalweg_runtime::net::SockAddr;
use thalweg_runtime::net::descriptor::{Open, of_number};

use crate::anonymous;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show fd", Operator, Run::Waiting(|call| Box::pin(show(call))))
        .help("[-!plcfbs]* [num]", "list the open descriptors, of some kinds only, or one")
        .json(|_| Shape::Pairs)
        .lacks("what the poller knows")];

/// The largest number of a descriptor where the kernel says no limit.
const NUMBER_MAX: u64 = 1 << 20;

/// Numbers that are tried between two looks at whether others want to run.
const NUMBERS_PER_ROW: i32 = 64;

/// What a descriptor is for. Each is a bit of a [`Filter`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pipe = 1,
    Listener = 2,
    Frontend = 4,
    Backend = 8,
    Other = 16,
}

impl Kind {
    fn name(self, open: &Open) -> &'static str {
        match (self, open) {
            (Kind::Pipe, _) => "pipe",
            (Kind::Listener, _) => "listener",
            (Kind::Frontend, _) => "front",
            (Kind::Backend, _) => "back",
            (Kind::Other, Open::File(kind)) => kind,
            (Kind::Other, _) => "socket",
        }
    }
}

/// Which descriptors are shown.
struct Filter {
    kinds: u8,
    number: Option<i32>,
}

impl Filter {
    /// Letters choose kinds, behind `-` or `!` they leave them out; the last word may be a number, or `<tgid>/<number>`.
    fn parse(args: &[&str]) -> Option<Filter> {
        const ALL: u8 = 31;
        let mut filter = Filter { kinds: ALL, number: None };
        let mut chosen = false;
        for arg in args {
            if arg.starts_with(|c: char| c == '/' || c.is_ascii_digit()) {
                let (_, number) = arg.split_once('/').unwrap_or(("", arg));
                filter.number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
                continue;
            }
            let mut inverted = false;
            for letter in arg.chars() {
                let kinds = match letter {
                    '-' | '!' => {
                        inverted = true;
                        continue;
                    }
                    'p' => Kind::Pipe as u8,
                    'l' => Kind::Listener as u8,
                    'c' => Kind::Frontend as u8 | Kind::Backend as u8,
                    'f' => Kind::Frontend as u8,
                    'b' | 's' => Kind::Backend as u8,
                    _ => return None,
                };
                match (inverted, chosen) {
                    (true, _) => filter.kinds &= !kinds,
                    (false, true) => filter.kinds |= kinds,
                    (false, false) => filter.kinds = kinds,
                }
                chosen = true;
            }
        }
        Some(filter)
    }
}

/// Where the process is connected to. A connection that has one of these addresses was accepted there.
#[derive(Default)]
struct Doors(HashSet<SockAddr>);

impl Doors {
    fn kind(&self, open: &Open) -> Kind {
        match open {
            Open::Listener(_) => Kind::Listener,
            Open::Connection { local, .. } if self.leads_to(local) => Kind::Frontend,
            // Pairs of unix sockets have no addresses.
            Open::Connection { peer: SockAddr::Unix(path), .. } if path.as_os_str().is_empty() => Kind::Other,
            Open::Connection { .. } => Kind::Backend,
            Open::Pipe => Kind::Pipe,
            Open::Socket(_) | Open::File(_) => Kind::Other,
        }
    }

    fn leads_to(&self, local: &SockAddr) -> bool {
        let Some(address) = local.to_std() else { return self.0.contains(local) };
        let any = |ip: IpAddr| self.0.contains(&SocketAddr::new(ip, address.port()).into());
        any(address.ip())
            || any(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
            || any(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED))
    }
}

async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Some(filter) = Filter::parse(call.args) else { return Ok(Reply::error("Invalid FD type")) };
    let (output, key) = (call.output, call.session.anon_key);
    let limit = thalweg_sys::process::file_limit().map_or(NUMBER_MAX, |limit| limit.soft.min(NUMBER_MAX));
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let (mut doors, mut numbers) = (Doors::default(), Vec::new());
    for number in 0..limit {
        if let Some(open) = of_number(number) {
            numbers.push(number);
            if let Open::Listener(address) = open {
                doors.0.insert(address);
            }
        }
        if number % NUMBERS_PER_ROW == 0 {
            output.end_row().await?;
        }
    }
    numbers.retain(|number| filter.number.is_none_or(|wanted| wanted == *number));
    for number in numbers {
        // It may have been closed meanwhile.
        if let Some(open) = of_number(number)
            && let kind = doors.kind(&open)
            && filter.kinds & kind as u8 != 0
        {
            let name = kind.name(&open);
            output.text.push_str(&format!("{number:>7} : {name}{}\n", ends(key, &open)));
        }
        output.end_row().await?;
    }
    Ok(Reply::Done)
}

/// The addresses of a descriptor, as a session may see them.
fn ends(key: u32, open: &Open) -> String {
    let shown = |address: &SockAddr| match address.to_std() {
        Some(address) => anonymous::address(key, address),
        None => anonymous::text(key, name(&address.to_string())).into_owned(),
    };
    match open {
        Open::Listener(local) | Open::Socket(local) => format!(" addr={}", shown(local)),
        Open::Connection { local, peer } => format!(" addr={} peer={}", shown(local), shown(peer)),
        Open::Pipe | Open::File(_) => String::new(),
    }
}

/// The name of a unix socket. The kernel goes on telling the one that it was made under, `<path>.<pid>.tmp`.
fn name(made: &str) -> &str {
    let path = made.strip_suffix(".tmp").and_then(|rest| rest.rsplit_once('.'));
    match path {
        Some((path, pid)) if !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => path,
        _ => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_choose_what_is_shown() {
        let kinds = |args: &[&str]| Filter::parse(args).map(|filter| (filter.kinds, filter.number));
        for (args, expected) in [
            (&[][..], Some((31, None))),
            (&["l"], Some((2, None))),
            (&["c"], Some((12, None))),
            (&["c!f"], Some((8, None))),
            (&["!l"], Some((29, None))),
            (&["-lp", "s"], Some((28, None))),
            (&["l", "f"], Some((6, None))),
            (&["lf", "3"], Some((6, Some(3)))),
            (&["1/3"], Some((31, Some(3)))),
            (&["/3"], Some((31, Some(3)))),
            (&["1/"], Some((31, None))),
            (&["x"], None),
            (&["3x"], None),
        ] {
            assert_eq!(kinds(args), expected, "{args:?}");
        }
    }
}
