//! The choice of server as a backend sees it: usable sets, backups, full servers, persistence of hashes, threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thalweg_balance::*;

fn specs(weights: &[u32]) -> Vec<ServerSpec> {
    weights.iter().enumerate().map(|(i, &w)| ServerSpec::new(i as u32 + 1, w)).collect()
}

fn balancer(algorithm: Algorithm, weights: &[u32]) -> Balancer {
    Balancer::new(Settings { algorithm, ..Settings::default() }, &specs(weights))
}

struct Full(Vec<u32>);

impl ServerView for Full {
    fn is_full(&self, server: ServerIndex, _: LoadNow) -> bool {
        self.0.contains(&server.0)
    }
}

fn cx(view: &Full) -> PickContext<'_, Full> {
    PickContext { servers: view, avoid: None, random: 42, now_us: 0 }
}

fn order(b: &Balancer, view: &mut View, full: &[u32], picks: usize) -> String {
    let full = Full(full.to_vec());
    (0..picks).map(|_| b.pick(view, None, &cx(&full)).map_or("-".into(), |s| s.0.to_string())).collect()
}

const ALL: [Algorithm; 8] = [
    Algorithm::RoundRobin,
    Algorithm::StaticRr,
    Algorithm::LeastConn,
    Algorithm::First,
    Algorithm::Random { draws: 2 },
    Algorithm::MapBased,
    Algorithm::Consistent,
    Algorithm::Sticky,
];

/// A server that refuses has no load; behind the others it is chosen when there is none of them, and nobody else is put there.
#[test]
fn the_last_in_rank_is_chosen_last() {
    let b = balancer(Algorithm::LeastConn, &[1, 1, 1]);
    let mut view = View::default();
    assert!(
        !b.put_last(ServerIndex(7)) && !b.put_last(ServerIndex(0)),
        "there is no rank before the first pick"
    );
    assert_eq!(order(&b, &mut view, &[], 1), "0");
    assert!(b.put_last(ServerIndex(0)) && !b.put_last(ServerIndex(0)), "once");
    let chosen: Vec<_> = (0..10)
        .filter_map(|_| {
            b.pick(&mut view, None, &cx(&Full(Vec::new()))).inspect(|&server| b.conn_started(server))
        })
        .collect();
    assert!(!chosen.contains(&ServerIndex(0)), "{chosen:?}");
    // Where the first in rank is full, too.
    assert_eq!(order(&b, &mut view, &[1], 1), "2");
    assert_eq!(order(&b, &mut view, &[2], 1), "1");
    assert_eq!(order(&b, &mut view, &[1, 2], 1), "0");
    // A request that is tied to it changes nothing.
    b.conn_started(ServerIndex(0));
    b.conn_ended(ServerIndex(0));
    assert_ne!(order(&b, &mut view, &[], 1), "0");
    b.put_back(ServerIndex(0));
    assert_eq!(order(&b, &mut view, &[], 1), "0");
    assert!(!balancer(Algorithm::RoundRobin, &[1, 1]).put_last(ServerIndex(0)));
}

/// Many changes at once are seen when the last of them was made, and then all of them.
#[test]
fn what_changes_at_once_is_seen_at_once() {
    for algorithm in ALL {
        let b = balancer(algorithm, &[1; 50]);
        let mut view = View::default();
        assert_eq!(b.usable(&mut view), 50);
        let (held, other) = (b.hold(), b.hold());
        (1..50).for_each(|server| b.remove(ServerIndex(server)));
        drop(held);
        assert_eq!(b.usable(&mut view), 50, "{algorithm:?}");
        assert_eq!(b.usable(&mut View::default()), 50, "{algorithm:?}");
        drop(other);
        assert_eq!((b.usable(&mut view), b.usable(&mut View::default())), (1, 1), "{algorithm:?}");
        assert_eq!(order(&b, &mut view, &[], 3), "000", "{algorithm:?}");
        drop(b.hold());
        b.set_up(ServerIndex(0), false);
        assert_eq!(b.usable(&mut view), 0, "{algorithm:?}");
    }
}

