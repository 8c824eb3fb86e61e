//! Traces: what the program tells of itself while it works, as far as somebody asked for it (management manual, `trace`; configuration
//! manual, section 12.1).
//!
//! Each [`Source`] has a [`Trace`]: which events it tells, which ones begin, pause and stop it, whom it keeps to, and where its lines
//! go. This crate has the words of the commands and decides what is told; who calls it makes the lines and writes them.

mod command;
pub mod source;

pub use command::{STOP_ALL, Sink};
pub use source::{Criterion, Events, Level, Source};

use source::{CRITERIA, SOURCES};

/// Where a trace stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It tells nothing until somebody starts it.
    #[default]
    Stopped,
    /// It tells nothing until one of the events comes that start it.
    Waiting,
    /// It tells what happens.
    Running,
}

/// Whose an event is, as far as it is known: a number for each criterion.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject([Option<u64>; CRITERIA]);

impl Subject {
    /// The same, of this one, too.
    #[must_use]
    pub fn with(mut self, criterion: Criterion, number: u64) -> Subject {
        self.0[criterion as usize] = Some(number);
        self
    }

    fn of(&self, criterion: Criterion) -> Option<u64> {
        self.0[criterion as usize]
    }
}

/// The trace of one source.
#[derive(Clone, Debug, PartialEq)]
struct Trace {
    state: State,
    report: Events,
    start: Events,
    stop: Events,
    pause: Events,
    level: Level,
    /// A position in the source's list.
    verbosity: usize,
    lock: Option<Criterion>,
    /// Whom it keeps to.
    locked: Option<u64>,
    follow: Option<Source>,
    /// The name of the sink; none: what is told goes nowhere.
    sink: Option<String>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            state: State::Stopped,
            report: Events::MAX,
            start: 0,
            stop: 0,
            pause: 0,
            level: Level::User,
            verbosity: source::verbosity::CLEAN,
            lock: None,
            locked: None,
            follow: None,
            sink: None,
        }
    }
}

impl Trace {
    /// Goes to a state in which nothing of what it kept to is left.
    fn go(&mut self, state: State) {
        self.state = state;
        self.locked = None;
    }

    /// Whether it tells of such an event; follows what the event means for its state.
    fn hears(&mut self, events: Events, level: Level, subject: &Subject) -> bool {
        let of_another = |locked| self.lock.is_some_and(|criterion| subject.of(criterion) != Some(locked));
        if self.state == State::Stopped || self.locked.is_some_and(of_another) {
            return false;
        }
        if self.state == State::Waiting {
            if events & self.start == 0 {
                return false;
            }
            self.state = State::Running;
        }
        if self.locked.is_none() {
            self.locked = self.lock.and_then(|criterion| subject.of(criterion));
        }
        let told = self.tells(events, level);
        if events & self.stop != 0 {
            self.go(State::Stopped);
        } else if events & self.pause != 0 {
            self.go(State::Waiting);
        }
        told
    }

    fn tells(&self, events: Events, level: Level) -> bool {
        events & self.report != 0 && level <= self.level
    }

    /// Whether it is about the one that this trace keeps to now.
    fn keeps_to(&self, subject: &Subject) -> bool {
        let of_it = |criterion| self.locked.is_some() && self.locked == subject.of(criterion);
        self.state == State::Running && self.lock.is_some_and(of_it)
    }
}

/// How a line is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Telling<'t> {
    /// The name of the sink.
    pub sink: &'t str,
    /// How far it goes into details: see [`source::verbosity`].
    pub verbosity: usize,
}

/// The traces of all sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traces([Trace; SOURCES]);

impl Traces {
    /// The sources whose events must be offered, as bits of their numbers.
    pub fn wanted(&self) -> u32 {
        let stopped = |source: Source| self.0[source as usize].state == State::Stopped;
        let wanted = |source: &Source| {
            !stopped(*source) || self.0[*source as usize].follow.is_some_and(|o| !stopped(o))
        };
        Source::ALL.into_iter().filter(wanted).fold(0, |bits, source| bits | 1 << source as u8)
    }

    /// Something happened. `None` when nothing is to be told of it.
    pub fn offer(
        &mut self,
        source: Source,
        events: Events,
        level: Level,
        subject: &Subject,
    ) -> Option<Telling<'_>> {
        let mut told = self.0[source as usize].hears(events, level, subject);
        if let (false, Some(other)) = (told, self.0[source as usize].follow) {
            told = self.0[other as usize].keeps_to(subject) && self.0[source as usize].tells(events, level);
        }
        let trace = &self.0[source as usize];
        let sink = trace.sink.as_deref().filter(|_| told)?;
        Some(Telling { sink, verbosity: trace.verbosity })
    }
}

#[cfg(test)]
mod tests;
