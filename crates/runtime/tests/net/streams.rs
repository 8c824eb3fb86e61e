//! Connecting, receiving, sending, ending.

use crate::harness::*;
use std::os::fd::AsRawFd;
use std::task::Poll;
use thalweg_runtime::buffer::{self, Buf, BufferConfig};
use thalweg_runtime::net::{
    ConnectOptions, Departure, Keepalive, ListenOptions, Listener, SockAddr, SocketId, Stream,
};
use thalweg_runtime::{clock, driver, timer};

every_driver!(bytes_arrive_in_both_directions_and_the_end_is_seen, || async {
    let (mut a, mut b) = tcp_pair().await;
    a.start_send(Buf::copy_of(b"ping"));
    assert_eq!(read_exactly(&mut b, 4).await, b"ping");
    b.start_send(Buf::copy_of(b"pong"));
    assert_eq!(read_exactly(&mut a, 4).await, b"pong");
    a.shutdown_write().unwrap();
    assert!(b.recv(100).await.unwrap().is_empty());
    // The end stays the end.
    assert!(b.recv(100).await.unwrap().is_empty());
    // The other direction is still open.
    b.start_send(Buf::copy_of(b"late"));
    assert_eq!(read_exactly(&mut a, 4).await, b"late");
    assert_eq!((a.sent_bytes(), b.sent_bytes()), (4, 8));
    drop(b);
    assert!(a.recv(1).await.unwrap().is_empty());
});

every_driver!(two_buffers_leave_in_order, || async {
    let (mut a, mut b) = tcp_pair().await;
    for _ in 0..50 {
        a.send_ready().await.unwrap();
        a.start_send2(Buf::copy_of(b"head"), Buf::copy_of(b"body"));
    }
    a.send_ready().await.unwrap();
    a.start_send2(Buf::copy_of(b"x"), Buf::empty());
    a.send_ready().await.unwrap();
    // Nothing to send is no send.
    a.start_send(Buf::empty());
    assert_eq!(a.in_flight(), 0);
    let expected: Vec<u8> = b"headbody".repeat(50).into_iter().chain(*b"x").collect();
    assert_eq!(read_exactly(&mut b, 401).await, expected);
});

every_driver!(parts_are_taken_as_far_as_there_is_room, || async {
    let (mut a, mut b) = tcp_pair().await;
    let mut sent = 0;
    // Parts of many lengths, an empty one among them, until there is no room.
    loop {
        let mut at = sent;
        let parts: Vec<Vec<u8>> = (0..40)
            .map(|n| {
                let mut part = vec![0; n * n * 31];
                fill_pattern(&mut part, at);
                at += part.len();
                part
            })
            .collect();
        let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        match a.send_at_once(&parts).unwrap() {
            0 => break,
            n => sent += n,
        }
    }
    // What comes behind waits for room.
    let mut rest = Buf::large(10_000);
    fill_pattern(rest.unused_mut(), sent);
    rest.commit(10_000);
    a.start_send(rest);
    assert_eq!(a.in_flight(), 10_000);
    assert!(is_pattern(&read_exactly(&mut b, sent + 10_000).await, 0));
    a.send_ready().await.unwrap();
    assert_eq!(a.sent_bytes(), sent as u64 + 10_000);
});

every_driver!(more_holds_back_and_everything_still_arrives, || async {
    let (mut a, mut b) = tcp_pair().await;
    a.set_more(true);
    a.start_send(Buf::copy_of(b"first "));
    a.send_ready().await.unwrap();
    a.set_more(false);
    a.start_send(Buf::copy_of(b"second"));
    assert_eq!(read_exactly(&mut b, 12).await, b"first second");
});

