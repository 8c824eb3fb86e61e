//! The streams: `show sess`, `shutdown session`, `shutdown sessions server`.

use std::io;
use std::net::SocketAddr;

use thalweg_config::model::CliLevel::{Admin, Operator};
use thalweg_config::model::{Proxy, ProxyId, Server, ServerAddr, ServerId};
use thalweg_proxy::Instance;
use thalweg_proxy::backend::identity::Identity;
use thalweg_proxy::stream::entry::Seen;
use thalweg_runtime::clock;
use thalweg_sample::facts::Endpoint;
use thalweg_syntax::carry::carry;
use thalweg_syntax::{TimeUnit, parse_time};

use super::{date, find_proxy, find_server};
use crate::anonymous;
use crate::command::{Call, Command, Run};
use crate::json::Shape;
use crate::output::Reply;
use crate::threads::{on, on_all};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("show sess", Operator, Run::Waiting(|call| Box::pin(show(call))))
        .help("[help|<id>|all] [opts...]", "list the streams, or show one in detail")
        .json(|_| Shape::Records)
        .lacks("figures of buffers and tasks"),
    Command::new(
        "shutdown session",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(shutdown(call.args).await) })),
    )
    .help("[id]", "end a stream"),
    Command::new(
        "shutdown sessions server",
        Admin,
        Run::Waiting(|call| Box::pin(async move { Ok(shutdown_server(call.instance(), call.args).await) })),
    )
    .help("<bk>/<srv>", "end the streams that are on a server"),
];

const HELP: &str = "Usage: show sess [<id> | all | help] [<options>*]
Lists the streams, each in a line, or in detail those that are asked for:
   <id>         only this stream (0x...), in detail
   all          all streams, in detail
   help         this text
What may follow:
   backend <b>  only streams that go to this backend
   frontend <f> only streams that came through this frontend
   older <age>  only streams older than <age> seconds
   server <b/s> only streams that go to this server of this backend
   show-uri     the request line of each stream
   susp         only streams that were told to end and have not
";

/// Entries of streams that are read at once: their thread does nothing else for as long as that takes.
const PAGE: usize = 1000;

/// The identifiers of streams begin here: scripts expect the shape of an address.
const ID_BASE: u64 = 0x1_0000_0000;

/// How a stream is called.
fn id(stream: &Seen) -> u64 {
    ID_BASE + u64::from(stream.id)
}

fn parse_id(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The backend of a stream: that of a `listen` section until another one is chosen.
fn backend(instance: &Instance, stream: &Seen) -> Option<ProxyId> {
    let is_backend = |id: &ProxyId| instance.config.find_proxy(*id).is_some_and(|proxy| proxy.is_be());
    stream.backend.or_else(|| Some(stream.frontend).filter(is_backend))
}

/// Which streams are shown, and how.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    detailed: bool,
    /// With request lines.
    lines: bool,
    frontend: Option<ProxyId>,
    backend: Option<ProxyId>,
    server: Option<ServerId>,
    older_ms: u64,
    suspicious: bool,
}

