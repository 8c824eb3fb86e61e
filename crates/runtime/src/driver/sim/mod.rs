//! The simulated network: the same sockets over memory, in virtual time, from a seed.
//!
//! [`run`] plays one scenario on the calling thread: the code under test, its clients and its servers are tasks of one
//! loop, and everything that is random (latency, the order of readiness, short reads and writes, refused and broken
//! connections, exhausted descriptors, jumps of the clock) follows from the seed. When nothing can happen any more
//! although the scenario waits, or when the loop spins without anything happening, the run ends with that verdict.
//!
//! ```
//! use thalweg_runtime::driver::sim::{self, SimConfig};
//! use thalweg_runtime::net::{Listener, SockAddr, Stream};
//!
//! let report = sim::run(42, SimConfig::faultless(), |_network| async {
//!     let address: SockAddr = "10.0.0.1:80".parse::<std::net::SocketAddr>().unwrap().into();
//!     let mut listener = Listener::bind(&address, &Default::default()).unwrap();
//!     let client = Stream::connect(&address, &Default::default());
//!     let (client, (fd, _)) = (client.await.unwrap(), listener.accept().await.unwrap());
//!     drop(Stream::from_accepted(fd).unwrap());
//!     drop(client);
//! });
//! report.check().unwrap();
//! ```

mod journal;
mod rng;
mod run;
#[cfg(test)]
mod tests;
mod world;

use super::socket::{Bits, Errno, Socket, moment};
use super::{PollStats, Wait};
use crate::buffer::{self, Buf, BufferConfig};
use crate::net::{ConnectOptions, ListenOptions, Received, SockAddr, Stream, syscall};
use crate::task::{TaskId, current_task};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use world::{Endpoint, EndpointId, FAILED, Kind, READABLE, WRITABLE, World};

pub use rng::Rng;
pub use run::{Report, run};
pub use world::SimCounts;

/// What a run is like. Probabilities are in millionths per call.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Least and most microseconds a packet needs.
    pub latency_us: (u64, u64),
    /// Least and most bytes a connection has room for in one direction.
    pub send_buffer: (usize, usize),
    /// A receive returns less than it could.
    pub short_read_ppm: u32,
    /// A send takes less than it could.
    pub short_write_ppm: u32,
    /// The network breaks a connection while it sends.
    pub reset_ppm: u32,
    /// A connection attempt is refused.
    pub refuse_ppm: u32,
    /// A connection attempt gets no answer at all.
    pub unanswered_ppm: u32,
    /// Opening a descriptor fails with `EMFILE`.
    pub emfile_ppm: u32,
    /// Registering a descriptor fails with `ENOMEM`.
    pub enomem_ppm: u32,
    /// A task is woken for readiness that is not there.
    pub spurious_ppm: u32,
    /// A datagram is lost.
    pub datagram_loss_ppm: u32,
    /// Datagrams may overtake each other.
    pub datagram_reorder: bool,
    /// A datagram arrives twice.
    pub datagram_twice_ppm: u32,
    /// In a round, the wall clock is set forward or back by up to a day.
    pub wall_jump_ppm: u32,
    /// In a round, the whole process stands still for up to ten seconds.
    pub pause_ppm: u32,
    /// Descriptors that may be open at a time, without those [of others](Network::have_others).
    pub descriptors_max: usize,
    /// The thread's buffers: a low limit makes receives wait for them.
    pub buffers: BufferConfig,
    /// Sends leave at the next poll, as under io_uring, instead of at once.
    pub deferred_sends: bool,
    /// Rounds without anything happening after which the run is taken to spin.
    pub idle_rounds_max: u64,
    /// Virtual seconds after which the run ends with a verdict.
    pub duration_max_s: u64,
}

