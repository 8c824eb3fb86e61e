//! The algorithms. Each is one file here, with what the rest of the program must know of it and how it chooses, and its line in the
//! list below. A server is chosen without a virtual call: the list makes the `match`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use crate::balancer::{Balancer, PickContext, Plan, ServerIndex, ServerView, Status};
use crate::estimates::Estimates;
use crate::hash::HashMethod;
use crate::load::LoadNow;
use crate::seats::Seats;
use crate::turns::{Entry, Schedule};

macro_rules! algorithms {
    ($($variant:ident $({ $parameter:ident: $type:ty })? in $module:ident,)*) => {
        $(mod $module;)*

        /// How servers are chosen (manual section 4.2, `balance`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each is described in its file")]
        pub enum Algorithm {
            $($variant $({ $parameter: $type })?,)*
        }

        impl Algorithm {
            /// What the rest of the program must know of each, in the order in which users see them.
            pub const ALL: &[&Traits] = &[$(&$module::TRAITS),*];

            /// The same of this one.
            #[inline]
            pub const fn traits(self) -> &'static Traits {
                match self {
                    $(Algorithm::$variant { .. } => &$module::TRAITS,)*
                }
            }
        }

        /// An algorithm, and what it made of the servers that are usable.
        #[derive(Debug)]
        pub(crate) enum Method {
            $($variant($module::$variant),)*
        }

        impl Method {
            pub fn new(algorithm: Algorithm, usable: &Usable<'_>) -> Method {
                match algorithm {
                    $(Algorithm::$variant $({ $parameter })? => {
                        Method::$variant($module::$variant::new(usable $(, $parameter)?))
                    })*
                }
            }

            #[inline]
            pub fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32> {
                match self {
                    $(Method::$variant(method) => method.pick(choice),)*
                }
            }

            fn turns(&self) -> Option<&Schedule> {
                match self {
                    $(Method::$variant(method) => method.turns(),)*
                }
            }

            pub fn reweigh(&self, change: &NewWeight<'_>) -> bool {
                match self {
                    $(Method::$variant(method) => method.reweigh(change),)*
                }
            }
        }
    };
}

// In the order of the manual; ours behind. The first one is taken where `balance` says nothing.
algorithms! {
    RoundRobin in round_robin,
    StaticRr in static_rr,
    LeastConn in leastconn,
    First in first,
    Random { draws: u32 } in random,
    Sticky in sticky,
    MapBased in map_based,
    Consistent in consistent,
    Ewma in ewma,
}

impl Default for Algorithm {
    fn default() -> Algorithm {
        Algorithm::Random { draws: random::USUAL_DRAWS }
    }
}

impl Algorithm {
    /// What a name on a `balance` line means, of those that go by servers alone.
    pub fn by_name(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.iter().find(|traits| traits.name == name)?.written.usual()
    }

    /// The one that goes by the hash of a key (`source`, `uri`, `hdr` and so on).
    pub fn hashing(method: HashMethod) -> Algorithm {
        match method {
            HashMethod::MapBased => Algorithm::MapBased,
            HashMethod::Consistent => Algorithm::Consistent,
        }
    }
}

/// What the rest of the program must know of an algorithm.
#[derive(Debug)]
pub struct Traits {
    /// As `balance` has it.
    pub name: &'static str,
    pub written: Written,
    /// It can send log lines to servers (`mode log`).
    pub is_for_logs: bool,
    /// Weights count as they were at the start: on the fly a server can only be taken out and put back, and no servers can be added.
    pub has_fixed_weights: bool,
    /// It needs to know how many requests each server has.
    pub goes_by_load: bool,
    /// It needs to know which server has the least load at any time: the balancer keeps a tournament.
    pub keeps_ranks: bool,
    /// It needs to know how long servers take to answer, and their failures.
    pub measures_servers: bool,
    /// A server that is the only one is chosen even when it is full.
    pub insists: bool,
}

impl Traits {
    /// Those of most algorithms.
    const fn new(name: &'static str, written: Written) -> Traits {
        Traits {
            name,
            written,
            is_for_logs: false,
            has_fixed_weights: false,
            goes_by_load: false,
            keeps_ranks: false,
            measures_servers: false,
            insists: false,
        }
    }
}

