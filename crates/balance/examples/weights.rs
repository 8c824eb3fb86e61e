//! Changes weights at run time and chooses a server after each change, for `perf stat -e instructions:u`: what a change costs.
//!
//!     weights <algorithm> <servers> <changes> [<weight> [<spill-over>]]
//!
//! With a percentage of `zone ... spill-over` every other server is elsewhere.

use thalweg_balance::*;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (algorithm, servers, changes, more) = match &words[..] {
        [algorithm, servers, changes, more @ ..] if more.len() < 3 => (algorithm, servers, changes, more),
        _ => return eprintln!("usage: weights <algorithm> <servers> <changes> [<weight> [<spill-over>]]"),
    };
    let weight = more.first().map_or("100", String::as_str);
    let hashing = || (algorithm == "consistent").then_some(Algorithm::Consistent);
    let Some(algorithm) = Algorithm::by_name(algorithm).or_else(hashing) else {
        return eprintln!(
            "'{algorithm}' is neither 'consistent' nor an algorithm that goes by servers alone"
        );
    };
    let number = |word: &str| word.parse::<u32>().ok().filter(|&number| number > 0);
    let (Some(servers), Some(changes), Some(weight)) = (number(servers), number(changes), number(weight))
    else {
        return eprintln!("the numbers of servers and of changes, and a weight");
    };
    let zone_spill_over = more.get(1).and_then(|word| number(word));
    let spec = |uid| ServerSpec {
        elsewhere: zone_spill_over.is_some() && uid % 2 == 0,
        ..ServerSpec::new(uid, weight)
    };
    let specs: Vec<_> = (1..=servers).map(spec).collect();
    let balancer = Balancer::new(Settings { algorithm, zone_spill_over, ..Settings::default() }, &specs);
    let mut view = View::default();
    for change in 0..changes {
        balancer.set_weight(ServerIndex(change % servers), weight.div_ceil(2) + change % weight);
        let cx = PickContext { servers: &NeverFull, avoid: None, random: u64::from(change), now_us: 0 };
        let key = (algorithm == Algorithm::Consistent).then_some(change.wrapping_mul(0x9e37_79b9));
        if balancer.pick(&mut view, key, &cx).is_none() {
            return;
        }
    }
}
