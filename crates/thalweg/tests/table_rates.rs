//! Rates of stick tables (configuration manual, section 11.1) beside the reference, exactly: random events, values that are set
//! and values that are read, of every kind of rate.
//!
//! Nobody outside knows the millisecond in which a program counted an event, only two between which it was. So what a rate can be
//! is computed from its definition: the set of all states that it can be in after what happened so far, whatever the
//! milliseconds were. What either program says must be in that set, which mostly has one value or two neighbours. A slow machine makes
//! the sets larger, and nothing that is right wrong.

mod support;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use support::{Conn, Proxy, Setup, reference};

/// A time between two milliseconds, both included.
type Between = (i64, i64);

/// A state that a rate can be in: when its period began, the events of it and of the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    began: Between,
    current: i64,
    previous: i64,
}

/// A rate as far as it is known from outside.
#[derive(Clone, Debug)]
struct Rate {
    period: i64,
    states: Vec<State>,
    /// What happened last, for people.
    past: VecDeque<(&'static str, i64, Between)>,
}

impl Rate {
    /// One without events.
    fn new(period: i64) -> Rate {
        Rate {
            period,
            states: vec![State { began: (-1 << 40, -1 << 40), current: 0, previous: 0 }],
            past: VecDeque::new(),
        }
    }

    fn note(&mut self, what: &'static str, value: i64, at: Between) {
        self.past.push_front((what, value, at));
        self.past.truncate(8);
    }

    /// The states that a state can have become, each with how long ago its period began.
    fn moved(&self, state: &State, at: Between) -> Vec<(State, Between)> {
        let (period, (first, last)) = (self.period, state.began);
        let since = (at.0 - last, at.1 - first);
        let mut moved = Vec::new();
        if since.0 < period {
            let began = (first.max(at.0 - period + 1), last.min(at.1));
            moved.push((State { began, ..*state }, (since.0.max(0), since.1.min(period - 1))));
        }
        if since.0 < 2 * period && since.1 >= period {
            let began = (first.max(at.0 - 2 * period + 1) + period, last.min(at.1 - period) + period);
            let since = (since.0.max(period) - period, since.1.min(2 * period - 1) - period);
            moved.push((State { began, current: 0, previous: state.current }, since));
        }
        if since.1 >= 2 * period {
            moved.push((State { began: at, current: 0, previous: 0 }, (0, 0)));
        }
        moved
    }

    fn add(&mut self, events: i64, at: Between) {
        self.note("added", events, at);
        let mut states: Vec<State> = Vec::new();
        for (state, _) in self.states.iter().flat_map(|state| self.moved(state, at)) {
            let state = State { current: state.current + events, ..state };
            match states.iter_mut().find(|s| (s.current, s.previous) == (state.current, state.previous)) {
                Some(same) => {
                    same.began = (same.began.0.min(state.began.0), same.began.1.max(state.began.1));
                }
                None => states.push(state),
            }
        }
        self.states = states;
    }

    fn set(&mut self, value: i64, at: Between) {
        self.note("set", value, at);
        self.states = vec![State { began: at, current: value, previous: 0 }];
    }

    /// What a state can be read as.
    fn values(&self, state: &State, at: Between) -> Vec<Between> {
        let value = |(State { current, previous, .. }, since): (State, Between)| match (current, previous) {
            // Half an event is no use to anybody.
            (0, 0 | 1) => (previous, previous),
            _ => {
                let rest = |since| previous * (self.period - since) / self.period;
                (current + rest(since.1), current + rest(since.0))
            }
        };
        self.moved(state, at).into_iter().map(value).collect()
    }

    /// A value was read: how many values it could have been from the least to the largest, and whether it was one of them. States
    /// that it cannot be read from are no longer thought of.
    fn read(&mut self, value: i64, at: Between) -> (i64, bool) {
        self.note("read", value, at);
        let values = |state: &State| self.values(state, at);
        let all: Vec<Between> = self.states.iter().flat_map(values).collect();
        let (least, largest) =
            all.iter().fold((i64::MAX, 0), |(low, high), range| (low.min(range.0), high.max(range.1)));
        let mut left = self.states.clone();
        left.retain(|state| values(state).iter().any(|(low, high)| (*low..=*high).contains(&value)));
        let is_right = !left.is_empty();
        if is_right {
            self.states = left;
        }
        (largest - least + 1, is_right)
    }
}

/// Found by reading the reference's values after `set table` and requests at known times.
#[test]
fn the_sets_of_values_are_as_exact_as_the_times() {
    let mut rate = Rate::new(1000);
    rate.set(1000, (0, 0));
    assert_eq!(rate.read(994, (1006, 1006)), (1, true));
    assert_eq!(rate.read(995, (1006, 1006)), (1, false));
    assert_eq!(rate.read(500, (1500, 1502)), (3, true));
    assert_eq!(rate.read(497, (1500, 1502)), (3, false));
    rate.add(1, (1510, 1510));
    for (at, value) in [(1511, 490), (1999, 2), (2018, 1), (2999, 1), (3000, 0)] {
        assert_eq!(rate.read(value, (at, at)), (1, true), "{at}");
    }
    // In the last millisecond of a period, or in the first of the next one; what is read says which.
    rate.set(100, (0, 0));
    rate.add(10, (999, 1000));
    assert_eq!(rate.states.len(), 2);
    assert_eq!(rate.clone().read(65, (1500, 1500)), (6, false));
    assert_eq!(rate.read(60, (1500, 1500)), (6, true));
    assert_eq!(rate.states, [State { began: (1000, 1000), current: 10, previous: 100 }]);
}

/// A generator of numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The name of a table, what it stores, and its rates, with the period of each in milliseconds.
type Table = (&'static str, &'static str, &'static [(&'static str, i64)]);

