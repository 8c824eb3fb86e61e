//! `balance roundrobin`, turn by turn: whose turn comes next, also while weights change.
//!
//! Each server is due again `total / weight` turns after its turn, fractions carried. A turn goes to the server that is due; when none
//! is, to the next one on a list that has not yet had any; and when all have, to the one due first.
//!
//! At the start the list has the heavy ones first, which spreads the light ones between them. When a weight changes, it is the order of
//! turns that was written out before ([`crate::turns`]): so nobody has to know when each server would have been due, and a change
//! costs the same however many there are.
//!
//! The turns are noted until they repeat.

use crate::turns::{Entry, gcd};

/// The longest cycle kept, in turns, unless there are more servers than that. Above it, weights are scaled down:
/// with so many turns a weight is off by less than one turn in the cycle.
pub(crate) const CYCLE_MAX: u64 = 1 << 16;

/// See the module's documentation. Servers are known by their places.
#[derive(Debug)]
pub(crate) struct Tour {
    runners: Box<[Runner]>,
    /// Places of those that had a turn, as a heap: the first to be due is in front.
    waiting: Vec<u32>,
    /// How often the list was begun. Who had a turn in this lap is waiting.
    lap: u32,
    now: u64,
    /// Sum of the weights.
    total: u64,
    scale: Scale,
    /// Since when no weight changed.
    steady_since: u64,
    notes: Option<Notes>,
}

#[derive(Debug)]
struct Runner {
    server: u32,
    /// As it was given, and scaled.
    given: u32,
    weight: u32,
    lap: u32,
    /// Where it waits.
    at: u32,
    /// The part of a turn, in units of 1/weight, not yet counted in `due`.
    rest: u32,
    due: Due,
}

/// Of two that wait, the lesser is first: by when it is due, ties to the heavier (less a part of the turn it is still owed), then
/// to the one that has waited longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: u64,
    lightness: i64,
    since: u64,
    place: u32,
}

/// Weights are this share of what was given.
#[derive(Clone, Copy, Debug)]
struct Scale {
    by: u64,
    of: u64,
}

impl Scale {
    fn weight(self, given: u32) -> u32 {
        (u128::from(given) * u128::from(self.by) / u128::from(self.of)).clamp(1, u32::MAX.into()) as u32
    }
}

/// Turns since the first that may be part of the cycle.
#[derive(Debug)]
struct Notes {
    turns: Vec<u32>,
    /// So many turns are a multiple of each weight: the order repeats after a multiple of them.
    round: u64,
    /// What was the case at the end of each round. Once that was so before, what follows is what followed.
    rounds: Vec<Box<[State]>>,
}

/// What follows depends on of a server, relative to now: when it is due, since when it waits, and the rest.
type State = (u64, u64, u32);

/// Turns that repeat: the last `cycle` of them.
#[derive(Debug)]
pub(crate) struct Cycle {
    pub turns: Vec<u32>,
    pub cycle: u64,
}

/// The turns of servers whose weights stay, until they repeat.
pub(crate) fn written_out(entries: &[Entry]) -> Cycle {
    let mut list: Vec<usize> = (0..entries.len()).collect();
    list.sort_by_key(|&place| std::cmp::Reverse(entries[place].weight));
    let mut tour = Tour::new(&mut entries.iter().copied());
    tour.note();
    let mut list = list.into_iter();
    loop {
        tour.turn(|| list.next());
        if let Some(cycle) = tour.cycle() {
            return cycle;
        }
    }
}

impl Tour {
    /// A tour on which nobody had a turn.
    pub fn new(entries: &mut dyn ExactSizeIterator<Item = Entry>) -> Tour {
        let runner = |Entry { server, weight }| Runner {
            server,
            given: weight,
            weight,
            lap: 0,
            at: 0,
            rest: 0,
            due: Due::default(),
        };
        let runners: Box<[Runner]> = entries.map(runner).collect();
        Tour {
            waiting: Vec::with_capacity(runners.len()),
            total: runners.iter().map(|runner| u64::from(runner.weight)).sum(),
            runners,
            lap: 1,
            now: 0,
            scale: Scale { by: 1, of: 1 },
            steady_since: 0,
            notes: None,
        }
    }

    /// Nobody had a turn, on the list that is used from now on.
    pub fn begin_lap(&mut self) {
        self.lap += 1;
        self.waiting.clear();
    }

    fn is_waiting(&self, place: usize) -> bool {
        self.runners[place].lap == self.lap
    }

