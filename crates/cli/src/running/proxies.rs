//! What of frontends and backends was changed at run time.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use thalweg_config::model::{Proxy, Server, Shared};
use thalweg_config::written::{CountingLine, Place, ServerWords, Words, words};
use thalweg_proxy::Instance;

use super::servers::{self, Looking};
use super::{Detail, Difference, How, Running, Section, Sections};

/// The servers of one backend by the place of the line that made them.
type ByPlace<'p> = HashMap<Place, Vec<&'p Shared<Server>>>;

impl Running {
    pub(super) fn look_at_proxies(
        &mut self,
        instance: &Instance,
        lines: &[CountingLine],
        sections: &Sections<'_>,
    ) {
        let mut known = HashSet::new();
        for proxy in &instance.config.proxies {
            let section = self.section_of(sections, proxy).filter(|_| !proxy.is_dynamic);
            known.extend(section.map(|section| section.place));
            let mut new_section = proxy.rare().added.as_deref().cloned().unwrap_or_default();
            self.look_at_proxy(instance, proxy, section, &mut new_section);
            let added = self.look_at_servers(instance, proxy, section);
            match section {
                Some(section) if !added.is_empty() => self.edits.append(section.place, added),
                Some(_) => {}
                None if !new_section.is_empty() => {
                    new_section.extend(added);
                    self.edits.end_with(new_section);
                }
                None => {}
            }
        }
        // What can be removed at run time, and is there no more.
        for line in lines.iter().filter(|line| line.opens && &*line.words[0] == "backend") {
            if let Some(place) = line.place.filter(|place| !known.contains(place)) {
                let name = line.words.get(1).map_or("", |name| name).to_owned();
                self.edits.remove(place);
                let (how, details) = (How::Removed, Vec::new());
                self.differences.push(Difference { how, kind: "backend", name, details });
            }
        }
    }

    /// What its own lines say; those of one that was added go to `new_section`.
    fn look_at_proxy(
        &mut self,
        instance: &Instance,
        proxy: &Proxy,
        section: Option<&Section<'_>>,
        new_section: &mut Vec<Words>,
    ) {
        let at = proxy.id.0 as usize;
        let mut details = Vec::new();
        if proxy.is_be() {
            let is_out = instance.unpublished[at].load(Ordering::Relaxed);
            if proxy.is_dynamic {
                new_section.extend(is_out.then(|| words(["be-unpublished"])));
            } else if is_out != proxy.unpublished {
                details.push(self.set_published(section, !is_out));
            }
            self.look_at_cookies(instance, proxy, section, &mut details);
        }
        if proxy.is_fe() {
            let limit = instance.frontend_gates[at].limit();
            if limit != proxy.maxconn {
                details.push(Detail::new("maxconn", proxy.maxconn, limit));
                if let Some(section) = section {
                    self.set_line(section, words(["maxconn", &limit.to_string()]));
                }
            }
            if instance.is_shut(proxy.id) && !proxy.disabled {
                let why = "'disabled' would be read at the start only";
                details.push(Detail::new("state", "open", "shut").unwritten(why));
            } else if instance.is_paused(proxy.id) {
                let why = "'disabled' would close its ports for good";
                details.push(Detail::new("state", "open", "paused").unwritten(why));
            }
        }
        let kind = proxy.kind.keyword();
        match proxy.is_dynamic {
            true => {
                let said = new_section.first().map_or_else(Vec::new, |line| line[2..].to_vec());
                let (how, name) = (How::Added(said), proxy.name.to_string());
                self.differences.push(Difference { how, kind, name, details });
            }
            false => self.changed(kind, &proxy.name, details),
        }
    }

    fn set_published(&mut self, section: Option<&Section<'_>>, published: bool) -> Detail {
        let word = |published: bool| if published { "yes" } else { "no" };
        let detail = Detail::new("published", word(!published), word(published));
        let Some(section) = section else { return detail };
        let places: Vec<Place> = section.lines_with("be-unpublished").filter_map(|line| line.place).collect();
        match (published, places.is_empty()) {
            (false, _) => self.set_line(section, words(["be-unpublished"])),
            (true, false) => places.into_iter().for_each(|place| self.edits.replace(place, Vec::new())),
            (true, true) => return detail.unwritten("its 'defaults' section says 'be-unpublished'"),
        }
        detail
    }

