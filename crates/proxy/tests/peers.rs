//! Processes that share stick tables, in the simulated network: the real configurations and the real connections of a `peers`
//! section, three processes on one thread, and between each two of them a wire that can be cut, or pass nothing on without a word.
//! Time is virtual, so that "within one heartbeat" is not a question of how busy the machine is.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::{Input, LoadOptions};
use thalweg_proxy::worker::{self, Thread};
use thalweg_proxy::{Instance, peers, start_peers};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{LetGo, Listener, Port, SockAddr, Stream};
use thalweg_runtime::{Kind, clock, current_task, kill, spawn, timer};
use thalweg_stick::{DataType, Table};

const NAMES: [&str; 3] = ["A", "B", "C"];

/// Who has nothing to say says so this often.
const HEARTBEAT_MS: u64 = 3000;

/// What wires need to notice what became of them.
const LOOK_MS: u64 = 20;

/// How long it takes until all are connected again at most: a pause after a failure, and one that is drawn.
const RECONNECT_MS: u64 = 12_000;

static ACTOR: Kind = Kind::new("test");

fn address(text: String) -> SocketAddr {
    text.parse().expect("an address")
}

/// Where a process listens, and where another one finds the wire to it.
fn listens_at(process: usize) -> SocketAddr {
    address(format!("10.0.0.{}:1000", process + 1))
}

fn wire_at(from: usize, to: usize) -> SocketAddr {
    address(format!("10.0.1.{}{}:1000", from + 1, to + 1))
}

fn configuration(local: usize) -> String {
    let peer = |n: usize| match n == local {
        true => format!(" server {}\n", NAMES[n]),
        false => format!(" server {} {}\n", NAMES[n], wire_at(local, n)),
    };
    let others: String = (0..NAMES.len()).map(peer).collect();
    format!(
        "global\n localpeer {}\npeers p\n bind {}\n{others} table plain type integer size 1000 expire 24h store gpc0,gpt0\n \
         table shares type integer size 1000 expire 24h fleet store http_req_cnt,http_req_rate(1h)\n",
        NAMES[local],
        listens_at(local)
    )
}

/// A process: its tables are its own, its tasks run on this thread.
struct Process {
    instance: Arc<Instance>,
    thread: Rc<Thread>,
}

impl Process {
    fn start(local: usize, network: &Network) -> Process {
        let input = Input::Memory { name: "t.cfg".into(), text: configuration(local).into_bytes() };
        let loaded =
            thalweg_config::load(&LoadOptions { files: vec![input], cpus: 1, ..LoadOptions::default() });
        let mut config = loaded.config.expect("a valid configuration");
        config.global.nbthread = 1;
        let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
        let thread = Thread::new(Arc::clone(&instance), 0);
        worker::install(&thread);
        let at = SockAddr::from(listens_at(local));
        let fd = network.listen(&at, &Default::default()).expect("nobody has this address");
        start_peers(vec![(0, Arc::new(Port::new(fd, LetGo::Keep)))]);
        Process { instance, thread }
    }

    /// It ends as by `kill -9`: nobody is told anything.
    fn die(self, network: &Network) {
        peers::stop(&self.thread.pin().expect("it runs"));
        let teachers = network.tasks().into_iter().filter(|(_, kind)| *kind == "peers-teach");
        teachers.for_each(|(task, _)| kill(task));
    }

    fn table(&self, name: &str) -> &Table {
        self.instance.named_tables().find(|(_, table)| *table.spec().name == *name).expect("a table").1
    }

    fn set(&self, key: u32, value: u64) {
        let (table, now_ms) = (self.table("p/plain"), clock::now_ms());
        let bytes = key.to_be_bytes();
        let entry = table.find_or_insert(table.spec().key.key(&bytes).expect("a key"), now_ms).expect("room");
        entry.values().set(DataType::Gpc0, value, now_ms);
        entry.values().set(DataType::Gpt0, value * 7, now_ms);
        entry.touch(now_ms);
    }

    /// Counts a request of its own.
    fn count(&self, key: u32) {
        let (table, now_ms) = (self.table("p/shares"), clock::now_ms());
        let bytes = key.to_be_bytes();
        let entry = table.find_or_insert(table.spec().key.key(&bytes).expect("a key"), now_ms).expect("room");
        entry.values().add(DataType::HttpReqCnt, 1, now_ms);
        entry.values().add(DataType::HttpReqRate, 1, now_ms);
        entry.touch(now_ms);
    }

    /// What it knows of all requests of a key.
    fn counted(&self, key: u32) -> u64 {
        let (table, now_ms, bytes) = (self.table("p/shares"), clock::now_ms(), key.to_be_bytes());
        let key = table.spec().key.key(&bytes).expect("a key");
        let sum = |kind| table.sum(key, kind, 0, now_ms).expect("it is stored");
        assert_eq!(sum(DataType::HttpReqCnt), sum(DataType::HttpReqRate), "all within the period");
        sum(DataType::HttpReqCnt)
    }