/// Another algorithm takes over while servers are used: what they are doing counts, and keys lead to where they would have led with it
/// from the start.
#[test]
fn settings_change_while_servers_are_used() {
    let used = |algorithm| {
        let b = balancer(algorithm, &[1, 1, 1]);
        let mut view = View::default();
        order(&b, &mut view, &[], 2);
        [0, 0, 1].into_iter().for_each(|server| b.conn_started(ServerIndex(server)));
        (b, view)
    };
    for (before, after) in ALL.into_iter().flat_map(|before| ALL.map(|after| (before, after))) {
        let ((changed, mut view), (fresh, mut fresh_view)) = (used(before), used(after));
        changed.follow(Settings { algorithm: after, ..Settings::default() });
        assert_eq!(changed.settings(), fresh.settings());
        let full = Full(Vec::new());
        if matches!(after, Algorithm::RoundRobin | Algorithm::StaticRr) {
            let mut turns: Vec<u32> =
                (0..3).filter_map(|_| changed.pick(&mut view, None, &cx(&full))).map(|s| s.0).collect();
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2], "{before:?} and then {after:?}");
        } else {
            for key in (0..1000).map(|n: u32| n.wrapping_mul(0x9E37_79B9)) {
                let picked = [
                    changed.pick(&mut view, Some(key), &cx(&full)),
                    fresh.pick(&mut fresh_view, Some(key), &cx(&full)),
                ];
                assert_eq!(picked[0], picked[1], "{before:?} and then {after:?}");
            }
        }
        [0, 0, 1].into_iter().for_each(|server| changed.conn_ended(ServerIndex(server)));
        assert!((0..3).all(|server| changed.load(ServerIndex(server)).total() == 0));
    }
}

#[test]
fn nothing_usable_gives_nothing() {
    for algorithm in ALL {
        let mut view = View::default();
        assert_eq!(order(&balancer(algorithm, &[]), &mut view, &[], 2), "--", "{algorithm:?}");
        let mut view = View::default();
        let b = balancer(algorithm, &[0, 0]);
        assert_eq!(order(&b, &mut view, &[], 2), "--", "{algorithm:?}");
        assert_eq!(b.usable(&mut view), 0);
        b.set_weight(ServerIndex(1), 1);
        assert_eq!(order(&b, &mut view, &[], 2), "11", "{algorithm:?}");
        b.set_drain(ServerIndex(1), true);
        assert_eq!(order(&b, &mut view, &[], 1), "-", "{algorithm:?}");
        b.set_drain(ServerIndex(1), false);
        b.set_up(ServerIndex(1), false);
        assert_eq!(order(&b, &mut view, &[], 1), "-", "{algorithm:?}");
    }
}

#[test]
fn full_servers_are_skipped() {
    for algorithm in ALL {
        if algorithm == Algorithm::Sticky {
            continue;
        }
        let b = balancer(algorithm, &[1, 1, 1]);
        let mut view = View::default();
        assert_eq!(order(&b, &mut view, &[0, 2], 6), "111111", "{algorithm:?}");
        assert_eq!(order(&b, &mut view, &[0, 1, 2], 3), "---", "{algorithm:?}");
    }
}

#[test]
fn a_failed_server_is_avoided_while_there_is_another() {
    let none = Full(vec![]);
    for algorithm in ALL {
        for key in [None, Some(0), Some(1), Some(0x8000_0000)] {
            let b = balancer(algorithm, &[1, 1]);
            let mut view = View::default();
            for avoid in [0, 1, 0, 0, 1, 1] {
                let cx =
                    PickContext { servers: &none, avoid: Some(ServerIndex(avoid)), random: 7, now_us: 0 };
                assert_eq!(b.pick(&mut view, key, &cx), Some(ServerIndex(1 - avoid)), "{algorithm:?}");
            }
            b.set_up(ServerIndex(0), false);
            let cx = PickContext { servers: &none, avoid: Some(ServerIndex(1)), random: 7, now_us: 0 };
            assert_eq!(b.pick(&mut view, key, &cx), Some(ServerIndex(1)), "{algorithm:?}");
        }
    }
}

