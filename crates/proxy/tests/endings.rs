//! Every cause of the table of endings (`stream/ending.rs`, docs/endings.md) is forced, in virtual time: a real
//! configuration, the real data path on one thread of the simulator, and a client and servers that play scripts. What the
//! table says is compared with what happened: the letters and the status in the log, the counters of frontend, backend
//! and server (all that are there: those that are not in the row must not move), what became of the client's connection,
//! and, where a cause may be tried again, that it is when `retry-on` says so. A cause without a scene fails.

#[path = "support/scene.rs"]
mod scene;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use scene::Do::{self, *};
use scene::{BACK, FRONT, LOG, SCRIPT, Seen, address, play};
use thalweg_config::{Input, LoadOptions};
use thalweg_http::Head as HttpHead;
use thalweg_proxy::counters::Counters;
use thalweg_proxy::operator::Hand;
use thalweg_proxy::stream::ending::{COUNTED, Cause, Counts, Fate, Side, Told};
use thalweg_proxy::stream::service::{Body, Request, Service};
use thalweg_proxy::{Instance, Stopping, ThreadSocket, worker};
use thalweg_runtime::buffer::{self, BufferConfig};
use thalweg_runtime::driver::sim::{self, Network, SimConfig};
use thalweg_runtime::net::{ConnectOptions, Datagram, DatagramOptions, LetGo, Listener, Port, Stream};
use thalweg_runtime::{clock, spawn, timer};
use thalweg_tls::pem;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template};