every_driver!(a_large_send_waits_for_a_slow_reader_and_keeps_its_bytes, || async {
    let (mut a, mut b) = tcp_pair().await;
    let total = 8 << 20;
    let mut big = Buf::large(total);
    fill_pattern(big.unused_mut(), 0);
    big.commit(total);
    a.start_send(big);
    assert!(a.in_flight() > 0 || a.sent_bytes() == total as u64);
    let mut got = 0;
    while got < total {
        let part = b.recv(10_000).await.unwrap();
        assert!(!part.is_empty() && part.len() <= 10_000);
        assert!(is_pattern(&part, got));
        got += part.len();
    }
    a.send_ready().await.unwrap();
    assert_eq!((a.in_flight(), a.sent_bytes()), (0, total as u64));
});

every_driver!(the_end_of_a_direction_comes_after_what_is_in_flight, || async {
    let (mut a, mut b) = tcp_pair().await;
    let total = 4 << 20;
    let mut big = Buf::large(total);
    fill_pattern(big.unused_mut(), 0);
    big.commit(total);
    a.start_send(big);
    a.shutdown_write().unwrap();
    let all = read_to_end(&mut b).await;
    assert!(all.len() == total && is_pattern(&all, 0));
});

every_driver!(what_was_sent_just_before_the_drop_arrives, || async {
    for _ in 0..20 {
        let (mut a, mut b) = tcp_pair().await;
        a.start_send(Buf::copy_of(b"last words"));
        drop(a);
        assert_eq!(read_to_end(&mut b).await, b"last words");
    }
});

every_driver!(small_takes_leave_the_rest, || async {
    let (mut a, mut b) = tcp_pair().await;
    a.start_send(Buf::copy_of(b"0123456789"));
    let mut all = Vec::new();
    while all.len() < 10 {
        let part = b.recv(3).await.unwrap();
        assert!(part.len() <= 3);
        all.extend_from_slice(&part);
    }
    assert_eq!(all, b"0123456789");
});

every_driver!(readiness_is_seen_without_taking_anything, || async {
    let (mut a, mut b) = tcp_pair().await;
    assert!(!b.has_input_now());
    a.start_send(Buf::copy_of(b"x"));
    std::future::poll_fn(|_| b.poll_readable()).await.unwrap();
    std::future::poll_fn(|_| b.poll_readable()).await.unwrap();
    assert!(b.has_input_now());
    assert_eq!(read_exactly(&mut b, 1).await, b"x");
    assert!(matches!(b.poll_readable(), Poll::Pending));
    drop(a);
    std::future::poll_fn(|_| b.poll_readable()).await.unwrap();
    assert!(b.has_input_now());
    assert!(b.recv(1).await.unwrap().is_empty());
});

every_driver!(an_idle_connection_tells_its_watcher, || async {
    let (mut a, mut b) = tcp_pair().await;
    b.watch(thalweg_runtime::current_task());
    assert!(!b.has_input_now());
    a.shutdown_write().unwrap();
    wait_until(|| b.has_input_now()).await;
    assert!(b.recv(1).await.unwrap().is_empty());
});

each_driver!(a_refused_connection_is_an_error, || async {
    // Nothing listens on port 1 (tcpmux), and the kernel gives it to nobody.
    let address: SockAddr = "127.0.0.1:1".parse::<std::net::SocketAddr>().unwrap().into();
    let error = Stream::connect(&address, &ConnectOptions::default()).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ECONNREFUSED));
    let missing = SockAddr::Unix(std::path::Path::new("/nonexistent/socket").into());
    let error = Stream::connect(&missing, &ConnectOptions::default()).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
});

/// Whether an attempt has ended when it is polled for the first time.
async fn ends_at_once(attempt: &mut (impl Future<Output = std::io::Result<Stream>> + Unpin)) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *attempt).poll(cx).is_ready())).await
}

each_driver!(a_connection_to_this_machine_costs_no_wait, || async {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SockAddr = listener.local_addr().unwrap().into();
    assert!(ends_at_once(&mut Stream::connect(&address, &ConnectOptions::default())).await);
});

