//! Arguments of fetches and converters: what a keyword accepts, and what was given.

use crate::context::Ctx;
use crate::pattern::Regex;
use crate::vars::VarRef;
use crate::{ProxyId, ServerId, TableId};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use thalweg_http::HeaderId;

/// The kind of one argument, as declared by a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Free text.
    Str,
    /// A signed integer.
    Int,
    /// A duration; stored in milliseconds.
    Time,
    /// A size with an optional k, m or g suffix; stored in bytes.
    Size,
    /// An IPv4 address.
    Ip4,
    /// An IPv6 address.
    Ip6,
    /// An IPv4 mask, as a prefix length or an address.
    Mask4,
    /// An IPv6 mask, as a prefix length or an address.
    Mask6,
    /// The name of a frontend (default: the current one).
    Frontend,
    /// The name of a backend (default: the current one).
    Backend,
    /// The name of a stick table.
    Table,
    /// `[backend/]server`.
    Server,
    /// A user list.
    Userlist,
    /// A regular expression.
    Regex,
    /// A dotted Protocol Buffers field path.
    ProtobufField,
}

impl ArgKind {
    /// The name that `-dKsmp` and the error messages print.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::Str => "string",
            ArgKind::Int => "integer",
            ArgKind::Time => "delay",
            ArgKind::Size => "size",
            ArgKind::Ip4 => "IPv4 address",
            ArgKind::Ip6 => "IPv6 address",
            ArgKind::Mask4 => "IPv4 mask",
            ArgKind::Mask6 => "IPv6 mask",
            ArgKind::Frontend => "frontend",
            ArgKind::Backend => "backend",
            ArgKind::Table => "table",
            ArgKind::Server => "server",
            ArgKind::Userlist => "user list",
            ArgKind::Regex => "regex",
            ArgKind::ProtobufField => "Protocol buffers field number",
        }
    }
}

/// What a keyword accepts between its parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgSpec {
    /// How many of `kinds` must be given.
    pub required: usize,
    /// The kinds, in order; at most 12.
    pub kinds: &'static [ArgKind],
}

impl ArgSpec {
    /// No argument at all.
    pub const NONE: ArgSpec = ArgSpec { required: 0, kinds: &[] };

    /// `required` mandatory arguments out of `kinds`.
    pub const fn new(required: usize, kinds: &'static [ArgKind]) -> ArgSpec {
        ArgSpec { required, kinds }
    }

    /// The signature as `-dKsmp` prints it, such as `(string[,integer])`; empty without arguments.
    pub fn signature(&self) -> String {
        use fmt::Write as _;
        if self.kinds.is_empty() {
            return String::new();
        }
        let mut out = String::from("(");
        for (i, kind) in self.kinds.iter().enumerate() {
            if i == self.required {
                out.push('[');
            }
            if i > 0 {
                out.push(',');
            }
            let _ = write!(out, "{}", kind.name());
        }
        if self.required < self.kinds.len() {
            out.push(']');
        }
        out.push(')');
        out
    }
}

/// One argument, parsed.
#[derive(Clone, Default)]
pub enum Arg {
    /// Not given.
    #[default]
    Missing,
    /// Text, with its quotes and escapes resolved.
    Str(Box<[u8]>),
    /// An integer.
    Int(i64),
    /// A duration in milliseconds.
    Time(u64),
    /// A size in bytes.
    Size(u64),
    /// An IPv4 address or mask.
    Ip4(Ipv4Addr),
    /// An IPv6 address or mask.
    Ip6(Ipv6Addr),
    /// A frontend or backend.
    Proxy(ProxyId),
    /// The frontend of whoever evaluates it: in presets, which several proxies share.
    OwnFrontend,
    /// The backend of whoever evaluates it.
    OwnBackend,
    /// A server.
    Server(ServerId),
    /// A stick table.
    Table(TableId),
    /// A user list, by its index in the [`Names`](crate::env::Names).
    Userlist(u32),
    /// A compiled regular expression.
    Regex(Arc<Regex>),
    /// A variable.
    Var(VarRef),
    /// A header's name, in lower case, with its number when it is a common one.
    Header(HeaderId, Box<[u8]>),
    /// Whatever the keyword's own check made of its text.
    Compiled(Arc<dyn Any + Send + Sync>),
}

