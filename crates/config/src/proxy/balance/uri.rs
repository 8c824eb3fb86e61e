//! `balance uri`: the URI of a request, or a part of it.

use std::sync::Arc;

use thalweg_balance::{KeyHash, UriKey};
use thalweg_syntax::Line;

use super::key::{Asked, BalanceKey};
use super::{Entry, Made, entry};
use crate::build::Building;
use crate::keyword::fail;
use crate::model::BalanceAlgo;
use crate::numbers::strict;

pub(super) const ENTRY: Entry = entry(NAME, read);
const NAME: &str = "uri";

impl BalanceKey for UriKey {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32> {
        let target = asked.request()?.target();
        let text = if self.path_only { thalweg_http::uri::path_and_query(target) } else { target };
        Some(hash.bytes(self.select(text)))
    }
}

fn read(_: &mut Building, line: &Line, _: Option<&str>) -> Made {
    let mut key = UriKey::default();
    let mut at = 2;
    while at < line.words.len() {
        let name = line.text(at);
        match name {
            "len" | "depth" => {
                let text = line.text(at + 1);
                let Some(value) = strict(text).and_then(|v| u32::try_from(v).ok()).filter(|v| *v > 0) else {
                    let message =
                        format!("balance uri : '{name}' expects a positive integer (got '{text}').");
                    return Err(fail(line, at + 1, message));
                };
                let part = if name == "len" { &mut key.len } else { &mut key.depth };
                *part = Some(value as usize);
                at += 2;
            }
            "whole" => {
                key.whole = true;
                at += 1;
            }
            "path-only" => {
                key.path_only = true;
                at += 1;
            }
            _ => {
                let message = format!(
                    "balance uri only accepts parameters 'len', 'depth', 'path-only', and 'whole' (got '{name}')."
                );
                return Err(fail(line, at, message));
            }
        }
    }
    Ok(BalanceAlgo::Key(Arc::new(key)))
}