each_driver!(of_connections_that_say_nothing_nothing_is_told, || async {
    if driver::with(|d| d.kind_name()) != "epoll" {
        // A ring tells of what it was asked, and that the listener is gone.
        return;
    }
    let told = || driver::with(|d| d.stats().events);
    let (mut a, mut b) = tcp_pair().await;
    let before = told();
    timer::sleep(20).await;
    assert_eq!(told() - before, 0);
    // Room to send is told of once there was none.
    a.start_send(Buf::copy_of(b"x"));
    assert_eq!(read_exactly(&mut b, 1).await, b"x");
    let before = told();
    timer::sleep(20).await;
    assert_eq!(told() - before, 0);
});

each_driver!(one_that_finds_the_queue_full_is_there_when_it_has_room, || async {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // A queue of none holds one.
    // SAFETY: takes no pointer.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().unwrap();
    let first = std::net::TcpStream::connect(address).unwrap();
    let address = address.into();
    let mut given_up = Stream::connect(&address, &ConnectOptions::default());
    assert!(!ends_at_once(&mut given_up).await);
    drop(given_up);
    let mut attempt = Stream::connect(&address, &ConnectOptions::default());
    assert!(!ends_at_once(&mut attempt).await);
    let (first_here, _) = listener.accept().unwrap();
    // The kernel tries again after a second.
    let mut a = attempt.await.unwrap();
    let mut b = Stream::from_fd(listener.accept().unwrap().0.into()).unwrap();
    a.start_send(Buf::copy_of(b"hello"));
    assert_eq!(read_exactly(&mut b, 5).await, b"hello");
    drop((first, first_here));
});

each_driver!(unix_and_abstract_sockets_connect, || async {
    let dir = std::env::temp_dir().join(format!("thalweg-net-{}-{:p}", std::process::id(), &0));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(format!("{}.sock", thalweg_runtime::driver::with(|d| d.kind_name())));
    let name = format!("thalweg-{}-{}", std::process::id(), thalweg_runtime::driver::with(|d| d.kind_name()));
    for address in [SockAddr::Unix(path.as_path().into()), SockAddr::Abstract(name.as_bytes().into())] {
        let mut listener = Listener::bind(&address, &Default::default()).unwrap();
        assert!(listener.local_addr().unwrap().is_unix());
        let mut a = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
        let (fd, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, SockAddr::unnamed());
        let mut b = Stream::from_fd(fd).unwrap();
        a.start_send(Buf::copy_of(b"over unix"));
        assert_eq!(read_exactly(&mut b, 9).await, b"over unix");
    }
    std::fs::remove_file(&path).unwrap();
});

each_driver!(multipath_sockets_carry_bytes_like_others, || async {
    let opts = ListenOptions { mptcp: true, ..ListenOptions::default() };
    let mut listener = match Listener::bind(&any_tcp(), &opts) {
        // The kernel may be built without it.
        Err(e) if e.raw_os_error() == Some(libc::EPROTONOSUPPORT) => return,
        result => result.unwrap(),
    };
    let address = listener.local_addr().unwrap();
    let opts = ConnectOptions { mptcp: true, ..ConnectOptions::default() };
    let mut a = Stream::connect(&address, &opts).await.unwrap();
    let mut b = Stream::from_accepted(listener.accept().await.unwrap().0).unwrap();
    a.start_send(Buf::copy_of(b"several paths"));
    assert_eq!(read_exactly(&mut b, 13).await, b"several paths");
});