impl fmt::Debug for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Missing => f.write_str("Missing"),
            Arg::Str(text) => write!(f, "Str({:?})", String::from_utf8_lossy(text)),
            Arg::Int(value) => write!(f, "Int({value})"),
            Arg::Time(ms) => write!(f, "Time({ms})"),
            Arg::Size(bytes) => write!(f, "Size({bytes})"),
            Arg::Ip4(ip) => write!(f, "Ip4({ip})"),
            Arg::Ip6(ip) => write!(f, "Ip6({ip})"),
            Arg::Proxy(id) => write!(f, "Proxy({id:?})"),
            Arg::OwnFrontend => f.write_str("OwnFrontend"),
            Arg::OwnBackend => f.write_str("OwnBackend"),
            Arg::Server(id) => write!(f, "Server({id:?})"),
            Arg::Table(id) => write!(f, "Table({id:?})"),
            Arg::Userlist(id) => write!(f, "Userlist({id})"),
            Arg::Regex(_) => f.write_str("Regex"),
            Arg::Var(var) => write!(f, "Var({var:?})"),
            Arg::Header(_, name) => write!(f, "Header({})", String::from_utf8_lossy(name)),
            Arg::Compiled(_) => f.write_str("Compiled"),
        }
    }
}

/// The arguments of one use of a keyword. Trailing absent ones read as [`Arg::Missing`].
#[derive(Clone, Debug, Default)]
pub struct Args(pub SmallVec<[Arg; 3]>);

impl Args {
    /// Argument `i`.
    pub fn at(&self, i: usize) -> &Arg {
        self.0.get(i).unwrap_or(&Arg::Missing)
    }

    /// Puts `arg` at position `i`, growing the list as needed.
    pub fn put(&mut self, i: usize, arg: Arg) {
        while self.0.len() <= i {
            self.0.push(Arg::Missing);
        }
        self.0[i] = arg;
    }

    /// True when argument `i` was given.
    pub fn is_set(&self, i: usize) -> bool {
        !matches!(self.at(i), Arg::Missing)
    }

    /// Number of arguments given, trailing absent ones left out.
    pub fn len(&self) -> usize {
        self.0.iter().rposition(|arg| !matches!(arg, Arg::Missing)).map_or(0, |i| i + 1)
    }

    /// True when no argument was given.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text of argument `i`.
    pub fn str(&self, i: usize) -> Option<&[u8]> {
        match self.at(i) {
            Arg::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The number in argument `i`: an integer, a duration in milliseconds or a size in bytes.
    pub fn int(&self, i: usize) -> Option<i64> {
        match *self.at(i) {
            Arg::Int(value) => Some(value),
            Arg::Time(value) | Arg::Size(value) => i64::try_from(value).ok(),
            _ => None,
        }
    }

    /// The proxy in argument `i`.
    pub fn proxy(&self, i: usize, cx: &Ctx) -> Option<ProxyId> {
        match *self.at(i) {
            Arg::Proxy(id) => Some(id),
            Arg::OwnFrontend => Some(cx.session.frontend),
            Arg::OwnBackend => cx.stream.as_ref().map(|stream| stream.backend),
            _ => None,
        }
    }

    /// The server in argument `i`.
    pub fn server(&self, i: usize) -> Option<ServerId> {
        match *self.at(i) {
            Arg::Server(id) => Some(id),
            _ => None,
        }
    }

    /// The stick table in argument `i`.
    pub fn table(&self, i: usize) -> Option<TableId> {
        match *self.at(i) {
            Arg::Table(id) => Some(id),
            _ => None,
        }
    }

    /// The variable in argument `i`.
    pub fn var(&self, i: usize) -> Option<VarRef> {
        match *self.at(i) {
            Arg::Var(var) => Some(var),
            _ => None,
        }
    }

    /// The regular expression in argument `i`.
    pub fn regex(&self, i: usize) -> Option<&Regex> {
        match self.at(i) {
            Arg::Regex(regex) => Some(regex),
            _ => None,
        }
    }

    /// What the keyword's check stored at `i`, if it is a `T`.
    pub fn compiled<T: 'static>(&self, i: usize) -> Option<&T> {
        match self.at(i) {
            Arg::Compiled(any) => any.downcast_ref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_show_what_is_optional() {
        assert_eq!(ArgSpec::NONE.signature(), "");
        assert_eq!(ArgSpec::new(1, &[ArgKind::Str]).signature(), "(string)");
        assert_eq!(ArgSpec::new(1, &[ArgKind::Str, ArgKind::Int]).signature(), "(string[,integer])");
        assert_eq!(ArgSpec::new(0, &[ArgKind::Str, ArgKind::Str]).signature(), "([string,string])");
    }
}
