//! Why streams end, and all that follows from it: one table from [`Cause`] to the two letters in the log, the answer, the
//! fate of the client's connection, the counters, and whether the request may be sent once more.
//!
//! [`end`] is the only place that sets the letters (manual section 8.5) and counts failures. The first cause of a stream
//! stays; what goes wrong after it is counted, and changes no letters. `docs/endings.md` is this table for users.

use thalweg_config::model::{RetryOn, ServerId};
use thalweg_h2::error::ErrorCode;

use super::answer::Answer;
use super::{After, Stop, Stream, StreamState};
use crate::backend::connect_error::ConnectError;
use crate::connection::line::Line;
use crate::counters::{Counter, Counters};
use crate::worker::Worker;

/// What the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// The configured or built-in answer for a status.
    Status(u16),
    /// What the rule, the monitor, the service or the fault in the request says itself.
    Own,
    /// What there is of a response that has begun.
    Part,
    /// The server's response.
    Response,
}

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// As the message says: another request may follow, unless one of them says otherwise.
    Kept,
    /// Closed in order, once the client has all that was sent to it.
    Closed,
    /// The client is told in order that nothing more comes, and not waited for.
    Ended,
    /// Closed at once.
    Dropped,
}

impl Fate {
    /// What an HTTP session makes of it when nothing is left to answer.
    pub fn after(self) -> After {
        match self {
            Fate::Kept => After::KeepAlive,
            Fate::Closed => After::Close,
            Fate::Ended | Fate::Dropped => After::Drop,
        }
    }
}

/// A set of counters, each of the frontend, the backend or the server of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts(u32);

/// Whose counter it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Frontend,
    Backend,
    Server,
}

/// One member of a set of counters.
pub struct Counted {
    pub side: Side,
    /// Its column in `show stat`.
    pub column: &'static str,
    of: fn(&Counters) -> &Counter,
}

macro_rules! counted {
    ($($name:ident = $bit:literal, $side:ident, $column:literal, $field:ident;)+) => {
        impl Counts {
            $(pub const $name: Counts = Counts(1 << $bit);)+
        }

        /// Every counter of a failure, by its bit.
        pub const COUNTED: &[Counted] =
            &[$(Counted { side: Side::$side, column: $column, of: |c| &c.$field },)+];

        // A counter's place in the table is its bit.
        const _: () = {
            let mut at = 0;
            $(assert!(at == $bit); at += 1;)+
            assert!(at <= 32);
        };
    };
}

counted! {
    FE_EREQ = 0, Frontend, "ereq", failed_requests;
    FE_DREQ = 1, Frontend, "dreq", denied_requests;
    BE_DREQ = 2, Backend, "dreq", denied_requests;
    FE_DRESP = 3, Frontend, "dresp", denied_responses;
    BE_DRESP = 4, Backend, "dresp", denied_responses;
    SRV_DRESP = 5, Server, "dresp", denied_responses;
    BE_ECON = 6, Backend, "econ", failed_connections;
    SRV_ECON = 7, Server, "econ", failed_connections;
    BE_ERESP = 8, Backend, "eresp", failed_responses;
    SRV_ERESP = 9, Server, "eresp", failed_responses;
    FE_CLI_ABRT = 10, Frontend, "cli_abrt", client_aborts;
    BE_CLI_ABRT = 11, Backend, "cli_abrt", client_aborts;
    SRV_CLI_ABRT = 12, Server, "cli_abrt", client_aborts;
    BE_SRV_ABRT = 13, Backend, "srv_abrt", server_aborts;
    SRV_SRV_ABRT = 14, Server, "srv_abrt", server_aborts;
    FE_EINT = 15, Frontend, "eint", internal_errors;
    BE_EINT = 16, Backend, "eint", internal_errors;
    SRV_EINT = 17, Server, "eint", internal_errors;
    FE_INTERCEPTED = 18, Frontend, "intercepted", intercepted;
    FE_DCON = 19, Frontend, "dcon", denied_connections;
    FE_DSES = 20, Frontend, "dses", denied_sessions;
}

impl Counted {
    /// Its value among these.
    pub fn value(&self, counters: &Counters) -> u64 {
        (self.of)(counters).get()
    }
}

