//! Numbers of servers that come and go are used again as soon as nobody can mean the former server by them.

mod support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use thalweg_balance::ServerIndex;
use thalweg_config::model::{Proxy, ServerId};
use thalweg_config::{After, Input, LoadOptions, load, new_server};
use thalweg_proxy::change::{add_server, remove_server};
use thalweg_proxy::reload::{Next, Reserved};
use thalweg_proxy::worker::{self, Worker};
use thalweg_runtime::{Config, run_on};

use support::Running;

/// A change gives numbers free that the threads have forgotten since the one before it: so many are on their way at most.
const ON_THEIR_WAY: u32 = 4;

thread_local! {
    /// A stream that stays: what it has pinned.
    static STAYS: RefCell<Option<Rc<Worker>>> = const { RefCell::new(None) };
}

fn start() -> Running {
    let text = "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n\
                frontend fe\n bind 127.0.0.1:80\n default_backend be\n\
                backend be\n balance roundrobin\n server first 127.0.0.1:1 maxconn 10\n";
    let running = support::start(text, Config::default(), || {});
    on(&running, |_, _| STAYS.set(worker::current()));
    running
}

/// Does something on the proxy's thread, by what is in force, and then what that left the thread to do.
fn on<T: Send + 'static>(running: &Running, f: impl FnOnce(&Rc<Worker>, &Proxy) -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    running.handle.run_on(0, move || {
        let worker = worker::current().expect("it serves");
        let backend = worker.instance.backend_by_name(b"be").expect("it is there");
        let done = f(&worker, backend);
        // Behind all jobs that the thread has given itself.
        run_on(0, move || tell.send(done).expect("the test waits"));
    });
    told.recv().expect("the thread runs")
}

/// A server of that name joins a backend.
fn add(worker: &Worker, backend: &Proxy, name: &str) {
    let (config, line) = (&worker.instance.config, ["127.0.0.1:1", "maxconn", "10"]);
    let read = new_server(&LoadOptions::default(), config, backend, name, &line);
    add_server(worker, &backend.name, read.expect("a good line").server, None).expect("it may come");
}

/// A server comes; its number.
fn comes(running: &Running, name: &'static str) -> ServerId {
    on(running, move |worker, backend| add(worker, backend, name));
    on(running, move |_, backend| backend.server_by_name(name).expect("it came").id)
}

fn goes(running: &Running, server: ServerId) {
    on(running, move |worker, backend| remove_server(worker, backend.id, server).expect("it may go"));
}

/// Servers come and go for a while; their numbers.
fn traffic(running: &Running) -> Vec<ServerId> {
    let mut numbers = Vec::new();
    for _ in 0..20 {
        let server = comes(running, "passing");
        numbers.push(server);
        goes(running, server);
    }
    numbers
}

/// What the stream that stays calls a server.
fn known_to_the_old(running: &Running, server: ServerId) -> Option<String> {
    on(running, move |_, backend| {
        STAYS.with_borrow(|stays| {
            let pin = stays.as_ref().expect("it is there");
            pin.server(pin.proxy(backend.id), server).map(|server| server.name.to_string())
        })
    })
}

#[test]
fn an_old_stream_does_not_keep_what_it_cannot_mean() {
    let running = start();
    let numbers = traffic(&running);
    assert!(numbers.iter().all(|number| number.0 <= ON_THEIR_WAY), "{numbers:?}");
    running.stop();
}

/// Nobody has to change anything else for what is gone to be forgotten. The next change alone gives no number free that it could use.
#[test]
fn numbers_come_back_by_themselves() {
    let running = start();
    on(&running, |_, _| drop(STAYS.take()));
    let is_used_again = |_| {
        let server = comes(&running, "passing");
        goes(&running, server);
        thread::sleep(Duration::from_millis(150));
        let next = comes(&running, "next");
        goes(&running, next);
        next == server
    };
    assert!((0..20).any(is_used_again));
    running.stop();
}

#[test]
fn an_old_stream_keeps_what_it_was_given() {
    let running = start();
    let given = comes(&running, "given");
    assert_eq!(known_to_the_old(&running, given).as_deref(), Some("given"));
    goes(&running, given);
    assert!(!traffic(&running).contains(&given));
    assert_eq!(known_to_the_old(&running, given).as_deref(), Some("given"));
    on(&running, |_, _| drop(STAYS.take()));
    assert!(traffic(&running).contains(&given), "the stream is over");
    running.stop();
}

/// A slot that was handed to a stream of an older configuration, which does not know it yet.
#[test]
fn a_slot_that_is_on_its_way_keeps_its_server() {
    let running = start();
    let server = comes(&running, "full");
    let slot = on(&running, move |worker, backend| {
        worker.backend(backend.id).try_start(ServerIndex(server.0)).expect("it has room")
    });
    goes(&running, server);
    assert!(!traffic(&running).contains(&server));
    on(&running, move |worker, backend| worker.backend(backend.id).end(slot));
    assert!(traffic(&running).contains(&server), "the slot is free");
    running.stop();
}

