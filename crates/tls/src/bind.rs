//! The server's side: what a `bind ... ssl` line serves, and to whom.

use std::sync::Arc;

use thalweg_shared::RwLock;

use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::{NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, SupportedCipherSuite};

use crate::certificate::{Credential, KeyError};
use crate::clock::{Clock, Time};
use crate::facts::Stapled;
use crate::hello::{ClientHello, FALLBACK_SCSV, RENEGOTIATION_SCSV, is_grease, list16};
use crate::notes::KeepSecrets;
use crate::ocsp::OcspResponse;
use crate::options::{Versions, ciphers, groups, schemes};
use crate::provider::provider;
use crate::session::{Binding, BoundCache, BoundTickets, SessionCache, TicketKeys};
use crate::verify::{ClientPolicy, ClientVerifier, Verify};
use crate::{key_block, key_schedule};

/// What a `bind` line says about TLS, or a line of a `crt-list` in its brackets.
#[derive(Clone, Debug)]
pub struct Profile {
    pub versions: Versions,
    /// `ciphers`
    pub ciphers: Vec<SupportedCipherSuite>,
    /// `ciphersuites`
    pub ciphersuites: Vec<SupportedCipherSuite>,
    /// No `ciphersuites` were named: of those with AES a client gets the one that it prefers.
    pub any_aes: bool,
    /// `curves`
    pub groups: Vec<&'static dyn SupportedKxGroup>,
    /// `sigalgs`; None: whatever the key can do.
    pub schemes: Option<Arc<[SignatureScheme]>>,
    /// `alpn`; empty with `no-alpn`.
    pub alpn: Vec<Vec<u8>>,
    /// `verify` and what belongs to it.
    pub client: ClientPolicy,
    /// `prefer-client-ciphers`
    pub prefer_client: bool,
    /// `allow-0rtt`: how many bytes of early data a client may send; 0 for none.
    pub early_data: u32,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            versions: Versions { tls12: true, tls13: true },
            ciphers: ciphers::TLS12.to_vec(),
            ciphersuites: ciphers::TLS13.to_vec(),
            any_aes: true,
            groups: groups::defaults(),
            schemes: None,
            alpn: Vec::new(),
            client: ClientPolicy { schemes: schemes::DEFAULTS.to_vec(), ..ClientPolicy::default() },
            prefer_client: false,
            early_data: 0,
        }
    }
}

/// What all lines of a process share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub clock: Arc<dyn Clock>,
    /// None with `no-tls-tickets`.
    pub tickets: Option<Arc<TicketKeys>>,
    pub cache: Arc<SessionCache>,
    /// `tune.ssl.lifetime`, in seconds.
    pub lifetime: u32,
    /// `tune.ssl.keylog on`
    pub keep_secrets: bool,
    /// How many bytes of a ClientHello's lists are kept: `tune.ssl.capture-buffer-size`. 0 keeps none.
    pub keep_hello: usize,
}

/// A profile that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// No suite is left for any version that is spoken.
    NoCipher,
    /// rustls refuses; its words.
    Refused(String),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::NoCipher => {
                let names: Vec<&str> =
                    ciphers::TLS12.iter().map(|suite| ciphers::name(suite.suite().into())).collect();
                write!(
                    f,
                    "no cipher of the list is supported, and TLSv1.3 is not spoken; the supported ones are {}",
                    names.join(", ")
                )
            }
            ProfileError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Which suites come first for a client, where the order of the lists counts and not the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As the lists have them.
    Listed,
    /// Those with ChaCha20-Poly1305, for a client that prefers it to all others: it has no instructions for AES. OpenSSL does that for
    /// the reference (`SSL_OP_PRIORITIZE_CHACHA`).
    ChaCha,
    /// `TLS_AES_128_GCM_SHA256`, for a client that prefers it to `TLS_AES_256_GCM_SHA384` where no list says otherwise, as most
    /// browsers do. The handshake costs a third less.
    Aes128,
}

