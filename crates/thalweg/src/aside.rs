//! Work on threads that serve nobody.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use thalweg_sys::memory::{ask_when_giving_back, give_back_pages, give_back_what_is_left};

use crate::locked;

type Job = Box<dyn FnOnce() + Send>;

/// What a thread that waits is told.
enum Told {
    Do(Job),
    /// Others freed what it allocated.
    GiveBack,
}

/// Does work of one kind, each piece on a thread that does nothing else meanwhile.
///
/// A thread that is done waits for the next piece: a configuration lies in the memory of the thread that read it, and one that is
/// read by the same thread later uses what that left, where another one would begin pages of its own.
pub struct Aside {
    name: &'static str,
    stack_size: usize,
    /// What a thread begins with.
    begin: fn(),
    /// The thread that waits. Others, of which there are more only while more than one piece is done, end.
    waits: Mutex<Option<Sender<Told>>>,
}

impl Aside {
    pub fn new(name: &'static str, stack_size: usize, begin: fn()) -> Arc<Aside> {
        let aside = Arc::new(Aside { name, stack_size, begin, waits: Mutex::new(None) });
        let weak = Arc::downgrade(&aside);
        ask_when_giving_back(move || {
            if let Some(waiting) = weak.upgrade().as_deref().and_then(|aside| locked(&aside.waits).clone()) {
                // Without memory for it nothing is given back.
                let _ = waiting.send(Told::GiveBack);
            }
        });
        aside
    }

    /// Has it done.
    ///
    /// # Errors
    /// There is no thread for it; it is not done.
    pub fn run(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let waiting = locked(&self.waits).take();
        if let Some(waiting) = waiting {
            // A thread that waits does not end by itself.
            return waiting.send(Told::Do(Box::new(job))).map_err(|_| io::Error::other("the thread ended"));
        }
        let aside = Arc::clone(self);
        let work = move || {
            (aside.begin)();
            aside.work(Box::new(job));
        };
        thread::Builder::new().name(self.name.into()).stack_size(self.stack_size).spawn(work).map(drop)
    }

    /// Does it, and what comes after it.
    fn work(&self, mut job: Job) {
        loop {
            job();
            give_back_pages();
            // What it had others do may have left something, too.
            give_back_what_is_left();
            let (give, take) = channel();
            match &mut *locked(&self.waits) {
                Some(_) => return,
                none => *none = Some(give),
            }
            job = loop {
                match take.recv() {
                    Ok(Told::Do(next)) => break next,
                    Ok(Told::GiveBack) => give_back_pages(),
                    Err(_) => return,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::ThreadId;
    use std::time::{Duration, Instant};

    /// On which thread it is done.
    fn done_on(aside: &Arc<Aside>) -> ThreadId {
        let (tell, told) = channel();
        aside
            .run(move || tell.send(thread::current().id()).expect("the test waits"))
            .expect("there is memory");
        told.recv().expect("it is done")
    }

    /// Until a thread waits for the next piece.
    fn waits(aside: &Aside) {
        let since = Instant::now();
        while locked(&aside.waits).is_none() {
            assert!(since.elapsed() < Duration::from_secs(20), "no thread waits");
            thread::yield_now();
        }
    }

    #[test]
    fn one_piece_after_the_other_is_done_by_the_same_thread() {
        static BEGAN: AtomicUsize = AtomicUsize::new(0);
        let aside = Aside::new("aside", 1 << 20, || _ = BEGAN.fetch_add(1, Ordering::Relaxed));
        let first = done_on(&aside);
        for _ in 0..3 {
            waits(&aside);
            let told = locked(&aside.waits).clone().expect("it waits");
            told.send(Told::GiveBack).expect("it waits");
            assert_eq!(done_on(&aside), first);
        }
        assert_eq!(BEGAN.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn two_pieces_at_once_are_done_by_two_threads_of_which_one_stays() {
        let aside = Aside::new("aside", 1 << 20, || ());
        let (go_on, held) = channel::<()>();
        aside.run(move || _ = held.recv()).expect("there is memory");
        let second = done_on(&aside);
        waits(&aside);
        drop(go_on);
        assert_eq!(done_on(&aside), second);
    }

    #[test]
    fn a_panic_ends_a_thread_and_not_what_comes_later() {
        let aside = Aside::new("aside", 1 << 20, || ());
        aside.run(|| panic!("as it has to")).expect("there is memory");
        done_on(&aside);
        waits(&aside);
        done_on(&aside);
    }
}
