//! Weights that change while servers are chosen: what each gets then, and what a change costs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use thalweg_balance::*;

fn balancer(algorithm: Algorithm, weights: &[u32]) -> Balancer {
    let specs: Vec<_> = (1..).zip(weights).map(|(uid, &weight)| ServerSpec::new(uid, weight)).collect();
    Balancer::new(Settings { algorithm, ..Settings::default() }, &specs)
}

/// Random numbers, the same ones each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        (self.roll() % u64::from(bound)) as u32
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }
}

/// One view of a balancer, and the numbers that it draws by.
struct Client<'b> {
    balancer: &'b Balancer,
    view: View,
    dice: Dice,
}

impl Client<'_> {
    fn new(balancer: &Balancer) -> Client<'_> {
        Client { balancer, view: View::default(), dice: Dice(7) }
    }

    fn pick(&mut self) -> usize {
        self.pick_for(None)
    }

    fn pick_for(&mut self, key: Option<u32>) -> usize {
        let random = self.dice.roll() << 24 ^ self.dice.roll();
        let cx = PickContext { servers: &NeverFull, avoid: None, random, now_us: 0 };
        self.balancer.pick(&mut self.view, key, &cx).expect("a server").0 as usize
    }

    /// How often each of so many servers is chosen.
    fn shares(&mut self, servers: usize, picks: u32) -> Vec<u32> {
        let mut shares = vec![0; servers];
        (0..picks).for_each(|_| shares[self.pick()] += 1);
        shares
    }
}

/// Whatever was changed before, a while later each server has as many turns of a round as its weight says.
#[test]
fn turns_are_exact_again_after_any_changes() {
    let mut dice = Dice(1);
    for play in 0..200 {
        let servers = 2 + dice.below(9) as usize;
        let mut weights: Vec<u32> = (0..servers).map(|_| 1 + dice.below(20)).collect();
        let balancer = balancer(Algorithm::RoundRobin, &weights);
        let mut client = Client::new(&balancer);
        for _ in 0..dice.below(8) {
            client.shares(servers, dice.below(40));
            let server = dice.below(servers as u32);
            weights[server as usize] = 1 + dice.below(20);
            balancer.set_weight(ServerIndex(server), weights[server as usize]);
        }
        let total: u32 = weights.iter().sum();
        client.shares(servers, 20 * total);
        assert_eq!(client.shares(servers, total), weights, "play {play}");
        // A slow start counts in 16ths.
        balancer.set_effective_weight(ServerIndex(0), 8 * weights[0]);
        client.shares(servers, 100 * total);
        let shares = client.shares(servers, 2 * total - weights[0]);
        let expected =
            weights.iter().enumerate().map(|(n, weight)| if n == 0 { *weight } else { 2 * weight });
        assert_eq!(shares, expected.collect::<Vec<_>>(), "play {play}");
    }
}

/// A change tells at once, and nobody waits for the end of a long order of turns.
#[test]
fn a_weight_counts_from_the_next_turn_on() {
    let weights = [256, 1, 64];
    let balancer = balancer(Algorithm::RoundRobin, &weights);
    let mut client = Client::new(&balancer);
    client.shares(3, 1000);
    balancer.set_weight(ServerIndex(1), 256);
    let shares = client.shares(3, 100);
    assert!(shares[1].abs_diff(44) < 4 && shares[0].abs_diff(44) < 4, "{shares:?}");
    balancer.set_weight(ServerIndex(0), 1);
    let shares = client.shares(3, 100);
    assert!(shares[0] < 4 && shares[1].abs_diff(79) < 4, "{shares:?}");
}

/// The turns that were to come come, but for the server whose weight changed.
#[test]
fn others_keep_their_order() {
    let balancer = balancer(Algorithm::RoundRobin, &[16; 10]);
    let mut client = Client::new(&balancer);
    let before: Vec<_> = (0..3).map(|_| client.pick()).collect();
    assert_eq!(before, [0, 1, 2]);
    balancer.set_weight(ServerIndex(5), 32);
    let after: Vec<_> = (0..22).map(|_| client.pick()).filter(|&server| server != 5).collect();
    assert!(
        after.iter().enumerate().all(|(at, &server)| server == [3, 4, 6, 7, 8, 9, 0, 1, 2][at % 9]),
        "{after:?}"
    );
}

/// With a change before each pick everybody gets a share.
#[test]
fn nobody_starves_while_weights_change() {
    const SERVERS: u32 = 50;
    for algorithm in [Algorithm::RoundRobin, Algorithm::Random { draws: 1 }] {
        let balancer = balancer(algorithm, &[100; SERVERS as usize]);
        let (mut client, mut dice) = (Client::new(&balancer), Dice(3));
        let mut shares = [0; SERVERS as usize];
        for _ in 0..200 * SERVERS {
            balancer.set_weight(ServerIndex(dice.below(SERVERS)), 50 + dice.below(100));
            shares[client.pick()] += 1;
        }
        assert!(shares.iter().all(|share| (120..300).contains(share)), "{algorithm:?}: {shares:?}");
    }
}

