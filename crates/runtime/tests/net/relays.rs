//! Moving bytes between two streams.

use crate::harness::*;
use std::cell::Cell;
use std::rc::Rc;
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::driver;
use thalweg_runtime::net::transfer::TransferError;
use thalweg_runtime::net::{Transfer, TransferMode};

/// Sends `total` patterned bytes through a relay to a reader that pauses now and then.
async fn relay(mode: TransferMode, total: usize, slow_reader: bool) {
    let (mut sender, mut rx) = tcp_pair().await;
    let (mut tx, mut reader) = tcp_pair().await;
    let received = Rc::new(Cell::new(0));
    spawn(async move {
        // Some of it arrives before the relay starts.
        let mut at = 0;
        while at < total {
            sender.send_ready().await.unwrap();
            let n = 100_000.min(total - at);
            let mut part = Buf::large(n);
            fill_pattern(part.unused_mut(), at);
            part.commit(n);
            sender.start_send(part);
            at += n;
        }
        sender.send_ready().await.unwrap();
        sender.shutdown_write().unwrap();
    });
    let count = received.clone();
    spawn(async move {
        loop {
            let part = reader.recv(50_000).await.unwrap();
            if part.is_empty() {
                break;
            }
            assert!(is_pattern(&part, count.get()), "wrong bytes near {}", count.get());
            count.set(count.get() + part.len());
            if slow_reader {
                settle().await;
            }
        }
        count.set(count.get() + 1_000_000_000);
    });
    // The usual receive has run ahead already.
    let first = rx.recv(1000).await.unwrap();
    let mut moved = first.len();
    tx.start_send(first);
    let mut transfer = Transfer::new(mode);
    // A limit first: exactly that many and no more.
    let mut limit = 70_000u64;
    while limit > 0 {
        let n = std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, limit)).await.unwrap();
        assert!(n > 0 && n <= limit);
        limit -= n;
        moved += n as usize;
    }
    assert_eq!(transfer.held(), 0);
    // The usual receive in between.
    let again = rx.recv(5000).await.unwrap();
    moved += again.len();
    tx.send_ready().await.unwrap();
    tx.start_send(again);
    loop {
        let n = std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, u64::MAX)).await.unwrap();
        if n == 0 {
            break;
        }
        moved += n as usize;
    }
    assert_eq!((moved, tx.sent_bytes()), (total, total as u64));
    // The simulator has no pipes.
    let has_pipes = driver::with(|d| d.kind_name()) != "sim";
    assert_eq!(transfer.spliced() > 0, has_pipes && mode != TransferMode::Copy);
    tx.shutdown_write().unwrap();
    wait_until(|| received.get() >= 1_000_000_000).await;
    assert_eq!(received.get() - 1_000_000_000, total);
}

every_driver!(copying_moves_every_byte_once, || async { relay(TransferMode::Copy, 9_999_999, false).await });
every_driver!(copying_waits_for_a_slow_reader, || async { relay(TransferMode::Copy, 5_000_001, true).await });
every_driver!(what_is_cheapest_moves_every_byte_once, || async {
    relay(TransferMode::Auto, 9_999_999, false).await
});
every_driver!(what_is_cheapest_waits_for_a_slow_reader, || async {
    relay(TransferMode::Auto, 5_000_001, true).await
});
each_driver!(splicing_moves_every_byte_once, || async {
    relay(TransferMode::Splice, 9_999_999, false).await
});
each_driver!(splicing_waits_for_a_slow_reader, || async {
    relay(TransferMode::Splice, 5_000_001, true).await
});

each_driver!(a_failure_names_its_side, || async {
    for mode in [TransferMode::Copy, TransferMode::Splice, TransferMode::Auto] {
        let (sender, mut rx) = tcp_pair().await;
        let (mut tx, _reader) = tcp_pair().await;
        let mut sender = sender;
        sender.set_linger_rst();
        drop(sender);
        let mut transfer = Transfer::new(mode);
        let error = std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, 100)).await.unwrap_err();
        assert!(matches!(error, TransferError::Receive(_)), "{error:?}");

        let (mut sender, mut rx) = tcp_pair().await;
        let (mut tx, mut reader) = tcp_pair().await;
        reader.set_linger_rst();
        drop(reader);
        sender.start_send(Buf::copy_of(&[7; 1000]));
        let mut transfer = Transfer::new(mode);
        let error = loop {
            match std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, 1000)).await {
                Ok(_) => {
                    sender.send_ready().await.unwrap();
                    sender.start_send(Buf::copy_of(&[7; 1000]));
                }
                Err(e) => break e,
            }
        };
        assert!(matches!(error, TransferError::Send(_)), "{error:?}");
    }
});

// Who is told of a failure may take a while to drop what failed: threads would have more and more pipes by that.
each_driver!(what_failed_holds_no_pipe, || async {
    let pipes = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = open.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
        links.filter(|link| link.to_string_lossy().starts_with("pipe:")).count()
    };
    let before = pipes();
    let mut failed = Vec::new();
    for _ in 0..100 {
        let (mut sender, mut rx) = tcp_pair().await;
        let (mut tx, reader) = tcp_pair().await;
        sender.set_linger_rst();
        drop(sender);
        let mut transfer = Transfer::new(TransferMode::Auto);
        std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, 100)).await.unwrap_err();
        failed.push((transfer, rx, tx, reader));
    }
    // Other tests have some.
    let now = pipes();
    assert!(now < before + 100, "{now} ends of pipes, {before} before");
});

// The rest of a body may be short, but what comes in small pieces is copied from then on.
each_driver!(small_pieces_are_not_worth_a_pipe, || async {
    let (mut sender, mut rx) = tcp_pair().await;
    let (mut tx, _reader) = tcp_pair().await;
    let mut transfer = Transfer::new(TransferMode::Auto);
    for (limit, stays) in [(2000, true), (100_000, false)] {
        sender.send_ready().await.unwrap();
        sender.start_send(Buf::copy_of(&[7; 2000]));
        let mut moved = 0;
        while moved < 2000 {
            moved += std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, limit - moved)).await.unwrap();
        }
        assert_eq!((transfer.is_splicing(), transfer.spliced()), (stays, transfer.taken()));
    }
});
