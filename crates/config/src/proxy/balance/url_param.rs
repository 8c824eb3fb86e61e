//! `balance url_param`: a parameter of the URI, or of the form that a POST brings.

use std::sync::Arc;

use thalweg_balance::KeyHash;
use thalweg_http::Method;
use thalweg_http::uri::{posted_parameter, query_parameter};
use thalweg_syntax::Line;

use super::key::{Asked, BalanceKey};
use super::{Entry, Made, entry};
use crate::build::Building;
use crate::keyword::fail;
use crate::model::BalanceAlgo;

pub(super) const ENTRY: Entry = entry(NAME, read);
const NAME: &str = "url_param";

/// The parameter's name.
#[derive(Debug)]
struct UrlParam(Box<[u8]>);

impl BalanceKey for UrlParam {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hash(&self, asked: &mut dyn Asked, hash: KeyHash) -> Option<u32> {
        let request = asked.request()?;
        if let Some(value) = query_parameter(request.target(), &self.0) {
            return Some(hash.bytes(value));
        }
        if request.method() != Method::Post {
            return None;
        }
        let mut found = None;
        asked.with_body(&mut |body| found = posted_parameter(body, &self.0).map(|value| hash.bytes(value)));
        found
    }

    fn looks_into_bodies(&self) -> bool {
        true
    }
}

fn read(_: &mut Building, line: &Line, _: Option<&str>) -> Made {
    let Some(name) = line.word(2) else {
        return Err(fail(line, 2, "balance url_param requires an URL parameter name."));
    };
    match line.text(3) {
        // A parameter is looked for in the body of a POST in any case. What followed said for how long.
        "" | "check_post" => {}
        other => {
            let message = format!("balance url_param only accepts 'check_post' modifier (got '{other}').");
            return Err(fail(line, 3, message));
        }
    }
    Ok(BalanceAlgo::Key(Arc::new(UrlParam(name.bytes().into()))))
}
