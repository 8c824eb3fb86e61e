//! One question that is asked again and again: its tries, and what became of the last one.
//!
//! ```text
//!            due                    all say no, another family is left
//!   Idle ----------> Asking <-----------------------------------------+
//!    ^                | | |___________________________________________|
//!    |  an answer,    | |     nobody said anything in time: the same again
//!    +--- or the last-+ |
//!         try failed    +--> Resting: all said no; the rest of the time between two tries
//! ```

use std::net::IpAddr;

use crate::families::Families;
use crate::message::Kind;
use crate::name::Name;
use crate::offer::Offer;

/// A server that follows a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Servers of one group do not share addresses: their backend.
    pub group: u32,
    /// Which one of them.
    pub server: u32,
}

/// Somebody who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Plan {
    Host(Families),
    Service,
}

impl Plan {
    fn kinds(self) -> &'static [Kind] {
        match self {
            Plan::Host(Families::V4) => &[Kind::V4],
            Plan::Host(Families::V6) => &[Kind::V6],
            Plan::Host(Families::V4First) => &[Kind::V4, Kind::V6],
            Plan::Host(Families::V6First) => &[Kind::V6, Kind::V4],
            Plan::Service => &[Kind::Service],
        }
    }
}

/// Why a name could not be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does not exist (`hold nx`).
    NoSuchName,
    /// The name servers do not want to say (`hold refused`).
    Refused,
    /// They say nothing (`hold timeout`).
    Timeout,
    /// Anything else (`hold other`).
    Other,
}

/// One host and port behind a service, and the servers that have it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub target: Name,
    pub port: u16,
    pub priority: u16,
    pub weight: u16,
    pub addresses: Vec<IpAddr>,
    pub seen_ms: u64,
    /// One of each group whose servers follow the service.
    pub servers: Vec<Key>,
}

impl Place {
    /// Whether a server of the group has it.
    pub fn is_of(&self, group: u32) -> bool {
        self.servers.iter().any(|server| server.group == group)
    }
}

#[derive(Debug)]
enum State {
    Idle,
    Asking(Asking),
    Resting { tries_left: u32, until_ms: u64 },
}

#[derive(Debug)]
struct Asking {
    id: u16,
    /// Position of what is asked in the plan.
    at: usize,
    tries_left: u32,
    since_ms: u64,
    /// By name server: it was asked and did not answer yet.
    open: Vec<bool>,
    /// What the last one to say no said.
    said: Option<Status>,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing until the deadline.
    Wait,
    /// Ask under a new number.
    Ask { at: usize, tries_left: u32 },
    /// It failed.
    Fail(Status),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Lookup {
    pub name: Name,
    pub plan: Plan,
    state: State,
    /// When it is to be looked at again, as its owner noted.
    pub due_ms: Option<u64>,
    /// The start of the holds: the last answer, or when servers began to follow it.
    pub held_ms: u64,
    /// When the last answer came.
    pub answered_ms: Option<u64>,
    /// When it last ended either way.
    pub ended_ms: Option<u64>,
    /// Why it failed the last time.
    pub status: Option<Status>,
    /// A denial holds until then (RFC 2308).
    pub denied_until_ms: u64,
    pub offer: Offer,
    pub places: Vec<Place>,
    /// Servers that have this name, or that are to be found behind this service; in their order.
    pub followers: Vec<Key>,
    pub tickets: Vec<Ticket>,
}

impl Lookup {
    pub fn new(name: Name, plan: Plan, now_ms: u64) -> Lookup {
        Lookup {
            name,
            plan,
            state: State::Idle,
            due_ms: None,
            held_ms: now_ms,
            answered_ms: None,
            ended_ms: None,
            status: None,
            denied_until_ms: 0,
            offer: Offer::default(),
            places: Vec::new(),
            followers: Vec::new(),
            tickets: Vec::new(),
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Nobody wants to know any more.
    pub fn is_unwanted(&self) -> bool {
        self.followers.is_empty() && self.tickets.is_empty()
    }

    /// The number that it is asked under now.
    pub fn id(&self) -> Option<u16> {
        if let State::Asking(asking) = &self.state { Some(asking.id) } else { None }
    }

    /// What is asked now.
    pub fn kind(&self) -> Kind {
        let at = if let State::Asking(asking) = &self.state { asking.at } else { 0 };
        self.plan.kinds()[at]
    }

    /// Whether a name server's answer is awaited under a number.
    pub fn awaits(&self, id: u16, server: usize) -> bool {
        matches!(&self.state, State::Asking(asking) if asking.id == id && asking.open.get(server) == Some(&true))
    }

    /// The name servers whose answers are awaited.
    pub fn silent(&self) -> impl Iterator<Item = usize> + '_ {
        let open = if let State::Asking(asking) = &self.state { &asking.open[..] } else { &[] };
        open.iter().enumerate().filter(|(_, open)| **open).map(|(server, _)| server)
    }

    /// It is asked.
    pub fn ask(&mut self, id: u16, servers: usize, at: usize, tries_left: u32, now_ms: u64) {
        let open = vec![true; servers];
        self.state = State::Asking(Asking { id, at, tries_left, since_ms: now_ms, open, said: None });
    }

    /// It is over.
    pub fn rest(&mut self) {
        self.state = State::Idle;
    }

    /// When something has to be done without an answer, if it is being asked.
    pub fn patience_ends_ms(&self, retry_ms: u64) -> Option<u64> {
        match &self.state {
            State::Idle => None,
            State::Asking(asking) => Some(asking.since_ms.saturating_add(retry_ms)),
            State::Resting { until_ms, .. } => Some(*until_ms),
        }
    }

    /// A name server said no.
    pub fn denied(&mut self, server: usize, status: Status, now_ms: u64, retry_ms: u64) -> Step {
        let State::Asking(asking) = &mut self.state else { return Step::Wait };
        if let Some(open) = asking.open.get_mut(server) {
            *open = false;
        }
        asking.said = Some(status);
        if asking.open.contains(&true) { Step::Wait } else { self.after_no(status, now_ms, retry_ms) }
    }

    fn after_no(&mut self, status: Status, now_ms: u64, retry_ms: u64) -> Step {
        let State::Asking(asking) = &self.state else { return Step::Wait };
        let tries_left = asking.tries_left.saturating_sub(1);
        if asking.at + 1 < self.plan.kinds().len() {
            return Step::Ask { at: asking.at + 1, tries_left: asking.tries_left };
        }
        if tries_left == 0 {
            return Step::Fail(status);
        }
        let until_ms = asking.since_ms.saturating_add(retry_ms);
        if until_ms <= now_ms {
            return Step::Ask { at: 0, tries_left };
        }
        self.state = State::Resting { tries_left, until_ms };
        Step::Wait
    }

    /// Its deadline passed.
    pub fn waited(&mut self, now_ms: u64, retry_ms: u64) -> Step {
        match &self.state {
            State::Idle => Step::Wait,
            State::Resting { tries_left, .. } => Step::Ask { at: 0, tries_left: *tries_left },
            State::Asking(asking) => match asking.said {
                Some(status) => self.after_no(status, now_ms, retry_ms),
                None if asking.tries_left <= 1 => Step::Fail(Status::Timeout),
                None => Step::Ask { at: asking.at, tries_left: asking.tries_left - 1 },
            },
        }
    }
}
