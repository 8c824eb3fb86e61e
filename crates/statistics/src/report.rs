//! `show stat` and its twins on the statistics page: which rows are shown, in which order, and in which form. Rows are
//! made one by one, so that whoever sends them gives others their turn between.

use std::sync::Arc;

use thalweg_config::model::Proxy;
use thalweg_proxy::Instance;

use crate::rows;
use crate::stat::{self, Row, RowKind, csv_row, header, json_row, typed_row};

/// Which rows are shown.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The number of a proxy, -1 for all.
    pub iid: i64,
    /// Bits: 1 frontends, 2 backends, 4 servers, 8 listeners; -1 for all.
    pub kinds: i64,
    /// The number of a server or listener, -1 for all.
    pub sid: i64,
    /// Servers only that are up.
    pub up: bool,
    /// No servers in maintenance.
    pub no_maint: bool,
    /// Proxies only of these names; all when it is empty.
    pub names: Vec<Arc<str>>,
    /// Proxies only with this in their name, in either case; all when it is empty.
    pub part: String,
}

impl Default for Filter {
    fn default() -> Filter {
        let (names, part) = (Vec::new(), String::new());
        Filter { iid: -1, kinds: -1, sid: -1, up: false, no_maint: false, names, part }
    }
}

impl Filter {
    fn wants(&self, kind: RowKind) -> bool {
        self.kinds & (1 << kind as u32) != 0
    }

    fn wants_number(&self, sid: u32) -> bool {
        self.sid < 0 || self.sid == i64::from(sid)
    }

    /// Whether rows of this proxy may be shown.
    pub fn wants_proxy(&self, proxy: &Proxy) -> bool {
        // What is disabled in the configuration has no figures.
        !proxy.disabled
            && (self.iid == -1 || self.iid == i64::from(proxy.uid))
            && (self.names.is_empty() || self.names.contains(&proxy.name))
            && contains_ignoring_case(&proxy.name, &self.part)
    }

    /// Whether the row of this part of a proxy is shown.
    fn wants_part(&self, instance: &Instance, proxy: &Proxy, part: Part) -> bool {
        match part {
            Part::Frontend => proxy.is_fe() && self.wants(RowKind::Frontend),
            Part::Listener(at) => {
                proxy.is_fe() && self.wants(RowKind::Listener) && self.wants_number(proxy.binds[at].uid)
            }
            Part::Server(at) => {
                let server = &proxy.servers[at];
                let backend = &instance.backends[proxy.id.0 as usize];
                let hidden = (self.up && !backend.is_up(server.id))
                    || (self.no_maint && backend.standing(server.id).in_maintenance());
                proxy.is_be() && self.wants(RowKind::Server) && self.wants_number(server.uid) && !hidden
            }
            Part::Backend => proxy.is_be() && self.wants(RowKind::Backend),
        }
    }
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    part.is_empty() || text.as_bytes().windows(part.len()).any(|at| at.eq_ignore_ascii_case(part.as_bytes()))
}

/// What of a proxy a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part {
    Frontend,
    /// The position of a `bind`.
    Listener(usize),
    /// The position of a server.
    Server(usize),
    Backend,
}

/// Whose row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The position of the proxy.
    pub proxy: usize,
    /// What of it.
    pub part: Part,
}

impl Place {
    /// The row, as it is now.
    pub fn row(self, instance: &Instance) -> Row {
        let proxy = &instance.config.proxies[self.proxy];
        match self.part {
            Part::Frontend => rows::frontend(instance, proxy),
            Part::Listener(at) => rows::listener(instance, proxy, at),
            Part::Server(at) => rows::server(instance, proxy, &proxy.servers[at]),
            Part::Backend => rows::backend(instance, proxy),
        }
    }

    /// How the row is called: `FRONTEND`, `BACKEND`, or the name of a listener or server.
    pub fn name(self, instance: &Instance) -> String {
        let proxy = &instance.config.proxies[self.proxy];
        match self.part {
            Part::Frontend => "FRONTEND".to_owned(),
            Part::Listener(at) => rows::listener_name(&proxy.binds[at]),
            Part::Server(at) => {
                let backend = &instance.backends[self.proxy];
                backend.identity(&proxy.servers[at]).name.to_string()
            }
            Part::Backend => "BACKEND".to_owned(),
        }
    }

    /// What it is about.
    pub fn kind(self) -> RowKind {
        match self.part {
            Part::Frontend => RowKind::Frontend,
            Part::Listener(_) => RowKind::Listener,
            Part::Server(_) => RowKind::Server,
            Part::Backend => RowKind::Backend,
        }
    }

