//! A question to another thread and its answer, in one piece of memory that goes there and comes back.
//!
//! The memory is of the thread that asks, out of its blocks, and is mostly freed there, so that neither a question nor an answer
//! asks the allocator for anything. It carries the link by which it is in a mailbox, the question on its way there, and the answer
//! on its way back; each crosses as a value. Two have it: who waits ([`Awaited`]), and who carries it (a mailbox, or the one that is
//! asked, as [`Carried`]). One word says which of them is done with it first; the other one frees it:
//!
//! ```text
//!            it is back where it came from, or lost on its way
//!    Away --------------------------------------------------------> Back: who waits takes the answer, and frees it
//!      |
//!      |     who waits gives up
//!      +----------------------------------------------------------> Left: who carries it frees it when it is back
//! ```
//!
//! Invariants
//! - Who carries it has question, answer and link to itself until the word says `Back`; from then on they are of who waits.
//! - It comes back however it is carried: a `Carried` that is dropped sends it back without an answer, and a mailbox that is closed
//!   with it does the same. Where its home is closed, too, it is lost, which frees it or tells who waits in the same way.
//! - An answer that nobody waits for is given to [`Content::unclaimed`] at home, and dropped anywhere else.

use super::queue::Node;
use super::{Header, LETTER};
use crate::sync::{AtomicU32, Ordering};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::NonNull;

#[cfg(not(loom))]
use crate::pool::{block_alloc, block_free};
#[cfg(loom)]
use memory::{block_alloc, block_free};

const AWAY: u32 = 0;
const BACK: u32 = 1;
const LEFT: u32 = 2;

/// Where a letter comes back to. It is `Copy` because it is used when the letter may be gone.
pub(crate) trait Home: Copy {
    /// Puts it into the mailbox there. False, and it was not, when nobody looks into that any more.
    ///
    /// # Safety
    /// The caller carries the letter, and no longer does when this is true.
    unsafe fn send(self, letter: NonNull<Header>) -> bool;

    /// Wakes who waits for it.
    fn wake(self);
}

/// What is written in a letter.
pub(crate) trait Content: Sized {
    /// What comes back.
    type Answer;
    type Home: Home;

    /// It has come to the thread that is asked, which runs this.
    fn put(self, reply: Carried<Self>);

    /// It is back, and nobody waits for it any more.
    fn unclaimed(answer: Self::Answer);
}

/// What a mailbox knows of a letter.
#[repr(C)]
struct Envelope {
    header: Header,
    /// What the owner of the mailbox does with it.
    open: unsafe fn(NonNull<Envelope>),
    /// The same, when the owner ends.
    discard: unsafe fn(NonNull<Envelope>),
}

#[repr(C)]
struct Letter<C: Content> {
    envelope: Envelope,
    state: AtomicU32,
    home: C::Home,
    /// There until it has come to who is asked.
    question: UnsafeCell<Option<C>>,
    answer: UnsafeCell<Option<C::Answer>>,
}

/// What who asks keeps.
pub(crate) struct Awaited<C: Content>(NonNull<Letter<C>>);

/// A letter with the one that was asked.
pub(crate) struct Carried<C: Content>(NonNull<Letter<C>>);

/// Writes a letter, which is to be put into a mailbox or [discarded](discard).
pub(crate) fn write<C: Content>(question: C, home: C::Home) -> (Awaited<C>, NonNull<Header>) {
    let letter = block_alloc(Layout::new::<Letter<C>>()).cast::<Letter<C>>();
    let header = Header { node: Node::new(), what: LETTER };
    let envelope = Envelope { header, open: open_envelope::<C>, discard: discard_envelope::<C> };
    let state = AtomicU32::new(AWAY);
    let (question, answer) = (UnsafeCell::new(Some(question)), UnsafeCell::new(None));
    // SAFETY: the block is large and aligned enough, and nobody else's.
    unsafe { letter.write(Letter { envelope, state, home, question, answer }) };
    (Awaited(letter), letter.cast())
}