    /// What a process counted: this one itself, or what it knows of another one. `None` where nothing is known.
    fn share(&self, of: Option<&str>, key: u32) -> Option<u64> {
        let (own, now_ms, bytes) = (self.table("p/shares"), clock::now_ms(), key.to_be_bytes());
        let table = match of {
            None => own,
            Some(name) => own.shares().find(|share| share.spec().name.ends_with(&format!("@{name}")))?,
        };
        table
            .read(table.spec().key.key(&bytes)?, now_ms, |values| values.get(DataType::HttpReqCnt, now_ms))?
    }

    /// All entries of the table that is no fleet's.
    fn content(&self) -> Vec<(u32, u64, u64)> {
        let (table, now_ms) = (self.table("p/plain"), clock::now_ms());
        let entries = (0..table.numbers()).filter_map(|number| table.entry_at(number));
        let mut all: Vec<_> = entries
            .map(|entry| {
                let (mut buf, mut long) = ([0; 64], Vec::new());
                let values = entry.values();
                let key = values.key_bytes(&mut buf, &mut long).try_into().expect("a number");
                let value = |kind| values.get(kind, now_ms).expect("it is stored");
                (u32::from_be_bytes(key), value(DataType::Gpc0), value(DataType::Gpt0))
            })
            .collect();
        all.sort_unstable();
        all
    }
}

/// What a wire does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wire {
    #[default]
    Passes,
    /// Nothing arrives, and nobody is told.
    Silent,
    /// Connections end, and no new ones are made.
    Cut,
}

type Wires = [[Rc<Cell<Wire>>; 3]; 3];

/// Connects those who come to a wire with the process at its other end.
async fn relay(at: SocketAddr, to: SocketAddr, state: Rc<Cell<Wire>>) {
    let mut listener = Listener::bind(&SockAddr::from(at), &Default::default()).expect("nobody has this");
    loop {
        let Ok((fd, _)) = listener.accept().await else {
            timer::sleep(LOOK_MS).await;
            continue;
        };
        if state.get() == Wire::Cut {
            continue;
        }
        let Ok(near) = Stream::from_accepted(fd) else { continue };
        let state = Rc::clone(&state);
        spawn(&ACTOR, async move {
            if let Ok(far) = Stream::connect(&SockAddr::from(to), &Default::default()).await {
                pass_on([near, far], &state).await;
            }
        });
    }
}

