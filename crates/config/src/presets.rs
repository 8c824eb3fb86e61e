//! Presets of servers: `default-server`, with a name and without, and what `from` takes settings from.

use std::sync::Arc;

use thalweg_dns::{Families, Preference};
use thalweg_syntax::{Diagnostic, Line, Span};

use crate::build::{Building, Cx, ProxyHeaderDraft, ServerDraft};
use crate::keyword::fail;
use crate::model::{Config, Proxy, Server};

/// The presets of one proxy.
#[derive(Clone, Debug)]
pub(crate) struct Presets {
    /// What servers start with whose line does not say otherwise.
    pub unnamed: Arc<ServerDraft>,
    /// A line said something about that.
    pub is_set: bool,
    /// `default-server name <name>`, in the order of the names.
    pub named: Vec<Named>,
}

/// A preset with a name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    name: Arc<str>,
    /// The first of its lines.
    line: u32,
    draft: Arc<ServerDraft>,
}

impl Presets {
    /// Those of a section that says nothing and inherits nothing.
    pub fn none() -> Presets {
        Presets { unnamed: Arc::new(nothing()), is_set: false, named: Vec::new() }
    }

    /// Those of a section that starts with the presets of this one: names are not inherited.
    pub fn heir(&self) -> Presets {
        Presets { unnamed: Arc::clone(&self.unnamed), is_set: self.is_set, named: Vec::new() }
    }

    /// What servers start with that take their settings from the preset of that name.
    pub fn named(&self, name: &str) -> Option<&Arc<ServerDraft>> {
        self.find(name).map(|named| &named.draft)
    }

    /// Where the preset of that name is declared.
    pub fn line_of(&self, name: &str) -> Option<u32> {
        self.find(name).map(|named| named.line)
    }

    fn find(&self, name: &str) -> Option<&Named> {
        self.named.iter().find(|named| &*named.name == name)
    }

    /// What a line said about the preset of that name.
    pub fn set(&mut self, name: Arc<str>, line: u32, draft: ServerDraft) {
        let draft = Arc::new(draft);
        match self.named.binary_search_by(|named| named.name.cmp(&name)) {
            Ok(at) => self.named[at].draft = draft,
            Err(at) => self.named.insert(at, Named { name, line, draft }),
        }
    }
}

impl Proxy {
    /// Whether servers have presets without a name here, and the names of the others.
    pub fn server_presets(&self) -> Option<(bool, impl Iterator<Item = &str>)> {
        let presets = self.rare().presets.as_ref()?;
        Some((presets.is_set, presets.named.iter().map(|named| &*named.name)))
    }
}

/// What servers start with where no preset has a say.
pub(crate) fn nothing() -> ServerDraft {
    ServerDraft {
        server: crate::proxy::fresh_server(),
        check: false,
        datagram: false,
        backend: Arc::from(""),
        init_addr: Arc::from([]),
        proxy_header: ProxyHeaderDraft::default(),
        track: None,
        healthcheck: None,
        proxy_fields: Arc::default(),
        pool_name: None,
        resolvers: None,
        preference: Preference {
            families: Families::V6First,
            networks: Vec::new(),
            duplicates: false,
            ignore_weight: false,
        },
    }
}

/// What stands in front of the options of a server, and nowhere among them.
pub(crate) const WORDS: [&str; 2] = ["from", "name"];

/// Reads `from <origin>` at `at`, if it is there. Gives what the line starts with, and where it goes on.
pub(crate) fn origin(
    cx: &Cx<'_>,
    b: &Building,
    line: &Line,
    at: usize,
) -> Result<Option<(ServerDraft, usize)>, Box<Diagnostic>> {
    if line.text(at) != "from" {
        return Ok(None);
    }
    let text = line.text(at + 1);
    let draft = match (text, text.strip_prefix("be:"), text.strip_prefix("srv:")) {
        ("", ..) => return Err(fail(line, at + 1, "from: missing value.")),
        ("none", ..) => Ok(nothing()),
        (_, Some(name), _) => {
            let holder = if name.is_empty() { own(cx, b) } else { backend(cx, b, name) };
            let missing = || format!("from: unknown backend instance '{name}'.");
            holder.map(|holder| holder.unnamed()).ok_or_else(missing)
        }
        (_, _, Some(name)) => server(cx, b, name, line.span_at(at + 1)),
        _ => Err(format!("invalid '{text}' value for 'from' keyword.")),
    };
    let draft = draft.map_err(|message| fail(line, at + 1, message))?;
    if line.text(at + 2) == "from" {
        return Err(fail(line, at + 2, "'from' keyword can only be specified once."));
    }
    Ok(Some((draft, at + 2)))
}

/// A backend that settings are taken from: one of the files that are being read, or of the configuration in force.
#[derive(Clone, Copy)]
enum Holder<'a> {
    Read(&'a Building),
    InForce(&'a Config, &'a Proxy),
}