/// Many servers come, serve something and go: what is kept and was counted of them is there as long as a stream may count for them, and no longer.
#[test]
fn what_is_kept_of_servers_goes_with_the_last_who_knows_them() {
    // Fewer than what is taken apart aside.
    const MANY: usize = 900;
    let made = |running: &Running| {
        on(running, |worker, backend| [worker.instance.servers.made(), worker.backend(backend.id).made()])
    };
    let running = start();
    on(&running, |_, backend| {
        for n in 0..MANY {
            // By what the server before left in force.
            let worker = worker::current().expect("it serves");
            add(&worker, backend, &format!("s{n}"));
        }
    });
    on(&running, |worker, backend| {
        let counted = backend.servers.iter().map(|server| worker.of_server(backend.id, server.id).counters);
        counted.for_each(|counters| counters.total.add(1));
        STAYS.set(Some(Rc::clone(worker)));
    });
    on(&running, |worker, backend| {
        let added = backend.servers.iter().filter(|server| &*server.name != "first");
        added.for_each(|server| remove_server(worker, backend.id, server.id).expect("it may go"));
    });
    traffic(&running);
    assert!(made(&running).iter().all(|made| *made >= MANY), "a stream knows them");
    on(&running, |_, _| drop(STAYS.take()));
    traffic(&running);
    let left = made(&running);
    assert!(left.iter().all(|left| *left < MANY / 2), "memory for {left:?} servers of {MANY} that are gone");
    running.stop();
}

/// Another configuration is put in force, with one backend and no other.
fn reload(running: &Running, backend: &str, servers: usize) {
    let lines: String = (0..servers).map(|n| format!(" server s{n} 127.0.0.1:1\n")).collect();
    let text = format!(
        "defaults\n mode http\n timeout client 9s\n timeout server 9s\n timeout connect 9s\n\
         frontend fe\n bind 127.0.0.1:80\n default_backend {backend}\nbackend {backend}\n{lines}"
    );
    let reserved = Reserved::new(&running.instance.live).expect("it serves");
    let base = Arc::clone(reserved.base());
    let after = After { config: &base.config, numbers: &reserved, force: false };
    let files = vec![Input::Memory { name: "next".into(), text: text.into_bytes() }];
    let loaded = load(&LoadOptions { files, cpus: 1, after: Some(after), ..LoadOptions::default() });
    let next = Next::of(reserved, loaded.config.expect("a good file"));
    assert!(next.put_in_force(&running.handle, vec![Vec::new()]).is_ok());
}

/// Most servers of a backend go before the backend does: where threads keep what is theirs of them is used again.
#[test]
fn places_of_servers_that_went_before_their_backend_are_used_again() {
    const MANY: usize = 100;
    let running = start();
    on(&running, |_, _| drop(STAYS.take()));
    let mut highest = 0;
    for turn in 0..40 {
        let name = ["two", "be"][turn % 2];
        for servers in [MANY, 1] {
            reload(&running, name, servers);
            // Until the threads follow, and forgot what is gone.
            thread::sleep(Duration::from_millis(20));
        }
        if name == "be" {
            highest = highest
                .max(on(&running, |worker, backend| worker.backend(backend.id).flat(backend.servers[0].id)));
        }
    }
    assert!(highest <= 10 * MANY, "{highest} places for {MANY} servers");
    running.stop();
}

/// A stream that stays for days keeps what its own configuration has, and nothing of servers that came and went since.
#[test]
fn what_is_kept_of_servers_does_not_stay_with_who_never_knew_them() {
    const MANY: usize = 400;
    let running = start();
    let id = on(&running, |_, backend| backend.id);
    let known = |running: &Running| {
        let (tell, told) = mpsc::channel();
        running.handle.run_on(0, move || {
            let made = STAYS.with_borrow(|stays| stays.as_ref().expect("it is there").backend(id).made());
            tell.send(made).expect("the test waits");
        });
        told.recv().expect("the thread runs")
    };
    // Until the thread follows, and nobody has the configurations between.
    let reload = |backend, servers| {
        reload(&running, backend, servers);
        thread::sleep(Duration::from_millis(50));
    };
    reload("be", MANY);
    assert!(known(&running) >= MANY);
    reload("be", 1);
    assert!(known(&running) < MANY / 10, "{} servers are known", known(&running));
    reload("be", MANY);
    reload("two", 1);
    assert!(known(&running) < MANY / 10, "{} servers are known of a backend that is gone", known(&running));
    running.stop();
}

/// Former configurations are taken apart by one thread, however many come while it does: it gives way, and on a busy machine dozens
/// would be there at once, with their stacks.
#[test]
fn one_thread_takes_former_configurations_apart() {
    // More than what goes with its last pin.
    const MANY: usize = 2000;
    const BATCHES: usize = 6;
    let running = start();
    on(&running, |_, _| drop(STAYS.take()));
    let pinned: Vec<Vec<_>> = std::iter::repeat_with(|| {
        let pin = |_| {
            reload(&running, "be", MANY);
            running.instance.live.current().expect("it serves")
        };
        (0..4).map(pin).collect()
    })
    .take(BATCHES)
    .collect();
    reload(&running, "be", 1);
    let left: Vec<_> = pinned.iter().flatten().map(Arc::downgrade).collect();
    let burying = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("this process is there").flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "snapshots").count()
    };
    let mut most = 0;
    let mut watch = |is_over: &dyn Fn(usize) -> bool| {
        for turn in 0.. {
            most = most.max(burying());
            if is_over(turn) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    for batch in pinned {
        drop(batch);
        watch(&|turn| turn >= 100);
    }
    watch(&|_| left.iter().all(|snapshot| snapshot.strong_count() == 0));
    // One that is done may not have ended yet when the next begins.
    assert!((1..=2).contains(&most), "{most} threads at once");
    running.stop();
}