    /// Whose turn it is. `list` gives the next place on the list; it is not asked when all are waiting.
    pub fn turn(&mut self, mut list: impl FnMut() -> Option<usize>) -> u32 {
        let now = self.now;
        let first = self.waiting.first().map(|&place| place as usize);
        let is_due = |place: &usize| self.runners[*place].due.at <= now;
        let fresh = match first.filter(is_due) {
            None if self.waiting.len() < self.runners.len() => {
                std::iter::from_fn(&mut list).find(|&place| !self.is_waiting(place))
            }
            _ => None,
        };
        let place = fresh.or(first).unwrap_or(0);
        let (at, rest) = match fresh {
            Some(_) => (now, 0),
            None => (self.runners[place].due.at, self.runners[place].rest),
        };
        let weight = u64::from(self.runners[place].weight);
        let (mut due, mut rest) = (at + self.total / weight, u64::from(rest) + self.total % weight);
        if rest >= weight {
            rest -= weight;
            due += 1;
        }
        let lightness = rest as i64 - weight as i64;
        self.runners[place].rest = rest as u32;
        self.wait(place, Due { at: due, lightness, since: now, place: place as u32 });
        self.now += 1;
        let server = self.runners[place].server;
        match &mut self.notes {
            Some(notes) => notes.turns.push(server),
            // Nothing is noted for as long as weights change: it would be for nothing, and costs as much as there are servers.
            None if self.now - self.steady_since >= self.runners.len() as u64 => self.note(),
            None => {}
        }
        server
    }

    /// The server at a place gets another weight. If it is due, its turn comes sooner or later by as much as it gets more or fewer.
    pub fn reweigh(&mut self, place: usize, given: u32) {
        let runner = &mut self.runners[place];
        let (before, weight) = (u64::from(runner.weight), u64::from(self.scale.weight(given)));
        (runner.given, runner.weight, runner.rest) = (given, weight as u32, 0);
        let due = runner.due;
        self.total = self.total - before + weight;
        let lightness = -(weight as i64);
        if self.is_waiting(place) {
            let left = due.at.saturating_sub(self.now);
            let at = self.now.min(due.at) + left * before / weight;
            self.wait(place, Due { at, lightness, ..due });
        } else if before < weight {
            // Where it is on the list may be far off.
            let at = self.now + self.total / weight;
            self.wait(place, Due { at, lightness, since: self.now, place: place as u32 });
        }
        (self.steady_since, self.notes) = (self.now, None);
    }

    /// Begins to note turns. Where a cycle would be too long, weights are scaled down.
    fn note(&mut self) {
        let of: u64 = self.runners.iter().map(|runner| u64::from(runner.given)).sum();
        let cycle_max = CYCLE_MAX.max(self.runners.len() as u64);
        let fits = self.round(of, |runner| runner.given) <= cycle_max;
        self.scale = if fits { Scale { by: 1, of: 1 } } else { Scale { by: cycle_max, of } };
        for runner in &mut self.runners {
            let before = u64::from(runner.weight);
            runner.weight = self.scale.weight(runner.given);
            runner.rest = (u64::from(runner.rest) * u64::from(runner.weight) / before) as u32;
        }
        self.total = self.runners.iter().map(|runner| u64::from(runner.weight)).sum();
        let round = self.round(self.total, |runner| runner.weight);
        self.notes = Some(Notes { turns: Vec::new(), round, rounds: Vec::new() });
    }

    /// After so many turns each server had as many as its weight says.
    fn round(&self, total: u64, weight: impl Fn(&Runner) -> u32) -> u64 {
        total / u64::from(self.runners.iter().map(weight).fold(0, gcd).max(1))
    }

    /// The cycle that was noted, when the turns began to repeat with the last one. When they are not seen to, the last whole round
    /// is as good a cycle as any.
    pub fn cycle(&mut self) -> Option<Cycle> {
        let notes = self.notes.as_mut()?;
        let played = notes.turns.len() as u64;
        if !played.is_multiple_of(notes.round) || played == 0 || self.waiting.len() < self.runners.len() {
            return None;
        }
        let state = |runner: &Runner| {
            (runner.due.at.wrapping_sub(self.now), self.now - runner.due.since, runner.rest)
        };
        let states = || self.runners.iter().map(state);
        let known = notes.rounds.iter().rev().position(|round| round.iter().copied().eq(states()));
        let back = match known {
            Some(back) => back as u64 + 1,
            None if played + notes.round > CYCLE_MAX.max(2 * notes.round) => 1,
            None => {
                notes.rounds.push(states().collect());
                return None;
            }
        };
        let cycle = back * notes.round;
        self.notes.take().map(|notes| Cycle { turns: notes.turns, cycle })
    }

    /// Has a server wait, or wait until another time.
    fn wait(&mut self, place: usize, due: Due) {
        self.runners[place].due = due;
        let at = if self.is_waiting(place) {
            self.runners[place].at as usize
        } else {
            self.runners[place].lap = self.lap;
            self.waiting.push(place as u32);
            self.waiting.len() - 1
        };
        let at = self.moved_up(at);
        self.move_down(at);
    }

    fn due_at(&self, at: usize) -> Due {
        self.runners[self.waiting[at] as usize].due
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.waiting.swap(one, other);
        for at in [one, other] {
            self.runners[self.waiting[at] as usize].at = at as u32;
        }
    }

    fn moved_up(&mut self, mut at: usize) -> usize {
        self.runners[self.waiting[at] as usize].at = at as u32;
        while at > 0 && self.due_at(at) < self.due_at((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        at
    }

    fn move_down(&mut self, mut at: usize) {
        loop {
            let below = (2 * at + 1)..(2 * at + 3).min(self.waiting.len());
            let Some(least) = below.min_by_key(|&below| self.due_at(below)) else { return };
            if self.due_at(at) < self.due_at(least) {
                return;
            }
            self.swap(at, least);
            at = least;
        }
    }
}
