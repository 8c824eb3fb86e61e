//! A small world for tests of expressions: fixed names and figures, no system calls.

use crate::acl::{AclSet, Condition, Verdict};
use crate::context::{
    Clock, Ctx, Payload, ProxyFigures, ProxyTimeouts, Scratch, ServerFigures, TaskFigures, TcpInfo, World,
};
use crate::env::{CompileEnv, Mode, Names, ProxyScope};
use crate::expr::Expr;
use crate::facts::{Endpoint, ListenerId, ProxyId, ServerId, Session, StreamFacts};
use crate::logformat::{LogFormat, Usage};
use crate::pattern::Registry;
use crate::point::Points;
use crate::value::Type;
use crate::vars::{Scope, VarSet};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use thalweg_http::{Head, Version};
use thalweg_shared::{Mutex, RwLock};

/// Two proxies, `fe` (0) and `be` (1), and two servers of `be`, `s1` (up) and `s2` (down).
#[derive(Debug)]
pub struct FakeWorld {
    /// `proc` variables.
    pub vars: RwLock<VarSet>,
    /// Files that patterns are read from.
    pub files: HashMap<String, Vec<u8>>,
    /// The lengths of the capture slots of the frontend: of requests, of responses.
    pub captures: [Vec<usize>; 2],
    /// The public keys that expressions took from files.
    pub token_keys: Mutex<HashMap<Vec<u8>, Arc<[u8]>>>,
    /// What `debug()` said: the sink and the line.
    pub debug_lines: Mutex<Vec<String>>,
}

impl Default for FakeWorld {
    fn default() -> FakeWorld {
        FakeWorld {
            vars: RwLock::new(VarSet::new(Scope::Proc)),
            files: HashMap::new(),
            captures: Default::default(),
            token_keys: Mutex::default(),
            debug_lines: Mutex::default(),
        }
    }
}

const BE: ProxyId = ProxyId(1);

impl World for FakeWorld {
    fn proxy_name(&self, id: ProxyId) -> &str {
        if id == BE { "be" } else { "fe" }
    }
    fn proxy_number(&self, id: ProxyId) -> u32 {
        id.0 + 2
    }
    fn default_backend_name(&self, _: ProxyId) -> Option<&str> {
        Some("be")
    }
    fn proxy_figures(&self, id: ProxyId) -> ProxyFigures {
        ProxyFigures {
            conn: 10 + id.0,
            queue: 4,
            total_queue: 6,
            servers_up: 1,
            sess_rate: 3,
            req_rate: 5,
            conn_free: 90,
            conn_slots: 190,
        }
    }
    fn proxy_timeouts(&self, _: ProxyId) -> ProxyTimeouts {
        ProxyTimeouts { client: 1000, connect: 2000, queue: 3000, server: 4000, tarpit: 5000, tunnel: 6000 }
    }
    fn proxy_retries(&self, _: ProxyId) -> u32 {
        3
    }
    fn is_proxy_to_clients(&self, _: ProxyId) -> bool {
        false
    }
    fn frontend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        (name == b"fe").then_some(ProxyId(0))
    }
    fn backend_by_name(&self, name: &[u8]) -> Option<ProxyId> {
        (name == b"be").then_some(BE)
    }
    fn server_by_name(&self, backend: ProxyId, name: &[u8]) -> Option<ServerId> {
        let index = match name {
            b"s1" => 0,
            b"s2" => 1,
            _ => return None,
        };
        (backend == BE).then_some(ServerId { proxy: backend, index })
    }
    fn with_server_name(&self, id: ServerId, f: &mut dyn FnMut(&str)) {
        f(if id.index == 0 { "s1" } else { "s2" });
    }
    fn server_number(&self, id: ServerId) -> u32 {
        id.index + 1
    }
    fn server_figures(&self, id: ServerId) -> ServerFigures {
        ServerFigures {
            conn: 7,
            maxconn: 100,
            queue: 2,
            sess_rate: 1,
            up: id.index == 0,
            initial_weight: 1,
            user_weight: 50,
            weight: 100,
        }
    }
    fn listener_name(&self, _: ListenerId) -> Option<&str> {
        Some("sock-1")
    }
    fn listener_number(&self, _: ListenerId) -> u32 {
        1
    }
    fn listener_is_tls(&self, _: ListenerId) -> bool {
        false
    }
    fn listener_connections(&self, _: ListenerId) -> u32 {
        8
    }
    fn active_connections(&self) -> u32 {
        42
    }
    fn hostname(&self) -> &str {
        "host"
    }
    fn pid(&self) -> u32 {
        1234
    }
    fn thread(&self) -> u32 {
        0
    }
    fn task_figures(&self) -> TaskFigures {
        TaskFigures { calls: 4, ran_ns: 1002, waited_ns: 203 }
    }
    fn thread_busy_percent(&self) -> u32 {
        25
    }
    fn process_busy_percent(&self) -> u32 {
        20
    }
    fn uptime(&self) -> u64 {
        99
    }
    fn stopping(&self) -> bool {
        false
    }
    fn is_local(&self, addr: IpAddr) -> bool {
        addr.is_loopback()
    }
    fn tcp_info(&self, _: u64) -> Option<TcpInfo> {
        Some(TcpInfo { rtt_us: 1500, rttvar_us: 700, lost: 1, ..TcpInfo::default() })
    }
    fn random(&self) -> u64 {
        0x0123_4567_89ab_cdef
    }
    fn check_auth(&self, list: u32, user: &[u8], password: &[u8]) -> bool {
        list == 0 && user == b"joe" && password == b"secret"
    }
    fn user_in_group(&self, list: u32, user: &[u8], group: &[u8]) -> bool {
        list == 0 && user == b"joe" && group == b"admins"
    }
    fn capture_len(&self, _: ProxyId, response: bool, slot: usize) -> Option<usize> {
        self.captures[usize::from(response)].get(slot).copied()
    }
    fn process_vars(&self) -> &RwLock<VarSet> {
        &self.vars
    }
    fn unique_id_format(&self, _: ProxyId) -> Option<&crate::logformat::LogFormat> {
        None
    }
    fn local_offset(&self, _: i64) -> i32 {
        0
    }
    fn next_log_counter(&self, _: ProxyId) -> u64 {
        0
    }
    fn debug_line(&self, sink: &[u8], line: &[u8]) {
        let mut told = self.debug_lines.lock().unwrap();
        told.push(format!("{}: {}", String::from_utf8_lossy(sink), String::from_utf8_lossy(line)));
    }
    fn token_key(&self, path: &[u8]) -> Option<Arc<[u8]>> {
        self.token_keys.lock().unwrap().get(path).cloned()
    }
    fn table(&self, _: crate::TableId) -> Option<&thalweg_stick::Local> {
        None
    }
}

