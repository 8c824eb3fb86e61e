//! Connections that end with a reset have one socket in turn, and each ends as it would with one of its own.

use crate::harness::*;
use std::collections::HashSet;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};

/// A health check's: nothing is said, and it ends with a reset.
fn silent() -> ConnectOptions {
    ConnectOptions { silent: true, reset_on_close: true, ..ConnectOptions::default() }
}

/// What tells one socket of this process from another.
fn inode(stream: &Stream) -> u64 {
    // SAFETY: all zeroes is a valid value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    assert_eq!(unsafe { libc::fstat(stream.as_raw_fd(), &raw mut stat) }, 0);
    stat.st_ino
}

/// A listener, its address, and that by which it is not known to be of this machine.
fn listener() -> (TcpListener, SockAddr, SockAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let anywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
    (listener, address.into(), anywhere.into())
}

each_driver!(one_socket_has_many_connections_in_turn, || async {
    let (listener, here, there) = listener();
    for address in [here, there] {
        let mut seen = HashSet::new();
        for turn in 0..5 {
            let stream = Stream::connect(&address, &silent()).await.unwrap();
            seen.insert(inode(&stream));
            let (mut peer, from) = listener.accept().unwrap();
            assert_eq!(stream.local_addr().unwrap(), SockAddr::from(from), "{address} {turn}");
            assert!(stream.peer_addr().is_ok(), "{address} {turn}");
            drop(stream);
            go_round().await;
            assert_eq!(
                peer.read(&mut [0]).unwrap_err().kind(),
                ErrorKind::ConnectionReset,
                "{address} {turn}"
            );
        }
        assert_eq!(seen.len(), 1, "{address}");
    }
});

// The kernel forgets with a connection that its handshake is not acknowledged at once.
each_driver!(each_handshake_is_acknowledged_as_was_asked_for, || async {
    let (listener, address, _) = listener();
    listener.set_nonblocking(true).unwrap();
    let mut seen = HashSet::new();
    for turn in 0..3 {
        // What is not acknowledged for 40 ms is not there for its listener yet: once in a while even a busy machine asks in time.
        let is_waited_for = (0..50).any(|_| {
            let opts = ConnectOptions { no_quick_ack: true, ..silent() };
            let mut connecting = pin!(Stream::connect(&address, &opts));
            let Poll::Ready(Ok(stream)) = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            else {
                panic!("to this machine a connection is made within the call");
            };
            seen.insert(inode(&stream));
            listener.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
        });
        assert!(is_waited_for, "{turn}");
    }
    assert_eq!(seen.len(), 1);
});