impl SimConfig {
    /// A network that is quick and does nothing wrong.
    pub fn faultless() -> SimConfig {
        SimConfig {
            latency_us: (10, 200),
            send_buffer: (65_536, 65_536),
            short_read_ppm: 0,
            short_write_ppm: 0,
            reset_ppm: 0,
            refuse_ppm: 0,
            unanswered_ppm: 0,
            emfile_ppm: 0,
            enomem_ppm: 0,
            spurious_ppm: 0,
            datagram_loss_ppm: 0,
            datagram_reorder: false,
            datagram_twice_ppm: 0,
            wall_jump_ppm: 0,
            pause_ppm: 0,
            descriptors_max: 10_000,
            buffers: BufferConfig::default(),
            deferred_sends: false,
            idle_rounds_max: 100_000,
            duration_max_s: 86_400,
        }
    }

    /// A network in which everything goes wrong now and then, each kind of fault with a probability that depends
    /// on the seed (and is zero for some seeds, so that faults also occur alone).
    pub fn stormy(seed: u64) -> SimConfig {
        let mut rng = rng::Rng::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut ppm = |most: u64| if rng.below(3) == 0 { 0 } else { rng.below(most) as u32 };
        let mut config = SimConfig {
            short_read_ppm: ppm(500_000),
            short_write_ppm: ppm(500_000),
            reset_ppm: ppm(20_000),
            refuse_ppm: ppm(50_000),
            unanswered_ppm: ppm(20_000),
            emfile_ppm: ppm(20_000),
            enomem_ppm: ppm(10_000),
            spurious_ppm: ppm(100_000),
            datagram_loss_ppm: ppm(100_000),
            datagram_twice_ppm: ppm(50_000),
            wall_jump_ppm: ppm(1_000),
            pause_ppm: ppm(500),
            ..SimConfig::faultless()
        };
        config.deferred_sends = rng.below(2) == 0;
        config.datagram_reorder = rng.below(2) == 0;
        config.latency_us = match rng.below(3) {
            0 => (1, 10),
            1 => (10, 5_000),
            _ => (1_000, 300_000),
        };
        config.send_buffer = match rng.below(3) {
            0 => (1, 100),
            1 => (1_000, 65_536),
            _ => (65_536, 1 << 20),
        };
        config
    }
}

/// A simulated network; clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<World>>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl Network {
    /// A network in its initial state.
    pub fn new(seed: u64, config: SimConfig) -> Network {
        Network(Arc::new(Mutex::new(World::new(seed, config))))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A random number below `n` from the scenario's own generator, for decisions of its clients and servers.
    pub fn random(&self, n: u64) -> u64 {
        self.world().rng.below(n)
    }

    /// Changes what the network is like from now on.
    pub fn configure(&self, change: impl FnOnce(&mut SimConfig)) {
        change(&mut self.world().config);
    }

    /// Tasks of this kind play other processes: the limit of descriptors is not theirs. Nor does it count what is open now.
    pub fn have_others(&self, kind: &'static crate::Kind) {
        let mut world = self.world();
        world.others = Some(kind);
        world.endpoints.values_mut().for_each(|e| e.is_others = e.token.is_some());
    }

    /// What happened so far.
    pub fn counts(&self) -> SimCounts {
        self.world().counts
    }

    /// Descriptors that are open.
    pub fn descriptors(&self) -> usize {
        self.world().descriptors()
    }

    /// A listening socket for whoever registers it ([`crate::net::Listener::from_fd`]), as a process inherits them. Call it
    /// on the thread of the run.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EMFILE`, and those of a thread that plays no simulation (`ENOTSUP`).
    pub fn listen(&self, at: &SockAddr, opts: &ListenOptions) -> io::Result<OwnedFd> {
        super::with(|d| d.simulated().map(|sim| sim.open_listener(at, opts)))
            .unwrap_or(Err(os(libc::ENOTSUP)))
    }

    /// Keeps a journal of everything that happens from now on.
    pub fn keep_journal(&self) {
        self.world().journal.start();
    }

    /// Adds a line of the scenario's own to the journal; `text` is not called when there is none.
    pub fn note(&self, text: impl FnOnce() -> String) {
        self.world().write_down(|_| text());
    }

    /// The journal so far: nanoseconds since the start of the run, and what happened.
    pub fn journal(&self) -> Vec<(u64, String)> {
        let world = self.world();
        world.journal.entries.iter().map(|(at, text)| (at - world::START_NS, text.clone())).collect()
    }

    /// The tasks that live on this thread, with the name of their kind.
    pub fn tasks(&self) -> Vec<(TaskId, &'static str)> {
        crate::scheduler::local().map(|local| local.living()).unwrap_or_default()
    }

    /// Ends the run with a complaint: an invariant of the scenario does not hold.
    pub fn fail(&self, why: impl Into<String>) {
        self.world().verdict.get_or_insert(why.into());
        crate::stop();
    }
}