impl Counts {
    pub const NONE: Counts = Counts(0);
    const DREQ: Counts = Counts::FE_DREQ.and(Counts::BE_DREQ);
    const DRESP: Counts = Counts::FE_DRESP.and(Counts::BE_DRESP).and(Counts::SRV_DRESP);
    const ECON: Counts = Counts::BE_ECON.and(Counts::SRV_ECON);
    const ERESP: Counts = Counts::BE_ERESP.and(Counts::SRV_ERESP);
    const CLI_ABRT: Counts = Counts::FE_CLI_ABRT.and(Counts::BE_CLI_ABRT).and(Counts::SRV_CLI_ABRT);
    const SRV_ABRT: Counts = Counts::BE_SRV_ABRT.and(Counts::SRV_SRV_ABRT);
    const EINT: Counts = Counts::FE_EINT.and(Counts::BE_EINT).and(Counts::SRV_EINT);

    const fn and(self, more: Counts) -> Counts {
        Counts(self.0 | more.0)
    }

    /// The counters in the set.
    pub fn iter(self) -> impl Iterator<Item = &'static Counted> {
        COUNTED
            .iter()
            .enumerate()
            .filter(move |(bit, _)| self.0 & (1 << bit) != 0)
            .map(|(_, counted)| counted)
    }
}

/// A condition of `retry-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    ConnFailure,
    EmptyResponse,
    JunkResponse,
    ResponseTimeout,
}

impl Condition {
    /// Its word in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Condition::ConnFailure => "conn-failure",
            Condition::EmptyResponse => "empty-response",
            Condition::JunkResponse => "junk-response",
            Condition::ResponseTimeout => "response-timeout",
        }
    }

    fn is_in(self, retry_on: &RetryOn) -> bool {
        match self {
            Condition::ConnFailure => retry_on.conn_failure,
            Condition::EmptyResponse => retry_on.empty_response,
            Condition::JunkResponse => retry_on.junk_response,
            Condition::ResponseTimeout => retry_on.response_timeout,
        }
    }
}

/// All that follows from a cause.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Who ended the stream, and in which phase; `None` for what has no line in the log or leaves the line as it was.
    pub letters: Option<[u8; 2]>,
    pub told: Told,
    /// The status in the log and in the counters, where it is not what the client got.
    pub logged_as: Option<u16>,
    pub fate: Fate,
    /// What counts it: at once, or, if `once_sent`, when the answer is on its way.
    pub counts: Counts,
    /// The answer is the purpose of a rule, which counts when there is one.
    pub once_sent: bool,
    /// When the request may be sent once more instead, and what that counts: see [`may_retry`].
    pub retry: Option<(Condition, Counts)>,
    /// It is a failure to `option dontlog-normal` and `option log-separate-errors`.
    pub failure: bool,
}

/// A cause that closes the client's connection without a word.
const fn ends(letters: &[u8; 2]) -> Row {
    Row {
        letters: Some(*letters),
        told: Told::Nothing,
        logged_as: None,
        fate: Fate::Dropped,
        counts: Counts::NONE,
        once_sent: false,
        retry: None,
        failure: true,
    }
}

/// A cause that has no letters of its own.
const fn unlogged() -> Row {
    Row { letters: None, ..ends(b"--") }
}

impl Row {
    /// Answered with the configured or built-in answer for a status. The connection is kept.
    const fn status(self, status: u16) -> Row {
        Row { told: Told::Status(status), fate: Fate::Kept, ..self }
    }

    /// Answered with what the rule and its kin say themselves. The connection is kept.
    const fn own(self) -> Row {
        Row { told: Told::Own, fate: Fate::Kept, ..self }
    }

    /// The same for a rule that is there to answer.
    const fn answers(self) -> Row {
        Row { once_sent: true, failure: false, ..self.own() }
    }

    /// The response had begun.
    const fn part(self) -> Row {
        Row { told: Told::Part, ..self }
    }

    /// None of the response is worth anything, whatever its status was.
    const fn logged_as(self, status: u16) -> Row {
        Row { logged_as: Some(status), ..self }
    }

    /// The connection is closed in order.
    const fn closed(self) -> Row {
        Row { fate: Fate::Closed, ..self }
    }

