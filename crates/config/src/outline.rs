//! What the lines of a configuration say, as numbers, so that two configurations can be compared without keeping their texts.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use thalweg_syntax::Line;

/// What lines say: equal for equal words, whatever is between them, and different, but for one chance in 2^64, for others. Only
/// of use within one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Said(u64);

impl Said {
    /// What one line says.
    pub(crate) fn by(line: &Line) -> Said {
        let mut hasher = DefaultHasher::new();
        line.words.iter().for_each(|word| word.bytes().hash(&mut hasher));
        Said(hasher.finish())
    }

    /// The same, and then something else.
    pub(crate) fn and(self, next: Said) -> Said {
        let mut hasher = DefaultHasher::new();
        (self.0, next.0).hash(&mut hasher);
        Said(hasher.finish())
    }
}

/// The lines of the sections that are no proxies, in order. Those of proxies are with them
/// ([`crate::model::Proxy::said`], [`crate::model::Server::said`]).
#[derive(Clone, Debug, Default)]
pub struct Outline {
    pub sections: Vec<Section>,
}

/// A section.
#[derive(Clone, Debug)]
pub struct Section {
    /// The word that opens it.
    pub keyword: Arc<str>,
    /// Its name; empty without one.
    pub name: Arc<str>,
    pub file: Arc<str>,
    pub line: u32,
    pub lines: Vec<OutlineLine>,
}

/// A line of a section.
#[derive(Clone, Debug)]
pub struct OutlineLine {
    /// Its first word that is not `no` or `default`.
    pub keyword: Arc<str>,
    pub line: u32,
    pub said: Said,
}

impl Section {
    /// What all of its lines say.
    pub fn said(&self) -> Said {
        self.lines.iter().fold(Said::default(), |all, line| all.and(line.said))
    }
}