const GET: Do = Say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
const POST: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
const PART: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nx");
const CHUNKED: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
const BAD_CHUNK: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
const LARGE: Do = Say("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n");
const ANSWER: Do = Say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
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
enum Act {
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
enum Reached {
    Frontend,
    Backend,
    Server,
}

struct Scene {
    cause: Cause,
    /// What else ends, before and after it.
    before: Vec<Cause>,
    after: Vec<Cause>,
    mode: &'static str,
    frontend: &'static str,
    backend: &'static str,
    more: &'static str,
    reached: Reached,
    client: Vec<Do>,
    /// Clients that come before, 20 ms apart, and ask for /first.
    first: Vec<Vec<Do>>,
    no_default_backend: bool,
    /// One script for each connection to the server; the last one is for all that follow.
    servers: Vec<Vec<Do>>,
    act: Option<(u64, Act)>,
    /// The log line, where the table does not say all of it.
    log: Option<&'static str>,
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
    fn expected(&self) -> String {
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
    fn client_stays(&self) -> bool {
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

fn scenes() -> Vec<Scene> {
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

/// A service that has nothing to say.
struct Nothing;

impl Service for Nothing {
    fn name(&self) -> &'static str {
        "nothing"
    }

    fn title(&self) -> &'static str {
        "<NOTHING>"
    }

    fn answer(&self, _: &Request<'_>, response: &mut HttpHead) -> Result<Option<Box<dyn Body>>, u16> {
        response.start_response(thalweg_http::Version::HTTP_11, 200, Some(b"OK")).map_err(|_| 500u16)?;
        Ok(Some(Box::new(Nothing)))
    }
}

impl Body for Nothing {
    fn step(&mut self, _: &mut Vec<u8>) -> bool {
        false
    }
}

/// The path of a certificate with its key.
fn certificate() -> &'static str {
    static MADE: OnceLock<String> = OnceLock::new();
    MADE.get_or_init(|| {
        let key = MadeKey::generate(NewKey::P256).unwrap();
        let template = Template::new("www.example.com", 0, 4_000_000_000);
        let der = template.sign(&key, &template.subject, &key).unwrap();
        let text = pem::encode("CERTIFICATE", &der) + &pem::encode("PRIVATE KEY", key.pkcs8());
        let path = std::env::temp_dir().join(format!("thalweg-endings-{}.pem", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    })
}

fn configuration(scene: &Scene) -> String {
    let format = if scene.mode == "http" { "%ts %ST %HP" } else { "%ts" };
    let lines = |text: &str| text.replace(';', "\n ");
    let server =
        if scene.backend.contains("server s ") { String::new() } else { format!(" server s {BACK}\n") };
    let tls =
        if scene.cause == Cause::NoClientTls { format!("ssl crt {}", certificate()) } else { String::new() };
    let default = if scene.no_default_backend { "" } else { " default_backend be\n" };
    format!(
        "global\n log {LOG} format raw local0\n expose-experimental-directives\ndefaults\n mode {}\n log global\n \
         log-format \"{format}\"\n error-log-format \"%ts %ST x\"\n timeout connect 9s\n timeout client 9s\n timeout server 9s\n \
         retries 0\nfrontend fe\n bind {FRONT} {tls}\n {}\n{default}backend be\n {}\n{server}{}\n",
        scene.mode,
        lines(scene.frontend),
        lines(scene.backend),
        lines(scene.more),
    )
}

/// What a scene showed.
struct Played {
    /// Its last log line, without the path.
    log: String,
    /// When that was written, and when the client saw the end of its connection.
    logged_ms: u64,
    client_end_ms: Option<u64>,
    /// Which counters of failures moved: the place in the table, and how much.
    counted: Vec<(usize, u64)>,
    /// The causes that were noted.
    noted: Vec<Cause>,
}

/// How long a scene is looked at.
const LENGTH_MS: u64 = 5_000;

fn act(network: &Network, act: Act, worker: &worker::Worker, undo: bool) {
    let ppm = if undo { 0 } else { 1_000_000 };
    match act {
        Act::Refused => network.configure(|c| c.refuse_ppm = ppm),
        Act::Unanswered => network.configure(|c| c.unanswered_ppm = ppm),
        Act::NoFiles => network.configure(|c| c.emfile_ppm = ppm),
        Act::OneBuffer => buffer::configure(BufferConfig {
            limit: if undo { 0 } else { buffer::stats().used + 1 },
            reserve: 0,
            ..BufferConfig::default()
        }),
        _ if undo => {}
        Act::ServerDown => {
            let be = worker.instance.backend_by_name(b"be").unwrap().id;
            worker.backend(be).shut_sessions(thalweg_config::model::ServerId(0));
        }
        Act::ActiveUp => {
            let be = worker.instance.backend_by_name(b"be").unwrap().id;
            Hand { worker, proxy: be, server: thalweg_config::model::ServerId(0) }.make_ready();
        }
        Act::Kill => _ = worker.streams.kill(|_| true),
        Act::Stop => {
            worker.instance.stop(Stopping::Hard);
            worker.wake_sessions();
        }
    }
}

/// Plays a scene. `undo` is when what was done to the proxy is undone.
fn run(scene: &Scene, deferred_sends: bool, text: String, undo: Option<u64>) -> Played {
    let (client, first, servers) = (scene.client.clone(), scene.first.clone(), scene.servers.clone());
    let (act_at, name, is_http) = (scene.act, format!("{:?}", scene.cause), scene.mode == "http");
    let title = name.clone();
    // What a worker holds lives as long as its thread.
    let played = std::thread::spawn(move || {
        let played = Arc::new(std::sync::Mutex::new(None));
        let result = Arc::clone(&played);
        let sim = SimConfig { deferred_sends, ..SimConfig::faultless() };
        let report = sim::run(7, sim, move |network: Network| async move {
            let input = Input::Memory { name: name.clone(), text: text.into_bytes() };
            let options =
                LoadOptions { files: vec![input], cpus: 1, services: &["nothing"], ..LoadOptions::default() };
            let loaded = thalweg_config::load(&options);
            let problems: Vec<String> = loaded.diagnostics.iter().map(|d| format!("{d:?}")).collect();
            let mut config = loaded.config.unwrap_or_else(|| panic!("{name}: {problems:?}"));
            config.global.nbthread = 1;
            let of = |name: &str| config.proxies.iter().find(|p| &*p.name == name).unwrap().id;
            let (fe, be) = (of("fe"), of("be"));
            let number = config.proxy(fe).binds[0].number as usize;
            let mut log = Datagram::bind(&address(LOG), &DatagramOptions::default()).unwrap();
            let front = network.listen(&address(FRONT), &Default::default()).unwrap();
            let port = Arc::new(Port::new(front, LetGo::Keep));
            let mut listener = Listener::bind(&address(BACK), &Default::default()).unwrap();
            let instance = Instance::new(config, "thalweg", "host", clock::wall_us());
            instance.offer(vec![Box::new(Nothing)]);
            thalweg_proxy::start_thread(&instance, 0, vec![ThreadSocket { listener: number, port }]);
            let began = clock::now_ms() + first.len() as u64 * 20;
            let seen = Seen::default();
            let told = seen.clone();
            spawn(&SCRIPT, async move {
                let mut scripts = servers.into_iter();
                let mut script = Vec::new();
                while let Ok((fd, _)) = listener.accept().await {
                    let Ok(stream) = Stream::from_accepted(fd) else { return };
                    script = scripts.next().unwrap_or(script);
                    spawn(&SCRIPT, play(stream, script.clone(), "server", told.clone(), began));
                }
            });
            let to_front = || Stream::connect(&address(FRONT), &ConnectOptions::default());
            for script in first {
                let stream = to_front().await.unwrap();
                spawn(&SCRIPT, play(stream, script, "first", seen.clone(), began));
                timer::sleep(20).await;
            }
            let stream = to_front().await.unwrap();
            spawn(&SCRIPT, play(stream, client, "client", seen.clone(), began));
            if let Some((at, what)) = act_at {
                let network = network.clone();
                spawn(&SCRIPT, async move {
                    timer::sleep_until(began + at).await;
                    act(&network, what, &worker::current().unwrap(), false);
                    if let Some(undo) = undo {
                        timer::sleep_until(began + undo).await;
                        act(&network, what, &worker::current().unwrap(), true);
                    }
                });
            }
            let (mut line, mut logged_ms) = ("none".to_owned(), 0);
            while let Ok(received) = timer::timeout_at(Some(began + LENGTH_MS), log.recv_from()).await {
                let text = String::from_utf8_lossy(&received.unwrap().bytes).trim().to_owned();
                if text.contains("/first") || text.contains("Server ") || text.contains("Proxy ") {
                    continue;
                }
                line = match is_http {
                    true => text.rsplit_once(' ').map_or(text.clone(), |(line, _)| line.to_owned()),
                    false => text,
                };
                logged_ms = clock::now_ms() - began;
            }
            buffer::configure(BufferConfig::default());
            let threads = &instance.threads[0];
            let fronts: Vec<&Counters> = instance.frontend_counters(fe).collect();
            let servers = &instance.config.proxies[be.0 as usize].servers;
            let index = |id| instance.server_index(be, id);
            let value = |counted: &thalweg_proxy::stream::ending::Counted| match counted.side {
                Side::Frontend => fronts.iter().map(|c| counted.value(c)).sum(),
                Side::Backend => counted.value(&threads.backends[be.0 as usize]),
                Side::Server => servers.iter().map(|s| counted.value(&threads.servers[index(s.id)])).sum(),
            };
            let counted: Vec<(usize, u64)> =
                COUNTED.iter().enumerate().map(|(i, c)| (i, value(c))).filter(|(_, n)| *n > 0).collect();
            let client_end_ms = seen.borrow().iter().find(|(by, ..)| *by == "client").map(|(_, at, _)| *at);
            *result.lock().unwrap() =
                Some(Played { log: line, logged_ms, client_end_ms, counted, noted: noted() });
            timer::sleep(20_000).await;
        });
        assert_eq!((&report.verdict, &report.incidents), (&None, &Vec::new()), "{title}");
        played.lock().unwrap().take()
    })
    .join();
    played.ok().flatten().unwrap_or_else(|| panic!("{:?}: the scene panicked", scene.cause))
}

#[cfg(debug_assertions)]
fn noted() -> Vec<Cause> {
    thalweg_proxy::stream::ending::take_noted()
}

#[cfg(not(debug_assertions))]
fn noted() -> Vec<Cause> {
    Vec::new()
}

/// The counters of a row that can move in a scene.
/// Those of servers count only for streams that came to one, and so on.
fn expected_counts(sets: &[Counts], reached: Reached) -> Vec<(usize, u64)> {
    let reaches = |side| match side {
        Side::Frontend => true,
        Side::Backend => reached >= Reached::Backend,
        Side::Server => reached >= Reached::Server,
    };
    let times = |column: &str, side: Side| {
        let has = |set: &&Counts| set.iter().any(|c| c.column == column && c.side == side);
        sets.iter().filter(has).count() as u64
    };
    COUNTED
        .iter()
        .enumerate()
        .filter(|(_, c)| reaches(c.side))
        .map(|(i, c)| (i, times(c.column, c.side)))
        .filter(|(_, n)| *n > 0)
        .collect()
}

fn columns(counted: &[(usize, u64)]) -> String {
    let name = |(i, n): &(usize, u64)| format!("{:?} {} {n}", COUNTED[*i].side, COUNTED[*i].column);
    counted.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[test]
fn every_cause_has_what_the_table_says() {
    let mut wrong = String::new();
    let mut forced = BTreeSet::new();
    for scene in scenes() {
        let causes: Vec<Cause> =
            scene.before.iter().chain([&scene.cause]).chain(&scene.after).copied().collect();
        forced.extend(causes.iter().copied());
        let row = scene.cause.row();
        for deferred_sends in [false, true] {
            let played = run(&scene, deferred_sends, configuration(&scene), None);
            let mut complain = |what: &str, expected: &str, saw: &str| {
                let (cause, mode) = (scene.cause, scene.mode);
                let _ = writeln!(
                    wrong,
                    "{mode} {cause:?} (deferred sends: {deferred_sends}): {what} {expected:?}, saw {saw:?}"
                );
            };
            let expected = scene.expected();
            if played.log != expected {
                complain("log", &expected, &played.log);
            }
            let unsent = [Cause::AnswerFailed, Cause::BadBodyUnread];
            let is_sent = !causes.iter().any(|cause| unsent.contains(cause));
            let is_counted = |cause: &&Cause| is_sent || !cause.row().once_sent;
            let sets: Vec<Counts> =
                causes.iter().filter(is_counted).map(|cause| cause.row().counts).collect();
            let counts = expected_counts(&sets, scene.reached);
            if played.counted != counts {
                complain("counters", &columns(&counts), &columns(&played.counted));
            }
            let ends: Vec<Cause> = causes.iter().copied().filter(|c| *c != Cause::Completed).collect();
            if cfg!(debug_assertions) && played.noted != ends {
                complain("causes", &format!("{ends:?}"), &format!("{:?}", played.noted));
            }
            let end = played.client_end_ms;
            let as_told = match row.fate {
                _ if !scene.client_stays() => true,
                Fate::Kept if scene.mode == "http" => end.is_none_or(|at| at > played.logged_ms + 500),
                _ => end.is_some_and(|at| at < played.logged_ms + 1_500),
            };
            if !as_told {
                complain(
                    "connection",
                    &format!("{:?} at {}", row.fate, played.logged_ms),
                    &format!("{end:?}"),
                );
            }
        }
    }
    let missing: Vec<&Cause> = Cause::ALL.iter().filter(|cause| !forced.contains(cause)).collect();
    assert!(wrong.is_empty() && missing.is_empty(), "{wrong}without a scene: {missing:?}");
}

/// Where the table names a condition, the request is sent once more under it, and counts what the table says.
#[test]
fn what_may_be_tried_again_is() {
    let mut wrong = String::new();
    // A server of these scenes does not speak TLS the second time either: see `servers_that_cannot_be_agreed_with`.
    let may_work = |scene: &Scene| scene.mode == "http" && scene.cause != Cause::NoServerTls;
    for mut scene in scenes().into_iter().filter(may_work) {
        let Some((condition, counts)) = scene.cause.row().retry else { continue };
        if scene.act.is_some() {
            scene.servers = vec![vec![Head, ANSWER]];
        } else {
            scene.servers.push(vec![Head, ANSWER]);
        }
        for (retry_on, is_tried) in [(condition.word(), true), ("none", false)] {
            let text = configuration(&scene)
                .replace("\nbackend be\n", &format!("\nbackend be\n retries 1\n retry-on {retry_on}\n"));
            let played = run(&scene, false, text, Some(500));
            let (log, counts) = match is_tried {
                true => ("-- 200".to_owned(), expected_counts(&[counts], Reached::Server)),
                false => (scene.expected(), expected_counts(&[scene.cause.row().counts], scene.reached)),
            };
            if played.log != log || played.counted != counts {
                let _ = writeln!(
                    wrong,
                    "{:?} with retry-on {retry_on}: expected {log:?} and {}, saw {:?} and {}",
                    scene.cause,
                    columns(&counts),
                    played.log,
                    columns(&played.counted)
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Letters are set, and failures counted, by `stream/ending.rs` alone.
#[test]
fn nothing_ends_beside_the_table() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut looked = 0;
    let mut wrong = String::new();
    let mut directories = vec![crates.join("proxy/src"), crates.join("cli/src"), crates.join("thalweg/src")];
    let fields = [
        "failed_requests",
        "denied_requests",
        "denied_responses",
        "failed_connections",
        "failed_responses",
        "client_aborts",
        "server_aborts",
        "internal_errors",
        "intercepted",
        "denied_connections",
        "denied_sessions",
    ];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs")
                || path.ends_with("stream/ending.rs")
            {
                continue;
            }
            looked += 1;
            let text: String = std::fs::read_to_string(&path).unwrap().split_whitespace().collect();
            let letters =
                ["termination.cause=", "termination.phase=", "t.cause,t.phase", "termination=Default"];
            let counts = fields.iter().map(|field| format!("{field}.add("));
            for what in letters.iter().map(|letters| (*letters).to_owned()).chain(counts) {
                let is_question = text.contains(&format!("{what}=")) && what.ends_with('=');
                if text.contains(&what) && !is_question {
                    let _ = writeln!(wrong, "{}: {what}", path.display());
                }
            }
        }
    }
    assert!(looked > 40, "only {looked} files were found");
    assert!(wrong.is_empty(), "name a cause instead (stream/ending.rs):\n{wrong}");
}