    /// The client hears of the end.
    const fn ended(self) -> Row {
        Row { fate: Fate::Ended, ..self }
    }

    const fn counts(self, counts: Counts) -> Row {
        Row { counts, ..self }
    }

    /// May be tried again under a condition, which counts something.
    const fn retry(self, condition: Condition, counts: Counts) -> Row {
        Row { retry: Some((condition, counts)), ..self }
    }

    /// Nothing went wrong.
    const fn normal(self) -> Row {
        Row { failure: false, ..self }
    }
}

macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident: $row:expr,)+) => {
        /// Why a stream, or a session without one, ended: named by what happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Cause {
            $($(#[$doc])* $cause,)+
        }

        impl Cause {
            /// Every cause, in the table's order.
            pub const ALL: &[Cause] = &[$(Cause::$cause,)+];

            /// What follows from it.
            pub const fn row(self) -> &'static Row {
                const TABLE: &[Row] = &[$($row,)+];
                &TABLE[self as usize]
            }
        }
    };
}

causes! {
    /// Both sides said all they had to say.
    Completed: Row { told: Told::Response, fate: Fate::Kept, ..ends(b"--").normal() },

    // Before there is a stream.
    /// A `tcp-request connection` rule rejected the connection.
    ConnectionRejected: unlogged().counts(Counts::FE_DCON),
    /// A `tcp-request session` rule rejected it.
    SessionRejected: unlogged().counts(Counts::FE_DSES),
    /// A rule of either kind made it disappear.
    SessionVanished: unlogged().counts(Counts::FE_DREQ),
    /// The PROXY header that must come first did not, or is none.
    NoProxyHeader: ends(b"PR"),
    /// TLS was not agreed on with the client.
    NoClientTls: ends(b"PR"),

    // The request.
    /// The client closed a new connection without a word.
    ClientSaidNothing: ends(b"CR").status(400).closed().counts(Counts::FE_EREQ.and(Counts::FE_CLI_ABRT)),
    /// Nothing came on a new connection within `timeout http-request` or `timeout client`.
    ClientSilent: ends(b"cR").status(408).closed().counts(Counts::FE_EREQ),
    /// The client stopped in the middle of a head.
    ClientLeftInHead: ends(b"CR").status(400).closed().counts(Counts::FE_EREQ.and(Counts::FE_CLI_ABRT)),
    /// The head was not complete in time.
    HeadTimeout: ends(b"cR").status(408).closed().counts(Counts::FE_EREQ),
    /// There was no memory for more of the head.
    NoRoomForHead: ends(b"RR").status(500).closed(),
    /// The request is malformed, or too large.
    BadRequest: ends(b"PR").own().closed().counts(Counts::FE_EREQ),
    /// The client broke the rules of its protocol, and not with a request.
    BadFrames: ends(b"PR"),
    /// The client ended its direction before the body that rules waited for was complete.
    ClientLeftInRules: ends(b"CR").status(400).closed().counts(Counts::CLI_ABRT),
    /// The client broke its connection while rules waited.
    ClientResetInRules: ends(b"CR").counts(Counts::CLI_ABRT.and(Counts::FE_EREQ)),
    /// The body that rules waited for, or the end of the client's handshake, did not come in time.
    BodyTimeout: ends(b"cR").status(408).closed().counts(Counts::FE_EREQ),
    /// A rule found the request malformed.
    BadRequestInRules: ends(b"PR").status(400).closed().counts(Counts::FE_EREQ),
    /// `http-request deny`.
    DeniedByRule: ends(b"PR").own().counts(Counts::DREQ),
    /// `http-request tarpit` begins: it counts at once, and the stream ends when the time is over.
    TarpitBegan: unlogged().own().counts(Counts::DREQ),
    /// `http-request tarpit` is over.
    Tarpitted: ends(b"PT").own(),
    /// `reject`, of HTTP or of TCP.
    RejectedByRule: ends(b"PR").ended().counts(Counts::DREQ),
    /// `silent-drop`, on the request or on the response.
    SilentlyDropped: ends(b"PR").counts(Counts::DREQ),
    /// A header name that `option http-restrict-req-hdr-names reject` does not allow.
    BadHeaderName: ends(b"PR").status(403).counts(Counts::DREQ),
    /// A rule's change does not fit into the request's head.
    RequestRewriteFailed: ends(b"PR").status(500).counts(Counts::EINT),
    /// `return`, `redirect` or `auth` of the frontend.
    AnsweredByFrontend: ends(b"LR").answers().counts(Counts::FE_INTERCEPTED),
    /// The same of the backend.
    AnsweredByBackend: ends(b"LR").answers(),
    /// `use-service`.
    AnsweredByService: ends(b"LR").own().normal().counts(Counts::FE_INTERCEPTED),
    /// `monitor-uri`.
    Monitored: ends(b"LR").own().normal().counts(Counts::FE_INTERCEPTED),

    // The way to a server.
    /// No rule names a backend, and there is no default one.
    NoBackend: ends(b"SC").status(503),
    /// The backend chosen by name is one of `mode tcp`.
    BackendOfTcp: ends(b"IR").status(500),
    /// `redir` of a server.
    RedirectedToServer: ends(b"LC").own().normal(),
    /// No server of the backend can be used.
    NoServer: ends(b"SC").status(503).counts(Counts::BE_ECON),
    /// The queue is full.
    QueueFull: ends(b"SQ").status(503).counts(Counts::ECON),
    /// No server had room within `timeout queue`.
    QueueTimeout: ends(b"sQ").status(503).counts(Counts::ECON),
    /// The client ended its direction in the queue.
    ClientLeftInQueue: ends(b"CQ").ended().counts(Counts::FE_CLI_ABRT),
    /// The client broke its connection in the queue.
    ClientResetInQueue: ends(b"CQ").ended().counts(Counts::CLI_ABRT),
    /// The client ended its direction while a connection was made.
    ClientLeftConnecting: ends(b"CC").ended(),
    /// The client ended its direction between two attempts.
    ClientLeftRetrying: ends(b"CC").ended().counts(Counts::FE_CLI_ABRT),
    /// The client broke its connection between two attempts, or ended it in the middle of its request's body.
    ClientResetRetrying: ends(b"CC").ended().counts(Counts::CLI_ABRT),
    /// The client of a TCP proxy broke its connection before there was one to a server.
    ClientResetUnconnected: ends(b"CD").ended().counts(Counts::CLI_ABRT),
    /// The server, or the network, refused the connection.
    ServerRefused: ends(b"SC").status(503).counts(Counts::ECON).retry(Condition::ConnFailure, Counts::NONE),
    /// TLS was not agreed on with the server.
    NoServerTls: ends(b"SC").status(503).counts(Counts::ECON).retry(Condition::ConnFailure, Counts::NONE),
    /// No connection within `timeout connect`.
    ConnectTimeout: ends(b"sC").status(503).counts(Counts::ECON).retry(Condition::ConnFailure, Counts::NONE),
    /// The server had as many connections as it may have, none of them idle, for `timeout connect` (`strict-maxconn`).
    NoSeat: ends(b"SC").status(503).counts(Counts::ECON).retry(Condition::ConnFailure, Counts::NONE),
    /// This side had no socket, port or memory for a connection.
    NoSocket: ends(b"RC").status(503).counts(Counts::ECON).retry(Condition::ConnFailure, Counts::NONE),
    /// The server went down, and its sessions end with it.
    ServerWentDown: ends(b"DC").status(500),
    /// An active server is back, and the sessions of the backup end with that.
    ServerGaveWay: ends(b"UC").status(500),

    // The wait for a response.
    /// The body of the request is malformed.
    BadRequestBody: ends(b"PH").status(400).closed().counts(Counts::FE_EREQ),
    /// The client stopped in its body, or ended its direction while it was to wait (`option abortonclose`).
    ClientLeftWaiting: ends(b"CH").status(400).closed().counts(Counts::CLI_ABRT),
    /// The client broke its connection while it was to wait.
    ClientResetWaiting: ends(b"CD").status(400).closed().counts(Counts::CLI_ABRT),
    /// The client sent nothing of its body for `timeout client`.
    ClientSilentInBody: ends(b"cH").status(400).closed().counts(Counts::CLI_ABRT),
    /// The server closed a connection that had been idle, on which a request cannot be sent again by us.
    IdleConnectionLost: ends(b"SH").closed().counts(Counts::SRV_ABRT),
    /// The same, on the client's first request.
    IdleConnectionLostAtFirst: ends(b"SH").status(502).counts(Counts::ERESP),
    /// The server closed or broke its connection without a response.
    NoResponse: ends(b"SH")
        .status(502)
        .counts(Counts::ERESP.and(Counts::SRV_ABRT))
        .retry(Condition::EmptyResponse, Counts::ERESP),
    /// The server closed or broke its connection in the head of its response.
    ResponseHeadCut: ends(b"PH")
        .status(502)
        .counts(Counts::ERESP.and(Counts::SRV_ABRT))
        .retry(Condition::JunkResponse, Counts::ERESP),
    /// The response is malformed, or too large.
    BadResponse: ends(b"PH")
        .status(502)
        .counts(Counts::ERESP)
        .retry(Condition::JunkResponse, Counts::ERESP),
    /// No response within `timeout server`.
    ResponseTimeout: ends(b"sH")
        .status(504)
        .counts(Counts::ERESP)
        .retry(Condition::ResponseTimeout, Counts::NONE),
    /// The server took nothing of the request for `timeout server`.
    ServerStuck: ends(b"SH").status(502).counts(Counts::ERESP),
    /// There was no buffer.
    NoBuffer: ends(b"RH").status(500).closed(),

    // The response.
    /// `http-response deny`.
    ResponseDenied: ends(b"PH").own().counts(Counts::DRESP),
    /// `option checkcache` found a cookie that caches would keep.
    CacheableCookie: ends(b"PH").status(502).counts(Counts::DRESP),
    /// `tcp-response content reject`.
    ResponseRejected: ends(b"PD").ended().counts(Counts::DRESP),
    /// `tcp-response content close`, in HTTP.
    ResponseClosed: ends(b"SH").status(502).counts(Counts::ERESP),
    /// `http-response return` or `redirect`.
    AnsweredForServer: ends(b"LH").answers(),
    /// The body that `http-response wait-for-body` waited for did not come in time.
    ResponseBodyTimeout: ends(b"sH").status(504),
    /// A rule's change does not fit into the response's head.
    ResponseRewriteFailed: ends(b"PH").status(500).counts(Counts::EINT),
    /// The same in `http-after-response`, on a server's response.
    AfterRewriteFailed: ends(b"PH").status(500).counts(Counts::EINT),
    /// The answer of a rule is too large, or `http-after-response` made it so.
    AnswerFailed: unlogged().status(500).counts(Counts::EINT),
    /// The same for the answer to what was refused or went wrong.
    RefusalFailed: unlogged().status(500),
    /// The body of a request that was to be answered here is malformed.
    BadBodyUnread: ends(b"PD").status(400).closed().counts(Counts::FE_EREQ),
    /// There was no buffer for the head of the answer.
    NoBufferForAnswer: ends(b"RH"),
    /// The client left, or takes nothing, before an answer of our own was sent.
    ClientLeftUnanswered: ends(b"CD"),
    /// The first bytes of the response's body are malformed.
    BadFirstChunk: ends(b"PH").status(502).counts(Counts::ERESP),

    // The bodies.
    /// The server closed or broke its connection in the body of its response.
    ServerLeftInBody: ends(b"SD").part().closed().counts(Counts::SRV_ABRT.and(Counts::ERESP)),
    /// The body of the response is malformed.
    BadResponseBody: ends(b"PD").part().closed().counts(Counts::SRV_ABRT.and(Counts::ERESP)),
    /// The server sent nothing of its body for `timeout server`.
    ServerSilentInBody: ends(b"sD").part().closed().counts(Counts::SRV_ABRT),
    /// The client left while it was answered.
    ClientLeftInResponse: ends(b"CD").part().counts(Counts::CLI_ABRT),
    /// The client took nothing of the response for `timeout client`, or sent nothing of its request.
    ClientStuck: ends(b"cD").part().counts(Counts::CLI_ABRT),
    /// The client left in its body, after the whole response.
    ClientLeftAnswered: ends(b"CL").part().closed().counts(Counts::CLI_ABRT),
    /// The client sent nothing more of its body for `timeout client`, after the whole response.
    ClientSilentAnswered: ends(b"cL").part().closed().counts(Counts::CLI_ABRT),
    /// The server went down while it answered, and its sessions end with it.
    ServerWentDownInBody: ends(b"DC").part().logged_as(500),
    /// An active server is back while a backup answered, and the sessions of the backup end with that.
    ServerGaveWayInBody: ends(b"UC").part().logged_as(500),
    /// The body of the request is malformed, while it was answered.
    BadRequestBodyAnswered: ends(b"PD").part().counts(Counts::FE_EREQ),
    /// There was no buffer for a body.
    NoBufferInBody: ends(b"RD").part(),

    // Relays: TCP, and what a request was upgraded to.
    /// The client broke its connection.
    ClientResetInRelay: ends(b"CD").part().counts(Counts::CLI_ABRT),
    /// The server broke its connection.
    ServerResetInRelay: ends(b"SD").part().counts(Counts::SRV_ABRT.and(Counts::ERESP)),
    /// The client was silent, or took nothing, for `timeout client` or `timeout tunnel`.
    ClientTimeoutInRelay: ends(b"cD").part().ended().counts(Counts::CLI_ABRT),
    /// The server was silent, or took nothing, for `timeout server` or `timeout tunnel`.
    ServerTimeoutInRelay: ends(b"sD").part().ended().counts(Counts::SRV_ABRT),
    /// The process stops at once, or has no buffer.
    RelayStopped: ends(b"KD").part(),

    // Operators.
    /// `shutdown session` or `shutdown sessions server`.
    Killed: ends(b"KC").part().closed().logged_as(500),
}

