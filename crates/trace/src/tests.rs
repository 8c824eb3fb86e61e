use super::source::{h1, session, stream};
use super::*;

const SINKS: &[Sink<'_>] = &[Sink { name: "buf0", about: "in-memory ring buffer", dropped: 3 }];

fn after(commands: &[&str]) -> Traces {
    let mut traces = Traces::default();
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(traces.command(&words, SINKS), Ok(String::new()), "{command}");
    }
    traces
}

fn subject(session: u64, stream: u64) -> Subject {
    Subject::default().with(Criterion::Session, session).with(Criterion::Stream, stream)
}

/// Whether something is told.
fn told(traces: &mut Traces, source: Source, events: Events, subject: Subject) -> bool {
    traces.offer(source, events, Level::User, &subject).is_some()
}

#[test]
fn nothing_is_told_unasked() {
    let mut traces = Traces::default();
    assert_eq!(traces.wanted(), 0);
    assert!(!told(&mut traces, Source::H1, h1::RX_HEADERS, subject(1, 1)));
}

#[test]
fn what_is_told_has_the_level_the_event_and_a_sink() {
    let mut traces = after(&["h1 sink buf0 level proto verbosity simple start now"]);
    assert_eq!(traces.wanted(), 1 << Source::H1 as u8);
    let offer = |traces: &mut Traces, events, level| {
        traces.offer(Source::H1, events, level, &subject(1, 1)).is_some()
    };
    assert_eq!(
        traces.offer(Source::H1, h1::RX_HEADERS, Level::Proto, &subject(1, 1)),
        Some(Telling { sink: "buf0", verbosity: source::verbosity::SIMPLE })
    );
    assert!(!offer(&mut traces, h1::RX_HEADERS, Level::State));
    traces.command(&["h1", "event", "-rx_headers"], SINKS).unwrap();
    assert!(!offer(&mut traces, h1::RX_HEADERS, Level::User));
    assert!(offer(&mut traces, h1::RX_HEADERS | h1::ERROR, Level::User), "one of its events is enough");
    traces.command(&["h1", "sink", "none"], SINKS).unwrap();
    assert!(!offer(&mut traces, h1::TX_HEADERS, Level::User));
}

#[test]
fn events_start_pause_and_stop_a_trace() {
    let mut traces = after(&["stream sink buf0 start strm_new pause strm_free stop strm_err lock stream"]);
    let mut tells = |events, stream| told(&mut traces, Source::Stream, events, subject(1, stream));
    assert!(!tells(stream::ANALYSIS, 1), "it waits");
    assert!(tells(stream::NEW, 2));
    assert!(!tells(stream::NEW, 3), "it keeps to the one that started it");
    assert!(!tells(stream::FREE, 3), "the end of another does not pause it");
    assert!(tells(stream::FREE, 2), "the event that pauses it is told");
    assert!(!tells(stream::ANALYSIS, 2));
    assert!(tells(stream::NEW, 4), "it starts again, with another one");
    assert!(tells(stream::ERROR, 4));
    assert!(!tells(stream::NEW, 5), "it stopped for good");
    assert_eq!(traces.wanted(), 0);
}

#[test]
fn a_source_follows_another_as_far_as_that_keeps_to_somebody() {
    let mut traces = after(&[
        "session sink buf0 lock session start sess_new pause sess_end",
        "h1 sink buf0 follow session",
    ]);
    assert!(!told(&mut traces, Source::H1, h1::RX_HEADERS, subject(7, 1)));
    assert!(told(&mut traces, Source::Session, session::NEW, subject(7, 0)));
    assert!(told(&mut traces, Source::H1, h1::RX_HEADERS, subject(7, 1)));
    assert!(!told(&mut traces, Source::H1, h1::RX_HEADERS, subject(8, 1)));
    assert!(told(&mut traces, Source::Session, session::END, subject(7, 0)));
    assert!(!told(&mut traces, Source::H1, h1::RX_HEADERS, subject(7, 1)));
}

#[test]
fn all_traces_stop_at_once() {
    let mut traces = after(&["h1 start now", "check start any", "all level error", "all sink buf0"]);
    assert_ne!(traces.wanted(), 0);
    assert_eq!(traces.command(&["0"], SINKS).unwrap(), "All traces now stopped\n");
    assert_eq!(traces.wanted(), 0);
}

#[test]
fn mistakes_are_named() {
    let mut traces = Traces::default();
    for (command, answer) in [
        ("zz", "No such trace source 'zz'"),
        ("h1 zz", "Unknown trace keyword 'zz'"),
        ("h1 zz x", "Unknown trace keyword 'zz'"),
        ("h1 event zz", "No such trace event 'zz'"),
        ("h1 event now", "No such trace event 'now'"),
        ("h1 sink zz", "No such trace sink 'zz'"),
        ("h1 lock check", "Unsupported lock-on criterion 'check'"),
        ("h1 follow zz", "No such trace source 'zz'"),
        ("all event", "'event' not applicable to meta-source 'all'"),
        ("all start now", "'start' not applicable to meta-source 'all'"),
        ("h1 level zz", "No such trace level 'zz'. Supported trace levels for source h1:\n"),
        ("session verbosity simple", "No such verbosity level 'simple'. Supported trace verbosities"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let refused = traces.command(&words, SINKS).unwrap_err();
        assert!(refused.starts_with(answer), "{command}: {refused}");
    }
    assert_eq!(traces.show(&["zz"], SINKS).unwrap_err(), "No such trace source");
}

#[test]
fn what_is_set_is_shown() {
    let mut traces = after(&["h1 sink buf0 level state start rx_headers", "session lock session start now"]);
    let show = traces.show(&[], SINKS).unwrap();
    assert!(show.contains(" [w] h1         -> buf0 [drp 3]  [HTTP/1 multiplexer]\n"), "{show}");
    assert!(show.contains(" [R] session    -> none [drp 0]  [client session management]\n"), "{show}");
    let show = traces.show(&["h1"], SINKS).unwrap();
    assert!(show.contains("    rx_headers   :        +        +        -       -\n"), "{show}");
    let mut list = |words: &[&str]| traces.command(words, SINKS).unwrap();
    assert!(list(&["h1", "level"]).contains("  * state      : also report internal state changes\n"));
    assert!(list(&["h1", "sink"]).contains("  * buf0       : in-memory ring buffer\n"));
    assert!(
        list(&["session", "lock"]).contains("  * session    : lock on the session that started the trace\n")
    );
    assert!(list(&["h1", "start"]).contains("  + rx_headers   : receipt of H1 headers\n"));
    assert!(list(&[]).contains(" [w] h1         : HTTP/1 multiplexer\n"));
}