#[test]
fn backups_wait_for_all_active_servers_to_be_gone() {
    for (all_backups, want) in [(false, "2222"), (true, "2323")] {
        let mut servers = specs(&[1, 1, 1, 1]);
        servers[2].backup = true;
        servers[3].backup = true;
        let b = Balancer::new(
            Settings { algorithm: Algorithm::RoundRobin, all_backups, ..Settings::default() },
            &servers,
        );
        let mut view = View::default();
        assert_eq!(order(&b, &mut view, &[], 4), "0101");
        b.set_up(ServerIndex(0), false);
        assert_eq!(order(&b, &mut view, &[], 2), "11");
        b.set_weight(ServerIndex(1), 0);
        assert_eq!(order(&b, &mut view, &[], 4), want);
        b.set_up(ServerIndex(2), false);
        assert_eq!(order(&b, &mut view, &[], 2), "33");
        b.set_up(ServerIndex(0), true);
        assert_eq!(order(&b, &mut view, &[], 2), "00");
    }
}

#[test]
fn first_follows_identifiers() {
    let mut servers = specs(&[1, 1, 1]);
    servers[0].uid = 9;
    let b = Balancer::new(Settings { algorithm: Algorithm::First, ..Settings::default() }, &servers);
    let mut view = View::default();
    assert_eq!(order(&b, &mut view, &[], 3), "111");
    assert_eq!(order(&b, &mut view, &[1], 3), "222");
    assert_eq!(order(&b, &mut view, &[1, 2], 3), "000");
}

#[test]
fn sticky_stays_until_the_server_is_lost() {
    let b = balancer(Algorithm::Sticky, &[1, 1, 1]);
    let mut view = View::default();
    assert_eq!(order(&b, &mut view, &[], 2), "00");
    b.set_up(ServerIndex(0), false);
    assert_eq!(order(&b, &mut view, &[], 2), "11");
    b.set_up(ServerIndex(0), true);
    assert_eq!(order(&b, &mut view, &[], 2), "11", "the one that returns goes to the end");
    b.set_up(ServerIndex(1), false);
    assert_eq!(order(&b, &mut view, &[], 2), "22");
}

#[test]
fn leastconn_follows_load_and_weight() {
    let b = balancer(Algorithm::LeastConn, &[1, 3]);
    let mut view = View::default();
    let none = Full(vec![]);
    let mut count = [0; 2];
    for _ in 0..40 {
        let s = b.pick(&mut view, None, &cx(&none)).unwrap();
        b.conn_started(s);
        count[s.0 as usize] += 1;
    }
    assert_eq!(count, [10, 30]);
    b.conn_ended(ServerIndex(0));
    assert_eq!(b.pick(&mut view, None, &cx(&none)), Some(ServerIndex(0)));
    // Requests that wait count as load.
    b.queued(ServerIndex(0));
    b.queued(ServerIndex(0));
    assert_eq!(b.pick(&mut view, None, &cx(&none)), Some(ServerIndex(1)));
    b.dequeued(ServerIndex(0));
    assert_eq!((b.load(ServerIndex(0)).served(), b.load(ServerIndex(0)).queued()), (9, 1));
}

#[test]
fn leastconn_takes_equal_servers_in_turn() {
    let b = balancer(Algorithm::LeastConn, &[1, 1, 1, 1, 1]);
    let mut view = View::default();
    let none = Full(vec![]);
    let mut got = String::new();
    for _ in 0..10 {
        let s = b.pick(&mut view, None, &cx(&none)).unwrap();
        b.conn_started(s);
        b.conn_ended(s);
        got += &s.0.to_string();
    }
    assert_eq!(got, "0123401234");
}