each_driver!(options_reach_the_kernel, || async {
    let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    // Setting a mark needs CAP_NET_ADMIN.
    // SAFETY: takes no pointer.
    let privileged = unsafe { libc::geteuid() } == 0;
    let opts = ConnectOptions {
        source: Some("127.0.0.2:0".parse::<std::net::SocketAddr>().unwrap().into()),
        interface: Some("lo".into()),
        tos: Some(0x10),
        keepalive: Some(Keepalive { count: Some(3), idle_s: Some(11), interval_s: Some(7) }),
        user_timeout_ms: Some(12_345),
        mss: Some(1000),
        congestion: Some("reno".into()),
        mark: privileged.then_some(9),
        fastopen: true,
        receive_buffer: Some(65_536),
        send_buffer: Some(65_536),
        ..ConnectOptions::default()
    };
    let mut a = Stream::connect(&address, &opts).await.unwrap();
    a.start_send(Buf::copy_of(b"hello"));
    let (fd, peer) = listener.accept().await.unwrap();
    let mut b = Stream::from_accepted(fd).unwrap();
    b.expect_data();
    assert_eq!(read_exactly(&mut b, 5).await, b"hello");
    assert_eq!(peer.ip().unwrap().to_string(), "127.0.0.2");
    assert_eq!(a.local_addr().unwrap(), peer);
    assert_eq!(b.peer_addr().unwrap(), peer);
    assert_eq!(b.local_addr().unwrap(), address);
    let fd = a.as_raw_fd();
    // It is of no use before the second send.
    assert_eq!(int_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY), 0);
    a.send_ready().await.unwrap();
    a.start_send(Buf::copy_of(b"again"));
    for (level, name, value) in [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 11),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 7),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 12_345),
        (libc::IPPROTO_IP, libc::IP_TOS, 0x10),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::SOL_SOCKET, libc::SO_MARK, if privileged { 9 } else { 0 }),
        (libc::SOL_SOCKET, libc::SO_SNDBUF, 131_072),
    ] {
        assert_eq!(int_option(fd, level, name), value, "option {level}/{name}");
    }
    let info = a.tcp_info().unwrap();
    assert!(info.send_mss <= 1000 && info.rtt_us > 0, "{info:?}");
    a.set_tos(0x20).unwrap();
    a.set_quickack(true).unwrap();
    a.set_user_timeout(99).unwrap();
    assert_eq!(int_option(fd, libc::IPPROTO_IP, libc::IP_TOS), 0x20);
    assert_eq!(int_option(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT), 99);
});

each_driver!(a_socket_that_is_gone_is_no_later_one, || async {
    let mut later = Vec::new();
    // Another test of this process may take the number; then it is tried again with another one.
    let first = loop {
        let (a, b) = tcp_pair().await;
        let (first, number) = (a.id(), a.as_raw_fd());
        assert!(first.tcp_info().is_some_and(|info| info.rtt_us > 0));
        drop((a, b));
        go_round().await;
        later.push(tcp_pair().await);
        let came_again = |(a, b): &(Stream, Stream)| a.as_raw_fd() == number || b.as_raw_fd() == number;
        if later.iter().any(came_again) {
            break first;
        }
        assert!(later.len() < 1000, "no number ever comes again");
    };
    assert!(first.tcp_info().is_none());
    assert!(later.iter().all(|(a, b)| a.id().tcp_info().is_some() && b.id().tcp_info().is_some()));
    assert!(SocketId::NONE.tcp_info().is_none());
});

each_driver!(source_ports_are_taken_from_the_range_in_turn, || async {
    let mut listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    // A range below the ephemeral ports, of which somebody else may hold some.
    let base = 20_000 + (std::process::id() % 500) as u16 * 8;
    let opts = ConnectOptions {
        source: Some("127.0.0.3:0".parse::<std::net::SocketAddr>().unwrap().into()),
        source_ports: Some((base, base + 3)),
        ..ConnectOptions::default()
    };
    let mut held = Vec::new();
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..4 {
        held.push(Stream::connect(&address, &opts).await.unwrap());
        let (fd, peer) = listener.accept().await.unwrap();
        held.push(Stream::from_accepted(fd).unwrap());
        ports.insert(peer.port().unwrap());
    }
    assert_eq!(ports.into_iter().collect::<Vec<_>>(), (base..base + 4).collect::<Vec<_>>());
    let error = Stream::connect(&address, &opts).await.unwrap_err();
    assert!(matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EADDRNOTAVAIL)), "{error}");
    // One that was closed (by a reset, which leaves no TIME_WAIT behind) is found again.
    held.iter_mut().skip(6).for_each(Stream::set_linger_rst);
    held.truncate(6);
    settle().await;
    settle().await;
    held.push(Stream::connect(&address, &opts).await.unwrap());
});

