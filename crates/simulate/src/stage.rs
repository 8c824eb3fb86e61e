//! Playing a scenario: the real configuration, the real data path on one thread of the simulator, and the parties of the
//! plan around it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::Config;
use thalweg_config::{After, Input, LoadOptions};
use thalweg_proxy::{Instance, Stopping, ThreadSocket, worker};
use thalweg_runtime::buffer::BufferConfig;
use thalweg_runtime::driver::sim::{self, Network, Report, SimConfig};
use thalweg_runtime::net::{Datagram, DatagramOptions, LetGo, Port, SockAddr};
use thalweg_runtime::{TaskId, clock, kill, spawn, timer};

use crate::actor::{ACTOR, change, client, health, log, operator, server::Server, streams, tcp};
use crate::check;
use crate::plan::{Drop, LOG, Plan, STREAMS_FRONT, TCP_FRONT};
use crate::record::Record;

/// Rounds in which nothing happens that are too many: a task that is woken for nothing, over and over.
const IDLE_ROUNDS_MAX: u64 = 1_000;

/// How long a check may last that nobody answers, and a little more.
const CHECK_MAX_MS: u64 = 2_500;

/// How long what is left may take to end once all clients are gone, in milliseconds.
const SETTLE_MS: u64 = 200_000;

/// Tasks that a proxy has for as long as it runs.
const PERPETUAL: [&str; 6] =
    ["accept", "health-check", "idle-connections", "log-ring", "ocsp-update", "slowstart"];

/// How a scenario went.
pub struct Outcome {
    pub plan: Arc<Plan>,
    pub report: Report,
    /// What is wrong, one line each.
    pub complaints: Vec<String>,
    /// How many requests clients sent, how many responses they got, and how many times servers saw a request.
    pub counts: [usize; 3],
}

/// Plays the scenario of a seed on a thread of its own, because what a worker holds lives as long as its thread. `journal`
/// keeps what happened.
///
/// # Panics
/// When the simulator itself has a bug.
pub fn play(seed: u64, journal: bool) -> Outcome {
    let play = move || {
        let plan = Arc::new(Plan::new(seed));
        match configuration(&plan.proxy.text, None) {
            Ok(config) => play_here(plan, config, journal),
            Err(complaint) => {
                let report = sim::run(seed, SimConfig::faultless(), |_| async {});
                Outcome { plan, report, complaints: vec![complaint], counts: [0; 3] }
            }
        }
    };
    match std::thread::spawn(play).join() {
        Ok(outcome) => outcome,
        Err(_) => panic!("seed {seed}: the simulator itself panicked"),
    }
}

/// Reads a configuration, which may follow another one.
pub(crate) fn configuration(text: &str, after: Option<After<'_>>) -> Result<Config, String> {
    let input = Input::Memory { name: "plan.cfg".into(), text: text.as_bytes().to_vec() };
    let options = LoadOptions { files: vec![input], cpus: 1, after, ..LoadOptions::default() };
    let loaded = thalweg_config::load(&options);
    let options = thalweg_syntax::RenderOptions { pid: 1, diagnostic_mode: false };
    let mut config = loaded.config.ok_or_else(|| loaded.diagnostics.render(&loaded.sources, options))?;
    config.global.nbthread = 1;
    // What is said of servers is in the log.
    config.global.quiet = true;
    Ok(config)
}