/// Passes on what arrives at either end until one of them ends, or the wire is cut.
async fn pass_on(mut ends: [Stream; 2], state: &Cell<Wire>) {
    std::future::poll_fn(|_| {
        timer::want(clock::now_ms() + LOOK_MS);
        match state.get() {
            Wire::Cut => return Poll::Ready(()),
            Wire::Silent => return Poll::Pending,
            Wire::Passes => {}
        }
        for side in 0..2 {
            let [one, other] = &mut ends;
            let (from, to) = if side == 0 { (one, other) } else { (other, one) };
            loop {
                match to.poll_send_ready() {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
                match sim::receive(from, 4096) {
                    Poll::Ready(Ok(bytes)) if !bytes.is_empty() => to.start_send(Buf::copy_of(&bytes)),
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
        }
        Poll::Pending
    })
    .await;
}

/// Plays a scenario with three processes and their wires on a thread of its own, because what a worker holds lives as long as its
/// thread.
fn play<F: Future<Output = ()> + 'static>(
    seed: u64,
    network: SimConfig,
    scenario: fn(Network, Vec<Process>, Wires) -> F,
) {
    let playing = std::thread::spawn(move || {
        let report = sim::run(seed, network, move |network: Network| async move {
            let wires: Wires = Default::default();
            for (from, wires) in wires.iter().enumerate() {
                for (to, state) in wires.iter().enumerate().filter(|(to, _)| *to != from) {
                    spawn(&ACTOR, relay(wire_at(from, to), listens_at(to), Rc::clone(state)));
                }
            }
            let processes = (0..NAMES.len()).map(|n| Process::start(n, &network)).collect();
            scenario(network.clone(), processes, wires).await;
            let me = current_task();
            network.tasks().into_iter().filter(|(task, _)| *task != me).for_each(|(task, _)| kill(task));
            worker::uninstall();
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()), "seed {seed}");
    });
    playing.join().unwrap_or_else(|_| panic!("seed {seed}"));
}

fn set_between(wires: &Wires, one: usize, other: usize, what: Wire) {
    wires[one][other].set(what);
    wires[other][one].set(what);
}

const KEYS: u32 = 30;

/// What each process knows of what another one counted is what that one counted. Who came back empty knows nothing of what it had
/// counted before; then what the others know of it stays.
fn assert_shares(processes: &[Process]) {
    for (process, name) in processes.iter().zip(NAMES) {
        for (other, other_name) in processes.iter().zip(NAMES).filter(|(_, other)| *other != name) {
            for key in 0..KEYS {
                let counted = other.share(None, key);
                let known = process.share(Some(other_name), key);
                assert!(
                    counted.is_none() || known == counted,
                    "{name} of {other_name}, key {key}: {known:?} {counted:?}"
                );
            }
        }
    }
}

/// Wires that are cut or say nothing, perhaps processes that die and come back empty, and changes all along, each key by one process.
/// Once the wires pass everything again, all know the same, and what each counted; and then nobody says any more than that it is there.
async fn storm(network: Network, mut processes: Vec<Process>, wires: Wires) {
    let some_die = network.random(2) == 0;
    let mut value = 0;
    for _ in 0..400 {
        let (one, other) = (network.random(3) as usize, network.random(2) as usize + 1);
        let other = (one + other) % 3;
        match network.random(20) {
            0 => set_between(&wires, one, other, Wire::Cut),
            1 => set_between(&wires, one, other, Wire::Silent),
            2..=4 => set_between(&wires, one, other, Wire::Passes),
            5 if some_die && network.random(4) == 0 => {
                let last = processes.len() - 1;
                processes.swap(one, last);
                processes.pop().expect("three").die(&network);
                timer::sleep(network.random(9000)).await;
                processes.push(Process::start(one, &network));
                processes.swap(one, last);
            }
            6..=9 => timer::sleep(network.random(2000)).await,
            10..=13 => processes[one].count(network.random(u64::from(KEYS)) as u32),
            _ => {
                value += 1;
                processes[one].set(network.random(u64::from(KEYS / 3)) as u32 * 3 + one as u32, value);
            }
        }
    }
    for (one, other) in [(0, 1), (1, 2), (2, 0)] {
        set_between(&wires, one, other, Wire::Passes);
    }
    // What is silent for long is noticed by who waits for a heartbeat.
    timer::sleep(2 * HEARTBEAT_MS + RECONNECT_MS).await;
    if some_die {
        // What a process had not told anybody is gone with it, and what it had told some of them only they know.
        (0..KEYS).for_each(|key| processes[key as usize % 3].set(key, u64::from(key)));
        timer::sleep(HEARTBEAT_MS).await;
    }
    let known = processes[0].content();
    assert!(processes.iter().all(|process| process.content() == known), "all agree");
    assert_shares(&processes);
    let before = network.counts().bytes;
    timer::sleep(10 * HEARTBEAT_MS).await;
    let said = network.counts().bytes - before;
    assert!(said < 1000, "{said} bytes in ten heartbeats without a change");
}

/// `PEERS_SEEDS` says how many scenarios are played of each kind.
fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("PEERS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8)
}

#[test]
fn three_agree_whatever_happens_between_them() {
    for seed in seeds() {
        play(seed, SimConfig { latency_us: (50, 5000), ..SimConfig::faultless() }, storm);
        let stormy =
            SimConfig { short_read_ppm: 100_000, short_write_ppm: 100_000, ..SimConfig::faultless() };
        play(1000 + seed, stormy, storm);
    }
}

/// A fleet of which one process is cut off, without a word: both parts go on with what they know, and know all again within a
/// heartbeat of being connected.
async fn cut_off(_: Network, processes: Vec<Process>, wires: Wires) {
    timer::sleep(RECONNECT_MS).await;
    let count = |process: usize, times: u64| (0..times).for_each(|_| processes[process].count(7));
    let all = || [0, 1, 2].map(|n: usize| processes[n].counted(7));
    for (process, times) in [(0, 3), (1, 4), (2, 5)] {
        count(process, times);
    }
    timer::sleep(HEARTBEAT_MS).await;
    assert_eq!(all(), [12; 3]);
    set_between(&wires, 0, 2, Wire::Silent);
    set_between(&wires, 1, 2, Wire::Silent);
    count(0, 10);
    count(2, 100);
    timer::sleep(HEARTBEAT_MS).await;
    assert_eq!(all(), [22, 22, 112]);
    timer::sleep(10 * HEARTBEAT_MS).await;
    assert_eq!(all(), [22, 22, 112], "what was known stays");
    count(1, 1000);
    timer::sleep(HEARTBEAT_MS).await;
    assert_eq!(all(), [1022, 1022, 112]);
    set_between(&wires, 0, 2, Wire::Passes);
    set_between(&wires, 1, 2, Wire::Passes);
    timer::sleep(RECONNECT_MS + HEARTBEAT_MS).await;
    assert_eq!(all(), [1122; 3]);
}

#[test]
fn a_fleet_goes_on_without_whom_it_cannot_reach() {
    seeds().for_each(|seed| play(seed, SimConfig::faultless(), cut_off));
}
