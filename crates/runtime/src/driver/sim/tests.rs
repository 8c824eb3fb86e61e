//! The simulator itself: it repeats, it finds what it should find, and it keeps what sockets promise.

use super::*;
use crate::net::{Datagram, DatagramOptions, Listener, Stream, Transfer, TransferMode};
use crate::{Kind as TaskKind, clock, spawn, timer};
use std::cell::Cell;
use std::rc::Rc;

static TASK: TaskKind = TaskKind::new("sim-test");

fn address(text: &str) -> SockAddr {
    text.parse::<std::net::SocketAddr>().unwrap().into()
}

fn byte(connection: u64, position: usize) -> u8 {
    (connection.wrapping_mul(31) as usize + position * 7 + (position >> 8)) as u8
}

async fn echo(mut stream: Stream) -> io::Result<()> {
    loop {
        let buf = stream.recv(10_000).await?;
        if buf.is_empty() {
            stream.send_ready().await?;
            return stream.shutdown_write();
        }
        stream.send_ready().await?;
        stream.start_send(buf);
    }
}

/// Sends `total` bytes and checks that what comes back is what was sent, in order.
async fn converse(connection: u64, total: usize) -> io::Result<()> {
    let to = address("10.0.0.1:7");
    let connect = Stream::connect(&to, &ConnectOptions::default());
    let deadline = Some(clock::now_ms() + 10_000);
    let mut stream = timer::timeout_at(deadline, connect).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let (mut sent, mut got) = (0, 0);
    while got < total {
        if sent < total {
            stream.send_ready().await?;
            let n = (total - sent).min(3000);
            let bytes: Vec<u8> = (sent..sent + n).map(|at| byte(connection, at)).collect();
            stream.start_send(Buf::copy_of(&bytes));
            sent += n;
        }
        while got < sent {
            let part = stream.recv(sent - got).await?;
            if part.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for (i, b) in part.iter().enumerate() {
                assert_eq!(
                    *b,
                    byte(connection, got + i),
                    "connection {connection}: wrong byte at {}",
                    got + i
                );
            }
            got += part.len();
        }
    }
    stream.shutdown_write()?;
    let end = stream.recv(1).await?;
    assert!(end.is_empty(), "more came back than was sent");
    Ok(())
}