impl From<&ConnectError> for Cause {
    fn from(error: &ConnectError) -> Cause {
        match error {
            ConnectError::Timeout => Cause::ConnectTimeout,
            ConnectError::Refused(_) | ConnectError::NoSource(_) => Cause::ServerRefused,
            ConnectError::Resource(_) => Cause::NoSocket,
            ConnectError::NoSeat => Cause::NoSeat,
            ConnectError::Handshake(_) => Cause::NoServerTls,
            ConnectError::HandshakeWithRequest(_) => Cause::NoResponse,
        }
    }
}

/// A stream ends: letters, unless something ended it before, and counters. What an operator ended looks like something
/// else from inside, and no other failure counts for it.
#[cold]
pub fn end(worker: &Worker, listener: usize, state: &mut StreamState, cause: Cause) -> &'static Row {
    let cause = told_apart(worker, state, cause);
    let row = cause.row();
    let is_first = state.ended == Cause::Completed;
    if is_first && state.entry.is_killed() {
        noted(Cause::Killed);
        mark(state, Cause::Killed);
        return row;
    }
    noted(cause);
    if is_first {
        mark(state, cause);
    }
    if !row.once_sent {
        count(worker, listener, state, row.counts);
    }
    row
}

/// Whoever finds that a server's sessions were shut down does not know why.
fn told_apart(worker: &Worker, state: &StreamState, cause: Cause) -> Cause {
    let gave_way = || {
        let server = state.facts.server.map(|s| ServerId(s.index));
        server.is_some_and(|server| worker.backend(state.backend()).gave_way(server))
    };
    match cause {
        Cause::ServerWentDown if gave_way() => Cause::ServerGaveWay,
        Cause::ServerWentDownInBody if gave_way() => Cause::ServerGaveWayInBody,
        cause => cause,
    }
}

