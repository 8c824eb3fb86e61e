//! Why a request goes where it goes: `thalweg explain` and `thalweg test`.
//!
//! There is no second evaluation of rules here. [`explain`] starts the data path as it is, with the configuration as it was
//! loaded, on one thread of the simulated network ([`thalweg_runtime::driver::sim`]), sends the request to the bind it
//! would come to, lets scripted servers answer, and watches:
//!
//! - a [`Watch`](thalweg_sample::watch::Watch) is told of every rule and condition, in order, with the values of fetches;
//! - what the server got and the client got is what went over the (simulated) wire;
//! - backend and server are the ones whose counters say that they were used.
//!
//! [`Scene::of`] takes it all from a process that serves, for the CLI's `explain`.
//!
//! What differs from a running process: nothing else happens at the same time, no health check is made (every server is
//! as the file says), log lines go nowhere, certificates of servers are not looked at, and the clock stands at the start of the simulation.
#![forbid(unsafe_code)]

mod ask;
mod cases;
mod client;
mod framed;
mod json;
mod line;
mod recorder;
mod render;
mod running;
mod server;
mod stage;

use std::net::{IpAddr, SocketAddr};

pub use ask::AskReader;
pub use cases::{Case, Outcome, parse as parse_cases};
pub use recorder::{Event, Term, Value};
pub use running::Scene;
pub use stage::explain;

/// A request to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// `GET`
    pub method: String,
    /// Where it goes.
    pub url: Url,
    /// Fields beside Host.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Where it comes from.
    pub from: IpAddr,
    /// The bind it comes to: the name of a frontend or an address, where the URL does not decide.
    pub to: Option<String>,
    /// What the client speaks; unless it is said, HTTP/1, or HTTP/2 to a bind that speaks nothing else.
    pub protocol: Option<Protocol>,
    /// What servers answer.
    pub answer: Answer,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    /// By the number of its version.
    fn of_version(number: i64) -> Result<Protocol, String> {
        match number {
            1 => Ok(Protocol::Http1),
            2 => Ok(Protocol::Http2),
            other => Err(format!("'{other}' is neither 1 nor 2, the versions of HTTP that are spoken here")),
        }
    }
}

/// What the scripted servers answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Default for Answer {
    fn default() -> Answer {
        Answer { status: 200, fields: Vec::new(), body: Vec::new() }
    }
}

/// A URL of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub https: bool,
    /// The host as it is written, with its port if it has one.
    pub authority: String,
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl Url {
    /// Reads `http://host[:port]/path?query`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (https, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(format!("'{text}' begins with neither http:// nor https://")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if authority.is_empty() || text.bytes().any(|b| b <= b' ') {
            return Err(format!("'{text}' is not a URL"));
        }
        // The colons of an IPv6 address are within its brackets.
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        let port = match port {
            Some((_, port)) => port.parse().map_err(|_| format!("'{port}' is not a port"))?,
            None => {
                if https {
                    443
                } else {
                    80
                }
            }
        };
        Ok(Url { https, authority: authority.to_owned(), port, path })
    }

    /// The host without its port.
    pub fn host(&self) -> &str {
        match self.authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, _)) => host,
            None => &self.authority,
        }
    }
}

/// What happened to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The address it came to, and where that stands.
    pub bind: String,
    pub bind_place: String,
    /// Why this one.
    pub bind_reason: String,
    pub frontend: String,
    pub http: bool,
    pub from: Option<SocketAddr>,
    pub events: Vec<Event>,
    /// The backends it came to, in the order of the file: one, unless servers are frontends of the same file.
    pub backends: Vec<String>,
    /// The servers it was sent to, as `backend/server`, with how that one was chosen.
    pub servers: Vec<(String, String)>,
    /// What the last of them got.
    pub sent: Option<Message>,
    /// What the client got; `None` if its connection was closed without a word.
    pub received: Option<Message>,
    /// Timeouts that were in force, in milliseconds: who, which, how long.
    pub timeouts: Vec<(String, &'static str, u64)>,
    /// Milliseconds until the client had its answer.
    pub took_ms: u64,
    /// What is not as in the process that is explained, for people.
    pub notes: Vec<String>,
}

/// The head of a message, and its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The first line.
    pub line: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// The status of a response.
    pub fn status(&self) -> Option<u16> {
        self.line.split(' ').nth(1)?.parse().ok()
    }

    /// The values of a field, with commas between them.
    pub fn field(&self, name: &str) -> Option<String> {
        let values = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// Cuts a received message into its parts; `None` while its head is not complete.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Message, usize)> {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
        let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = text.split("\r\n");
        let line = lines.next()?.to_owned();
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        Some((Message { line, fields, body: Vec::new() }, end + 4))
    }
}
