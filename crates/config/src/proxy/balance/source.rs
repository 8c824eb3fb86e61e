//! `balance source`: the client's address.

use std::sync::Arc;

use thalweg_balance::KeyHash;

use super::key::{Asked, BalanceKey};
use super::{Entry, entry};
use crate::model::BalanceAlgo;

pub(super) const ENTRY: Entry = entry(NAME, |_, _, _| Ok(BalanceAlgo::Key(Arc::new(Source))));
const NAME: &str = "source";

#[derive(Debug)]
struct Source;

impl BalanceKey for Source {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32> {
        asked.source().ip().map(|ip| hash.address(ip))
    }

    fn needs_request(&self) -> bool {
        false
    }
}
