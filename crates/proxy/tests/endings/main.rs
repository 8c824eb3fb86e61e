//! Every cause of the table of endings (`stream/ending.rs`, docs/endings.md) is forced, in virtual time: a real
//! configuration, the real data path on one thread of the simulator, and a client and servers that play scripts. What the
//! table says is compared with what happened: the letters and the status in the log, the counters of frontend, backend
//! and server (all that are there: those that are not in the row must not move), what became of the client's connection,
//! and, where a cause may be tried again, that it is when `retry-on` says so. A cause without a scene fails.

#[path = "../support/scene.rs"]
mod scene;
mod scenes;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use scene::{BACK, Do, FRONT, LOG, SCRIPT, Seen, accept, address, begin, play, to_front};
use scenes::{ANSWER, Act, Reached, Scene, scenes};
use thalweg_http::Head as HttpHead;
use thalweg_proxy::counters::Counters;
use thalweg_proxy::operator::Hand;
use thalweg_proxy::stream::ending::{COUNTED, Cause, Counts, Fate, Side};
use thalweg_proxy::stream::service::{Body, Request, Service};
use thalweg_proxy::{Stopping, worker};
use thalweg_runtime::buffer::{self, BufferConfig};
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{Datagram, DatagramOptions};
use thalweg_runtime::{clock, spawn, timer};
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};

/// A service that has nothing to say.
struct Nothing;

impl Service for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn title(&self) -> &'static str {
        "<NOTHING>"
    }

    fn answer(&self, _: &Request<'_>, response: &mut HttpHead) -> Result<Option<Box<dyn Body>>, u16> {
        response.start_response(thalweg_http::Version::HTTP_11, 200, Some(b"OK")).map_err(|_| 500u16)?;
        Ok(Some(Box::new(Nothing)))
    }
}

impl Body for Nothing {
    fn step(&mut self, _: &mut String) -> bool {
        false
    }
}