/// Does what a letter is for, on the thread into whose mailbox it was put.
///
/// # Safety
/// `letter` starts a letter, and the caller is the one that carries it.
pub(crate) unsafe fn open(letter: NonNull<Header>) {
    let envelope = letter.cast::<Envelope>();
    // SAFETY: such a header starts an envelope, which is there as long as it is carried; passed on.
    unsafe { (envelope.as_ref().open)(envelope) };
}

/// The same for one that nobody will open.
///
/// # Safety
/// As for [`open`].
pub(crate) unsafe fn discard(letter: NonNull<Header>) {
    let envelope = letter.cast::<Envelope>();
    // SAFETY: as in `open`.
    unsafe { (envelope.as_ref().discard)(envelope) };
}

unsafe fn open_envelope<C: Content>(envelope: NonNull<Envelope>) {
    let letter = envelope.cast::<Letter<C>>();
    // SAFETY: passed on: the caller carries it, so that the question is the caller's.
    let question = unsafe { (*letter.as_ref().question.get()).take() };
    match question {
        Some(question) => question.put(Carried(letter)),
        None => {
            // SAFETY: passed on.
            let unclaimed = unsafe { come_back(letter) };
            unclaimed.into_iter().for_each(C::unclaimed);
        }
    }
}

unsafe fn discard_envelope<C: Content>(envelope: NonNull<Envelope>) {
    let letter = envelope.cast::<Letter<C>>();
    // SAFETY: as in `open_envelope`.
    let question = unsafe { (*letter.as_ref().question.get()).take() };
    match question {
        Some(question) => {
            drop(question);
            drop(Carried(letter));
        }
        // SAFETY: passed on.
        None => drop(unsafe { come_back(letter) }),
    }
}

/// It is where it came from, or never gets there. Returns the answer when who waited has given up.
///
/// # Safety
/// The caller carries it, and no longer does afterwards.
unsafe fn come_back<C: Content>(letter: NonNull<Letter<C>>) -> Option<C::Answer> {
    // SAFETY: passed on.
    let (state, home) = unsafe { (&letter.as_ref().state, letter.as_ref().home) };
    if exchange(state, BACK) == AWAY {
        // Who waits may have freed it by now.
        home.wake();
        return None;
    }
    // SAFETY: who waited has left it to the caller.
    unsafe { free(letter) }
}

/// The one step at which it goes from two to one.
fn exchange(state: &AtomicU32, to: u32) -> u32 {
    // The planted bug: both may think that they are the first, so that nobody frees it.
    #[cfg(planted)]
    {
        let before = state.load(Ordering::Acquire);
        state.store(to, Ordering::Release);
        return before;
    }
    #[cfg(not(planted))]
    state.swap(to, Ordering::AcqRel)
}

/// Frees it, and returns the answer that nobody took.
///
/// # Safety
/// It is the caller's alone, and not used afterwards.
unsafe fn free<C: Content>(letter: NonNull<Letter<C>>) -> Option<C::Answer> {
    // SAFETY: it is the caller's alone, so that what is in it can be moved out.
    let content = unsafe { letter.read() };
    // SAFETY: it came from `block_alloc` with this layout, and nothing is left in it.
    unsafe { block_free(letter.cast(), Layout::new::<Letter<C>>()) };
    content.answer.into_inner()
}

impl<C: Content> Awaited<C> {
    /// The answer, once it is there: `Some(None)` when there is nothing to be had, `None` while it is not known.
    pub(crate) fn take(&mut self) -> Option<Option<C::Answer>> {
        // SAFETY: it is there as long as this is.
        let letter = unsafe { self.0.as_ref() };
        if letter.state.load(Ordering::Acquire) != BACK {
            return None;
        }
        // SAFETY: nobody carries it any more.
        Some(unsafe { (*letter.answer.get()).take() })
    }
}

impl<C: Content> Drop for Awaited<C> {
    fn drop(&mut self) {
        // SAFETY: it is there as long as this is.
        if exchange(unsafe { &self.0.as_ref().state }, LEFT) == BACK {
            // SAFETY: nobody carries it any more.
            let unclaimed = unsafe { free(self.0) };
            unclaimed.into_iter().for_each(C::unclaimed);
        }
    }
}

