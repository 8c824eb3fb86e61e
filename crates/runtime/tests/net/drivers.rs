//! A thread has one driver at a time.

use crate::harness::{any_tcp, has_uring};
use thalweg_runtime::driver::sim::{Network, SimConfig};
use thalweg_runtime::driver::{self, Driver, DriverKind, DriverOptions};
use thalweg_runtime::net::Listener;

fn kinds() -> Vec<DriverKind> {
    let uring = has_uring().then_some(DriverKind::Uring);
    let others = [DriverKind::Epoll, DriverKind::Sim(Network::new(1, SimConfig::faultless()))];
    uring.into_iter().chain(others).collect()
}

fn open(kind: &DriverKind) -> Result<Driver, String> {
    Driver::new(kind.clone(), &DriverOptions::default()).map_err(|error| error.to_string())
}

#[test]
fn a_second_one_is_refused_at_once() {
    for (first, second) in
        kinds().iter().flat_map(|first| kinds().into_iter().map(move |second| (first, second)))
    {
        let driver = open(first).unwrap();
        assert_eq!(open(&second).err().as_deref(), Some("this thread has an I/O driver already"));
        driver::install(driver);
        assert_eq!(open(&second).err().as_deref(), Some("this thread has an I/O driver already"));
        // Other threads have their own.
        let elsewhere = second.clone();
        std::thread::spawn(move || drop(open(&elsewhere).unwrap())).join().unwrap();
        drop(driver::uninstall());
        drop(open(&second).unwrap());
    }
}

#[test]
fn sockets_that_outlived_theirs_do_not_meet_another() {
    for kind in kinds() {
        driver::install(open(&kind).unwrap());
        let listener = Listener::bind(&any_tcp(), &Default::default()).unwrap();
        drop(driver::uninstall());
        assert_eq!(
            open(&kind).err().as_deref(),
            Some("sockets of this thread's last I/O driver are still open")
        );
        drop(listener);
        drop(open(&kind).unwrap());
    }
}