impl Filter {
    /// The filter that the arguments say; else what to answer.
    fn parse(instance: &Instance, args: &[&str]) -> Result<Filter, Reply> {
        let mut filter = Filter::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match *arg {
                "help" => return Err(Reply::Text(HELP.into())),
                "all" => filter.detailed = true,
                "susp" => filter.suspicious = true,
                "show-uri" => filter.lines = true,
                "frontend" => {
                    let name = args.next().ok_or_else(|| Reply::error("Missing frontend name."))?;
                    let found = find_proxy(instance, name, Proxy::is_fe);
                    filter.frontend = Some(found.ok_or_else(|| Reply::error("No such frontend."))?.id);
                }
                "backend" => {
                    let name = args.next().ok_or_else(|| Reply::error("Missing backend name."))?;
                    let found = find_proxy(instance, name, Proxy::is_be);
                    filter.backend = Some(found.ok_or_else(|| Reply::error("No such backend."))?.id);
                }
                "server" => {
                    let name = args
                        .next()
                        .ok_or_else(|| Reply::error("Missing server name (<backend>/<server>)."))?;
                    let (proxy, server) = find_server(instance, &[name])?;
                    (filter.backend, filter.server) = (Some(proxy.id), Some(server.id));
                }
                "older" => {
                    let missing = || Reply::error("Expects a minimum age (in seconds by default).");
                    let age = args.next().ok_or_else(missing)?;
                    filter.older_ms = parse_time(age, TimeUnit::Seconds, TimeUnit::Milliseconds)
                        .map_err(|_| Reply::error("Invalid age."))?;
                }
                other => match parse_id(other) {
                    Some(number) => (filter.id, filter.detailed) = (Some(number), true),
                    None => {
                        let text = format!("Unsupported option '{other}', try 'help' for more info.");
                        return Err(Reply::error(text));
                    }
                },
            }
        }
        Ok(filter)
    }

    fn wants(&self, instance: &Instance, stream: &Seen, now_ms: u64) -> bool {
        self.id.is_none_or(|wanted| wanted == id(stream))
            && self.frontend.is_none_or(|wanted| wanted == stream.frontend)
            && self.backend.is_none_or(|wanted| backend(instance, stream) == Some(wanted))
            && self.server.is_none_or(|wanted| stream.server == Some(wanted))
            && now_ms.saturating_sub(stream.began_ms) >= self.older_ms
            && (!self.suspicious || stream.killed)
    }
}

/// `show sess`.
async fn show(call: Call<'_>) -> io::Result<Reply> {
    let Call { session, output, args, .. } = call;
    let instance = &*session.instance;
    let filter = match Filter::parse(instance, args) {
        Ok(filter) => filter,
        Err(reply) => return Ok(reply),
    };
    let mut found = false;
    for thread in 0..instance.threads.len() {
        let mut from = Some(0);
        while let Some(position) = from {
            let lines = filter.lines;
            let page = on(thread, move |worker| worker.streams.page(position, PAGE, lines)).await;
            // A thread that does not answer has its streams left out.
            let Some((streams, next)) = page else { break };
            let now_ms = clock::now_ms();
            for stream in streams.iter().filter(|stream| filter.wants(instance, stream, now_ms)) {
                let shown = Shown { instance, stream, key: session.anon_key, thread, now_ms };
                output.text.push_str(&if filter.detailed { shown.details() } else { shown.line() });
                found = true;
                output.end_row().await?;
            }
            from = next;
        }
    }
    Ok(match filter.id {
        // In the reference this is no message but a line of the dump.
        Some(_) if !found => Reply::Text("Session not found.\n".into()),
        _ => Reply::Done,
    })
}

/// A stream on its way to the client.
struct Shown<'a> {
    instance: &'a Instance,
    stream: &'a Seen,
    /// The key of anonymous dumps.
    key: u32,
    thread: usize,
    now_ms: u64,
}

