//! A client's stay, from the accepted connection to its end: connection rules, PROXY header, session rules, then one
//! TCP stream or any number of requests.

use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

use thalweg_config::model::{Global, Mode, Proxy, ProxyId, Reuse, Server, ServerId};
use thalweg_rules::{Kind, Outcome, Ruleset};
use thalweg_runtime::buffer::BULK_SIZE;
use thalweg_runtime::net::{Keepalive, SockAddr, Stream};
use thalweg_runtime::{clock, current_task, pool, timer};
use thalweg_sample::facts::{self, ConnError, Endpoint, Session};

use super::listener::Admission;
use super::{ClientSession, PrivateConnection, PrivateIdle};
use crate::backend::connect::{ServerConn, give_back};
use crate::backend::pool::ConnectionKey;
use crate::connection::proxy_header::{self, Parsed};
use crate::connection::wire::Wire;
use crate::instance::Stopping;
use crate::plant::bug;
use crate::stream::finish;
use crate::stream::http::{self, After, NoRequest};
use crate::stream::reply;
use crate::stream::tcp::{self, TcpEnd};
use crate::worker::{self, SessionEntry, Worker};

/// How long a closing connection is read from so that the client gets what was sent to it.
const LINGER_MS: u64 = 1000;

/// Most bytes that are thrown away at once so that a connection can be closed in order.
const UNREAD_MAX: usize = 256 * 1024;

/// What may be wrong with a PROXY header, by the numbers of `fc_err`.
const PRX_EMPTY: ConnError = ConnError(11);
const PRX_ABORT: ConnError = ConnError(12);
const PRX_TIMEOUT: ConnError = ConnError(13);
const PRX_TRUNCATED: ConnError = ConnError(14);
const PRX_NOT_HDR: ConnError = ConnError(15);
const PRX_BAD_HDR: ConnError = ConnError(16);

/// Server connections one session keeps for itself, to different places.
const PRIVATE_MAX: usize = 8;

/// Serves an accepted connection of a listener to its end.
pub async fn serve(worker: Rc<Worker>, admission: Admission, fd: OwnedFd, peer: SockAddr) {
    let listener = admission.listener();
    let (frontend, _) = worker.instance.listeners[listener];
    let _listed = Listed::enter(&worker, frontend, &peer);
    let Ok(io) = Stream::from_accepted(fd) else { return };
    let mut client = Wire::new(io);
    let mut session = ClientSession::new(&worker, frontend, listener, &client, peer);
    let fe = worker.proxy(frontend);
    if let (true, Endpoint::Inet(from)) = (global(&worker).reject_privileged_ports_tcp, session.facts.fc_src)
        && (1..1024).contains(&from.port())
    {
        // Known to reflect traffic of services; nothing honest connects from there.
        return;
    }
    crate::plant::here("session");
    prepare_socket(fe, worker.instance.bind(listener).mss, &client);
    // Boxed, as everything that a waiting connection does not need: its memory is given back when it is done.
    if !pool::boxed(begin(&worker, fe, &mut session, &mut client)).await {
        return;
    }
    let _present = worker.begin_session(listener);
    let mut as_http = fe.mode == Mode::Http;
    if !as_http {
        let mut state = worker.take_stream();
        let end = pool::boxed(tcp::serve(&worker, &mut session, &mut client, &mut state)).await;
        worker.give_stream(state);
        match end {
            TcpEnd::BecameHttp => as_http = true,
            TcpEnd::Over { orderly: true } => {
                // What nobody will read must not turn the end into a reset.
                if client.io.discard_input(UNREAD_MAX) == UNREAD_MAX {
                    // There may be more. The client hears of the end before the reset that follows.
                    let _ = client.io.shutdown_write();
                }
            }
            TcpEnd::Over { orderly: false } => {
                if fe.opts.nolinger {
                    client.io.set_linger_rst();
                }
            }
        }
    }
    if as_http {
        requests(&worker, fe, &mut session, &mut client).await;
    }
}

/// The session in the list of its thread, and among what its thread has to do.
struct Listed<'a> {
    worker: &'a Worker,
    slot: usize,
}