#[test]
fn hashes_choose_the_servers_the_reference_chooses() {
    // `balance uri`, weights 1 3 2, /url0 to /url39: printed by the reference.
    let b = balancer(Algorithm::MapBased, &[1, 3, 2]);
    let mut view = View::default();
    let none = Full(vec![]);
    let key = KeyHash::default();
    let got: String = (0..40)
        .map(|i| {
            let hash = key.bytes(format!("/url{i}").as_bytes());
            b.pick(&mut view, Some(hash), &cx(&none)).unwrap().0.to_string()
        })
        .collect();
    assert_eq!(got, "0121120121121120121121120121121120121120");
    // `balance source`, seven equal servers.
    for (avalanche, method, want) in [
        (false, HashMethod::MapBased, "263041526152630413043041504152"),
        (true, HashMethod::Consistent, "554346202053032050162625526566"),
        (true, HashMethod::MapBased, "301445336002450305626345635321"),
    ] {
        let b = balancer(Algorithm::hashing(method), &[1; 7]);
        let mut view = View::default();
        let key = KeyHash { function: HashFunction::Djb2, avalanche };
        let got: String = (0..30u32)
            .map(|i| {
                let ip = [127, (i * 7) as u8, (i * 31) as u8, 1 + (i * 13 % 250) as u8];
                b.pick(&mut view, Some(key.address(ip.into())), &cx(&none)).unwrap().0.to_string()
            })
            .collect();
        assert_eq!(got, want);
    }
}

#[test]
fn a_bounded_load_moves_on() {
    let settings = Settings { algorithm: Algorithm::Consistent, balance_factor: 150, ..Settings::default() };
    let b = Balancer::new(settings, &specs(&[1, 1, 1, 1]));
    let mut view = View::default();
    let none = Full(vec![]);
    for _ in 0..40 {
        let s = b.pick(&mut view, Some(12345), &cx(&none)).unwrap();
        b.conn_started(s);
    }
    let most = (0..4).map(|s| b.load(ServerIndex(s)).served()).max().unwrap();
    assert!(most <= 15, "at most 1.5 times the average of 10, got {most}");
}

/// Twenty requests with one key, none of which ends: servers as HAProxy 3.5-dev5 chooses them, by the order in which they are looked at
/// for that key.
#[test]
fn a_bounded_load_moves_on_as_in_the_reference() {
    let cases = [
        (110, [1, 1, 1, 1], "acbd", "acbdbcadbcabcadbcadb"),
        (125, [1, 1, 1, 1], "acbd", "acbdcabbacbcabcabcad"),
        (150, [1, 1, 1, 1], "acbd", "acbbaccabcabaccabcab"),
        (200, [1, 1, 1, 1], "acbd", "acbacacacacacacacaca"),
        (300, [1, 1, 1, 1], "acbd", "acaacaaacaaacaaacaaa"),
        (110, [1, 2, 3, 4], "adbc", "addbdbdccddbcdbdcadc"),
        (125, [1, 2, 3, 4], "adbc", "addbddbcddbcddbaddbc"),
        (150, [1, 2, 3, 4], "adbc", "addddbdbdbddaddbdbda"),
        (200, [1, 2, 3, 4], "adbc", "addddddddaddddadddda"),
        (300, [1, 2, 3, 4], "adbc", "adddddaddadddaddadda"),
    ];
    let none = Full(vec![]);
    for (balance_factor, weights, order, want) in cases {
        let new = |balance_factor, preserve_affinity| {
            let algorithm = Algorithm::Consistent;
            let settings = Settings { algorithm, balance_factor, preserve_affinity, ..Settings::default() };
            Balancer::new(settings, &specs(&weights))
        };
        let name = |s: ServerIndex| char::from(b'a' + s.0 as u8);
        // A key for which they are in that order: each is passed over when it is full.
        let passed = new(0, PreserveAffinity::MaxConn);
        let key = (0..100_000u32).map(|n| n.wrapping_mul(2_654_435_761)).find(|&key| {
            let mut full = vec![];
            order.chars().all(|wanted| {
                let next = passed.pick(&mut View::default(), Some(key), &cx(&Full(full.clone()))).unwrap();
                full.push(next.0);
                name(next) == wanted
            })
        });
        let bounded = new(balance_factor, PreserveAffinity::Always);
        let (b, mut view, key) = (bounded, View::default(), key.expect("a key"));
        let got: String = (0..20)
            .map(|_| {
                let server = b.pick(&mut view, Some(key), &cx(&none)).unwrap();
                b.conn_started(server);
                name(server)
            })
            .collect();
        assert_eq!(got, want, "hash-balance-factor {balance_factor}, weights {weights:?}");
    }
}

