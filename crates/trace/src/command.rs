//! The words of `trace` and `show trace`, and what they answer.

use std::fmt::Write;

use crate::source::{Named, SOURCES};
use crate::{Criterion, Events, Level, Source, State, Trace, Traces};

/// Somewhere that lines can go.
#[derive(Clone, Copy, Debug)]
pub struct Sink<'a> {
    pub name: &'a str,
    /// What it is, for people.
    pub about: &'a str,
    /// Lines that it lost.
    pub dropped: u64,
}

/// What stands in place of a source where all traces are to stop.
pub const STOP_ALL: &str = "0";

/// The source that is all of them.
const ALL: &str = "all";

/// What a source, or an event, is not called.
const NONE: &str = "none";

/// What no criterion is called.
const NOTHING: &str = "nothing";

/// What can be asked of a source.
static REQUESTS: [Named; 9] = [
    Named { name: "event", about: "list/enable/disable source-specific event reporting" },
    Named { name: "level", about: "list/set trace reporting level" },
    Named { name: "lock", about: "automatic lock on thread/connection/stream/..." },
    Named { name: "follow", about: "passively follow another source's locked pointer (e.g. session)" },
    Named { name: "pause", about: "pause and automatically restart after a specific event" },
    Named { name: "sink", about: "list/set event sinks" },
    Named { name: "start", about: "start immediately or after a specific event" },
    Named { name: "stop", about: "stop immediately or after a specific event" },
    Named { name: "verbosity", about: "list/set trace output verbosity" },
];

/// The traces that a command is about.
#[derive(Clone, Copy)]
enum Target {
    One(Source),
    All,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::One(source) => source.info().name,
            Target::All => ALL,
        }
    }

    /// The one whose settings are shown.
    fn shown(self) -> Source {
        match self {
            Target::One(source) => source,
            Target::All => Source::ALL[0],
        }
    }

    fn sources(self) -> impl Iterator<Item = Source> {
        Source::ALL.into_iter().filter(move |source| match self {
            Target::One(one) => one == *source,
            Target::All => true,
        })
    }
}

/// What is asked about events: the mask that a word of the command stands for.
#[derive(Clone, Copy)]
enum Mask {
    Report,
    Start,
    Stop,
    Pause,
}

impl Mask {
    fn of(self, trace: &mut Trace) -> &mut Events {
        match self {
            Mask::Report => &mut trace.report,
            Mask::Start => &mut trace.start,
            Mask::Stop => &mut trace.stop,
            Mask::Pause => &mut trace.pause,
        }
    }

    /// The state that `now` leads to.
    fn now(self) -> Option<State> {
        match self {
            Mask::Report => None,
            Mask::Start => Some(State::Running),
            Mask::Stop => Some(State::Stopped),
            Mask::Pause => Some(State::Waiting),
        }
    }
}