impl Names for FakeWorld {
    fn frontend(&self, name: &str) -> Option<ProxyId> {
        self.frontend_by_name(name.as_bytes())
    }
    fn backend(&self, name: &str) -> Option<ProxyId> {
        self.backend_by_name(name.as_bytes())
    }
    fn server(&self, backend: ProxyId, name: &str) -> Option<ServerId> {
        self.server_by_name(backend, name.as_bytes())
    }
    fn userlist(&self, name: &str) -> Option<u32> {
        (name == "users").then_some(0)
    }
    fn ring(&self, name: &str) -> bool {
        name == "buf0"
    }
    fn environment(&self, name: &str) -> Option<Vec<u8>> {
        (name == "SET").then(|| b"value".to_vec())
    }
    fn keep_token_key(&self, path: &str, key: &Arc<[u8]>) {
        self.token_keys.lock().unwrap().insert(path.into(), Arc::clone(key));
    }
    fn read_file(&self, path: &str) -> std::io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

/// Everything an evaluation needs, to be filled by a test.
pub struct Rig {
    /// Names and figures.
    pub world: FakeWorld,
    /// The client's session: 127.0.0.1:1234 to 127.0.0.1:80.
    pub session: Session,
    /// The stream.
    pub stream: StreamFacts,
    /// The request.
    pub request: Option<Head>,
    /// The response.
    pub response: Option<Head>,
    /// The request's body, or raw bytes without a request.
    pub req_body: Vec<u8>,
    /// The response's body, or raw bytes without a response.
    pub res_body: Vec<u8>,
    /// True when the bytes are all there are.
    pub complete: bool,
    /// True when the decision cannot wait.
    pub last: bool,
    /// True when the response is being processed.
    pub response_side: bool,
    /// Pattern files.
    pub registry: Registry,
    /// Named ACLs.
    pub acls: AclSet,
    /// Where expressions stand.
    pub points: Points,
    /// Memory for values.
    pub scratch: Scratch,
    /// The warnings of the last compilation.
    pub warnings: Vec<String>,
    /// The late errors of the last compilation.
    pub late: Vec<String>,
}

impl Default for Rig {
    fn default() -> Rig {
        let mut session = Session::new(ProxyId(0), ListenerId(0));
        session.fc_src = Endpoint::Inet(([127, 0, 0, 1], 1234).into());
        session.fc_dst = Endpoint::Inet(([127, 0, 0, 1], 80).into());
        session.accept_wall_us = 1_700_000_000_123_456;
        session.socket = 3;
        let mut stream = StreamFacts::new(ProxyId(0), true);
        stream.timers.accept_wall_us = session.accept_wall_us;
        stream.timers.request_wall_us = session.accept_wall_us + 5000;
        Rig {
            world: FakeWorld::default(),
            session,
            stream,
            request: None,
            response: None,
            req_body: Vec::new(),
            res_body: Vec::new(),
            complete: true,
            last: true,
            response_side: false,
            registry: Registry::default(),
            acls: AclSet::default(),
            points: Points::ALL,
            scratch: Scratch::default(),
            warnings: Vec::new(),
            late: Vec::new(),
        }
    }
}

/// Builds a head from an HTTP/1 text.
fn head_from(text: &str) -> Head {
    let mut head = Head::new();
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or("");
    let version = |v: &str| {
        let digit = |i: usize| v.as_bytes().get(i).map_or(1, |b| b.wrapping_sub(b'0'));
        Version { major: digit(5), minor: digit(7) }
    };
    let mut parts = first.splitn(3, ' ');
    let (a, b, c) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    if a.starts_with("HTTP/") {
        let _ = head.start_response(version(a), b.parse().unwrap_or(200), Some(c.as_bytes()));
    } else {
        let _ = head.start_request(a.as_bytes(), b.as_bytes(), version(c));
    }
    for line in lines.filter(|l| !l.is_empty()) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let _ = head.push(name.as_bytes(), value.trim().as_bytes());
    }
    head
}

