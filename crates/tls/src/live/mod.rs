//! What can be changed while connections are served: certificates, authorities, revocation lists, lists of certificates.
//!
//! A change is made beside what is served and takes its place when it is whole: `set` prepares, `commit` checks and
//! replaces, `abort` forgets. Handshakes hold the [`Selection`] they began with. Commands answer in the reference's words;
//! the runtime CLI adds only the dialogue.

mod authorities;
mod certificates;
mod changes;
mod keywords;
mod lists;
mod show;
mod tokens;
mod trial;
mod updates;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_shared::{AtomicBool, Ordering, RwLock};

use crate::SystemClock;
use crate::bind::{BindContext, Served, Shared};
use crate::certificate::{Credential, LoadOptions, Loader};
use crate::crt_list::Line;
use crate::files::Files;
use crate::generate::Generator;
use crate::options::words::{Authorities, Words};
use crate::select::{Filter, Selection};
use crate::server::{ServerContext, ServerProfile};
use crate::session::TicketKeys;
use crate::verify::{Crls, TrustStore};

pub use authorities::{read_crls, read_trust};
pub use changes::{FileChange, FileKind};
pub use keywords::Keywords;
pub use tokens::{TokenCertificate, TokenCertificates};
pub use trial::Trial;
pub use updates::{Due, Outcome, UpdateOptions};
pub use watch::{Found, Watcher};

use authorities::FileSet;
use certificates::{Slot, Transaction};
use changes::Changes;
use updates::Updates;

/// What a command answers: what it did, or why it did nothing. Each is lines without the last line's end.
pub type Answer = Result<String, String>;

/// Why a certificate is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Unreadable(String),
    /// It is loaded already, with other keywords: its name, and what differs.
    Defined(String, String),
}

/// Everything that can be changed. It has one owner, which changes it; others hold [`BindLine`]s and [`ServerLine`]s.
#[derive(Debug)]
pub struct Live {
    shared: Shared,
    options: LoadOptions,
    certificates: BTreeMap<String, Slot>,
    transaction: Option<Transaction>,
    trust: FileSet<TrustStore>,
    crls: FileSet<Crls>,
    lists: BTreeMap<String, Vec<Line>>,
    binds: Vec<Bind>,
    servers: Vec<Server>,
    /// Files of `tls-ticket-keys`.
    ticket_files: Vec<(String, Arc<TicketKeys>)>,
    /// What commands changed of all this.
    changes: Changes,
    updates: Updates,
    /// What converters of tokens use, if any do.
    tokens: Option<Arc<TokenCertificates>>,
    /// `crt-base`
    base: Option<String>,
    /// When files began to be read, in seconds since 1970.
    loaded_at: i64,
    /// Grows with all that comes into place.
    edition: u64,
}

/// What a `bind` line serves now.
#[derive(Debug)]
pub struct BindLine {
    current: RwLock<Arc<Selection>>,
}

