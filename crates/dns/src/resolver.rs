//! One `resolvers` section: who is asked what and when, and what follows from the answers.
//!
//! Four kinds of methods: [`handle`](Resolver::handle) and [`handle_deadline`](Resolver::handle_deadline) take what happened;
//! [`follow`](Resolver::follow), [`forget`](Resolver::forget) and [`resolve`](Resolver::resolve) are what its owner wants of it;
//! [`poll_transmit`](Resolver::poll_transmit), [`poll_event`](Resolver::poll_event) and [`deadline`](Resolver::deadline) are what it wants
//! of its owner, to be asked after each of the others; the rest looks.
//!
//! **Invariant:** each lookup that is being asked, or that somebody follows, has a deadline. So no silence, lie or loss can leave
//! a server or a stream waiting for ever.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;

use crate::families::Families;
use crate::lookup::{Key, Lookup, Plan, Status, Step, Ticket};
use crate::message::{self, Answer, Found, PAYLOAD_MAX, Question, Refusal};
use crate::name::Name;
use crate::offer::Preference;

mod followers;

/// How a section is configured. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// By name server: it is asked over streams only (`tcp@`).
    pub streams: Vec<bool>,
    /// `accepted_payload_size`.
    pub payload_max: u16,
    /// `resolve_retries`: tries before a lookup failed, at least one.
    pub tries: u32,
    /// `timeout resolve`: from the end of a lookup to the next one.
    pub resolve_ms: u64,
    /// `timeout retry`: between two tries.
    pub retry_ms: u64,
    /// `hold valid`: how long an answer serves those who ask once.
    pub hold_valid_ms: u64,
    /// `hold obsolete`.
    pub hold_obsolete_ms: u64,
    /// `hold nx`.
    pub hold_nx_ms: u64,
    /// `hold refused`.
    pub hold_refused_ms: u64,
    /// `hold timeout`.
    pub hold_timeout_ms: u64,
    /// `hold other`.
    pub hold_other_ms: u64,
}

impl Default for Settings {
    /// As the manual says, without name servers.
    fn default() -> Settings {
        Settings {
            streams: Vec::new(),
            payload_max: 512,
            tries: 3,
            resolve_ms: 1000,
            retry_ms: 1000,
            hold_valid_ms: 10_000,
            hold_obsolete_ms: 0,
            hold_nx_ms: 30_000,
            hold_refused_ms: 30_000,
            hold_timeout_ms: 30_000,
            hold_other_ms: 30_000,
        }
    }
}

/// Shortest time between two queries about one thing, whatever is configured: a time of 0 must not become a flood.
const PAUSE_MIN_MS: u64 = 10;

/// Names that are looked up at once or remembered for those who ask once (`do-resolve`). Clients choose these names.
pub const LOOKUPS_MAX: usize = 4096;

/// Lookups that go on at a time.
const AT_ONCE_MAX: usize = 64;

/// Addresses that are remembered of a name that no server follows.
const ONCE_MAX: usize = 16;

/// How long a denial is remembered at most, in milliseconds, whatever the zone says.
const DENIED_MAX_MS: u64 = 60_000;

/// Numbers that are in use at most: a free one is found soon.
const IDS_MAX: usize = 1 << 15;

/// What a server follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// A host, or a service if it [is one](Name::is_service).
    pub name: Name,
    /// What it wants of addresses.
    pub preference: Preference,
    /// The address that it has now.
    pub address: Option<IpAddr>,
}

/// How a server came to its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By an answer of this name server, which was asked for it.
    NameServer(usize),
    /// By what was known already.
    Cache,
    /// By what came with an answer about its service.
    Additional,
}

/// Why a server lost its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Its name could not be resolved for as long as the hold says.
    Failed(Status),
    /// Its name has no address that is left for it.
    NoAddress,
    /// Its service lists its host no more.
    Removed,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server has this address now, and this port if its service says.
    Address {
        /// Which server.
        key: Key,
        /// Its address.
        address: IpAddr,
        /// Its port.
        port: Option<u16>,
        /// How it came to it.
        by: By,
    },
    /// A server has no address any more.
    Lost {
        /// Which server.
        key: Key,
        /// Why.
        loss: Loss,
    },
    /// A server of a service has this host now.
    Host {
        /// Which server.
        key: Key,
        /// Its host; `None` when it has none any more.
        host: Option<Name>,
    },
    /// A server of a service has this weight now, 0 to 256.
    Weight {
        /// Which server.
        key: Key,
        /// Its weight.
        weight: u16,
    },
    /// Somebody's answer.
    Resolved {
        /// Whose.
        ticket: Ticket,
        /// It.
        result: Result<IpAddr, Status>,
    },
}

