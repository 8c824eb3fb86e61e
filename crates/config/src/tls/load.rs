//! The files that lines name, read once all lines are, and what clients are served and servers are told.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::sync::Arc;

use thalweg_shared::Mutex;
use thalweg_syntax::{Diagnostic, Lead, Loader, Severity, Span};
use thalweg_tls::SystemClock;
use thalweg_tls::bind::Shared;
use thalweg_tls::certificate::{ChainFile, Loader as CertificateLoader, Parts};
use thalweg_tls::crt_list;
use thalweg_tls::files::{Disk, Files, Stamp, reason};
use thalweg_tls::generate::Generator;
use thalweg_tls::live::{Keywords, Live, Refused, ServerLine, ServerUses, Source, read_crls, read_trust};
use thalweg_tls::options::words::Words;
use thalweg_tls::pem;
use thalweg_tls::session::{SessionCache, TicketKeys};
use thalweg_tls::verify::{Crls, TrustStore};

use super::store::FrontendCertificate;
use super::wanted::decide;
use crate::build::{Building, Cx};
use crate::model::{BindTls, LoadErrors, Mode, NamedFile, Server, ServerTls, SourceKind};
use crate::sample_env::under;

/// Where systems keep the certificates that everybody trusts: the first of these files that is there.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// How a message begins that tells what a certificate was given elsewhere: it has lines of its own.
const CONFLICT: &str = "\n  ";

/// A path below a directory that a keyword names, or else below `default-path`.
pub(super) fn below(cx: &Cx<'_>, base: Option<&str>, path: &str, span: Span) -> String {
    match base {
        _ if path.starts_with(['/', '@']) => path.to_owned(),
        Some(base) => format!("{base}/{path}"),
        None => under(cx.base_directory(span).as_deref(), path).into_owned(),
    }
}

/// Files as the configuration's are read.
struct LoaderFiles<'a>(&'a dyn Loader);