impl<'a> Listed<'a> {
    fn enter(worker: &'a Worker, frontend: ProxyId, peer: &SockAddr) -> Listed<'a> {
        let (task, since_ms, source) = (current_task(), clock::now_ms(), peer.to_std());
        let slot = worker.sessions.borrow_mut().insert(SessionEntry { task, frontend, since_ms, source });
        worker.instance.thread_load[worker.thread].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Listed { worker, slot }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let worker = self.worker;
        worker.sessions.borrow_mut().remove(self.slot);
        worker.instance.thread_load[worker.thread].fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

impl ClientSession {
    fn new(
        worker: &Worker,
        frontend: ProxyId,
        listener: usize,
        client: &Wire,
        peer: SockAddr,
    ) -> ClientSession {
        let id = facts::ListenerId(u32::try_from(listener).unwrap_or(0));
        let mut session = Session::new(facts::ProxyId(frontend.0), id);
        session.accept_mono_us = clock::now_us();
        session.accept_wall_us = worker.clock().wall_us;
        session.fc_src = endpoint(&peer);
        session.fc_dst = match worker.instance.listener_addresses[listener].get() {
            Some(only) => Endpoint::Inet(*only),
            None => client.io.local_addr().map_or(Endpoint::Unknown, |addr| endpoint(&addr)),
        };
        session.fd = client.io.as_fd().as_raw_fd();
        ClientSession { facts: session, frontend, listener, private: Vec::new() }
    }

    /// The connection this session kept for itself, if it goes to this server and the server kept it, too.
    pub fn take_private(
        &mut self,
        backend: ProxyId,
        server: ServerId,
        key: Option<&ConnectionKey>,
    ) -> Option<ServerConn> {
        let fits = |kept: &PrivateConnection| {
            kept.backend == backend && kept.server == server && kept.conn.key.as_deref() == key
        };
        let at = self.private.iter().rposition(fits)?;
        let PrivateConnection { mut conn, .. } = self.private.remove(at);
        if conn.wire.io.has_input_now() {
            return None;
        }
        conn.requests += 1;
        conn.reused = true;
        Some(conn)
    }

    /// The server of the newest connection to `backend` that this session kept for itself; with `authenticated`, of
    /// those only on which the client authenticates.
    pub fn last_private_server(&self, backend: ProxyId, authenticated: bool) -> Option<ServerId> {
        let fits = |kept: &&PrivateConnection| {
            kept.backend == backend && (!authenticated || kept.conn.authenticated)
        };
        self.private.iter().rev().find(fits).map(|kept| kept.server)
    }

    /// Keeps a server connection for the next request: for all, or for this session only under `http-reuse never` and
    /// when it is the client's own by its authentication.
    pub fn keep(&mut self, worker: &Worker, backend: &Proxy, server: &Server, mut conn: ServerConn) {
        if backend.http_reuse != Reuse::Never && !conn.authenticated {
            return give_back(worker, backend.id, server, conn);
        }
        let Some(home) = worker::current() else { return };
        if self.private.len() >= PRIVATE_MAX {
            self.private.remove(0);
        }
        // What happens on it wakes the session, which looks after its connections itself.
        conn.wire.io.watch(current_task());
        let counted = PrivateIdle::new(home, worker.instance.server_index(backend.id, server.id));
        let (backend, server) = (backend.id, server.id);
        self.private.push(PrivateConnection { backend, server, conn, _counted: counted });
    }

    /// Lets go of the connections that their servers closed, or on which something came that nobody asked for.
    fn drop_closed(&mut self) {
        self.private.retain_mut(|kept| !kept.conn.wire.io.has_input_now());
    }
}

fn endpoint(addr: &SockAddr) -> Endpoint {
    match addr.to_std() {
        Some(addr) => Endpoint::Inet(addr),
        None => Endpoint::Unix,
    }
}

fn global(worker: &Worker) -> &Global {
    &worker.instance.config.global
}

/// Options of an accepted socket. `mss` is that of the listener: negative lowers what the kernel found.
fn prepare_socket(fe: &Proxy, mss: i32, client: &Wire) {
    // A unix socket has no such options; nothing is lost when they cannot be set.
    if fe.opts.tcp_smart_accept {
        let _ = client.io.set_quickack(false);
    }
    if mss < 0 {
        let _ = client.io.lower_mss(mss.unsigned_abs());
    }
    if fe.opts.tcpka_cli {
        let some = |n: u32| (n != 0).then_some(n);
        let probe = &fe.cli_keepalive;
        let _ = client.io.set_keepalive(&Keepalive {
            count: some(probe.cnt),
            idle_s: some(probe.idle_s),
            interval_s: some(probe.intvl_s),
        });
    }
}

/// Connection rules, PROXY header, session rules. False when the connection must be closed.
async fn begin(worker: &Rc<Worker>, fe: &Proxy, session: &mut ClientSession, client: &mut Wire) -> bool {
    worker.count_connection(session.listener);
    let counters = worker.fe_counters(session.listener);
    let mut expects_proxy = worker.instance.bind(session.listener).accept_proxy;
    let received = (session.facts.fc_src, session.facts.fc_dst);
    if !fe.rules.tcp_connection.is_empty() {
        match early_rules(worker, session, client, &fe.rules.tcp_connection, Kind::TcpConnection) {
            Early::Pass { expect_proxy } => {
                expects_proxy |= expect_proxy;
                // What these rules set is what the connection says from here on.
                let facts = &mut session.facts;
                facts.fc_src = facts.src.take().unwrap_or(facts.fc_src);
                facts.fc_dst = facts.dst.take().unwrap_or(facts.fc_dst);
            }
            Early::Close => {
                counters.denied_connections.add(1);
                return false;
            }
            Early::Vanish => {
                counters.denied_requests.add(1);
                return false;
            }
        }
    }
    let rewritten = (session.facts.fc_src != received.0, session.facts.fc_dst != received.1);
    if expects_proxy && let Err(error) = read_proxy_header(fe, session, client, rewritten).await {
        counters.failed_requests.add(1);
        session.facts.error = error;
        let received = client.input.is_some();
        finish::log_session_error(worker, session, received);
        return false;
    }
    if !fe.rules.tcp_session.is_empty() {
        match early_rules(worker, session, client, &fe.rules.tcp_session, Kind::TcpSession) {
            Early::Pass { .. } => {}
            Early::Close => {
                counters.denied_sessions.add(1);
                return false;
            }
            Early::Vanish => {
                counters.denied_requests.add(1);
                return false;
            }
        }
    }
    session.facts.handshake_us =
        i64::try_from(clock::now_us().saturating_sub(session.facts.accept_mono_us)).unwrap_or(0);
    true
}

enum Early {
    Pass {
        expect_proxy: bool,
    },
    Close,
    /// `silent-drop`, which counts as a refused request wherever it is.
    Vanish,
}

/// Rules that run before there is a stream.
fn early_rules(
    worker: &Rc<Worker>,
    session: &mut ClientSession,
    client: &mut Wire,
    rules: &Ruleset,
    kind: Kind,
) -> Early {
    let mut state = worker.take_stream();
    state.begin(session.frontend, false, true);
    let mut from = 0;
    let verdict = loop {
        let outcome =
            state.evaluate_session(worker, &mut session.facts, |cx, fx| rules.run(kind, from, cx, fx));
        match outcome {
            Outcome::Done | Outcome::Accept => {
                break Early::Pass { expect_proxy: state.effects.overrides.expect_proxy };
            }
            Outcome::Wait { resume }
            | Outcome::Pause { resume, .. }
            | Outcome::WaitBody { resume, .. }
            | Outcome::EarlyHints { resume } => from = resume,
            Outcome::Log { profile, resume } => {
                from = resume;
                let t = &mut state.facts.timers;
                t.accept_mono_us = session.facts.accept_mono_us;
                t.accept_wall_us = session.facts.accept_wall_us;
                t.request_wall_us = session.facts.accept_wall_us;
                finish::log_now(worker, session, &mut state, kind, profile);
            }
            Outcome::SilentDrop { rst_ttl } => {
                reply::vanish(client, rst_ttl);
                break Early::Vanish;
            }
            _ => break Early::Close,
        }
    };
    let overrides = state.effects.overrides;
    if let Some(mark) = overrides.fc_mark {
        // Without the privilege the packets stay unmarked, as with the reference.
        let _ = client.io.set_mark(mark);
    }
    if let Some(tos) = overrides.fc_tos {
        let _ = client.io.set_tos(tos);
    }
    worker.give_stream(state);
    verdict
}

/// Reads the PROXY header that must come first, within the time a handshake may take.
/// What connection rules have `rewritten` (source, destination) stays what the connection says; the header then tells
/// what the session says.
async fn read_proxy_header(
    fe: &Proxy,
    session: &mut ClientSession,
    client: &mut Wire,
    rewritten: (bool, bool),
) -> Result<(), ConnError> {
    let deadline = fe.timeouts.client_hs.or(fe.timeouts.client).map(timer::deadline_in);
    loop {
        if let Some(input) = client.input.as_mut() {
            match proxy_header::parse(input) {
                Parsed::Complete { header, len } => {
                    input.advance(len);
                    if input.is_empty() {
                        client.input = None;
                    }
                    if let Some((src, dst)) = header.addresses {
                        let facts = &mut session.facts;
                        if rewritten.0 {
                            facts.src = Some(Endpoint::Inet(src));
                        } else {
                            facts.fc_src = Endpoint::Inet(src);
                        }
                        if rewritten.1 {
                            facts.dst = Some(Endpoint::Inet(dst));
                        } else {
                            facts.fc_dst = Endpoint::Inet(dst);
                        }
                    }
                    session.facts.rcvd_proxy = true;
                    for (kind, value) in &header.tlvs {
                        let len = u16::try_from(value.len()).unwrap_or(0);
                        session.facts.pp_tlvs.push(*kind);
                        session.facts.pp_tlvs.extend_from_slice(&len.to_be_bytes());
                        session.facts.pp_tlvs.extend_from_slice(value);
                    }
                    return Ok(());
                }
                Parsed::Invalid => {
                    let looks = proxy_header::looks_like_header(input);
                    return Err(if looks { PRX_BAD_HDR } else { PRX_NOT_HDR });
                }
                Parsed::Partial => {}
            }
        }
        match timer::timeout_at(deadline, client.io.recv(16 * 1024)).await {
            Ok(Ok(buf)) if !buf.is_empty() => {
                if client.append(buf).is_err() {
                    return Err(PRX_BAD_HDR);
                }
            }
            _ if client.input.is_some() => return Err(PRX_TRUNCATED),
            Ok(Ok(_)) => return Err(PRX_EMPTY),
            Ok(Err(_)) => return Err(PRX_ABORT),
            Err(_) => return Err(PRX_TIMEOUT),
        }
    }
}

/// Requests, one after the other, until the client or the rules end it.
async fn requests(worker: &Rc<Worker>, fe: &Proxy, session: &mut ClientSession, client: &mut Wire) {
    let mut first = true;
    let mut began = (session.facts.accept_mono_us, session.facts.accept_wall_us);
    loop {
        let missing = match wait_for_request(worker, fe, session, client, first).await {
            Arrival::Bytes => None,
            Arrival::Silence(_) if !first => {
                // The connection is idle as far as requests go; the last response may still be leaving.
                if client.io.in_flight() > 0 && !bug("cut-at-close") {
                    pool::boxed(close_in_order(fe, client)).await;
                }
                break;
            }
            Arrival::Silence(why) => Some(why),
        };
        if missing.is_some() && fe.opts.http_ignore_probes {
            break;
        }
        let mut state = worker.take_stream();
        // The stream's memory is taken for the time of the request only: a connection that waits holds little.
        let after =
            pool::boxed(http::serve(worker, session, client, &mut state, first, began, missing)).await;
        worker.give_stream(state);
        match after {
            After::KeepAlive if client.body.is_ended() || pool::boxed(reply::drain(fe, client)).await => {}
            After::KeepAlive | After::Close => {
                pool::boxed(close_in_order(fe, client)).await;
                return;
            }
            After::Drop => {
                if bug("session-counted") {
                    worker.fe_counters(session.listener).current.add(1);
                }
                if fe.opts.nolinger {
                    client.io.set_linger_rst();
                }
                return;
            }
        }
        first = false;
        began = (clock::now_us(), worker.clock().wall_us);
    }
}

enum Arrival {
    Bytes,
    Silence(NoRequest),
}

/// Waits for the first byte of a request, without holding memory for it.
async fn wait_for_request(
    worker: &Worker,
    fe: &Proxy,
    session: &mut ClientSession,
    client: &mut Wire,
    first: bool,
) -> Arrival {
    if client.input.as_ref().is_some_and(|b| !b.is_empty()) {
        return Arrival::Bytes;
    }
    let t = &fe.timeouts;
    // A client that never said anything must keep within both limits.
    let limit = match first {
        true => http::earlier(t.http_request, t.client),
        false => t.http_keep_alive.or(t.http_request).or(t.client),
    };
    let deadline = limit.map(timer::deadline_in);
    let mut leave_at = None;
    std::future::poll_fn(|_| {
        match client.poll_recv_up_to(BULK_SIZE) {
            Poll::Ready(Ok(buf)) if !buf.is_empty() => {
                client.input = Some(buf);
                return Poll::Ready(Arrival::Bytes);
            }
            Poll::Ready(_) => {
                client.eof = true;
                return Poll::Ready(Arrival::Silence(NoRequest::Closed));
            }
            Poll::Pending => {}
        }
        session.drop_closed();
        let stopping = worker.instance.stopping();
        if !first && stopping != Stopping::No {
            let now = clock::now_ms();
            let at = *leave_at.get_or_insert_with(|| leave_idle_at(worker, fe, now));
            match at {
                _ if stopping == Stopping::Hard => return Poll::Ready(Arrival::Silence(NoRequest::Closed)),
                // A request that came at the same time is on its way here and will be answered.
                Some(at) if now >= at && !client.io.ask_input() => {
                    return Poll::Ready(Arrival::Silence(NoRequest::Closed));
                }
                Some(at) => timer::want(at),
                None => {}
            }
        }
        if let Some(at) = deadline {
            if clock::now_ms() >= at {
                return Poll::Ready(Arrival::Silence(NoRequest::Timeout));
            }
            timer::want(at);
        }
        Poll::Pending
    })
    .await
}

/// When an idle connection is closed during a soft stop that is noticed at `now_ms`; `None`: it waits for its next
/// request (`option idle-close-on-response`, `close-spread-time`).
fn leave_idle_at(worker: &Worker, fe: &Proxy, now_ms: u64) -> Option<u64> {
    if fe.opts.idle_close_on_response {
        return None;
    }
    match global(worker).close_spread_time_ms {
        None | Some(0) => Some(now_ms),
        Some(u64::MAX) => None,
        Some(spread) => Some(now_ms + worker.next_random() % spread),
    }
}

/// Waits until the kernel has taken all that was sent, for as long as it takes some of it every now and then (`timeout
/// client`). False when the rest will not arrive.
async fn all_is_sent(fe: &Proxy, client: &mut Wire) -> bool {
    let began = clock::now_ms();
    std::future::poll_fn(|_| {
        if let Poll::Ready(sent) = client.io.poll_send_ready() {
            return Poll::Ready(sent.is_ok());
        }
        if let Some(ms) = fe.timeouts.client {
            let at = client.io.last_sent_ms().max(began).saturating_add(ms + 1);
            if clock::now_ms() >= at {
                return Poll::Ready(false);
            }
            timer::want(at);
        }
        Poll::Pending
    })
    .await
}

/// Closes so that the client gets everything that was sent. Closing with unread input would reset the connection,
/// and a reset may overtake the response (RFC 9112 section 9.6): what still comes is read and thrown away for a while.
async fn close_in_order(fe: &Proxy, client: &mut Wire) {
    if !all_is_sent(fe, client).await || client.eof {
        return;
    }
    if client.input.is_none() && !client.io.has_input_now() && client.body.is_ended() {
        return;
    }
    client.input = None;
    if client.io.shutdown_write().is_err() {
        return;
    }
    let deadline = Some(timer::deadline_in(LINGER_MS));
    while let Ok(Ok(buf)) = timer::timeout_at(deadline, client.io.recv(16 * 1024)).await {
        if buf.is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: fn(Rc<Worker>, Admission, OwnedFd, SockAddr) -> F) -> usize {
        size_of::<F>()
    }

    /// What a connection that waits for a request costs besides the runtime's own record of it.
    #[test]
    fn a_waiting_session_is_small() {
        let size = size_of_future(serve);
        println!("session: {size}, facts: {}, client: {}", size_of::<Session>(), size_of::<Wire>());
        assert!(size <= 1024, "a session takes {size} bytes");
    }
}