/// How an algorithm is written on a `balance` line.
#[derive(Debug)]
pub enum Written {
    /// By its name.
    Alone(Algorithm),
    /// With a number above 0 in parentheses, which may be left out.
    WithNumber {
        /// What the number is of, for messages.
        what: &'static str,
        usual: u32,
        with: fn(u32) -> Algorithm,
    },
    /// By what is hashed; `hash-type` says which one is meant.
    ByKey,
}

impl Written {
    /// What its name alone means, where that means anything.
    pub fn usual(&self) -> Option<Algorithm> {
        match *self {
            Written::Alone(algorithm) => Some(algorithm),
            Written::WithNumber { usual, with, .. } => Some(with(usual)),
            Written::ByKey => None,
        }
    }
}

/// How a server is chosen from those that are usable. What it is made of is made anew whenever one of them changes by more than its
/// weight.
trait Choose: Debug {
    /// The server, if any can take the request.
    fn pick<V: ServerView>(&self, choice: &Choice<'_, V>) -> Option<u32>;

    /// Turns, with which the next one goes on where this one is.
    fn turns(&self) -> Option<&Schedule> {
        None
    }

    /// Goes on with another weight of a server. False when it has to be made anew.
    fn reweigh(&self, _change: &NewWeight<'_>) -> bool {
        false
    }
}

/// A server gets another weight.
pub(crate) struct NewWeight<'a> {
    pub balancer: &'a Balancer,
    /// The servers that it is one of. There it has the weight of before yet.
    pub seats: &'a Arc<Seats>,
    pub place: usize,
    pub server: u32,
    pub status: &'a Status,
    /// In 16ths, above 0.
    pub weight: u32,
}

/// What there is to make a [`Method`] of.
pub(crate) struct Usable<'a> {
    /// The servers that requests are balanced to, in the order of the configuration, with their weights.
    pub entries: &'a [Entry],
    /// The same, as their weights change later.
    pub seats: &'a Arc<Seats>,
    /// All servers, by number.
    pub servers: &'a [Status],
    /// Numbers of servers in the order in which they became usable.
    pub arrivals: &'a BTreeMap<u64, u32>,
    pub balancer: &'a Balancer,
    /// The method of before.
    pub before: Option<&'a Method>,
}

impl Usable<'_> {
    /// Turns that go on where those of before are.
    fn continued(&self, turns: Schedule) -> Schedule {
        if let Some(before) = self.before.and_then(Method::turns) {
            turns.continue_from(before);
        }
        turns
    }
}

/// One choice, and what is known for it.
pub(crate) struct Choice<'a, V: ServerView> {
    pub balancer: &'a Balancer,
    pub plan: &'a Plan,
    pub estimates: &'a Estimates,
    /// The hash of the request's key.
    pub key: Option<u32>,
    pub cx: &'a PickContext<'a, V>,
}

impl<V: ServerView> Choice<'_, V> {
    #[inline]
    fn load(&self, server: u32) -> LoadNow {
        self.balancer.load(ServerIndex(server))
    }

    /// It just failed this request.
    #[inline]
    pub fn avoids(&self, server: u32) -> bool {
        self.cx.avoid == Some(ServerIndex(server))
    }

    #[inline]
    pub fn is_full(&self, server: u32) -> bool {
        self.balancer.full(server, self.cx)
    }

    /// It just failed this request, or is full.
    #[inline]
    pub fn refuses(&self, server: u32) -> bool {
        self.avoids(server) || self.is_full(server)
    }

    /// It has more than `hash-balance-factor` allows.
    #[inline]
    fn overloads(&self, server: u32) -> bool {
        self.balancer.overloaded(server, self.plan)
    }

    /// The next turn that is not refused.
    #[inline]
    fn take_turn(&self, turns: &Schedule) -> Option<u32> {
        let seats = &self.plan.seats;
        // A refused turn is lost, which keeps the others' shares right. After a few in a row, ask everybody once.
        for _ in 0..2 * seats.len().min(32) {
            let server = turns.next()?;
            if !self.refuses(server) {
                return Some(server);
            }
        }
        let start = turns.next()?;
        let from = seats.place(start).unwrap_or(0);
        let all = (from..seats.len()).chain(0..from);
        all.map(|place| seats.at(place).server).find(|&server| !self.refuses(server))
    }
}