impl<C: Content> Carried<C> {
    /// Answers.
    pub(crate) fn give(self, answer: Option<C::Answer>) {
        // SAFETY: who carries it has the answer's place to itself; what was there is nothing.
        unsafe { *self.0.as_ref().answer.get() = answer };
    }
}

impl<C: Content> Drop for Carried<C> {
    fn drop(&mut self) {
        // SAFETY: it is carried until here.
        let home = unsafe { self.0.as_ref().home };
        // SAFETY: likewise.
        if !unsafe { home.send(self.0.cast()) } {
            // SAFETY: it was not sent, so that it is still carried here.
            drop(unsafe { come_back(self.0) });
        }
    }
}

/// The allocator's, with a count of what is in use: loom plays all threads on one.
#[cfg(loom)]
mod memory {
    use std::alloc::{Layout, alloc, dealloc};
    use std::cell::Cell;
    use std::ptr::NonNull;

    thread_local! {
        pub(super) static IN_USE: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn block_alloc(layout: Layout) -> NonNull<u8> {
        IN_USE.set(IN_USE.get() + 1);
        // SAFETY: letters are not empty.
        NonNull::new(unsafe { alloc(layout) }).expect("memory")
    }

    /// # Safety
    /// As for the allocator.
    pub(super) unsafe fn block_free(block: NonNull<u8>, layout: Layout) {
        IN_USE.set(IN_USE.get() - 1);
        // SAFETY: passed on.
        unsafe { dealloc(block.as_ptr(), layout) };
    }
}

#[cfg(all(test, loom))]
mod loom_models {
    use super::*;
    use crate::mailbox::queue::{Pop, Queue};
    use loom::cell::UnsafeCell as Checked;
    use loom::sync::atomic::AtomicBool;
    use loom::sync::{Arc, Notify};
    use loom::thread;

    /// A thread's mailbox, and what others may touch of it.
    struct Mailbox {
        queue: Queue,
        is_closed: AtomicBool,
        bell: Notify,
        woken: AtomicBool,
        closed: AtomicU32,
        unclaimed: AtomicU32,
    }

    impl Mailbox {
        fn new() -> Arc<Mailbox> {
            Arc::new(Mailbox {
                queue: Queue::new(),
                is_closed: AtomicBool::new(false),
                bell: Notify::new(),
                woken: AtomicBool::new(false),
                closed: AtomicU32::new(0),
                unclaimed: AtomicU32::new(0),
            })
        }

        /// The oldest letter, for the owner.
        fn next(&self) -> Option<NonNull<Header>> {
            loop {
                // SAFETY: only the owner calls this.
                match unsafe { self.queue.pop() } {
                    Pop::Node(node) => return Some(node.cast()),
                    Pop::Empty => return None,
                    Pop::Busy => thread::yield_now(),
                }
            }
        }

        /// Opens the letter that comes.
        fn open_one(&self) {
            loop {
                match self.next() {
                    // SAFETY: every node here starts a letter.
                    Some(letter) => return unsafe { open(letter) },
                    None => self.bell.wait(),
                }
            }
        }

        fn discard_all(&self) {
            // SAFETY: as above.
            std::iter::from_fn(|| self.next()).for_each(|letter| unsafe { discard(letter) });
        }
    }

    /// The mailbox of who asks, which outlives all letters.
    #[derive(Clone, Copy)]
    struct At(*const Mailbox);

    impl At {
        fn mailbox(&self) -> &Mailbox {
            // SAFETY: see above.
            unsafe { &*self.0 }
        }
    }

    impl Home for At {
        unsafe fn send(self, letter: NonNull<Header>) -> bool {
            if self.mailbox().is_closed.load(Ordering::Acquire) {
                return false;
            }
            // SAFETY: a letter that is carried is in no queue, and valid until it is opened.
            unsafe { self.mailbox().queue.push(letter.cast()) };
            self.mailbox().bell.notify();
            true
        }

        fn wake(self) {
            self.mailbox().woken.store(true, Ordering::Relaxed);
        }
    }

    /// A connection, which is closed once, by whoever has it then.
    struct Connection(At, Checked<u32>);