impl Order {
    fn puts_first(self, suite: &SupportedCipherSuite) -> bool {
        let code = suite.suite().into();
        match self {
            Order::Listed => false,
            Order::ChaCha => ciphers::CHACHA.contains(&code),
            Order::Aes128 => code == ciphers::AES_128_GCM_SHA256,
        }
    }

    /// The suites in this order; `None` when that is the one they have.
    fn apply(self, suites: &[SupportedCipherSuite]) -> Option<Vec<SupportedCipherSuite>> {
        let mut ordered = suites.to_vec();
        ordered.sort_by_key(|suite| !self.puts_first(suite));
        (ordered != suites).then_some(ordered)
    }
}

/// A profile ready to be served with one certificate or another.
#[derive(Debug)]
pub struct BindContext {
    template: ServerConfig,
    /// The same in [`Order::ChaCha`] and in [`Order::Aes128`], where that may be a client's and is not the lists' own.
    chacha: Option<Box<ServerConfig>>,
    aes128: Option<Box<ServerConfig>>,
    verifier: Arc<ClientVerifier>,
    shared: Shared,
    schemes: Option<Arc<[SignatureScheme]>>,
    /// A digest of how clients are verified: sessions are bound to it.
    policy: Binding,
    early_data: u32,
    asks: bool,
    speaks_tls13: bool,
}

impl BindContext {
    /// Prepares a profile. TLS 1.2 is not spoken when none of its ciphers is left and TLS 1.3 is: [`Profile::loses_tls12`]
    /// tells, so that the user is warned.
    pub fn new(profile: &Profile, shared: Shared) -> Result<BindContext, ProfileError> {
        let listed = suites(profile.versions, &profile.ciphers, &profile.ciphersuites)?;
        let verifier = Arc::new(ClientVerifier::new(profile.client.clone()));
        let made = |suites| template_of(profile, &shared, &verifier, suites);
        let in_order = |order: Order, may_be: bool| {
            let suites = if may_be { order.apply(&listed) } else { None };
            suites.map(|suites| made(suites).map(Box::new)).transpose()
        };
        Ok(BindContext {
            chacha: in_order(Order::ChaCha, !profile.prefer_client)?,
            aes128: in_order(Order::Aes128, !profile.prefer_client && profile.any_aes)?,
            template: made(listed)?,
            verifier,
            shared,
            schemes: profile.schemes.clone(),
            policy: policy_digest(&profile.client),
            early_data: profile.early_data,
            asks: profile.client.verify != Verify::None,
            speaks_tls13: profile.versions.tls13,
        })
    }

    pub(crate) fn verifier(&self) -> &ClientVerifier {
        &self.verifier
    }

