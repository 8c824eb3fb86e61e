//! Which clients are told of a soft stop, and when: all of them at once, or over a while (`close-spread-time`), so that not all of
//! them connect anew in the same moment.

use thalweg_runtime::clock;

use crate::stopping::Stopping;
use crate::worker::Worker;

impl Worker {
    /// Whether a client of this listener is told with its response that the connection ends: the listener
    /// [leaves](crate::worker::Thread::leaves), and where a soft stop is spread over a while, the turn of this one has come. The
    /// longer the stop lasts, the more are told; with `infinite` nobody is.
    #[inline]
    pub fn dismisses(&self, listener: usize) -> bool {
        self.leaves(listener) && self.is_turn_to_leave()
    }

    #[cold]
    fn is_turn_to_leave(&self) -> bool {
        let Some(spread_ms @ 1..) = self.instance.config.global.close_spread_time_ms else { return true };
        if self.live.stopping() != Stopping::Soft {
            return true;
        }
        let since_ms = clock::now_ms().saturating_sub(self.live.stopping_since_ms());
        since_ms >= spread_ms || self.next_random() % spread_ms < since_ms
    }

    /// When a client that waits is told of a soft stop that is noticed at `now_ms`; `None`: never.
    pub fn leaves_at(&self, now_ms: u64) -> Option<u64> {
        match self.instance.config.global.close_spread_time_ms {
            None | Some(0) => Some(now_ms),
            Some(u64::MAX) => None,
            Some(spread_ms) => Some(now_ms + self.next_random() % spread_ms),
        }
    }
}
