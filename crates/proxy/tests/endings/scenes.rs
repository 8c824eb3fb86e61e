//! The scenes: for each cause, what clients, servers and the world do, and what must come of it.

use thalweg_proxy::stream::ending::{Cause, Told};

use super::scene::BACK;
use super::scene::Do::{self, *};

const GET: Do = Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
const POST: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
const PART: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nx");
const CHUNKED: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
const BAD_CHUNK: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
const LARGE: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n");
pub const ANSWER: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
const ASKS_WHO: Do = Say("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n");
const BEGIN: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nx");
const BEGIN_CHUNKED: Do = Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");

/// More than fits between two connections.
const PIPES: usize = 4 << 20;

/// An address where nobody listens.
const NOBODY: &str = "server s 10.0.0.9:80";

/// A backup that serves because the active server is in maintenance.
const BACKUP: &str =
    "server s 10.0.0.9:80 disabled on-marked-up shutdown-backup-sessions;server b 10.0.0.2:80 backup";

/// What somebody outside does to the proxy while it serves.
#[derive(Clone, Copy)]
pub enum Act {
    /// Whoever asks for a connection is refused.
    Refused,
    /// Whoever asks for a connection gets no answer.
    Unanswered,
    /// There are no descriptors left.
    NoFiles,
    /// One buffer more may be in use at a time, of the usual size.
    OneBuffer,
    /// The server's sessions are shut down.
    ServerDown,
    /// The active server comes back.
    ActiveUp,
    /// An operator ends all streams.
    Kill,
    /// The process ends at once.
    Stop,
}

/// How far a stream came: whose counters can move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reached {
    Frontend,
    Backend,
    Server,
}

pub struct Scene {
    pub cause: Cause,
    /// What else ends, before and after it.
    pub before: Vec<Cause>,
    pub after: Vec<Cause>,
    pub mode: &'static str,
    pub frontend: &'static str,
    pub backend: &'static str,
    pub more: &'static str,
    pub reached: Reached,
    pub client: Vec<Do>,
    /// Clients that come before, 20 ms apart, and ask for /first.
    pub first: Vec<Vec<Do>>,
    pub no_default_backend: bool,
    /// One script for each connection to the server; the last one is for all that follow.
    pub servers: Vec<Vec<Do>>,
    pub act: Option<(u64, Act)>,
    /// The log line, where the table does not say all of it.
    pub log: Option<&'static str>,
}

fn http(cause: Cause) -> Scene {
    Scene {
        cause,
        before: Vec::new(),
        after: Vec::new(),
        mode: "http",
        frontend: "",
        backend: "",
        more: "",
        reached: Reached::Server,
        client: vec![GET],
        first: Vec::new(),
        no_default_backend: false,
        servers: vec![vec![Head]],
        act: None,
        log: None,
    }
}

fn tcp(cause: Cause) -> Scene {
    Scene { mode: "tcp", client: vec![Say("x")], ..http(cause) }
}

impl Scene {
    fn frontend(self, frontend: &'static str) -> Scene {
        Scene { frontend, ..self }
    }

    fn backend(self, backend: &'static str) -> Scene {
        Scene { backend, ..self }
    }

    fn more(self, more: &'static str) -> Scene {
        Scene { more, ..self }
    }

    fn no_default_backend(self) -> Scene {
        Scene { no_default_backend: true, ..self }
    }

    fn only(self, reached: Reached) -> Scene {
        Scene { reached, ..self }
    }

    fn client(self, script: &[Do]) -> Scene {
        Scene { client: script.to_vec(), ..self }
    }

    fn first(self, script: &[Do]) -> Scene {
        let mut first = self.first;
        first.push(script.to_vec());
        Scene { first, ..self }
    }

    fn server(self, script: &[Do]) -> Scene {
        Scene { servers: vec![script.to_vec()], ..self }
    }

    fn act(self, at: u64, act: Act) -> Scene {
        Scene { act: Some((at, act)), ..self }
    }

    fn log(self, log: &'static str) -> Scene {
        Scene { log: Some(log), ..self }
    }

    fn before(self, cause: Cause) -> Scene {
        Scene { before: vec![cause], ..self }
    }

    fn after(self, cause: Cause) -> Scene {
        Scene { after: vec![cause], ..self }
    }