fn play_here(plan: Arc<Plan>, config: Config, journal: bool) -> Outcome {
    // The network is as it should be until everything has started.
    let start = SimConfig {
        idle_rounds_max: IDLE_ROUNDS_MAX,
        buffers: buffers(&config),
        latency_us: plan.network.latency_us,
        send_buffer: plan.network.send_buffer,
        deferred_sends: plan.network.deferred_sends,
        ..SimConfig::faultless()
    };
    let complaints: Rc<RefCell<Vec<String>>> = Rc::default();
    let counts = Rc::new(RefCell::new([0; 3]));
    let (told, counted, scenario) = (Rc::clone(&complaints), Rc::clone(&counts), Arc::clone(&plan));
    let report = sim::run(plan.seed, start.clone(), move |network: Network| async move {
        if journal {
            network.keep_journal();
        }
        let record = Record::new(&network, &scenario);
        let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
        let socket =
            Datagram::bind(&address(LOG), &DatagramOptions::default()).expect("nobody has this address");
        let mut actors = vec![spawn(&ACTOR, log::read(socket, Rc::clone(&record)))];
        start_proxy(&instance, &network, &scenario);
        let servers: Vec<_> =
            (0..scenario.servers.len()).map(|n| Server::start(&scenario, &record, n)).collect();
        for n in 0..scenario.tcp.as_ref().map_or(0, |tcp| tcp.servers.len()) {
            actors.push(spawn(&ACTOR, tcp::serve(Arc::clone(&scenario), Rc::clone(&record), n)));
        }
        for n in 0..scenario.streams.as_ref().map_or(0, |streams| streams.servers.len()) {
            actors.push(spawn(&ACTOR, streams::serve(Arc::clone(&scenario), Rc::clone(&record), n)));
        }
        timer::sleep(1).await;
        network.have_others(&ACTOR);
        network.configure(|c| {
            *c =
                SimConfig { buffers: c.buffers, idle_rounds_max: IDLE_ROUNDS_MAX, ..scenario.network.clone() }
        });
        begin_clients(&scenario, &record);
        begin_changes(&scenario, &record, &mut actors);
        watch_health(&scenario, &record, &mut actors);
        if let Some(ms) = scenario.soft_stop_ms {
            let (instance, network) = (Arc::clone(&instance), network.clone());
            actors.push(spawn(&ACTOR, async move {
                timer::sleep(ms).await;
                network.note(|| "actor a soft stop begins".to_owned());
                stop(&instance);
            }));
        }
        record.clients_done().await;
        network.configure(|c| *c = SimConfig { buffers: c.buffers, ..start });
        health::recover(&scenario, &record).await;
        settle(&instance, &record).await;
        check::all(&scenario, &record, &instance);
        *counted.borrow_mut() = [
            record.clients.borrow().iter().map(|c| c.requests.len()).sum(),
            record.clients.borrow().iter().map(|c| c.responses.len()).sum(),
            record.attempts.borrow().len(),
        ];
        told.borrow_mut().append(&mut record.complaints.borrow_mut());
        servers.iter().for_each(|server| server.stop(Drop::Close));
        actors.into_iter().for_each(kill);
        let mut ends: Vec<_> = network.tasks();
        ends.retain(|(task, kind)| {
            *task != thalweg_runtime::current_task() && (*kind == ACTOR.name() || PERPETUAL.contains(kind))
        });
        ends.into_iter().for_each(|(task, _)| kill(task));
        worker::uninstall();
    });
    let mut complaints = complaints.take();
    if let Err(what) = report.check() {
        complaints.push(what);
    }
    let counts = counts.take();
    Outcome { plan, report, complaints, counts }
}

fn buffers(config: &Config) -> BufferConfig {
    let tune = &config.global.tune;
    BufferConfig { size: tune.bufsize, limit: tune.buffers_limit, reserve: tune.buffers_reserve }
}

fn begin_clients(scenario: &Arc<Plan>, record: &Rc<Record>) {
    for n in 0..scenario.clients.len() {
        spawn(&ACTOR, client::play(Arc::clone(scenario), Rc::clone(record), n));
    }
    for n in 0..scenario.tcp.as_ref().map_or(0, |tcp| tcp.sessions.len()) {
        spawn(&ACTOR, tcp::play(Arc::clone(scenario), Rc::clone(record), n));
    }
    for n in 0..scenario.streams.as_ref().map_or(0, |streams| streams.sessions.len()) {
        spawn(&ACTOR, streams::play(Arc::clone(scenario), Rc::clone(record), n));
    }
}