impl BindLine {
    /// The certificates to choose from. A handshake keeps what it gets here.
    pub fn selection(&self) -> Arc<Selection> {
        self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// How a `server` line is spoken to now.
#[derive(Debug)]
pub struct ServerLine {
    current: RwLock<Arc<ServerContext>>,
    /// Whether traffic is encrypted.
    on: AtomicBool,
    /// Whether the configuration says so.
    says_on: bool,
    /// Somebody chose that since the start.
    switched: AtomicBool,
}

impl ServerLine {
    fn new(context: Arc<ServerContext>, on: bool) -> ServerLine {
        ServerLine {
            current: RwLock::new(context),
            on: AtomicBool::new(on),
            says_on: on,
            switched: AtomicBool::new(false),
        }
    }

    pub fn context(&self) -> Arc<ServerContext> {
        self.current.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Whether traffic is encrypted now; health checks go their own way.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether that is the configuration's choice no more.
    pub fn was_switched(&self) -> bool {
        self.switched.load(Ordering::Relaxed)
    }

    /// `set server <b>/<s> ssl on|off`: connections that are made after this are encrypted, or not.
    pub fn switch(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
        self.switched.store(true, Ordering::Relaxed);
    }

    /// The same line for servers that only play this one: any certificate is good. None when there is no entropy for it.
    pub fn lenient(&self) -> Option<ServerLine> {
        let profile = ServerProfile { alpn: self.context().protocols().to_vec(), ..ServerProfile::default() };
        let context = ServerContext::new(&profile, Arc::new(SystemClock)).ok()?;
        Some(ServerLine::new(Arc::new(context), self.is_on()))
    }
}

/// A certificate or a list of them, as a `bind` line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `crt`, resolved to one certificate; true for `default-crt`.
    Certificate(String, bool),
    /// `crt-list`, or `crt` with a directory.
    List(String),
}

#[derive(Debug)]
struct Bind {
    /// `frontend/file:line`
    name: String,
    words: Words,
    sources: Vec<Source>,
    line: Arc<BindLine>,
    /// `tls-ticket-keys`
    tickets: Option<Arc<TicketKeys>>,
    /// `generate-certificates`
    generator: Option<Arc<Generator>>,
    contexts: Vec<(Words, Arc<BindContext>)>,
}

impl Bind {
    /// Whether clients whose name nobody has get the first certificate of this list.
    fn shows_to_all(&self, list: &str) -> bool {
        let is_first = matches!(self.sources.first(), Some(Source::List(name)) if name == list);
        let has_default = self.sources.iter().any(|source| matches!(source, Source::Certificate(_, true)));
        is_first && !has_default && self.words.strict_sni != Some(true)
    }
}

/// The names of files that a `server` line uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerUses {
    pub certificate: Option<String>,
    pub ca_file: Option<String>,
    pub crl_file: Option<String>,
}

#[derive(Debug)]
struct Server {
    uses: ServerUses,
    profile: ServerProfile,
    line: Arc<ServerLine>,
    /// How it was spoken to by the configuration before, until this one is read.
    before: Option<Arc<ServerContext>>,
}

impl Server {
    /// Somebody has the line: servers may have been removed.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.line) > 1
    }
}

impl Live {
    /// How often a client's session was looked for, and how often there was none.
    pub fn cache_uses(&self) -> (u64, u64) {
        self.shared.cache.uses()
    }

    /// Whether there is a certificate in any of these: lists and directories may be empty.
    pub fn names_any(&self, sources: &[Source]) -> bool {
        sources.iter().any(|source| match source {
            Source::Certificate(..) => true,
            Source::List(name) => self.lists.get(name).is_some_and(|lines| !lines.is_empty()),
        })
    }

    pub fn new(shared: Shared, options: LoadOptions) -> Live {
        Live {
            loaded_at: shared.clock.now() as i64,
            shared,
            options,
            certificates: BTreeMap::new(),
            transaction: None,
            trust: FileSet::new("CA"),
            crls: FileSet::new("CRL"),
            lists: BTreeMap::new(),
            binds: Vec::new(),
            servers: Vec::new(),
            ticket_files: Vec::new(),
            changes: Changes::default(),
            updates: Updates::default(),
            tokens: None,
            base: None,
            edition: 0,
        }
    }

    /// What all lines share.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// `crt-base`: where the certificates are that a command names by a path from nowhere.
    pub fn set_base(&mut self, base: &str) {
        self.base = Some(base.to_owned());
    }

    /// A certificate's name as the configuration would have made it of this.
    fn below(&self, path: &str) -> String {
        match &self.base {
            Some(base) if !path.starts_with(['/', '@']) => format!("{base}/{path}"),
            _ => path.to_owned(),
        }
    }

    /// Whether there is anything that handshakes could go by: a certificate, or a line that uses TLS.
    pub fn is_in_use(&self) -> bool {
        !self.certificates.is_empty() || !self.binds.is_empty() || !self.servers.is_empty()
    }

    /// Whether a certificate of this name is loaded.
    pub fn has_certificate(&self, name: &str) -> bool {
        self.certificates.contains_key(name)
    }

