//! UDP and unix datagrams.

use crate::harness::*;
use std::task::Poll;
use thalweg_runtime::net::{Datagram, DatagramOptions, SockAddr};

fn local() -> SockAddr {
    any_tcp()
}

every_driver!(a_rounds_datagrams_leave_together_and_in_order, || async {
    let mut server = Datagram::bind(&local(), &Default::default()).unwrap();
    let address = server.local_addr().unwrap();
    let mut client = Datagram::connect(&address, &Default::default()).unwrap();
    assert!(matches!(server.poll_recv_from(), Poll::Pending));
    for i in 0..100u8 {
        assert!(client.queue(&[i; 10]));
    }
    assert_eq!(client.counts(), (0, 0));
    for i in 0..100u8 {
        let got = server.recv_from().await.unwrap();
        assert_eq!(&got.bytes[..], &[i; 10]);
        assert_eq!(got.from, client.local_addr().unwrap());
        assert!(!got.truncated);
    }
    assert_eq!(client.counts(), (100, 0));
    assert!(server.queue_to(b"answer", &client.local_addr().unwrap()));
    assert_eq!(&client.recv_from().await.unwrap().bytes[..], b"answer");
});

every_driver!(what_is_queued_when_it_is_dropped_still_leaves, || async {
    let mut server = Datagram::bind(&local(), &Default::default()).unwrap();
    let mut client = Datagram::connect(&server.local_addr().unwrap(), &Default::default()).unwrap();
    client.queue(b"last line");
    drop(client);
    assert_eq!(&server.recv_from().await.unwrap().bytes[..], b"last line");
});

every_driver!(too_many_are_dropped_and_counted, || async {
    let opts = DatagramOptions { queue_max: 5, ..DatagramOptions::default() };
    let server = Datagram::bind(&local(), &Default::default()).unwrap();
    let mut client = Datagram::connect(&server.local_addr().unwrap(), &opts).unwrap();
    let taken = (0..8).filter(|_| client.queue(b"x")).count();
    assert_eq!(taken, 5);
    wait_until(|| client.counts() == (5, 3)).await;
    // Once they left there is room again.
    assert!(client.queue(b"y"));
    wait_until(|| client.counts() == (6, 3)).await;
});

each_driver!(an_absent_receiver_does_not_stop_the_sender, || async {
    let address = Datagram::bind(&local(), &Default::default()).unwrap().local_addr().unwrap();
    settle().await;
    let mut client = Datagram::connect(&address, &Default::default()).unwrap();
    for _ in 0..3 {
        client.queue(b"anyone?");
        settle().await;
        settle().await;
    }
    wait_until(|| client.counts().0 + client.counts().1 == 3).await;
});

each_driver!(a_full_unix_receiver_makes_datagrams_wait, || async {
    let kind = thalweg_runtime::driver::with(|d| d.kind_name());
    let name = format!("thalweg-dgram-{}-{kind}", std::process::id());
    let address = SockAddr::Abstract(name.as_bytes().into());
    let mut server = Datagram::bind(&address, &Default::default()).unwrap();
    let mut client = Datagram::connect(&address, &Default::default()).unwrap();
    // More than the receiver's queue (net.unix.max_dgram_qlen) holds.
    for i in 0..800u32 {
        assert!(client.queue(&i.to_le_bytes()));
    }
    settle().await;
    for i in 0..800u32 {
        let got = server.recv_from().await.unwrap();
        assert_eq!(&got.bytes[..], &i.to_le_bytes());
    }
    assert_eq!(client.counts(), (800, 0));
});

each_driver!(segments_are_cut_by_the_kernel_and_joined_again, || async {
    let opts = DatagramOptions { receive_offload: true, destination: true, ..DatagramOptions::default() };
    let mut server = Datagram::bind(&local(), &opts).unwrap();
    let mut plain = Datagram::bind(&local(), &Default::default()).unwrap();
    let mut client = Datagram::bind(&local(), &Default::default()).unwrap();
    let bytes: Vec<u8> = (0..40_500).map(|i| (i / 1000) as u8).collect();
    assert!(client.queue_segments(&bytes, 1000, Some(&plain.local_addr().unwrap())));
    for i in 0..41u8 {
        let got = plain.recv_from().await.unwrap();
        assert_eq!(&got.bytes[..], &vec![i; if i == 40 { 500 } else { 1000 }][..]);
        assert_eq!(got.segment, None);
    }
    assert!(client.queue_segments(&bytes, 1000, Some(&server.local_addr().unwrap())));
    let mut got = Vec::new();
    while got.len() < bytes.len() {
        let part = server.recv_from().await.unwrap();
        assert!(part.segment.is_none_or(|s| s == 1000));
        assert_eq!(part.to.unwrap().to_string(), "127.0.0.1");
        got.extend_from_slice(&part.bytes);
    }
    assert_eq!(got, bytes);
    // Too many segments, or none at all.
    assert!(!client.queue_segments(&bytes, 100, None));
    assert!(!client.queue_segments(&bytes, 0, None));
    // One segment needs no cutting.
    assert!(client.queue_segments(b"one", 1000, Some(&plain.local_addr().unwrap())));
    assert_eq!(&plain.recv_from().await.unwrap().bytes[..], b"one");
});