#[test]
fn drawn_servers_follow_their_weights() {
    for algorithm in [Algorithm::Random { draws: 1 }, Algorithm::Ewma] {
        let balancer = balancer(algorithm, &[1; 7]);
        let mut client = Client::new(&balancer);
        client.pick();
        let weights = [1, 2, 3, 4, 10, 20, 60];
        (0..).zip(weights).for_each(|(server, weight)| balancer.set_weight(ServerIndex(server), weight));
        assert_eq!(balancer.total_weight(&mut View::default()), 1600);
        let shares = client.shares(7, 100_000);
        if algorithm == Algorithm::Ewma {
            assert!(shares.is_sorted(), "{shares:?}");
            continue;
        }
        for (share, weight) in shares.iter().zip(weights) {
            assert!(share.abs_diff(1000 * weight) < 50 + 30 * weight, "{shares:?}");
        }
    }
}

/// Also of a server that stands behind the others for a moment.
#[test]
fn ranks_follow_weights() {
    let balancer = balancer(Algorithm::LeastConn, &[1, 1, 1]);
    let mut client = Client::new(&balancer);
    client.pick();
    assert!(balancer.put_last(ServerIndex(2)));
    balancer.set_weight(ServerIndex(1), 3);
    balancer.set_weight(ServerIndex(2), 10);
    let mut fill = |picks| {
        for _ in 0..picks {
            balancer.conn_started(ServerIndex(client.pick() as u32));
        }
        (0..3).map(|n| balancer.load(ServerIndex(n)).served()).collect::<Vec<_>>()
    };
    assert_eq!(fill(40), [10, 30, 0]);
    balancer.put_back(ServerIndex(2));
    assert_eq!(fill(100), [10, 30, 100]);
}