/// Whoever changes servers and the configuration. They are ended with the scenario.
fn begin_changes(scenario: &Arc<Plan>, record: &Rc<Record>, actors: &mut Vec<TaskId>) {
    for deed in scenario.deeds.iter().copied() {
        let (plan, record) = (Arc::clone(scenario), Rc::clone(record));
        actors.push(spawn(&ACTOR, operator::act(plan, record, deed)));
    }
    if let Some(plan) = &scenario.change {
        actors.push(spawn(&ACTOR, change::watch(Arc::clone(scenario), Rc::clone(record))));
        actors.push(spawn(&ACTOR, change::reload(Arc::clone(scenario), Rc::clone(record))));
        for (n, guest) in plan.guests.iter().enumerate() {
            let visit = change::visit(Arc::clone(scenario), Rc::clone(record), n, *guest);
            actors.push(spawn(&ACTOR, visit));
        }
    }
}

/// Agents of servers, and who looks whether the proxy knows how servers are. Where connections fail for no reason, or checks
/// wait for buffers, it cannot know.
fn watch_health(scenario: &Arc<Plan>, record: &Rc<Record>, actors: &mut Vec<TaskId>) {
    let is_known = !scenario.storms && !scenario.proxy.is_short_of_buffers && scenario.change.is_none();
    for n in 0..scenario.proxy.server_count() {
        let of = || (Arc::clone(scenario), Rc::clone(record), n);
        let (check, agent) = (scenario.health.check(n), scenario.health.agent(n));
        let is_known = is_known && scenario.deeds.iter().all(|(_, server, _)| *server != n);
        if agent.is_some() {
            let (plan, record, n) = of();
            actors.push(spawn(&ACTOR, health::be_asked(plan, record, n)));
        }
        match (check, agent) {
            // An agent may have its server's checks paused.
            (Some(check), None) if is_known => {
                let (plan, record, n) = of();
                actors.push(spawn(&ACTOR, health::watch_checks(plan, record, n, check)));
            }
            (_, Some(_)) if is_known => {
                let (plan, record, n) = of();
                actors.push(spawn(&ACTOR, health::watch_agent(plan, record, n)));
            }
            _ => {}
        }
    }
}

fn address(text: &str) -> SockAddr {
    text.parse::<SocketAddr>().expect("an address").into()
}

fn start_proxy(instance: &Arc<Instance>, network: &Network, plan: &Plan) {
    let mut sockets = Vec::new();
    let mut listen = |name: &str, front: SockAddr| {
        let Some(proxy) = instance.frontend_by_name(name.as_bytes()) else { return };
        let fd = network.listen(&front, &Default::default()).expect("nobody has this address");
        sockets.push(ThreadSocket {
            listener: proxy.binds[0].number as usize,
            port: Arc::new(Port::new(fd, LetGo::Keep)),
        });
    };
    plan.proxy.fronts.iter().enumerate().for_each(|(n, front)| listen(&format!("fe{n}"), front.clone()));
    plan.tls.fronts.iter().for_each(|(name, front)| listen(name, SockAddr::from(*front)));
    if let Some(tcp) = &plan.tcp {
        listen(TCP_FRONT, tcp.front.into());
    }
    if let Some(streams) = &plan.streams {
        listen(STREAMS_FRONT, streams.front.into());
    }
    thalweg_proxy::start_thread(instance, 0, sockets);
}

/// What a soft stop is on this thread, but for the end of the runtime.
fn stop(instance: &Arc<Instance>) {
    instance.stop(Stopping::Soft);
    thalweg_proxy::stop_accepting(&instance.live);
}

/// Once all clients are gone, everything must come to its end by itself.
async fn settle(instance: &Arc<Instance>, record: &Record) {
    let until = clock::now_ms() + SETTLE_MS;
    if instance.stopping() == Stopping::No {
        // What a client sent last may still be on its way.
        timer::sleep(1_000).await;
        stop(instance);
    }
    while !instance.is_idle() {
        if clock::now_ms() >= until {
            record.complain("connections of clients that are gone are still there");
            return;
        }
        timer::sleep(50).await;
    }
    // The last log line is on its way, and so are the ends of connections to servers. A check of a server that is gone keeps its
    // configuration until its interval is over.
    timer::sleep(CHECK_MAX_MS).await;
}