/// The path of a certificate with its key.
fn certificate() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let template = Template::new("www.example.com", 0, 4_000_000_000);
        let text = template.self_signed(&key).unwrap();
        let path = std::env::temp_dir().join(format!("thalweg-endings-{}.pem", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

fn configuration(scene: &Scene) -> String {
    let format = if scene.mode == "http" { "%ts %ST %HP" } else { "%ts" };
    let lines = |text: &str| text.replace(';', "\n ");
    let server =
        if scene.backend.contains("server s ") { String::new() } else { format!(" server s {BACK}\n") };
    let tls =
        if scene.cause == Cause::NoClientTls { format!("ssl crt {}", certificate()) } else { String::new() };
    let default = if scene.no_default_backend { "" } else { " default_backend be\n" };
    format!(
        "global\n log {LOG} format raw local0\n expose-experimental-directives\ndefaults\n mode {}\n log global\n \
         log-format \"{format}\"\n error-log-format \"%ts %ST x\"\n timeout connect 9s\n timeout client 9s\n timeout server 9s\n \
         retries 0\nfrontend fe\n bind {FRONT} {tls}\n {}\n{default}backend be\n {}\n{server}{}\n",
        scene.mode,
        lines(scene.frontend),
        lines(scene.backend),
        lines(scene.more),
    )
}

/// What a scene showed.
struct Played {
    /// Its last log line, without the path.
    log: String,
    /// When that was written, and when the client saw the end of its connection.
    logged_ms: u64,
    client_end_ms: Option<u64>,
    /// Which counters of failures moved: the place in the table, and how much.
    counted: Vec<(usize, u64)>,
    /// The causes that were noted.
    noted: Vec<Cause>,
}

/// How long a scene is looked at.
const LENGTH_MS: u64 = 5_000;

fn act(network: &Network, act: Act, worker: &worker::Worker, undo: bool) {
    let ppm = if undo { 0 } else { 1_000_000 };
    match act {
        Act::Refused => network.configure(|c| c.refuse_ppm = ppm),
        Act::Unanswered => network.configure(|c| c.unanswered_ppm = ppm),
        Act::NoFiles => network.configure(|c| c.emfile_ppm = ppm),
        Act::OneBuffer => buffer::configure(BufferConfig {
            limit: if undo { 0 } else { buffer::stats().used + 1 },
            reserve: 0,
            ..BufferConfig::default()
        }),
        _ if undo => {}
        Act::ServerDown => {
            let be = worker.instance.backend_by_name(b"be").unwrap().id;
            worker.backend(be).shut_sessions(thalweg_config::model::ServerId(0));
        }
        Act::ActiveUp => {
            let be = worker.instance.backend_by_name(b"be").unwrap().id;
            Hand { worker, proxy: be, server: thalweg_config::model::ServerId(0) }.make_ready();
        }
        Act::Kill => _ = worker.streams.kill(|_| true),
        Act::Stop => {
            worker.instance.stop(Stopping::Hard);
            worker.wake_sessions();
        }
    }
}

/// Plays a scene. `undo` is when what was done to the proxy is undone.
fn run(scene: &Scene, deferred_sends: bool, text: String, undo: Option<u64>) -> Played {
    let (client, first, servers) = (scene.client.clone(), scene.first.clone(), scene.servers.clone());
    let (act_at, name, is_http) = (scene.act, format!("{:?}", scene.cause), scene.mode == "http");
    let title = name.clone();
    // What a worker holds lives as long as its thread.
    let played = std::thread::spawn(move || {
        let played = Arc::new(std::sync::Mutex::new(None));
        let result = Arc::clone(&played);
        let sim = SimConfig { deferred_sends, ..SimConfig::faultless() };
        let report = sim::run(7, sim, move |network: Network| async move {
            let mut log = Datagram::bind(&address(LOG), &DatagramOptions::default()).unwrap();
            let began = clock::now_ms() + first.len() as u64 * 20;
            let seen = Seen::default();
            let told = seen.clone();
            let mut scripts = servers.into_iter();
            let mut script = Vec::new();
            accept(BACK, move |stream| {
                script = scripts.next().unwrap_or_else(|| std::mem::take(&mut script));
                play(stream, script.clone(), "server", told.clone(), began)
            });
            let instance = begin(&network, &name, &text, vec![Box::new(Nothing)]);
            let of = |name: &str| instance.config.proxies.iter().find(|p| &*p.name == name).unwrap().id;
            let (fe, be) = (of("fe"), of("be"));
            for script in first {
                let stream = to_front().await;
                spawn(&SCRIPT, play(stream, script, "first", seen.clone(), began));
                timer::sleep(20).await;
            }
            let stream = to_front().await;
            spawn(&SCRIPT, play(stream, client, "client", seen.clone(), began));
            if let Some((at, what)) = act_at {
                let network = network.clone();
                spawn(&SCRIPT, async move {
                    timer::sleep_until(began + at).await;
                    act(&network, what, &worker::current().unwrap(), false);
                    if let Some(undo) = undo {
                        timer::sleep_until(began + undo).await;
                        act(&network, what, &worker::current().unwrap(), true);
                    }
                });
            }
            let (mut line, mut logged_ms) = ("none".to_owned(), 0);
            while let Ok(received) = timer::timeout_at(Some(began + LENGTH_MS), log.recv_from()).await {
                let text = String::from_utf8_lossy(&received.unwrap().bytes).trim().to_owned();
                if text.contains("/first") || text.contains("Server ") || text.contains("Proxy ") {
                    continue;
                }
                line = match is_http {
                    true => text.rsplit_once(' ').map_or(text.clone(), |(line, _)| line.to_owned()),
                    false => text,
                };
                logged_ms = clock::now_ms() - began;
            }
            buffer::configure(BufferConfig::default());
            let threads = &instance.threads[0];
            let fronts: Vec<&Counters> = instance.frontend_counters(fe).collect();
            let servers = &instance.config.proxies[be.0 as usize].servers;
            let index = |id| instance.server_index(be, id);
            let value = |counted: &thalweg_proxy::stream::ending::Counted| match counted.side {
                Side::Frontend => fronts.iter().map(|c| counted.value(c)).sum(),
                Side::Backend => counted.value(&threads.backends[be.0 as usize]),
                Side::Server => {
                    servers.iter().map(|s| counted.value(instance.servers.of(index(s.id), 0))).sum()
                }
            };
            let counted: Vec<(usize, u64)> =
                COUNTED.iter().enumerate().map(|(i, c)| (i, value(c))).filter(|(_, n)| *n > 0).collect();
            let client_end_ms = seen.borrow().iter().find(|(by, ..)| *by == "client").map(|(_, at, _)| *at);
            *result.lock().unwrap() =
                Some(Played { log: line, logged_ms, client_end_ms, counted, noted: noted() });
            timer::sleep(20_000).await;
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()), "{title}");
        played.lock().unwrap().take()
    })
    .join();
    played.ok().flatten().unwrap_or_else(|| panic!("{:?}: the scene panicked", scene.cause))
}

#[cfg(debug_assertions)]
fn noted() -> Vec<Cause> {
    thalweg_proxy::stream::ending::take_noted()
}

#[cfg(not(debug_assertions))]
fn noted() -> Vec<Cause> {
    Vec::new()
}

/// The counters of a row that can move in a scene.
/// Those of servers count only for streams that came to one, and so on.
fn expected_counts(sets: &[Counts], reached: Reached) -> Vec<(usize, u64)> {
    let reaches = |side| match side {
        Side::Frontend => true,
        Side::Backend => reached >= Reached::Backend,
        Side::Server => reached >= Reached::Server,
    };
    let times = |column: &str, side: Side| {
        let has = |set: &&Counts| set.iter().any(|c| c.column == column && c.side == side);
        sets.iter().filter(has).count() as u64
    };
    COUNTED
        .iter()
        .enumerate()
        .filter(|(_, c)| reaches(c.side))
        .map(|(i, c)| (i, times(c.column, c.side)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn columns(counted: &[(usize, u64)]) -> String {
    let name = |(i, n): &(usize, u64)| format!("{:?} {} {n}", COUNTED[*i].side, COUNTED[*i].column);
    counted.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[test]
fn every_cause_has_what_the_table_says() {
    let mut wrong = String::new();
    let mut forced = BTreeSet::new();
    for scene in scenes() {
        let causes: Vec<Cause> =
            scene.before.iter().chain([&scene.cause]).chain(&scene.after).copied().collect();
        forced.extend(causes.iter().copied());
        let row = scene.cause.row();
        for deferred_sends in [false, true] {
            let played = run(&scene, deferred_sends, configuration(&scene), None);
            let mut complain = |what: &str, expected: &str, saw: &str| {
                let (cause, mode) = (scene.cause, scene.mode);
                let _ = writeln!(
                    wrong,
                    "{mode} {cause:?} (deferred sends: {deferred_sends}): {what} {expected:?}, saw {saw:?}"
                );
            };
            let expected = scene.expected();
            if played.log != expected {
                complain("log", &expected, &played.log);
            }
            let unsent = [Cause::AnswerFailed, Cause::BadBodyUnread];
            let is_sent = !causes.iter().any(|cause| unsent.contains(cause));
            let is_counted = |cause: &&Cause| is_sent || !cause.row().once_sent;
            let sets: Vec<Counts> =
                causes.iter().filter(is_counted).map(|cause| cause.row().counts).collect();
            let counts = expected_counts(&sets, scene.reached);
            if played.counted != counts {
                complain("counters", &columns(&counts), &columns(&played.counted));
            }
            let ends: Vec<Cause> = causes.iter().copied().filter(|c| *c != Cause::Completed).collect();
            if cfg!(debug_assertions) && played.noted != ends {
                complain("causes", &format!("{ends:?}"), &format!("{:?}", played.noted));
            }
            let end = played.client_end_ms;
            let as_told = match row.fate {
                _ if !scene.client_stays() => true,
                Fate::Kept if scene.mode == "http" => end.is_none_or(|at| at > played.logged_ms + 500),
                _ => end.is_some_and(|at| at < played.logged_ms + 1_500),
            };
            if !as_told {
                complain(
                    "connection",
                    &format!("{:?} at {}", row.fate, played.logged_ms),
                    &format!("{end:?}"),
                );
            }
        }
    }
    let missing: Vec<&Cause> = Cause::ALL.iter().filter(|cause| !forced.contains(cause)).collect();
    assert!(wrong.is_empty() && missing.is_empty(), "{wrong}without a scene: {missing:?}");
}

/// Where the table names a condition, the request is sent once more under it, and counts what the table says.
#[test]
fn what_may_be_tried_again_is() {
    let mut wrong = String::new();
    // A server of these scenes does not speak TLS the second time either: see `servers_that_cannot_be_agreed_with`.
    let may_work = |scene: &Scene| scene.mode == "http" && scene.cause != Cause::NoServerTls;
    for mut scene in scenes().into_iter().filter(may_work) {
        let Some((condition, counts)) = scene.cause.row().retry else { continue };
        if scene.act.is_some() {
            scene.servers = vec![vec![Do::Head, ANSWER]];
        } else {
            scene.servers.push(vec![Do::Head, ANSWER]);
        }
        for (retry_on, is_tried) in [(condition.word(), true), ("none", false)] {
            let text = configuration(&scene)
                .replace("\nbackend be\n", &format!("\nbackend be\n retries 1\n retry-on {retry_on}\n"));
            let played = run(&scene, false, text, Some(500));
            let (log, counts) = match is_tried {
                true => ("-- 200".to_owned(), expected_counts(&[counts], Reached::Server)),
                false => (scene.expected(), expected_counts(&[scene.cause.row().counts], scene.reached)),
            };
            if played.log != log || played.counted != counts {
                let _ = writeln!(
                    wrong,
                    "{:?} with retry-on {retry_on}: expected {log:?} and {}, saw {:?} and {}",
                    scene.cause,
                    columns(&counts),
                    played.log,
                    columns(&played.counted)
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Letters are set, and failures counted, by `stream/ending.rs` alone.
#[test]
fn nothing_ends_beside_the_table() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut looked = 0;
    let mut wrong = String::new();
    let mut directories = vec![crates.join("proxy/src"), crates.join("cli/src"), crates.join("thalweg/src")];
    let fields = [
        "failed_requests",
        "denied_requests",
        "denied_responses",
        "failed_connections",
        "failed_responses",
        "client_aborts",
        "server_aborts",
        "internal_errors",
        "intercepted",
        "denied_connections",
        "denied_sessions",
    ];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs")
                || path.ends_with("stream/ending.rs")
            {
                continue;
            }
            looked += 1;
            let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
            let letters =
                ["termination.cause=", "termination.phase=", "t.cause,t.phase", "termination=Default"];
            let counts = fields.iter().map(|field| format!("{field}.add("));
            for what in letters.iter().map(|letters| (*letters).to_owned()).chain(counts) {
                let is_question = text.contains(&format!("{what}=")) && what.ends_with('=');
                if text.contains(&what) && !is_question {
                    let _ = writeln!(wrong, "{}: {what}", path.display());
                }
            }
        }
    }
    assert!(looked > 40, "only {looked} files were found");
    assert!(wrong.is_empty(), "name a cause instead (stream/ending.rs):\n{wrong}");
}
