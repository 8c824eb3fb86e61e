//! Staying with a server: `cookie`, `persist`, `force-persist`, `ignore-persist`.

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeUnit};

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, fail, pass_over};
use crate::model::{CookieMode, CookiePersistence, PersistRule, ServerAddr};
use crate::numbers::duration;
use crate::sample_env::{self, Where};

pub(crate) fn cookie(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "cookie", "");
    let Some(name) = line.word(1) else {
        return Err(fail(line, 1, "'cookie' expects <cookie_name> as argument."));
    };
    let mut c = CookiePersistence {
        name: name.bytes().into(),
        mode: CookieMode::Passive,
        indirect: false,
        nocache: false,
        postonly: false,
        preserve: false,
        httponly: false,
        secure: false,
        domains: Vec::new(),
        maxidle_s: 0,
        maxlife_s: 0,
        dynamic: false,
        attrs: Vec::new(),
    };
    let mut at = 2;
    while at < line.words.len() {
        let word = line.text(at);
        match word {
            "rewrite" | "insert" | "prefix" => {
                let mode = match word {
                    "rewrite" => CookieMode::Rewrite,
                    "insert" => CookieMode::Insert,
                    _ => CookieMode::Prefix,
                };
                if c.mode != CookieMode::Passive && c.mode != mode {
                    return Err(fail(
                        line,
                        at,
                        "cookie 'rewrite', 'insert' and 'prefix' modes are incompatible.",
                    ));
                }
                c.mode = mode;
            }
            "indirect" => c.indirect = true,
            "nocache" => c.nocache = true,
            "postonly" => c.postonly = true,
            "preserve" => c.preserve = true,
            "httponly" => c.httponly = true,
            "secure" => c.secure = true,
            "dynamic" => c.dynamic = true,
            "domain" => {
                c.domains.push(domain(cx, line, at + 1)?);
                at += 1;
            }
            "maxidle" => {
                c.maxidle_s = lifetime(cx, line, at)?;
                at += 1;
            }
            "maxlife" => {
                c.maxlife_s = lifetime(cx, line, at)?;
                at += 1;
            }
            "attr" => {
                c.attrs.push(attribute(cx, line, at + 1)?);
                at += 1;
            }
            _ => {
                let message = "'cookie' supports 'rewrite', 'insert', 'prefix', 'indirect', 'nocache', 'postonly', \
                               'domain', 'maxidle', 'dynamic', 'maxlife' and 'attr' options.";
                return Err(fail(line, at, message));
            }
        }
        at += 1;
    }
    if c.mode == CookieMode::Rewrite && c.indirect {
        return Err(fail(line, 0, "cookie 'rewrite' and 'indirect' modes are incompatible."));
    }
    if c.preserve && c.mode != CookieMode::Insert && !c.indirect {
        return Err(fail(line, 0, "cookie 'preserve' requires at least 'insert' or 'indirect'."));
    }
    b.p.cookie = Some(Arc::new(c));
    Ok(())
}

