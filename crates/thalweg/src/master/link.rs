//! What a master and its workers say to each other: messages over a pair of sockets that keeps them apart.
//!
//! | From | Message | Meaning |
//! |---|---|---|
//! | worker | `follows` | it may be told to reload in place |
//! | worker | `ready <version> <most reloads> <stays>` and what was said while starting | it serves |
//! | worker | `failed` and what was said while starting | it will not, and ends |
//! | master | `session <level> <mode> <timed> <expert> <experimental>`, with a descriptor | a connection to the worker's CLI |
//!
//! A worker whose master is gone stops softly: nobody could reload it, and the next master would find its ports taken.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use thalweg_cli::{Begin, SessionMode};
use thalweg_config::model::CliLevel;
use thalweg_runtime::net::descriptor::{receive_with_descriptors, send_with_descriptors};

/// The longest message; what was said while starting is cut to fit.
const MESSAGE_MAX: usize = 72 * 1024;

/// What a worker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It may be told to reload in place: it sees the files that the master sees.
    Follows,
    /// It serves.
    Ready {
        /// Its version.
        version: String,
        /// `mworker-max-reloads`.
        max_reloads: u32,
        /// `master-worker no-exit-on-failure`.
        master_stays: bool,
        /// What it said while starting.
        log: String,
    },
    /// It will not serve.
    Failed {
        /// What it said while starting.
        log: String,
    },
}

impl Said {
    fn encode(&self) -> String {
        match self {
            Said::Follows => "follows\n".to_owned(),
            Said::Ready { version, max_reloads, master_stays, log } => {
                format!("ready {version} {max_reloads} {}\n{log}", u8::from(*master_stays))
            }
            Said::Failed { log } => format!("failed\n{log}"),
        }
    }

    fn decode(message: &str) -> Option<Said> {
        let (head, log) = message.split_once('\n')?;
        let log = log.to_owned();
        let words: Vec<&str> = head.split(' ').collect();
        match *words {
            ["ready", version, max_reloads, stays] => Some(Said::Ready {
                version: version.to_owned(),
                max_reloads: max_reloads.parse().ok()?,
                master_stays: stays == "1",
                log,
            }),
            ["follows"] => Some(Said::Follows),
            ["failed"] => Some(Said::Failed { log }),
            _ => None,
        }
    }
}

/// Tells the master.
pub fn tell(link: BorrowedFd<'_>, said: &Said) -> io::Result<()> {
    let message = said.encode();
    let message = &message[..message.floor_char_boundary(MESSAGE_MAX)];
    send_with_descriptors(link, message.as_bytes(), &[]).map(drop)
}

/// Waits for what the worker says next; `None` once its end is closed.
pub fn hear(link: BorrowedFd<'_>) -> io::Result<Option<Said>> {
    let mut message = vec![0; MESSAGE_MAX];
    loop {
        let (len, _) = receive_with_descriptors(link, &mut message)?;
        if len == 0 {
            return Ok(None);
        }
        // Another version may say more.
        if let Some(said) = Said::decode(&String::from_utf8_lossy(&message[..len])) {
            return Ok(Some(said));
        }
    }
}

/// Makes a connection to the CLI of the worker at the other end.
pub fn connect(link: BorrowedFd<'_>, begin: Begin) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let level = thalweg_cli::level_name(begin.level);
    let mode = match begin.mode {
        SessionMode::Single => "single",
        SessionMode::Interactive => "interactive",
        SessionMode::Prompt => "prompt",
    };
    let flags = [begin.timed, begin.expert, begin.experimental].map(u8::from);
    let message = format!("session {level} {mode} {} {} {}", flags[0], flags[1], flags[2]);
    send_with_descriptors(link, message.as_bytes(), &[theirs.as_fd()])?;
    Ok(ours)
}

/// Waits for the next connection that the master makes; `None` once the master is gone.
pub fn accept(link: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, Begin)>> {
    let mut message = [0; 256];
    loop {
        let (len, mut fds) = receive_with_descriptors(link, &mut message)?;
        if len == 0 {
            return Ok(None);
        }
        if let (Some(begin), Some(fd)) =
            (std::str::from_utf8(&message[..len]).ok().and_then(decode_begin), fds.pop())
        {
            return Ok(Some((fd, begin)));
        }
    }
}