/// A stream turns out to end for another reason than the one that was found first.
#[cold]
pub fn end_instead(worker: &Worker, listener: usize, state: &mut StreamState, cause: Cause) -> &'static Row {
    state.ended = Cause::Completed;
    end(worker, listener, state, cause)
}

/// A session ends that has no stream: nothing but counters.
#[cold]
pub fn end_session(worker: &Worker, listener: usize, cause: Cause) {
    noted(cause);
    for counted in cause.row().counts.iter().filter(|counted| counted.side == Side::Frontend) {
        (counted.of)(worker.fe_counters(listener)).add(1);
    }
}

impl<'a> Stream<'a> {
    /// The stream ends for this reason. Returns what becomes of the client's connection.
    #[cold]
    pub fn end(&mut self, cause: Cause) -> After {
        self.count_fault(cause);
        self.trace_end(cause);
        let row = end(self.worker, self.session.listener, self.state, cause);
        if row.fate != Fate::Kept {
            self.keep_alive = false;
        }
        // A response that is cut must not look as if its end were the connection's.
        if row.told == Told::Part && row.letters.is_none_or(|[_, phase]| phase != b'L') {
            self.client.line.leave_without_a_word();
        }
        match self.state.facts.is_http {
            true => row.fate.after(),
            // Whatever a client of TCP is not told, it is told in order that nothing more comes.
            false if row.fate == Fate::Dropped => After::Drop,
            false => After::Close,
        }
    }

