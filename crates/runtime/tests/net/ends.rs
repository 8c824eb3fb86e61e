//! The end of a socket's input, orderly or not, is noticed whenever it comes: with the last bytes, behind bytes that
//! nobody took yet, while nobody waits, while a receive is being stopped or started. A peer here writes and leaves
//! between two polls of the driver, so that the kernel tells of both in one go, on every run.

use crate::harness::*;
use std::cell::Cell;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::task::Poll;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver::DriverOptions;
use thalweg_runtime::net::{Departure, Stream, Transfer, TransferMode};
use thalweg_runtime::{clock, timer};

/// How long an end may take to be noticed on the busiest machine. Only a test that fails waits for it.
const PATIENCE_MS: u64 = 20_000;

/// For so long it is seen that a task is left alone.
const QUIET_MS: u64 = 20;

/// A peer outside of the runtime.
enum Peer {
    Tcp(std::net::TcpStream),
    Unix(UnixStream),
}

/// How a peer leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leave {
    Close,
    Reset,
}

impl Peer {
    fn write(&mut self, bytes: &[u8]) {
        match self {
            Peer::Tcp(s) => s.write_all(bytes).unwrap(),
            Peer::Unix(s) => s.write_all(bytes).unwrap(),
        }
    }

    fn leave(self, how: Leave) {
        match (self, how) {
            (Peer::Tcp(s), Leave::Reset) => {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                // SAFETY: the pointer and the length describe `linger`.
                let r = unsafe {
                    libc::setsockopt(
                        s.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        (&raw const linger).cast(),
                        size_of_val(&linger) as u32,
                    )
                };
                assert_eq!(r, 0);
            }
            // Closed with something unread, a unix socket resets its peer.
            (Peer::Unix(s), Leave::Reset) => drop(s),
            _ => {}
        }
    }
}

/// A stream of the runtime and its peer. `accepted` says which side of TCP the runtime has.
async fn pair(unix: bool, accepted: bool) -> (Stream, Peer) {
    if unix {
        let (a, b) = UnixStream::pair().unwrap();
        return (Stream::from_fd(OwnedFd::from(a)).unwrap(), Peer::Unix(b));
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    if accepted {
        let peer = std::net::TcpStream::connect(address).unwrap();
        return (Stream::from_fd(listener.accept().unwrap().0.into()).unwrap(), Peer::Tcp(peer));
    }
    let stream = Stream::connect(&address.into(), &Default::default()).await.unwrap();
    (stream, Peer::Tcp(listener.accept().unwrap().0))
}

/// What a stream yields up to its end: the bytes, and whether an error ended it.
async fn to_the_end(stream: &mut Stream, what: &str) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let deadline = Some(timer::deadline_in(PATIENCE_MS));
    loop {
        match timer::timeout_at(deadline, stream.recv(1 << 20)).await {
            Err(_) => panic!("{what}: the end was never noticed after {} bytes", all.len()),
            Ok(Err(_)) => return (all, true),
            Ok(Ok(part)) if part.is_empty() => return (all, false),
            Ok(Ok(part)) => all.extend_from_slice(&part),
        }
    }
}

/// Waits until `stream` says that there is input.
async fn input(stream: &mut Stream, what: &str) {
    let deadline = Some(timer::deadline_in(PATIENCE_MS));
    let ready = std::future::poll_fn(|_| stream.poll_readable());
    assert!(timer::timeout_at(deadline, ready).await.is_ok(), "{what}: nothing was noticed");
}

/// Every kind of socket, side and way to leave, after a number of exchanges that went well, with a number of last bytes.
async fn every_end() {
    for unix in [false, true] {
        for accepted in [true, false] {
            for leave in [Leave::Close, Leave::Reset] {
                for exchanges in 0..4 {
                    for last in [0, 1, 16, 4096, 5000, 100_000] {
                        let what = format!(
                            "unix {unix}, accepted {accepted}, {leave:?} with {last} bytes after {exchanges} exchanges"
                        );
                        one_end(unix, accepted, leave, exchanges, last, &what).await;
                    }
                }
            }
        }
    }
}

async fn one_end(unix: bool, accepted: bool, leave: Leave, exchanges: usize, last: usize, what: &str) {
    let (mut stream, mut peer) = pair(unix, accepted).await;
    for _ in 0..exchanges {
        assert!(matches!(stream.poll_recv(100), Poll::Pending), "{what}");
        settle().await;
        peer.write(b"hello");
        assert_eq!(read_exactly(&mut stream, 5).await, b"hello", "{what}");
    }
    assert!(matches!(stream.poll_recv(100), Poll::Pending), "{what}");
    settle().await;
    if unix && leave == Leave::Reset {
        stream.start_send(Buf::copy_of(b"nobody reads this"));
        stream.send_ready().await.unwrap();
    }
    peer.write(&vec![7; last]);
    peer.leave(leave);
    let (bytes, failed) = to_the_end(&mut stream, what).await;
    assert_eq!(failed, leave == Leave::Reset, "{what}");
    assert!(bytes.iter().all(|b| *b == 7), "{what}");
    // A reset may destroy what was not read on TCP, and only then.
    assert!(bytes.len() == last || (failed && bytes.len() < last), "{what}: {} bytes", bytes.len());
}