impl Files for LoaderFiles<'_> {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        if self.0.is_dir(path)? { self.0.list(path) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    fn exists(&self, path: &str) -> bool {
        !matches!(self.0.is_dir(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    fn stamp(&self, path: &str) -> Option<Stamp> {
        Disk.stamp(path)
    }
}

/// Whether a server's line says `ssl`.
pub(crate) fn uses_tls(server: &Server) -> bool {
    server.tls.as_ref().is_some_and(|tls| tls.words.ssl == Some(true))
}

/// Whether a server's line says `sni`: what has no requests cannot evaluate it.
pub(crate) fn asks_by_expression(server: &Server) -> bool {
    server.tls.as_ref().is_some_and(|tls| tls.words.sni.is_some())
}

/// Reads all files and makes what lines use.
pub(crate) fn load(cx: &mut Cx<'_>, proxies: &mut [Building], readable: bool) {
    for b in proxies.iter_mut() {
        for (at, what) in decide(&mut b.p) {
            let (proxy, server) = (&b.p.name, &b.p.servers[at]);
            let message =
                format!("[{}:{}] : 'server {proxy}/{}' : {what}.", server.file, server.line, server.name);
            cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
        }
    }
    if let Some((path, span)) = cx.config.global.tls.issuers.clone() {
        issuers(cx, &LoaderFiles(cx.options.loader), &path, span);
    }
    let wanted = cx.name_table.certificates.take();
    cx.config.token_keys = Arc::new(cx.name_table.token_keys.take());
    // Without a line that uses TLS, too: certificates may be made ready for one that comes later.
    let Some(mut live) = new_live(cx) else { return };
    let mut loading = Loading::of(cx, &mut live);
    loading.stores(cx);
    for b in proxies.iter_mut() {
        loading.binds(cx, b, readable);
        loading.servers(cx, b);
    }
    loading.tokens(cx, wanted);
    // No program is run once traffic is served.
    if let Some(passphrases) = &cx.config.global.tls.load.passphrases {
        passphrases.stop_asking();
    }
    let before = cx.options.after.filter(|after| !after.force).and_then(|after| after.config.tls.as_ref());
    if let Some(before) = before {
        live.keep_changes(&before.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
    live.forget_former();
    cx.config.token_certificates = Some(live.token_certificates());
    cx.config.tls = Some(Arc::new(Mutex::new(live)));
}

/// The same for the servers of one proxy that are added to a configuration in force: what it has loaded is not read again.
pub(crate) fn load_servers(cx: &mut Cx<'_>, b: &mut Building) {
    for (at, what) in decide(&mut b.p) {
        let server = &b.p.servers[at];
        let message =
            format!("[{}:{}] : 'server {}/{}' : {what}.", server.file, server.line, b.p.name, server.name);
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
    }
    if !b.p.servers.iter().any(|server| server.tls.as_ref().is_some_and(|tls| tls.used)) {
        return;
    }
    let shared = match cx.config.tls.clone() {
        Some(shared) => shared,
        None => match new_live(cx) {
            Some(live) => Arc::clone(cx.config.tls.insert(Arc::new(Mutex::new(live)))),
            None => return,
        },
    };
    let mut live = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Loading::of(cx, &mut live).servers(cx, b);
}

struct Loading<'a, 'l> {
    live: &'l mut Live,
    files: LoaderFiles<'a>,
    load: thalweg_tls::certificate::LoadOptions,
    clock: Arc<dyn thalweg_tls::Clock>,
    /// Authorities and lists that were read, or could not be.
    read: HashSet<(bool, Arc<str>)>,
    /// `tune.ssl.ssl-ctx-cache-size`
    made_max: usize,
    /// The names of certificates that a `bind` line of an earlier section used.
    lists: HashSet<String>,
}

/// Nothing loaded yet; `None` when TLS cannot be used.
fn new_live(cx: &mut Cx<'_>) -> Option<Live> {
    let tls = &cx.config.global.tls;
    let clock: Arc<dyn thalweg_tls::Clock> = Arc::new(SystemClock);
    // Clients resume what they began before, if the process had a configuration before this one.
    let before = cx.options.after.and_then(|after| after.config.tls.as_ref());
    let before =
        before.map(|live| live.lock().unwrap_or_else(std::sync::PoisonError::into_inner).shared().clone());
    let tickets =
        match before.as_ref().map_or_else(|| fresh_tickets(&clock), |shared| Ok(shared.tickets.clone())) {
            Ok(keys) => keys,
            Err(error) => {
                cx.diagnostics.push(Diagnostic::alert(format!("TLS cannot be used: {error}.")));
                return None;
            }
        };
    let shared = Shared {
        clock: clock.clone(),
        tickets,
        cache: before.map_or_else(
            || Arc::new(SessionCache::new(tls.cache_size, tls.lifetime_s, clock.clone())),
            |shared| shared.cache,
        ),
        lifetime: tls.lifetime_s,
        keep_secrets: tls.keylog,
        keep_hello: tls.capture,
    };
    let mut live = Live::new(shared, tls.load.clone());
    live.set_update_options(tls.updates.clone());
    if let Some(base) = &tls.crt_base {
        live.set_base(base);
    }
    Some(live)
}

/// Reports a certificate that cannot be loaded: an error, unless such ones are to be left out (`ssl-load-errors warn`).
fn spoiled(cx: &mut Cx<'_>, span: Span, message: String) {
    let leaves_out = leaves_out(cx) && !message.starts_with(CONFLICT);
    cx.diagnostics.push(match leaves_out {
        true => Diagnostic::warning_at(span, message),
        false => Diagnostic::alert_at(span, message),
    });
}

fn leaves_out(cx: &Cx<'_>) -> bool {
    cx.config.global.tls.load_errors == LoadErrors::Warn
}

/// Keys for tickets that nobody had before.
fn fresh_tickets(
    clock: &Arc<dyn thalweg_tls::Clock>,
) -> Result<Option<Arc<TicketKeys>>, thalweg_tls::NoEntropy> {
    TicketKeys::generate(clock.clone()).map(|keys| Some(Arc::new(keys)))
}

impl<'a, 'l> Loading<'a, 'l> {
    fn of(cx: &Cx<'a>, live: &'l mut Live) -> Loading<'a, 'l> {
        let files = LoaderFiles(cx.options.loader);
        let load = cx.config.global.tls.load.clone();
        let clock: Arc<dyn thalweg_tls::Clock> = Arc::new(SystemClock);
        let made_max = cx.config.global.tls.made_max;
        Loading { made_max, live, files, load, clock, read: HashSet::new(), lists: HashSet::new() }
    }

    fn stores(&mut self, cx: &mut Cx<'_>) {
        for store in std::mem::take(&mut cx.stores) {
            for one in store.loads {
                let loader = CertificateLoader { files: &self.files, options: &self.load };
                let now = self.clock.now() as i64;
                match loader.load_or_make(&one.name, &one.parts, one.made, now) {
                    Ok(credential) => {
                        self.live.add_credential(Arc::new(credential));
                        self.live.declare(&one.name, one.keywords, true);
                    }
                    Err(error) => spoiled(cx, one.span, error.to_string()),
                }
            }
        }
    }

    /// The certificates that converters of tokens name: those that nobody else loaded are for tokens.
    fn tokens(&mut self, cx: &mut Cx<'_>, wanted: BTreeSet<String>) {
        for name in wanted {
            if self.live.has_certificate(&name) {
                continue;
            }
            let loader = CertificateLoader { files: &self.files, options: &self.load };
            let parts = Parts { certificate: name.clone(), ..Parts::default() };
            let found = if name.starts_with('@') { None } else { Some(loader.load_parts(&name, &parts)) };
            match found {
                Some(Ok(mut credential)) => {
                    credential.files = Parts::default();
                    self.live.add_credential(Arc::new(credential));
                    self.live.declare(&name, Keywords { jwt: Some(true), ..Keywords::default() }, false);
                }
                Some(Err(error)) => cx.diagnostics.push(Diagnostic::alert(error.to_string())),
                None => cx.diagnostics.push(Diagnostic::alert(format!("unknown certificate {name}."))),
            }
        }
    }

    /// The `bind` lines of a proxy. The addresses of one line share what is made of it.
    fn binds(&mut self, cx: &mut Cx<'_>, b: &mut Building, readable: bool) {
        let own_list = self.frontend_list(cx, b);
        let mut binds = std::mem::take(&mut b.p.binds);
        for line in binds.chunk_by_mut(|x, y| x.line == y.line && x.file == y.file) {
            let Some(mut tls) = line[0].tls.take() else { continue };
            let shown = Arc::clone(&line[0].shown);
            let title = format!("'bind {shown}' in section '{}' : ", b.p.kind.keyword());
            let files_read = self.files_of(cx, &tls.files, |message| format!("{title}{message}"));
            let sources = self.sources(cx, &tls, &title, own_list.as_deref());
            let tickets = self.tickets(cx, &tls, &title);
            let generator = self.generator(cx, &b.p.name, &tls, (&line[0].file, line[0].line));
            if let (true, true, Some(sources), Some(tickets), Some(generator), true) =
                (readable, files_read, sources, tickets, generator, tls.ssl)
            {
                let place = format!("for bind '{shown}' at [{}:{}]", line[0].file, line[0].line);
                tls.line = self.bind(
                    cx,
                    b,
                    (&tls.words, &tls.below),
                    line[0].proto.as_deref(),
                    sources,
                    (tickets, generator),
                    &place,
                    (&line[0].file, line[0].line),
                );
            }
            for bind in line {
                bind.tls = Some(tls.clone());
            }
        }
        b.p.binds = binds;
    }

    /// What a line serves. `place` goes into messages.
    #[allow(clippy::too_many_arguments, reason = "it is one step of the line's")]
    fn bind(
        &mut self,
        cx: &mut Cx<'_>,
        b: &Building,
        (words, below): (&Words, &Words),
        proto: Option<&str>,
        sources: Vec<Source>,
        (tickets, generator): (Option<Arc<TicketKeys>>, Option<Arc<Generator>>),
        place: &str,
        at: (&str, u32),
    ) -> Option<Arc<thalweg_tls::live::BindLine>> {
        let proxy = &b.p.name;
        let complain = |cx: &mut Cx<'_>, severity: Severity, message: String| {
            let message = format!("Proxy '{proxy}': {message}");
            cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, None, message));
        };
        let mut own = words.over(below);
        if !self.live.names_any(&sources) {
            let (severity, message) = match own.strict_sni {
                Some(true) => (
                    Severity::Warning,
                    format!("no SSL certificate specified {place}, ssl connections will fail (use 'crt')."),
                ),
                _ => (Severity::Alert, format!("no SSL certificate specified {place} (use 'crt').")),
            };
            complain(cx, severity, message);
            if severity == Severity::Alert {
                return None;
            }
        }
        if b.p.mode == Mode::Http && own.alpn.is_none() {
            // The protocol that the line names, or both.
            own.alpn = Some(
                match proto {
                    Some("h1") => "http/1.1",
                    Some("h2") => "h2",
                    _ => "h2,http/1.1",
                }
                .to_owned(),
            );
        }
        match self.live.add_bind(&format!("{proxy}/{}:{}", at.0, at.1), own, sources, tickets, generator) {
            Ok((line, warnings)) => {
                for warning in warnings {
                    complain(cx, Severity::Warning, placed(&warning, place));
                }
                if let Some(notice) = self.live.served_out_of_force(&line) {
                    let severity = cx.config.global.tls.load_errors.of_one_out_of_force();
                    complain(cx, severity, placed(&notice, place));
                }
                Some(line)
            }
            Err(error) => {
                complain(cx, Severity::Alert, placed(&error, place));
                None
            }
        }
    }

    /// The certificates that a line names; None when one cannot be loaded.
    fn sources(
        &mut self,
        cx: &mut Cx<'_>,
        tls: &BindTls,
        title: &str,
        own_list: Option<&str>,
    ) -> Option<Vec<Source>> {
        let mut sources = Vec::new();
        let mut complete = true;
        for source in &tls.sources {
            let mut left_out = Vec::new();
            let found = match source.kind {
                SourceKind::List => self.list(cx, &source.path, source.span, &mut left_out),
                SourceKind::Certificate | SourceKind::Default => {
                    self.certificate(&source.path, source.kind == SourceKind::Default, &mut left_out)
                }
            };
            let worded = |error: String| match source.kind {
                SourceKind::List if !error.starts_with(CONFLICT) => format!("{title}'crt-list' : {error}"),
                _ => format!("{title}{error}"),
            };
            complete &= left_out.is_empty() || leaves_out(cx);
            left_out.into_iter().for_each(|error| spoiled(cx, source.span, worded(error)));
            match found {
                Ok(found) => sources.extend(found),
                Err(error) if error.starts_with(CONFLICT) => {
                    complete = false;
                    cx.diagnostics.push(Diagnostic::alert_at(source.span, worded(error)));
                }
                Err(error) => {
                    complete &= leaves_out(cx);
                    spoiled(cx, source.span, worded(error));
                }
            }
        }
        if tls.ssl {
            sources.extend(own_list.map(|name| Source::List(name.to_owned())));
        }
        complete.then_some(sources)
    }

    /// What `crt` names: one file, a bundle, or a directory.
    fn certificate(
        &mut self,
        path: &str,
        is_default: bool,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Source>, String> {
        let loaded = self.live.load_as(&self.files, path, &Keywords::default(), left_out);
        let names = loaded.map_err(|error| match error {
            Refused::Unreadable(why) => why,
            Refused::Defined(name, why) => format!(
                "{CONFLICT}Can't load '{name}', is already defined with incompatible parameters:\n{why}"
            ),
        })?;
        if self.files.0.is_dir(path).unwrap_or(false) {
            if self.lists.insert(path.to_owned()) {
                let line = |(index, path): (usize, String)| crt_list::Line {
                    parts: Parts { certificate: path.clone(), ..Parts::default() },
                    path,
                    number: index + 1,
                    ..crt_list::Line::default()
                };
                self.live.add_list(path, names.into_iter().enumerate().map(line).collect());
            }
            return Ok(vec![Source::List(path.to_owned())]);
        }
        Ok(names.into_iter().map(|name| Source::Certificate(name, is_default)).collect())
    }

    /// A `crt-list`.
    fn list(
        &mut self,
        cx: &mut Cx<'_>,
        path: &str,
        span: Span,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Source>, String> {
        let source = vec![Source::List(path.to_owned())];
        if self.lists.contains(path) {
            return Ok(source);
        }
        let bytes = self
            .files
            .read(path)
            .map_err(|error| format!("cannot open file '{path}' : {}", reason(&error)))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("'{path}' is not valid UTF-8"))?;
        let lines = crt_list::parse(path, &text).map_err(|error| error.to_string())?;
        let mut loaded = Vec::new();
        for line in lines {
            let at = line.number;
            match self.list_line(cx, path, line, span, left_out) {
                Ok(lines) => loaded.extend(lines),
                Err(why) if why.starts_with(CONFLICT) => return Err(why),
                Err(why) => left_out.push(format!("parsing [{path}:{at}]: {why}")),
            }
        }
        self.lists.insert(path.to_owned());
        self.live.add_list(path, loaded);
        Ok(source)
    }

    /// Loads what a line of a list names. A bundle makes a line of each of its members.
    fn list_line(
        &mut self,
        cx: &mut Cx<'_>,
        list: &str,
        mut line: crt_list::Line,
        span: Span,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<crt_list::Line>, String> {
        let tls = &cx.config.global.tls;
        let (ca_base, crt_base, key_base) = (tls.ca_base.clone(), tls.crt_base.clone(), tls.key_base.clone());
        let ca = |path: &mut Option<String>| {
            if let Some(path) = path {
                *path = below(cx, ca_base.as_deref(), path, span);
            }
        };
        let words = &mut line.words;
        ca(&mut words.ca_file);
        ca(&mut words.ca_verify_file);
        ca(&mut words.crl_file);
        for path in [&words.ca_file, &words.ca_verify_file].into_iter().flatten() {
            self.trust(path).map_err(|_| format!("'ca-file' : unable to load {path}"))?;
        }
        if let Some(path) = &words.crl_file {
            self.crls(path).map_err(|_| format!("'crl-file' : unable to load {path}"))?;
        }
        let path = below(cx, crt_base.as_deref(), &line.path, span);
        let keywords = Keywords::of(&line.parts, line.ocsp_update, line.jwt);
        let number = line.number;
        let defined = |name: &str, why: &str| {
            format!(
                "{CONFLICT}'crt-list' : '{name}' in crt-list '{list}' line {number}, is already defined with \
                 incompatible parameters:\n{why}"
            )
        };
        self.live.may_declare(&path, &keywords).map_err(|why| defined(&path, &why))?;
        let names = if self.live.has_certificate(&path) {
            vec![path]
        } else if keywords.names_files() {
            let parts = Parts {
                certificate: path.clone(),
                key: line.parts.key.as_ref().map(|key| below(cx, key_base.as_deref(), key, span)),
                ..line.parts.clone()
            };
            let loader = CertificateLoader { files: &self.files, options: &self.load };
            let credential = loader.load_parts(&path, &parts).map_err(|error| error.to_string())?;
            self.live.add_credential(Arc::new(credential));
            self.live.declare(&path, keywords, false);
            vec![path]
        } else {
            self.live.load_as(&self.files, &path, &keywords, left_out).map_err(|error| match error {
                Refused::Unreadable(why) => why,
                Refused::Defined(name, why) => defined(&name, &why),
            })?
        };
        Ok(names.into_iter().map(|path| crt_list::Line { path, ..line.clone() }).collect())
    }

    /// The list of a frontend's `ssl-f-use` lines.
    fn frontend_list(&mut self, cx: &mut Cx<'_>, b: &mut Building) -> Option<String> {
        let lines = std::mem::take(&mut b.certificates);
        if lines.is_empty() {
            return None;
        }
        let name = format!("@{}", b.p.name);
        let mut loaded = Vec::new();
        for FrontendCertificate { line, span } in lines {
            let mut left_out = Vec::new();
            match self.list_line(cx, &name, line, span, &mut left_out) {
                Ok(lines) => loaded.extend(lines),
                Err(error) => left_out.push(error),
            }
            left_out.into_iter().for_each(|error| spoiled(cx, span, error));
        }
        self.live.add_list(&name, loaded);
        Some(name)
    }

    /// Authorities and lists that a line's words name. False when one cannot be read.
    fn files_of(&mut self, cx: &mut Cx<'_>, files: &[NamedFile], message: impl Fn(String) -> String) -> bool {
        let mut complete = true;
        for file in files {
            let read = match file.word {
                "crl-file" => self.crls(&file.path),
                "crt" => continue,
                _ => self.trust(&file.path),
            };
            if let Err(why) = read {
                complete = false;
                let text = message(format!("'{}' : unable to load {}", file.word, file.path));
                cx.diagnostics.push(Diagnostic::alert_at(file.span, text).note(why));
            }
        }
        complete
    }

    /// Reads a `ca-file`: one file, all files of a directory, or what the system trusts.
    fn trust(&mut self, path: &str) -> Result<(), String> {
        if self.live.has_trust(path) {
            return Ok(());
        }
        if !self.read.insert((false, Arc::from(path))) {
            return Err(format!("'{path}' cannot be read"));
        }
        let store = if path == "@system-ca" {
            self.system_trust()?
        } else if self.files.0.is_dir(path).unwrap_or(false) {
            self.directory_trust(path)?
        } else {
            let bytes = self.files.read(path).map_err(|error| format!("{path}: {}", reason(&error)))?;
            TrustStore::new(
                read_trust(&bytes)
                    .ok_or_else(|| format!("{path} has no certificate in PEM that can be read"))?,
            )
        };
        self.live.add_trust(path, store);
        Ok(())
    }

    fn system_trust(&self) -> Result<TrustStore, String> {
        let Some(path) = SYSTEM_AUTHORITIES.into_iter().find(|path| self.files.exists(path)) else {
            return Err(format!("none of {} is there", SYSTEM_AUTHORITIES.join(", ")));
        };
        let bytes = self.files.read(path).map_err(|error| format!("{path}: {}", reason(&error)))?;
        // Systems trust many; one that we cannot read is not trusted, which is no reason to trust none.
        let blocks = pem::blocks(&bytes).map_err(|error| format!("{path}: {error}"))?;
        let certificates =
            blocks.iter().filter_map(|block| thalweg_tls::x509::Certificate::parse(&block.der).ok());
        Ok(TrustStore::new(certificates.map(Arc::new)))
    }

    fn directory_trust(&self, path: &str) -> Result<TrustStore, String> {
        let mut names = self.files.list(path).map_err(|error| format!("{path}: {}", reason(&error)))?;
        names.sort_unstable();
        let mut store = TrustStore::default();
        for name in names {
            let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
            if name.starts_with('.') || !matches!(suffix, "pem" | "crt" | "cer" | "crl") {
                continue;
            }
            let path = format!("{path}/{name}");
            let bytes = self.files.read(&path).map_err(|error| format!("{path}: {}", reason(&error)))?;
            read_trust(&bytes).into_iter().flatten().for_each(|one| store.add(one));
        }
        Ok(store)
    }

    /// Reads a `crl-file`, which may be a directory.
    fn crls(&mut self, path: &str) -> Result<(), String> {
        if self.live.has_crls(path) {
            return Ok(());
        }
        if !self.read.insert((true, Arc::from(path))) {
            return Err(format!("'{path}' cannot be read"));
        }
        let bytes = self.files.read(path).map_err(|error| format!("{path}: {}", reason(&error)))?;
        let crls: Crls = read_crls(&bytes)
            .ok_or_else(|| format!("{path} has no revocation list in PEM that can be read"))?;
        self.live.add_crls(path, crls);
        Ok(())
    }

    /// What makes certificates for a line, if anything does; None when it cannot.
    fn generator(
        &mut self,
        cx: &mut Cx<'_>,
        proxy: &str,
        tls: &BindTls,
        (file, line): (&str, u32),
    ) -> Option<Option<Arc<Generator>>> {
        if !tls.generates || !tls.ssl {
            return Some(None);
        }
        let mut wrong =
            |what: String| cx.diagnostics.push(Diagnostic::alert(format!("Proxy '{proxy}': {what}")));
        let Some(path) = &tls.sign_file else {
            wrong(format!(
                "cannot enable certificate generation, no CA certificate File configured at [{file}:{line}]."
            ));
            return None;
        };
        let read = self.files.read(path).map_err(|error| reason(&error));
        let passphrase = tls.sign_pass.as_deref();
        match read.and_then(|text| Generator::new(&text, passphrase, self.made_max)) {
            Ok(generator) => Some(Some(Arc::new(generator))),
            Err(why) => {
                wrong(format!("Failed to read CA certificate file '{path}' at [{file}:{line}]. {why}."));
                None
            }
        }
    }

    /// The keys of `tls-ticket-keys`; None when they cannot be read.
    fn tickets(&mut self, cx: &mut Cx<'_>, tls: &BindTls, title: &str) -> Option<Option<Arc<TicketKeys>>> {
        let Some((path, span)) = &tls.ticket_keys else { return Some(None) };
        if let Some(known) = self.live.ticket_keys(path) {
            return Some(Some(known));
        }
        let read = || {
            let bytes = self.files.read(path).map_err(|error| {
                (format!("'{path}' : unable to load ssl tickets keys file"), reason(&error))
            })?;
            let text = String::from_utf8_lossy(&bytes);
            TicketKeys::from_file(&text, self.clock.clone()).map_err(|error| {
                (format!("'{path}' : unable to load ssl tickets keys file"), error.to_string())
            })
        };
        match read() {
            Ok(keys) => {
                let keys = Arc::new(keys);
                self.live.add_ticket_keys(path, keys.clone());
                Some(Some(keys))
            }
            Err((message, why)) => {
                cx.diagnostics.push(Diagnostic::alert_at(*span, format!("{title}{message}")).note(why));
                None
            }
        }
    }

    fn servers(&mut self, cx: &mut Cx<'_>, b: &mut Building) {
        let mut servers = std::mem::take(&mut b.p.servers);
        let followed = cx.options.after.and_then(|after| after.config.find_proxy(b.p.id));
        for server in &mut servers {
            let Some(tls) = server.tls.clone().filter(|tls| tls.used) else { continue };
            let before = followed.and_then(|proxy| proxy.server(server.id)?.tls.as_ref()?.line.as_deref());
            match self.server(cx, &b.p.name, server, (&tls, before)) {
                Ok(line) => {
                    if let Some(tls) = &mut server.tls {
                        Arc::make_mut(tls).line = line;
                    }
                }
                Err(what) => {
                    let what = what.trim_end_matches('.');
                    let message = format!(
                        "[{}:{}] : 'server {}/{}' : {what}.",
                        server.file, server.line, b.p.name, server.name
                    );
                    cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
                }
            }
        }
        b.p.servers = servers;
    }

    fn server(
        &mut self,
        cx: &mut Cx<'_>,
        proxy: &str,
        server: &Server,
        (tls, before): (&ServerTls, Option<&ServerLine>),
    ) -> Result<Option<Arc<ServerLine>>, String> {
        let title = format!("'server {proxy}/{}' : ", server.name);
        let mut complete = true;
        for file in &tls.files {
            let read = match file.word {
                "crl-file" => self.crls(&file.path),
                "crt" => {
                    // Its errors are about the file and not about the line.
                    self.live.load(&self.files, &file.path)?;
                    continue;
                }
                _ => self.trust(&file.path),
            };
            if let Err(why) = read {
                complete = false;
                let text = format!("{title}'{}' : unable to load {}.", file.word, file.path);
                cx.diagnostics.push(Diagnostic::alert_at(file.span, text).lead(Lead::Located).note(why));
            }
        }
        if !complete {
            return Ok(None);
        }
        let global = &cx.config.global.tls;
        let words = tls.words.over(tls.below.as_ref().unwrap_or(&global.server));
        let (mut profile, warnings) =
            words.profile(&*self.live, global.verify_servers).map_err(|error| error.to_string())?;
        profile.keep_secrets = global.keylog;
        let notice = words.certificate.as_deref().and_then(|name| self.live.out_of_force(name));
        let warnings = warnings.into_iter().map(|text| (Severity::Warning, text));
        for (severity, text) in
            warnings.chain(notice.map(|text| (global.load_errors.of_one_out_of_force(), text)))
        {
            let message = format!("[{}:{}] : {title}{text}", server.file, server.line);
            cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, None, message));
        }
        let uses = ServerUses {
            certificate: words.certificate.clone(),
            ca_file: words.ca_file.clone(),
            crl_file: words.crl_file.clone(),
        };
        self.live.add_server(uses, profile, tls.ssl, before).map(Some)
    }
}

