//! What a scenario is: everything in it follows from its seed and is decided before it begins.

mod change;
mod client;
mod health;
mod proxy;
mod request;
mod server;
mod streams;
mod tcp;
mod tls;
mod unix;

use std::net::SocketAddr;

use thalweg_runtime::driver::sim::SimConfig;
use thalweg_runtime::net::SockAddr;

use crate::random::Random;

pub use change::{ChangePlan, Guest, OF_BACKEND, OF_FRONTEND};
pub use client::{ClientPlan, Ending, Group, How, Leave, Pace, When};
pub use health::{AgentPlan, BEGIN_MS, CheckPlan, HealthPlan, Speaks};
pub use proxy::{BackendPlan, CHECK_PATH, LOG, ProxyPlan, Retry};
pub use request::{Act, Answer, Delimited, Fault, Kind, RequestPlan, Upload, When as AnswerWhen};
pub use server::{Drop, Life, ServerPlan};
pub use streams::{Break, STREAMS_FIRST, STREAMS_FRONT, StreamPlan, StreamsPlan, StreamsSession};
pub use tcp::{TCP_FRONT, TcpPlan, TcpSession};
pub use tls::TlsPlan;

/// How many scenarios in a hundred have hedged requests, and what their seed is changed by for that.
const HEDGE_PERCENT: u64 = 25;
const HEDGE_SEED: u64 = 0x4ed6_4ed6;

/// How many scenarios in a hundred have HTTP/2, and what their seed is changed by for that.
const STREAMS_PERCENT: u64 = 35;
const STREAMS_SEED: u64 = 0x2c2c_2c2c;

/// The same of TLS.
const TLS_PERCENT: u64 = 15;
const TLS_SEED: u64 = 0x0715_0715;

/// The same of a limit on buffers.
const BUFFERS_PERCENT: u64 = 12;
const BUFFERS_SEED: u64 = 0xb0f5_b0f5;

/// The same of checks that are not of HTTP, and of agents.
const HEALTH_PERCENT: u64 = 15;
const HEALTH_SEED: u64 = 0x4ea1_4ea1;

/// The same of unix sockets.
const UNIX_PERCENT: u64 = 12;
const UNIX_SEED: u64 = 0xaf01_af01;

/// The same of changes of the configuration.
const CHANGE_PERCENT: u64 = 40;
const CHANGE_SEED: u64 = 0x5eed_5eed;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Whether anything goes wrong on purpose; if not, every request must be answered by its server.
    pub calm: bool,
    /// Whether the network and the process fail.
    pub storms: bool,
    pub proxy: ProxyPlan,
    pub servers: Vec<ServerPlan>,
    pub clients: Vec<ClientPlan>,
    pub tcp: Option<TcpPlan>,
    pub streams: Option<StreamsPlan>,
    pub tls: TlsPlan,
    pub health: HealthPlan,
    /// What becomes of the configuration, if it changes.
    pub change: Option<ChangePlan>,
    /// What an operator does, and when.
    pub deeds: Vec<(u64, usize, Deed)>,
    /// By the number that the request and its answer carry.
    pub requests: Vec<RequestPlan>,
    /// What the network is like once everything has started.
    pub network: SimConfig,
    /// When a soft stop begins, if one does, in milliseconds.
    pub soft_stop_ms: Option<u64>,
}

impl Plan {
    /// The scenario of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let random = &mut random;
        let calm = random.chance(25);
        // A few kinds of trouble at a time: with all of them at once nothing would ever succeed.
        let trouble = Trouble::draw(random, calm);
        let mut proxy = ProxyPlan::draw(random, &trouble);
        let tcp = random.chance(30).then(|| TcpPlan::draw(random, &trouble, &mut proxy.text));
        let mut servers: Vec<_> = (0..proxy.server_count())
            .map(|i| ServerPlan::draw(random, &trouble, proxy.address_of(i).into()))
            .collect();
        let mut requests = Vec::new();
        let clients = (0..random.within(1, 8))
            .map(|_| ClientPlan::draw(random, &trouble, &proxy, &mut requests))
            .collect();
        let soft_stop_ms = (!calm && random.chance(15)).then(|| random.below(3_000));
        let mut network = network(random, &trouble, seed);
        let deeds = deeds(random, calm, proxy.server_count());
        // Drawn apart: the rest of a scenario is the same with and without it.
        let own = &mut Random::new(seed ^ HEDGE_SEED);
        if own.chance(HEDGE_PERCENT) {
            proxy.hedge(own);
        }
        let own = &mut Random::new(seed ^ STREAMS_SEED);
        let streams = own.chance(STREAMS_PERCENT).then(|| StreamsPlan::draw(own, &trouble, &mut proxy.text));
        let own = &mut Random::new(seed ^ TLS_SEED);
        // A client that comes through a door counts twice where connections are, and a door that is shut ends what goes through it.
        let may_tls = !proxy.is_limited && soft_stop_ms.is_none();
        let tls = match may_tls && own.chance(TLS_PERCENT) {
            true => TlsPlan::draw(own, &trouble, &mut proxy),
            false => TlsPlan::default(),
        };
        // A relay that waits for as long as it takes holds what the proxy behind it waits for.
        let relays = !tls.fronts.is_empty();
        if relays {
            network.descriptors_max = SimConfig::faultless().descriptors_max;
        }
        let own = &mut Random::new(seed ^ BUFFERS_SEED);
        if !relays && own.chance(BUFFERS_PERCENT) {
            proxy.limit_buffers(own, &trouble);
        }
        let own = &mut Random::new(seed ^ HEALTH_SEED);
        let health = match own.chance(HEALTH_PERCENT) {
            true => HealthPlan::draw(own, &trouble, &mut proxy),
            false => HealthPlan::default(),
        };
        if trouble.server_faults > 0 {
            health.fall_ill(own, &mut servers);
        }
        let own = &mut Random::new(seed ^ UNIX_SEED);
        if own.chance(UNIX_PERCENT) {
            unix::move_in(own, &mut proxy, &tls, &mut servers);
        }
        let own = &mut Random::new(seed ^ CHANGE_SEED);
        let change = own.chance(CHANGE_PERCENT).then(|| ChangePlan::draw(own, &mut proxy));
        for guest in 0..change.as_ref().map_or(0, |change| change.guests.len()) {
            let address = proxy.address_of(proxy.server_count() + guest);
            servers.push(ServerPlan::draw(own, &trouble, address.into()));
        }
        Plan {
            seed,
            calm,
            storms: trouble.storm,
            proxy,
            servers,
            clients,
            tcp,
            streams,
            tls,
            health,
            change,
            deeds,
            requests,
            network,
            soft_stop_ms,
        }
    }

    /// Where a client connects.
    pub fn entrance(&self, client: usize) -> SockAddr {
        let front = || self.proxy.fronts[self.clients[client].front].clone();
        self.door(client).map_or_else(front, SockAddr::from)
    }

    /// Whether a client has no address, and says who it is.
    pub fn introduces_itself(&self, client: usize) -> bool {
        self.entrance(client).is_unix()
    }

    /// Whether a client comes through a door: what breaks behind that ends in order before it.
    pub fn has_door(&self, client: usize) -> bool {
        self.door(client).is_some()
    }

    fn door(&self, client: usize) -> Option<SocketAddr> {
        self.tls.doors.get(self.clients[client].front).copied().flatten()
    }

    /// Whether so many bytes and a few more that are sent at once also arrive at once.
    pub fn is_prompt(&self, len: usize) -> bool {
        self.network.short_write_ppm == 0 && len + 1_000 < self.network.send_buffer.0
    }

    /// Whether a request goes to servers at all.
    pub fn is_forwarded(&self, id: usize) -> bool {
        self.requests[id].kind.own_status().is_none()
    }
}

