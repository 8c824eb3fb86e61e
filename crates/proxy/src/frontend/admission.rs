//! Who is let in: the limits that a connection counts against, and its place among those that do.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;

use smallvec::{SmallVec, smallvec};
use thalweg_config::model::ProxyId;
use thalweg_runtime::net::{Listener, SockAddr};
use thalweg_runtime::{clock, current_task, timer};

use crate::gate::Gate;
use crate::instance::Live;
use crate::rate::RateGate;
use crate::stopping::Stopping;

/// Every limit a connection of one listener counts against.
pub(super) struct Gates<'a>(SmallVec<[&'a Gate; 4]>, SmallVec<[&'a RateGate; 4]>);

impl<'a> Gates<'a> {
    pub(super) fn of(instance: &'a Live, frontend: ProxyId, listener: usize) -> Gates<'a> {
        let proxy = frontend.0 as usize;
        let (gate, rate) = (&instance.frontend_gates[proxy], &instance.frontend_rates[proxy]);
        let listening = &instance.listeners[listener];
        let mut gates = smallvec![&instance.process_gate, gate, &listening.gate];
        let mut rates = smallvec![&instance.connection_rate, &instance.session_rate, rate];
        if listening.speaks_tls() {
            gates.push(&instance.tls_gate);
            rates.push(&instance.tls_rate);
        }
        Gates(gates, rates)
    }

    pub(super) fn have_room(&self) -> bool {
        self.0.iter().all(|gate| gate.has_room())
    }

    /// Milliseconds until the rates allow another connection, 0 for now.
    pub(super) fn rate_wait_ms(&self) -> u64 {
        if self.1.iter().all(|rate| rate.limit() == 0) {
            return 0;
        }
        let now = clock::now_ms();
        self.1.iter().map(|rate| rate.wait_ms(now)).max().unwrap_or(0)
    }

    pub(super) async fn wait_for_room(&self, socket: &mut Listener) {
        loop {
            match self.rate_wait_ms() {
                0 => break,
                ms => sleep(ms, socket).await,
            }
        }
        while let Some(full) = self.0.iter().find(|gate| !gate.has_room()) {
            std::future::poll_fn(|_| {
                socket.keep_up();
                if full.wait(current_task()) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    /// Counts one more connection everywhere, once it fits everywhere.
    pub(super) async fn enter(&self, socket: &mut Listener) {
        for rate in &self.1 {
            loop {
                match rate.take(clock::now_ms()) {
                    0 => break,
                    ms => sleep(ms, socket).await,
                }
            }
        }
        while !self.try_enter() {
            self.wait_for_room(socket).await;
        }
    }

    /// Counts one more connection everywhere, if it fits everywhere.
    fn try_enter(&self) -> bool {
        let entered = self.0.iter().take_while(|gate| gate.try_enter()).count();
        let all = entered == self.0.len();
        if !all {
            self.0[..entered].iter().for_each(|gate| gate.leave());
        }
        all
    }
}

/// Sleeps, and meanwhile does not keep a port that the process lets go of.
pub(super) async fn sleep(ms: u64, socket: &mut Listener) {
    let mut end = std::pin::pin!(timer::sleep(ms));
    std::future::poll_fn(|context| {
        socket.keep_up();
        end.as_mut().poll(context)
    })
    .await;
}

/// A connection that was let in: it counts against the limits of listener, frontend and process for as long as this
/// lives, whatever becomes of its task.
pub struct Admission {
    pub(super) live: Arc<Live>,
    pub(super) listener: usize,
}

impl Admission {
    /// Lets a connection in that this process made, if there is room for it.
    pub fn try_new(live: &Arc<Live>, listener: usize) -> Option<Admission> {
        let gates = Gates::of(live, live.listeners[listener].frontend(), listener);
        gates.try_enter().then(|| Admission { live: Arc::clone(live), listener })
    }

    /// The listener's number.
    pub fn listener(&self) -> usize {
        self.listener
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let instance = &self.live;
        let listening = &instance.listeners[self.listener];
        listening.gate.leave();
        instance.frontend_gates[listening.frontend().0 as usize].leave();
        instance.process_gate.leave();
        if listening.speaks_tls() {
            instance.tls_gate.leave();
        }
        if instance.stopping() != Stopping::No {
            crate::stop_when_idle(instance);
        }
    }
}

/// A connection that was accepted.
pub struct Accepted {
    pub admission: Admission,
    pub fd: OwnedFd,
    pub peer: SockAddr,
    /// The address that it came to, where every connection of its listener comes to the same.
    pub only: Option<SocketAddr>,
}