#[test]
fn affinity_may_end_at_maxconn() {
    let settings = Settings {
        algorithm: Algorithm::Consistent,
        preserve_affinity: PreserveAffinity::MaxConn,
        ..Settings::default()
    };
    let b = Balancer::new(settings, &specs(&[1, 1]));
    let keeps = balancer(Algorithm::Consistent, &[1, 1]);
    let (mut view, mut other) = (View::default(), View::default());
    let first = b.pick(&mut view, Some(5), &cx(&Full(vec![]))).unwrap();
    let full = Full(vec![first.0]);
    assert_eq!(b.pick(&mut view, Some(5), &cx(&full)), Some(ServerIndex(1 - first.0)));
    assert_eq!(keeps.pick(&mut other, Some(5), &cx(&full)), Some(first));
    assert!(b.pick(&mut view, Some(5), &cx(&Full(vec![0, 1]))).is_some(), "queued on one of them");
}

#[test]
fn a_slow_start_grows() {
    for (elapsed, want) in [(0, 1), (1, 1), (500, 80), (999, 159), (1000, 160), (5000, 160)] {
        assert_eq!(slowstart_weight(10, elapsed, 1000), want);
    }
    let b = balancer(Algorithm::RoundRobin, &[1, 1]);
    let mut view = View::default();
    b.set_effective_weight(ServerIndex(1), slowstart_weight(1, 250, 1000));
    let got = order(&b, &mut view, &[], 100);
    assert_eq!(got.matches('1').count(), 20);
    let fixed = balancer(Algorithm::StaticRr, &[1, 1]);
    fixed.set_effective_weight(ServerIndex(1), 4);
    assert_eq!(
        order(&fixed, &mut View::default(), &[], 4),
        "0101",
        "a table ignores weights changed on the fly"
    );
}

/// Every turn of round robin is given to exactly one request, whatever the threads: over whole cycles each server
/// gets exactly its weight. A position kept by a load and a store instead of one increment fails this.
#[test]
fn turns_are_exact_with_threads() {
    const THREADS: usize = 4;
    const PICKS: usize = 7 * 40_000;
    // Together, or the first is done before the last begins.
    let start = Arc::new(std::sync::Barrier::new(THREADS));
    let b = Arc::new(balancer(Algorithm::RoundRobin, &[4, 2, 1]));
    let count: Arc<[AtomicU32; 3]> = Arc::default();
    let hands: Vec<_> = (0..THREADS)
        .map(|_| {
            let (b, count, start) = (b.clone(), count.clone(), start.clone());
            std::thread::spawn(move || {
                let mut view = View::default();
                let mut mine = [0u32; 3];
                start.wait();
                for _ in 0..PICKS {
                    let cx = PickContext { servers: &NeverFull, avoid: None, random: 0, now_us: 0 };
                    mine[b.pick(&mut view, None, &cx).unwrap().0 as usize] += 1;
                }
                for (all, mine) in count.iter().zip(mine) {
                    all.fetch_add(mine, Ordering::Relaxed);
                }
            })
        })
        .collect();
    hands.into_iter().for_each(|h| h.join().unwrap());
    let unit = (THREADS * PICKS / 7) as u32;
    assert_eq!(count.each_ref().map(|c| c.load(Ordering::Relaxed)), [4 * unit, 2 * unit, unit]);
}

