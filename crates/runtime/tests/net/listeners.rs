//! Accepting, pausing, sharing, inheriting.

use crate::harness::*;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::task::Poll;
use thalweg_runtime::net::{
    ConnectOptions, LetGo, ListenOptions, Listener, Listening, Md5Key, Port, SockAddr, SourceError, Stream,
    descriptor, listener,
};

/// As most listen.
const LISTENING: Listening = Listening { backlog: 10, no_quick_ack: false };

every_driver!(a_burst_of_connections_is_accepted_one_by_one, || async {
    let mut l = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = l.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(Stream::connect(&address, &ConnectOptions::default()).await.unwrap());
    }
    let mut ports = std::collections::BTreeSet::new();
    for _ in 0..100 {
        ports.insert(l.accept().await.unwrap().1.port().unwrap());
    }
    assert_eq!(ports, clients.iter().map(|c| c.local_addr().unwrap().port().unwrap()).collect());
    assert!(matches!(l.poll_accept(), Poll::Pending));
});

every_driver!(a_paused_listener_leaves_connections_in_the_backlog, || async {
    let mut l = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = l.local_addr().unwrap();
    assert!(matches!(l.poll_accept(), Poll::Pending));
    l.pause();
    let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
    for _ in 0..5 {
        settle().await;
        assert!(matches!(l.poll_accept(), Poll::Pending));
    }
    l.resume().unwrap();
    let (_, peer) = l.accept().await.unwrap();
    assert_eq!(peer, client.local_addr().unwrap());
    l.pause();
    l.resume().unwrap();
    let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
    assert_eq!(l.accept().await.unwrap().1, client.local_addr().unwrap());
});

each_driver!(two_listeners_share_a_socket, || async {
    let fd = listener::open(&any_tcp(), &ListenOptions::default()).unwrap();
    let kind = descriptor::inspect(fd.as_fd()).unwrap();
    assert!(kind.listening);
    let mut first = Listener::from_fd(fd.try_clone().unwrap()).unwrap();
    let mut second = Listener::from_fd(fd.try_clone().unwrap()).unwrap();
    first.pause();
    let client = Stream::connect(&kind.local, &ConnectOptions::default()).await.unwrap();
    assert_eq!(second.accept().await.unwrap().1, client.local_addr().unwrap());
    first.resume().unwrap();
    second.pause();
    let client = Stream::connect(&kind.local, &ConnectOptions::default()).await.unwrap();
    assert_eq!(first.accept().await.unwrap().1, client.local_addr().unwrap());
});

each_driver!(listen_options_reach_the_kernel, || async {
    let opts = ListenOptions {
        reuseport: true,
        mss: Some(1200),
        defer_accept_s: Some(3),
        fastopen: Some(16),
        tos: Some(8),
        user_timeout_ms: Some(777),
        transparent: true,
        interface: Some("lo".into()),
        congestion: Some("reno".into()),
        no_quick_ack: true,
        ..ListenOptions::default()
    };
    let one = Listener::bind(&any_tcp(), &opts).unwrap();
    let address = one.local_addr().unwrap();
    let _two = Listener::bind(&address, &opts).unwrap();
    let fd = one.as_raw_fd();
    for (level, name, value) in [
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG, 1200),
        (libc::IPPROTO_TCP, libc::TCP_FASTOPEN, 16),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 777),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::IPPROTO_TCP, libc::TCP_QUICKACK, 0),
        (libc::IPPROTO_IP, libc::IP_TOS, 8),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT, 1),
    ] {
        assert_eq!(int_option(fd, level, name), value, "option {level}/{name}");
    }
    assert!(int_option(fd, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT) >= 3);
    let v6: SockAddr = "[::1]:0".parse::<std::net::SocketAddr>().unwrap().into();
    let only = Listener::bind(&v6, &ListenOptions { v6only: Some(true), ..Default::default() }).unwrap();
    assert_eq!(int_option(only.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK), 1);
    assert_eq!(int_option(only.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY), 1);
});

each_driver!(a_unix_listener_takes_its_name_last_and_with_its_permissions, || async {
    use std::os::unix::fs::PermissionsExt;
    let kind = thalweg_runtime::driver::with(|d| d.kind_name());
    let path = std::env::temp_dir().join(format!("thalweg-listen-{}-{kind}", std::process::id()));
    let address = SockAddr::Unix(path.as_path().into());
    let opts = ListenOptions { mode: Some(0o640), ..ListenOptions::default() };
    let old = Listener::bind(&address, &opts).unwrap();
    // A second one replaces the first under the same name.
    let mut new = Listener::bind(&address, &opts).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let _client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
    new.accept().await.unwrap();
    drop(old);
    std::fs::remove_file(&path).unwrap();
    let bad = SockAddr::Unix(std::path::Path::new("/nonexistent/x").into());
    assert!(Listener::bind(&bad, &opts).is_err());
});