each_driver!(a_stream_moves_to_another_thread_with_what_it_received, || async {
    let (mut a, mut b) = tcp_pair().await;
    // Receiving is under way when it is detached.
    b.watch(thalweg_runtime::current_task());
    a.start_send(Buf::copy_of(b"before "));
    wait_until(|| b.has_input_now()).await;
    std::future::poll_fn(|_| b.poll_detach()).await;
    let (fd, ahead) = b.into_fd().unwrap();
    let ahead: Vec<u8> = ahead.iter().flat_map(|b| b.to_vec()).collect();
    let kind = thalweg_runtime::driver::with(|d| d.kind_name());
    let other = std::thread::spawn(move || {
        run(kind, move || async move {
            let mut b = Stream::from_fd(fd).unwrap();
            let mut all = ahead;
            all.extend(read_exactly(&mut b, 12 - all.len()).await);
            b.start_send(Buf::copy_of(b"done"));
            b.send_ready().await.unwrap();
            all
        })
    });
    a.start_send(Buf::copy_of(b"after"));
    assert_eq!(read_exactly(&mut a, 4).await, b"done");
    assert_eq!(other.join().unwrap(), b"before after");
});

every_driver!(streams_wait_for_buffers_in_order_when_there_are_few, || async {
    buffer::configure(BufferConfig { size: 4096, limit: 2, reserve: 0 });
    let mut pairs = Vec::new();
    for _ in 0..6 {
        pairs.push(tcp_pair().await);
    }
    let done = std::rc::Rc::new(std::cell::Cell::new(0));
    for (mut a, mut b) in pairs {
        let done = done.clone();
        spawn(async move {
            a.start_send(Buf::copy_of(b"data"));
            let buf = b.recv(100).await.unwrap();
            // Holds it for a while.
            for _ in 0..5 {
                settle().await;
            }
            assert_eq!(&buf[..], b"data");
            assert!(buffer::stats().used <= 2);
            done.set(done.get() + 1);
        });
    }
    wait_until(|| done.get() == 6).await;
    assert_eq!(buffer::stats().waiting, 0);
    buffer::configure(BufferConfig::default());
});

every_driver!(an_end_is_heard_without_a_buffer, || async {
    buffer::configure(BufferConfig { size: 4096, limit: 1, reserve: 0 });
    let (mut a, mut b) = tcp_pair().await;
    let (mut c, mut d) = tcp_pair().await;
    let (mut e, mut f) = tcp_pair().await;
    // Behind something, alone, and an error.
    a.start_send(Buf::copy_of(b"last"));
    a.send_ready().await.unwrap();
    a.shutdown_write().unwrap();
    let held = b.recv(100).await.unwrap();
    assert_eq!(&held[..], b"last");
    // Where received bytes lie in the ring, nobody waits for a buffer.
    let _other = Buf::with_capacity_default();
    assert!(Buf::with_capacity_default().is_none());
    assert!(d.poll_recv(100).is_pending() && f.poll_recv(100).is_pending());
    c.shutdown_write().unwrap();
    e.set_linger_rst();
    drop(e);
    let mut heard = [false; 3];
    wait_until(|| {
        heard[0] |= matches!(b.poll_recv(100), Poll::Ready(Ok(end)) if end.is_empty());
        heard[1] |= matches!(d.poll_recv(100), Poll::Ready(Ok(end)) if end.is_empty());
        heard[2] |= matches!(f.poll_recv(100), Poll::Ready(Err(_)));
        heard == [true; 3]
    })
    .await;
    assert_eq!(buffer::stats().waiting, 0);
    drop(held);
    buffer::configure(BufferConfig::default());
});