/// Threads pick, start, end, queue and change states at the same time. Afterwards the books balance, and limits
/// taken through `try_conn_started` were never exceeded.
#[test]
fn the_books_balance_with_threads() {
    const LIMIT: u32 = 3;
    for algorithm in ALL {
        let b = Arc::new(balancer(algorithm, &[1, 2, 3, 4, 5]));
        let serving: Arc<[AtomicU32; 5]> = Arc::default();
        let hands: Vec<_> = (0..6u64)
            .map(|thread| {
                let (b, serving) = (b.clone(), serving.clone());
                std::thread::spawn(move || {
                    let mut view = View::default();
                    for step in 0..3000u64 {
                        let cx = PickContext {
                            servers: &NeverFull,
                            avoid: None,
                            random: thread << 32 | step,
                            now_us: 0,
                        };
                        let key = (step % 3 == 0).then_some((step * 0x9e37_79b9) as u32);
                        let Some(s) = b.pick(&mut view, key, &cx) else { continue };
                        if b.try_conn_started(s, LIMIT) {
                            let now = serving[s.0 as usize].fetch_add(1, Ordering::SeqCst);
                            assert!(now < LIMIT, "the limit holds");
                            if step % 64 == 0 {
                                std::thread::yield_now();
                            }
                            serving[s.0 as usize].fetch_sub(1, Ordering::SeqCst);
                            b.conn_ended(s);
                        } else {
                            b.queued(s);
                            b.dequeued(s);
                        }
                        if step % 500 == thread * 50 {
                            let server = ServerIndex((step / 500) as u32 % 5);
                            b.set_up(server, false);
                            b.set_up(server, true);
                        }
                    }
                })
            })
            .collect();
        hands.into_iter().for_each(|h| h.join().unwrap());
        for s in 0..5 {
            let now = b.load(ServerIndex(s));
            assert_eq!((now.served(), now.queued()), (0, 0), "{algorithm:?}");
        }
        assert_eq!(b.usable(&mut View::default()), 5);
        // The tournament is right after the storm: an even fill.
        if algorithm == Algorithm::LeastConn {
            let mut view = View::default();
            for _ in 0..15 {
                let s = b.pick(&mut view, None, &cx(&Full(vec![]))).unwrap();
                b.conn_started(s);
            }
            let got: Vec<u32> = (0..5).map(|s| b.load(ServerIndex(s)).served()).collect();
            assert_eq!(got, [1, 2, 3, 4, 5]);
        }
    }
}

#[test]
fn points_of_servers_come_from_their_keys() {
    // Two servers, the second by its identifier 7; keys as numbers; printed by the reference.
    let address: std::net::IpAddr = "127.0.0.1".parse().unwrap();
    for (node_key, uid, want) in [
        (NodeKey::Id32, 0x0102_0304, "101000000000111101001101101110101111101000001101110101110100"),
        (NodeKey::address(address, None), 3, "110000110001011101001001000110101111001011000100110100110100"),
        (
            NodeKey::address(address, Some(26900)),
            3,
            "011001001000011001001111001011001111101100100001100100101100",
        ),
        (NodeKey::guid(b"abc"), 3, "111000000110011100001111100000101111100001011000110101111100"),
    ] {
        let servers = [ServerSpec { node_key, ..ServerSpec::new(uid, 1) }, ServerSpec::new(7, 1)];
        let settings = Settings { algorithm: Algorithm::Consistent, ..Settings::default() };
        let b = Balancer::new(settings, &servers);
        let mut view = View::default();
        let none = Full(vec![]);
        let got: String = (0..60u32)
            .map(|k| {
                b.pick(&mut view, Some(k.wrapping_mul(2_654_435_761)), &cx(&none)).unwrap().0.to_string()
            })
            .collect();
        assert_eq!(got, want, "{node_key:?}");
    }
}