    /// Whether clients are asked for a certificate.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.asks
    }

    pub(crate) fn speaks_tls13(&self) -> bool {
        self.speaks_tls13
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Which suites come first for this client.
    pub(crate) fn order(&self, hello: &ClientHello<'_>) -> Order {
        let signals = [FALLBACK_SCSV, RENEGOTIATION_SCSV];
        let mut offered =
            list16(hello.ciphers).filter(|suite| !is_grease(*suite) && !signals.contains(suite)).peekable();
        if self.chacha.is_some() && offered.peek().is_some_and(|first| ciphers::CHACHA.contains(first)) {
            return Order::ChaCha;
        }
        let mut of_aes = offered.filter(|suite| ciphers::AES_OF_TLS13.contains(suite));
        match self.aes128.is_some() && of_aes.next() == Some(ciphers::AES_128_GCM_SHA256) {
            true => Order::Aes128,
            false => Order::Listed,
        }
    }

    /// What a client with this order is served by, but for the certificate.
    fn template(&self, order: Order) -> &ServerConfig {
        let other = match order {
            Order::Listed => None,
            Order::ChaCha => self.chacha.as_deref(),
            Order::Aes128 => self.aes128.as_deref(),
        };
        other.unwrap_or(&self.template)
    }

    /// What rustls needs to serve a certificate under this profile.
    fn config(&self, credential: &Credential, order: Order) -> Result<Arc<ServerConfig>, KeyError> {
        let now = self.shared.clock.now() as i64;
        let certified = credential.certified(self.schemes.as_ref(), now)?;
        let mut config = self.template(order).clone();
        config.cert_resolver = Arc::new(Always(certified));
        let binding = self.binding(credential);
        config.session_storage = Arc::new(BoundCache { cache: self.shared.cache.clone(), binding });
        // With tickets rustls takes no early data: a ticket can be used twice, a session in the cache once.
        if self.early_data == 0 {
            self.give_tickets(&mut config, binding);
        }
        Ok(Arc::new(config))
    }

    /// What the sessions of a certificate under this profile are bound to.
    fn binding(&self, credential: &Credential) -> Binding {
        let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
        hash.update(&self.policy);
        hash.update(&credential.leaf().sha256());
        let mut binding = [0; 32];
        binding.copy_from_slice(hash.finish().as_ref());
        binding
    }

    fn give_tickets(&self, config: &mut ServerConfig, binding: Binding) {
        if let Some(keys) = self.shared.tickets.clone() {
            config.ticketer = Arc::new(BoundTickets { keys, binding, lifetime: self.shared.lifetime });
        }
    }
}

impl Profile {
    /// TLS 1.2 is asked for, and none of the ciphers for it is supported.
    pub fn loses_tls12(&self) -> bool {
        self.versions.tls12 && self.ciphers.is_empty()
    }
}

/// What a profile is served by with its suites in one order, but for the certificate.
fn template_of(
    profile: &Profile,
    shared: &Shared,
    verifier: &Arc<ClientVerifier>,
    cipher_suites: Vec<SupportedCipherSuite>,
) -> Result<ServerConfig, ProfileError> {
    let provider = Arc::new(CryptoProvider {
        cipher_suites,
        kx_groups: profile.groups.clone(),
        ..CryptoProvider::clone(provider())
    });
    let builder = ServerConfig::builder_with_details(provider, Arc::new(Time(shared.clock.clone())))
        .with_protocol_versions(&versions(profile.versions, !profile.ciphers.is_empty()))
        .map_err(|error| ProfileError::Refused(error.to_string()))?;
    let builder = match profile.client.verify {
        Verify::None => builder.with_no_client_auth(),
        Verify::Optional | Verify::Required => builder.with_client_cert_verifier(verifier.clone()),
    };
    let mut template = builder.with_cert_resolver(Arc::new(Nothing));
    template.ignore_client_order = !profile.prefer_client;
    template.alpn_protocols = profile.alpn.clone();
    template.enable_secret_extraction = true;
    template.session_storage = Arc::new(NoServerSessionStorage {});
    template.max_early_data_size = profile.early_data;
    // Early data is answered before the client has said all of its handshake.
    template.send_half_rtt_data = profile.early_data > 0;
    if shared.keep_secrets {
        template.key_log = Arc::new(KeepSecrets);
    }
    Ok(template)
}

pub(crate) fn suites(
    versions: Versions,
    tls12: &[SupportedCipherSuite],
    tls13: &[SupportedCipherSuite],
) -> Result<Vec<SupportedCipherSuite>, ProfileError> {
    let mut suites = Vec::new();
    if versions.tls13 {
        suites.extend(tls13.iter().copied().map(key_schedule::suite));
    }
    if versions.tls12 {
        suites.extend(tls12.iter().copied().map(key_block::suite));
    }
    if suites.is_empty() { Err(ProfileError::NoCipher) } else { Ok(suites) }
}

pub(crate) fn versions(
    versions: Versions,
    has_tls12_ciphers: bool,
) -> Vec<&'static rustls::SupportedProtocolVersion> {
    let tls12 = versions.tls12 && has_tls12_ciphers;
    let both = [(versions.tls13, &rustls::version::TLS13), (tls12, &rustls::version::TLS12)];
    both.into_iter().filter(|(spoken, _)| *spoken).map(|(_, version)| version).collect()
}

