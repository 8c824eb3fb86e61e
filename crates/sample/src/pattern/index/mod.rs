//! One search structure per matching method, each over the records of one [`Block`].
//!
//! None costs more per pattern added than the logarithm of their number, except regular expressions, which are tried one
//! by one, and none costs more than linear time in the length of the value.

mod numbers;
mod text;

use super::block::Block;
use super::{Method, Regex};
use numbers::{Addresses, Ranges};
use text::{Affix, Exact, Few, Substrings, Words};
use thalweg_syntax::carry::carry;

/// Visits the records that match until the visitor returns false.
type Each<'e> = dyn Fn(&mut dyn FnMut(u32) -> bool) + 'e;

/// What is searched for.
#[derive(Clone, Copy)]
pub enum Needle<'v> {
    /// A text.
    Bytes(&'v [u8]),
    /// A number, or the length of a text.
    Int(i64),
    /// An address.
    Ip(std::net::IpAddr),
}

/// The structure of one matching method over one block.
pub enum Structure {
    /// `str`, `beg` and `end` with few patterns.
    Few(Few),
    /// `str`, `bin`.
    Exact(Exact),
    /// `beg`, `end`.
    Affix(Affix),
    /// `dir`, `dom`.
    Words(Words),
    /// `sub`.
    Substrings(Box<Substrings>),
    /// `reg`.
    Regexes(Box<[(Regex, u32)]>),
    /// `int`, `len` and versions.
    Ranges(Ranges),
    /// `ip`.
    Addresses(Box<Addresses>),
    /// `found`, `bool`: patterns mean nothing.
    None,
}

impl Structure {
    /// Builds the structure of `method` over `block`.
    ///
    /// # Errors
    /// The text of the problem, for patterns that cannot be compiled.
    pub fn build(method: Method, icase: bool, block: &Block) -> Result<Structure, String> {
        if let Some(few) = Few::build(block, method, icase) {
            return Ok(Structure::Few(few));
        }
        Ok(match method {
            Method::Found | Method::Bool => Structure::None,
            Method::Str => Structure::Exact(Exact::build(block, icase, false)),
            Method::Bin => Structure::Exact(Exact::build(block, false, true)),
            Method::Beg => Structure::Affix(Affix::build(block, icase, false)),
            Method::End => Structure::Affix(Affix::build(block, icase, true)),
            Method::Dir => Structure::Words(Words::build(block, icase, b"/?")),
            Method::Dom => Structure::Words(Words::build(block, icase, b"/?.:")),
            Method::Sub => Structure::Substrings(Box::new(Substrings::build(block, icase)?)),
            Method::Reg => {
                let mut all = Vec::with_capacity(block.len());
                for record in block.records() {
                    let text = carry(block.key_at(record));
                    all.push((Regex::new(&text, !icase).map_err(|e| e.to_string())?, record));
                }
                Structure::Regexes(all.into())
            }
            Method::Int | Method::Len => Structure::Ranges(Ranges::build(block, false)),
            Method::Version => Structure::Ranges(Ranges::build(block, true)),
            Method::Ip => Structure::Addresses(Box::new(Addresses::build(block))),
        })
    }

    /// The record to use for `needle`. With `any`, whichever is found first; otherwise the most precise of prefixes and
    /// addresses, the first of other patterns.
    #[inline]
    pub fn find(&self, block: &Block, needle: Needle, any: bool) -> Option<u32> {
        match (self, needle) {
            (Structure::Few(few), Needle::Bytes(value)) => few.find(block, value),
            (Structure::Exact(exact), Needle::Bytes(value)) => exact.find(block, value),
            (Structure::Addresses(addresses), Needle::Ip(ip)) => addresses.find(block, ip),
            (Structure::Ranges(ranges), Needle::Int(value)) => ranges.find(block, value),
            _ => self.find_one(block, needle, any),
        }
    }

    fn find_one(&self, block: &Block, needle: Needle, any: bool) -> Option<u32> {
        let first = |each: &Each| {
            let mut best: Option<u32> = None;
            each(&mut |record| {
                best = Some(best.map_or(record, |b| b.min(record)));
                !any
            });
            best
        };
        match (self, needle) {
            (Structure::Affix(affix), Needle::Bytes(value)) if affix.is_of_ends() && !any => {
                first(&|visit| affix.each(block, value, visit))
            }
            (Structure::Affix(affix), Needle::Bytes(value)) => {
                let mut longest = None;
                affix.each(block, value, |record| {
                    longest = Some(record);
                    false
                });
                longest
            }
            (Structure::Words(words), Needle::Bytes(value)) => {
                first(&|visit| words.each(block, value, visit))
            }
            (Structure::Substrings(subs), Needle::Bytes(value)) => {
                first(&|visit| subs.each(block, value, visit))
            }
            (Structure::Regexes(all), Needle::Bytes(value)) => {
                all.iter().find(|(regex, r)| block.is_live(*r) && regex.is_match(value)).map(|(_, r)| *r)
            }
            _ => None,
        }
    }
}

impl Structure {
    /// Calls `visit` with every record that matches, in no particular order, until it returns false. Nothing for numbers
    /// and regular expressions, whose matches cannot be listed.
    pub fn each(&self, block: &Block, needle: Needle, mut visit: impl FnMut(u32) -> bool) {
        match (self, needle) {
            (Structure::Few(few), Needle::Bytes(value)) => few.each(block, value, visit),
            (Structure::Exact(exact), Needle::Bytes(value)) => exact.each(block, value, visit),
            (Structure::Affix(affix), Needle::Bytes(value)) => affix.each(block, value, visit),
            (Structure::Words(words), Needle::Bytes(value)) => words.each(block, value, visit),
            (Structure::Substrings(subs), Needle::Bytes(value)) => subs.each(block, value, visit),
            (Structure::Addresses(addresses), Needle::Ip(ip)) => addresses.each(ip, &mut visit),
            _ => {}
        }
    }
}

impl std::fmt::Debug for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Structure::Few(_) => "Few",
            Structure::Exact(_) => "Exact",
            Structure::Affix(_) => "Affix",
            Structure::Words(_) => "Words",
            Structure::Substrings(_) => "Substrings",
            Structure::Regexes(_) => "Regexes",
            Structure::Ranges(_) => "Ranges",
            Structure::Addresses(_) => "Addresses",
            Structure::None => "None",
        })
    }
}
