//! What TLS is for with each server: its traffic, its checks, or nothing yet.

use std::sync::Arc;

use thalweg_check::{Program, StepKind, Text};
use thalweg_tls::options::alpn;

use crate::model::{Proxy, ServerTls};

/// What a health check is about TLS.
#[derive(Clone)]
struct CheckAsks {
    /// Some step connects over TLS.
    needs_tls: bool,
    /// The host that its first request names, where no line says how to connect.
    host: Option<Arc<str>>,
}

impl CheckAsks {
    fn of(program: Option<&Program>) -> CheckAsks {
        let steps = || program.iter().flat_map(|program| &program.steps).map(|step| &step.kind);
        let needs_tls = steps().any(|step| matches!(step, StepKind::Connect(connect) if connect.ssl));
        // A line that says how to connect says which name to ask for as well.
        let first = program.iter().flat_map(|program| &program.steps).next();
        let connects_itself = first.is_some_and(|step| step.number == 0);
        let host = steps().filter(|_| connects_itself).find_map(|step| match step {
            StepKind::Request(request) => request.headers.iter().find_map(|(name, value)| match value {
                Text::Fixed(value) if name.eq_ignore_ascii_case(b"host") => std::str::from_utf8(value).ok(),
                _ => None,
            }),
            _ => None,
        });
        // The name without the port.
        let host = host.map(|host| Arc::from(host.split(':').next().unwrap_or_default()));
        CheckAsks { needs_tls, host }
    }
}

/// Decides of the servers of a proxy what TLS is for, if anything. The texts are what is wrong with one of them.
pub(super) fn decide(p: &mut Proxy) -> Vec<(usize, String)> {
    let mut wrong = Vec::new();
    let of_proxy = CheckAsks::of(p.check.as_deref());
    for (at, server) in p.servers.iter_mut().enumerate() {
        let Some(check) = &server.check else {
            server.tls = server.tls.take().filter(|tls| is_prepared(tls) || tls.words.ssl.is_some());
            if let Some(tls) = &mut server.tls {
                let tls = Arc::make_mut(tls);
                (tls.ssl, tls.used) = (tls.words.ssl == Some(true), is_prepared(tls));
            }
            continue;
        };
        let of_section = check.program.as_deref().map(|program| CheckAsks::of(Some(program)));
        let CheckAsks { needs_tls, host } = of_section.unwrap_or_else(|| of_proxy.clone());
        let own_address = check.addr.is_none() && check.port.is_none();
        let is = |tls: &ServerTls| (tls.words.ssl == Some(true), tls.words.check_ssl);
        let (ssl, check_ssl) = server.tls.as_deref().map_or((false, None), is);
        let check_ssl = check_ssl.unwrap_or(ssl && own_address);
        let prepared = server.tls.as_deref().is_some_and(is_prepared);
        if !prepared && !check_ssl && !needs_tls {
            server.tls = server.tls.take().filter(|tls| tls.words.ssl.is_some());
            continue;
        }
        let tls = Arc::make_mut(server.tls.get_or_insert_default());
        (tls.ssl, tls.check_ssl, tls.used) = (ssl, check_ssl, true);
        let automatic = host.filter(|_| tls.words.check_sni_auto != Some(false));
        tls.check_sni = tls.words.check_sni.as_deref().map(Arc::from).or(automatic);
        match tls.words.check_alpn.as_deref().map(check_protocols).transpose() {
            Ok(protocols) => tls.check_protocols = protocols,
            Err(what) => wrong.push((at, what)),
        }
    }
    wrong
}

/// Whether a server can be spoken to in TLS, now or once an operator says so (`set server ... ssl on`): its line says `ssl`,
/// or takes back what its `default-server` says.
fn is_prepared(tls: &ServerTls) -> bool {
    tls.words.ssl == Some(true) || tls.below.is_some()
}

/// The protocols that a health check offers.
pub(crate) fn check_protocols(list: &str) -> Result<Arc<[Vec<u8>]>, String> {
    alpn::parse(list).map(Into::into).map_err(|error| error.to_string())
}
