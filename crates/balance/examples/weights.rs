//! Changes weights at run time and chooses a server after each change, for `perf stat -e instructions:u`: what a change costs.
//!
//!     weights <algorithm> <servers> <changes>

use thalweg_balance::*;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [algorithm, servers, changes] = &words[..] else {
        eprintln!("usage: weights <algorithm> <servers> <changes>");
        return;
    };
    let Some(algorithm) = Algorithm::by_name(algorithm) else {
        return eprintln!("'{algorithm}' is not an algorithm that goes by servers alone");
    };
    let (Ok(servers), Ok(changes)) = (servers.parse::<u32>(), changes.parse::<u32>()) else {
        return eprintln!("the number of servers and of changes");
    };
    let specs: Vec<_> = (1..=servers).map(|uid| ServerSpec::new(uid, 100)).collect();
    let balancer = Balancer::new(Settings { algorithm, ..Settings::default() }, &specs);
    let mut view = View::default();
    for change in 0..changes {
        balancer.set_weight(ServerIndex(change % servers), 50 + change % 100);
        let cx = PickContext { servers: &NeverFull, avoid: None, random: u64::from(change), now_us: 0 };
        if balancer.pick(&mut view, None, &cx).is_none() {
            return;
        }
    }
}
