//! How far the proxy's core is from the load's.
//!
//! Most of what a proxy costs is the kernel's TCP, and most of that is waiting for memory that the other core wrote last. A
//! virtual machine's cores may share their caches at one moment and lie on different dies at the next: then the same
//! instructions take two to three times as long, and as all proxies move the same bytes, ratios come closer to 1.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use crate::machine::{BOTH_CORES, pinned};

/// Turns of the token in one measurement.
const TURNS: u32 = 20_000;
/// Rounds whose distances differ by more than this factor were not made on the same machine, so to speak.
pub const MOVED: f64 = 2.0;

/// Nanoseconds until the other core has seen what this one wrote, and this one its answer.
///
/// # Errors
/// When the copy of this program that measures it cannot be started, or prints no figure.
pub fn between_cores() -> io::Result<f64> {
    let output = pinned(BOTH_CORES, std::env::current_exe()?).arg("distance").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| io::Error::other(format!("no distance of the cores: {text}")))
}

/// The copy. Two threads that do not sleep get a core each.
pub fn distance_main() {
    println!("{:.0}", ping_pong(TURNS));
}

fn ping_pong(turns: u32) -> f64 {
    let token = AtomicU32::new(0);
    // Odd numbers are this thread's, even ones the other's.
    let play = |first: u32| {
        for turn in (first..turns * 2).step_by(2) {
            while token.load(Ordering::Acquire) != turn {
                std::hint::spin_loop();
            }
            token.store(turn + 1, Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(1));
        let start = Instant::now();
        play(0);
        start.elapsed().as_nanos() as f64 / f64::from(turns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_makes_all_its_turns() {
        assert!(ping_pong(3) > 0.0);
    }
}