fn decode_begin(message: &str) -> Option<Begin> {
    let words: Vec<&str> = message.split(' ').collect();
    let ["session", level, mode, timed, expert, experimental] = *words else { return None };
    Some(Begin {
        level: match level {
            "user" => CliLevel::User,
            "operator" => CliLevel::Operator,
            "admin" => CliLevel::Admin,
            _ => return None,
        },
        mode: match mode {
            "single" => SessionMode::Single,
            "interactive" => SessionMode::Interactive,
            "prompt" => SessionMode::Prompt,
            _ => return None,
        },
        timed: timed == "1",
        expert: expert == "1",
        experimental: experimental == "1",
    })
}

/// How a worker learns of its part: the variable of its environment.
pub const WORKER_VARIABLE: &str = "THALWEG_WORKER";

/// What a worker is told when it is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of its end of the link.
    pub link: i32,
    /// The number of a connection to the CLI of the worker it replaces.
    pub predecessor: Option<i32>,
    /// Workers that hold the ports now.
    pub old: Vec<u32>,
    /// It belongs to a daemon, and leaves the terminal once it serves.
    pub daemon: bool,
}

impl Part {
    /// What a worker gets.
    pub fn new(link: &OwnedFd, predecessor: Option<&UnixStream>, old: Vec<u32>, daemon: bool) -> Part {
        Part { link: link.as_raw_fd(), predecessor: predecessor.map(|p| p.as_raw_fd()), old, daemon }
    }

    /// As the value of [`WORKER_VARIABLE`].
    pub fn encode(&self) -> String {
        let Part { link, predecessor, old, daemon } = self;
        let old: Vec<String> = old.iter().map(u32::to_string).collect();
        format!("{link} {} {} {}", predecessor.unwrap_or(-1), u8::from(*daemon), old.join(","))
    }

    /// From the value of [`WORKER_VARIABLE`].
    pub fn decode(value: &str) -> Option<Part> {
        let words: Vec<&str> = value.split(' ').collect();
        let [link, predecessor, daemon, old] = *words else { return None };
        let predecessor: i32 = predecessor.parse().ok()?;
        Some(Part {
            link: link.parse().ok()?,
            predecessor: (predecessor >= 0).then_some(predecessor),
            old: old
                .split(',')
                .filter(|pid| !pid.is_empty())
                .map(|pid| pid.parse().ok())
                .collect::<Option<_>>()?,
            daemon: daemon == "1",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use thalweg_sys::child::packet_pair;

    #[test]
    fn what_is_said_is_heard() {
        let (worker, master) = packet_pair().unwrap();
        let ready = Said::Ready {
            version: "3.5-dev5".into(),
            max_reloads: 50,
            master_stays: true,
            log: "a\nb\n".into(),
        };
        let failed = Said::Failed { log: "é".repeat(MESSAGE_MAX) };
        tell(worker.as_fd(), &Said::Follows).unwrap();
        tell(worker.as_fd(), &ready).unwrap();
        send_with_descriptors(worker.as_fd(), b"gossip", &[]).unwrap();
        tell(worker.as_fd(), &failed).unwrap();
        drop(worker);
        assert_eq!(hear(master.as_fd()).unwrap(), Some(Said::Follows));
        assert_eq!(hear(master.as_fd()).unwrap(), Some(ready));
        let Some(Said::Failed { log }) = hear(master.as_fd()).unwrap() else { panic!("not heard") };
        assert!(log.len() > MESSAGE_MAX - 16 && log.chars().all(|c| c == 'é'));
        assert_eq!(hear(master.as_fd()).unwrap(), None);
    }

    #[test]
    fn a_connection_arrives_with_how_it_begins() {
        let (worker, master) = packet_pair().unwrap();
        let begin = Begin {
            level: CliLevel::Operator,
            mode: SessionMode::Prompt,
            timed: true,
            expert: false,
            experimental: true,
        };
        let mut ours = connect(master.as_fd(), begin).unwrap();
        let (fd, arrived) = accept(worker.as_fd()).unwrap().unwrap();
        assert_eq!(arrived, begin);
        let mut theirs = UnixStream::from(fd);
        ours.write_all(b"x").unwrap();
        let mut byte = [0];
        theirs.read_exact(&mut byte).unwrap();
        drop(master);
        assert!(accept(worker.as_fd()).unwrap().is_none());
    }

    #[test]
    fn a_part_survives_the_environment() {
        for part in [
            Part { link: 7, predecessor: None, old: Vec::new(), daemon: false },
            Part { link: 7, predecessor: Some(9), old: vec![1, 22], daemon: true },
        ] {
            assert_eq!(Part::decode(&part.encode()), Some(part));
        }
        for wrong in ["", "1", "1 2 3", "a -1 0 ", "1 -1 0 x"] {
            assert_eq!(Part::decode(wrong), None, "{wrong}");
        }
    }
}