/// With 10,000 servers: a change that looked at each of them took hundreds of times as long.
#[test]
fn many_servers_cost_a_change_little() {
    const SERVERS: u32 = 10_000;
    for algorithm in [
        Algorithm::RoundRobin,
        Algorithm::LeastConn,
        Algorithm::Random { draws: 2 },
        Algorithm::Ewma,
        Algorithm::StaticRr,
        Algorithm::MapBased,
    ] {
        let balancer = balancer(algorithm, &[100; SERVERS as usize]);
        let mut client = Client::new(&balancer);
        let began = Instant::now();
        for change in 0..SERVERS {
            balancer.set_weight(ServerIndex(change * 7919 % SERVERS), 50 + change % 100);
            client.pick();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{algorithm:?}: {:?}", began.elapsed());
    }
}

/// A ring in which weights changed while keys were looked up sends them where one of these weights does.
#[test]
fn keys_go_where_the_weights_of_now_say() {
    let mut dice = Dice(5);
    let mut weights = [3, 1, 7, 20, 2, 5];
    let changed = balancer(Algorithm::Consistent, &weights);
    let mut client = Client::new(&changed);
    for _ in 0..300 {
        let server = dice.below(6) as usize;
        weights[server] = 1 + dice.below(20);
        changed.set_weight(ServerIndex(server as u32), weights[server]);
        let made = balancer(Algorithm::Consistent, &weights);
        let mut other = Client::new(&made);
        for _ in 0..100 {
            let key = Some(dice.roll() as u32);
            assert_eq!(client.pick_for(key), other.pick_for(key), "{key:?} of {weights:?}");
        }
    }
}

/// With 10,000 servers on the circle: what moves are the points of one. Circles made anew took hundreds of times as long.
#[test]
fn a_weight_on_the_circle_costs_its_points() {
    const SERVERS: u32 = 10_000;
    let balancer = balancer(Algorithm::Consistent, &[1; SERVERS as usize]);
    let mut client = Client::new(&balancer);
    let began = Instant::now();
    for change in 0..2 * SERVERS {
        balancer.set_weight(ServerIndex(change / 2 * 7919 % SERVERS), 2 - change % 2);
        client.pick_for(Some(change.wrapping_mul(0x9e37_79b9)));
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

/// The servers of a zone are full.
struct FullZone;

impl ServerView for FullZone {
    fn is_full(&self, server: ServerIndex, _load: LoadNow) -> bool {
        server.0 < 4
    }
}

/// Four servers of the own zone and four elsewhere, which weigh 10 each by configuration.
fn zones(algorithm: Algorithm) -> Balancer {
    let spec = |uid| ServerSpec { elsewhere: uid > 4, ..ServerSpec::new(uid, 10) };
    let specs: Vec<_> = (1..=8).map(spec).collect();
    Balancer::new(Settings { algorithm, zone_spill_over: Some(70), ..Settings::default() }, &specs)
}

/// Whether a zone is strong enough, becomes too weak or strong again: servers are chosen as if these weights had been there at first.
#[test]
fn zones_go_by_the_weights_of_now() {
    let mut dice = Dice(9);
    let (changed, ranked) = (zones(Algorithm::Consistent), zones(Algorithm::LeastConn));
    let (mut client, mut weights) = (Client::new(&changed), [10; 8]);
    let spare = |balancer: &Balancer, key: u32| {
        let cx = PickContext { servers: &FullZone, avoid: None, random: u64::from(key), now_us: 0 };
        balancer.pick(&mut View::default(), None, &cx)
    };
    for step in 0..400 {
        let (server, weight) = (dice.below(8), 1 + dice.below(20));
        weights[server as usize] = weight;
        changed.set_weight(ServerIndex(server), weight);
        ranked.set_weight(ServerIndex(server), weight);
        let (made, other) = (zones(Algorithm::Consistent), zones(Algorithm::LeastConn));
        for (server, &weight) in (0u32..).zip(&weights) {
            made.set_weight(ServerIndex(server), weight);
            other.set_weight(ServerIndex(server), weight);
            let load = u64::from(4 + server * 7 % 5_u32);
            (0..load).for_each(|_| other.conn_started(ServerIndex(server)));
            let now = u64::from(ranked.load(ServerIndex(server)).served());
            (now..load).for_each(|_| ranked.conn_started(ServerIndex(server)));
        }
        if weights[..4].iter().sum::<u32>() >= 28 {
            let mut fresh = Client::new(&made);
            for _ in 0..100 {
                let key = Some(dice.roll() as u32);
                assert_eq!(client.pick_for(key), fresh.pick_for(key), "step {step}: {weights:?}");
            }
            assert_eq!(changed.total_weight(&mut View::default()), made.total_weight(&mut View::default()));
        }
        assert_eq!(spare(&ranked, step), spare(&other, step), "step {step}: {weights:?}");
    }
}

/// While a zone is too weak, too: within 1 % each server has the turns that it would have if these weights had been there at first.
#[test]
fn a_weak_zone_shares_as_the_weights_of_now_say() {
    const TURNS: u32 = 4_000;
    let (mut dice, changed) = (Dice(11), zones(Algorithm::RoundRobin));
    let (mut client, mut weights) = (Client::new(&changed), [10; 8]);
    for step in 0..200 {
        let (server, weight) = (dice.below(8), 1 + dice.below(if step % 40 < 30 { 12 } else { 60 }));
        weights[server as usize] = weight;
        changed.set_weight(ServerIndex(server), weight);
        let made = zones(Algorithm::RoundRobin);
        (0u32..).zip(&weights).for_each(|(server, &weight)| made.set_weight(ServerIndex(server), weight));
        client.shares(8, 200);
        let (is, due) = (client.shares(8, TURNS), Client::new(&made).shares(8, TURNS));
        for (is, due) in is.iter().zip(&due) {
            let may = 4.0 + f64::from(TURNS) * 0.01;
            assert!(f64::from(is.abs_diff(*due)) <= may, "step {step}: {weights:?} {is} {due}");
        }
        let near = |shares: &[u32]| f64::from(shares[..4].iter().sum::<u32>());
        assert!((near(&is) / near(&due) - 1.0).abs() <= 0.02, "step {step}: {weights:?}: {is:?} {due:?}");
    }
}

/// With 10,000 servers, half of them in the own zone: whether that is strong enough or too weak, a weight costs a plan only now and then.
#[test]
fn a_weight_costs_little_where_zones_count() {
    const SERVERS: u32 = 10_000;
    for (algorithm, spill_over) in
        [(Algorithm::LeastConn, 70), (Algorithm::LeastConn, 150), (Algorithm::RoundRobin, 150)]
    {
        let spec = |uid| ServerSpec { elsewhere: uid % 2 == 0, ..ServerSpec::new(uid, 100) };
        let specs: Vec<_> = (1..=SERVERS).map(spec).collect();
        let settings = Settings { algorithm, zone_spill_over: Some(spill_over), ..Settings::default() };
        let balancer = Balancer::new(settings, &specs);
        let mut client = Client::new(&balancer);
        let began = Instant::now();
        for change in 0..2 * SERVERS {
            balancer.set_weight(ServerIndex(change * 7919 % SERVERS), 80 + change % 40);
            client.pick();
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{algorithm:?}: {:?}", began.elapsed());
    }
}

/// Threads take turns while weights change; when they no longer do, each turn is given once.
#[test]
fn turns_are_exact_again_with_threads() {
    const THREADS: u32 = 4;
    let balancer = balancer(Algorithm::RoundRobin, &[4, 2, 1]);
    let shares: [AtomicU32; 3] = std::array::from_fn(|_| AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let balancer = &balancer;
            scope.spawn(move || {
                let mut client = Client::new(balancer);
                for step in 0..20_000 {
                    client.pick();
                    if step % 100 == 0 {
                        balancer.set_weight(ServerIndex((thread + step) % 3), 1 + step % 7);
                    }
                }
            });
        }
    });
    (0..).zip([5, 1, 4]).for_each(|(server, weight)| balancer.set_weight(ServerIndex(server), weight));
    Client::new(&balancer).shares(3, 1000);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut client = Client::new(&balancer);
                for (all, mine) in shares.iter().zip(client.shares(3, 10_000)) {
                    all.fetch_add(mine, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(shares.map(AtomicU32::into_inner), [20_000, 4_000, 16_000]);
}
