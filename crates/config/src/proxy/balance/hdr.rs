//! `balance hdr(<name>)`: a field of a request.

use std::sync::Arc;

use thalweg_balance::{KeyHash, domain_only};
use thalweg_http::values::list_with_empty;
use thalweg_syntax::Line;

use super::key::{Asked, BalanceKey};
use super::{Argument, Entry, Made, entry};
use crate::build::Building;
use crate::keyword::fail;
use crate::model::BalanceAlgo;

pub(super) const ENTRY: Entry = entry(NAME, read).with(Argument::Required("name"));
const NAME: &str = "hdr";

#[derive(Debug)]
struct Hdr {
    name: Box<[u8]>,
    use_domain_only: bool,
}

impl BalanceKey for Hdr {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32> {
        // Of a list, the first element.
        let value = list_with_empty(asked.request()?.find(&self.name)?.value).next()?;
        (!value.is_empty()).then(|| hash.bytes(if self.use_domain_only { domain_only(value) } else { value }))
    }
}

fn read(_: &mut Building, line: &Line, argument: Option<&str>) -> Made {
    let Some(header) = argument.and_then(|rest| rest.strip_suffix(')')).filter(|h| !h.is_empty()) else {
        return Err(fail(line, 1, "balance hdr requires an http header field name."));
    };
    let use_domain_only = line.text(2) == "use_domain_only";
    if !use_domain_only && !line.text(2).is_empty() {
        let message = format!(
            "balance {} only accepts 'use_domain_only' modifier (got '{}').",
            line.text(1),
            line.text(2)
        );
        return Err(fail(line, 2, message));
    }
    Ok(BalanceAlgo::Key(Arc::new(Hdr { name: header.as_bytes().into(), use_domain_only })))
}