/// An echo server and some clients; counts how their conversations ended.
async fn echo_scenario(network: Network, clients: u64) {
    let to = address("10.0.0.1:7");
    let listener = loop {
        match Listener::bind(&to, &ListenOptions::default()) {
            Ok(listener) => break listener,
            // The storm may reach this call, too.
            Err(_) => timer::sleep(10).await,
        }
    };
    let server = spawn(&TASK, async move {
        let mut listener = listener;
        loop {
            match listener.accept().await {
                Ok((fd, _)) => {
                    if let Ok(stream) = Stream::from_accepted(fd) {
                        spawn(&TASK, async move { _ = echo(stream).await });
                    }
                }
                Err(_) => {
                    listener.pause();
                    timer::sleep(100).await;
                    while listener.resume().is_err() {
                        timer::sleep(100).await;
                    }
                }
            }
        }
    });
    let left = Rc::new(Cell::new(clients));
    for connection in 0..clients {
        let (left, network) = (left.clone(), network.clone());
        spawn(&TASK, async move {
            timer::sleep(network.random(50)).await;
            let total = network.random(30_000) as usize;
            let faults = network.counts().faults;
            let result = converse(connection, total).await;
            if let Err(e) = result
                && network.counts().faults == faults
                && faults == 0
            {
                network.fail(format!("a conversation failed without any fault: {e}"));
            }
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        timer::sleep(50).await;
    }
    crate::kill(server);
}

#[test]
fn without_faults_everything_arrives() {
    for seed in 0..20 {
        let report = run(seed, SimConfig::faultless(), |network| echo_scenario(network, 10));
        report.check().unwrap();
        assert_eq!((report.counts.connections, report.counts.faults), (10, 0));
    }
}

#[test]
fn a_seed_repeats_the_run_and_another_one_does_not() {
    let play = |seed| run(seed, SimConfig::stormy(seed), |network| echo_scenario(network, 10));
    for seed in [1, 2, 3] {
        let first = play(seed);
        assert_eq!(first, play(seed));
        assert_ne!(first.trace, play(seed + 100).trace);
    }
}

#[test]
fn storms_break_conversations_but_never_mix_bytes_or_leak() {
    let mut faults = 0;
    for seed in 0..150 {
        let report = run(seed, SimConfig::stormy(seed), |network| echo_scenario(network, 8));
        report.check().unwrap();
        faults += report.counts.faults;
    }
    assert!(faults > 5_000, "{faults}");
}

#[test]
fn waiting_for_what_never_comes_is_a_verdict() {
    let report = run(1, SimConfig::faultless(), |_| async {
        let mut listener = Listener::bind(&address("10.0.0.1:80"), &ListenOptions::default()).unwrap();
        _ = listener.accept().await;
    });
    assert!(report.check().unwrap_err().contains("stalled"), "{report:?}");
}

#[test]
fn spinning_is_a_verdict() {
    let report = run(1, SimConfig::faultless(), |_| async {
        loop {
            crate::yield_now().await;
        }
    });
    assert!(report.check().unwrap_err().contains("spinning"), "{report:?}");
}

#[test]
fn leaks_are_found() {
    let report = run(1, SimConfig::faultless(), |_| async {
        let listener = Listener::bind(&address("10.0.0.1:80"), &ListenOptions::default()).unwrap();
        let buf = Buf::with_capacity_default();
        spawn(&TASK, async move {
            let _held = (listener, buf);
            std::future::pending().await
        });
    });
    let wrong = report.check().unwrap_err();
    for what in ["descriptor left open: Listener", "1 sockets left", "1 buffers left", "task left: sim-test"]
    {
        assert!(wrong.contains(what), "{wrong}");
    }
}

#[test]
fn a_panic_in_a_task_is_reported_and_an_invariant_can_be_stated() {
    let report = run(1, SimConfig::faultless(), |_| async {
        spawn(&TASK, async { panic!("a planted bug") });
        timer::sleep(10).await;
    });
    assert!(report.check().unwrap_err().contains("a planted bug"));
    let report = run(1, SimConfig::faultless(), |network| async move {
        network.fail("two answers to one request");
        std::future::pending().await
    });
    assert!(report.check().unwrap_err().contains("two answers"));
}

#[test]
fn an_accepted_connection_that_nobody_takes_is_closed() {
    let report = run(5, SimConfig::faultless(), |_| async {
        let at = address("10.0.0.1:80");
        let mut listener = Listener::bind(&at, &ListenOptions::default()).unwrap();
        let mut client = Stream::connect(&at, &ConnectOptions::default()).await.unwrap();
        assert_eq!(client.peer_addr().unwrap(), at);
        let (fd, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        drop(fd);
        assert!(client.recv(1).await.unwrap().is_empty());
    });
    report.check().unwrap();
}

#[test]
fn time_is_virtual_and_only_the_wall_clock_jumps() {
    let config = SimConfig { wall_jump_ppm: 500_000, ..SimConfig::faultless() };
    let started = std::time::Instant::now();
    let report = run(9, config, |_| async {
        let mut walls = Vec::new();
        for _ in 0..50 {
            let before = clock::now_ms();
            timer::sleep(60_000).await;
            let slept = clock::now_ms() - before;
            assert!((60_000..60_010).contains(&slept), "{slept}");
            walls.push(clock::wall_us());
        }
        assert!(walls.windows(2).any(|w| w[1] < w[0]), "the wall clock never went back");
    });
    report.check().unwrap();
    assert!(report.virtual_ms > 3_000_000 && started.elapsed().as_secs() < 20);
}

#[test]
fn few_buffers_make_conversations_wait_and_nothing_else() {
    for seed in 0..10 {
        let buffers = BufferConfig { size: 4096, limit: 4, reserve: 1 };
        let config = SimConfig { buffers, ..SimConfig::faultless() };
        let report = run(seed, config, |network| echo_scenario(network, 20));
        report.check().unwrap();
    }
}

#[test]
fn exhausted_descriptors_are_an_error_that_passes() {
    let config = SimConfig { descriptors_max: 4, ..SimConfig::faultless() };
    let report = run(3, config, |network| async move {
        let at = address("10.0.0.1:80");
        let mut listener = Listener::bind(&at, &ListenOptions::default()).unwrap();
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(Stream::connect(&at, &ConnectOptions::default()).await.unwrap());
        }
        let error = Stream::connect(&at, &ConnectOptions::default()).await.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        assert_eq!(listener.accept().await.unwrap_err().raw_os_error(), Some(libc::EMFILE));
        assert_eq!(network.descriptors(), 4);
        clients.pop();
        listener.accept().await.unwrap();
    });
    report.check().unwrap();
}

#[test]
fn transfers_move_every_byte() {
    for seed in 0..50 {
        let config = SimConfig {
            reset_ppm: 0,
            refuse_ppm: 0,
            unanswered_ppm: 0,
            emfile_ppm: 0,
            enomem_ppm: 0,
            ..SimConfig::stormy(seed)
        };
        let report = run(seed, config, |_| async {
            let (mut sender, mut rx) = connected("10.0.0.1:1").await;
            let (mut tx, mut reader) = connected("10.0.0.1:2").await;
            let bytes: Vec<u8> = (0..20_000).map(|i| byte(1, i)).collect();
            let copy = bytes.clone();
            spawn(&TASK, async move {
                sender.start_send(Buf::copy_of(&copy));
                sender.shutdown_write().unwrap();
                sender.send_ready().await.unwrap();
            });
            spawn(&TASK, async move {
                let mut transfer = Transfer::new(TransferMode::Auto);
                while std::future::poll_fn(|_| transfer.poll(&mut rx, &mut tx, u64::MAX)).await.unwrap() > 0 {
                }
            });
            let mut all = Vec::new();
            loop {
                let part = reader.recv(1000).await.unwrap();
                if part.is_empty() {
                    break;
                }
                all.extend_from_slice(&part);
            }
            assert_eq!(all, bytes);
        });
        report.check().unwrap();
    }
}

async fn connected(at: &str) -> (Stream, Stream) {
    let at = address(at);
    let mut listener = Listener::bind(&at, &ListenOptions::default()).unwrap();
    let client = Stream::connect(&at, &ConnectOptions::default()).await.unwrap();
    let (fd, _) = listener.accept().await.unwrap();
    (client, Stream::from_accepted(fd).unwrap())
}

#[test]
fn datagrams_arrive_or_are_lost_whole() {
    let config =
        SimConfig { datagram_loss_ppm: 200_000, datagram_twice_ppm: 100_000, ..SimConfig::faultless() };
    let report = run(11, config, |_| async {
        let at = address("10.0.0.1:53");
        let mut server = Datagram::bind(&at, &DatagramOptions::default()).unwrap();
        let mut client = Datagram::connect(&at, &DatagramOptions::default()).unwrap();
        let from = client.local_addr().unwrap();
        for i in 0..100u8 {
            client.queue(&[i; 20]);
        }
        let mut seen = [0; 100];
        let all = async {
            loop {
                let got = server.recv_from().await.unwrap();
                assert_eq!((got.bytes.len(), got.from), (20, from.clone()));
                seen[usize::from(got.bytes[0])] += 1;
            }
        };
        _ = timer::timeout_at(Some(clock::now_ms() + 1000), all).await;
        let lost = seen.iter().filter(|n| **n == 0).count();
        assert!((5..40).contains(&lost) && seen.contains(&2), "{seen:?}");
    });
    report.check().unwrap();
}

/// A resume that failed left the listener neither paused nor registered, and the second attempt did nothing: connections
/// waited for ever. Found by the relay scenario with seed 1125.
#[test]
fn a_resume_that_failed_can_be_repeated() {
    let report = run(1, SimConfig::faultless(), |network| async move {
        let at = address("10.0.0.1:80");
        let mut listener = Listener::bind(&at, &ListenOptions::default()).unwrap();
        listener.pause();
        network.configure(|c| c.enomem_ppm = 1_000_000);
        assert_eq!(listener.resume().unwrap_err().raw_os_error(), Some(libc::ENOMEM));
        network.configure(|c| c.enomem_ppm = 0);
        listener.resume().unwrap();
        let client = Stream::connect(&at, &ConnectOptions::default()).await.unwrap();
        assert_eq!(listener.accept().await.unwrap().1, client.local_addr().unwrap());
    });
    report.check().unwrap();
}

#[test]
fn unix_sockets_have_no_network_between_them() {
    let storm = SimConfig { refuse_ppm: 1_000_000, reset_ppm: 1_000_000, ..SimConfig::faultless() };
    let report = run(1, SimConfig { latency_us: (50_000, 50_000), ..storm }, |_| async {
        let at = SockAddr::Unix(std::path::Path::new("/run/x.sock").into());
        let nobody = Stream::connect(&at, &ConnectOptions::default()).await.unwrap_err();
        assert_eq!(nobody.raw_os_error(), Some(libc::ECONNREFUSED));
        let mut listener = Listener::bind(&at, &ListenOptions { backlog: 1, ..Default::default() }).unwrap();
        let began_ms = clock::now_ms();
        let mut client = Stream::connect(&at, &ConnectOptions::default()).await.unwrap();
        let crowded = Stream::connect(&at, &ConnectOptions::default()).await.unwrap_err();
        assert_eq!(crowded.raw_os_error(), Some(libc::EAGAIN));
        let mut server = Stream::from_accepted(listener.accept().await.unwrap().0).unwrap();
        client.start_send(Buf::copy_of(b"hello"));
        // There is no reset on demand.
        client.set_linger_rst();
        drop(client);
        assert_eq!(&*server.recv(100).await.unwrap(), b"hello");
        assert!(server.recv(100).await.unwrap().is_empty());
        assert!(clock::now_ms() - began_ms < 50);
    });
    report.check().unwrap();
}
