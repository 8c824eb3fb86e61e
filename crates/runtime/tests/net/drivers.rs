//! A thread has one driver at a time.

use crate::harness::{any_tcp, has_uring};
use thalweg_runtime::clock::precise_ns;
use thalweg_runtime::driver::sim::{Network, SimConfig};
use thalweg_runtime::driver::{self, Driver, DriverKind, DriverOptions, Wait};
use thalweg_runtime::net::Listener;

fn kinds() -> Vec<DriverKind> {
    let uring = has_uring().then_some(DriverKind::Uring);
    let others = [DriverKind::Epoll, DriverKind::Sim(Network::new(1, SimConfig::faultless()))];
    uring.into_iter().chain(others).collect()
}

fn open(kind: &DriverKind) -> Result<Driver, String> {
    // Small rings: large ones need much contiguous memory of the kernel, of which there may be none beside other tests.
    let opts = DriverOptions { submission_entries: 64, completion_entries: 128, ..DriverOptions::default() };
    Driver::new(kind.clone(), &opts).map_err(|error| error.to_string())
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

#[test]
fn a_wait_ends_in_time_whatever_the_one_before_it_asked_for() {
    const MS: u64 = 1_000_000;
    for kind in kinds().into_iter().filter(|kind| !matches!(kind, DriverKind::Sim(_))) {
        let mut driver = open(&kind).unwrap();
        let waker = driver.remote_waker();
        for (first_ms, second_ms) in [(60_000, 5), (1, 30), (60_000, 1), (1, 60)] {
            // It ends at once, and the timer stays behind.
            waker.wake();
            let first = driver.poll(Wait::Until(precise_ns() + first_ms * MS)).unwrap();
            assert!(first.events > 0, "{kind:?}");
            std::thread::sleep(std::time::Duration::from_millis(2));
            let end = precise_ns() + second_ms * MS;
            let mut rounds = 0;
            while precise_ns() < end {
                assert_eq!(driver.poll(Wait::Until(end)).unwrap().events, 0, "{kind:?}");
                rounds += 1;
            }
            // One more than needed, for the timer that was set before.
            assert!(rounds <= 2, "{kind:?}: {rounds} waits of {second_ms} ms after {first_ms} ms");
            assert!(precise_ns() - end < 30_000 * MS, "{kind:?}");
        }
    }
}