    fn look_at_cookies(
        &mut self,
        instance: &Instance,
        proxy: &Proxy,
        section: Option<&Section<'_>>,
        details: &mut Vec<Detail>,
    ) {
        let Some(backend) = instance.backends.get(proxy.id.0 as usize) else { return };
        let now = backend.dynamic_cookies();
        let file = proxy.cookie.as_ref().is_some_and(|cookie| cookie.dynamic);
        if now.enabled != file {
            let word = |on: bool| if on { "on" } else { "off" };
            let why = "it is a word of the 'cookie' line";
            details.push(Detail::new("dynamic-cookie", word(file), word(now.enabled)).unwritten(why));
        }
        if now.key != proxy.dynamic_cookie_key {
            // It is a secret: that it is another one is all that is shown.
            let shown = |key: Option<&str>| if key.is_some() { "set" } else { "" };
            let detail =
                Detail::new("dynamic-cookie-key", shown(proxy.dynamic_cookie_key.as_deref()), "changed");
            details.push(match (&now.key, section) {
                (Some(key), Some(section)) => {
                    self.set_line(section, words(["dynamic-cookie-key", key]));
                    detail
                }
                _ => detail.unwritten("no line takes it away"),
            });
        }
    }

    /// What is different about its servers. Gives the lines of those that were added.
    fn look_at_servers(
        &mut self,
        instance: &Instance,
        proxy: &Proxy,
        section: Option<&Section<'_>>,
    ) -> Vec<Words> {
        let Some(backend) = instance.backends.get(proxy.id.0 as usize) else { return Vec::new() };
        let looking = Looking::new(backend, proxy);
        let mut by_place = ByPlace::new();
        for server in proxy.servers.iter().filter(|server| !server.is_dynamic) {
            if let Some(place) = self.written.place(&server.file, server.line) {
                by_place.entry(place).or_default().push(server);
            }
        }
        for line in section.map_or(&[][..], |section| &section.lines[1..]) {
            let Some(place) = line.place else { continue };
            let there = by_place.get(&place).map_or(&[][..], |servers| servers);
            match &*line.words[0] {
                "server" => {
                    let Some(server) = there.first() else {
                        self.server_gone(proxy, &line.words[1], Vec::new());
                        self.edits.replace(place, Vec::new());
                        continue;
                    };
                    let (details, words) = looking.at(server, Some(ServerWords::new(line.words.clone())));
                    self.changed("server", &servers::name(proxy, server), details);
                    if let Some(words) = words.filter(|words| *words != line.words) {
                        self.edits.replace(place, vec![words]);
                    }
                }
                "server-template" => self.look_at_template(proxy, (place, line), there, &looking),
                _ => {}
            }
        }
        let added = proxy.servers.iter().filter(|server| server.is_dynamic);
        added
            .filter_map(|server| {
                let words = servers::words_of_added(proxy, server)?;
                let (mut details, words) = looking.at(server, Some(words));
                // What its line says needs no other one.
                details.retain(|detail| detail.unwritten.is_some());
                let words = words?;
                let how = How::Added(words[2..].to_vec());
                let name = servers::name(proxy, server);
                self.differences.push(Difference { how, kind: "server", name, details });
                Some(words)
            })
            .collect()
    }

    fn server_gone(&mut self, proxy: &Proxy, name: &str, details: Vec<Detail>) {
        let name = format!("{}/{name}", proxy.name);
        self.differences.push(Difference { how: How::Removed, kind: "server", name, details });
    }

    /// The servers of one line. If one of them is not as the line says, each gets a line of its own.
    fn look_at_template(
        &mut self,
        proxy: &Proxy,
        (place, line): (Place, &CountingLine),
        there: &[&Shared<Server>],
        looking: &Looking<'_>,
    ) {
        let mut lines = Vec::with_capacity(there.len());
        let (mut is_other, mut is_whole) = (false, true);
        for name in servers::names_of_template(&line.words) {
            let words = ServerWords::of_template(&line.words, &name);
            is_whole &= words.is_some();
            let Some(server) = there.iter().find(|server| *server.name == *name) else {
                let why = "one of the servers of a 'server-template' line that share what its name leads to";
                let detail = Detail::new("line", "server-template", "").unwritten(why);
                self.server_gone(proxy, &name, if words.is_none() { vec![detail] } else { Vec::new() });
                is_other = true;
                continue;
            };
            let before = words.clone().map(ServerWords::into_words);
            let (details, words) = looking.at(server, words);
            self.changed("server", &servers::name(proxy, server), details);
            is_other |= words != before;
            lines.extend(words);
        }
        if is_other && is_whole {
            self.edits.replace(place, lines);
        }
    }
}
