//! What is done for each load-balancing algorithm (manual: `balance`): which picker of [`thalweg_balance`] it has, and what
//! number a hashing one derives from a stream. [`plan`] is the one list of them here; how each is written is the list in
//! `thalweg_config`, how each picks is a file of `thalweg_balance`.

use thalweg_balance::{Algorithm, HashMethod, KeyHash, UriKey, domain_only};
use thalweg_config::compiled::Expr;
use thalweg_config::model::{self, BalanceAlgo, HashFunction, Proxy};
use thalweg_http::values::list_with_empty;
use thalweg_http::{Head, Method};
use thalweg_sample::facts::Endpoint;
use thalweg_sample::fetch::hello::{Peek, rdp_cookie};

use crate::connection::port::Port;

/// What an algorithm goes by.
#[derive(Clone, Copy)]
pub enum Plan<'p> {
    /// The servers alone.
    Servers(Algorithm),
    /// The hash of something in the stream.
    Key(Key),
    /// The hash of what an expression gives.
    Expression(&'p Expr),
}

/// Derives a number from a stream; `None` when there is nothing to derive it from.
pub type Key = fn(&BalanceAlgo, &mut Asked<'_>, &KeyHash) -> Option<u32>;

/// The stream that a key is looked for in.
pub struct Asked<'s> {
    /// The client's address.
    pub source: Endpoint,
    /// The request; `None` in TCP.
    pub request: Option<&'s Head>,
    /// The client's connection: of a request, the body is there, as far as it was waited for.
    pub client: &'s mut Port,
}

/// What is done for an algorithm.
pub fn plan(algo: &BalanceAlgo) -> Plan<'_> {
    match algo {
        BalanceAlgo::RoundRobin => Plan::Servers(Algorithm::RoundRobin),
        BalanceAlgo::StaticRr => Plan::Servers(Algorithm::StaticRr),
        BalanceAlgo::LeastConn => Plan::Servers(Algorithm::LeastConn),
        BalanceAlgo::First => Plan::Servers(Algorithm::First),
        BalanceAlgo::Random { draws } => Plan::Servers(Algorithm::Random { draws: *draws }),
        BalanceAlgo::Ewma => Plan::Servers(Algorithm::Ewma),
        BalanceAlgo::Sticky => Plan::Servers(Algorithm::Sticky),
        BalanceAlgo::Source => Plan::Key(source),
        BalanceAlgo::Uri { .. } => Plan::Key(uri),
        BalanceAlgo::UrlParam { .. } => Plan::Key(url_param),
        BalanceAlgo::Hdr { .. } => Plan::Key(hdr),
        BalanceAlgo::RdpCookie { .. } => Plan::Key(rdp),
        BalanceAlgo::Hash(expr) | BalanceAlgo::LogHash(expr) => Plan::Expression(expr),
    }
}

/// How the servers of a backend are picked.
pub fn picker(proxy: &Proxy) -> Algorithm {
    match plan(&proxy.balance.algo) {
        Plan::Servers(algorithm) => algorithm,
        Plan::Key(_) | Plan::Expression(_) => Algorithm::Hash(match proxy.balance.hash.method {
            model::HashMethod::MapBased => HashMethod::MapBased,
            model::HashMethod::Consistent => HashMethod::Consistent,
        }),
    }
}

/// Whether servers may be added to a backend: not where the order of its servers is written out once.
pub fn takes_new_servers(proxy: &Proxy) -> bool {
    !matches!(picker(proxy), Algorithm::StaticRr | Algorithm::Hash(HashMethod::MapBased))
}

/// The hash function of a backend, as `hash-type` says.
pub fn hasher(proxy: &Proxy) -> KeyHash {
    let hash = proxy.balance.hash;
    KeyHash {
        function: match hash.function {
            HashFunction::Sdbm => thalweg_balance::HashFunction::Sdbm,
            HashFunction::Djb2 => thalweg_balance::HashFunction::Djb2,
            HashFunction::Wt6 => thalweg_balance::HashFunction::Wt6,
            HashFunction::Crc32 => thalweg_balance::HashFunction::Crc32,
            HashFunction::None => thalweg_balance::HashFunction::None,
        },
        avalanche: hash.avalanche,
    }
}

/// Whether the key may be in the body of a request, so that the body is waited for.
pub fn looks_into_bodies(proxy: &Proxy) -> bool {
    matches!(proxy.balance.algo, BalanceAlgo::UrlParam { .. })
}

fn source(_: &BalanceAlgo, asked: &mut Asked<'_>, hash: &KeyHash) -> Option<u32> {
    asked.source.ip().map(|ip| hash.address(ip))
}

fn uri(algo: &BalanceAlgo, asked: &mut Asked<'_>, hash: &KeyHash) -> Option<u32> {
    let BalanceAlgo::Uri { len, depth, whole, path_only } = algo else { return None };
    let some = |n: u32| (n != 0).then_some(n as usize);
    let key = UriKey { len: some(*len), depth: some(*depth), whole: *whole, path_only: *path_only };
    let target = asked.request?.target();
    let text = if *path_only { thalweg_http::uri::path_and_query(target) } else { target };
    Some(hash.bytes(key.select(text)))
}

fn url_param(algo: &BalanceAlgo, asked: &mut Asked<'_>, hash: &KeyHash) -> Option<u32> {
    let BalanceAlgo::UrlParam { name } = algo else { return None };
    let request = asked.request?;
    if let Some(value) = thalweg_http::uri::query_parameter(request.target(), name) {
        return Some(hash.bytes(value));
    }
    if request.method() != Method::Post {
        return None;
    }
    // The form in a body that was waited for.
    let body = asked.client.look();
    let value = thalweg_http::uri::posted_parameter(body.payload().data(), name)?;
    Some(hash.bytes(value))
}

fn hdr(algo: &BalanceAlgo, asked: &mut Asked<'_>, hash: &KeyHash) -> Option<u32> {
    let BalanceAlgo::Hdr { name, use_domain_only } = algo else { return None };
    // Of a list, the first element.
    let value = list_with_empty(asked.request?.find(name)?.value).next()?;
    (!value.is_empty()).then(|| hash.bytes(if *use_domain_only { domain_only(value) } else { value }))
}

/// In what a TCP client sent first.
fn rdp(algo: &BalanceAlgo, asked: &mut Asked<'_>, hash: &KeyHash) -> Option<u32> {
    let BalanceAlgo::RdpCookie { name } = algo else { return None };
    if asked.request.is_some() {
        return None;
    }
    let data = asked.client.received();
    let Peek::Found((found, value)) = rdp_cookie(data) else { return None };
    let is_named = data[found].eq_ignore_ascii_case(name);
    (is_named && !value.is_empty()).then(|| hash.bytes(&data[value]))
}
