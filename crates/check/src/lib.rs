#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! Health checks of servers, without I/O: what is said to a server, what its answers mean, and when they make it up or
//! down (configuration manual, sections 4.2 `http-check` and `tcp-check`, 5.2 `check`).
//!
//! - [`Program`] is what the configuration asks for: connect, send, expect, step by step.
//! - [`Conversation`] is one run of it. The owner asks it what to do [`next`](Conversation::next), does that, and tells
//!   it what happened; it ends with a [`Verdict`].
//! - [`agent`] reads what agents say.
//! - [`Health`] counts verdicts: `rise` good ones bring a server up, `fall` bad ones take it down.

pub mod agent;
mod answer;
mod conversation;
mod dialect;
mod framed;
mod grpc;
mod health;
mod http;
mod program;
mod spop;
mod status;

pub use conversation::{Conversation, Evaluate, Heard, Next, Verdict, shortened};
pub use dialect::{Dialect, LDAP_BIND, mysql_login, pgsql_startup, tls_hello};
pub use grpc::health_call;
pub use health::{Change, Health, Initial};
pub use program::{
    Assignment, Connect, Expect, External, HttpRequest, Kind, Match, MatchMethod, Matcher, NamePattern, Port,
    Program, Protocol, Source, Step, StepKind, Text, parse_hex,
};
pub use spop::hello as spop_hello;
pub use status::{Passed, Status};
