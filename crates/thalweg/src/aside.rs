//! Work on threads that serve nobody.

use std::{io, thread};

use thalweg_sys::dense::{allocate_densely, begin_anew};
use thalweg_sys::memory::{give_back_pages, give_back_what_is_left};

/// Does work of one kind, each piece on a thread of its own.
///
/// What it allocates is packed densely, as some of it stays, and apart from that of the pieces before, as all of that may go.
pub struct Aside {
    name: &'static str,
    stack_size: usize,
    /// What a thread begins with.
    begin: fn(),
}

impl Aside {
    pub const fn new(name: &'static str, stack_size: usize, begin: fn()) -> Aside {
        Aside { name, stack_size, begin }
    }

    /// Has it done.
    ///
    /// # Errors
    /// There is no thread for it; it is not done.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let begin = self.begin;
        let work = move || {
            begin();
            allocate_densely();
            begin_anew();
            job();
            give_back_pages();
            // What it had others do may have left something, too.
            give_back_what_is_left();
        };
        thread::Builder::new().name(self.name.into()).stack_size(self.stack_size).spawn(work).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn each_piece_is_done_by_a_thread_that_began_as_it_should() {
        thread_local! {
            static BEGAN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let aside = Aside::new("aside", 1 << 20, || BEGAN.set(BEGAN.get() + 1));
        let (tell, told) = channel();
        for _ in 0..3 {
            let tell = tell.clone();
            let job = move || {
                let thread = thread::current();
                _ = tell.send((BEGAN.get(), thread.name().map(str::to_owned)));
            };
            aside.run(job).expect("there is memory");
            assert_eq!(told.recv(), Ok((1, Some("aside".to_owned()))));
        }
    }
}
