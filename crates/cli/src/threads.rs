//! Asking every thread of the runtime something.

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use thalweg_proxy::worker::{self, Worker};
use thalweg_runtime::{Reason, current_task, run_on, thread_count, timer};

/// A thread that has not answered after this long is left out, in milliseconds.
const ANSWER_MS: u64 = 500;

/// Runs `f` on one thread; `None` if it did not answer in time.
pub async fn on<T: Send + 'static>(
    thread: usize,
    f: impl FnOnce(&Rc<Worker>) -> T + Send + 'static,
) -> Option<T> {
    let answer = Arc::new(Mutex::new(None));
    let (task, slot) = (current_task(), Arc::clone(&answer));
    let taken = move || answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    run_on(thread, move || {
        if let Some(worker) = worker::current() {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(f(&worker));
        }
        task.wake(Reason::OTHER);
    });
    let answered = std::future::poll_fn(|_| taken().map_or(Poll::Pending, Poll::Ready));
    timer::timeout_at(Some(timer::deadline_in(ANSWER_MS)), answered).await.ok()
}

/// Runs `f` on every thread and collects what it returns, by thread; `None` where a thread did not answer in time.
pub async fn on_all<T: Send + 'static>(
    f: impl Fn(&Rc<Worker>) -> T + Clone + Send + 'static,
) -> Vec<Option<T>> {
    let count = thread_count();
    let answers: Arc<Mutex<Vec<Option<T>>>> = Arc::new(Mutex::new((0..count).map(|_| None).collect()));
    let task = current_task();
    for thread in 0..count {
        let (f, answers) = (f.clone(), Arc::clone(&answers));
        run_on(thread, move || {
            if let Some(worker) = worker::current() {
                let answer = f(&worker);
                answers.lock().unwrap_or_else(PoisonError::into_inner)[thread] = Some(answer);
            }
            task.wake(Reason::OTHER);
        });
    }
    let all = std::future::poll_fn(|_| {
        let complete = answers.lock().unwrap_or_else(PoisonError::into_inner).iter().all(Option::is_some);
        if complete { Poll::Ready(()) } else { Poll::Pending }
    });
    // Whether all answered shows in the answers.
    let _ = timer::timeout_at(Some(timer::deadline_in(ANSWER_MS)), all).await;
    std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner))
}