each_driver!(the_end_that_comes_with_the_last_bytes_is_noticed, every_end);

each_driver!(the_end_of_an_idle_connection_is_noticed, || async {
    for unix in [false, true] {
        for leave in [Leave::Close, Leave::Reset] {
            for stray in [0, 3] {
                let what = format!("unix {unix}, {leave:?}, {stray} stray bytes");
                let (mut stream, mut peer) = pair(unix, true).await;
                for _ in 0..3 {
                    stream.watch(thalweg_runtime::current_task());
                    peer.write(b"answer");
                    assert_eq!(read_exactly(&mut stream, 6).await, b"answer");
                }
                assert!(!stream.has_input_now(), "{what}");
                stream.watch(thalweg_runtime::current_task());
                settle().await;
                peer.write(&vec![1; stray]);
                peer.leave(leave);
                let deadline = Some(timer::deadline_in(PATIENCE_MS));
                while !stream.has_input_now() {
                    // The watching task is woken; it does not have to ask by itself.
                    let woken = timer::timeout_at(deadline, wake_up()).await;
                    assert!(woken.is_ok(), "{what}: nobody was told");
                }
                // Stray bytes do not hide the end behind them.
                let (bytes, failed) = to_the_end(&mut stream, &what).await;
                assert!(bytes.len() <= stray);
                assert_eq!(failed, leave == Leave::Reset && !unix, "{what}");
            }
        }
    }
});

/// Ready when the current task is woken by something else than this.
async fn wake_up() {
    let mut asked = false;
    std::future::poll_fn(
        |_| if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending },
    )
    .await;
}

each_driver!(an_end_behind_bytes_that_nobody_takes_is_noticed_when_they_are_taken, || async {
    for unix in [false, true] {
        for size in [100, 40_000, 150_000] {
            let what = format!("unix {unix}, {size} bytes");
            let (mut stream, mut peer) = pair(unix, true).await;
            peer.write(b"x");
            input(&mut stream, &what).await;
            // More than runs ahead, so that the receive stops by itself or is stopped.
            peer.write(&vec![2; size]);
            for _ in 0..10 {
                settle().await;
            }
            peer.write(b"y");
            peer.leave(Leave::Close);
            let (bytes, failed) = to_the_end(&mut stream, &what).await;
            assert_eq!((bytes.len(), failed), (size + 2, false), "{what}");
        }
    }
});

each_driver!(a_reset_behind_bytes_that_nobody_takes_is_noticed, || async {
    for size in [1, 100, 40_000] {
        let what = format!("{size} bytes");
        let (mut stream, mut peer) = pair(false, true).await;
        for _ in 0..2 {
            peer.write(b"x");
            assert_eq!(read_exactly(&mut stream, 1).await, b"x");
            assert!(matches!(stream.poll_readable(), Poll::Pending));
            settle().await;
        }
        peer.write(&vec![2; size]);
        input(&mut stream, &what).await;
        peer.write(b"y");
        peer.leave(Leave::Reset);
        let (bytes, failed) = to_the_end(&mut stream, &what).await;
        assert!(bytes.len() <= size + 1 && failed, "{what}");
    }
});

/// Moves everything by a transfer in the middle of a stream's life, and receives as usual around it.
async fn transfers(mode: TransferMode) {
    for unix in [false, true] {
        for leave in [Leave::Close, Leave::Reset] {
            for during in [false, true] {
                let what = format!("unix {unix}, {leave:?}, during the transfer: {during}, {mode:?}");
                let (mut rx, mut peer) = pair(unix, true).await;
                let (mut tx, other) = pair(false, true).await;
                peer.write(b"a");
                assert_eq!(read_exactly(&mut rx, 1).await, b"a");
                assert!(matches!(rx.poll_recv(1), Poll::Pending));
                settle().await;
                let mut transfer = Transfer::new(mode);
                peer.write(b"moved");
                let n = std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, 5)).await.unwrap();
                assert_eq!(n, 5, "{what}");
                if during {
                    let moved = Rc::new(Cell::new(0));
                    let count = moved.clone();
                    let (done, finished) = (Rc::new(Cell::new(false)), what.clone());
                    let flag = done.clone();
                    spawn(async move {
                        let deadline = Some(timer::deadline_in(PATIENCE_MS));
                        loop {
                            let poll = std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, 1 << 30));
                            match timer::timeout_at(deadline, poll).await {
                                Err(_) => panic!("{finished}: the end was never noticed"),
                                Ok(Ok(0) | Err(_)) => break,
                                Ok(Ok(n)) => count.set(count.get() + n),
                            }
                        }
                        flag.set(true);
                    });
                    settle().await;
                    peer.write(&[3; 1000]);
                    peer.leave(leave);
                    wait_until(|| done.get()).await;
                    assert!(moved.get() <= 1000);
                } else {
                    assert!(matches!(rx.poll_recv(100), Poll::Pending), "{what}");
                    settle().await;
                    peer.write(b"again");
                    assert_eq!(read_exactly(&mut rx, 5).await, b"again");
                    assert!(matches!(rx.poll_recv(100), Poll::Pending), "{what}");
                    settle().await;
                    peer.write(b"last");
                    peer.leave(leave);
                    let (bytes, failed) = to_the_end(&mut rx, &what).await;
                    assert!(b"last".starts_with(&bytes[..]), "{what}");
                    assert_eq!(failed, leave == Leave::Reset && !unix, "{what}");
                }
                drop(other);
            }
        }
    }
}

