//! What expressions may ask about the rest of the process.

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_config::model::{self, Config, LogDest, Password};
use thalweg_runtime::net::SocketId;
use thalweg_runtime::profile;
use thalweg_sample::context::{ProxyFigures, ProxyTimeouts, ServerFigures, TaskFigures, TcpInfo, World};
use thalweg_sample::facts::{ListenerId, ProxyId, ServerId, TableId};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::vars::VarSet;
use thalweg_shared::{Ordering, RwLock};
use thalweg_tls::live::TokenCertificate;

use crate::counters::sum;
use crate::instance::Instance;
use crate::worker::Worker;

fn proxy(config: &Config, id: ProxyId) -> &model::Proxy {
    config.proxy(model::ProxyId(id.0))
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Instance {
    /// Connections of a frontend plus streams of a backend: what `conn` means for a proxy.
    pub fn frontend_connections(&self, id: model::ProxyId) -> u32 {
        self.frontend_gates[id.0 as usize].current()
    }

    /// Streams a backend has now.
    pub fn backend_streams(&self, id: model::ProxyId) -> u32 {
        narrow(sum(&*self.threads, |t| &t.backends[id.0 as usize].current))
    }

    /// Streams a server has now.
    pub fn server_streams(&self, id: model::ProxyId, server: model::ServerId) -> u32 {
        let index = self.server_index(id, server);
        narrow(self.servers.sum(index, |c| &c.current))
    }
}

impl World for Worker {
    fn capture_len(&self, frontend: ProxyId, response: bool, slot: usize) -> Option<usize> {
        let frontend = proxy(&self.instance.config, frontend);
        let slots = if response { &frontend.response_captures } else { &frontend.request_captures };
        slots.get(slot).map(|capture| capture.len as usize)
    }

    fn debug_line(&self, sink: &[u8], line: &[u8]) {
        let dest = match sink {
            b"stdout" => LogDest::Stdout,
            b"stderr" => LogDest::Stderr,
            // It was found when the configuration was read.
            name => LogDest::Ring(String::from_utf8_lossy(name).into()),
        };
        self.note(&dest, line);
    }

    fn proxy_name(&self, id: ProxyId) -> &str {
        &proxy(&self.instance.config, id).name
    }

    fn token_certificate(&self, name: &[u8]) -> TokenCertificate {
        let certificates = self.instance.config.token_certificates.as_ref();
        let found = std::str::from_utf8(name).ok().zip(certificates).map(|(name, all)| all.find(name));
        found.unwrap_or(TokenCertificate::Unknown)
    }

    fn token_key(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.instance.config.token_keys.get(path).cloned()
    }

    fn proxy_number(&self, id: ProxyId) -> u32 {
        proxy(&self.instance.config, id).uid
    }

    fn default_backend_name(&self, id: ProxyId) -> Option<&str> {
        let backend = proxy(&self.instance.config, id).default_backend?;
        Some(&self.instance.config.proxy(backend).name)
    }

    fn proxy_figures(&self, id: ProxyId) -> ProxyFigures {
        let config = &self.instance.config;
        let p = proxy(config, id);
        let at = id.0 as usize;
        let now_ms = thalweg_runtime::clock::now_ms();
        let threads = &self.instance.threads;
        let backend = &self.instance.backends[at];
        let rate = |pick: &dyn Fn(&crate::counters::ThreadCounters) -> u64| {
            narrow(threads.iter().map(|t| pick(t)).sum())
        };
        let (sess_rate, req_rate) = if p.is_fe() {
            (
                narrow(
                    self.instance.frontend_counters(p.id).map(|c| c.session_rate.per_second(now_ms)).sum(),
                ),
                narrow(
                    self.instance.frontend_counters(p.id).map(|c| c.request_rate.per_second(now_ms)).sum(),
                ),
            )
        } else {
            (
                rate(&|t| t.backends[at].session_rate.per_second(now_ms)),
                rate(&|t| t.backends[at].request_rate.per_second(now_ms)),
            )
        };
        let own_queue = backend.queue_len();
        let mut free = 0i64;
        let mut slots = 0i64;
        let mut unlimited_free = false;
        let mut unlimited_slots = false;
        for server in &p.servers {
            if !backend.is_usable(server.id) {
                continue;
            }
            let streams = i64::from(self.instance.server_streams(p.id, server.id));
            let queued = i64::from(backend.server_queue_len(server.id));
            if server.maxconn == 0 {
                unlimited_free = true;
                unlimited_slots = true;
                continue;
            }
            let room = i64::from(backend.dynamic_maxconn(server)) - streams;
            free += room.max(0);
            match server.maxqueue {
                0 => unlimited_slots = true,
                max => slots += (room + i64::from(max) - queued).max(0),
            }
        }
        ProxyFigures {
            conn: if p.is_fe() && !p.is_be() {
                self.instance.frontend_connections(p.id)
            } else if p.is_fe() {
                self.instance.frontend_connections(p.id).max(self.instance.backend_streams(p.id))
            } else {
                self.instance.backend_streams(p.id)
            },
            queue: own_queue,
            total_queue: own_queue + p.servers.iter().map(|s| backend.server_queue_len(s.id)).sum::<u32>(),
            servers_up: backend.usable_count(),
            sess_rate,
            req_rate,
            conn_free: if unlimited_free { -1 } else { free },
            conn_slots: if unlimited_slots { -1 } else { slots },
        }
    }

    fn proxy_timeouts(&self, id: ProxyId) -> ProxyTimeouts {
        let t = &proxy(&self.instance.config, id).timeouts;
        ProxyTimeouts {
            client: t.client.unwrap_or(0),
            connect: t.connect.unwrap_or(0),
            queue: t.queue.unwrap_or(0),
            server: t.server.unwrap_or(0),
            tarpit: t.tarpit.unwrap_or(0),
            tunnel: t.tunnel.unwrap_or(0),
        }
    }

    fn proxy_retries(&self, id: ProxyId) -> u32 {
        u32::from(proxy(&self.instance.config, id).retries)
    }

    fn is_proxy_to_clients(&self, frontend: ProxyId) -> bool {
        proxy(&self.instance.config, frontend).opts.http_use_proxy_header
    }

    fn frontend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        Some(ProxyId(self.instance.frontend_by_name(name)?.id.0))
    }

    fn backend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        Some(ProxyId(self.instance.backend_by_name(name)?.id.0))
    }

    fn server_by_name(&self, backend: ProxyId, name: &[u8]) -> Option<ServerId> {
        let name = std::str::from_utf8(name).ok()?;
        let live = &self.instance.backends[backend.0 as usize];
        let server = live.server_by_name(proxy(&self.instance.config, backend), name)?;
        Some(ServerId { proxy: backend, index: server.id.0 })
    }

    fn with_server_name(&self, id: ServerId, f: &mut dyn FnMut(&str)) {
        let proxy = proxy(&self.instance.config, id.proxy);
        if let Some(server) = self.server(proxy, model::ServerId(id.index)) {
            self.with_name(proxy.id, server, f);
        }
    }

    fn server_number(&self, id: ServerId) -> u32 {
        let proxy = proxy(&self.instance.config, id.proxy);
        let server = self.server(proxy, model::ServerId(id.index));
        server.map_or(0, |server| server.uid)
    }

    fn server_figures(&self, id: ServerId) -> ServerFigures {
        let p = proxy(&self.instance.config, id.proxy);
        let Some(server) = self.server(p, model::ServerId(id.index)) else { return ServerFigures::default() };
        let backend = &self.instance.backends[id.proxy.0 as usize];
        let index = self.instance.server_index(p.id, server.id);
        let now_ms = thalweg_runtime::clock::now_ms();
        let rate = self.instance.servers.all(index).map(|c| c.session_rate.per_second(now_ms)).sum();
        let weight = backend.weight(server.id);
        ServerFigures {
            conn: self.instance.server_streams(p.id, server.id),
            maxconn: backend.dynamic_maxconn(server),
            queue: backend.server_queue_len(server.id),
            sess_rate: narrow(rate),
            up: backend.is_up(server.id),
            initial_weight: u32::from(server.weight),
            user_weight: weight,
            weight,
        }
    }

    fn listener_name(&self, id: ListenerId) -> Option<&str> {
        self.instance.bind(id.0 as usize).name.as_deref()
    }

    fn listener_number(&self, id: ListenerId) -> u32 {
        self.instance.bind(id.0 as usize).uid
    }

    fn listener_is_tls(&self, id: ListenerId) -> bool {
        self.instance.bind(id.0 as usize).tls.as_deref().is_some_and(|tls| tls.ssl)
    }

    fn listener_connections(&self, id: ListenerId) -> u32 {
        self.instance.listeners[id.0 as usize].gate.current()
    }

    fn active_connections(&self) -> u32 {
        self.instance.process_gate.current()
    }

    fn hostname(&self) -> &str {
        &self.instance.hostname
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn thread(&self) -> u32 {
        narrow(self.thread as u64) + 1
    }

    fn task_figures(&self) -> TaskFigures {
        let found = profile::figures();
        TaskFigures { calls: found.calls.into(), ran_ns: found.ran_ns, waited_ns: found.waited_ns }
    }

    fn thread_busy_percent(&self) -> u32 {
        narrow(profile::thread_busy_percent())
    }

    fn process_busy_percent(&self) -> u32 {
        narrow(profile::mean_busy_percent())
    }

    fn uptime(&self) -> u64 {
        thalweg_runtime::clock::wall_us().saturating_sub(self.instance.start_wall_us) / 1_000_000
    }

    fn stopping(&self) -> bool {
        self.instance.says_it_stops()
    }

    fn is_local(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || thalweg_sys::net::is_local(addr)
    }

    fn tcp_info(&self, socket: u64) -> Option<TcpInfo> {
        let info = SocketId::from(socket).tcp_info()?;
        Some(TcpInfo {
            rtt_us: info.rtt_us,
            rttvar_us: info.rtt_variance_us,
            unacked: info.unacked,
            sacked: info.sacked,
            lost: info.lost,
            retrans: info.retransmits,
            fackets: info.fackets,
            reordering: info.reordering,
        })
    }

    fn random(&self) -> u64 {
        self.next_random()
    }

    fn check_auth(&self, userlist: u32, user: &[u8], password: &[u8]) -> bool {
        let Some(list) = self.instance.config.userlists.get(userlist as usize) else { return false };
        let Ok(name) = std::str::from_utf8(user) else { return false };
        let Some(user) = list.users.iter().find(|u| &*u.name == name) else { return false };
        match &user.password {
            Password::Clear(text) => text.as_bytes() == password,
            Password::Crypt(hash) => self.crypt.borrow_mut().matches(password, hash.as_bytes()),
        }
    }

    fn user_in_group(&self, userlist: u32, user: &[u8], group: &[u8]) -> bool {
        let Some(list) = self.instance.config.userlists.get(userlist as usize) else { return false };
        let of = |bytes| std::str::from_utf8(bytes).ok();
        let (Some(user), Some(group)) = (of(user), of(group)) else { return false };
        let Some(user) = list.users.iter().find(|u| &*u.name == user) else { return false };
        user.groups.iter().any(|g| list.groups.get(*g as usize).is_some_and(|name| &**name == group))
    }

    fn unique_id_format(&self, frontend: ProxyId) -> Option<&LogFormat> {
        proxy(&self.instance.config, frontend).unique_id_format.as_deref()
    }

    fn local_offset(&self, unix_seconds: i64) -> i32 {
        thalweg_sys::time::local(unix_seconds).utc_offset_s
    }

    fn table(&self, id: TableId) -> Option<&thalweg_stick::Local> {
        self.tables.get(id.0 as usize)
    }

    fn process_vars(&self) -> &RwLock<VarSet> {
        &self.instance.process_vars
    }

    fn next_log_counter(&self, id: ProxyId) -> u64 {
        self.instance.log_counters[id.0 as usize].fetch_add(1, Ordering::Relaxed)
    }
}
