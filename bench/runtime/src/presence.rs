//! When the measured thread ran, and when the kernel let others run in its place.
//!
//! A thread that saturates its core is interrupted by whatever else the machine does, for milliseconds at a time, which is no
//! fault of its scheduler. What it has of CPU time falls behind the clock then.

use thalweg_runtime::clock;

/// The clock at one moment, and how far the thread's CPU time was behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub wall_ns: u64,
    pub away_ns: u64,
}

/// The marks of one thread, in their order.
#[derive(Debug, Default)]
pub struct Presence(Vec<Mark>);

impl Presence {
    /// Notes how it is now. For the measured thread.
    pub fn mark(&mut self) -> Mark {
        let wall_ns = clock::precise_ns();
        let mark = Mark { wall_ns, away_ns: wall_ns.saturating_sub(clock::thread_cpu_ns()) };
        self.0.push(mark);
        mark
    }

    /// For how long of the time from `due_ns` to `now` the thread did not run, at least: if it was away between two marks, that
    /// may have been at once after the first.
    pub fn away_since(&self, due_ns: u64, now: Mark) -> u64 {
        let next = self.0.partition_point(|mark| mark.wall_ns <= due_ns);
        let (Some(before), Some(after)) =
            (next.checked_sub(1).and_then(|at| self.0.get(at)), self.0.get(next))
        else {
            return 0;
        };
        let gap = after.away_ns.saturating_sub(before.away_ns);
        let part = (before.wall_ns + gap).saturating_sub(due_ns).min(gap);
        part + now.away_ns.saturating_sub(after.away_ns)
    }

    /// Forgets the marks so far but for the last.
    pub fn restart(&mut self) {
        let kept = self.0.len().saturating_sub(1);
        self.0.drain(..kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_off_than_the_thread_was_certainly_away() {
        let mark = |wall_ns, away_ns| Mark { wall_ns, away_ns };
        // Away for 50 between 100 and 200, and for 7 after 300.
        let presence = Presence(vec![mark(100, 10), mark(200, 60), mark(300, 60), mark(400, 67)]);
        let now = mark(400, 67);
        assert_eq!(presence.away_since(100, now), 50 + 7);
        assert_eq!(presence.away_since(120, now), 30 + 7);
        assert_eq!(presence.away_since(180, now), 7);
        assert_eq!(presence.away_since(250, now), 7);
        assert_eq!(presence.away_since(50, now), 0, "before the first mark nothing is known");
        assert_eq!(presence.away_since(400, now), 0);
    }
}
