//! How a proxy stops, step by step where the order of the steps is left to threads.

mod support;

use std::sync::mpsc;

use thalweg_proxy::{Stopping, worker};
use thalweg_runtime::{Config, Reason};

#[test]
fn a_thread_that_ends_before_it_knows_how_to_stop_the_runtime_holds_nothing_up() {
    let text = "defaults\n mode http\n timeout client 9s\nfrontend fe\n bind 127.0.0.1:80\n http-request return status 200\n";
    let running = support::start(text, Config::default(), || {});
    // An acceptor looks at a stop that has begun, between its first and its second step, because its port changed.
    let (tell, told) = mpsc::channel();
    running.handle.run_on(0, move || {
        let worker = worker::current().unwrap();
        worker.instance.stop(Stopping::Soft);
        worker.accepting.borrow().iter().for_each(|(_, task)| task.wake(Reason::OTHER));
        tell.send(worker.instance.clone()).unwrap();
    });
    let instance = told.recv().unwrap();
    loop {
        let (tell, told) = mpsc::channel();
        running.handle.run_on(0, move || {
            tell.send(worker::current().unwrap().accepting.borrow().is_empty()).unwrap();
        });
        if told.recv().unwrap() {
            break;
        }
    }
    thalweg_proxy::soft_stop(&instance.live, &running.handle);
    running.wait();
}
