//! A process that runs out of descriptors: its own binary, because the limit is the process's.

use thalweg_runtime::driver::{Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::{ConnectOptions, Listener, SockAddr, Stream};
use thalweg_runtime::{Config, block_on, timer};

fn set_limit(n: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a valid structure.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let old = limit.rlim_cur;
    limit.rlim_cur = n;
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
    old
}

async fn scenario() {
    let any: SockAddr = "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into();
    let mut listener = Listener::bind(&any, &Default::default()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(Stream::connect(&address, &ConnectOptions::default()).await.unwrap());
    }
    // No number is left: the first free one is the limit.
    let spare = std::fs::File::open("/dev/null").unwrap();
    let old = set_limit(u64::try_from(std::os::fd::AsRawFd::as_raw_fd(&spare)).unwrap());
    drop(spare);
    let error = listener.accept().await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    let error = Stream::connect(&address, &ConnectOptions::default()).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    // What a listener does: pause, try again later. The connections are still there.
    listener.pause();
    timer::sleep(5).await;
    set_limit(old);
    listener.resume().unwrap();
    for _ in 0..5 {
        listener.accept().await.unwrap();
    }
}

#[test]
fn connections_wait_until_descriptors_are_free_again() {
    for driver in [DriverKind::Uring, DriverKind::Epoll] {
        if Driver::new(driver.clone(), &DriverOptions::default()).is_err() {
            // No io_uring on this machine; that it works where it exists is tested elsewhere.
            continue;
        }
        block_on(Config { driver, ..Config::default() }, scenario());
    }
}