every_driver!(who_ended_waits_for_no_buffer, || async {
    buffer::configure(BufferConfig { size: 4096, limit: 1, reserve: 0 });
    let held = Buf::with_capacity_default().unwrap();
    let lives = std::rc::Rc::new(());
    let wait = |lives: std::rc::Rc<()>| async move {
        drop(std::future::poll_fn(|_| buffer::poll_alloc()).await);
        drop(lives);
    };
    let waiting: Vec<_> = (0..2000).map(|_| spawn(wait(lives.clone()))).collect();
    wait_until(|| buffer::stats().waiting == 2000).await;
    waiting.into_iter().for_each(thalweg_runtime::kill);
    wait_until(|| std::rc::Rc::strong_count(&lives) == 1).await;
    drop(held);
    // All in one round. To wake each one some times in vain would take more of them than there are in this time.
    go_round().await;
    go_round().await;
    assert_eq!(buffer::stats().waiting, 0);
    buffer::configure(BufferConfig::default());
});

every_driver!(a_vital_stream_is_heard_when_others_wait_for_buffers, || async {
    buffer::configure(BufferConfig { size: 4096, limit: 3, reserve: 2 });
    let held = Buf::with_capacity_default().unwrap();
    assert!(Buf::with_capacity_default().is_none(), "the rest is the reserve");
    let ((mut a, mut usual), (mut c, mut vital)) = (tcp_pair().await, tcp_pair().await);
    vital.set_vital();
    a.start_send(Buf::copy_of(b"client"));
    c.start_send(Buf::copy_of(b"operator"));
    assert_eq!(&vital.recv(100).await.unwrap()[..], b"operator");
    // Where received bytes lie in the ring, the usual one needs no buffer.
    assert!(driver::with(|d| d.kind_name() == "io_uring") || usual.poll_recv(100).is_pending());
    // Not for as long as it lives, whatever it receives.
    for _ in 0..4 {
        c.send_ready().await.unwrap();
        c.start_send(Buf::copy_of(b"again"));
        assert_eq!(&vital.recv(100).await.unwrap()[..], b"again");
    }
    drop(held);
    assert_eq!(&usual.recv(100).await.unwrap()[..], b"client");
    buffer::configure(BufferConfig::default());
});

every_driver!(a_stream_knows_when_it_received_and_sent, || async {
    let (mut a, mut b) = tcp_pair().await;
    timer::sleep(20).await;
    a.start_send(Buf::copy_of(b"ping"));
    let began = clock::now_ms();
    a.send_ready().await.unwrap();
    assert_eq!(read_exactly(&mut b, 4).await, b"ping");
    assert!(a.last_sent_ms() >= began && b.last_received_ms() >= began);
    // Not when somebody looks.
    timer::sleep(50).await;
    assert!(b.poll_recv(10).is_pending());
    let now = clock::now_ms();
    assert!(a.last_sent_ms() <= now - 50 && b.last_received_ms() <= now - 50);
    assert!(a.last_received_ms() < began && b.last_sent_ms() < began, "the other direction was silent");
    // The end is nothing received.
    drop(a);
    assert!(b.recv(10).await.unwrap().is_empty());
    assert!(b.last_received_ms() <= now - 50);
});

async fn departure(stream: &mut Stream) -> Departure {
    std::future::poll_fn(|_| match stream.departure() {
        Departure::No => Poll::Pending,
        gone => Poll::Ready(gone),
    })
    .await
}

every_driver!(a_departure_is_noticed_behind_unread_bytes, || async {
    for unread in [&b""[..], b"what nobody asked for"] {
        let (mut a, mut b) = tcp_pair().await;
        assert_eq!(b.departure(), Departure::No);
        if !unread.is_empty() {
            a.start_send(Buf::copy_of(unread));
        }
        a.shutdown_write().unwrap();
        assert_eq!(departure(&mut b).await, Departure::Ended);
        assert_eq!(read_exactly(&mut b, unread.len()).await, unread);
        // Once gone, always gone.
        assert!(b.recv(10).await.unwrap().is_empty());
        assert_eq!(b.departure(), Departure::Ended);

        let (mut a, mut b) = tcp_pair().await;
        if !unread.is_empty() {
            a.start_send(Buf::copy_of(unread));
            a.send_ready().await.unwrap();
        }
        a.set_linger_rst();
        drop(a);
        assert_eq!(departure(&mut b).await, Departure::Reset);
    }
});