each_driver!(foreign_addresses_need_the_transparent_option, || async {
    let foreign: SockAddr = "203.0.113.7:0".parse::<std::net::SocketAddr>().unwrap().into();
    let error = Listener::bind(&foreign, &ListenOptions::default()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL));
    let opts = ListenOptions { transparent: true, ..ListenOptions::default() };
    assert_eq!(Listener::bind(&foreign, &opts).unwrap().local_addr().unwrap().ip(), foreign.ip());
    let opts = ConnectOptions { source: Some(foreign.clone()), ..ConnectOptions::default() };
    let error = Stream::connect(&any_tcp(), &opts).await.unwrap_err();
    let error = SourceError::of(&error).expect("it says that it is about the source");
    assert_eq!(error.system().raw_os_error(), Some(libc::EADDRNOTAVAIL));
    assert!(!error.is_for_ports());
});

each_driver!(signed_connections_need_the_same_key, || async {
    let local = |port: u16| SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    let opts = ListenOptions { md5: Some(Md5Key((*b"secret").into())), ..ListenOptions::default() };
    let mut listener = match Listener::bind(&local(0), &opts) {
        // The kernel may be built without it.
        Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => return,
        result => result.unwrap(),
    };
    let address = listener.local_addr().unwrap();
    let with_key = |key: &[u8]| ConnectOptions { md5: Some(Md5Key(key.into())), ..ConnectOptions::default() };
    let client = Stream::connect(&address, &with_key(b"secret")).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().1, client.local_addr().unwrap());
    // The key is that of all clients, wherever they are.
    let elsewhere = SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 7], 0)));
    let from_elsewhere = ConnectOptions { source: Some(elsewhere), ..with_key(b"secret") };
    Stream::connect(&address, &from_elsewhere).await.unwrap();
    let wrong = Stream::connect(&address, &with_key(b"wrong"));
    let deadline = Some(thalweg_runtime::clock::now_ms() + 50);
    assert!(thalweg_runtime::timer::timeout_at(deadline, wrong).await.is_err());
    let too_long = Stream::connect(&address, &with_key(&[1; 81])).await.unwrap_err();
    assert_eq!(too_long.kind(), std::io::ErrorKind::InvalidInput);
    // Nothing redirected this connection.
    assert!(client.original_destination().is_err());
});

fn connects(address: &SockAddr) -> bool {
    std::net::TcpStream::connect(address.to_std().unwrap()).is_ok()
}

each_driver!(a_port_is_let_go_and_taken_back, || async {
    let opts = ListenOptions { no_quick_ack: true, ..ListenOptions::default() };
    // A port that is asked for by its number, as one that the kernel chose is not kept. The address is this process's.
    let id = std::process::id();
    let ip = [127, 90, (id >> 8) as u8, id as u8];
    let any = SockAddr::from(std::net::SocketAddr::from((ip, 0)));
    let chosen = listener::open(&any, &opts).unwrap();
    let address = descriptor::inspect(chosen.as_fd()).unwrap().local;
    drop(chosen);
    let fd = listener::open(&address, &opts).unwrap();
    let port = Arc::new(Port::new(fd, LetGo::Unlisten(opts.listening())));
    // As two threads would.
    let mut listeners: Vec<Listener> = (0..2).map(|_| Listener::on(port.clone())).collect();
    for _ in 0..3 {
        assert!(listeners.iter_mut().all(|l| l.poll_accept().is_pending()));
        let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
        let accepted = std::future::poll_fn(|_| {
            let first = listeners.iter_mut().map(Listener::poll_accept).find(Poll::is_ready);
            first.unwrap_or(Poll::Pending)
        });
        assert_eq!(accepted.await.unwrap().1, client.local_addr().unwrap());
        port.let_go().unwrap();
        port.let_go().unwrap();
        assert!(!connects(&address));
        assert!(listeners.iter_mut().all(|l| l.poll_accept().is_pending() && l.local_addr().is_err()));
        // Somebody else may have it meanwhile, and then it cannot be taken back.
        let other = listener::open(&address, &opts).unwrap();
        assert_eq!(port.take_back().unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
        assert!(listeners.iter_mut().all(|l| l.poll_accept().is_pending()));
        drop(other);
        port.take_back().unwrap();
        port.take_back().unwrap();
        assert!(connects(&address));
        let socket = port.socket().unwrap();
        assert_eq!(int_option(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_QUICKACK), 0);
        let accepted = std::future::poll_fn(|_| {
            let first = listeners.iter_mut().map(Listener::poll_accept).find(Poll::is_ready);
            first.unwrap_or(Poll::Pending)
        });
        accepted.await.unwrap();
    }
});

each_driver!(connections_that_wait_when_a_port_is_let_go_are_taken_in, || async {
    let kind = thalweg_runtime::driver::with(|d| d.kind_name());
    let id = std::process::id();
    let name = SockAddr::Abstract(format!("thalweg-taken-in-{id}-{kind}").as_bytes().into());
    let path = std::env::temp_dir().join(format!("thalweg-taken-in-{id}-{kind}"));
    let opts = ListenOptions::default();
    let reopen = || LetGo::Close(Box::new(|| Err(std::io::ErrorKind::Unsupported.into())));
    let cases = [
        (any_tcp(), LetGo::Unlisten(opts.listening()), false),
        (any_tcp(), LetGo::Unlisten(opts.listening()), true),
        (name.clone(), reopen(), false),
        (name, reopen(), true),
        (SockAddr::Unix(path.clone().into()), LetGo::Keep, true),
    ];
    for (address, how, for_good) in cases {
        let fd = listener::open(&address, &opts).unwrap();
        let bound = match address.is_unix() {
            true => address.clone(),
            false => descriptor::inspect(fd.as_fd()).unwrap().local,
        };
        let port = Arc::new(Port::new(fd, how));
        let mut listeners: Vec<Listener> = (0..2).map(|_| Listener::on(port.clone())).collect();
        assert!(listeners.iter_mut().all(|l| l.poll_accept().is_pending() && !l.has_left()));
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(Stream::connect(&bound, &ConnectOptions::default()).await.unwrap());
        }
        if for_good {
            port.retire()
        } else {
            port.let_go().unwrap()
        }
        assert!(Stream::connect(&bound, &ConnectOptions::default()).await.is_err());
        assert!(listeners.iter_mut().all(Listener::has_left));
        // Oldest first, whichever listener asks.
        for (i, client) in clients.iter_mut().enumerate() {
            let Poll::Ready(Ok((fd, _))) = listeners[i % 2].poll_accept() else { panic!("{address:?}") };
            let mut taken = std::net::TcpStream::from(fd);
            std::io::Write::write_all(&mut taken, b"served").unwrap();
            assert_eq!(&client.recv(100).await.unwrap()[..], b"served", "{address:?}");
        }
        assert!(listeners.iter_mut().all(|l| l.poll_accept().is_pending() && !l.has_left()));
    }
    std::fs::remove_file(path).unwrap();
});