/// A query to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To which name server.
    pub server: usize,
    /// Over a stream.
    pub stream: bool,
    /// The message, without the length that streams want.
    pub bytes: Vec<u8>,
}

/// What was counted about a name server (management manual, `show resolvers`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queries.
    pub sent: u64,
    /// Queries that could not be sent.
    pub send_error: u64,
    /// Answers that gave something.
    pub valid: u64,
    /// Changes of a server's address.
    pub update: u64,
    /// Answers that went through an alias.
    pub cname: u64,
    /// Answers whose aliases lead nowhere.
    pub cname_error: u64,
    /// Answers that have nothing of what was asked for.
    pub any_err: u64,
    /// Names that do not exist.
    pub nx: u64,
    /// Queries that were not answered in time.
    pub timeout: u64,
    /// Refusals.
    pub refused: u64,
    /// Other failures.
    pub other: u64,
    /// What was no answer, or one to another question.
    pub invalid: u64,
    /// Answers that are larger than what is accepted.
    pub too_big: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// Answers to what is not asked any more.
    pub outdated: u64,
}

/// What a server has, as the section sees it.
#[derive(Clone, Debug)]
pub struct Followed {
    /// What it follows.
    pub follow: Follow,
    /// The host that it has of its service.
    pub host: Option<Name>,
    /// The lookup whose addresses it takes.
    lookup: Option<usize>,
    /// The lookup of its service.
    service: Option<usize>,
    port: Option<u16>,
    weight: Option<u16>,
}

/// What [`Resolver::resolve`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is known.
    Now(Result<IpAddr, Status>),
    /// An [`Event::Resolved`] will tell.
    Later(Ticket),
}

/// See the module's documentation.
pub struct Resolver {
    settings: Settings,
    lookups: Vec<Option<Lookup>>,
    free: Vec<usize>,
    by_question: HashMap<(Name, Plan), usize>,
    /// By the number of a query: which lookup it is for.
    asked: HashMap<u16, usize>,
    deadlines: BTreeSet<(u64, usize)>,
    servers: HashMap<Key, Followed>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    tallies: Vec<Tally>,
    failures: u64,
    next_ticket: u64,
    random: Box<dyn FnMut() -> u16>,
}

impl Resolver {
    /// A section that was asked for nothing yet. `random` numbers queries: whoever can guess it can lie (RFC 5452).
    pub fn new(settings: Settings, random: Box<dyn FnMut() -> u16>) -> Resolver {
        Resolver {
            tallies: vec![Tally::default(); settings.streams.len()],
            settings,
            lookups: Vec::new(),
            free: Vec::new(),
            by_question: HashMap::new(),
            asked: HashMap::new(),
            deadlines: BTreeSet::new(),
            servers: HashMap::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            failures: 0,
            next_ticket: 0,
            random,
        }
    }

    /// What was counted, by name server.
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Lookups that failed.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// What a server has.
    pub fn followed(&self, key: Key) -> Option<&Followed> {
        self.servers.get(&key)
    }

    /// The next query to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The millisecond at which [`handle_deadline`](Resolver::handle_deadline) wants to be called.
    pub fn deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A query could not be sent. Its lookup goes on as if nobody had answered.
    pub fn send_failed(&mut self, server: usize) {
        self.tally(server, |tally| tally.send_error += 1);
    }

    /// What came as a datagram was cut, so that nothing of it can be believed.
    pub fn received_cut(&mut self, server: usize) {
        self.tally(server, |tally| tally.too_big += 1);
    }

    fn tally(&mut self, server: usize, f: impl FnOnce(&mut Tally)) {
        if let Some(tally) = self.tallies.get_mut(server) {
            f(tally);
        }
    }