impl Shown<'_> {
    /// What a proxy is called. A stream may outlive its own: it goes on by a configuration that is not in force any more.
    fn name(&self, proxy: ProxyId) -> String {
        match self.instance.config.find_proxy(proxy) {
            Some(proxy) => anonymous::text(self.key, &proxy.name).into_owned(),
            None => "<GONE>".into(),
        }
    }

    fn backend(&self) -> Option<ProxyId> {
        backend(self.instance, self.stream)
    }

    /// The server, and what it is called and where it is reached now.
    fn server(&self) -> Option<(&Server, Identity)> {
        let proxy = self.instance.config.find_proxy(self.stream.backend?)?;
        let server = proxy.server(self.stream.server?)?;
        Some((server, self.instance.backends[proxy.id.0 as usize].identity(server)))
    }

    /// The client's protocol and address.
    fn client(&self) -> (&'static str, String) {
        match self.stream.source {
            Endpoint::Inet(address @ SocketAddr::V4(_)) => ("tcpv4", anonymous::address(self.key, address)),
            Endpoint::Inet(address @ SocketAddr::V6(_)) => ("tcpv6", anonymous::address(self.key, address)),
            Endpoint::Unix => ("unix_stream", "unix:1".into()),
            Endpoint::Unknown => ("?", "?".into()),
        }
    }

    fn age(&self) -> String {
        let seconds = self.now_ms.saturating_sub(self.stream.began_ms) / 1000;
        match seconds {
            0..60 => format!("{seconds}s"),
            60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
            3600..86400 => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
            _ => format!("{}d{}h", seconds / 86400, seconds / 3600 % 24),
        }
    }

    /// All that fits in a line, in the reference's order; its figures about tasks and buffers have no like here.
    fn line(&self) -> String {
        let (protocol, source) = self.client();
        format!(
            "{:#x}: proto={protocol} src={source} fe={} be={} srv={} ts={} age={} tid={}{}\n",
            id(self.stream),
            self.name(self.stream.frontend),
            self.backend().map_or_else(|| "<NONE>".into(), |backend| self.name(backend)),
            self.server()
                .map_or("<none>".into(), |(_, now)| anonymous::text(self.key, &now.name).into_owned()),
            // Told to end: the only state of an end that can be seen from outside.
            if self.stream.killed { "80" } else { "00" },
            self.age(),
            self.thread + 1,
            self.request_line()
        )
    }

    /// ` uri=` and the request line, if it was asked for and there is one.
    fn request_line(&self) -> String {
        match &self.stream.line {
            Some(line) if !line.is_empty() => format!(" uri=\"{}\"", anonymous::text(self.key, &carry(line))),
            _ => String::new(),
        }
    }

    /// The same and more over several lines.
    fn details(&self) -> String {
        let (protocol, source) = self.client();
        let config = &self.instance.config;
        let side = |id: ProxyId| match config.find_proxy(id) {
            Some(proxy) => format!("{} (id={} mode={})", self.name(id), proxy.uid, proxy.mode.name()),
            None => format!("{} (id=-1 mode=-)", self.name(id)),
        };
        let began_us =
            clock::wall_us().saturating_sub(self.now_ms.saturating_sub(self.stream.began_ms) * 1000);
        let mut text = format!(
            "{:#x}: [{}] id={} proto={protocol} source={source}\n  killed={}\n  frontend={}\n",
            id(self.stream),
            date(began_us),
            self.stream.id,
            u8::from(self.stream.killed),
            side(self.stream.frontend),
        );
        match self.backend() {
            Some(backend) => text.push_str(&format!("  backend={}\n", side(backend))),
            None => text.push_str("  backend=<NONE> (id=-1 mode=-)\n"),
        }
        match self.server() {
            Some((server, now)) => {
                text.push_str(&format!(
                    "  server={} (id={})",
                    anonymous::text(self.key, &now.name),
                    server.uid
                ));
                if let ServerAddr::Tcp(address) = now.addr {
                    text.push_str(&format!(" addr={}", anonymous::address(self.key, address)));
                }
                text.push('\n');
            }
            None => text.push_str("  server=<none> (id=-1)\n"),
        }
        text.push_str(&format!(
            "  task={:#x} (tid={} age={})\n",
            self.stream.task.to_bits(),
            self.thread + 1,
            self.age()
        ));
        let line = self.request_line();
        if !line.is_empty() {
            text.push_str(&format!(" {line}\n"));
        }
        text
    }
}

/// `shutdown session`.
async fn shutdown(args: &[&str]) -> Reply {
    let Some(wanted) = args.first().and_then(|text| parse_id(text)) else {
        return Reply::error("Session pointer expected (use 'show sess').");
    };
    let ended = on_all(move |worker| worker.streams.kill(|stream| id(stream) == wanted)).await;
    match ended.into_iter().flatten().sum::<usize>() {
        0 => Reply::error("No such session (use 'show sess')."),
        _ => Reply::Done,
    }
}

/// `shutdown sessions server`.
async fn shutdown_server(instance: &Instance, args: &[&str]) -> Reply {
    let (backend, server) = match find_server(instance, args) {
        Ok((proxy, server)) => (proxy.id, server.id),
        Err(reply) => return reply,
    };
    on_all(move |worker| {
        worker.streams.kill(|stream| stream.backend == Some(backend) && stream.server == Some(server))
    })
    .await;
    Reply::Done
}