/// A server whose address changes is placed as one that had the new address from the start.
#[test]
fn a_server_that_moves_is_placed_anew() {
    let settings = Settings { algorithm: Algorithm::Consistent, ..Settings::default() };
    let key = |last: u8| NodeKey::address(std::net::IpAddr::from([127, 0, 0, last]), Some(80));
    let make = |last| {
        let moved = ServerSpec { node_key: key(last), ..ServerSpec::new(1, 1) };
        Balancer::new(settings, &[moved, ServerSpec::new(2, 1)])
    };
    let picks = |b: &Balancer, view: &mut View| -> Vec<u32> {
        let none = Full(vec![]);
        let pick = |k: u32| b.pick(view, Some(k.wrapping_mul(2_654_435_761)), &cx(&none)).unwrap().0;
        (0..60).map(pick).collect()
    };
    let (b, mut view) = (make(1), View::default());
    let before = picks(&b, &mut view);
    b.set_node_key(ServerIndex(0), key(2));
    let after = picks(&b, &mut view);
    assert_ne!(after, before);
    assert_eq!(after, picks(&make(2), &mut View::default()));
}

/// Whatever the algorithm, servers that are added get their share behind the others, those that are removed get nothing any
/// more, and a number that is used again is a server like any other.
#[test]
fn servers_come_and_go() {
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::LeastConn,
        Algorithm::Random { draws: 2 },
        Algorithm::First,
        Algorithm::Consistent,
    ] {
        let settings = Settings { algorithm, ..Settings::default() };
        let balancer = Balancer::new(settings, &[ServerSpec::new(1, 1)]);
        let mut view = View::default();
        let mut random = 1u64;
        let mut picked = |balancer: &Balancer| {
            let mut found = std::collections::BTreeSet::new();
            for turn in 0..400u32 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let by_key = matches!(algorithm.traits().written, Written::ByKey);
                let key = by_key.then_some(turn.wrapping_mul(0x9E37_79B9));
                let cx = PickContext { servers: &NeverFull, avoid: None, random, now_us: 0 };
                if let Some(server) = balancer.pick(&mut view, key, &cx) {
                    balancer.conn_started(server);
                    found.insert(server.0);
                }
            }
            for server in &found {
                while balancer.load(ServerIndex(*server)).served() > 0 {
                    balancer.conn_ended(ServerIndex(*server));
                }
            }
            found.into_iter().collect::<Vec<_>>()
        };
        let first_only = algorithm == Algorithm::First;
        let all = |servers: &[u32]| if first_only { servers[..1].to_vec() } else { servers.to_vec() };
        assert_eq!(picked(&balancer), [0], "{algorithm:?}");
        for server in 1..40 {
            balancer.add(ServerIndex(server), &ServerSpec::new(server + 1, 1));
        }
        assert_eq!(picked(&balancer), all(&(0..40).collect::<Vec<_>>()), "{algorithm:?}");
        for server in (0..40).filter(|n| *n != 7) {
            balancer.remove(ServerIndex(server));
        }
        assert_eq!(picked(&balancer), [7], "{algorithm:?}");
        balancer.remove(ServerIndex(7));
        assert_eq!(picked(&balancer), [0u32; 0], "{algorithm:?}");
        balancer.add(ServerIndex(3), &ServerSpec::new(9, 1));
        balancer.add(ServerIndex(0), &ServerSpec { up: false, ..ServerSpec::new(1, 1) });
        assert_eq!(picked(&balancer), [3], "{algorithm:?}");
        balancer.set_up(ServerIndex(0), true);
        assert_eq!(picked(&balancer), if first_only { vec![0] } else { vec![0, 3] }, "{algorithm:?}");
    }
}

