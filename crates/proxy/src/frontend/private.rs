//! Server connections that one session keeps for itself (`http-reuse never`, and connections on which a client
//! authenticated itself).

use thalweg_config::model::{Proxy, ProxyId, Reuse, Server, ServerId};
use thalweg_runtime::TaskId;
use thalweg_runtime::pool::Block;

use super::ClientSession;
use crate::backend::connect::ServerConn;
use crate::backend::idle::give_back;
use crate::backend::key::ConnectionKey;
use crate::backend::seats::{Seat, Told};
use crate::counters::{Kept, OfServer};
use crate::worker::{self, Worker};

/// Idle server connections that one session keeps for itself, unless `max-session-srv-conns` says how many.
const PRIVATE_MAX: u32 = 5;

/// An idle server connection of one session. It counts for as long as it is kept.
pub(super) struct PrivateConnection {
    backend: ProxyId,
    server: ServerId,
    conn: Block<ServerConn>,
    _counted: PrivateIdle,
    _told: Option<Told>,
}

impl PrivateConnection {
    /// Whether another session needs its seat, and nobody is known by it.
    fn gives_way(&self) -> bool {
        !self.conn.authenticated && self.conn.seat.as_ref().is_some_and(Seat::is_wanted)
    }
}

/// One in the number of idle private connections of a server.
struct PrivateIdle(Kept);

impl PrivateIdle {
    fn new(counters: Kept) -> PrivateIdle {
        counters.private_idle_connections.add(1);
        PrivateIdle(counters)
    }
}

impl Drop for PrivateIdle {
    fn drop(&mut self) {
        self.0.private_idle_connections.sub(1);
    }
}

/// What a stream takes of what a session keeps.
enum Taken {
    /// A connection, alone.
    All(PrivateConnection),
    /// A place on one that carries many requests at once, and stays.
    Place(Block<ServerConn>),
}

impl ClientSession {
    /// Looks at the connections that are kept; `None` when there are none.
    fn with_private<R>(&self, f: impl FnOnce(&mut Vec<PrivateConnection>) -> R) -> Option<R> {
        let mut kept = self.private.take()?;
        let looked = f(&mut kept);
        self.private.set(Some(kept));
        Some(looked)
    }

    /// The connection this session kept for itself, if it goes to this server, whose address changed `moves` times, and the
    /// server kept it, too.
    #[inline]
    pub fn take_private(
        &self,
        backend: ProxyId,
        server: ServerId,
        key: Option<&ConnectionKey>,
        moves: u32,
    ) -> Option<Block<ServerConn>> {
        let is_of = |kept: &PrivateConnection| kept.backend == backend && kept.server == server;
        let taken = self.with_private(|private| {
            // Nothing goes to where the server was before.
            private.retain(|kept| !(is_of(kept) && kept.conn.moves != moves));
            let at = private.iter().rposition(|kept| is_of(kept) && kept.conn.key.as_deref() == key)?;
            if let Some(conn) = private[at].conn.another_place() {
                private[at].conn.requests += 1;
                return Some(Taken::Place(Block::new(conn)));
            }
            Some(Taken::All(private.remove(at)))
        })??;
        let taken = match taken {
            Taken::Place(conn) => return Some(conn),
            Taken::All(taken) => taken,
        };
        let PrivateConnection { mut conn, .. } = taken;
        if conn.port.line.has_input_now() {
            return None;
        }
        conn.requests += 1;
        conn.reused = true;
        Some(conn)
    }

    /// There are no more requests: what was kept for them is closed.
    pub fn leave_private(&self) {
        self.private.take();
    }

    /// The server of the newest connection to `backend` that this session kept for itself; with `authenticated`, of
    /// those only on which the client authenticates.
    pub fn last_private_server(&self, backend: ProxyId, authenticated: bool) -> Option<ServerId> {
        let fits = |kept: &&PrivateConnection| {
            kept.backend == backend && (!authenticated || kept.conn.authenticated)
        };
        self.with_private(|private| private.iter().rev().find(fits).map(|kept| kept.server))?
    }

    /// Keeps a server connection for the next request: for all, or for this session only under `http-reuse never` and
    /// when it is the client's own by its authentication. `keeper` is the task of the client's connection.
    #[inline]
    pub fn keep(
        &self,
        worker: &Worker,
        keeper: TaskId,
        (backend, server): (&Proxy, &Server),
        of_server: OfServer<'_>,
        mut conn: Block<ServerConn>,
    ) {
        if backend.http_reuse != Reuse::Never && !conn.authenticated {
            return give_back(worker, (backend, server), of_server, conn);
        }
        let Some(home) = worker::current() else { return };
        // A server that was removed meanwhile needs no connections, and its number may soon be another one's.
        let now = home.instance.config.find_proxy(backend.id).and_then(|proxy| proxy.server(server.id));
        if !now.is_some_and(|now| std::ptr::eq(now, server)) {
            return;
        }
        // A connection with many places is kept once.
        let is_kept = self.with_private(|private| private.iter().any(|kept| kept.conn.is_on_the_same(&conn)));
        if is_kept == Some(true) {
            return;
        }
        let max = worker.proxy(self.frontend).rare().session_srv_conns.unwrap_or(PRIVATE_MAX);
        let mut private = self.private.take().unwrap_or_default();
        if private.len() >= max as usize {
            self.private.set(Some(private));
            return;
        }
        // What happens on it wakes the session, which looks after its connections itself.
        conn.port.line.watch(keeper);
        let counted = PrivateIdle::new(worker.keep_counters(backend.id, server.id));
        let (backend, server) = (backend.id, server.id);
        let told = conn.seat.as_ref().map(|seat| seat.tell(keeper));
        let kept = PrivateConnection { backend, server, conn, _counted: counted, _told: told };
        if !kept.gives_way() {
            private.push(kept);
        }
        self.private.set(Some(private));
    }

    /// Lets the connections go that their servers closed, on which something came that nobody asked for, or whose seat is wanted.
    pub fn look_after_private(&self) {
        self.with_private(|private| {
            private.retain_mut(|kept| !kept.conn.port.line.has_input_now() && !kept.gives_way())
        });
    }
}