/// The domain that a cookie is for.
fn domain(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<Arc<str>, Box<Diagnostic>> {
    let domain = line.text(at);
    if domain.is_empty() {
        return Err(fail(line, at, "'domain' expects <domain> as argument."));
    }
    if !domain.trim_start_matches('.').contains('.') {
        let message = format!(
            "domain '{domain}' contains no embedded dot, this configuration may not work properly (see RFC6265#5.2.3)."
        );
        cx.warn(line, at, message);
    }
    let is_bad = |ch: &char| !(ch.is_ascii_alphanumeric() || matches!(ch, '.' | '-' | '_'));
    if let Some(bad) = domain.chars().find(is_bad) {
        let message = format!("character '{bad}' is not permitted in domain name '{domain}'.");
        return Err(fail(line, at, message));
    }
    Ok(cx.name(domain))
}

/// The seconds behind `maxidle` or `maxlife` at `at`.
fn lifetime(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<u32, Box<Diagnostic>> {
    let (word, text) = (line.text(at), line.text(at + 1));
    if text.is_empty() {
        return Err(fail(line, at + 1, format!("'{word}' expects <idletime> in seconds as argument.")));
    }
    let seconds = duration(cx, line, at + 1, TimeUnit::Seconds, TimeUnit::Seconds).map_err(|e| {
        let at_char = e.range(text).start;
        let ch = text[at_char.min(text.len())..].chars().next().unwrap_or('?');
        fail(line, at + 1, format!("unexpected character '{ch}' in argument to <{word}>."))
    })?;
    Ok(seconds as u32)
}

/// An attribute that is added to a cookie.
fn attribute(cx: &mut Cx<'_>, line: &Line, at: usize) -> Result<Arc<str>, Box<Diagnostic>> {
    let value = line.text(at);
    if value.is_empty() {
        return Err(fail(line, at, "'attr' expects <value> as argument."));
    }
    if let Some(bad) = value.chars().find(|ch| ch.is_ascii_control() || *ch == ';') {
        let message = format!("character '%x{:02X}' is not permitted in attribute value.", u32::from(bad));
        return Err(fail(line, at, message));
    }
    Ok(cx.name(value))
}

pub(crate) fn dynamic_cookie_key(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    b.needs_backend(cx, line, "dynamic-cookie-key", "");
    if line.words.len() < 2 {
        return Err(fail(line, 1, "'dynamic-cookie-key' expects <secret_key> as argument."));
    }
    b.p.dynamic_cookie_key = Some(cx.name(line.text(1)));
    Ok(())
}

/// Makes the values of servers that have none of their own (`cookie ... dynamic`). Several load balancers with the same secret make the same values.
pub(crate) fn dynamic_cookies(cx: &mut Cx<'_>, b: &mut Building) {
    let (Some(cookie), Some(key)) = (&b.p.cookie, &b.p.dynamic_cookie_key) else { return };
    if !cookie.dynamic {
        return;
    }
    let mut made = std::collections::HashSet::new();
    let mut twice = false;
    for server in &mut b.p.servers {
        server.cookie_is_dynamic = server.cookie.is_none();
        if server.cookie_is_dynamic
            && let Some(value) = dynamic_cookie_value(key, &server.addr)
        {
            twice |= !made.insert(value.clone());
            server.cookie = Some(value.into());
        }
    }
    if twice {
        let message = format!(
            "We generated two equal cookies for two different servers.\nPlease change the secret key for '{}'.",
            b.p.name
        );
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
    }
}

/// The value of a dynamic cookie: the XXH64 of the secret, the address and the port, in 16 hexadecimal digits. `None` for a
/// server that has no address of the network.
pub fn dynamic_cookie_value(key: &str, addr: &ServerAddr) -> Option<String> {
    let ServerAddr::Tcp(addr) = addr else { return None };
    let mut bytes = key.as_bytes().to_vec();
    match addr.ip() {
        IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
    }
    bytes.extend_from_slice(&u32::from(addr.port()).to_be_bytes());
    Some(format!("{:016x}", xxhash_rust::xxh64::xxh64(&bytes, 0)))
}

/// `persist rdp-cookie[(name)]`
pub(crate) fn persist(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let text = line.text(1);
    if text.is_empty() {
        return Err(fail(line, 1, "missing persist method."));
    }
    let Some(rest) = text.strip_prefix("rdp-cookie") else {
        return Err(fail(line, 1, "unknown persist method."));
    };
    let name = match rest.strip_prefix('(') {
        Some(inner) => match inner.strip_suffix(')').filter(|n| !n.is_empty()) {
            Some(name) => name,
            None => return Err(fail(line, 1, "persist rdp-cookie(name)' requires an rdp cookie name.")),
        },
        None if rest.is_empty() => "msts",
        None => return Err(fail(line, 1, "unknown persist method.")),
    };
    b.p.persist_rdp_cookie = Some(cx.name(name));
    pass_over(cx, line, 1, 1);
    Ok(())
}

/// `force-persist` and `ignore-persist`, read late.
pub(crate) fn persist_rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let name = line.text(0);
    b.needs_backend(cx, line, name, "");
    let cond = sample_env::required_condition(cx, b, line, 1, name, Where::ForcePersist)?;
    b.p.persist_rules.push(PersistRule { cond, force: name == "force-persist" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ServerAddr, dynamic_cookie_value};

    /// The expected values are those of the reference.
    #[test]
    fn dynamic_values_are_the_references() {
        for (key, addr, expected) in
            [("secret", "127.0.0.1:28001", "99a6bdee0bc93b1a"), ("secret", "[::1]:28003", "91a7044e3dd7fba5")]
        {
            let address = ServerAddr::Tcp(addr.parse().unwrap());
            assert_eq!(dynamic_cookie_value(key, &address).as_deref(), Some(expected), "{addr}");
        }
    }
}