    /// Loads what a line names with these keywords, unless it is there: the names of the certificates. Those of a directory or
    /// a bundle that cannot be loaded are left out, and told to `spoiled` one by one.
    pub fn load_as(
        &mut self,
        files: &dyn Files,
        path: &str,
        keywords: &Keywords,
        spoiled: &mut Vec<String>,
    ) -> Result<Vec<String>, Refused> {
        let defined = |live: &Live, name: &str| {
            live.may_declare(name, keywords).map_err(|why| Refused::Defined(name.to_owned(), why))
        };
        if self.certificates.contains_key(path) {
            defined(self, path)?;
            return Ok(vec![path.to_owned()]);
        }
        let unreadable = |error: crate::certificate::LoadError| Refused::Unreadable(error.to_string());
        let loader = Loader { files, options: &self.options };
        let mut names = Vec::new();
        for name in loader.paths(path).map_err(unreadable)? {
            if self.certificates.contains_key(&name) {
                defined(self, &name)?;
                names.push(name);
                continue;
            }
            let loader = Loader { files, options: &self.options };
            match loader.load(&name) {
                Ok(credential) => {
                    self.add_credential(Arc::new(credential));
                    self.declare(&name, keywords.clone(), false);
                    names.push(name);
                }
                Err(error) if name == path => return Err(unreadable(error)),
                Err(error) => spoiled.push(error.to_string()),
            }
        }
        Ok(names)
    }

    /// Loads what a `crt` names, unless it is there: the names of the certificates.
    pub fn load(&mut self, files: &dyn Files, path: &str) -> Result<Vec<String>, String> {
        if self.certificates.contains_key(path) {
            return Ok(vec![path.to_owned()]);
        }
        let loader = Loader { files, options: &self.options };
        let mut loaded = Vec::new();
        for path in loader.paths(path).map_err(|error| error.to_string())? {
            if !self.certificates.contains_key(&path) {
                let credential = loader.load(&path).map_err(|error| error.to_string())?;
                self.certificates.insert(path.clone(), Slot::loaded(Arc::new(credential)));
                self.updates.changed();
            }
            loaded.push(path);
        }
        Ok(loaded)
    }

    /// Adds a certificate under a name of its own: one of a `crt-store`.
    pub fn add_credential(&mut self, credential: Arc<Credential>) {
        self.certificates.insert(credential.name.to_string(), Slot::loaded(credential));
    }

    /// Adds a `crt-list` whose certificates are loaded, or a directory as one.
    pub fn add_list(&mut self, name: &str, lines: Vec<Line>) {
        self.lists.insert(name.to_owned(), lines);
    }

    /// Adds a `ca-file`.
    pub fn add_trust(&mut self, name: &str, store: TrustStore) {
        self.trust.insert(name, store);
    }

    /// Adds a `crl-file`.
    pub fn add_crls(&mut self, name: &str, crls: Crls) {
        self.crls.insert(name, crls);
    }

    /// Whether a `ca-file` of this name was added.
    pub fn has_trust(&self, name: &str) -> bool {
        self.trust.get(name).is_some()
    }

    /// Whether a `crl-file` of this name was added.
    pub fn has_crls(&self, name: &str) -> bool {
        self.crls.get(name).is_some()
    }

    /// The keys of a `tls-ticket-keys` file that was added.
    pub fn ticket_keys(&self, path: &str) -> Option<Arc<TicketKeys>> {
        self.ticket_files.iter().find(|(known, _)| known == path).map(|(_, keys)| keys.clone())
    }

    /// Adds a `tls-ticket-keys` file.
    pub fn add_ticket_keys(&mut self, path: &str, keys: Arc<TicketKeys>) {
        self.ticket_files.push((path.to_owned(), keys));
    }

    /// Adds a `bind` line; what it is to serve must be loaded. `tickets` are the keys of `tls-ticket-keys`, in place of
    /// our own; `generator` makes certificates for names that nobody has. The texts are warnings.
    pub fn add_bind(
        &mut self,
        name: &str,
        words: Words,
        sources: Vec<Source>,
        tickets: Option<Arc<TicketKeys>>,
        generator: Option<Arc<Generator>>,
    ) -> Result<(Arc<BindLine>, Vec<String>), String> {
        let (_, mut warnings) = words.profile(self).map_err(|error| error.to_string())?;
        let line = Arc::new(BindLine { current: RwLock::default() });
        let mut bind =
            Bind { name: name.to_owned(), words, sources, line, tickets, generator, contexts: Vec::new() };
        let selection = self.select(&mut bind)?;
        warnings.extend(self.unstapled(&selection));
        warnings.extend(with_timestamps(&selection));
        install(&bind.line.current, Arc::new(selection));
        let line = bind.line.clone();
        self.binds.push(bind);
        Ok((line, warnings))
    }

