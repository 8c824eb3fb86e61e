//! The typed, validated configuration: an immutable snapshot that every thread reads without locking.
//!
//! Sections become these structures once, at start or at reload. Live state (health, weights, counters, queues,
//! idle connections) is not here: it is keyed by [`ProxyId`] and [`ServerId`] and outlives a snapshot.
//!
//! Times are milliseconds; `None` means "not set" or "infinite", which are the same thing to the data path.
//! Sizes are bytes. What many proxies have in common (names of files, inherited formats, error pages) is shared.

mod bind;
mod filter;
mod global;
mod log;
mod proxy;
mod server;
mod stats;
mod tls;

use std::sync::Arc;

pub use bind::{Bind, BindAddr, CliLevel, Shards, ThreadSet, UnixOwner};
pub use filter::{BandwidthFilter, Filter, TraceFilter};
pub use global::{
    Global, IoDriver, MultiQueue, ProcessValue, ProcessVariable, StatusCodes, StrictLimits,
    TakeoverOtherGroup, Tune,
};
pub use log::{
    Facility, LogDest, LogFormatKind, LogForward, LogHost, LogLevel, LogProfile, LogSample, LogStep,
    LogTarget, ProfileStep, Ring, RingServer,
};
pub use proxy::{
    Balance, BalanceAlgo, BalanceKind, Capture, CookieCapture, CookieMode, CookiePersistence, DynamicTarget,
    ForwardFor, ForwardedField, ForwardedHeader, HashAffinity, HashFunction, HashMethod, HashType,
    KeepAliveProbe, LogFormats, Mode, Net, PersistRule, Proxy, ProxyKind, ProxyOptions, RestrictHeaderNames,
    RetryOn, Reuse, Rules, SourceAddress, SourceMode, StickRule, StickStore, Timeouts, UseBackend, UseServer,
    UseServerTarget,
};
pub use server::{
    CheckConfig, HashKey, InitState, PoolConfig, PortMode, ProxyHeader, ProxyHeaderV2, Server, ServerAddr,
    SlowSettings,
};
pub use stats::{DEFAULT_REALM, Label, StatsPage};

pub(crate) use tls::NamedFile;
pub use tls::{BindTls, CertificateSource, GlobalTls, ServerTls, SharedLive, SourceKind};

use crate::compiled::{HttpErrors, Registry};

/// Position of a proxy in [`Config::proxies`].
pub use thalweg_sample::ProxyId;

/// Position of a server in [`Proxy::servers`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ServerId(pub u32);

/// Everything a configuration says.
#[derive(Default)]
pub struct Config {
    pub global: Global,
    /// In declaration order, so that a [`ProxyId`] is an index here.
    pub proxies: Vec<Proxy>,
    pub userlists: Vec<Userlist>,
    pub http_errors: Vec<Arc<HttpErrors>>,
    /// Files of patterns and maps, shared by all expressions.
    pub registry: Arc<Registry>,
    pub rings: Vec<Ring>,
    pub log_forwards: Vec<LogForward>,
    pub log_profiles: Vec<LogProfile>,
    /// Certificates and the lines that use them; absent when no line uses TLS.
    pub tls: Option<SharedLive>,
    /// Stick tables, so that a `TableId` is an index here.
    pub tables: Vec<Arc<thalweg_stick::Spec>>,
    /// The names of `defaults` sections that have one, in order.
    pub named_defaults: Vec<Arc<str>>,
}

impl Config {
    /// The proxy at `id`. Ids come from this configuration, so the position exists.
    pub fn proxy(&self, id: ProxyId) -> &Proxy {
        &self.proxies[id.0 as usize]
    }

    /// The proxy with the user-visible number `uid` (`id` keyword, or numbered from 2 in order).
    pub fn proxy_by_uid(&self, uid: u32) -> Option<&Proxy> {
        self.proxies.iter().find(|p| p.uid == uid)
    }
}

/// A `userlist` section: names and passwords for HTTP basic authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Userlist {
    pub name: Arc<str>,
    pub users: Vec<User>,
    pub groups: Vec<Arc<str>>,
}

/// One user of a userlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Arc<str>,
    pub password: Password,
    /// Positions in [`Userlist::groups`].
    pub groups: Vec<u32>,
}

/// How a password is stored in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Password {
    /// `insecure-password`: the password itself.
    Clear(Arc<str>),
    /// `password`: what crypt(3) made of it.
    Crypt(Arc<str>),
}
