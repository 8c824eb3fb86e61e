//! Which certificate a client gets: by the name it asks for and by what it can verify, as the reference chooses.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bind::Served;
use crate::certificate::KeyKind;
use crate::generate::{Generator, Made};
use crate::hello::{ClientHello, list16};

/// The longest host name there is (RFC 1035), in bytes.
const NAME_MAX: usize = 253;

/// A filter of a `crt-list` line: a host name, `*.` and a domain, `*` for the rest, and `!` before either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// In small letters, with its star and without its exclamation mark.
    pub name: Vec<u8>,
    pub negative: bool,
}

impl Filter {
    pub fn parse(text: &str) -> Filter {
        let (name, negative) = match text.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        Filter { name: name.to_ascii_lowercase().into_bytes(), negative }
    }
}

/// The certificates of a `bind` line, by name. It is immutable: a change makes another.
#[derive(Debug, Default)]
pub struct Selection {
    served: Vec<Arc<Served>>,
    exact: HashMap<Box<[u8]>, Vec<Place>>,
    /// By what follows the star, with its dot.
    wildcard: HashMap<Box<[u8]>, Vec<Place>>,
    /// For clients whose name nobody has.
    defaults: Vec<u32>,
    strict: bool,
    /// `generate-certificates`
    made: Option<Made>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    served: u32,
    negative: bool,
}

/// One row of `show ssl sni`.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    pub filter: Vec<u8>,
    /// The names that a wildcard is not for.
    pub excluded: Vec<Vec<u8>>,
    pub served: &'a Arc<Served>,
}

impl Selection {
    /// An empty one. With `strict` (`strict-sni`) a client whose name nobody has gets none.
    pub fn new(strict: bool) -> Selection {
        Selection { strict, ..Selection::default() }
    }

    /// Clients whose name nobody has are shown a certificate that is made for them.
    pub fn generate(&mut self, generator: Arc<Generator>) {
        self.made = Some(Made::new(generator));
    }

    /// Adds a certificate for these names; without filters for those in the certificate itself.
    pub fn add(&mut self, served: Arc<Served>, filters: &[Filter]) {
        let number = self.served.len() as u32;
        let own;
        let filters = if filters.is_empty() {
            let names = served.credential.host_names();
            own = names.into_iter().map(|name| Filter { name, negative: false }).collect::<Vec<_>>();
            &own
        } else {
            filters
        };
        self.served.push(served);
        for filter in filters {
            let place = Place { served: number, negative: filter.negative };
            match filter.name.as_slice() {
                b"*" if filter.negative => {}
                b"*" => self.defaults.push(number),
                [b'*', rest @ ..] => self.wildcard.entry(rest.into()).or_default().push(place),
                name => self.exact.entry(name.into()).or_default().push(place),
            }
        }
    }

    /// Makes the certificate that was added last one of those for clients whose name nobody has: `default-crt`, or the
    /// first `crt` where there is no `default-crt`.
    pub fn last_is_default(&mut self) {
        if let Some(last) = self.served.len().checked_sub(1)
            && !self.defaults.contains(&(last as u32))
        {
            self.defaults.push(last as u32);
        }
    }

    pub fn has_default(&self) -> bool {
        !self.defaults.is_empty()
    }

    pub fn is_strict(&self) -> bool {
        self.strict
    }

    pub fn is_empty(&self) -> bool {
        self.served.is_empty()
    }

    /// All certificates, in the order they were added.
    pub fn served(&self) -> &[Arc<Served>] {
        &self.served
    }