/// Receives at most `max` bytes; none are the end of the stream. Registers the current task as the one to wake. For the peers of the
/// code under test, which live on its thread and take no part in the limits of its buffers.
///
/// # Errors
/// The socket's error (`ECONNRESET`), and those of a thread that plays no simulation (`ENOTSUP`).
pub fn receive(stream: &mut Stream, max: usize) -> Poll<io::Result<Vec<u8>>> {
    let s = stream.record();
    super::with(|d| d.simulated().map(|sim| sim.receive(s, max.max(1))))
        .unwrap_or(Poll::Ready(Err(os(libc::ENOTSUP))))
}

pub(crate) struct SimDriver {
    network: Network,
    /// Records with a send that leaves at the next poll.
    deferred: Vec<EndpointId>,
    /// Endpoints whose descriptor was handed out and is in no record.
    loose: Vec<EndpointId>,
    /// What descriptors of endpoints are copies of.
    original: Option<Original>,
    idle_rounds: u64,
    started_ns: u64,
}

/// A descriptor, and the number of its file, which those that others open do not have.
struct Original {
    fd: OwnedFd,
    file: u64,
}

impl Original {
    /// An end of a pipe, whose copies cost less than pipes of their own.
    fn new() -> io::Result<Original> {
        let mut fds = [0; 2];
        // SAFETY: the call fills the two integers.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } < 0 {
            return Err(io::Error::last_os_error());
        }
        syscall::close(fds[1]);
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fds[0]) };
        Ok(Original { fd, file: file_of(fds[0]).unwrap_or(0) })
    }
}

