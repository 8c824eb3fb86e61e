//! What is kept of what traffic said of a server that is observed, and how that brings its next check forward.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use thalweg_runtime::{Reason, TaskId, clock, current_task, timer};
use thalweg_shared::{AtomicU32, AtomicU64, Mutex};

/// What traffic said of a server that is observed.
#[derive(Default)]
pub(super) struct Observed {
    /// Errors in a row.
    errors: AtomicU32,
    /// How often they were as many as are allowed (`hanafail`).
    alarms: AtomicU64,
    /// Its checks, while there are any.
    hurry: Mutex<Option<Arc<Hurry>>>,
}

impl Observed {
    /// From now on it is about another server.
    pub(super) fn begin(&self) {
        self.errors.store(0, Ordering::Relaxed);
        self.alarms.store(0, Ordering::Relaxed);
        *self.hurry.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Nothing is wrong: the next error is the first in a row.
    pub(super) fn forget_errors(&self) {
        // Written only where there is something to forget.
        if self.errors.load(Ordering::Relaxed) != 0 {
            self.errors.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an error. When they are `limit` in a row, which raises an alarm, returns how many they are.
    pub(super) fn count_error(&self, limit: u32) -> Option<u32> {
        let errors = self.errors.fetch_add(1, Ordering::Relaxed) + 1;
        if errors < limit {
            return None;
        }
        self.errors.store(0, Ordering::Relaxed);
        self.alarms.fetch_add(1, Ordering::Relaxed);
        Some(errors)
    }

    /// Has the next check begin within `delay_ms`.
    pub(super) fn hurry_up(&self, delay_ms: u64) {
        let hurry = self.hurry.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hurry) = hurry {
            hurry.ask(clock::now_ms() + delay_ms);
        }
    }

    /// How often errors were too many.
    pub(super) fn alarms(&self) -> u64 {
        self.alarms.load(Ordering::Relaxed)
    }

    /// The calling task is that of the checks.
    pub(super) fn hear(&self) -> Arc<Hurry> {
        let hurry = Arc::new(Hurry { due_ms: AtomicU64::new(0), task: current_task() });
        *self.hurry.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&hurry));
        hurry
    }
}

/// Brings the next check forward.
pub(super) struct Hurry {
    /// When it is due, in milliseconds of the clock; 0 for when it would be anyway.
    due_ms: AtomicU64,
    /// The task of the checks.
    task: TaskId,
}

impl Hurry {
    fn ask(&self, due_ms: u64) {
        self.due_ms.store(due_ms.max(1), Ordering::SeqCst);
        self.task.wake(Reason::OTHER);
    }
}

/// Waits until a check is due: at `start_ms`, or earlier if traffic asks for it. Returns when it was due.
pub(super) async fn due(hurry: Option<&Hurry>, mut start_ms: u64) -> u64 {
    let Some(hurry) = hurry else {
        timer::sleep_until(start_ms).await;
        return start_ms;
    };
    std::future::poll_fn(|_| {
        let asked = hurry.due_ms.swap(0, Ordering::SeqCst);
        if asked != 0 {
            start_ms = start_ms.min(asked);
        }
        if clock::now_ms() >= start_ms {
            return std::task::Poll::Ready(start_ms);
        }
        timer::want(start_ms);
        std::task::Poll::Pending
    })
    .await
}