/// The backend that a line belongs to.
fn own<'a>(cx: &Cx<'a>, b: &'a Building) -> Option<Holder<'a>> {
    match cx.in_force {
        None => Some(Holder::Read(b)),
        Some(config) => Some(Holder::InForce(config, config.proxy(b.p.id))),
    }
}

/// The backend of that name.
fn backend<'a>(cx: &'a Cx<'a>, b: &'a Building, name: &str) -> Option<Holder<'a>> {
    let is_it = |proxy: &Proxy| proxy.is_be() && &*proxy.name == name;
    if is_it(&b.p) {
        return own(cx, b);
    }
    match cx.in_force {
        None => cx.proxies.iter().find(|other| is_it(&other.p)).map(Holder::Read),
        Some(config) => {
            let mut proxies = config.proxies.iter();
            proxies.find(|proxy| is_it(proxy)).map(|proxy| Holder::InForce(config, proxy))
        }
    }
}

/// `[<backend>/]<server>`: a named preset, or a server.
fn server(cx: &Cx<'_>, b: &Building, text: &str, span: Span) -> Result<ServerDraft, String> {
    let (holder, name) = match text.split_once('/') {
        None => (own(cx, b), text),
        Some((other, name)) => (backend(cx, b, other), name),
    };
    let title = text.split_once('/').map_or(&*b.p.name, |(other, _)| other);
    let holder = holder.ok_or_else(|| format!("from: unknown backend '{title}'."))?;
    holder.draft(name, span).ok_or_else(|| format!("from: unknown server '{name}' in backend '{title}'."))
}

impl Holder<'_> {
    fn unnamed(self) -> ServerDraft {
        match self {
            Holder::Read(b) => ServerDraft::clone(&b.presets.unnamed),
            Holder::InForce(_, proxy) => proxy
                .rare()
                .presets
                .as_ref()
                .map_or_else(nothing, |presets| ServerDraft::clone(&presets.unnamed)),
        }
    }

    fn draft(self, name: &str, span: Span) -> Option<ServerDraft> {
        let (presets, proxy) = match self {
            Holder::Read(b) => (Some(&b.presets), &b.p),
            Holder::InForce(_, proxy) => (proxy.rare().presets.as_ref(), proxy),
        };
        if let Some(draft) = presets.and_then(|presets| presets.named(name)) {
            return Some(ServerDraft::clone(draft));
        }
        let at = proxy.servers.iter().position(|server| &*server.name == name)?;
        Some(self.settings_of(proxy, at, span))
    }

    /// What the line of a server said, as far as it is known: all but parameters of health checks that it does not have, and how
    /// its address is found at the start if it has no name.
    /// They are said again at `span`.
    fn settings_of(self, proxy: &Proxy, at: usize, span: Span) -> ServerDraft {
        let mut server = Server::clone(&proxy.servers[at]);
        let fresh = crate::proxy::fresh_server();
        server.uid = fresh.uid;
        server.uid_given = fresh.uid_given;
        server.is_referenced = fresh.is_referenced;
        server.is_dynamic = fresh.is_dynamic;
        server.revision = fresh.revision;
        if std::mem::take(&mut server.cookie_is_dynamic) {
            server.cookie = None;
        }
        let tracked = server.rare().track;
        if let Some(rare) = server.extra.as_mut().map(Arc::make_mut) {
            rare.guid = None;
            rare.fqdn = None;
            rare.resolution = None;
            rare.track = None;
            rare.added = None;
        }
        let mut draft = ServerDraft {
            check: server.check.is_some(),
            datagram: server.rare().datagram,
            proxy_header: ProxyHeaderDraft::of(&server.send_proxy),
            server,
            ..nothing()
        };
        match self {
            Holder::Read(b) => {
                let of = |index: &usize| *index == at;
                draft.track = b.tracks.iter().find(|t| of(&t.0)).map(|t| (Arc::clone(&t.1), span));
                draft.healthcheck =
                    b.healthchecks.iter().find(|h| of(&h.0)).map(|h| (Arc::clone(&h.1), span));
                draft.pool_name = b.pool_names.iter().find(|n| of(&n.0)).map(|n| (Arc::clone(&n.1), span));
                if let Some((_, fields)) = b.proxy_fields.iter().find(|fields| of(&fields.0)) {
                    draft.proxy_fields = Arc::clone(fields);
                }
                if let Some(named) = b.named.iter().find(|named| of(&named.server)) {
                    draft.init_addr = Arc::clone(&named.methods);
                }
                if let Some(resolution) = b.resolutions.iter().find(|resolution| of(&resolution.server)) {
                    draft.resolvers = Some((Arc::clone(&resolution.section), span));
                    draft.preference = resolution.preference.clone();
                }
            }
            Holder::InForce(config, _) => {
                let tracked = tracked.and_then(|(proxy, server)| {
                    let proxy = config.proxy(proxy);
                    let server = proxy.servers.iter().find(|other| other.id == server)?;
                    Some(format!("{}/{}", proxy.name, server.name).into())
                });
                draft.track = tracked.map(|name| (name, span));
            }
        }
        draft
    }
}
