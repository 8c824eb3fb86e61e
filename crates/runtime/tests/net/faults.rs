//! Resets, cancellation, exhaustion, and that nothing leaks.

use crate::harness::*;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use thalweg_runtime::buffer::{self, Buf};
use thalweg_runtime::driver::{self, DriverOptions, Wait};
use thalweg_runtime::net::{ConnectOptions, Listener, Stream, Transfer, TransferMode};

every_driver!(a_reset_comes_after_the_data_before_it, || async {
    let (mut a, mut b) = tcp_pair().await;
    a.start_send(Buf::copy_of(b"data"));
    assert_eq!(read_exactly(&mut b, 4).await, b"data");
    a.set_linger_rst();
    drop(a);
    let error = b.recv(10).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET));
    // It is told once; then the stream is at its end.
    assert!(b.recv(10).await.unwrap().is_empty());
});

every_driver!(sending_to_a_peer_that_is_gone_fails_and_gives_the_buffers_back, || async {
    let (mut a, b) = tcp_pair().await;
    drop(b);
    let mut error = None;
    for _ in 0..1000 {
        match a.send_ready().await {
            Ok(()) => a.start_send2(Buf::copy_of(&[1; 1000]), Buf::copy_of(&[2; 1000])),
            Err(e) => {
                error = e.raw_os_error();
                break;
            }
        }
        settle().await;
    }
    assert!(matches!(error, Some(libc::EPIPE | libc::ECONNRESET)), "{error:?}");
    assert_eq!((a.in_flight(), buffer::stats().heap_count), (0, 0));
});

every_driver!(streams_dropped_with_everything_in_flight_leave_nothing, || async {
    for _ in 0..50 {
        let (mut a, mut b) = tcp_pair().await;
        // Receives wait on both ends, and one end sends more than fits.
        assert!(matches!(a.poll_recv(100), Poll::Pending));
        assert!(matches!(b.poll_recv(100), Poll::Pending));
        a.start_send2(Buf::large(0), Buf::empty());
        let mut big = Buf::large(16 << 20);
        big.commit(16 << 20);
        a.start_send(big);
        settle().await;
        drop(a);
        drop(b);
    }
    settle().await;
});

every_driver!(dropping_at_once_is_fine_too, || async {
    let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    for _ in 0..50 {
        // A connection attempt that nobody awaits.
        drop(Stream::connect(&address, &ConnectOptions::default()));
        let (fd, _) = {
            let _keep = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
            listener.accept().await.unwrap()
        };
        let mut s = Stream::from_accepted(fd).unwrap();
        let _ = s.poll_recv(10);
        s.start_send(Buf::copy_of(b"x"));
        drop(s);
    }
    drop(listener);
});

each_driver!(a_thousand_connections_come_and_go_without_leaking, || async {
    let before = open_descriptors();
    for _ in 0..10 {
        let mut pairs = Vec::new();
        for _ in 0..100 {
            pairs.push(tcp_pair().await);
        }
        for (a, b) in &mut pairs {
            a.start_send(Buf::copy_of(b"hello"));
            assert_eq!(read_exactly(b, 5).await, b"hello");
        }
    }
    // Closes may still be queued; other tests of this process open descriptors, so wait for a low moment.
    wait_until(|| open_descriptors() < before + 100).await;
});

/// A connection that sends, receives, ends, breaks or vanishes at random. What arrives must be its own bytes, in order.
async fn random_life(mut a: Stream, mut b: Stream, salt: usize, rng: Rc<Cell<u64>>) {
    let random = |n: u64| {
        let next = rng.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rng.set(next);
        (next >> 33) % n
    };
    let (mut sent, mut got) = (salt, salt);
    for _ in 0..random(40) {
        match random(10) {
            0..=3 => {
                if !matches!(a.poll_send_ready(), Poll::Ready(Ok(()))) {
                    settle().await;
                    continue;
                }
                let n = 1 + random(if random(5) == 0 { 2_000_000 } else { 3_000 }) as usize;
                let mut first = Buf::large(n);
                fill_pattern(first.unused_mut(), sent);
                first.commit(n);
                let second = first.split_to(random(n as u64) as usize);
                a.start_send2(second, first);
                sent += n;
            }
            4..=7 => match b.poll_recv(1 + random(100_000) as usize) {
                Poll::Ready(Ok(part)) => {
                    assert!(is_pattern(&part, got), "connection {salt} got bytes of another");
                    got += part.len();
                }
                Poll::Ready(Err(_)) => return,
                Poll::Pending => settle().await,
            },
            8 => match random(6) {
                0 => _ = a.shutdown_write(),
                1 => a.set_linger_rst(),
                2 => return,
                3 => _ = b.poll_readable(),
                _ => _ = b.has_input_now(),
            },
            _ => settle().await,
        }
    }
}

