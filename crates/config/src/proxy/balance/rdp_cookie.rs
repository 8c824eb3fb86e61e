//! `balance rdp-cookie`: the cookie of the Remote Desktop Protocol.

use std::sync::Arc;

use thalweg_balance::KeyHash;
use thalweg_sample::fetch::hello::{Peek, rdp_cookie};
use thalweg_syntax::Line;

use super::key::{Asked, BalanceKey};
use super::{Argument, Entry, Made, entry};
use crate::build::Building;
use crate::keyword::fail;
use crate::model::BalanceAlgo;

pub(super) const ENTRY: Entry = entry(NAME, read).with(Argument::Optional("name"));
const NAME: &str = "rdp-cookie";

/// The cookie's name.
#[derive(Debug)]
struct RdpCookie(Box<[u8]>);

impl BalanceKey for RdpCookie {
    fn name(&self) -> &'static str {
        NAME
    }

    /// It is in what a TCP client sent first.
    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32> {
        if asked.request().is_some() {
            return None;
        }
        let data = asked.received();
        let Peek::Found((found, value)) = rdp_cookie(data) else { return None };
        let is_named = data[found].eq_ignore_ascii_case(&self.0);
        (is_named && !value.is_empty()).then(|| hash.bytes(&data[value]))
    }

    fn needs_request(&self) -> bool {
        false
    }
}

fn read(_: &mut Building, line: &Line, argument: Option<&str>) -> Made {
    let name = match argument {
        None => "mstshash",
        Some(rest) => rest
            .strip_suffix(')')
            .filter(|cookie| !cookie.is_empty())
            .ok_or_else(|| fail(line, 1, "balance rdp-cookie : missing cookie name."))?,
    };
    Ok(BalanceAlgo::Key(Arc::new(RdpCookie(name.as_bytes().into()))))
}