/// The last one has those that requests count at times that
/// nobody outside can tell: its values are set.
const TABLES: [Table; 3] = [
    ("t", "gpc(2),gpc_rate(2,2s),http_req_rate(1700ms)", &[("gpc_rate[0]", 2000), ("http_req_rate", 1700)]),
    ("u", "gpc0,gpc1,gpc0_rate(1s),gpc1_rate(2500ms)", &[("gpc0_rate", 1000), ("gpc1_rate", 2500)]),
    (
        "v",
        "conn_rate(1s),sess_rate(2s),http_err_rate(3s),http_fail_rate(1500ms),bytes_in_rate(2s),bytes_out_rate(1s),glitch_rate(2s)",
        &[
            ("conn_rate", 1000),
            ("sess_rate", 2000),
            ("http_err_rate", 3000),
            ("http_fail_rate", 1500),
            ("bytes_in_rate", 2000),
            ("bytes_out_rate", 1000),
            ("glitch_rate", 2000),
        ],
    ),
];

/// Keys whose rates are read with one command, so that not much time passes between the first and the last.
const AT_ONCE: usize = 25;
/// The reference's clock begins anew some 20 s after its start, and rates that counted nothing until then seem to have begun at that
/// time. What is read later than this is not compared, in milliseconds.
const CLOCK_MS: i64 = 19_000;
/// Keys that are played at the same time, and for how long: they come again some dozen times in their periods.
const IN_TURN: usize = 200;
const PLAYED: Duration = Duration::from_secs(6);

/// A program, and what is known of its rates by table, key and kind.
struct Played {
    proxy: Proxy,
    client: Conn,
    rates: Vec<HashMap<u64, Vec<Rate>>>,
    start: Instant,
    /// When it was told or asked something before. A program may take what comes while it is busy with what came before, and its
    /// clock says when that came.
    before: i64,
    read: u64,
    /// Values that could have been one, and two.
    sure: [u64; 2],
    wrong: Vec<String>,
}

impl Played {
    /// A program that was started after `start`.
    fn new(start: Instant, proxy: Proxy) -> Played {
        let client = proxy.connect();
        let rates = vec![HashMap::new(); TABLES.len()];
        Played { proxy, client, rates, start, before: 0, read: 0, sure: [0; 2], wrong: Vec::new() }
    }

    /// Does something, and says when the program can have done it.
    fn time<T>(&mut self, what: impl FnOnce(&mut Played) -> T) -> (T, Between) {
        let start = self.start;
        let now = || start.elapsed().as_millis() as i64;
        let from = std::mem::replace(&mut self.before, now());
        let done = what(self);
        (done, (from, now() + 1))
    }

    fn rate(&mut self, table: usize, key: u64, kind: usize) -> &mut Rate {
        let new = || TABLES[table].2.iter().map(|(_, period)| Rate::new(*period)).collect();
        &mut self.rates[table].entry(key).or_insert_with(new)[kind]
    }

    /// Requests that count: each for a key, and how many times.
    fn request(&mut self, requests: &[(u64, i64)]) {
        let text: String = requests
            .iter()
            .map(|(key, events)| format!("GET /?k={key} HTTP/1.1\r\nHost: h\r\nN: {events}\r\n\r\n"))
            .collect();
        let ((), at) = self.time(|played| {
            played.client.send(&text);
            requests.iter().for_each(|_| assert_eq!(played.client.response().status, 200));
        });
        for (key, events) in requests {
            for (table, kind, events) in [(0, 0, *events), (0, 1, 1), (1, 0, 1), (1, 1, 1)] {
                self.rate(table, *key, kind).add(events, at);
            }
        }
    }