    /// Asks for an address of a host, once.
    pub fn resolve(&mut self, name: &Name, families: Families, now_ms: u64) -> Resolved {
        let plan = Plan::Host(families);
        let (hold_valid_ms, hold_denied) = (self.settings.hold_valid_ms, Status::NoSuchName);
        if let Some(lookup) =
            self.by_question.get(&(name.clone(), plan)).and_then(|at| self.lookups[*at].as_ref())
        {
            let fresh = lookup.answered_ms.is_some_and(|at| now_ms.saturating_sub(at) < hold_valid_ms);
            // A server that follows the name asks for it all the time.
            let kept_fresh = !lookup.followers.is_empty() && lookup.status.is_none();
            if let Some(address) = best(lookup, families).filter(|_| fresh || kept_fresh) {
                return Resolved::Now(Ok(address));
            }
            if lookup.is_idle() && now_ms < lookup.denied_until_ms {
                return Resolved::Now(Err(lookup.status.unwrap_or(hold_denied)));
            }
        }
        if self.settings.streams.is_empty() {
            return Resolved::Now(Err(Status::Other));
        }
        if !self.has_room() {
            return Resolved::Now(Err(Status::Other));
        }
        let at = self.lookup(name, plan, now_ms);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        if let Some(lookup) = &mut self.lookups[at] {
            lookup.tickets.push(ticket);
            if lookup.is_idle() {
                self.begin(at, now_ms);
            }
        }
        Resolved::Later(ticket)
    }

    /// Somebody does not wait any more.
    pub fn give_up(&mut self, ticket: Ticket) {
        for lookup in self.lookups.iter_mut().flatten() {
            lookup.tickets.retain(|other| *other != ticket);
        }
    }

    /// Whether there is room for a lookup that a client asks for. Those of servers, two of each at most, are made in any case.
    fn has_room(&mut self) -> bool {
        self.by_question.len() < LOOKUPS_MAX + 2 * self.servers.len() || self.drop_oldest()
    }

