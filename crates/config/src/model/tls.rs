//! TLS: what lines say of it, and what was made of that.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_shared::Mutex;
use thalweg_syntax::{Severity, Span};
use thalweg_tls::certificate::LoadOptions;
use thalweg_tls::live::{BindLine, Live, ServerLine, UpdateOptions};
use thalweg_tls::options::server_words::ServerWords;
use thalweg_tls::options::words::Words;

use crate::compiled::Expr;

/// TLS of a `bind` line.
#[derive(Clone, Debug, Default)]
pub struct BindTls {
    /// `ssl`: without it the other words wait for nothing.
    pub ssl: bool,
    pub words: Words,
    /// `ssl-default-bind-*` as they were where the line says `ssl`.
    pub(crate) below: Arc<Words>,
    /// `crt`, `default-crt`, `crt-list`, in order.
    pub sources: Vec<CertificateSource>,
    /// `tls-ticket-keys`, resolved.
    pub(crate) ticket_keys: Option<(Arc<str>, Span)>,
    /// `generate-certificates`
    pub(crate) generates: bool,
    /// `ca-sign-file`, resolved.
    pub(crate) sign_file: Option<Arc<str>>,
    /// `ca-sign-pass`
    pub(crate) sign_pass: Option<Arc<str>>,
    /// Files of authorities and of revoked certificates that the words name.
    pub(crate) files: Vec<NamedFile>,
    /// What clients are served; present when `ssl` is and the configuration was read to its end.
    pub line: Option<Arc<BindLine>>,
}

/// Where a `bind` line gets certificates from.
#[derive(Clone, Debug)]
pub struct CertificateSource {
    pub kind: SourceKind,
    /// Resolved by `crt-base` and `default-path`; begins with `@` for one of a `crt-store`.
    pub path: Arc<str>,
    pub(crate) span: Span,
}

/// The word that names a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    Certificate,
    Default,
    List,
}

/// A file that a word names.
#[derive(Clone, Debug)]
pub(crate) struct NamedFile {
    /// `ca-file`, `ca-verify-file`, `crl-file` or `crt`.
    pub word: &'static str,
    pub path: Arc<str>,
    pub span: Span,
}

/// TLS towards a server.
#[derive(Clone, Debug, Default)]
pub struct ServerTls {
    /// `ssl`: without it only health checks use the rest (`check-ssl`).
    pub ssl: bool,
    /// TLS is spoken to it, or may be one day; false where a line says `no-ssl` and nothing else.
    pub used: bool,
    /// Health checks are encrypted: `check-ssl`, or `ssl` where checks go to the server's own port.
    pub check_ssl: bool,
    pub words: ServerWords,
    /// `ssl-default-server-*` as they were where a line said `ssl` or `check-ssl`.
    pub(crate) below: Option<Arc<ServerWords>>,
    /// The name that is asked for: from `sni`, or from the Host field of the request (`sni-auto`).
    pub sni: Option<Arc<Expr>>,
    pub(crate) sni_span: Option<Span>,
    /// The name that health checks ask for: `check-sni`, or the Host field of their request (`check-sni-auto`).
    pub check_sni: Option<Arc<str>>,
    /// `check-alpn`: what checks offer in place of `alpn`.
    pub check_protocols: Option<Arc<[Vec<u8>]>>,
    pub(crate) files: Vec<NamedFile>,
    /// How the server is spoken to; present once the configuration was read to its end.
    pub line: Option<Arc<ServerLine>>,
}

/// `ssl-*`, `*-base`, `tune.ssl.*` of `global`.
#[derive(Clone, Debug)]
pub struct GlobalTls {
    /// `ssl-default-bind-*`
    pub bind: Arc<Words>,
    /// `ssl-default-server-*`
    pub server: Arc<ServerWords>,
    pub(crate) ca_base: Option<Arc<str>>,
    pub(crate) crt_base: Option<Arc<str>>,
    pub(crate) key_base: Option<Arc<str>>,
    /// `ssl-load-extra-files` and its siblings.
    pub load: LoadOptions,
    /// `issuers-chain-path`
    pub(crate) issuers: Option<(Arc<str>, Span)>,
    /// `ocsp-update.*`
    pub(crate) updates: UpdateOptions,
    /// `ocsp-update.httpproxy`: who is asked in place of a certificate's responder.
    pub update_proxy: Option<SocketAddr>,
    /// `tune.ssl.ssl-ctx-cache-size`: certificates kept that were made for clients, for each line.
    pub(crate) made_max: usize,
    /// `ssl-server-verify`
    pub(crate) verify_servers: bool,
    /// `tune.ssl.cachesize`: sessions kept for clients.
    pub(crate) cache_size: usize,
    /// `tune.ssl.lifetime`: how long they are, in seconds.
    pub(crate) lifetime_s: u32,
    /// `tune.ssl.maxrecord`: most plaintext bytes of a record; 0 for no limit.
    pub record_max: usize,
    /// `tune.ssl.hard-maxrecord`: the same, which no growth ends.
    pub record_hard_max: usize,
    /// `tune.ssl.keyupdate-rate-limit`: changes of its key that a peer may make in a second; 0 for no limit.
    pub key_updates_max: u32,
    /// `tune.ssl.capture-buffer-size`: bytes kept of a ClientHello's lists.
    pub capture: usize,
    /// `tune.ssl.keylog`
    pub keylog: bool,
    /// `ssl-load-errors`
    pub(crate) load_errors: LoadErrors,
    /// `crt-watch`: files of certificates that change are read again.
    pub watch: bool,
}

/// What becomes of certificates that cannot be loaded, or that clients refuse (`ssl-load-errors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadErrors {
    /// One that cannot be loaded stops the start.
    Fail,
    /// It is left out.
    Warn,
    /// One that is not in force, because it has expired or is not valid yet, stops the start as well.
    Strict,
}

impl LoadErrors {
    /// How it is told of one that is not in force.
    pub(crate) fn of_one_out_of_force(self) -> Severity {
        if self == LoadErrors::Strict { Severity::Alert } else { Severity::Notice }
    }
}

impl Default for GlobalTls {
    fn default() -> GlobalTls {
        GlobalTls {
            bind: Arc::default(),
            server: Arc::default(),
            ca_base: None,
            crt_base: None,
            key_base: None,
            load: LoadOptions { lazy_keys: true, ..LoadOptions::default() },
            issuers: None,
            updates: UpdateOptions::default(),
            update_proxy: None,
            made_max: 1000,
            verify_servers: true,
            cache_size: 20_000,
            lifetime_s: 300,
            record_max: 0,
            record_hard_max: 0,
            key_updates_max: 100,
            capture: 0,
            keylog: false,
            load_errors: LoadErrors::Fail,
            watch: false,
        }
    }
}

/// Certificates, authorities and the lines that use them: what the CLI changes.
pub type SharedLive = Arc<Mutex<Live>>;