/// A message about a line with the line's place after its first part.
fn placed(message: &str, place: &str) -> String {
    match message.split_once(": ") {
        Some((first, rest)) => format!("{first} {place}: {}.", rest.trim_end_matches('.')),
        None => format!("{message} {place}."),
    }
}

/// `issuers-chain-path`: a file with a chain, or a directory of them.
fn issuers(cx: &mut Cx<'_>, files: &LoaderFiles<'_>, path: &str, span: Span) {
    let paths = match files.list(path) {
        Ok(mut names) => {
            names.sort_unstable();
            let path = path.trim_end_matches('/');
            names.iter().map(|name| format!("{path}/{name}")).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => vec![path.to_owned()],
        Err(error) => {
            let message = "global statement 'issuers-chain-path' expects a directory path as an argument.";
            cx.diagnostics
                .push(Diagnostic::alert_at(span, message).note(format!("{path}: {}", reason(&error))));
            return;
        }
    };
    for path in paths {
        match files.read(&path).ok().and_then(|bytes| read_trust(&bytes)) {
            Some(chain) => {
                let path = cx.name(&path);
                cx.config.global.tls.load.issuers.push(ChainFile { path, chain });
            }
            None => {
                let message = format!("'issuers-chain-path' : no chain of certificates in '{path}'");
                cx.diagnostics.push(Diagnostic::warning_at(span, message));
            }
        }
    }
}