    /// The lookup of a question, a new one if there is none.
    fn lookup(&mut self, name: &Name, plan: Plan, now_ms: u64) -> usize {
        if let Some(at) = self.by_question.get(&(name.clone(), plan)) {
            return *at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.lookups.push(None);
            self.lookups.len() - 1
        });
        self.lookups[at] = Some(Lookup::new(name.clone(), plan, now_ms));
        self.by_question.insert((name.clone(), plan), at);
        at
    }

    /// Makes room: forgets the answer that was given longest ago of those that nobody follows.
    fn drop_oldest(&mut self) -> bool {
        let unwanted = |lookup: &&Lookup| lookup.is_idle() && lookup.is_unwanted();
        let known = self.lookups.iter().enumerate().filter_map(|(at, l)| Some((at, l.as_ref()?)));
        let oldest = known.filter(|(_, l)| unwanted(l)).min_by_key(|(_, l)| l.ended_ms).map(|(at, _)| at);
        oldest.map(|at| self.remove(at)).is_some()
    }

    fn remove(&mut self, at: usize) {
        self.set_due(at, None);
        if let Some(lookup) = self.lookups[at].take() {
            if let Some(id) = lookup.id() {
                self.asked.remove(&id);
            }
            self.by_question.remove(&(lookup.name, lookup.plan));
            self.free.push(at);
        }
    }

    fn set_due(&mut self, at: usize, due_ms: Option<u64>) {
        let Some(lookup) = &mut self.lookups[at] else { return };
        if let Some(before) = std::mem::replace(&mut lookup.due_ms, due_ms) {
            self.deadlines.remove(&(before, at));
        }
        if let Some(due_ms) = due_ms {
            self.deadlines.insert((due_ms, at));
        }
    }

    fn retry_ms(&self) -> u64 {
        self.settings.retry_ms.max(PAUSE_MIN_MS)
    }

    /// A lookup starts from its first try.
    fn begin(&mut self, at: usize, now_ms: u64) {
        let tries_left = self.settings.tries.max(1);
        self.ask(at, 0, tries_left, now_ms);
    }

    /// Sends the query to all name servers.
    fn ask(&mut self, at: usize, position: usize, tries_left: u32, now_ms: u64) {
        let servers = self.settings.streams.len();
        if servers == 0 || self.asked.len() >= IDS_MAX {
            return self.set_due(at, Some(now_ms + self.settings.resolve_ms.max(PAUSE_MIN_MS)));
        }
        // There is a free one: at most half of them are in use.
        let mut id = (self.random)();
        while self.asked.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        let retry_ms = self.retry_ms();
        let Some(lookup) = &mut self.lookups[at] else { return };
        if let Some(before) = lookup.id() {
            self.asked.remove(&before);
        }
        lookup.ask(id, servers, position, tries_left, now_ms);
        self.asked.insert(id, at);
        let question = Question { name: lookup.name.clone(), kind: lookup.kind() };
        let due = lookup.patience_ends_ms(retry_ms);
        let bytes = message::query(id, &question, self.settings.payload_max);
        for server in 0..servers {
            let stream = self.settings.streams[server];
            self.transmits.push_back(Transmit { server, stream, bytes: bytes.clone() });
            self.tally(server, |tally| tally.sent += 1);
        }
        self.set_due(at, due);
    }

    fn step(&mut self, at: usize, step: Step, now_ms: u64) {
        match step {
            Step::Wait => {
                let retry_ms = self.retry_ms();
                let due = self.lookups[at].as_ref().and_then(|lookup| lookup.patience_ends_ms(retry_ms));
                self.set_due(at, due);
            }
            Step::Ask { at: position, tries_left } => self.ask(at, position, tries_left, now_ms),
            Step::Fail(status) => self.fail(at, status, now_ms),
        }
    }

    /// Does what the time asks for, or the first part of it: who calls it looks at the [deadline](Resolver::deadline) again, so
    /// that thousands of names do not leave in one burst.
    pub fn handle_deadline(&mut self, now_ms: u64) {
        for _ in 0..AT_ONCE_MAX {
            let next = self.deadlines.first().copied().filter(|(due, _)| *due <= now_ms);
            let Some((due, at)) = next else { return };
            let (retry_ms, before) = (self.retry_ms(), due);
            let Some(lookup) = &mut self.lookups[at] else {
                self.deadlines.remove(&(before, at));
                continue;
            };
            if lookup.is_idle() {
                self.begin(at, now_ms);
            } else {
                let silent: Vec<usize> = lookup.silent().collect();
                let step = lookup.waited(now_ms, retry_ms);
                silent.into_iter().for_each(|server| self.tally(server, |tally| tally.timeout += 1));
                self.step(at, step, now_ms);
            }
            // Whatever it was, it is due later now.
            if self.deadlines.first() == Some(&(before, at)) {
                self.set_due(at, Some(now_ms + PAUSE_MIN_MS));
            }
        }
    }

    /// Takes a message of a name server.
    pub fn handle(&mut self, server: usize, over_stream: bool, bytes: &[u8], now_ms: u64) {
        let Some(id) = message::id(bytes) else { return self.tally(server, |tally| tally.invalid += 1) };
        let known = self.asked.get(&id).copied().and_then(|at| Some((at, self.lookups[at].as_mut()?)));
        let Some((at, lookup)) = known.filter(|(_, lookup)| lookup.awaits(id, server)) else {
            return self.tally(server, |tally| tally.outdated += 1);
        };
        let question = Question { name: lookup.name.clone(), kind: lookup.kind() };
        let payload_max = if over_stream { PAYLOAD_MAX } else { self.settings.payload_max };
        match message::read(bytes, &question, payload_max) {
            Ok(answer) => {
                self.tally(server, |tally| {
                    tally.valid += 1;
                    tally.cname += u64::from(answer.aliased);
                });
                self.succeed(at, answer, server, now_ms);
            }
            // Somebody guessed the number: the answer may still come.
            Err(Refusal::WrongQuestion) => self.tally(server, |tally| tally.invalid += 1),
            Err(Refusal::Truncated) if !over_stream => {
                self.tally(server, |tally| {
                    tally.truncated += 1;
                    tally.sent += 1;
                });
                let bytes = message::query(id, &question, self.settings.payload_max);
                self.transmits.push_back(Transmit { server, stream: true, bytes });
            }
            Err(refusal) => self.refuse(at, refusal, server, now_ms),
        }
    }

    /// A name server said no.
    fn refuse(&mut self, at: usize, refusal: Refusal, server: usize, now_ms: u64) {
        let mut denial_s = None;
        let status = match refusal {
            Refusal::NoSuchName(ttl_s) => {
                denial_s = ttl_s;
                self.tally(server, |tally| tally.nx += 1);
                Status::NoSuchName
            }
            Refusal::Refused => {
                self.tally(server, |tally| tally.refused += 1);
                Status::Refused
            }
            Refusal::Nothing(ttl_s) => {
                denial_s = ttl_s;
                self.tally(server, |tally| tally.any_err += 1);
                Status::Other
            }
            other => {
                self.tally(server, |tally| match other {
                    Refusal::BrokenAlias => tally.cname_error += 1,
                    Refusal::TooBig => tally.too_big += 1,
                    Refusal::Truncated => tally.truncated += 1,
                    Refusal::Failed(_) => tally.other += 1,
                    _ => tally.invalid += 1,
                });
                Status::Other
            }
        };
        let retry_ms = self.retry_ms();
        let Some(lookup) = &mut self.lookups[at] else { return };
        lookup.denied_until_ms = match denial_s {
            Some(seconds) => now_ms.saturating_add((u64::from(seconds) * 1000).min(DENIED_MAX_MS)),
            None => 0,
        };
        let step = lookup.denied(server, status, now_ms, retry_ms);
        self.step(at, step, now_ms);
    }

    /// A lookup is over: it is due again if somebody follows it.
    fn end(&mut self, at: usize, now_ms: u64) {
        let next_ms = now_ms + self.settings.resolve_ms.max(PAUSE_MIN_MS);
        let Some(lookup) = &mut self.lookups[at] else { return };
        if let Some(id) = lookup.id() {
            self.asked.remove(&id);
        }
        lookup.rest();
        lookup.ended_ms = Some(now_ms);
        let due = (!lookup.followers.is_empty()).then_some(next_ms);
        self.set_due(at, due);
    }

    fn succeed(&mut self, at: usize, answer: Answer, server: usize, now_ms: u64) {
        self.end(at, now_ms);
        let obsolete_ms = self.settings.hold_obsolete_ms;
        let Some(lookup) = &mut self.lookups[at] else { return };
        (lookup.status, lookup.held_ms, lookup.denied_until_ms) = (None, now_ms, 0);
        lookup.answered_ms = Some(now_ms);
        match answer.found {
            Found::Addresses(mut addresses) if lookup.followers.is_empty() => {
                // Those who ask once get the best of the last answer, and clients choose what is asked.
                addresses.truncate(ONCE_MAX);
                lookup.offer.merge(&addresses, now_ms, 0);
                self.answer_tickets(at, Status::Other);
            }
            Found::Addresses(addresses) => {
                lookup.offer.merge(&addresses, now_ms, obsolete_ms);
                self.answer_tickets(at, Status::Other);
                self.offer_changed(at, Some(server));
            }
            Found::Services(services) => self.places_changed(at, services, now_ms),
        }
    }

    /// All tries failed. Servers keep what they have as long as the hold says.
    fn fail(&mut self, at: usize, status: Status, now_ms: u64) {
        self.failures += 1;
        self.end(at, now_ms);
        let hold_ms = match status {
            Status::NoSuchName => self.settings.hold_nx_ms,
            Status::Refused => self.settings.hold_refused_ms,
            Status::Timeout => self.settings.hold_timeout_ms,
            Status::Other => self.settings.hold_other_ms,
        };
        let Some(lookup) = &mut self.lookups[at] else { return };
        lookup.status = Some(status);
        if status == Status::Timeout {
            lookup.denied_until_ms = 0;
        }
        let is_held = now_ms.saturating_sub(lookup.held_ms) < hold_ms;
        if !is_held {
            lookup.offer.clear();
        }
        // Who asks once is not helped by an address of yesterday.
        self.answer_tickets_with(at, Err(status));
        if !is_held {
            self.lose_followers(at, status);
        }
    }

    fn answer_tickets(&mut self, at: usize, otherwise: Status) {
        let Some(lookup) = &self.lookups[at] else { return };
        let Plan::Host(families) = lookup.plan else { return };
        self.answer_tickets_with(at, best(lookup, families).ok_or(otherwise));
    }

    fn answer_tickets_with(&mut self, at: usize, result: Result<IpAddr, Status>) {
        let Some(lookup) = &mut self.lookups[at] else { return };
        let tickets = std::mem::take(&mut lookup.tickets);
        self.events.extend(tickets.into_iter().map(|ticket| Event::Resolved { ticket, result }));
    }
}

/// The address that those get who ask once: of the last answer only.
fn best(lookup: &Lookup, families: Families) -> Option<IpAddr> {
    let preference = Preference { families, networks: Vec::new(), duplicates: true, ignore_weight: false };
    preference.choose(lookup.offer.of_answer(lookup.answered_ms?), None, true, |_| 0)
}
