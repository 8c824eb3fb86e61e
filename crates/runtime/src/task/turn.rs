//! Long work that lets others run after some time, however long each of its steps takes.

use crate::{clock, scheduler};

/// How long a turn takes: as long as some six short requests. With half a millisecond the slowest hundredth of the requests beside
/// a dump took three times as long as without it (15 and 5 ms), and the dump hardly less.
const TURN_NS: u64 = 100_000;

/// Steps of a turn where time stands still, in the simulation.
const VIRTUAL_STEPS: u32 = 32;

/// Measures the turns of a task that works in small steps: asked once for each, it says when others are to run
/// ([`crate::yield_now`]). A turn begins with the first step after the task was last run, for whatever reason that was.
#[derive(Debug, Default)]
pub struct Turn {
    /// The run of a task in which it began.
    run: u64,
    ends_ns: u64,
    steps: u32,
}

impl Turn {
    /// A step comes next, or was made. True when the turn has lasted long enough.
    pub fn is_over(&mut self) -> bool {
        let (run, now_ns) = (scheduler::runs(), clock::precise_ns());
        if self.run != run {
            *self = Turn { run, ends_ns: now_ns + TURN_NS, steps: 0 };
        }
        self.steps += 1;
        now_ns >= self.ends_ns || (clock::is_virtual() && self.steps > VIRTUAL_STEPS)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::driver::sim::{self, SimConfig};
    use crate::{Config, Kind, block_on, spawn, yield_now};

    static TASK: Kind = Kind::new("test");

    /// Steps of a tenth of a turn: ten of them at most, and a turn that was given away begins anew.
    #[test]
    fn a_turn_is_a_time() {
        block_on(Config::default(), async {
            let mut turn = Turn::default();
            for _ in 0..3 {
                let begun = Instant::now();
                let mut steps = 0;
                while !turn.is_over() {
                    let step = Instant::now();
                    while step.elapsed() < Duration::from_nanos(TURN_NS / 10) {}
                    steps += 1;
                }
                assert!((1..=10).contains(&steps), "{steps} steps");
                assert!(begun.elapsed() >= Duration::from_nanos(TURN_NS));
                assert!(turn.is_over(), "it does not begin anew by itself");
                yield_now().await;
            }
        });
    }

    #[test]
    fn where_time_stands_still_it_is_a_number_of_steps() {
        let report = sim::run(1, SimConfig::faultless(), |_| async {
            let steps = Rc::new(Cell::new(0));
            let counted = Rc::clone(&steps);
            spawn(&TASK, async move {
                let mut turn = Turn::default();
                for _ in 0..2 {
                    while !turn.is_over() {
                        counted.set(counted.get() + 1);
                    }
                    yield_now().await;
                }
            });
            crate::timer::sleep(1).await;
            assert_eq!(steps.get(), 2 * VIRTUAL_STEPS);
        });
        report.check().expect("nothing is left");
    }
}
