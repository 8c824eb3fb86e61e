//! What is wanted: the parameters of a request.

use crate::stat::RowKind;

/// What is wanted of all there is: the parameters of the request's query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub(super) process: bool,
    pub(super) kinds: [bool; 4],
    pub(super) tables: bool,
    pub(super) resolvers: bool,
    /// `extra-counters`
    pub(super) extra: bool,
    /// `latency`: how long streams took. Ours.
    pub(super) latency: bool,
    /// `no-maint`
    pub(super) no_maintenance: bool,
    /// `desc-labels`
    pub(super) describe: bool,
    /// Names after `metrics=`, and whether each is taken in rather than out.
    names: Vec<(Box<str>, bool)>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            process: true,
            kinds: [true; 4],
            tables: true,
            resolvers: true,
            extra: false,
            latency: false,
            no_maintenance: false,
            describe: false,
            names: Vec::new(),
        }
    }
}

impl Wanted {
    /// Reads a query, without its question mark. What it does not know is passed over, but for a scope that nobody has:
    /// `None`, a bad request.
    pub fn of(query: &[u8]) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        let mut scopes_given = false;
        for pair in query.split(|b| *b == b'&') {
            let (key, value) = match pair.iter().position(|b| *b == b'=') {
                Some(at) => (&pair[..at], Some(&pair[at + 1..])),
                None => (pair, None),
            };
            let has_value = value.is_some();
            let (key, value) = (decoded(key), decoded(value.unwrap_or(b"")));
            match &*key {
                // An empty one is a scope, of nothing; none at all is not.
                "scope" if !has_value => return None,
                "scope" => {
                    if !std::mem::replace(&mut scopes_given, true) || value.is_empty() {
                        (wanted.process, wanted.kinds) = (false, [false; 4]);
                        (wanted.tables, wanted.resolvers) = (false, false);
                    }
                    wanted.scope(&value)?;
                }
                "metrics" => {
                    for name in value.split(',').filter(|name| !name.is_empty()) {
                        let (name, taken) = match name.strip_prefix('-') {
                            Some(name) => (name, false),
                            None => (name, true),
                        };
                        wanted.names.push((name.into(), taken));
                    }
                }
                "extra-counters" => wanted.extra = true,
                "latency" => wanted.latency = true,
                "no-maint" => wanted.no_maintenance = true,
                "desc-labels" => wanted.describe = true,
                _ => {}
            }
        }
        Some(wanted)
    }

    fn scope(&mut self, name: &str) -> Option<()> {
        match name {
            "" => {}
            "*" => {
                (self.process, self.kinds) = (true, [true; 4]);
                (self.tables, self.resolvers) = (true, true);
            }
            "global" => self.process = true,
            "frontend" => self.kinds[RowKind::Frontend as usize] = true,
            "backend" => self.kinds[RowKind::Backend as usize] = true,
            "server" => self.kinds[RowKind::Server as usize] = true,
            "listener" => self.kinds[RowKind::Listener as usize] = true,
            "sticktable" => self.tables = true,
            "resolver" => self.resolvers = true,
            _ => return None,
        }
        Some(())
    }

    /// Whether a metric is wanted, by its whole name. The last word about it counts; without one, it is wanted unless
    /// others were asked for.
    pub(super) fn names(&self, name: &str) -> bool {
        match self.names.iter().rev().find(|(given, _)| **given == *name) {
            Some((_, taken)) => *taken,
            None => !self.names.iter().any(|(_, taken)| *taken),
        }
    }
}

/// Text of a query without its percent-encoding.
pub(crate) fn decoded(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|b| char::from(*b).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &tail[2..];
            }
            _ => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_say_what_is_wanted() {
        let kinds = |query: &str| Wanted::of(query.as_bytes()).map(|w| (w.process, w.kinds));
        assert_eq!(kinds(""), Some((true, [true; 4])));
        assert_eq!(kinds("scope=global"), Some((true, [false; 4])));
        assert_eq!(kinds("scope=*&scope="), Some((false, [false; 4])));
        assert_eq!(kinds("scope=&scope=glo%62al"), Some((true, [false; 4])));
        assert_eq!(kinds("scope=server&scope=frontend"), Some((false, [true, false, true, false])));
        assert_eq!(kinds("scope=foo"), None);
        assert_eq!(kinds("scope"), None);
        assert_eq!(kinds("scope=server&scope&no-maint"), None);
        let named = |query: &str, name: &str| Wanted::of(query.as_bytes()).is_some_and(|w| w.names(name));
        assert!(named("metrics=a,b", "b") && !named("metrics=a,b", "c"));
        assert!(named("metrics=-a", "b") && !named("metrics=-a", "a"));
        assert!(!named("metrics=a%2c-b", "b") && named("metrics=", "x"));
    }
}
