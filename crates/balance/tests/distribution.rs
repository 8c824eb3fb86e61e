//! What share of 100,000 requests each server gets, beside what it should, and which keys move when a server leaves.

use std::collections::VecDeque;

use thalweg_balance::*;

const REQUESTS: u32 = 100_000;

/// Requests that are on their way at once.
const AT_ONCE: usize = 40;

fn takes_key(algorithm: Algorithm) -> bool {
    matches!(algorithm.traits().written, Written::ByKey)
}

fn balancer(algorithm: Algorithm, weights: &[u32]) -> Balancer {
    let specs: Vec<_> = (1..).zip(weights).map(|(uid, &weight)| ServerSpec::new(uid, weight)).collect();
    Balancer::new(Settings { algorithm, ..Settings::default() }, &specs)
}

fn key(number: u32) -> u32 {
    KeyHash::default().bytes(format!("key-{number}").as_bytes())
}

/// How many requests each server gets when all take equally long.
fn played(algorithm: Algorithm, weights: &[u32]) -> Vec<u32> {
    let balancer = balancer(algorithm, weights);
    let (mut view, mut under_way) = (View::default(), VecDeque::new());
    let mut shares = vec![0; weights.len()];
    let mut random = 1u64;
    for number in 0..REQUESTS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let now_us = i64::from(number) * 100;
        let cx = PickContext { servers: &NeverFull, avoid: None, random, now_us };
        let hashed = takes_key(algorithm).then(|| key(number));
        let server = balancer.pick(&mut view, hashed, &cx).expect("a server");
        balancer.conn_started(server);
        shares[server.0 as usize] += 1;
        under_way.push_back(server);
        if under_way.len() > AT_ONCE {
            let done: ServerIndex = under_way.pop_front().expect("one is there");
            balancer.conn_ended(done);
            view.estimates.answered(done.0, 100 * AT_ONCE as u64, now_us);
        }
    }
    shares
}

/// Each server gets its share of `weights`, but for so many thousandths of that.
fn gets_its_share(algorithm: Algorithm, weights: &[u32], thousandths: u32) {
    let shares = played(algorithm, weights);
    let total: u32 = weights.iter().sum();
    for (share, weight) in shares.iter().zip(weights) {
        let ideal = REQUESTS / total * weight;
        assert!(
            share.abs_diff(ideal) <= ideal / 1000 * thousandths + 1,
            "{algorithm:?}: {shares:?} of {weights:?}, {share} should be {ideal}"
        );
    }
}

#[test]
fn turns_are_exact() {
    for algorithm in [Algorithm::RoundRobin, Algorithm::StaticRr] {
        gets_its_share(algorithm, &[1; 10], 0);
        gets_its_share(algorithm, &[1, 2, 3, 4, 10], 0);
    }
}

#[test]
fn least_loaded_servers_of_equal_speed_get_their_share() {
    gets_its_share(Algorithm::LeastConn, &[1; 10], 10);
    // Forty requests are two for each unit of weight: with so few, who has a small weight is rounded up.
    gets_its_share(Algorithm::LeastConn, &[1, 2, 3, 4, 10], 300);
    assert!(played(Algorithm::LeastConn, &[1, 2, 3, 4, 10]).is_sorted());
}

#[test]
fn drawn_servers_get_their_share() {
    // Of 10,000 draws in 100,000 the standard deviation is 95: five of them are 48 thousandths.
    gets_its_share(Algorithm::Random { draws: 1 }, &[1; 10], 48);
    gets_its_share(Algorithm::Random { draws: 1 }, &[2, 4, 6, 8], 48);
    // Loads even out what chance does not.
    gets_its_share(Algorithm::Random { draws: 2 }, &[1; 10], 20);
    gets_its_share(Algorithm::Ewma, &[1; 10], 48);
}

#[test]
fn the_first_server_gets_all_that_it_has_room_for() {
    assert_eq!(played(Algorithm::First, &[1; 3]), [REQUESTS, 0, 0]);
    assert_eq!(played(Algorithm::Sticky, &[1; 3]), [REQUESTS, 0, 0]);
}

#[test]
fn hashed_keys_spread_as_weights_say() {
    gets_its_share(Algorithm::MapBased, &[1; 10], 48);
    gets_its_share(Algorithm::MapBased, &[1, 2, 3, 4], 48);
    // Shares of the circle are what its points make of it: with 1,600 points for each server, some hundredths more or less.
    gets_its_share(Algorithm::Consistent, &[100; 10], 150);
}

/// How many keys are on another server after the last of `servers` has left, and how many were on that one.
fn moved(method: HashMethod, servers: u32) -> (u32, u32) {
    let balancer = balancer(Algorithm::hashing(method), &vec![16; servers as usize]);
    let mut view = View::default();
    let cx = PickContext { servers: &NeverFull, avoid: None, random: 0, now_us: 0 };
    let mut places = || -> Vec<u32> {
        (0..REQUESTS).map(|n| balancer.pick(&mut view, Some(key(n)), &cx).expect("a server").0).collect()
    };
    let before = places();
    balancer.set_up(ServerIndex(servers - 1), false);
    let after = places();
    let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    let lost = before.iter().filter(|server| **server == servers - 1).count();
    (moved as u32, lost as u32)
}

#[test]
fn a_consistent_hash_moves_the_keys_of_the_server_that_left_and_no_other() {
    for servers in [2, 10, 50] {
        let (moved, lost) = moved(HashMethod::Consistent, servers);
        assert_eq!(moved, lost, "{servers} servers");
        assert!(
            lost.abs_diff(REQUESTS / servers) < REQUESTS / servers / 3,
            "{lost} keys of {servers} servers"
        );
    }
}

#[test]
fn a_table_moves_nearly_all_keys() {
    for servers in [10, 50] {
        let (moved, _) = moved(HashMethod::MapBased, servers);
        assert!(moved > REQUESTS / 10 * 7, "{moved} of {servers} servers");
    }
}