    /// The line that the table asks for.
    pub fn expected(&self) -> String {
        if let Some(log) = self.log {
            return log.to_owned();
        }
        let row = self.cause.row();
        let Some(letters) = row.letters else { return "none".to_owned() };
        let letters = String::from_utf8_lossy(&letters).into_owned();
        match row.told {
            _ if self.mode == "tcp" => letters,
            Told::Nothing => format!("{letters} -1"),
            Told::Status(status) => format!("{letters} {status}"),
            Told::Part | Told::Response => format!("{letters} {}", row.logged_as.unwrap_or(200)),
            Told::Own => panic!("{:?}: which answer?", self.cause),
        }
    }

    /// Whether the script leaves it to the proxy to close the client's connection, and sees that.
    pub fn client_stays(&self) -> bool {
        !self.client.iter().any(|step| matches!(step, Fin | Close | Reset | Flood(_) | Idle(9_000..)))
    }
}

/// A text that is made at run time, for a script.
fn text(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A request with so long a path that three times the path is more than a head may have.
fn long() -> Do {
    Say(text(format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(6_000))))
}

pub fn scenes() -> Vec<Scene> {
    use Cause::*;
    use Reached::{Backend, Frontend};
    let own = "http-request return status 202";
    vec![
        http(Completed).server(&[Head, ANSWER]),
        http(ConnectionRejected).only(Frontend).frontend("tcp-request connection reject"),
        http(SessionRejected).only(Frontend).frontend("tcp-request session reject"),
        http(SessionVanished).only(Frontend).frontend("tcp-request connection silent-drop"),
        tcp(SessionVanished).only(Frontend).frontend("tcp-request session silent-drop"),
        http(NoProxyHeader).only(Frontend).frontend("tcp-request connection expect-proxy layer4"),
        http(NoClientTls).only(Frontend).client(&[GET]),
        http(ClientSaidNothing).only(Frontend).client(&[Idle(300), Close]),
        http(ClientSilent).only(Frontend).frontend("timeout http-request 1s").client(&[]),
        http(ClientLeftInHead).only(Frontend).client(&[Say("GET / HTT"), Idle(300), Close]),
        http(HeadTimeout).only(Frontend).frontend("timeout http-request 1s").client(&[Say("GET / HTT")]),
        http(NoRoomForHead)
            .only(Frontend)
            .client(&[
                Say("GET / HTTP/1.1\r\na: b\r\n"),
                Idle(300),
                Say(text(format!("c: {}\r\n", "d".repeat(6_000)))),
            ])
            .act(200, Act::OneBuffer),
        http(BadFrames).only(Frontend).client(&[Say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x06\0\0\0\0\0")]).log("PR 0"),
        http(BadRequest).only(Frontend).client(&[Say("GET / HTTP/1.1\r\nHost : x\r\n\r\n")]).log("PR 400"),
        http(ClientLeftInRules).only(Backend).frontend("http-request wait-for-body time 2s").client(&[
            PART,
            Idle(300),
            Fin,
        ]),
        http(ClientResetInRules).only(Backend).frontend("http-request pause 2s").client(&[
            GET,
            Idle(300),
            Reset,
        ]),
        tcp(ClientResetInRules)
            .only(Backend)
            .frontend("tcp-request inspect-delay 2s;tcp-request content accept if { req.len gt 9 }")
            .client(&[Say("x"), Idle(300), Reset]),
        http(BodyTimeout).only(Frontend).frontend("http-request wait-for-body time 1s").client(&[PART]),
        http(BadRequestInRules)
            .only(Frontend)
            .frontend("http-request normalize-uri percent-decode-unreserved strict")
            .client(&[Say("GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n")]),
        http(DeniedByRule).only(Frontend).frontend("http-request deny").log("PR 403"),
        http(DeniedByRule).only(Backend).backend("http-request deny deny_status 429").log("PR 429"),
        http(Tarpitted)
            .only(Frontend)
            .frontend("timeout tarpit 1s;http-request tarpit")
            .before(TarpitBegan)
            .log("PT 500"),
        http(RejectedByRule).only(Frontend).frontend("http-request reject"),
        http(RejectedByRule).only(Backend).backend("tcp-request content reject"),
        tcp(RejectedByRule).only(Frontend).frontend("tcp-request content reject"),
        tcp(RejectedByRule).only(Backend).backend("tcp-request content reject"),
        http(SilentlyDropped).only(Frontend).frontend("http-request silent-drop"),
        http(SilentlyDropped).backend("http-response silent-drop").server(&[Head, ANSWER]).log("PR 200"),
        tcp(SilentlyDropped).only(Backend).backend("tcp-request content silent-drop"),
        tcp(SilentlyDropped).backend("tcp-response content silent-drop").server(&[ANSWER]),
        http(BadHeaderName)
            .only(Frontend)
            .frontend("option http-restrict-req-hdr-names reject")
            .client(&[Say("GET / HTTP/1.1\r\nHost: x\r\na_b: c\r\n\r\n")]),
        http(RequestRewriteFailed)
            .only(Frontend)
            .frontend("http-request set-header a %[path]%[path]%[path]")
            .client(&[long()]),
        http(AnsweredByFrontend).only(Frontend).frontend(own).log("LR 202"),
        http(AnsweredByFrontend).only(Frontend).frontend("http-request auth").log("LR 401"),
        http(AnsweredByBackend).only(Backend).backend("http-request redirect location /x").log("LR 302"),
        http(AnsweredByService).only(Frontend).frontend("http-request use-service nothing").log("LR 200"),
        http(Monitored).only(Frontend).frontend("monitor-uri /").log("none"),
        http(NoBackend).only(Frontend).frontend("use_backend nowhere-%[path]").no_default_backend(),
        tcp(NoBackend).only(Frontend).frontend("use_backend nowhere-%[dst]").no_default_backend(),
        http(BackendOfTcp)
            .only(Frontend)
            .frontend("use_backend %[str(tcp)]")
            .more("backend tcp;mode tcp;server s 10.0.0.2:80"),
        http(RedirectedToServer).backend("server s 10.0.0.2:80 redir http://y").log("LC 302"),
        http(NoServer).only(Backend).backend("server s 10.0.0.2:80 disabled"),
        tcp(NoServer).only(Backend).backend("server s 10.0.0.2:80 disabled"),
        http(QueueFull)
            .backend("balance hdr(host);hash-type consistent;server s 10.0.0.2:80 maxconn 1 maxqueue 1")
            .first(&[FIRST])
            .first(&[FIRST]),
        http(QueueTimeout)
            .only(Backend)
            .backend("timeout queue 1s;server s 10.0.0.2:80 maxconn 1")
            .first(&[FIRST]),
        http(ClientLeftInQueue)
            .only(Backend)
            .backend("server s 10.0.0.2:80 maxconn 1")
            .first(&[FIRST])
            .client(&[GET, Idle(300), Fin]),
        tcp(ClientLeftInQueue)
            .only(Backend)
            .backend("option abortonclose;server s 10.0.0.2:80 maxconn 1")
            .first(&[Say("/first")])
            .client(&[Say("x"), Idle(300), Fin]),
        http(ClientResetInQueue)
            .only(Backend)
            .backend("server s 10.0.0.2:80 maxconn 1")
            .first(&[FIRST])
            .client(&[GET, Idle(300), Reset]),
        http(ClientLeftConnecting).client(&[Idle(50), GET, Idle(300), Fin]).act(20, Act::Unanswered),
        tcp(ClientLeftConnecting).backend("retries 3;server s 10.0.0.9:80").client(&[Idle(300), Fin]),
        http(ClientLeftRetrying).backend("retries 3;server s 10.0.0.9:80").client(&[GET, Idle(300), Fin]),
        http(ClientResetRetrying).backend("retries 3;server s 10.0.0.9:80").client(&[GET, Idle(300), Reset]),
        http(ClientResetRetrying).backend("retries 3;server s 10.0.0.9:80").client(&[PART, Idle(300), Fin]),
        tcp(ClientResetUnconnected).backend("retries 3;server s 10.0.0.9:80").client(&[
            Say("x"),
            Idle(300),
            Reset,
        ]),
        http(ServerRefused).client(&[Idle(50), GET]).act(20, Act::Refused),
        tcp(ServerRefused).backend(NOBODY),
        http(NoServerTls).backend(text(format!("server s {BACK} ssl verify none"))).server(&[BEGIN]),
        tcp(NoServerTls).backend(text(format!("server s {BACK} ssl verify none"))).server(&[Close]),
        http(ConnectTimeout).backend("timeout connect 1s").client(&[Idle(50), GET]).act(20, Act::Unanswered),
        tcp(ConnectTimeout)
            .frontend("tcp-request inspect-delay 50ms;tcp-request content accept if WAIT_END")
            .backend("timeout connect 1s")
            .act(20, Act::Unanswered),
        http(NoSeat)
            .backend("timeout connect 1s;http-reuse never;server s 10.0.0.2:80 maxconn 1 strict-maxconn")
            .first(&[FIRST, Idle(1_500), Fin])
            .client(&[Idle(50), GET])
            .server(&[Head, ASKS_WHO]),
        http(NoSocket).client(&[Idle(50), GET]).act(20, Act::NoFiles),
        http(ServerWentDown).act(300, Act::ServerDown),
        tcp(ServerWentDown)
            .backend("tcp-response inspect-delay 2s;tcp-response content accept if { res.len gt 9 }")
            .act(300, Act::ServerDown),
        http(ServerGaveWay).backend(BACKUP).act(300, Act::ActiveUp),
        http(BadRequestBody).client(&[CHUNKED, Idle(300), Say("x\r\n")]),
        http(ClientLeftWaiting).client(&[GET, Idle(300), Fin]),
        http(ClientResetWaiting).client(&[GET, Idle(300), Reset]),
        http(ClientSilentInBody).frontend("timeout client 1s").client(&[PART]),
        http(IdleConnectionLost).client(&[POST, Head, POST]).server(&[Head, ANSWER, Head, Close]),
        http(IdleConnectionLostAtFirst)
            .backend("http-reuse always")
            .first(&[FIRST])
            .client(&[POST])
            .server(&[Head, ANSWER, Head, Close]),
        http(NoResponse).server(&[Head, Close]),
        http(ResponseHeadCut).server(&[Head, Say("HTTP/1.1 200 OK\r\nA:"), Close]),
        http(BadResponse).server(&[Head, Say("SSH-2.0-x\r\n\r\n")]),
        http(ResponseTimeout).backend("timeout server 1s"),
        http(ServerStuck).backend("timeout server 1s").client(&[LARGE, Flood(PIPES)]).server(&[Idle(30_000)]),
        http(NoBuffer).client(&[Idle(50), POST]).act(20, Act::OneBuffer).after(NoBufferForAnswer),
        http(ResponseDenied).backend("http-response deny").server(&[Head, ANSWER]).log("PH 502"),
        http(CacheableCookie)
            .backend("option checkcache")
            .server(&[Head, Say("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")]),
        http(ResponseRejected).backend("tcp-response content reject").server(&[Head, ANSWER]),
        tcp(ResponseRejected).backend("tcp-response content reject").server(&[ANSWER]),
        http(ResponseClosed).backend("tcp-response content close").server(&[Head, ANSWER]),
        http(AnsweredForServer)
            .backend("http-response return status 404")
            .server(&[Head, ANSWER])
            .log("LH 404"),
        http(ResponseBodyTimeout).backend("http-response wait-for-body time 1s").server(&[Head, BEGIN]),
        http(ResponseRewriteFailed)
            .frontend("http-request set-var(txn.p) path")
            .backend("http-response set-header a %[var(txn.p)]%[var(txn.p)]%[var(txn.p)]")
            .client(&[long()])
            .server(&[Head, ANSWER]),
        http(AfterRewriteFailed)
            .frontend("http-request set-var(txn.p) path")
            .backend("http-after-response set-header a %[var(txn.p)]%[var(txn.p)]%[var(txn.p)]")
            .client(&[long()])
            .server(&[Head, ANSWER]),
        http(RefusalFailed)
            .only(Frontend)
            .frontend("http-request deny hdr a %[path] hdr b %[path] hdr c %[path]")
            .client(&[long()])
            .before(DeniedByRule)
            .log("PR 500"),
        http(RefusalFailed)
            .only(Backend)
            .frontend("http-request set-var(txn.p) path")
            .backend("http-after-response set-header a %[var(txn.p)]%[var(txn.p)]%[var(txn.p)];server s 10.0.0.2:80 disabled")
            .client(&[long()])
            .before(NoServer)
            .log("SC 500"),
        http(AnswerFailed)
            .only(Frontend)
            .frontend(
                "http-request set-var(txn.p) path;http-request return status 202;\
                 http-after-response set-header a %[var(txn.p)]%[var(txn.p)]%[var(txn.p)]",
            )
            .client(&[long()])
            .before(AnsweredByFrontend)
            .log("LR 500"),
        http(AnswerFailed)
            .backend("http-response return status 202 hdr a %[var(txn.p)] hdr b %[var(txn.p)] hdr c %[var(txn.p)]")
            .frontend("http-request set-var(txn.p) path")
            .client(&[long()])
            .server(&[Head, ANSWER])
            .before(AnsweredForServer)
            .log("LH 500"),
        http(AnswerFailed)
            .only(Frontend)
            .frontend("http-request return status 202 hdr a %[path] hdr b %[path] hdr c %[path]")
            .client(&[long()])
            .before(AnsweredByFrontend)
            .log("LR 500"),
        http(BadBodyUnread).only(Frontend).frontend(own).client(&[BAD_CHUNK]).before(AnsweredByFrontend),
        http(NoBufferForAnswer)
            .client(&[Idle(50), GET])
            .server(&[Head, ANSWER])
            .act(20, Act::OneBuffer)
            .log("RH 200"),
        http(ClientLeftUnanswered)
            .only(Frontend)
            .frontend("timeout client 1s;http-request return status 202 if { path /own }")
            .client(&[
                Say("GET /first HTTP/1.1\r\nHost: x\r\n\r\nGET /own HTTP/1.1\r\nHost: x\r\n\r\n"),
                Idle(30_000),
            ])
            // What went past the buffers would stay with its stream until the client takes it.
            .more("global;nosplice")
            .server(&[Head, Say("HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n"), Flood(65_536)])
            .before(AnsweredByFrontend)
            .log("LR 202"),
        http(BadFirstChunk)
            .server(&[Head, Say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")]),
        http(ServerLeftInBody).server(&[Head, BEGIN, Idle(100), Close]),
        http(BadResponseBody).server(&[Head, BEGIN_CHUNKED, Idle(100), Say("x\r\n")]),
        http(ServerSilentInBody).backend("timeout server 1s").server(&[Head, BEGIN]),
        http(ClientLeftInResponse).client(&[GET, Idle(300), Fin]).server(&[Head, BEGIN]),
        http(ClientStuck).frontend("timeout client 1s").client(&[GET, Idle(30_000)]).server(&[
            Head,
            Say("HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n"),
            Flood(PIPES),
        ]),
        http(ClientLeftAnswered).client(&[PART, Idle(300), Fin]).server(&[Head, ANSWER]),
        http(ClientSilentAnswered).frontend("timeout client 1s").client(&[PART]).server(&[Head, ANSWER]),
        http(ServerWentDownInBody).server(&[Head, BEGIN]).act(300, Act::ServerDown),
        tcp(ServerWentDownInBody).act(300, Act::ServerDown),
        http(ServerGaveWayInBody).backend(BACKUP).server(&[Head, BEGIN]).act(300, Act::ActiveUp),
        tcp(ServerGaveWayInBody).backend(BACKUP).act(300, Act::ActiveUp),
        http(BadRequestBodyAnswered).client(&[CHUNKED, Idle(300), Say("x\r\n")]).server(&[Head, BEGIN]),
        http(NoBufferInBody)
            .client(&[
                Say("POST / HTTP/1.1\r\nHost: x\r\n"),
                Idle(100),
                Say(text(format!(
                    "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nb: {}",
                    "c".repeat(2_000)
                ))),
                Idle(300),
                Say(text("d".repeat(4_000))),
            ])
            .server(&[Head, BEGIN])
            .act(300, Act::OneBuffer),
        tcp(ClientResetInRelay).client(&[Say("x"), Idle(300), Reset]),
        tcp(ServerResetInRelay).server(&[Idle(300), Reset]),
        tcp(ClientTimeoutInRelay).frontend("timeout client 1s").backend("timeout server 2s"),
        tcp(ServerTimeoutInRelay).frontend("timeout client 2s").backend("timeout server 1s"),
        tcp(RelayStopped).act(300, Act::Stop),
        http(Killed).act(300, Act::Kill),
        tcp(Killed).act(300, Act::Kill),
    ]
}

const FIRST: Do = Say("GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