impl Traces {
    /// `trace`, by the words that follow it. Answers with what it was asked for, which is mostly nothing.
    ///
    /// # Errors
    /// A word that is not known, or that this source has not. What stands before it has been done.
    pub fn command(&mut self, words: &[&str], sinks: &[Sink<'_>]) -> Result<String, String> {
        let Some((name, mut words)) = words.split_first() else { return Ok(self.sources(true)) };
        if *name == STOP_ALL {
            self.0.iter_mut().for_each(|trace| trace.go(State::Stopped));
            return Ok("All traces now stopped\n".to_string());
        }
        let target = match *name {
            ALL => Target::All,
            name => Target::One(Source::named(name).ok_or_else(|| format!("No such trace source '{name}'"))?),
        };
        if words.is_empty() {
            return Ok(list("Supported commands:".to_string(), &REQUESTS, |_| "  "));
        }
        while let Some((request, rest)) = words.split_first() {
            let Some(value) = rest.first() else { return self.listing(target, request, sinks) };
            self.set(target, request, value, sinks)?;
            words = &rest[1..];
        }
        Ok(String::new())
    }

    /// `show trace`, by the words that follow it.
    ///
    /// # Errors
    /// No source has that name.
    pub fn show(&mut self, words: &[&str], sinks: &[Sink<'_>]) -> Result<String, String> {
        let dropped = |name: &Option<String>| {
            let sink = sinks.iter().find(|sink| Some(sink.name) == name.as_deref());
            (sink.map_or(NONE, |sink| sink.name), sink.map_or(0, |sink| sink.dropped))
        };
        let Some(name) = words.first() else {
            let mut text = TITLE.to_string();
            for source in Source::ALL {
                let (trace, info) = (&self.0[source as usize], source.info());
                let (sink, dropped) = dropped(&trace.sink);
                let (letter, name, about) = (letter(trace), info.name, info.about);
                let _ = writeln!(text, " [{letter}] {name:<10} -> {sink} [drp {dropped}]  [{about}]");
            }
            return Ok(text);
        };
        let source = Source::named(name).ok_or("No such trace source")?;
        let trace = &self.0[source as usize];
        let (sink, dropped) = dropped(&trace.sink);
        let mut text = format!(
            "Trace status for {name}:\n  - sink: {sink} [{dropped} dropped]\n  \
             - event name   :     report    start    stop    pause\n"
        );
        for (bit, event) in source.info().events.iter().enumerate() {
            let sign = |mask: Events| if mask >> bit & 1 == 1 { '+' } else { '-' };
            let (report, start) = (sign(trace.report), sign(trace.start));
            let (stop, pause) = (sign(trace.stop), sign(trace.pause));
            let _ = writeln!(
                text,
                "    {:<12} :        {report}        {start}        {stop}       {pause}",
                event.name
            );
        }
        Ok(text)
    }

    /// The sources, as `trace` lists them: with what else may stand in their place, or as those that can be followed.
    fn sources(&self, as_menu: bool) -> String {
        let mut text = match as_menu {
            true => format!(
                "{TITLE} [.] 0          : not a source, will immediately stop all traces\n \
                 [.] all        : all sources below, only for 'sink', 'level' and 'follow'\n"
            ),
            false => " [.] none       : follow no other source\n".to_string(),
        };
        for source in Source::ALL {
            let info = source.info();
            let letter = letter(&self.0[source as usize]);
            let _ = writeln!(text, " [{letter}] {:<10} : {}", info.name, info.about);
        }
        text
    }

    /// What a request lists that has no value.
    fn listing(&mut self, target: Target, request: &str, sinks: &[Sink<'_>]) -> Result<String, String> {
        let name = target.name();
        let trace = &mut self.0[target.shown() as usize];
        Ok(match request {
            "level" => levels(target, trace),
            "sink" => {
                let mark = |sink: &str| if trace.sink.as_deref() == Some(sink) { "  * " } else { "    " };
                let none = if trace.sink.is_none() { "  * " } else { "    " };
                let mut text =
                    format!("Supported sinks for source {name} (*=current):\n{none}none       : no sink\n");
                for sink in sinks {
                    let _ = writeln!(text, "{}{:<10} : {}", mark(sink.name), sink.name, sink.about);
                }
                text
            }
            "follow" => {
                let mut text = String::new();
                if let Target::One(_) = target {
                    let followed = trace.follow.map(|other| other.info().name);
                    text = match followed {
                        None => "Not currently following any other source.\n".to_string(),
                        Some(other) => format!("Currently following source '{other}'.\n"),
                    };
                }
                text.push_str("Please specify another source to follow, among the following ones:\n");
                text.push_str(&self.sources(false));
                text
            }
            "event" | "start" | "stop" | "pause" | "lock" | "verbosity" => match (target, request) {
                (Target::All, _) => return Err(not_for_all(request)),
                (Target::One(source), "lock") => criteria(source, trace),
                (Target::One(source), "verbosity") => verbosities(source, trace),
                (Target::One(source), _) => events(source, trace, mask(request)),
            },
            _ => return Err(format!("Unknown trace keyword '{request}'")),
        })
    }

    fn set(&mut self, target: Target, request: &str, value: &str, sinks: &[Sink<'_>]) -> Result<(), String> {
        match request {
            "level" => {
                let level = Level::ALL.into_iter().find(|level| level.info().name == value);
                let shown = &self.0[target.shown() as usize];
                let unknown = || format!("No such trace level '{value}'. {}", levels(target, shown));
                let level = level.ok_or_else(unknown)?;
                target.sources().for_each(|source| self.0[source as usize].level = level);
            }
            "sink" => {
                let known = sinks.iter().any(|sink| sink.name == value);
                if !known && value != NONE {
                    return Err(format!("No such trace sink '{value}'"));
                }
                let sink = known.then(|| value.to_string());
                target.sources().for_each(|source| self.0[source as usize].sink.clone_from(&sink));
            }
            "follow" => {
                let other = Source::named(value);
                if other.is_none() && value != NONE {
                    return Err(format!("No such trace source '{value}'"));
                }
                for source in target.sources().filter(|source| Some(*source) != other) {
                    self.0[source as usize].follow = other;
                }
            }
            "event" | "start" | "stop" | "pause" | "lock" | "verbosity" => match target {
                Target::All => return Err(not_for_all(request)),
                Target::One(source) => self.0[source as usize].set(source, request, value)?,
            },
            _ => return Err(format!("Unknown trace keyword '{request}'")),
        }
        Ok(())
    }
}

impl Trace {
    /// What cannot be asked of all sources at once.
    fn set(&mut self, source: Source, request: &str, value: &str) -> Result<(), String> {
        let info = source.info();
        match request {
            "lock" => {
                let found = info.criteria.iter().find(|criterion| criterion.name() == value);
                if found.is_none() && value != NOTHING {
                    return Err(format!("Unsupported lock-on criterion '{value}'"));
                }
                self.lock = found.copied();
                self.locked = None;
            }
            "verbosity" => {
                let found = info.verbosities.iter().position(|verbosity| verbosity.name == value);
                let unknown = || format!("No such verbosity level '{value}'. {}", verbosities(source, self));
                self.verbosity = found.ok_or_else(unknown)?;
            }
            _ => return self.set_events(source, mask(request), value),
        }
        Ok(())
    }

    /// `event`, `start`, `stop` and `pause`.
    fn set_events(&mut self, source: Source, mask: Mask, value: &str) -> Result<(), String> {
        if let (Some(state), "now") = (mask.now(), value) {
            self.go(state);
            return Ok(());
        }
        let is_off = value.starts_with(['-', '!']);
        let name = value.strip_prefix(['+', '-', '!']).unwrap_or(value);
        let bits = mask.of(self);
        match (name, source.info().events.iter().position(|event| event.name == name)) {
            (NONE, _) => *bits = 0,
            ("any", _) => *bits = Events::MAX,
            (_, Some(bit)) if is_off => *bits &= !(1 << bit),
            (_, Some(bit)) => *bits |= 1 << bit,
            (_, None) => return Err(format!("No such trace event '{name}'")),
        }
        // A trace that is to be started by an event waits for it.
        if matches!(mask, Mask::Start) && self.start != 0 && self.state == State::Stopped {
            self.go(State::Waiting);
        }
        Ok(())
    }
}

const TITLE: &str = "Supported trace sources and states (.=stopped, w=waiting, R=running) :\n";

fn letter(trace: &Trace) -> char {
    match trace.state {
        State::Stopped => '.',
        State::Waiting => 'w',
        State::Running => 'R',
    }
}

fn not_for_all(request: &str) -> String {
    format!("'{request}' not applicable to meta-source 'all'")
}

/// The events that a request is about.
fn mask(request: &str) -> Mask {
    match request {
        "start" => Mask::Start,
        "stop" => Mask::Stop,
        "pause" => Mask::Pause,
        _ => Mask::Report,
    }
}

/// A title, and a line for each thing, behind what `mark` says of it.
fn list(title: String, things: &[Named], mark: impl Fn(&Named) -> &'static str) -> String {
    let mut text = title + "\n";
    for thing in things {
        let _ = writeln!(text, "{}{:<10}: {}", mark(thing), thing.name, thing.about);
    }
    text
}

fn marked(is_current: bool) -> &'static str {
    if is_current { "  * " } else { "    " }
}

fn levels(target: Target, trace: &Trace) -> String {
    let mut text = format!("Supported trace levels for source {}:\n", target.name());
    for level in Level::ALL {
        let Named { name, about } = level.info();
        let _ = writeln!(text, "{}{name:<10} : {about}", marked(level == trace.level));
    }
    text
}

fn criteria(source: Source, trace: &Trace) -> String {
    let mut text = format!("Supported lock-on criteria for source {}:\n", source.info().name);
    let mut all: Vec<Option<Criterion>> = source.info().criteria.iter().copied().map(Some).collect();
    let name = |criterion: &Option<Criterion>| criterion.map_or(NOTHING, Criterion::name);
    all.push(None);
    all.sort_unstable_by_key(name);
    for criterion in all {
        let about = match criterion {
            None => "do not lock on anything".to_string(),
            Some(criterion) => format!("lock on the {} that started the trace", criterion.name()),
        };
        let _ = writeln!(text, "{}{:<10} : {about}", marked(criterion == trace.lock), name(&criterion));
    }
    text
}

fn verbosities(source: Source, trace: &Trace) -> String {
    let info = source.info();
    let mut text = format!("Supported trace verbosities for source {}:\n", info.name);
    for (position, Named { name, about }) in info.verbosities.iter().enumerate() {
        let _ = writeln!(text, "{}{name:<10} : {about}", marked(position == trace.verbosity));
    }
    text
}

fn events(source: Source, trace: &mut Trace, mask: Mask) -> String {
    let mut text = format!("Supported events for source {} (+=enabled, -=disabled):\n", source.info().name);
    if mask.now().is_some() {
        text.push_str("  - now          : don't wait for events, immediately change the state\n");
    }
    text.push_str("  - none         : disable all event types\n");
    text.push_str("  - any          : enable all event types\n");
    let bits = *mask.of(trace);
    for (bit, Named { name, about }) in source.info().events.iter().enumerate() {
        let sign = if bits >> bit & 1 == 1 { '+' } else { '-' };
        let _ = writeln!(text, "  {sign} {name:<12} : {about}");
    }
    text
}

const _: () = assert!(SOURCES < u32::BITS as usize);