    impl Drop for Connection {
        fn drop(&mut self) {
            // SAFETY: loom checks that nobody else does the same.
            self.1.with_mut(|number| unsafe { *number = 0 });
            self.0.mailbox().closed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What the one that is asked does with the question.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Owner {
        Gives,
        HasNone,
        /// The connection dies on its way, and its reply with it.
        Loses,
        /// It ends with the message unread.
        Ends,
    }

    struct Question(Owner, At);

    impl Content for Question {
        type Answer = Connection;
        type Home = At;

        fn put(self, reply: Carried<Question>) {
            let connection = || Connection(self.1, Checked::new(7));
            match self.0 {
                Owner::Gives => reply.give(Some(connection())),
                Owner::HasNone => reply.give(None),
                Owner::Loses => drop((connection(), reply)),
                Owner::Ends => unreachable!("it is discarded"),
            }
        }

        fn unclaimed(answer: Connection) {
            answer.0.mailbox().unclaimed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What who asks does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Asker {
        Waits,
        GivesUp,
        /// Its thread ends, after it gave up.
        Ends,
        /// It outlives its thread's mailbox.
        EndsLate,
    }

    fn play(owner: Owner, asker: Asker) {
        loom::model(move || {
            let (here, there) = (Mailbox::new(), Mailbox::new());
            let at = At(Arc::as_ptr(&here));
            let (mut awaited, letter) = write(Question(owner, at), at);
            // SAFETY: a fresh letter.
            unsafe { there.queue.push(letter.cast()) };
            // Nothing is made there that is not passed on, so that its mailbox may be moved.
            let other = {
                let (there, here) = (Arc::clone(&there), Arc::clone(&here));
                thread::spawn(move || {
                    if owner == Owner::Ends {
                        there.discard_all()
                    } else {
                        there.open_one()
                    }
                    drop(here);
                })
            };
            let end = || {
                here.is_closed.store(true, Ordering::Release);
                here.discard_all();
            };
            match asker {
                Asker::Waits => {
                    here.open_one();
                    assert!(here.woken.load(Ordering::Relaxed), "{owner:?}: nobody is told");
                    let answer = awaited.take().expect("the answer is there");
                    assert_eq!(answer.is_some(), owner == Owner::Gives, "{owner:?}");
                    if let Some(Connection(_, number)) = &answer {
                        // SAFETY: loom checks that nobody writes it.
                        assert_eq!(number.with(|number| unsafe { *number }), 7);
                    }
                    assert!(!awaited.take().is_some_and(|again| again.is_some()), "it is told once");
                    drop(awaited);
                }
                Asker::GivesUp => {
                    drop(awaited);
                    here.open_one();
                    assert!(!here.woken.load(Ordering::Relaxed), "who gave up is left alone");
                }
                Asker::Ends => {
                    drop(awaited);
                    end();
                }
                Asker::EndsLate => {
                    end();
                    drop(awaited);
                }
            }
            other.join().unwrap();
            // What came after the end is found by whom the mailbox belongs to next.
            here.discard_all();
            let made = u32::from(matches!(owner, Owner::Gives | Owner::Loses));
            assert_eq!(
                here.closed.load(Ordering::Relaxed),
                made,
                "{owner:?}, {asker:?}: a connection is left"
            );
            let unclaimed = here.unclaimed.load(Ordering::Relaxed);
            match asker {
                Asker::Waits | Asker::Ends => assert_eq!(unclaimed, 0),
                Asker::GivesUp => assert_eq!(unclaimed, u32::from(owner == Owner::Gives)),
                Asker::EndsLate => {}
            }
            let in_use = memory::IN_USE.take();
            assert_eq!(in_use, 0, "{owner:?}, {asker:?}: a letter is left");
        });
    }

    /// Whatever becomes of who asks and of the one that is asked, who waits is told, once, a connection has one end, and so has the
    /// letter. Seen to fail with `--cfg planted`, by which both ends of a letter may think that they are the first to be done with it:
    /// "a connection is left".
    #[test]
    fn loom_letter_comes_back_once() {
        for owner in [Owner::Gives, Owner::HasNone, Owner::Loses, Owner::Ends] {
            for asker in [Asker::Waits, Asker::GivesUp, Asker::Ends, Asker::EndsLate] {
                play(owner, asker);
            }
        }
    }
}
