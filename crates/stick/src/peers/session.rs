//! One connection to a peer: what each side told the other on it.

use std::fmt;

use super::entry::{Definition, Heard, Told};
use super::wire::Complaint;

/// Why a connection to a peer is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The peer did not keep to the protocol. It is told.
    Protocol,
    /// It sent a message that is too long. It is told.
    TooLong,
    /// It says that this side made a mistake.
    Complained,
    /// It was silent for too long.
    Silent,
    /// There is a newer connection to the same peer.
    Replaced,
}

impl Broken {
    /// What the peer is to be told before the connection is closed.
    pub fn complaint(self) -> Option<Complaint> {
        match self {
            Broken::Protocol => Some(Complaint::Protocol),
            Broken::TooLong => Some(Complaint::Size),
            Broken::Complained | Broken::Silent | Broken::Replaced => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::Protocol => "it broke the protocol",
            Broken::TooLong => "it sent a message that is too long",
            Broken::Complained => "it reported an error of ours",
            Broken::Silent => "it was silent for too long",
            Broken::Replaced => "a newer connection took its place",
        })
    }
}

/// What is known on a connection of one of the tables.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The peer's number of the table, once it defined it.
    pub remote: Option<u64>,
    /// The kinds of data that its entries have.
    pub bits: u64,
    /// The number of the last entry that arrived, and the last that was acknowledged.
    pub got: u32,
    pub acknowledged: u32,
    /// Something arrived since the last acknowledgement.
    pub owes: bool,
    /// The number of the last change that was sent.
    pub pushed: u32,
}

/// How far a lesson is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lesson {
    pub table: usize,
    pub entry: u32,
    /// Nobody asked for it: only what no other peer can teach is told, the shares of fleets, and no end is said.
    pub of_shares: bool,
}

pub(crate) struct Session {
    /// Tells it from other connections to the same peer.
    pub number: u64,
    pub minor: u32,
    pub heard_ms: u64,
    pub sent_ms: u64,
    /// By own table.
    pub seen: Vec<Seen>,
    /// The definition that entries follow, and which own table it is, if it is one.
    pub current: Option<(Definition, Option<usize>)>,
    /// Earlier ones of own tables, to be switched to.
    pub earlier: Vec<(Definition, usize)>,
    pub heard: Heard,
    pub told: Told,
    /// The own table that was defined last.
    pub defined: Option<usize>,
    pub lesson: Option<Lesson>,
    /// All was taught, and the end of the lesson said.
    pub taught: bool,
    /// The peer noticed.
    pub confirmed: bool,
    /// The end of a lesson is to be confirmed.
    pub owes_confirmation: bool,
}

impl Session {
    pub fn new(number: u64, minor: u32, tables: usize, now_ms: u64) -> Session {
        Session {
            number,
            minor,
            heard_ms: now_ms,
            sent_ms: now_ms,
            seen: (0..tables).map(|_| Seen::default()).collect(),
            current: None,
            earlier: Vec::new(),
            heard: Heard::default(),
            told: Told::default(),
            defined: None,
            lesson: None,
            taught: false,
            confirmed: false,
            owes_confirmation: false,
        }
    }

    /// The peer defines a table; `own` is which of the tables here that is.
    pub fn define(&mut self, definition: Definition, own: Option<usize>) {
        if let Some(own) = own {
            self.earlier.retain(|(_, other)| *other != own);
            self.earlier.push((definition.clone(), own));
            let seen = &mut self.seen[own];
            if seen.remote != Some(definition.number) {
                seen.remote = Some(definition.number);
                seen.got = 0;
                seen.acknowledged = 0;
            }
            seen.bits = definition.bits;
        }
        self.current = Some((definition, own));
    }

    /// The entries that follow are of a table that was defined before. False when it was not.
    pub fn switch(&mut self, number: u64) -> bool {
        let known = self.earlier.iter().find(|(definition, _)| definition.number == number);
        let Some((definition, own)) = known else { return false };
        self.current = Some((definition.clone(), Some(*own)));
        true
    }
}
