//! Chooses servers as requests do, for `perf stat -e instructions:u`: what an algorithm costs.
//!
//!     picks <algorithm> <servers> <requests> [<threads>]
//!
//! The requests are those of each thread.

use std::collections::VecDeque;

use thalweg_balance::*;

/// Requests of a thread that are on their way at once.
const AT_ONCE: usize = 100;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (algorithm, numbers) = match &words[..] {
        [algorithm, numbers @ ..] => (algorithm, numbers),
        [] => return usage(),
    };
    let hashing = || (algorithm == "consistent").then_some(Algorithm::Consistent);
    let Some(algorithm) = Algorithm::by_name(algorithm).or_else(hashing) else {
        return eprintln!(
            "'{algorithm}' is neither 'consistent' nor an algorithm that goes by servers alone"
        );
    };
    let numbers: Vec<u32> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    let (servers, requests, threads) = match numbers[..] {
        [servers, requests] => (servers, requests, 1),
        [servers, requests, threads] => (servers, requests, threads),
        _ => return usage(),
    };
    let specs: Vec<_> = (1..=servers).map(|uid| ServerSpec::new(uid, 1)).collect();
    let balancer = Balancer::new(Settings { algorithm, ..Settings::default() }, &specs);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let balancer = &balancer;
            scope.spawn(move || choose(balancer, algorithm, requests, u64::from(thread) + 1));
        }
    });
}

fn usage() {
    eprintln!("usage: picks <algorithm> <servers> <requests> [<threads>]");
}

/// What one thread does.
fn choose(balancer: &Balancer, algorithm: Algorithm, requests: u32, mut random: u64) {
    let counts = algorithm.traits().goes_by_load;
    let key = |random: u64| (algorithm == Algorithm::Consistent).then_some((random >> 32) as u32);
    let (mut view, mut under_way) = (View::default(), VecDeque::with_capacity(AT_ONCE + 1));
    for number in 0..requests {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let now_us = i64::from(number) * 10;
        let cx = PickContext { servers: &NeverFull, avoid: None, random, now_us };
        let Some(server) = balancer.pick(&mut view, key(random), &cx) else { return };
        if counts {
            balancer.conn_started(server);
        }
        under_way.push_back(server);
        if under_way.len() > AT_ONCE
            && let Some(done) = under_way.pop_front()
            && counts
        {
            balancer.conn_ended(done);
            if algorithm.traits().measures_servers {
                view.estimates.answered(done.0, 1000 + u64::from(done.0), now_us);
            }
        }
    }
}