    /// What is to be said of certificates that a `bind` line serves and that are not in force: most clients refuse them.
    pub fn served_out_of_force(&self, line: &BindLine) -> Option<String> {
        let now = self.shared.clock.now() as i64;
        let selection = line.selection();
        let mut all = selection.served().iter().filter_map(|served| served.credential.out_of_force(now));
        let first = all.next()?;
        Some(match all.count() {
            0 => first,
            others => format!("{first} (and {others} more that are not in force)"),
        })
    }

    /// What is to be said of a certificate that is loaded and not in force.
    pub fn out_of_force(&self, name: &str) -> Option<String> {
        let now = self.shared.clock.now() as i64;
        self.certificates.get(name)?.credential.as_ref()?.out_of_force(now)
    }

    /// Adds a `server` line; what it uses must be loaded. `on`: traffic to it is encrypted from the start. `before` is the same
    /// line of the configuration before: as long as it means the same, connections and sessions that were made by it go on, and what was
    /// said of it at run time stays.
    pub fn add_server(
        &mut self,
        uses: ServerUses,
        profile: ServerProfile,
        on: bool,
        before: Option<&ServerLine>,
    ) -> Result<Arc<ServerLine>, String> {
        let context = self.server_context(&uses, &profile, before.map(ServerLine::context))?;
        let line = Arc::new(ServerLine::new(context, on));
        if let Some(before) = before.filter(|before| before.was_switched() && before.says_on == on) {
            line.switch(before.is_on());
        }
        self.servers.retain(Server::is_used);
        let before = before.map(ServerLine::context);
        self.servers.push(Server { uses, profile, line: line.clone(), before });
        Ok(line)
    }

    /// How a server is spoken to: as `before`, if that is what the profile asks for.
    fn server_context(
        &self,
        uses: &ServerUses,
        profile: &ServerProfile,
        before: Option<Arc<ServerContext>>,
    ) -> Result<Arc<ServerContext>, String> {
        let mut profile = profile.clone();
        if let Some(name) = &uses.certificate {
            let slot = self.certificates.get(name).and_then(|slot| slot.credential.clone());
            profile.own = Some(slot.ok_or_else(|| format!("certificate '{name}' is not loaded"))?);
        }
        if let Some(name) = &uses.ca_file {
            let trust = self.trust(name);
            profile.policy.trust = trust.ok_or_else(|| format!("'ca-file' : unable to load {name}"))?;
        }
        if let Some(name) = &uses.crl_file {
            let crls = self.crls(name);
            profile.policy.crls = Some(crls.ok_or_else(|| format!("'crl-file' : unable to load {name}"))?);
        }
        if let Some(before) = before.filter(|before| before.suits(&profile)) {
            return Ok(before);
        }
        let made = ServerContext::new(&profile, self.shared.clock.clone());
        made.map(Arc::new).map_err(|error| error.to_string())
    }

    /// What a `bind` line serves, out of what is loaded. What did not change is taken over from what it served before, with
    /// the configuration that was made for it.
    fn select(&self, bind: &mut Bind) -> Result<Selection, String> {
        let before = bind.line.selection();
        let mut selection = Selection::new(bind.words.strict_sni == Some(true));
        if let Some(generator) = &bind.generator {
            selection.generate(generator.clone());
        }
        let has_default = bind.sources.iter().any(|source| matches!(source, Source::Certificate(_, true)));
        let mut entries: Vec<(Arc<Credential>, Words, Vec<Filter>, bool)> = Vec::new();
        for source in &bind.sources {
            match source {
                Source::Certificate(name, is_default) => {
                    entries.push((self.credential(name)?, bind.words.clone(), Vec::new(), *is_default));
                }
                Source::List(name) => {
                    let lines =
                        self.lists.get(name).ok_or_else(|| format!("crt-list '{name}' is not loaded"))?;
                    for line in lines {
                        let filters = line.filters.iter().map(|filter| Filter::parse(filter)).collect();
                        let words = line.words.over(&bind.words);
                        entries.push((self.credential(&line.path)?, words, filters, false));
                    }
                }
            }
        }
        for (credential, words, filters, is_default) in entries {
            let context = self.context(&mut bind.contexts, words, bind.tickets.as_ref())?;
            let same = |served: &&Arc<Served>| {
                Arc::ptr_eq(&served.credential, &credential) && Arc::ptr_eq(&served.context, &context)
            };
            let served = match before.served().iter().find(same) {
                Some(served) => served.clone(),
                None => Arc::new(Served::new(credential, context)),
            };
            let is_first = selection.is_empty();
            selection.add(served, &filters);
            if is_default || (is_first && !has_default) {
                selection.last_is_default();
            }
        }
        Ok(selection)
    }

