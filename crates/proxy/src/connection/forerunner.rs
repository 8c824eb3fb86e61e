//! Waiting for what must come before anything else on a connection: a PROXY header, or that of a NetScaler.

use thalweg_config::Bind;
use thalweg_rules::Overrides;
use thalweg_runtime::timer::timeout_at;
use thalweg_sample::facts::ConnError;

use super::netscaler;
use super::port::{Port, RECV_MAX};
use super::proxy_header::{self, Header, Parsed};
use crate::plant::bug;

/// What may be wrong with a PROXY header, by the numbers of `fc_err`.
const PRX_EMPTY: ConnError = ConnError(11);
const PRX_ABORT: ConnError = ConnError(12);
const PRX_TIMEOUT: ConnError = ConnError(13);
const PRX_TRUNCATED: ConnError = ConnError(14);
const PRX_NOT_HDR: ConnError = ConnError(15);
const PRX_BAD_HDR: ConnError = ConnError(16);
const PRX_BAD_PROTO: ConnError = ConnError(17);
/// What may be wrong with a NetScaler's.
const CIP_EMPTY: ConnError = ConnError(18);
const CIP_ABORT: ConnError = ConnError(19);
const CIP_TIMEOUT: ConnError = ConnError(20);
const CIP_TRUNCATED: ConnError = ConnError(21);
const CIP_BAD_MAGIC: ConnError = ConnError(22);
const CIP_BAD_PROTO: ConnError = ConnError(23);

/// What has to come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forerunner {
    /// A PROXY header.
    Proxy,
    /// The header of a NetScaler with this magic number.
    NetScaler(u32),
}

/// What is said of a connection on which less than a header came.
struct Missing {
    empty: ConnError,
    abort: ConnError,
    timeout: ConnError,
    truncated: ConnError,
}

impl Forerunner {
    /// What a listener waits for, and what the rules of its proxy have it wait for: one after the other.
    pub fn of(bind: &Bind, by_rule: &Overrides) -> impl Iterator<Item = Forerunner> + use<> {
        let netscaler = (bind.netscaler_magic != 0 || by_rule.expect_netscaler)
            .then_some(Forerunner::NetScaler(bind.netscaler_magic));
        let proxy = (bind.accept_proxy || by_rule.expect_proxy).then_some(Forerunner::Proxy);
        netscaler.into_iter().chain(proxy)
    }

    /// The header at the start of `input`, with its length; none as long as more is needed.
    fn parse(self, input: &[u8]) -> Result<Option<(Header, usize)>, ConnError> {
        match self {
            Forerunner::Proxy => match proxy_header::parse(input) {
                Parsed::Complete { header, len } => Ok(Some((header, len))),
                Parsed::Invalid if proxy_header::looks_like_header(input) => Err(PRX_BAD_HDR),
                Parsed::Invalid => Err(PRX_NOT_HDR),
                Parsed::Unhandled => Err(PRX_BAD_PROTO),
                Parsed::Partial => Ok(None),
            },
            Forerunner::NetScaler(magic) => match netscaler::parse(input, magic) {
                netscaler::Parsed::Complete { addresses, len } => {
                    Ok(Some((Header { addresses: Some(addresses), tlvs: Vec::new() }, len)))
                }
                netscaler::Parsed::BadMagic => Err(CIP_BAD_MAGIC),
                netscaler::Parsed::Unhandled => Err(CIP_BAD_PROTO),
                netscaler::Parsed::Partial => Ok(None),
            },
        }
    }

    /// What is wrong when there is no header.
    fn missing(self) -> Missing {
        match self {
            Forerunner::Proxy => {
                Missing { empty: PRX_EMPTY, abort: PRX_ABORT, timeout: PRX_TIMEOUT, truncated: PRX_TRUNCATED }
            }
            Forerunner::NetScaler(_) => {
                Missing { empty: CIP_EMPTY, abort: CIP_ABORT, timeout: CIP_TIMEOUT, truncated: CIP_TRUNCATED }
            }
        }
    }

    /// What is wrong with a header that is longer than what can be kept.
    fn too_long(self) -> ConnError {
        match self {
            Forerunner::Proxy => PRX_BAD_HDR,
            Forerunner::NetScaler(_) => CIP_TRUNCATED,
        }
    }
}

/// Receives the header, and leaves in the port what came behind it.
///
/// # Errors
/// What came is no header, or it did not come by `deadline_ms`.
pub async fn receive(
    client: &mut Port,
    awaited: Forerunner,
    deadline_ms: Option<u64>,
) -> Result<Header, ConnError> {
    let missing = awaited.missing();
    loop {
        if let Some(input) = client.input.as_mut()
            && let Some((header, len)) = awaited.parse(input)?
        {
            input.advance(len);
            if input.is_empty() || bug("header-rest") {
                client.input = None;
            }
            return Ok(header);
        }
        match timeout_at(deadline_ms, client.line.recv(RECV_MAX)).await {
            Ok(Ok(buf)) if !buf.is_empty() => {
                if client.append(buf).is_err() {
                    return Err(awaited.too_long());
                }
            }
            _ if client.input.is_some() => return Err(missing.truncated),
            Ok(Ok(_)) => return Err(missing.empty),
            Ok(Err(_)) => return Err(missing.abort),
            Err(_) => return Err(missing.timeout),
        }
    }
}