fn os(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl SimDriver {
    pub fn new(network: Network) -> SimDriver {
        let (now_ns, wall_us) = {
            let world = network.world();
            (world.now_ns, world.wall_us)
        };
        crate::clock::set_virtual(now_ns, wall_us.cast_unsigned());
        SimDriver {
            network,
            deferred: Vec::new(),
            loose: Vec::new(),
            original: None,
            idle_rounds: 0,
            started_ns: now_ns,
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.network.world()
    }

    /// A real descriptor that stands for an endpoint, so that ownership works as everywhere.
    fn token(&mut self, id: EndpointId) -> io::Result<OwnedFd> {
        let original = match self.original.take() {
            Some(original) => original,
            None => Original::new()?,
        };
        let token = original.fd.try_clone();
        let file = original.file;
        self.original = Some(original);
        let fd = token?;
        self.world().bind_token(id, fd.as_raw_fd(), file);
        self.loose.push(id);
        Ok(fd)
    }

    pub fn open_stream(&mut self, to: &SockAddr, opts: &ConnectOptions) -> io::Result<OwnedFd> {
        let mut world = self.world();
        world.may_open().map_err(os)?;
        let mut local = match (&opts.source, to) {
            (Some(source), _) => source.clone(),
            (None, SockAddr::V4(_)) => SockAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 255, 0, 1), 0)),
            (None, SockAddr::V6(a)) => {
                let mut local = *a;
                local.set_port(0);
                SockAddr::V6(local)
            }
            (None, _) => SockAddr::unnamed(),
        };
        if local.port() == Some(0) {
            let port = match opts.source_ports {
                Some((first, last)) => world.rng.within(first.into(), last.into()) as u16,
                None => world.pick_port(),
            };
            local.set_port(port);
        }
        let id = world.add(Kind::Stream, local, to.clone());
        drop(world);
        self.token(id)
    }

    pub fn open_listener(&mut self, at: &SockAddr, opts: &ListenOptions) -> io::Result<OwnedFd> {
        let mut world = self.world();
        world.may_open().map_err(os)?;
        let mut at = at.clone();
        if at.port() == Some(0) {
            let port = world.pick_port();
            at.set_port(port);
        }
        if !opts.reuseport && world.address_taken(&at, Kind::Listener) {
            return Err(os(libc::EADDRINUSE));
        }
        let id = world.add(Kind::Listener, at, SockAddr::unnamed());
        if let Some(e) = world.endpoints.get_mut(&id) {
            e.backlog_max = opts.backlog.max(1) as usize;
        }
        drop(world);
        self.token(id)
    }

    pub fn open_datagram(&mut self, at: Option<&SockAddr>, peer: Option<&SockAddr>) -> io::Result<OwnedFd> {
        let mut world = self.world();
        world.may_open().map_err(os)?;
        let any = || SockAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 255, 0, 1), 0));
        let mut at = at.cloned().unwrap_or_else(any);
        if at.port() == Some(0) {
            let port = world.pick_port();
            at.set_port(port);
        }
        if world.address_taken(&at, Kind::Datagram) {
            return Err(os(libc::EADDRINUSE));
        }
        let id = world.add(Kind::Datagram, at, peer.cloned().unwrap_or_else(SockAddr::unnamed));
        drop(world);
        self.token(id)
    }

    pub fn addresses(&mut self, s: &Socket) -> (SockAddr, SockAddr) {
        match self.world().endpoints.get(&s.sim) {
            Some(e) => (e.local.clone(), e.remote.clone()),
            None => (SockAddr::unnamed(), SockAddr::unnamed()),
        }
    }

    pub fn set_reset(&mut self, s: &Socket) {
        if let Some(e) = self.world().endpoints.get_mut(&s.sim) {
            e.linger_reset = true;
        }
    }

    pub fn register(&mut self, s: &mut Socket) -> io::Result<()> {
        if s.bits.has(Bits::REGISTERED) {
            return Ok(());
        }
        let mut world = self.network.world();
        let Some(id) = world.of_token(s.fd) else { return Err(os(libc::EBADF)) };
        if world.prevented(|c| c.enomem_ppm, "ENOMEM") {
            return Err(os(libc::ENOMEM));
        }
        s.sim = id;
        s.bits.set(Bits::REGISTERED);
        if let Some(e) = world.endpoints.get_mut(&id) {
            e.socket = Some(std::ptr::from_mut(s).expose_provenance());
        }
        drop(world);
        self.loose.retain(|other| *other != id);
        Ok(())
    }

    pub fn unregister(&mut self, s: &mut Socket) {
        s.bits.clear(Bits::REGISTERED);
        if let Some(e) = self.world().endpoints.get_mut(&s.sim) {
            e.socket = None;
        }
        if !s.bits.has(Bits::LISTENER) {
            self.loose.push(s.sim);
        }
    }

    pub fn close(&mut self, s: &mut Socket) {
        if s.bits.has(Bits::SENDING) {
            // One attempt, as everywhere.
            self.continue_send(s);
        }
        s.clear_tx();
        self.deferred.retain(|id| *id != s.sim);
        self.world().close(s.sim);
        if !s.leave_shared() {
            syscall::close(s.fd);
        }
        s.fd = -1;
    }

    pub fn poll_recv(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Buf>> {
        if let Some(buf) = s.pop_rx(max) {
            return Poll::Ready(Ok(buf));
        }
        if !s.bits.has(Bits::READABLE) {
            s.reader = current_task();
            return Poll::Pending;
        }
        let Poll::Ready((mut buf, room)) = s.room(max) else {
            // As with the kernel, an end takes no buffer.
            s.reader = current_task();
            let mut world = self.world();
            let is_over = |e: &Endpoint| e.rx.is_empty() && (e.rx_end || e.error != 0);
            if !world.endpoints.get(&s.sim).is_some_and(is_over) {
                return Poll::Pending;
            }
            buffer::leave_queue();
            return Poll::Ready(world.recv(s.sim, &mut [], false).map(|_| Buf::empty()).map_err(os));
        };
        let result = self.world().recv(s.sim, &mut buf.unused_mut()[..room], false);
        match result {
            Ok(n) => {
                buf.commit(n);
                if n > 0 {
                    s.rx_ms = moment();
                    s.note_received(n, room);
                }
                Poll::Ready(Ok(buf))
            }
            Err(libc::EAGAIN) => {
                s.bits.clear(Bits::READABLE);
                s.reader = current_task();
                Poll::Pending
            }
            Err(errno) => Poll::Ready(Err(os(errno))),
        }
    }

    fn receive(&mut self, s: &mut Socket, max: usize) -> Poll<io::Result<Vec<u8>>> {
        if !self.has_input(s) {
            s.reader = current_task();
            return Poll::Pending;
        }
        let mut world = self.world();
        let there = world.endpoints.get(&s.sim).map_or(0, |e| e.rx.len());
        let mut bytes = vec![0; there.clamp(1, max)];
        let received = world.recv(s.sim, &mut bytes, false).map_err(os);
        Poll::Ready(received.map(|n| {
            bytes.truncate(n);
            bytes
        }))
    }

    pub fn poll_readable(&mut self, s: &mut Socket) -> Poll<io::Result<()>> {
        if self.has_input(s) {
            return Poll::Ready(Ok(()));
        }
        s.reader = current_task();
        Poll::Pending
    }

    pub fn has_input(&mut self, s: &mut Socket) -> bool {
        if s.rx.is_some() {
            return true;
        }
        if !s.bits.has(Bits::READABLE) {
            return false;
        }
        let world = self.world();
        let there = world.endpoints.get(&s.sim).is_none_or(|e| !e.rx.is_empty() || e.rx_end || e.error != 0);
        if !there {
            s.bits.clear(Bits::READABLE);
        }
        there
    }

    pub fn is_leaving(&mut self, s: &mut Socket) -> bool {
        s.reader = current_task();
        self.world().endpoints.get(&s.sim).is_none_or(|e| e.rx_end || e.error != 0)
    }

    pub fn is_broken(&mut self, s: &Socket) -> bool {
        self.world().endpoints.get(&s.sim).is_none_or(|e| e.error != 0)
    }

    pub fn arm_input(&mut self, _: &mut Socket) {}
    pub fn want_input(&mut self, _: &mut Socket) {}
    pub fn want_output(&mut self, _: &mut Socket) {}

    pub fn start_send(&mut self, s: &mut Socket) {
        s.bits.set(Bits::SENDING);
        if self.world().config.deferred_sends {
            self.deferred.push(s.sim);
        } else {
            self.continue_send(s);
        }
    }

    fn continue_send(&mut self, s: &mut Socket) {
        while s.bits.has(Bits::SENDING) {
            let result = {
                let parts = [s.tx.as_deref().unwrap_or(&[]), s.second().map_or(&[][..], |b| &b[..])];
                self.network.world().send(s.sim, &parts)
            };
            match result {
                Ok(n) => _ = s.tx_advance(n),
                Err(libc::EAGAIN) => {
                    s.bits.clear(Bits::WRITABLE);
                    return;
                }
                Err(errno) => s.tx_failed(errno),
            }
        }
        if s.bits.has(Bits::SHUT_PENDING) {
            s.bits.clear(Bits::SHUT_PENDING);
            _ = self.shutdown_write(s);
        }
    }

    pub fn shutdown_write(&mut self, s: &mut Socket) -> io::Result<()> {
        self.world().shutdown(s.sim).map_err(os)
    }

    pub fn start_connect(&mut self, s: &mut Socket) -> io::Result<()> {
        self.world().connect(s.sim);
        Ok(())
    }

    pub fn recv(&mut self, s: &mut Socket, buf: &mut [u8], flags: i32) -> Result<usize, i32> {
        self.world().recv(s.sim, buf, flags & libc::MSG_PEEK != 0)
    }

    pub fn send(&mut self, s: &mut Socket, parts: &[&[u8]]) -> Result<usize, i32> {
        self.world().send(s.sim, parts)
    }

    pub fn accept(&mut self, s: &mut Socket) -> Result<(OwnedFd, SockAddr), i32> {
        let id = self.world().accept(s.sim)?;
        let peer = self.world().endpoints.get(&id).map_or_else(SockAddr::unnamed, |e| e.remote.clone());
        match self.token(id) {
            Ok(fd) => Ok((fd, peer)),
            Err(e) => {
                self.world().close(id);
                Err(e.raw_os_error().unwrap_or(libc::EMFILE))
            }
        }
    }

    pub fn recv_datagram(&mut self, s: &mut Socket) -> Result<Received, i32> {
        let mut world = self.world();
        let Some(e) = world.endpoints.get_mut(&s.sim) else { return Err(libc::EBADF) };
        let Some((from, bytes)) = e.datagrams.pop_front() else { return Err(libc::EAGAIN) };
        let to = e.local.ip();
        world.active = true;
        drop(world);
        Ok(Received { bytes: Buf::copy_of(&bytes), from, segment: None, to, truncated: false })
    }

    pub fn send_datagram(&mut self, s: &Socket, bytes: &[u8], to: Option<SockAddr>, segment: u16) {
        let size = if segment == 0 { bytes.len().max(1) } else { usize::from(segment) };
        let mut world = self.world();
        if bytes.is_empty() {
            world.send_datagram(s.sim, bytes, to.clone());
        }
        for part in bytes.chunks(size) {
            world.send_datagram(s.sim, part, to.clone());
        }
    }

    /// Lets time pass and things happen; see [`super::Driver::poll`].
    pub fn poll(&mut self, wait: Wait) -> io::Result<PollStats> {
        for id in std::mem::take(&mut self.deferred) {
            if let Some(s) = self.record(id) {
                self.continue_send(s);
                if !s.bits.has(Bits::SENDING) {
                    s.wake_writer();
                }
            }
        }
        self.find_closed();
        let (events, mut ready) = self.pass_time(wait);
        crate::clock::refresh();
        // The order in which readiness is reported is anybody's guess.
        let mut world = self.network.world();
        for i in (1..ready.len()).rev() {
            let j = world.rng.below(i as u64 + 1) as usize;
            ready.swap(i, j);
        }
        if world.config.spurious_ppm > 0 {
            let ids: Vec<EndpointId> = world.endpoints.keys().copied().collect();
            for id in ids {
                if world.fault(|c| c.spurious_ppm) {
                    ready.push((id, READABLE | WRITABLE));
                }
            }
        }
        drop(world);
        for (id, what) in ready {
            self.report(id, what);
        }
        Ok(PollStats { events, submitted: 0, entered: true })
    }

    /// Moves the clock as far as `wait` allows, to the next event at most.
    fn pass_time(&mut self, wait: Wait) -> (u32, Vec<(EndpointId, u8)>) {
        let mut world = self.network.world();
        world.counts.rounds += 1;
        let next = world.next_event();
        let now = world.now_ns;
        // A round takes some time, too.
        let step = world.rng.within(100, 3_000);
        let until = match wait {
            Wait::Now => now + step,
            Wait::Until(at) => at.max(now + step),
            Wait::Forever => u64::MAX,
        };
        let mut to = match next {
            Some(at) if at <= until => at.max(now + step),
            _ if until == u64::MAX => {
                let tasks = "nothing is on its way, no timer runs, and the scenario has not ended";
                world.verdict.get_or_insert_with(|| format!("stalled: {tasks}"));
                crate::stop();
                now + step
            }
            _ => until,
        };
        if world.fault(|c| c.pause_ppm) {
            let pause = world.rng.below(10_000_000_000);
            to += pause;
            world.counts.pauses += 1;
            world.write_down(|_| format!("fault the process stands still for {} ms", pause / 1_000_000));
        }
        let events = world.advance(to);
        if world.fault(|c| c.wall_jump_ppm) {
            let day = 86_400_000_000;
            world.wall_us += world.rng.below(2 * day).cast_signed() - day.cast_signed();
        }
        let active = std::mem::take(&mut world.active) || events > 0 || wait != Wait::Now;
        self.idle_rounds = if active { 0 } else { self.idle_rounds + 1 };
        if self.idle_rounds > world.config.idle_rounds_max {
            world.verdict.get_or_insert_with(|| "spinning: tasks run, and nothing happens".to_owned());
            crate::stop();
        }
        if world.now_ns - self.started_ns > world.config.duration_max_s.saturating_mul(1_000_000_000) {
            world.verdict.get_or_insert_with(|| "the scenario takes too long".to_owned());
            crate::stop();
        }
        crate::clock::set_virtual(world.now_ns, world.wall_us.max(0).cast_unsigned());
        (events, std::mem::take(&mut world.ready))
    }

    /// Descriptors that were closed without ever becoming a socket of this driver.
    fn find_closed(&mut self) {
        if self.loose.is_empty() {
            return;
        }
        let mut world = self.network.world();
        self.loose.retain(|id| {
            let Some(token) = world.endpoints.get(id).map(|e| e.token) else { return false };
            let open = token.is_some_and(|(fd, file)| file_of(fd) == Some(file));
            if !open {
                world.close(*id);
            }
            open
        });
    }

    #[allow(clippy::mut_from_ref, reason = "records are reached by address; see `socket`")]
    fn record(&self, id: EndpointId) -> Option<&'static mut Socket> {
        let address = self.world().endpoints.get(&id)?.socket?;
        // SAFETY: a record's owner closes or unregisters it, which removes the address here, before it is freed; no
        // owner runs during a poll. The reference is used within one step of it.
        Some(unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Socket>(address) })
    }

    fn report(&mut self, id: EndpointId, what: u8) {
        let Some(s) = self.record(id) else { return };
        if s.bits.has(Bits::CONNECTING) {
            let (established, error) = match self.world().endpoints.get_mut(&id) {
                Some(e) => (e.established, if e.established { 0 } else { std::mem::take(&mut e.error) }),
                None => (false, libc::ECONNABORTED),
            };
            if !established && error == 0 {
                return;
            }
            s.bits.clear(Bits::CONNECTING);
            s.tx_error = Errno::of(error);
        }
        if what & (READABLE | FAILED) != 0 {
            s.bits.set(Bits::READABLE);
            s.wake_reader();
        }
        if what & (WRITABLE | FAILED) != 0 {
            s.bits.set(Bits::WRITABLE);
            if s.bits.has(Bits::SENDING) && !self.deferred.contains(&id) {
                self.continue_send(s);
                if s.bits.has(Bits::SENDING) {
                    return;
                }
            }
            s.wake_writer();
        }
    }
}

/// The number of the file behind a descriptor, which tells it from a later one with the same number.
fn file_of(fd: i32) -> Option<u64> {
    // SAFETY: all-zero bytes are valid for this C structure, and the call fills it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat.st_ino)
    }
}