    fn credential(&self, name: &str) -> Result<Arc<Credential>, String> {
        let slot = self.certificates.get(name).and_then(|slot| slot.credential.clone());
        let credential = slot.ok_or_else(|| format!("certificate '{name}' is not loaded"))?;
        match credential.key {
            Some(_) => Ok(credential),
            None => Err(format!("No Private Key found in '{name}'.")),
        }
    }

    fn context(
        &self,
        contexts: &mut Vec<(Words, Arc<BindContext>)>,
        words: Words,
        tickets: Option<&Arc<TicketKeys>>,
    ) -> Result<Arc<BindContext>, String> {
        if let Some((_, context)) = contexts.iter().find(|(known, _)| *known == words) {
            return Ok(context.clone());
        }
        let (profile, _) = words.profile(self).map_err(|error| error.to_string())?;
        let mut shared = self.shared.clone();
        if let Some(own) = tickets {
            shared.tickets = Some(own.clone());
        }
        if words.tickets == Some(false) {
            shared.tickets = None;
        }
        let context = Arc::new(BindContext::new(&profile, shared).map_err(|error| error.to_string())?);
        contexts.push((words, context.clone()));
        Ok(context)
    }

    /// Makes anew what is served by the lines that are concerned, all or none: nothing is replaced until everything is made.
    fn rebuild(
        &mut self,
        concerns: impl Fn(&Words, &[Source], &BTreeMap<String, Vec<Line>>) -> Concern,
        uses: impl Fn(&ServerUses) -> bool,
    ) -> Result<(), String> {
        let mut binds = std::mem::take(&mut self.binds);
        let mut made = Vec::new();
        let mut problem = None;
        for (index, bind) in binds.iter_mut().enumerate() {
            match concerns(&bind.words, &bind.sources, &self.lists) {
                Concern::None => continue,
                Concern::Certificates => {}
                Concern::Options => bind.contexts.clear(),
            }
            match self.select(bind) {
                Ok(selection) => made.push((index, selection)),
                Err(error) => {
                    problem = Some(error);
                    break;
                }
            }
        }
        let mut contexts = Vec::new();
        for (index, server) in self.servers.iter().enumerate().filter(|(_, server)| uses(&server.uses)) {
            match self.server_context(&server.uses, &server.profile, server.before.clone()) {
                Ok(context) => contexts.push((index, context)),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        if problem.is_none() {
            made.into_iter()
                .for_each(|(index, selection)| install(&binds[index].line.current, Arc::new(selection)));
            contexts
                .into_iter()
                .for_each(|(index, context)| install(&self.servers[index].line.current, context));
            self.edition += 1;
        }
        self.binds = binds;
        problem.map_or(Ok(()), Err)
    }
}

/// How a change concerns a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    None,
    /// Another certificate is served.
    Certificates,
    /// Another authority or list is used.
    Options,
}

/// A warning about certificates with timestamps that nobody is sent.
fn with_timestamps(selection: &Selection) -> Option<String> {
    let mut all = selection.served().iter().map(|served| &served.credential);
    let files = &all.find(|credential| credential.has_timestamps)?.files;
    Some(format!(
        "'{}' is not used : the TLS library cannot send lists of signed certificate timestamps, which certificates carry \
         themselves today",
        files.sctl.as_deref().unwrap_or_default()
    ))
}

fn install<T>(place: &RwLock<Arc<T>>, value: Arc<T>) {
    *place.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = value;
}

impl Authorities for Live {
    fn trust(&self, path: &str) -> Option<Arc<TrustStore>> {
        self.trust.get(path)
    }

    fn crls(&self, path: &str) -> Option<Arc<Crls>> {
        self.crls.get(path)
    }
}