each_driver!(a_refused_connection_spoils_no_socket, || async {
    let (listener, address, _) = listener();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = SockAddr::from(closed.local_addr().unwrap());
    drop(closed);
    for _ in 0..3 {
        let error = Stream::connect(&refused, &silent()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        drop(Stream::connect(&address, &silent()).await.unwrap());
        go_round().await;
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
});

each_driver!(other_options_have_other_sockets, || async {
    let (listener, address, _) = listener();
    let marked = ConnectOptions { tos: Some(0x20), ..silent() };
    let kept = Stream::connect(&address, &silent()).await.unwrap();
    // While a socket of one kind is in use, one of another kind is closed as others are.
    for _ in 0..2 {
        let stream = Stream::connect(&address, &marked).await.unwrap();
        assert_eq!(int_option(stream.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS), 0x20);
    }
    let first = inode(&kept);
    drop(kept);
    go_round().await;
    let stream = Stream::connect(&address, &silent()).await.unwrap();
    assert_eq!(inode(&stream), first);
    assert_eq!(int_option(stream.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS), 0);
    drop(stream);
    go_round().await;
    // The other kind's turn.
    let stream = Stream::connect(&address, &marked).await.unwrap();
    assert_eq!(int_option(stream.as_raw_fd(), libc::IPPROTO_IP, libc::IP_TOS), 0x20);
    let of_marked = inode(&stream);
    drop(stream);
    go_round().await;
    assert_eq!(inode(&Stream::connect(&address, &marked).await.unwrap()), of_marked);
    drop(listener);
});

each_driver!(who_says_something_finds_nothing_of_who_came_before, || async {
    let is_epoll = thalweg_runtime::driver::with(|d| d.kind_name()) == "epoll";
    let (listener, address, _) = listener();
    let talking = ConnectOptions { silent: false, no_quick_ack: true, ..silent() };
    let mut seen = HashSet::new();
    // Those on which nothing is said have others.
    let kept = Stream::connect(&address, &silent()).await.unwrap();
    drop(listener.accept().unwrap());
    for turn in 0..5u8 {
        let mut stream = Stream::connect(&address, &talking).await.unwrap();
        seen.insert(inode(&stream));
        assert_ne!(inode(&stream), inode(&kept));
        let (mut peer, _) = listener.accept().unwrap();
        // The second send sets an option.
        for _ in 0..2 {
            stream.send_ready().await.unwrap();
            stream.start_send(Buf::copy_of(&[turn; 5]));
            go_round().await;
            let mut read = [0; 5];
            peer.read_exact(&mut read).unwrap();
            assert_eq!(read, [turn; 5]);
        }
        peer.write_all(&[turn; 2000]).unwrap();
        assert!(stream.recv(10).await.unwrap().iter().all(|byte| *byte == turn), "{turn}");
        // The rest is not read.
        peer.write_all(b"unread").unwrap();
        drop(stream);
        go_round().await;
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{turn}");
    }
    // With io_uring a receive is on its way. One that nobody needed for a while is closed, also on a busy machine.
    assert!(!is_epoll || seen.len() < 5, "{seen:?}");
});

each_driver!(who_was_changed_or_ends_in_order_has_a_socket_of_its_own, || async {
    let (listener, address, _) = listener();
    for change in [
        (|stream| stream.set_tos(0x20).unwrap()) as fn(&mut Stream),
        |stream| stream.set_reset_on_close(false),
        |stream| stream.set_nodelay(false).unwrap(),
    ] {
        let mut stream = Stream::connect(&address, &silent()).await.unwrap();
        change(&mut stream);
        let changed = inode(&stream);
        // Kept as it is, so that its inode does not come again by chance.
        let _held = stream.as_fd().try_clone_to_owned().unwrap();
        drop(stream);
        go_round().await;
        let next = Stream::connect(&address, &silent()).await.unwrap();
        assert_ne!(inode(&next), changed);
    }
    drop(listener);
});

each_driver!(who_has_a_source_or_ends_in_order_has_a_socket_of_its_own, || async {
    let (_listener, address, _) = listener();
    let others = [
        ConnectOptions { reset_on_close: false, ..silent() },
        ConnectOptions { source: Some("127.0.0.1:0".parse::<SocketAddr>().unwrap().into()), ..silent() },
    ];
    for opts in others {
        // Kept as they are, so that neither number nor inode comes again by chance.
        let mut seen = HashSet::new();
        let mut held = Vec::new();
        for _ in 0..3 {
            let stream = Stream::connect(&address, &opts).await.unwrap();
            seen.insert(inode(&stream));
            held.push(stream.as_fd().try_clone_to_owned().unwrap());
        }
        assert_eq!(seen.len(), 3, "{opts:?}");
    }
});

each_driver!(many_at_once_are_kept_up_to_a_bound, || async {
    let (listener, address, _) = listener();
    let (mut streams, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        streams.push(Stream::connect(&address, &silent()).await.unwrap());
        peers.push(listener.accept().unwrap().0);
    }
    let used: HashSet<_> = streams.iter().map(inode).collect();
    drop(streams);
    go_round().await;
    for peer in &mut peers {
        assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    let mut again = Vec::new();
    for _ in 0..40 {
        again.push(Stream::connect(&address, &silent()).await.unwrap());
    }
    let kept = again.iter().filter(|stream| used.contains(&inode(stream))).count();
    assert_eq!(kept, 16);
});

each_driver!(a_socket_that_is_taken_elsewhere_does_not_come_back, || async {
    let (listener, address, _) = listener();
    let taken = Stream::connect(&address, &silent()).await.unwrap();
    let (taken, _) = taken.into_fd().unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let stream = Stream::connect(&address, &silent()).await.unwrap();
    assert_ne!(stream.as_raw_fd(), taken.as_raw_fd());
    drop(stream);
    go_round().await;
    peer.set_nonblocking(true).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
});