    /// The request ends for this reason, with the answer that the table says, if any.
    #[cold]
    pub fn stop(&mut self, cause: Cause) -> Stop<'a> {
        let after = self.end(cause);
        match cause.row().told {
            Told::Status(status) if self.state.facts.is_http => Stop::Answer(Answer::Error(status)),
            _ => Stop::Ended(after),
        }
    }

    /// The request ends for this reason, of which a client that has resets is told by one. What happened to the server is logged and
    /// counted with the status of the answer that others get.
    #[cold]
    pub fn stop_with_reset(&mut self, cause: Cause, code: ErrorCode) -> Stop<'a> {
        self.end(cause);
        if let Told::Status(status) = cause.row().told {
            self.state.facts.status = i32::from(status);
        }
        if let Line::Mux(stream) = &mut self.client.line {
            stream.leave_with(code);
        }
        Stop::Ended(After::Drop)
    }

    /// The answer to what ended the stream is on its way.
    pub fn answer_sent(&mut self) {
        let row = self.state.ended.row();
        if row.once_sent {
            count(self.worker, self.session.listener, self.state, row.counts);
        }
    }

    /// The answer to what ended the stream could not be made.
    #[cold]
    pub fn answer_failed(&mut self) {
        let is_purpose = self.state.ended.row().once_sent;
        if matches!(self.state.ended, Cause::AnsweredByFrontend | Cause::AnsweredByBackend) {
            // The rules have not decided, as it were (`%TR`).
            self.state.facts.timers.request_us = -1;
        }
        self.end(if is_purpose { Cause::AnswerFailed } else { Cause::RefusalFailed });
    }

    /// The request ends for this reason, with an answer of its own.
    #[cold]
    pub fn stop_with(&mut self, cause: Cause, answer: Answer<'a>) -> Stop<'a> {
        self.end(cause);
        Stop::Answer(answer)
    }
}

