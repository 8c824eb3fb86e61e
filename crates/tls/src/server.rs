//! The client's side: how a `server ... ssl` line is spoken to.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use thalweg_shared::{AtomicU64, Ordering};

use rustls::client::{ClientConfig, Resumption, Tls12Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{Error, SignatureScheme, SupportedCipherSuite};

use crate::bind::{ProfileError, suites, versions};
use crate::certificate::Credential;
use crate::clock::{Clock, Time};
use crate::notes::KeepSecrets;
use crate::options::{Versions, ciphers, groups, schemes};
use crate::provider::provider;
use crate::verify::{ServerPolicy, ServerVerifier};

/// For how many names a `server` line keeps sessions. The reference keeps one session per server and thread.
pub const NAMES_MAX: usize = 128;

/// Stands for "no name".
pub(crate) const NAMELESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// What a `server` line says about TLS.
#[derive(Clone, Debug)]
pub struct ServerProfile {
    pub versions: Versions,
    /// `ciphers`
    pub ciphers: Vec<SupportedCipherSuite>,
    /// `ciphersuites`
    pub ciphersuites: Vec<SupportedCipherSuite>,
    /// `curves`
    pub groups: Vec<&'static dyn SupportedKxGroup>,
    /// `alpn`
    pub alpn: Vec<Vec<u8>>,
    /// `verify`, `verifyhost`, `ca-file`, `crl-file`
    pub policy: ServerPolicy,
    /// `crt`: what the server sees when it asks for a certificate.
    pub own: Option<Arc<Credential>>,
    /// `client-sigalgs`: what its key may sign with; None for all that the key can.
    pub own_schemes: Option<Arc<[SignatureScheme]>>,
    /// False with `no-ssl-reuse`.
    pub reuse: bool,
    /// False with `no-tls-tickets`: TLS 1.2 sessions are resumed by their number only. In TLS 1.3 there is nothing else than
    /// tickets, and OpenSSL takes them all the same.
    pub tickets: bool,
    /// `allow-0rtt`: early data may be sent.
    pub early_data: bool,
    /// `tune.ssl.keylog on`
    pub keep_secrets: bool,
}

impl Default for ServerProfile {
    fn default() -> ServerProfile {
        ServerProfile {
            versions: Versions { tls12: true, tls13: true },
            ciphers: ciphers::TLS12.to_vec(),
            ciphersuites: ciphers::TLS13.to_vec(),
            groups: groups::defaults(),
            alpn: Vec::new(),
            policy: ServerPolicy { schemes: schemes::DEFAULTS.to_vec(), ..ServerPolicy::default() },
            own: None,
            own_schemes: None,
            reuse: true,
            tickets: true,
            early_data: false,
            keep_secrets: false,
        }
    }
}

impl ServerProfile {
    /// Equal for profiles by which a server is spoken to in the same way, whichever files what they use is from. Only of use
    /// within one process.
    fn fingerprint(&self) -> u64 {
        let ServerProfile {
            versions,
            policy,
            own,
            own_schemes,
            reuse,
            tickets,
            early_data,
            keep_secrets,
            ..
        } = self;
        let schemes =
            |schemes: &[SignatureScheme]| schemes.iter().map(|s| u16::from(*s)).collect::<Vec<u16>>();
        let suites = |suites: &[SupportedCipherSuite]| {
            suites.iter().map(|s| u16::from(s.suite())).collect::<Vec<u16>>()
        };
        let groups: Vec<u16> = self.groups.iter().map(|group| u16::from(group.name())).collect();
        let mut hasher = DefaultHasher::new();
        (versions.tls12, versions.tls13, suites(&self.ciphers), suites(&self.ciphersuites)).hash(&mut hasher);
        (groups, &self.alpn, reuse, tickets, early_data, keep_secrets).hash(&mut hasher);
        (policy.required, policy.trust.fingerprint(), policy.crls.as_ref().map(|crls| crls.fingerprint()))
            .hash(&mut hasher);
        (&policy.host, schemes(&policy.schemes), own_schemes.as_deref().map(schemes)).hash(&mut hasher);
        let chain =
            |own: &Arc<Credential>| own.chain.iter().map(|one| one.der().to_vec()).collect::<Vec<_>>();
        own.as_ref().map(chain).hash(&mut hasher);
        hasher.finish()
    }
}

/// A `server` line, ready to be connected to. It holds the sessions with that server.
#[derive(Debug)]
pub struct ServerContext {
    /// A number that no other context of the process has.
    id: u64,
    config: Arc<ClientConfig>,
    /// The same with early data, and the same sessions. Apart, because rustls announces early data whether there is any or not.
    with_early_data: Option<Arc<ClientConfig>>,
    own: Option<Arc<Credential>>,
    required: bool,
    /// What it was made of ([`ServerProfile::fingerprint`]).
    made_of: u64,
}

impl ServerContext {
    /// Whether a context made of this profile would treat the server as this one does.
    pub(crate) fn suits(&self, profile: &ServerProfile) -> bool {
        self.made_of == profile.fingerprint()
    }

    /// Whether this protocol is offered by ALPN.
    pub fn offers(&self, protocol: &[u8]) -> bool {
        self.config.alpn_protocols.iter().any(|offered| offered == protocol)
    }

    /// What is offered by ALPN.
    pub fn protocols(&self) -> &[Vec<u8>] {
        &self.config.alpn_protocols
    }

    /// Whether ALPN is not used.
    pub fn offers_nothing(&self) -> bool {
        self.config.alpn_protocols.is_empty()
    }

    /// Whether early data may be sent (`allow-0rtt`).
    pub fn sends_early_data(&self) -> bool {
        self.with_early_data.is_some()
    }

    /// A number that no other context of the process has: a connection made under another one followed other rules.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether a server that cannot be verified is refused.
    pub(crate) fn is_strict(&self) -> bool {
        self.required
    }

    pub fn new(profile: &ServerProfile, clock: Arc<dyn Clock>) -> Result<ServerContext, ProfileError> {
        let refused = |error: String| ProfileError::Refused(error);
        let provider = Arc::new(CryptoProvider {
            cipher_suites: suites(profile.versions, &profile.ciphers, &profile.ciphersuites)?,
            kx_groups: profile.groups.clone(),
            ..CryptoProvider::clone(provider())
        });
        let verifier = Arc::new(ServerVerifier::new(profile.policy.clone()));
        let now = clock.now() as i64;
        let builder = ClientConfig::builder_with_details(provider, Arc::new(Time(clock)))
            .with_protocol_versions(&versions(profile.versions, !profile.ciphers.is_empty()))
            .map_err(|error| refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &profile.own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let certified = own
                    .certified(profile.own_schemes.as_ref(), now)
                    .map_err(|error| refused(error.to_string()))?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        config.alpn_protocols = profile.alpn.clone();
        // A server that speaks another protocol than offered is one that has no ALPN; HTTP/1 goes on then.
        config.check_selected_alpn = true;
        config.enable_secret_extraction = true;
        config.resumption = match (profile.reuse, profile.tickets) {
            (false, _) => Resumption::disabled(),
            (true, true) => Resumption::in_memory_sessions(NAMES_MAX),
            (true, false) => {
                Resumption::in_memory_sessions(NAMES_MAX).tls12_resumption(Tls12Resumption::SessionIdOnly)
            }
        };
        if profile.keep_secrets {
            config.key_log = Arc::new(KeepSecrets);
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let required = profile.policy.required;
        let with_early_data = profile.early_data.then(|| {
            let mut config = config.clone();
            config.enable_early_data = true;
            Arc::new(config)
        });
        let (config, own, made_of) = (Arc::new(config), profile.own.clone(), profile.fingerprint());
        Ok(ServerContext { id, config, with_early_data, own, required, made_of })
    }

    /// What the server sees when it asks for a certificate.
    pub(crate) fn own(&self) -> Option<&Arc<Credential>> {
        self.own.as_ref()
    }

    /// Begins a handshake. rustls wants a name for its sessions even where none is sent: [`NAMELESS`], which is no name that
    /// anybody may ask for. An address is not sent.
    pub(crate) fn begin(
        &self,
        name: Option<ServerName<'static>>,
        protocols: Option<&[Vec<u8>]>,
        early_data: bool,
    ) -> Result<UnbufferedClientConnection, Error> {
        let config = self.with_early_data.as_ref().filter(|_| early_data).unwrap_or(&self.config);
        let name = name.unwrap_or(ServerName::from(NAMELESS));
        let protocols = protocols.unwrap_or(&config.alpn_protocols).to_vec();
        UnbufferedClientConnection::new_with_alpn(config.clone(), name, protocols)
    }
}
