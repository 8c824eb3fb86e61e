//! Patterns: sets of strings, numbers, addresses and regular expressions that values are matched against.
//!
//! A [`PatternSet`] is a list of patterns, with values when it is a map, that has a name when it comes from a
//! file. Each way of using it (matching method, case) has an [`Index`]: search structures that are
//! never changed, only replaced, so that readers take no lock. [`Registry`] holds all sets.

pub(crate) mod block;
pub(crate) mod index;
mod lookup;
pub mod parse;
mod regex;
mod registry;
mod set;

pub use index::Needle;
pub use lookup::{Hit, Index, SnapshotCache};
pub use regex::{Regex, RegexError, RegexScratch};
pub use registry::{Registry, SetName};
pub use set::{EntryView, PatternSet};

use crate::value::Type;

/// How a value is compared with patterns (`-m`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Method {
    Found,
    Bool,
    Int,
    /// Integers written as versions, `3.1`, in the patterns of a few keywords.
    Version,
    Ip,
    Bin,
    Len,
    Str,
    Sub,
    Reg,
    Beg,
    End,
    Dir,
    Dom,
}

impl Method {
    /// The methods `-m` takes.
    pub const ALL: [(&'static str, Method); 13] = [
        ("found", Method::Found),
        ("bool", Method::Bool),
        ("int", Method::Int),
        ("ip", Method::Ip),
        ("bin", Method::Bin),
        ("len", Method::Len),
        ("str", Method::Str),
        ("beg", Method::Beg),
        ("sub", Method::Sub),
        ("dir", Method::Dir),
        ("dom", Method::Dom),
        ("end", Method::End),
        ("reg", Method::Reg),
    ];

    /// The method `-m name` selects.
    pub fn by_name(name: &str) -> Option<Method> {
        Method::ALL.iter().find(|(n, _)| *n == name).map(|(_, method)| *method)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Method::ALL.iter().find(|(_, method)| *method == self).map_or("int", |(name, _)| name)
    }

    /// The method used for values of a type when none is asked for.
    pub const fn default_for(kind: Type) -> Option<Method> {
        match kind {
            Type::Bool => Some(Method::Bool),
            Type::Int => Some(Method::Int),
            Type::Addr | Type::Ip4 | Type::Ip6 => Some(Method::Ip),
            Type::Str => Some(Method::Str),
            Type::Bin | Type::Method | Type::Any | Type::Same => None,
        }
    }

    /// The type values are cast to before they are compared.
    pub const fn input(self) -> Type {
        match self {
            Method::Found => Type::Any,
            Method::Bool => Type::Bool,
            Method::Int | Method::Version => Type::Int,
            Method::Ip => Type::Addr,
            Method::Bin => Type::Bin,
            _ => Type::Str,
        }
    }
}