/// Gives a stream the letters of a cause.
pub fn mark(state: &mut StreamState, cause: Cause) {
    if let Some([who, phase]) = cause.row().letters {
        state.ended = cause;
        (state.facts.termination.cause, state.facts.termination.phase) = (who, phase);
    }
    if let (Some(status), true) = (cause.row().logged_as, state.facts.is_http) {
        state.facts.status = i32::from(status);
    }
}

fn count(worker: &Worker, listener: usize, state: &StreamState, counts: Counts) {
    let assigned = state.facts.backend_assigned;
    let server = state.facts.server.filter(|_| assigned).map(|s| ServerId(s.index));
    for counted in counts.iter() {
        let counters = match counted.side {
            Side::Frontend => Some(worker.fe_counters(listener)),
            // A refused response of a service counts for the backend that its frontend also is, as in the reference.
            Side::Backend if assigned || counted.column == "dresp" => {
                Some(worker.be_counters(state.backend()))
            }
            Side::Backend => None,
            Side::Server => server.map(|server| worker.srv_counters(state.backend(), server)),
        };
        if let Some(counters) = counters {
            (counted.of)(counters).add(1);
        }
    }
}

/// Whether what failed for this cause may be tried again, as far as its backend and the rules say. Connecting is tried again whatever
/// a rule says of requests (`disable-l7-retry`): the server saw nothing of this one.
pub fn may_retry(state: &StreamState, retry_on: &RetryOn, cause: Cause) -> bool {
    cause.row().retry.is_some_and(|(condition, _)| {
        condition.is_in(retry_on)
            && match condition {
                Condition::ConnFailure => has_attempts(state),
                _ => may_resend(state),
            }
    })
}

