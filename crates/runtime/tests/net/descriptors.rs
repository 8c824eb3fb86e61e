//! Listening sockets handed to another process, as a reload does.

use crate::harness::*;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use thalweg_runtime::net::{ConnectOptions, Listener, Stream, descriptor};

each_driver!(a_listener_is_handed_over_with_its_backlog, || async {
    let old = Listener::bind(&any_tcp(), &Default::default()).unwrap();
    let address = old.local_addr().unwrap();
    let client = Stream::connect(&address, &ConnectOptions::default()).await.unwrap();
    let (here, there) = UnixStream::pair().unwrap();
    descriptor::send_with_descriptors(here.as_fd(), b"l", &[old.try_clone_fd().unwrap().as_fd()]).unwrap();
    let (_, fds) = descriptor::receive_with_descriptors(there.as_fd(), &mut [0; 8]).unwrap();
    // The old owner lets go; the connection that waited is served by the new one.
    drop(old);
    settle().await;
    let mut new = Listener::from_fd(fds.into_iter().next().unwrap()).unwrap();
    assert_eq!(new.local_addr().unwrap(), address);
    assert_eq!(new.accept().await.unwrap().1, client.local_addr().unwrap());
});