every_driver!(random_lives_never_mix_bytes_and_leave_nothing, || async {
    let rng = Rc::new(Cell::new(42));
    let left = Rc::new(Cell::new(0));
    let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    for round in 0..30 {
        for i in 0..10 {
            let a = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
            let b = Stream::from_accepted(listener.accept().await.unwrap().0).unwrap();
            let (rng, left) = (rng.clone(), left.clone());
            left.set(left.get() + 1);
            spawn(async move {
                random_life(a, b, (round * 10 + i) * 1_000_003, rng).await;
                left.set(left.get() - 1);
            });
        }
        for _ in 0..3 {
            settle().await;
        }
    }
    wait_until(|| left.get() == 0).await;
});

/// Floods many connections while only blocks for a few are posted.
async fn flood() {
    let mut pairs = Vec::new();
    for _ in 0..40 {
        pairs.push(tcp_pair().await);
    }
    for (a, b) in &mut pairs {
        assert!(matches!(b.poll_recv(1), Poll::Pending));
        let mut buf = Buf::large(300_000);
        fill_pattern(buf.unused_mut(), 0);
        buf.commit(300_000);
        a.start_send(buf);
    }
    // Nobody takes anything for a while: what runs ahead is bounded.
    for _ in 0..20 {
        settle().await;
    }
    let stats = buffer::stats();
    assert!(stats.ring_total <= 4096, "{stats:?}");
    for (_, b) in &mut pairs {
        assert!(is_pattern(&read_exactly(b, 300_000).await, 0));
    }
}

#[test]
fn a_ring_that_runs_out_of_blocks_recovers() {
    let opts = DriverOptions { ring_blocks: 16, ring_block_size: 1024, ..DriverOptions::default() };
    if has_uring() {
        run_with("io_uring", &opts, || async {
            flood().await;
            assert!(driver::with(|d| d.stats().ring_exhausted) > 0);
        });
    }
    run_with("epoll", &opts, flood);
}

#[test]
fn a_submission_queue_that_is_too_small_still_works() {
    let opts = DriverOptions { submission_entries: 4, completion_entries: 8, ..DriverOptions::default() };
    if has_uring() {
        run_with("io_uring", &opts, flood);
    }
}

#[test]
fn slow_readers_do_not_starve_the_ring() {
    // Received buffers are held, as parsers of unfinished heads would; others must still get through.
    let opts = DriverOptions { ring_block_size: 256, receive_ahead: 1 << 20, ..DriverOptions::default() };
    if !has_uring() {
        return;
    }
    run_with("io_uring", &opts, || async {
        let mut held = Vec::new();
        let mut pairs = Vec::new();
        for _ in 0..8 {
            let (mut a, mut b) = tcp_pair().await;
            for _ in 0..20 {
                a.send_ready().await.unwrap();
                let mut part = Buf::large(64_000);
                part.commit(64_000);
                a.start_send(part);
                let mut got = 0;
                while got < 64_000 {
                    let part = b.recv(1 << 20).await.unwrap();
                    got += part.len();
                    held.push(part);
                }
            }
            pairs.push((a, b));
        }
        assert!(buffer::stats().ring_used <= 4096);
        let (mut a, mut b) = tcp_pair().await;
        a.start_send(Buf::copy_of(b"through"));
        assert_eq!(read_exactly(&mut b, 7).await, b"through");
    });
}

