//! For tests of words: a line of them, and files that they may name.

use std::sync::Arc;

use super::words::{Authorities, Read};
use crate::verify::{Crls, TrustStore};

/// There is `ca.pem`, and nothing else.
pub struct Files;

impl Authorities for Files {
    fn trust(&self, path: &str) -> Option<Arc<TrustStore>> {
        (path == "ca.pem").then(Arc::default)
    }

    fn crls(&self, _: &str) -> Option<Arc<Crls>> {
        None
    }
}

/// Has each word of a line read, with those behind it.
pub fn read(line: &str, mut read: impl FnMut(&str, &[&str]) -> Result<Read, String>) -> Result<(), String> {
    let all: Vec<&str> = line.split_whitespace().collect();
    let mut at = 0;
    while at < all.len() {
        match read(all[at], &all[at + 1..])? {
            Read::Taken(after) => at += 1 + after,
            Read::NotMine => return Err(format!("unknown {}", all[at])),
        }
    }
    Ok(())
}