    fn set(&mut self, values: &[(usize, u64, usize, i64)]) {
        let command: String = values
            .iter()
            .map(|(table, key, kind, value)| {
                let (name, _, rates) = TABLES[*table];
                format!("set table {name} key {key} data.{} {value};", rates[*kind].0)
            })
            .collect();
        let (answer, at) = self.time(|played| played.proxy.tell("sock", &command));
        assert_eq!(answer.trim(), "", "{command}");
        for (table, key, kind, value) in values {
            self.rate(*table, *key, *kind).set(*value, at);
        }
    }

    fn read(&mut self, keys: Range<u64>) {
        for (at, (name, _, rates)) in TABLES.iter().enumerate() {
            let command: String = keys.clone().map(|key| format!("show table {name} key {key};")).collect();
            let (answer, time) = self.time(|played| played.proxy.tell("sock", &command));
            if time.1 > CLOCK_MS {
                return;
            }
            for line in answer.lines().filter(|line| line.contains("key=")) {
                let of = |name: &str| -> i64 {
                    let words = || line.split(' ').filter_map(|word| word.split_once('='));
                    let is_it = |word: &str| word.split('(').next() == Some(name);
                    words().find(|(word, _)| is_it(word)).expect("its value").1.parse().expect("a number")
                };
                let key = of("key") as u64;
                for (kind, (rate, _)) in rates.iter().enumerate() {
                    let value = of(if *rate == "gpc_rate[0]" { "gpc0_rate" } else { rate });
                    let known = self.rate(at, key, kind);
                    let before = known.states.clone();
                    let (width, is_right) = known.read(value, time);
                    let past = known.past.clone();
                    self.read += 1;
                    if let Some(sure) = self.sure.get_mut(width as usize - 1) {
                        *sure += 1;
                    }
                    if !is_right {
                        self.wrong
                            .push(format!("{rate} of {key} is {value} in {time:?}: {before:?} by {past:?}"));
                    }
                }
            }
        }
    }
}

/// The same to both: events of some of these keys, values that are set, and all of them read.
fn play(both: &mut [Played; 2], some: Range<u64>, random: &mut Random) {
    let chosen: Vec<u64> = some.clone().filter(|_| random.below(3) > 0).collect();
    let requests: Vec<(u64, i64)> =
        chosen.iter().map(|key| (*key, random.one_of(&[1, 2, 7, 50, 1000]))).collect();
    let chosen: Vec<u64> = some.clone().filter(|_| random.below(3) == 0).collect();
    let value = |key: u64| {
        let table = if random.below(8) > 0 { 2 } else { random.below(2) as usize };
        let kind = random.below(TABLES[table].2.len() as u64) as usize;
        (table, key, kind, random.below(2000) as i64)
    };
    let values: Vec<(usize, u64, usize, i64)> = chosen.into_iter().map(value).collect();
    for played in both {
        played.request(&requests);
        played.set(&values);
        played.read(some.clone());
    }
}

/// `TABLE_SEQUENCES` says how many keys events happen to.
#[test]
fn rates_are_exactly_those_of_the_reference() {
    let Some(reference) = reference() else { return };
    let tables: String = TABLES
        .iter()
        .map(|(name, data, _)| {
            format!("backend {name}\nstick-table type integer size 100k expire 1h store {data}\n")
        })
        .collect();
    let text = tables
        + "frontend fe\nbind <@fe>\nhttp-request track-sc0 url_param(k) table t\nhttp-request track-sc1 url_param(k) table u\n\
           http-request sc-add-gpc(0,0) req.hdr(n)\nhttp-request sc-inc-gpc0(1)\n\
           http-request sc-inc-gpc1(1)\nhttp-request return status 200\n";
    let setup = || Setup::http(&text).global("stats socket <@dir>/sock level admin");
    let keys: u64 = std::env::var("TABLE_SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let mut random = Random(keys);
    let mut wrong = 0;
    for block in (0..keys).step_by(IN_TURN) {
        let programs = [setup(), setup().program(&reference)];
        let mut both = programs.map(|setup| Played::new(Instant::now(), setup.start("epoll")));
        let (start, end) = (Instant::now(), keys.min(block + IN_TURN as u64));
        for first in (block..end).step_by(AT_ONCE).cycle() {
            play(&mut both, first..end.min(first + AT_ONCE as u64), &mut random);
            if start.elapsed() >= PLAYED {
                break;
            }
        }
        for (Played { proxy, client, read, sure: [one, two], wrong: list, .. }, who) in
            both.into_iter().zip(["ours", "the reference"])
        {
            println!(
                "{who}: {read} rates, {one} could be one value only, {two} one of two; {} are none of these",
                list.len()
            );
            list.iter().take(5).for_each(|wrong| println!("    {wrong}"));
            wrong += list.len();
            drop(client);
            proxy.finish(());
        }
    }
    assert_eq!(wrong, 0, "see above");
}
