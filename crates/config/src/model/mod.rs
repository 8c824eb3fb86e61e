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
mod h2;
mod log;
mod mailers;
mod opentelemetry;
mod peers;
mod proxy;
mod resolvers;
mod saved;
mod server;
mod shared;
mod stats;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;

pub use crate::proxy::key::{Asked, BalanceKey};
pub use bind::{Bind, BindAddr, CliLevel, Shards, ThreadSet, UnixOwner};
pub use filter::{BandwidthFilter, Filter, Filters, TraceFilter};
pub use global::{
    Global, IoDriver, MultiQueue, ProcessValue, ProcessVariable, Sandbox, StatusCodes, StrictLimits,
    TakeoverOtherGroup, Tune,
};
pub use h2::{H2Side, H2Tune, LogsErrors};
pub use log::{
    Facility, LogDest, LogFormatKind, LogForward, LogHost, LogLevel, LogProfile, LogSample, LogStep,
    LogTarget, ProfileStep, Ring, RingServer,
};
pub use mailers::{EmailAlert, Mailer, Mailers};
pub use opentelemetry::OpenTelemetry;
pub use peers::{Peer, PeersSection};
pub use proxy::{
    Balance, BalanceAlgo, Capture, CookieCapture, CookieMode, CookiePersistence, DynamicTarget, ForwardFor,
    ForwardedField, ForwardedHeader, HashType, HeaderSource, HedgeDelay, KeepAliveProbe, LogFormats, Mode,
    Net, OutlierDetection, PersistRule, Proxy, ProxyKind, ProxyOptions, RestrictHeaderNames, RetryOn, Reuse,
    Rules, SourceAddress, SourceMode, StickRule, StickStore, Timeouts, UseBackend, UseServer,
    UseServerTarget, Zone,
};
pub use resolvers::{NameServer, Resolution, Resolvers};
pub use saved::{SavedOperation, SavedState};
pub use server::{
    AgentConfig, CheckConfig, HashKey, InitState, ObserveLayer, OnError, PoolConfig, PortMode, ProxyHeader,
    ProxyHeaderV2, Server, ServerAddr, SlowSettings, WebSocketProtocol,
};
pub use shared::{Places, Shared};
pub use stats::{DEFAULT_REALM, Label, StatsPage};
pub use thalweg_balance::{Algorithm, HashFunction, HashMethod, PreserveAffinity};

pub(crate) use tls::LoadErrors;
pub(crate) use tls::NamedFile;
pub use tls::{BindTls, CertificateSource, GlobalTls, ServerTls, SharedLive, SourceKind};

use crate::compiled::{HttpErrors, Registry};

/// The number of a proxy for as long as any snapshot has it: its position in the file it was read from.
pub use thalweg_sample::ProxyId;

/// The number of a server in its backend, for as long as any snapshot has it: its position in the file it was read from. See
/// [`Proxy::server`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ServerId(pub u32);

/// Public keys, in DER, by the names of the files that they come from.
pub type TokenKeys = HashMap<Box<[u8]>, Arc<[u8]>>;

/// Everything a configuration says. Copies share what they have in common.
#[derive(Clone, Default)]
pub struct Config {
    pub global: Shared<Global>,
    /// In declaration order. See [`Config::proxy`].
    pub proxies: Vec<Shared<Proxy>>,
    /// Where those are whose number is not their position; see [`Config::reindex`].
    pub(crate) places: Places,
    pub userlists: Vec<Shared<Userlist>>,
    pub http_errors: Vec<Arc<HttpErrors>>,
    /// Files of patterns and maps, shared by all expressions.
    pub registry: Arc<Registry>,
    pub rings: Vec<Ring>,
    pub log_forwards: Vec<Shared<LogForward>>,
    /// `peers` sections that are complete and not disabled.
    pub peers: Vec<PeersSection>,
    pub log_profiles: Vec<LogProfile>,
    /// Certificates and the lines that use them; absent when TLS cannot be used.
    pub tls: Option<SharedLive>,
    /// The certificates among them by name, for converters of tokens.
    pub token_certificates: Option<Arc<thalweg_tls::live::TokenCertificates>>,
    /// The public keys, in DER, that converters of tokens take from files, by the names of those.
    pub token_keys: Arc<TokenKeys>,
    /// What the process tells of itself when it starts.
    pub traces: thalweg_trace::Traces,
    /// Stick tables, so that a `TableId` is an index here.
    pub tables: Vec<Arc<thalweg_stick::Spec>>,
    /// `mailers` sections.
    pub mailers: Vec<Arc<Mailers>>,
    /// The `opentelemetry` section.
    pub opentelemetry: Option<Arc<OpenTelemetry>>,
    /// Whom to ask for names while the program runs, the implicit `default` section included.
    pub resolvers: Vec<Arc<Resolvers>>,
    /// What servers were in a former process, in the order of the file.
    pub saved_states: Vec<SavedState>,
    /// The names of `defaults` sections that have one, in order.
    pub named_defaults: Vec<Arc<str>>,
    /// Those sections, for backends that are added.
    pub(crate) presets: Vec<Arc<crate::build::DefaultsSection>>,
    /// What the sections say that are no proxies.
    pub outline: crate::outline::Outline,
    /// The texts that this was read from.
    pub(crate) written: Arc<crate::written::Written>,
    /// The environment as `setenv` and the others left it, which operators and the programs of checks see. The process's own
    /// is not changed.
    pub environment: thalweg_syntax::Environment,
}

impl Config {
    /// The proxy with that number, which is of this configuration.
    ///
    /// # Panics
    /// When it is not.
    #[inline]
    pub fn proxy(&self, id: ProxyId) -> &Proxy {
        match self.find_proxy(id) {
            Some(proxy) => proxy,
            None => panic!("no proxy has the number {}", id.0),
        }
    }

    /// The proxy with that number, if this configuration has it.
    #[inline]
    pub fn find_proxy(&self, id: ProxyId) -> Option<&Proxy> {
        match self.proxies.get(id.0 as usize) {
            Some(proxy) if proxy.id == id => Some(proxy),
            _ => Some(&self.proxies[self.places.find(id.0)?]),
        }
    }

    /// Where lines can go that the process tells of itself. None has lost any.
    pub fn sinks(&self) -> Vec<thalweg_trace::Sink<'_>> {
        let sink = |name, about| thalweg_trace::Sink { name, about, dropped: 0 };
        let mut sinks =
            vec![sink("stdout", "standard output (fd#1)"), sink("stderr", "standard output (fd#2)")];
        for ring in &self.rings {
            sinks.push(sink(&*ring.name, ring.description.as_deref().unwrap_or(&ring.name)));
        }
        sinks
    }

    /// The `defaults` section of that name, for backends that are added.
    pub(crate) fn preset(&self, name: &str) -> Option<&Arc<crate::build::DefaultsSection>> {
        self.presets.iter().rev().find(|section| section.name.as_deref() == Some(name))
    }

    /// To be called when a proxy was put into the list or taken out of it.
    pub fn reindex(&mut self) {
        self.places = Places::of(self.proxies.iter().map(|proxy| proxy.id.0));
    }

    /// The proxy with the user-visible number `uid` (`id` keyword, or numbered from 2 in order).
    pub fn proxy_by_uid(&self, uid: u32) -> Option<&Proxy> {
        self.proxies.iter().map(|proxy| &**proxy).find(|proxy| proxy.uid == uid)
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
