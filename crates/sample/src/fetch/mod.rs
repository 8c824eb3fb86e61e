//! Sample fetches: where values come from. One file per layer; each exports one table.

use crate::args::{ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::point::Points;
use crate::value::{Sample, Type};
use std::collections::HashMap;
use std::sync::LazyLock;

pub mod connection;
pub mod content;
mod counters;
mod distcc;
pub mod hello;
pub mod http;
pub mod internal;
mod streams;
pub mod tls;
pub mod unsupported;

/// Where a fetch that gives several values (all headers of one name) stands. Starts at the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iter {
    /// The fetch's own position, such as the index of the next header field.
    pub field: u32,
    /// A second position inside the first, such as an offset in the field's value.
    pub offset: u32,
    /// True when every value is wanted in turn, as ACLs do. A fetch that is asked for one value may give another one than
    /// the first.
    pub every: bool,
}

/// Validates the arguments of a fetch once, and may replace them by something faster to use.
pub type Check = fn(&mut Args, &mut CompileEnv) -> Result<(), String>;

/// Evaluates a fetch: the sample, or none.
pub type Run = fn(&Args, &mut Ctx, &mut Iter) -> Option<Sample>;

/// Everything about one fetch.
pub struct FetchDef {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its arguments.
    pub args: ArgSpec,
    /// The type it gives.
    pub output: Type,
    /// Where it works.
    pub points: Points,
    /// What it reads, as the message about a wrong place says.
    pub needs: &'static str,
    /// What it gives, in a line.
    pub doc: &'static str,
    /// Validates the arguments.
    pub check: Option<Check>,
    /// Evaluates it.
    pub run: Run,
}

impl FetchDef {
    /// A fetch without arguments.
    pub const fn new(
        name: &'static str,
        output: Type,
        (points, needs): (Points, &'static str),
        doc: &'static str,
        run: Run,
    ) -> FetchDef {
        FetchDef { name, args: ArgSpec::NONE, output, points, needs, doc, check: None, run }
    }

    /// The same fetch with arguments.
    #[must_use]
    pub const fn takes(mut self, required: usize, kinds: &'static [crate::args::ArgKind]) -> FetchDef {
        self.args = ArgSpec::new(required, kinds);
        self
    }

    /// Whether it looks at bytes as they were received, which are there in TCP mode only for certain.
    pub fn reads_raw_bytes(&self) -> bool {
        self.needs.split(',').any(|need| matches!(need, "request buffer" | "response buffer"))
    }

    /// The same fetch with a check of its arguments.
    #[must_use]
    pub const fn checked(mut self, check: Check) -> FetchDef {
        self.check = Some(check);
        self
    }
}

/// Where a fetch works, and what it reads as messages name it.
pub type Need = (Points, &'static str);

/// Constants and facts that are there before anything runs.
pub const ANYWHERE: Need = (Points::ALL, "internal state");
/// Live facts of the process.
pub const INTERNAL: Need = (Points::RUNTIME, "internal state");
/// The client's connection.
pub const CLIENT: Need = (Points::L4_CLIENT, "client address");
/// The client's connection once its session began.
pub const SESSION: Need = (Points::L5_CLIENT, "client-side connection");
/// The frontend and its listener.
pub const FRONTEND: Need = (Points::FRONTEND, "frontend");
/// The backend.
pub const BACKEND: Need = (Points::BACKEND, "backend");
/// The server in charge.
pub const SERVER: Need = (Points::SERVER, "server");
/// The connection to the server.
pub const SERVER_CONNECTION: Need = (Points::RESPONSE_INFO, "server address");
/// The request's head and body.
pub const REQUEST: Need = (Points::REQUEST, "HTTP request headers");
/// Facts noted from the request.
pub const TRANSACTION: Need = (Points::TRANSACTION, "HTTP request");
/// The response's head and body.
pub const RESPONSE: Need = (Points::RESPONSE, "HTTP response headers");
/// Facts noted from the response.
pub const RESPONSE_FACTS: Need = (Points::RESPONSE_INFO, "HTTP response");
/// Headers of whichever message is being processed.
pub const EITHER: Need = (Points::EITHER, "HTTP request headers,HTTP response headers");
/// Bytes from the client.
pub const REQUEST_BYTES: Need = (Points::REQUEST, "request buffer");
/// Bytes from the server.
pub const RESPONSE_BYTES: Need = (Points::RESPONSE, "response buffer");
/// Bytes of whichever side is being processed.
pub const EITHER_BYTES: Need = (Points::EITHER, "request buffer,response buffer");
/// What the client has said in its first bytes.
pub const HELLO: Need = (Points::L4_CLIENT, "frontend,client address,client-side connection,request buffer");
/// Counters of the request.
pub const REQUEST_COUNTERS: Need = (Points::TRANSACTION, "request buffer statistics");
/// Counters of the response.
pub const RESPONSE_COUNTERS: Need = (Points::BYTES_OUT, "response buffer statistics");
/// Counters of the session.
pub const SESSION_COUNTERS: Need = (Points::FRONTEND, "session statistics");
/// Counters of the transaction.
pub const TRANSACTION_COUNTERS: Need = (Points::TRANSACTION, "transaction statistics");

/// Every layer's table.
static TABLES: &[&[FetchDef]] = &[
    internal::TABLE,
    connection::TABLE,
    content::TABLE,
    counters::TABLE,
    distcc::TABLE,
    http::TABLE,
    streams::TABLE,
    tls::TABLE,
];

/// All fetches, in no particular order.
pub fn all() -> impl Iterator<Item = &'static FetchDef> {
    TABLES.iter().copied().flatten()
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static FetchDef>> =
    LazyLock::new(|| all().map(|def| (def.name, def)).collect());

/// The fetch with this name.
pub fn find(name: &str) -> Option<&'static FetchDef> {
    BY_NAME.get(name).copied()
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