/// What an operator does to a server.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Maintain,
    Drain,
    Ready,
    Weight(u32),
    Maxconn(u32),
}

impl Deed {
    fn draw(random: &mut Random) -> Deed {
        match random.below(7) {
            0 => Deed::Maintain,
            1 => Deed::Drain,
            2..=4 => Deed::Ready,
            5 => Deed::Weight(random.below(5) as u32),
            _ => Deed::Maxconn(random.below(3) as u32),
        }
    }
}

/// What goes wrong in a scenario.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    /// Nothing does.
    pub calm: bool,
    /// Percent of the answers of servers that are not as they should be.
    pub server_faults: u64,
    /// Servers stop and start.
    pub servers_flap: bool,
    /// Percent of the clients that leave before their end.
    pub clients_leave: u64,
    /// Percent of the clients and servers that are slow.
    pub slow: u64,
    /// The network and the process fail.
    pub storm: bool,
    /// Timeouts are so short that they are reached.
    pub short_timeouts: bool,
    /// More requests than places.
    pub crowded: bool,
}

impl Trouble {
    fn draw(random: &mut Random, calm: bool) -> Trouble {
        if calm {
            return Trouble { calm, crowded: random.chance(30), ..Trouble::default() };
        }
        let mut some = |chance, most| if random.chance(chance) { random.within(5, most) } else { 0 };
        Trouble {
            calm,
            server_faults: some(50, 60),
            clients_leave: some(40, 60),
            slow: some(40, 60),
            servers_flap: random.chance(25),
            storm: random.chance(25),
            short_timeouts: random.chance(40),
            crowded: random.chance(40),
        }
    }
}

/// What an operator does to one of so many servers, and after how many milliseconds.
fn deeds(random: &mut Random, calm: bool, server_count: usize) -> Vec<(u64, usize, Deed)> {
    let count = if calm || random.chance(70) { 0 } else { random.within(1, 6) };
    (0..count)
        .map(|_| (random.below(3_000), random.below(server_count as u64) as usize, Deed::draw(random)))
        .collect()
}

/// The network of a scenario.
fn network(random: &mut Random, trouble: &Trouble, seed: u64) -> SimConfig {
    let storm = if trouble.storm { SimConfig::stormy(seed) } else { SimConfig::faultless() };
    let mut ppm = |most: u64| if random.chance(60) { 0 } else { random.below(most) as u32 };
    let mut config = SimConfig {
        // A listener is registered rarely: only what fails often fails there.
        enomem_ppm: storm.enomem_ppm * if trouble.crowded { 30 } else { 5 },
        // What is no fault: receives and sends that take a part, wake-ups for nothing.
        short_read_ppm: ppm(500_000),
        short_write_ppm: ppm(500_000),
        spurious_ppm: ppm(50_000),
        // The log is what the scenario is judged by.
        datagram_loss_ppm: 0,
        datagram_twice_ppm: 0,
        datagram_reorder: false,
        // Whoever looks at the journal wants to find things by their time.
        pause_ppm: storm.pause_ppm / 20,
        ..storm
    };
    if trouble.storm && random.chance(30) {
        config.descriptors_max = random.within(4, 40) as usize;
    }
    config.deferred_sends = random.chance(50);
    config.latency_us = *random.pick(&[(1, 10), (10, 200), (10, 200), (10, 5_000), (1_000, 20_000)]);
    config.send_buffer = *random.pick(&[(100, 3_000), (1_000, 65_536), (65_536, 65_536), (65_536, 1 << 20)]);
    if trouble.calm && config.send_buffer.0 < 1_000 {
        // With both, what many requests ask for takes longer than any timeout.
        config.latency_us.1 = config.latency_us.1.min(5_000);
    }
    config
}
