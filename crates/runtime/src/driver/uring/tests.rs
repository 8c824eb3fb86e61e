//! Answers of kernels other than the one that runs the tests.

use super::super::DriverOptions;
use super::*;
use std::cell::Cell;
use std::os::fd::AsRawFd;

thread_local!(static OLD: Cell<bool> = const { Cell::new(false) });

/// Makes the kernel answer as one before 6.17: what it must find empty is not.
pub(super) fn play_old_kernel(entry: &mut squeue::Entry) {
    if OLD.get() {
        // SAFETY: the entry is a transparent `io_uring_sqe`, whose `addr2` field lies at offset 8; receives refuse it.
        unsafe { (&raw mut *entry).cast::<u64>().add(1).write(1) };
    }
}

fn play(old: bool) {
    OLD.set(old);
}

/// A driver of this thread, or `None` where io_uring is not allowed.
fn uring() -> Option<Uring> {
    // The wake-up descriptor is never polled here.
    Uring::new(&DriverOptions::default(), -1).ok()
}

fn pair() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    std::os::unix::net::UnixStream::pair().unwrap()
}

#[test]
fn an_older_kernel_is_recognised_at_the_start() {
    play(true);
    let Some(uring) = uring() else { return };
    assert!(!uring.limits_receives);
    drop(uring);
    ring::uninstall();
    play(false);
    let mut newer = self::uring().unwrap();
    // Whatever this kernel says, it says it at once and leaves nothing behind.
    assert!(newer.ring.completion().is_empty());
    ring::uninstall();
}

#[test]
fn a_refused_limit_breaks_no_receive() {
    play(false);
    let Some(mut uring) = uring() else { return };
    uring.wake_armed = true;
    // A kernel that seemed to know the limit refuses it for every receive of a round.
    uring.limits_receives = true;
    play(true);
    let mut table = SocketTable::new();
    let pairs: Vec<_> = (0..5).map(|_| pair()).collect();
    let sockets: Vec<_> =
        pairs.iter().map(|(ours, _)| table.insert(ours.as_raw_fd(), Bits::SEASONED)).collect();
    // SAFETY: the test owns the records, and no other reference to one lives at the same time.
    let record = |socket: SocketRef| unsafe { &mut *socket.as_ptr() };
    for socket in &sockets {
        uring.arm_input(record(*socket));
    }
    uring.poll(Wait::Now, &mut table).unwrap();
    assert!(!uring.limits_receives);
    for (socket, (_, theirs)) in sockets.iter().zip(&pairs) {
        let s = record(*socket);
        assert!(!s.has_verdict(), "error {:?}", s.rx_error);
        assert_eq!(s.ops, 0);
        // Whoever waits was woken and asks again.
        uring.arm_input(s);
        std::io::Write::write_all(&mut &*theirs, b"hello").unwrap();
    }
    let late = crate::clock::precise_ns() + 10_000_000_000;
    uring.poll(Wait::Until(late), &mut table).unwrap();
    for socket in &sockets {
        let s = record(*socket);
        assert_eq!(s.rx.as_deref(), Some(&b"hello"[..]));
        s.clear_rx();
    }
    drop(pairs);
    uring.finish(&mut table);
    sockets.into_iter().for_each(|socket| table.remove(socket));
    play(false);
}

#[test]
fn a_receive_that_finds_no_block_while_it_is_stopped_tells_whoever_stops_it() {
    let Some(mut uring) = uring() else { return };
    let mut table = SocketTable::new();
    let (ours, _theirs) = pair();
    let socket = table.insert(ours.as_raw_fd(), Bits::SEASONED);
    // SAFETY: the test owns the record.
    let s = unsafe { &mut *socket.as_ptr() };
    s.ops = Op::Recv.bit();
    assert!(!uring.quiesce(s));
    // The cancellation met a receive that had just ended for want of a block.
    s.ops = 0;
    uring.received(s, -libc::ENOBUFS, 0);
    assert!(!s.bits.has(Bits::STARVED) && uring.starved.is_empty());
    assert!(uring.quiesce(s));
    // And one that starves leaves the list when its stream is released.
    s.ops = 0;
    uring.received(s, -libc::ENOBUFS, 0);
    assert!(s.bits.has(Bits::STARVED));
    uring.unregister(s);
    assert!(!s.bits.has(Bits::STARVED) && uring.starved.is_empty());
    table.remove(socket);
    uring.finish(&mut table);
}