each_driver!(the_end_is_noticed_around_and_in_a_copying_transfer, || transfers(TransferMode::Copy));
each_driver!(the_end_is_noticed_around_and_in_a_splicing_transfer, || transfers(TransferMode::Splice));

#[test]
fn ends_are_noticed_by_receives_that_find_no_block() {
    let opts = DriverOptions { ring_blocks: 16, ring_block_size: 256, ..DriverOptions::default() };
    if !has_uring() {
        return;
    }
    run_with("io_uring", &opts, || async {
        let mut streams = Vec::new();
        for i in 0..60 {
            let (mut stream, mut peer) = pair(i % 2 == 0, true).await;
            peer.write(b"x");
            assert_eq!(read_exactly(&mut stream, 1).await, b"x");
            assert!(matches!(stream.poll_recv(1), Poll::Pending));
            streams.push((stream, peer, i));
        }
        settle().await;
        let mut waiting = Vec::new();
        for (stream, mut peer, i) in streams {
            peer.write(&[5; 3000]);
            peer.leave(if i % 4 < 2 { Leave::Close } else { Leave::Reset });
            waiting.push((stream, i));
        }
        assert!(thalweg_runtime::driver::with(|d| d.stats().sockets) >= 60);
        for (mut stream, i) in waiting {
            let (bytes, _) = to_the_end(&mut stream, &format!("connection {i}")).await;
            assert!(bytes.len() <= 3000);
        }
        assert!(thalweg_runtime::driver::with(|d| d.stats().ring_exhausted) > 0);
    });
}

each_driver!(a_stream_is_given_away_with_all_that_watches_it_for_its_end, || async {
    for unix in [false, true] {
        let (mut stream, mut peer) = pair(unix, true).await;
        for _ in 0..3 {
            peer.write(b"x");
            assert_eq!(read_exactly(&mut stream, 1).await, b"x");
            assert!(matches!(stream.poll_recv(1), Poll::Pending));
            settle().await;
        }
        let deadline = Some(timer::deadline_in(PATIENCE_MS));
        let detached = timer::timeout_at(deadline, std::future::poll_fn(|_| stream.poll_detach())).await;
        assert!(detached.is_ok(), "nothing lets go of it");
        let (fd, ahead) = stream.into_fd().unwrap();
        assert!(ahead.is_empty());
        let mut stream = Stream::from_fd(fd).unwrap();
        peer.write(b"last");
        peer.leave(Leave::Close);
        assert_eq!(to_the_end(&mut stream, "given away").await, (b"last".to_vec(), false));
    }
});

each_driver!(a_reset_behind_the_end_of_a_direction_is_told, || async {
    for unread in [0, 1, 100_000] {
        let what = format!("{unread} unread bytes");
        let (mut stream, mut peer) = pair(false, true).await;
        peer.write(b"hello");
        assert_eq!(read_exactly(&mut stream, 5).await, b"hello", "{what}");
        peer.write(&vec![3; unread]);
        let Peer::Tcp(tcp) = &peer else { unreachable!() };
        tcp.shutdown(std::net::Shutdown::Write).unwrap();
        let deadline = Some(timer::deadline_in(PATIENCE_MS));
        while stream.departure() == Departure::No {
            assert!(timer::timeout_at(deadline, wake_up()).await.is_ok(), "{what}: the end was not told");
        }
        assert_eq!(stream.departure(), Departure::Ended, "{what}");
        // Nobody is woken time and again for an end that is known.
        let quiet = Some(timer::deadline_in(QUIET_MS));
        let mut rounds = 0;
        while timer::timeout_at(quiet, wake_up()).await.is_ok() {
            assert_eq!(stream.departure(), Departure::Ended, "{what}");
            rounds += 1;
        }
        assert!(rounds < 10, "{what}: woken {rounds} times");
        peer.leave(Leave::Reset);
        // Whoever waits is woken: nobody has to ask, or to send something first.
        let asked_until_ms = clock::now_ms() + PATIENCE_MS;
        let _ = timer::timeout_at(Some(timer::deadline_in(PATIENCE_MS)), wake_up()).await;
        assert!(clock::now_ms() < asked_until_ms, "{what}: the reset was not told");
        assert_eq!(stream.departure(), Departure::Reset, "{what}");
    }
});