    /// The numbers of its proxy, of its kind, and its own.
    pub fn id(self, instance: &Instance) -> (u32, u32, u32) {
        let proxy = &instance.config.proxies[self.proxy];
        let own = match self.part {
            Part::Frontend | Part::Backend => 0,
            Part::Listener(at) => proxy.binds[at].uid,
            Part::Server(at) => proxy.servers[at].uid,
        };
        (proxy.uid, self.kind() as u32, own)
    }

    /// Whether requests are what its rate and total are about, and not sessions.
    pub fn counts_requests(self, instance: &Instance) -> bool {
        self.kind() == RowKind::Frontend && stat::is_http(&instance.config.proxies[self.proxy])
    }

    /// The place after this one, whether it is shown or not.
    fn next(self, proxy: &Proxy) -> Place {
        let listener = |at| {
            if at < proxy.binds.len() && proxy.opts.socket_stats { Some(Part::Listener(at)) } else { None }
        };
        let server = |at| if at < proxy.servers.len() { Part::Server(at) } else { Part::Backend };
        let part = match self.part {
            Part::Frontend => listener(0).unwrap_or_else(|| server(0)),
            Part::Listener(at) => listener(at + 1).unwrap_or_else(|| server(0)),
            Part::Server(at) => server(at + 1),
            Part::Backend => return Place { proxy: self.proxy + 1, part: Part::Frontend },
        };
        Place { proxy: self.proxy, part }
    }
}

/// What is at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Step {
    Shown(Place),
    Hidden,
    End,
}

/// A walk over the rows that a filter wants: of each proxy its frontend, listeners, servers and backend.
#[derive(Clone, Debug)]
pub struct Walk {
    /// What it stops at.
    pub filter: Filter,
    next: Place,
}

impl Walk {
    /// From the first proxy on.
    pub fn new(filter: Filter) -> Walk {
        Walk { filter, next: Place { proxy: 0, part: Part::Frontend } }
    }

    /// The next place whose row is shown.
    pub fn next(&mut self, instance: &Instance) -> Option<Place> {
        loop {
            match self.step(instance) {
                Step::Shown(place) => return Some(place),
                Step::Hidden => {}
                Step::End => return None,
            }
        }
    }

    /// Looks at one place. There may be very many that are not shown.
    pub fn step(&mut self, instance: &Instance) -> Step {
        let at = self.next;
        let Some(proxy) = instance.config.proxies.get(at.proxy) else { return Step::End };
        if at.part == Part::Frontend && !self.filter.wants_proxy(proxy) {
            self.next.proxy += 1;
            return Step::Hidden;
        }
        self.next = at.next(proxy);
        match self.filter.wants_part(instance, proxy, at.part) {
            true => Step::Shown(at),
            false => Step::Hidden,
        }
    }
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Form {
    #[default]
    Csv,
    Typed,
    Json,
}

/// A report that is being written.
pub struct Report {
    instance: Arc<Instance>,
    walk: Walk,
    form: Form,
    /// Typed values come with what they are.
    described: bool,
    /// Addresses, cookies and algorithms are shown.
    discloses: bool,
    rows: usize,
    begun: bool,
}

impl Report {
    /// The rows that the filter wants, in this form.
    pub fn new(instance: Arc<Instance>, filter: Filter, form: Form, discloses: bool) -> Report {
        let walk = Walk::new(filter);
        Report { instance, walk, form, described: false, discloses, rows: 0, begun: false }
    }

    /// Adds to each typed value what it is.
    pub fn describe(mut self) -> Report {
        self.described = true;
        self
    }

    /// Writes what comes next: a row at most. False when that was the end.
    pub fn step(&mut self, out: &mut String) -> bool {
        if !std::mem::replace(&mut self.begun, true) {
            match self.form {
                Form::Csv => header(out),
                Form::Typed => {}
                Form::Json => out.push('['),
            }
        }
        let place = match self.walk.step(&self.instance) {
            Step::Shown(place) => place,
            Step::Hidden => return true,
            Step::End => {
                if self.form == Form::Json {
                    out.push_str("]\n");
                }
                return false;
            }
        };
        let mut row = place.row(&self.instance);
        if place.part == Part::Backend && (self.walk.filter.up || self.walk.filter.no_maint) {
            row.tell_servers(&self.instance, &self.instance.config.proxies[place.proxy]);
        }
        if !self.discloses {
            row.withhold();
        }
        match self.form {
            Form::Csv => csv_row(out, &row),
            Form::Typed => typed_row(out, &row, self.described),
            Form::Json => {
                if self.rows > 0 {
                    out.push(',');
                }
                json_row(out, &row);
            }
        }
        self.rows += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names_are_found_in_either_case() {
        for (text, part, found) in
            [("Be", "", true), ("Be", "be", true), ("abc", "BC", true), ("a", "ab", false), ("", "a", false)]
        {
            assert_eq!(contains_ignoring_case(text, part), found, "{text} {part}");
        }
    }
}