/// While many change at once, those that left are in the list until the end, unless their numbers are used again before.
#[test]
fn many_come_and_go_at_once() {
    let count = 1000;
    let specs: Vec<ServerSpec> = (1..=count).map(|uid| ServerSpec::new(uid, 1)).collect();
    let b = Balancer::new(Settings { algorithm: Algorithm::Sticky, ..Settings::default() }, &specs);
    let (mut view, none) = (View::default(), Full(vec![]));
    assert_eq!(b.pick(&mut view, None, &cx(&none)), Some(ServerIndex(0)));
    let held = b.hold();
    (0..count - 1).for_each(|server| b.remove(ServerIndex(server)));
    b.add(ServerIndex(5), &ServerSpec::new(count + 1, 1));
    assert_eq!(b.usable(&mut view), count as usize, "they are chosen as before until all is done");
    drop(held);
    assert_eq!(b.usable(&mut view), 2);
    assert_eq!(
        b.pick(&mut view, None, &cx(&none)),
        Some(ServerIndex(count - 1)),
        "the one that was there first"
    );
    b.remove(ServerIndex(count - 1));
    assert_eq!(b.pick(&mut view, None, &cx(&none)), Some(ServerIndex(5)));
    b.remove(ServerIndex(5));
    assert_eq!(b.pick(&mut view, None, &cx(&none)), None);
}

/// Whichever snapshot's way they come by, all choose by the same loads; those of servers that no snapshot has any more are gone.
#[test]
fn snapshots_share_loads_and_keep_those_of_their_servers() {
    const COUNT: u32 = 1000;
    for algorithm in [Algorithm::LeastConn, Algorithm::RoundRobin, Algorithm::Random { draws: 2 }] {
        let first = balancer(algorithm, &[1; COUNT as usize]);
        let mut view = View::default();
        assert!(first.pick(&mut view, None, &cx(&Full(vec![]))).is_some());
        let at_first = first.made();
        assert!(at_first >= COUNT as usize);
        // Server 0 has something to do, and stays with two that are new.
        first.conn_started(ServerIndex(0));
        (1..COUNT).for_each(|server| first.remove(ServerIndex(server)));
        let second = first.next([0, 500, COUNT as usize].into_iter());
        for server in [500, COUNT] {
            second.add(ServerIndex(server), &ServerSpec::new(7 + server, 1));
        }
        second.conn_started(ServerIndex(500));
        if algorithm == Algorithm::LeastConn {
            let mut next = |b: &Balancer| b.pick(&mut view, None, &cx(&Full(vec![])));
            assert_eq!((next(&first), next(&second)), (Some(ServerIndex(COUNT)), Some(ServerIndex(COUNT))));
            // By the former way, too, which sees what it never had.
            first.conn_started(ServerIndex(COUNT));
            first.conn_started(ServerIndex(COUNT));
            first.conn_ended(ServerIndex(500));
            assert_eq!((next(&first), next(&second)), (Some(ServerIndex(500)), Some(ServerIndex(500))));
            first.conn_started(ServerIndex(500));
            first.conn_ended(ServerIndex(COUNT));
        } else {
            first.conn_started(ServerIndex(COUNT));
        }
        let served = |b: &Balancer| [0, 500, COUNT].map(|server| b.load(ServerIndex(server)).served());
        assert_eq!((served(&first), served(&second)), ([1; 3], [1; 3]), "{algorithm:?}");
        // Who was given a slot of a server that is gone keeps it.
        second.remove(ServerIndex(500));
        let third = second.next([0, COUNT as usize].into_iter());
        let kept = third.keep(ServerIndex(500));
        drop((first, second));
        third.free_left();
        assert!(third.is_busy(ServerIndex(500)), "{algorithm:?}");
        third.conn_ended(ServerIndex(500));
        assert!(!third.is_busy(ServerIndex(500)), "{algorithm:?}");
        drop(kept);
        let last = third.next([0, COUNT as usize].into_iter());
        drop(third);
        last.free_left();
        assert!(last.made() < at_first / 10, "{algorithm:?}: {} of {at_first}", last.made());
        let others = Full(vec![0]);
        assert_eq!(last.pick(&mut View::default(), None, &cx(&others)), Some(ServerIndex(COUNT)));
    }
}
