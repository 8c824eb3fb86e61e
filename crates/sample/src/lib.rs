//! Values from traffic: sample fetches, converters, patterns, ACLs, maps, variables and log formats.
//!
//! An expression is compiled once, when the configuration is read, and evaluated without allocating
//! (manual chapters 2.8, 7 and 8). Everything an evaluation needs comes through [`Ctx`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod acl;
pub mod args;
pub mod cast;
pub mod context;
pub mod converter;
pub mod dispatch;
pub mod env;
pub mod expr;
pub mod facts;
pub mod fetch;
pub mod listing;
pub mod logformat;
pub mod pattern;
pub mod point;
pub mod testing;
pub mod track;
pub mod value;
pub mod vars;
pub mod watch;

pub use acl::{Acl, AclSet, Condition, Verdict};
pub use args::{Arg, ArgKind, ArgSpec, Args};
pub use context::{
    Clock, Ctx, Out, Payload, ProxyFigures, ProxyTimeouts, Scratch, ServerFigures, TcpInfo, Unread, World,
};
pub use converter::{ConverterDef, TokenAlgorithms, sha1};
pub use dispatch::{Choice, Dispatch};
pub use env::{CompileEnv, Mode, Names, NoNames, ProxyScope};
pub use expr::Expr;
pub use facts::{Endpoint, ListenerId, ProxyId, ServerId, Session, StreamFacts, TableId};
pub use logformat::{LogFormat, Usage};
pub use pattern::Registry;
pub use point::{Point, Points};
pub use value::{Flags, Place, Sample, Text, Type, Value};
pub use vars::{Scope, VarRef, VarSet};