each_driver!(another_thread_ends_the_wait, || async {
    let waker = driver::with(|d| d.remote_waker());
    for _ in 0..3 {
        let waker = waker.clone();
        let other = std::thread::spawn(move || waker.wake());
        driver::with(|d| d.poll(Wait::Forever)).unwrap();
        other.join().unwrap();
        // The wake-up may have been seen in part before; drain it.
        driver::with(|d| d.poll(Wait::Now)).unwrap();
        waker_is_quiet();
    }
});

#[test]
fn a_port_is_free_again_once_the_runtime_ended() {
    for kind in ["io_uring", "epoll"] {
        if kind == "io_uring" && !has_uring() {
            continue;
        }
        let address = run(kind, || async {
            let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
            let address = listener.local_addr().unwrap();
            // Waiting for connections is under way, and one is there.
            assert!(matches!(listener.poll_accept(), Poll::Pending));
            let mut client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
            client.set_linger_rst();
            let (fd, _) = listener.accept().await.unwrap();
            let mut server = Stream::from_accepted(fd).unwrap();
            assert!(matches!(server.poll_recv(1), Poll::Pending));
            // Left to the end of the runtime.
            HELD.set(3);
            spawn(async move {
                let _held = (listener, client, server);
                std::future::pending::<()>().await;
            });
            address.to_std().unwrap()
        });
        HELD.set(0);
        std::net::TcpListener::bind(address).unwrap_or_else(|e| panic!("{kind}: {e}"));
    }
}

fn waker_is_quiet() {
    let start = std::time::Instant::now();
    let until = thalweg_runtime::clock::precise_ns() + 3_000_000;
    driver::with(|d| d.poll(Wait::Until(until))).unwrap();
    assert!(start.elapsed() >= std::time::Duration::from_millis(3), "woken without a reason");
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Polls a future once, then panics when it would be polled again: a bug in the middle of whatever it waits for.
struct Bomb<F>(F, bool);

impl<F: Future<Output = ()> + Unpin> Future for Bomb<F> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        assert!(!self.1, "planted");
        self.1 = true;
        assert!(Pin::new(&mut self.0).poll(cx).is_pending());
        thalweg_runtime::current_task().wake(thalweg_runtime::Reason::OTHER);
        Poll::Pending
    }
}

fn large() -> Buf {
    let mut buf = Buf::large(8_000_000);
    buf.commit(8_000_000);
    buf
}

fn explode(future: impl Future<Output = ()> + 'static) {
    spawn(Bomb(Box::pin(future), false));
}

// What a task holds and has in flight when it panics: the harness sees that no record, buffer or block is left.
every_driver!(a_task_that_panics_leaves_nothing, || async {
    let mut peers = Vec::new();
    for round in 0..20 {
        let (mut a, b) = tcp_pair().await;
        let deadline = Some(thalweg_runtime::clock::now_ms() + 60_000);
        match round % 5 {
            // A receive and a timer.
            0 => {
                explode(async move { drop(thalweg_runtime::timer::timeout_at(deadline, a.recv(100)).await) })
            }
            // A send that the peer does not take.
            1 => explode(async move {
                a.start_send(large());
                a.send_ready().await.unwrap();
            }),
            // Both, and a buffer in hand.
            2 => explode(async move {
                let buffer = Buf::copy_of(b"held");
                a.start_send(large());
                a.recv(100).await.unwrap();
                drop(buffer);
            }),
            // A relay, half-way.
            3 => {
                let (mut c, d) = tcp_pair().await;
                peers.push(d);
                explode(async move {
                    let mut transfer = Transfer::new(TransferMode::Auto);
                    let moved = std::future::poll_fn(|_| transfer.poll(&mut a, &mut c, u64::MAX));
                    drop(moved.await);
                });
            }
            // A listener, and bytes that were received and not taken.
            _ => {
                let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
                let mut b = b;
                b.start_send(Buf::copy_of(b"not taken"));
                b.send_ready().await.unwrap();
                std::future::poll_fn(|_| a.poll_readable()).await.unwrap();
                explode(async move {
                    let _a = a;
                    drop(listener.accept().await);
                });
                continue;
            }
        }
        peers.push(b);
    }
    // They have all panicked when their peers see the end.
    for mut peer in peers {
        while let Ok(buf) = peer.recv(1 << 20).await {
            if buf.is_empty() {
                break;
            }
        }
    }
});