    /// The rows of `show ssl sni`: exact names, then wildcards, each in alphabetical order.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut excluded: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
        let stars = self.wildcard.iter().map(|(rest, places)| ([b"*", &rest[..]].concat(), places));
        let all = self.exact.iter().map(|(name, places)| (name.to_vec(), places)).chain(stars.clone());
        for (name, places) in all {
            for place in places.iter().filter(|place| place.negative) {
                excluded.entry(place.served).or_default().push(name.clone());
            }
        }
        let row = |filter: Vec<u8>, number: u32, excluded: Vec<Vec<u8>>| Row {
            filter,
            excluded,
            served: &self.served[number as usize],
        };
        let mut rows = Vec::new();
        for (name, places) in &self.exact {
            let places = places.iter().filter(|place| !place.negative);
            rows.extend(places.map(|place| row(name.to_vec(), place.served, Vec::new())));
        }
        let exact = rows.len();
        for (filter, places) in stars {
            let places = places.iter().filter(|place| !place.negative);
            let excluded = |number| excluded.get(&number).cloned().unwrap_or_default();
            rows.extend(places.map(|place| row(filter.clone(), place.served, excluded(place.served))));
        }
        let shown_to_all = |number: &u32| {
            let excluded = excluded.get(number).cloned().unwrap_or_default();
            row(b"*".to_vec(), *number, excluded)
        };
        rows.extend(self.defaults.iter().map(shown_to_all));
        rows[..exact].sort_by(|a, b| a.filter.cmp(&b.filter));
        rows[exact..].sort_by(|a, b| a.filter.cmp(&b.filter));
        rows
    }

    /// The certificate for a client. None: it gets the alert `unrecognized_name`.
    pub fn choose(&self, hello: &ClientHello<'_>) -> Option<Arc<Served>> {
        let can = Abilities::of(hello);
        let named = hello.server_name.and_then(|name| self.named(name, can));
        if let Some(served) = named {
            return Some(served.clone());
        }
        let usual = self.pick(self.defaults.iter().copied(), can);
        if let (Some(made), Some(usual), Some(name)) = (&self.made, usual, hello.server_name)
            && let Some(served) = made.serve(&lower(name), usual)
        {
            return Some(served);
        }
        usual.filter(|_| !self.strict).cloned()
    }

    fn named(&self, name: &[u8], can: Abilities) -> Option<&Arc<Served>> {
        if name.len() > NAME_MAX + 1 {
            return None;
        }
        let mut lower = [0; NAME_MAX + 1];
        let lower = &mut lower[..name.len()];
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let name: &[u8] = lower.strip_suffix(b".").unwrap_or(lower);
        let exact = self.exact.get(name).map_or(&[][..], Vec::as_slice);
        let rest = name.iter().position(|byte| *byte == b'.').map(|dot| &name[dot..]);
        let wildcard = rest.and_then(|rest| self.wildcard.get(rest)).map_or(&[][..], Vec::as_slice);
        // A line's "!name" takes the name out of that line's wildcards, and of nobody else's.
        let excluded =
            |served: u32| exact.iter().chain(wildcard).any(|place| place.negative && place.served == served);
        let places = exact.iter().chain(wildcard.iter().filter(|place| !excluded(place.served)));
        self.pick(places.filter(|place| !place.negative).map(|place| place.served), can)
    }

    /// ECDSA before RSA before others, as far as the client can verify them; else what there is, and the handshake will say
    /// what is wrong.
    fn pick(&self, candidates: impl Iterator<Item = u32>, can: Abilities) -> Option<&Arc<Served>> {
        let (mut ecdsa, mut rsa, mut other) = (None, None, None);
        for number in candidates {
            let slot = match KeyKind::of(self.served[number as usize].credential.leaf()) {
                KeyKind::Ecdsa => &mut ecdsa,
                KeyKind::Rsa => &mut rsa,
                KeyKind::Other => &mut other,
            };
            slot.get_or_insert(number);
        }
        let chosen = ecdsa.filter(|_| can.ecdsa).or(rsa.filter(|_| can.rsa)).or(other).or(ecdsa).or(rsa)?;
        Some(&self.served[chosen as usize])
    }
}

/// A name in small letters, without a dot at its end.
fn lower(name: &[u8]) -> Vec<u8> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.len() > NAME_MAX { Vec::new() } else { name.to_ascii_lowercase() }
}

/// Which kinds of signatures a client can verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Abilities {
    ecdsa: bool,
    rsa: bool,
}

impl Abilities {
    fn of(hello: &ClientHello<'_>) -> Abilities {
        let schemes = || list16(hello.signature_schemes.unwrap_or_default());
        // In TLS 1.2 the cipher suite decides, too, and the client may have no suite with ECDSA.
        let tls13 = hello.offers_version(0x0304);
        let suite = |codes: &[u16]| tls13 || list16(hello.ciphers).any(|code| codes.contains(&code));
        let says_nothing = hello.signature_schemes.is_none();
        // The low byte of the old form names the key's kind: 3 is ECDSA, 1 RSA; RSA-PSS is 0x0804 to 0x0806.
        let ecdsa = schemes().any(|scheme| scheme & 0xff == 3 && scheme >> 8 < 7);
        let rsa = schemes()
            .any(|scheme| (scheme & 0xff == 1 && scheme >> 8 < 7) || (0x0804..=0x0806).contains(&scheme));
        Abilities {
            ecdsa: (ecdsa || says_nothing) && suite(&[0xc02b, 0xc02c, 0xcca9]),
            rsa: (rsa || says_nothing) && suite(&[0xc02f, 0xc030, 0xcca8]),
        }
    }
}