// Nobody that accepts goes while somebody waits: from the moment on in which it can be seen that nothing more is to be accepted, those
// that wait can be seen, too.
each_driver!(who_sees_that_a_port_is_retired_sees_who_waits, || async {
    for _ in 0..200 {
        let fd = listener::open(&any_tcp(), &ListenOptions::default()).unwrap();
        let address = descriptor::inspect(fd.as_fd()).unwrap().local;
        let port = Arc::new(Port::new(fd, LetGo::Unlisten(LISTENING)));
        let mut listener = Listener::on(port.clone());
        assert!(listener.poll_accept().is_pending());
        let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
        let retires = std::thread::spawn(move || port.retire());
        while !listener.is_retired() {
            std::hint::spin_loop();
        }
        assert!(listener.has_left());
        retires.join().unwrap();
        drop(client);
    }
});

each_driver!(a_shared_port_that_is_retired_listens_elsewhere, || async {
    let fd = listener::open(&any_tcp(), &ListenOptions::default()).unwrap();
    let address = descriptor::inspect(fd.as_fd()).unwrap().local;
    let other_process = fd.try_clone().unwrap();
    let port = Port::new(fd, LetGo::Unlisten(LISTENING));
    port.share();
    port.retire();
    assert!(port.socket().is_none() && connects(&address));
    drop(other_process);
});

each_driver!(the_task_that_accepts_is_told_what_becomes_of_its_port, || async {
    let kind = thalweg_runtime::driver::with(|d| d.kind_name());
    let name = SockAddr::Abstract(format!("thalweg-port-{}-{kind}", std::process::id()).as_bytes().into());
    let open = {
        let name = name.clone();
        move || listener::open(&name, &ListenOptions::default())
    };
    let port = Arc::new(Port::new(open().unwrap(), LetGo::Close(Box::new(open.clone()))));
    let mut accepting = Listener::on(port.clone());
    spawn(async move { while accepting.accept().await.is_ok() {} });
    for _ in 0..2 {
        drop(Stream::connect(&name, &ConnectOptions::default()).await.unwrap());
        // From any thread. Once the task let go of its copy, the name is free.
        let other = port.clone();
        std::thread::spawn(move || other.let_go().unwrap()).join().unwrap();
        assert!(port.socket().is_none());
        let taken = std::cell::RefCell::new(None);
        wait_until(|| {
            *taken.borrow_mut() = open().ok();
            taken.borrow().is_some()
        })
        .await;
        assert_eq!(port.take_back().unwrap_err().raw_os_error(), Some(libc::EADDRINUSE));
        drop(taken);
        port.take_back().unwrap();
    }
    drop(Stream::connect(&name, &ConnectOptions::default()).await.unwrap());
    HELD.set(1);
});

/// A socket that another process made blocks until a thread listens on it. A stop that comes before that must not wait.
#[test]
fn a_port_is_retired_before_anybody_listened_on_it() {
    let socket = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    let port = Port::new(socket.into(), LetGo::Unlisten(LISTENING));
    let (done, retired) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        port.retire();
        done.send(port.socket().is_none()).unwrap();
    });
    assert_eq!(retired.recv_timeout(std::time::Duration::from_secs(20)), Ok(true));
    assert!(std::net::TcpStream::connect(address).is_err());
}