every_driver!(what_is_sent_last_arrives_whole_and_with_the_end, || async {
    // More than the kernel takes at once, and less.
    for size in [4_000_000, 1000] {
        let (mut a, mut b) = tcp_pair().await;
        a.end_with_next_send();
        let mut bytes = vec![0; size];
        fill_pattern(&mut bytes, 0);
        let mut sent = Buf::large(size);
        sent.extend_from_slice(&bytes).unwrap();
        a.start_send(sent);
        spawn(async move {
            a.send_ready().await.unwrap();
            drop(a);
        });
        let received = read_to_end(&mut b).await;
        assert_eq!(received.len(), size);
        assert!(is_pattern(&received, 0));
    }
});

/// Sends so much that receives fill their room, and takes it in receives as large as they get.
async fn flow(from: &mut Stream, to: &mut Stream, total: usize) -> usize {
    let mut bytes = Buf::large(total);
    fill_pattern(bytes.unused_mut(), 0);
    bytes.commit(total);
    from.start_send(bytes);
    let (mut got, mut largest) = (0, 0);
    while got < total {
        let part = to.recv(buffer::BULK_SIZE).await.unwrap();
        assert!(!part.is_empty() && is_pattern(&part, got), "at {got}");
        got += part.len();
        largest = largest.max(part.len());
    }
    from.send_ready().await.unwrap();
    largest
}

every_driver!(what_keeps_coming_is_received_in_bulk, || async {
    let (mut a, mut b) = tcp_pair().await;
    for _ in 0..3 {
        let largest = flow(&mut a, &mut b, 2 << 20).await;
        // The simulator hands out small pieces.
        let simulated = thalweg_runtime::driver::with(|d| d.kind_name()) == "sim";
        assert!(largest > buffer::DEFAULT_SIZE || simulated, "{largest}");
        // Small ones again, which end that, and then some that begin it anew.
        for i in 0..10u8 {
            assert!(!b.has_input_now());
            a.start_send(Buf::copy_of(&[i]));
            std::future::poll_fn(|_| b.poll_readable()).await.unwrap();
            assert!(b.has_input_now());
            assert_eq!(read_exactly(&mut b, 1).await, [i]);
            a.send_ready().await.unwrap();
        }
    }
    assert_eq!(buffer::stats().bulk_used, 0);
});

every_driver!(a_departure_is_noticed_behind_unread_bulk, || async {
    for unread in [0, 100, 20_000] {
        for reset in [false, true] {
            let (mut a, mut b) = tcp_pair().await;
            flow(&mut a, &mut b, 1 << 20).await;
            assert_eq!(b.departure(), Departure::No);
            let mut bytes = Buf::large(unread);
            bytes.commit(unread);
            a.start_send(bytes);
            a.send_ready().await.unwrap();
            // It waits, and is told once that something is there.
            assert_eq!(b.departure(), Departure::No);
            settle().await;
            assert_eq!(b.departure(), Departure::No);
            if reset {
                a.set_linger_rst();
                drop(a);
                assert_eq!(departure(&mut b).await, Departure::Reset);
            } else {
                a.shutdown_write().unwrap();
                assert_eq!(departure(&mut b).await, Departure::Ended);
                assert_eq!(read_exactly(&mut b, unread).await.len(), unread);
                assert!(b.recv(10).await.unwrap().is_empty());
            }
        }
    }
});

every_driver!(bulk_buffers_run_out_and_bytes_still_flow, || async {
    let mut held = Vec::new();
    while let Some(buf) = Buf::bulk() {
        held.push(buf);
    }
    let most = buffer::stats().bulk_used;
    let (mut a, mut b) = tcp_pair().await;
    assert!(flow(&mut a, &mut b, 1 << 20).await <= buffer::DEFAULT_SIZE);
    assert_eq!(buffer::stats().bulk_used, most);
    drop(held);
    flow(&mut a, &mut b, 1 << 20).await;
    assert_eq!(buffer::stats().bulk_used, 0);
});