impl Rig {
    /// A rig with a request and its body, such as `GET / HTTP/1.1\r\nHost: x\r\n\r\nbody`.
    pub fn with_request(text: &str) -> Rig {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut rig =
            Rig { request: Some(head_from(head)), req_body: body.as_bytes().to_vec(), ..Rig::default() };
        rig.stream.request_line = head.split("\r\n").next().unwrap_or("").as_bytes().to_vec();
        rig
    }

    /// Adds a response, and goes over to its side.
    pub fn with_response(mut self, text: &str) -> Rig {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let head = head_from(head);
        self.stream.status = head.status().into();
        self.stream.server_status = head.status().into();
        self.stream.res_version = Some((head.version().major, head.version().minor));
        self.response = Some(head);
        self.res_body = body.as_bytes().to_vec();
        self.response_side = true;
        self.stream.in_response = true;
        self
    }

    /// Compiles with this rig's names.
    pub fn compile<R>(&mut self, with: impl FnOnce(&mut CompileEnv) -> R) -> R {
        let scope = ProxyScope {
            name: "be",
            id: Some(ProxyId(1)),
            frontend: true,
            backend: true,
            mode: Mode::Http,
            ..ProxyScope::default()
        };
        let mut env = CompileEnv::new("t.cfg", 1, scope, self.points, &self.world, &self.registry);
        env.acls = Some(&self.acls);
        let result = with(&mut env);
        (self.warnings, self.late) = (env.warnings, env.late);
        result
    }

    /// Calls `with` on a context over the rig.
    pub fn run<R>(&mut self, with: impl FnOnce(&mut Ctx) -> R) -> R {
        let clock = Clock { mono_us: 0, wall_us: self.session.accept_wall_us };
        let mut cx = Ctx::new(clock, &self.world, &mut self.session, &mut self.scratch);
        cx.stream = Some(&mut self.stream);
        cx.request = self.request.as_mut();
        cx.response = self.response.as_mut();
        let total = |head: bool, body: &[u8]| head.then_some(body.len() as u64);
        cx.req_body =
            Payload::new(&self.req_body, self.complete, total(cx.request.is_some(), &self.req_body));
        cx.res_body =
            Payload::new(&self.res_body, self.complete, total(cx.response.is_some(), &self.res_body));
        cx.last = self.last;
        cx.response_side = self.response_side;
        with(&mut cx)
    }

    /// The value of an expression as text.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn eval(&mut self, text: &str) -> Option<String> {
        let expr = self.compile(|env| Expr::compile(text, env)).unwrap_or_else(|e| panic!("{text}: {e}"));
        self.run(|cx| {
            let mut sample = expr.eval(cx)?;
            let done = sample.cast(Type::Str, cx);
            done.then(|| String::from_utf8_lossy(cx.bytes(&sample.value)).into_owned())
        })
    }

    /// The verdict of a condition whose words are separated by blanks, such as `if { path /a }`.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn verdict(&mut self, text: &str) -> Verdict {
        let words: Vec<&str> = text.split(' ').collect();
        let condition =
            self.compile(|env| Condition::compile(&words, env)).unwrap_or_else(|e| panic!("{text}: {e}"));
        self.run(|cx| condition.eval(cx))
    }

    /// A log format rendered.
    ///
    /// # Panics
    /// When it does not compile.
    pub fn format(&mut self, text: &str, usage: Usage) -> String {
        let format = self
            .compile(|env| LogFormat::compile(text, usage, env))
            .unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut out = Vec::new();
        self.run(|cx| format.render(cx, &mut out));
        out.iter()
            .map(|b| if b.is_ascii() { char::from(*b).to_string() } else { format!("\\x{b:02x}") })
            .collect()
    }
}