/// A digest of how clients are verified. It is made of contents only, so that processes with the same configuration have the
/// same and understand each other's tickets.
fn policy_digest(client: &ClientPolicy) -> Binding {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(format!("{:?} {:?} {:?}", client.verify, client.ignored_leaf, client.ignored_ca).as_bytes());
    if client.verify != Verify::None {
        let mut roots: Vec<[u8; 32]> =
            client.trust.certificates().iter().map(|certificate| certificate.sha256()).collect();
        roots.sort_unstable();
        roots.iter().for_each(|root| hash.update(root));
        hash.update(&[client.crls.is_some() as u8]);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    digest
}

/// A certificate under a profile: what a client's name leads to.
#[derive(Debug)]
pub struct Served {
    pub credential: Arc<Credential>,
    pub context: Arc<BindContext>,
    ready: RwLock<[Option<Ready>; 3]>,
}

/// What was made for a certificate, and until when it may be used.
#[derive(Clone, Debug)]
struct Ready {
    config: Arc<ServerConfig>,
    /// The certificate's OCSP response when it was made, whether it was in force or not.
    response: Option<Arc<OcspResponse>>,
    /// When the OCSP response in it is no longer in force.
    until: i64,
}

impl Served {
    pub fn new(credential: Arc<Credential>, context: Arc<BindContext>) -> Served {
        Served { credential, context, ready: RwLock::default() }
    }

    /// What rustls serves, made when it is first needed: of 50,000 certificates a day sees a few hundred. The OCSP response
    /// that is stapled is a part of it: with another one it is made again, and without once that is over.
    pub(crate) fn config(&self, order: Order) -> Result<Arc<ServerConfig>, KeyError> {
        let now = self.context.shared.clock.now() as i64;
        let place = order as usize;
        let ready = self.ready.read().unwrap_or_else(|poisoned| poisoned.into_inner())[place].clone();
        let response = self.credential.ocsp();
        let is_same =
            |ready: &Ready| ready.response.as_ref().map(Arc::as_ptr) == response.as_ref().map(Arc::as_ptr);
        if let Some(ready) = ready.filter(|ready| now <= ready.until && is_same(ready)) {
            return Ok(ready.config);
        }
        let stapled = response.as_ref().filter(|response| response.is_in_force(now));
        let until = stapled.and_then(|response| response.until()).unwrap_or(i64::MAX);
        let config = self.context.config(&self.credential, order)?;
        let ready = Ready { config: config.clone(), response, until };
        self.ready.write().unwrap_or_else(|poisoned| poisoned.into_inner())[place] = Some(ready);
        Ok(config)
    }

    /// What becomes of the certificate's OCSP response when a client asks for it now.
    pub(crate) fn stapled(&self) -> Stapled {
        let now = self.context.shared.clock.now() as i64;
        match self.credential.ocsp() {
            None => Stapled::Unasked,
            Some(response) if response.is_in_force(now) => Stapled::Sent,
            Some(_) => Stapled::Outdated,
        }
    }

    /// What rustls serves to a client that knows no TLS 1.3, if that is something else: it has no early data, so that it may
    /// have tickets.
    pub(crate) fn config_before_tls13(&self, config: &ServerConfig) -> Option<Arc<ServerConfig>> {
        if self.context.early_data == 0 {
            return None;
        }
        let mut config = config.clone();
        self.context.give_tickets(&mut config, self.context.binding(&self.credential));
        Some(Arc::new(config))
    }
}

/// Serves one certificate, come what may: it was chosen before rustls saw the hello.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesServerCert for Always {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// Stands in the template until there is a certificate.
#[derive(Debug)]
struct Nothing;

impl ResolvesServerCert for Nothing {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}