/// Whether another attempt is left for a request that a server may have seen.
pub fn may_resend(state: &StreamState) -> bool {
    !state.effects.overrides.no_l7_retry && has_attempts(state)
}

/// Whether another attempt is left.
fn has_attempts(state: &StreamState) -> bool {
    state.facts.retries < state.facts.max_retries
}

/// What failed for this cause is tried again.
#[cold]
pub fn retried(worker: &Worker, listener: usize, state: &StreamState, cause: Cause) {
    if let Some((_, counts)) = cause.row().retry {
        count(worker, listener, state, counts);
    }
}

/// Notes a cause for tests, in builds with debug assertions.
#[cfg(not(debug_assertions))]
#[inline(always)]
fn noted(_: Cause) {}

#[cfg(debug_assertions)]
thread_local! {
    static NOTED: std::cell::RefCell<Vec<Cause>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(debug_assertions)]
fn noted(cause: Cause) {
    NOTED.with_borrow_mut(|noted| {
        // Where nobody takes them, they are not worth more memory.
        if noted.len() < 1000 {
            noted.push(cause);
        }
    });
}

/// The causes of what ended on this thread since this was last called: for tests, in builds with debug assertions.
#[cfg(debug_assertions)]
pub fn take_noted() -> Vec<Cause> {
    NOTED.take()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row's counters as docs/endings.md prints them: each column with the initials of those who count it.
    fn printed_counts(counts: Counts) -> String {
        let mut parts: Vec<(&str, String)> = Vec::new();
        for counted in counts.iter() {
            let initial = &format!("{:?}", counted.side)[..1];
            match parts.iter_mut().find(|(column, _)| *column == counted.column) {
                Some((_, sides)) => sides.push_str(initial),
                None => parts.push((counted.column, initial.to_owned())),
            }
        }
        let parts: Vec<String> = parts.iter().map(|(column, sides)| format!("`{column}` {sides}")).collect();
        if parts.is_empty() { "-".to_owned() } else { parts.join(", ") }
    }

    /// The columns of a row that docs/endings.md has from the table.
    fn printed(row: &Row) -> [String; 6] {
        let letters = row.letters.map(|l| format!("`{}`", String::from_utf8_lossy(&l)));
        let answer = match row.told {
            Told::Nothing => "-".to_owned(),
            Told::Status(status) => status.to_string(),
            Told::Own => "its own".to_owned(),
            Told::Part => match row.logged_as {
                Some(status) => format!("what there is, logged as {status}"),
                None => "what there is".to_owned(),
            },
            Told::Response => "the server's".to_owned(),
        };
        let retry = row.retry.map(|(condition, counts)| match counts {
            Counts::NONE => format!("`{}`", condition.word()),
            counts => format!("`{}` ({})", condition.word(), printed_counts(counts)),
        });
        [
            letters.unwrap_or("-".to_owned()),
            answer,
            format!("{:?}", row.fate).to_lowercase(),
            printed_counts(row.counts)
                + if row.once_sent && row.counts != Counts::NONE { ", once sent" } else { "" },
            retry.unwrap_or("-".to_owned()),
            if row.failure { "error" } else { "normal" }.to_owned(),
        ]
    }

    #[test]
    fn the_page_is_the_table() {
        let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/endings.md"));
        let mut told = Vec::new();
        for line in page.lines().filter(|line| line.starts_with("| `") || line.starts_with("| - |")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [letters, name, what, answer, connection, counts, retry, log, advice] = cells[..] else {
                panic!("{line}");
            };
            let cause = Cause::ALL.iter().find(|cause| format!("{cause:?}") == name);
            let cause = *cause.unwrap_or_else(|| panic!("no such cause: {line}"));
            assert_eq!([letters, answer, connection, counts, retry, log], printed(cause.row()), "{name}");
            assert!(!what.is_empty() && !advice.is_empty(), "{name}");
            told.push(cause);
        }
        assert_eq!(told, Cause::ALL, "each cause has one line, in the table's order");
    }
}
