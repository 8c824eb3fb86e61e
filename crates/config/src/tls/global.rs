//! Keywords of `global` about TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_syntax::address::PortSpec;
use thalweg_syntax::{Address, AddressOptions, Line, TimeUnit};
use thalweg_tls::certificate::Extra;
use thalweg_tls::options::words::Read;

use crate::build::Cx;
use crate::keyword::{Outcome, at_most, fail};
use crate::model::LoadErrors;
use crate::numbers::{lenient, time};
use crate::sample_env::words;
use crate::setter::Took;

/// The longest record, in bytes of plaintext: what the protocol allows.
const RECORD_MAX: i64 = 16_384;

/// The most bytes of a ClientHello that are kept for each connection.
const CAPTURE_MAX: i64 = 65_536;

/// The most certificates that are kept for each line that makes them: some kB each.
const MADE_MAX: i64 = 1_000_000;

/// The most sessions that are kept for clients: 200 bytes each, and more with certificates of clients.
const CACHE_MAX: i64 = 100_000_000;

/// `ca-base`, `crt-base`, `key-base`
pub(crate) fn tls_base(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    let path = line.words.get(1).map(|_| cx.name(line.text(1)));
    let tls = &mut cx.config.global.tls;
    let place = match name {
        "ca-base" => &mut tls.ca_base,
        "crt-base" => &mut tls.crt_base,
        _ => &mut tls.key_base,
    };
    if place.is_some() {
        return Err(fail(line, 0, format!("'{name}' already specified.")));
    }
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Err(fail(
            line,
            1,
            format!("global statement '{name}' expects a directory path as an argument."),
        ));
    };
    *place = Some(path);
    Ok(())
}

/// `ssl-default-bind-ciphers` and the others that are one word of a line.
pub(crate) fn tls_default(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    let of_server = name.strip_prefix("ssl-default-server-");
    let word = of_server.or(name.strip_prefix("ssl-default-bind-")).unwrap_or(name);
    if line.text(1).is_empty() {
        let what = match word {
            "curves" | "sigalgs" => "a curves suite as an arguments",
            "client-sigalgs" => "signature algorithms as an arguments",
            _ => "a cipher suite as an argument",
        };
        return Err(fail(line, 1, format!("global statement '{name}' expects {what}.")));
    }
    let tls = &mut cx.config.global.tls;
    let after = [line.text(1)];
    let read = match of_server {
        Some(_) => Arc::make_mut(&mut tls.server).read(word, &after),
        None => Arc::make_mut(&mut tls.bind).read(word, &after),
    };
    read.map(drop).map_err(|message| fail(line, 1, message))
}

/// `ssl-default-bind-options` and `ssl-default-server-options`
pub(crate) fn tls_default_options(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let name = line.text(0);
    let of_server = name == "ssl-default-server-options";
    if line.text(1).is_empty() {
        return Err(fail(line, 1, format!("global statement '{name}' expects an option as an argument.")));
    }
    let mut at = 1;
    while at < line.words.len() {
        let word = line.text(at);
        let is_version = word.starts_with("force-") || word.contains("sslv3") || word.contains("tlsv1");
        let is_known = is_version
            || matches!(word, "ssl-min-ver" | "ssl-max-ver" | "no-tls-tickets")
            || (of_server && matches!(word, "renegotiate" | "no-renegotiate"))
            || (!of_server
                && matches!(word, "tls-tickets" | "prefer-client-ciphers" | "strict-sni" | "no-strict-sni"));
        let unknown = || fail(line, at, format!("unknown option '{word}' on global statement '{name}'."));
        if !is_known {
            return Err(unknown());
        }
        let after = words(line, at + 1);
        let tls = &mut cx.config.global.tls;
        let read = if of_server {
            Arc::make_mut(&mut tls.server).read(word, &after)
        } else {
            Arc::make_mut(&mut tls.bind).read(word, &after)
        };
        match read {
            Ok(Read::Taken(taken)) => at += 1 + taken,
            Ok(Read::NotMine) => return Err(unknown()),
            Err(message) => {
                let message = message.trim_end_matches('.');
                return Err(fail(line, at + 1, format!("{message} on global statement '{name}'.")));
            }
        }
    }
    Ok(())
}

/// `ssl-load-extra-files`
pub(crate) fn tls_extra_files(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let expects =
        "'ssl-load-extra-files' expects one or multiple arguments (none, all, bundle, sctl, ocsp, issuer).";
    if line.text(1).is_empty() {
        return Err(fail(line, 1, expects));
    }
    cx.config.global.tls.load.extra = Extra::parse(words(line, 1)).map_err(|_| fail(line, 1, expects))?;
    Ok(())
}

/// `ssl-load-extra-del-ext`, `ssl-skip-self-issued-ca`
pub(crate) fn tls_load_flag(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)?;
    let load = &mut cx.config.global.tls.load;
    match line.text(0) {
        "ssl-load-extra-del-ext" => load.delete_extension = true,
        _ => load.skip_self_issued = true,
    }
    Ok(())
}

/// `crt-watch`, which is ours.
pub(crate) fn crt_watch(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.tls.watch = match line.text(1) {
        "on" => true,
        "off" => false,
        _ => return Err(fail(line, 1, "'crt-watch' expects 'off' or 'on' as argument.")),
    };
    Ok(())
}

/// `ssl-load-errors`, which is ours.
pub(crate) fn load_errors(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.tls.load_errors = match line.text(1) {
        "fail" => LoadErrors::Fail,
        "warn" => LoadErrors::Warn,
        "strict" => LoadErrors::Strict,
        _ => {
            return Err(fail(line, 1, "'ssl-load-errors' expects 'fail', 'warn' or 'strict' as argument."));
        }
    };
    Ok(())
}

/// `issuers-chain-path`
pub(crate) fn issuers_chain_path(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let expects = "global statement 'issuers-chain-path' expects a directory path as an argument.";
    if line.text(1).is_empty() {
        return Err(fail(line, 1, expects));
    }
    let path: Arc<str> = cx.name(line.text(1));
    cx.config.global.tls.issuers = Some((path, line.span_at(1)));
    Ok(())
}

/// `ssl-server-verify`
pub(crate) fn verify_servers(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.tls.verify_servers = match line.text(1) {
        "none" => false,
        "required" => true,
        "" => return Err(fail(line, 1, "'ssl-server-verify' expects an integer argument.")),
        _ => return Err(fail(line, 1, "'ssl-server-verify' expects 'none' or 'required' as argument.")),
    };
    Ok(())
}

/// `tune.ssl.*` that are numbers, and those that are of no effect here.
pub(crate) fn tls_number(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    if line.text(1).is_empty() {
        return Err(fail(line, 1, format!("'{name}' expects an integer argument.")));
    }
    let value = lenient(cx, line, 1);
    if value < 0 {
        return Err(fail(line, 1, format!("'{name}' expects a positive numeric value.")));
    }
    let at_most = |greatest: i64| value.min(greatest) as usize;
    match name {
        "tune.ssl.cachesize" => cx.config.global.tls.cache_size = at_most(CACHE_MAX),
        "tune.ssl.ssl-ctx-cache-size" => cx.config.global.tls.made_max = at_most(MADE_MAX),
        "tune.ssl.maxrecord" => cx.config.global.tls.record_max = at_most(RECORD_MAX),
        "tune.ssl.hard-maxrecord" => cx.config.global.tls.record_hard_max = at_most(RECORD_MAX),
        "tune.ssl.default-dh-param" => {
            if value < 1024 {
                return Err(fail(line, 1, "'tune.ssl.default-dh-param' expects a value >= 1024."));
            }
            let message = "'tune.ssl.default-dh-param' has no effect: no key is agreed on in finite fields, clients get \
                           elliptic curves ('curves')";
            cx.warn(line, 0, message);
        }
        _ => {
            if name == "tune.ssl.capture-cipherlist-size" {
                cx.warn(line, 0, format!("'{name}' is deprecated and will be removed in version 2.7. Please use 'tune.ssl.capture-buffer-size' instead."));
            }
            cx.config.global.tls.capture = at_most(CAPTURE_MAX);
        }
    }
    Ok(())
}

/// `tune.ssl.lifetime`
pub(crate) fn tls_lifetime(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.text(1).is_empty() {
        return Err(fail(
            line,
            1,
            "'tune.ssl.lifetime' expects ssl sessions <lifetime> in seconds as argument.",
        ));
    }
    let seconds = time(cx, line, 1, TimeUnit::Seconds, "tune.ssl.lifetime")?;
    cx.config.global.tls.lifetime_s = u32::try_from(seconds).unwrap_or(u32::MAX);
    Ok(())
}

/// `tune.ssl.keylog`
pub(crate) fn tls_keylog(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    cx.config.global.tls.keylog = match line.text(1) {
        "on" => true,
        "off" => false,
        other => {
            let message = format!("'tune.ssl.keylog' expects either 'on' or 'off' but got '{other}'.");
            return Err(fail(line, 1, message));
        }
    };
    Ok(())
}

/// `ocsp-update.*`, which is about OCSP responses that are fetched.
pub(crate) fn ocsp_update(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let name = line.text(0);
    match name {
        "ocsp-update.mode" | "ocsp-update.disable" => {
            let on = match line.text(1) {
                "on" => true,
                "off" => false,
                _ => {
                    cx.warn(line, 1, format!("'{name}' : expecting <on|off>"));
                    return Ok(());
                }
            };
            let updates = &mut cx.config.global.tls.updates;
            *if name == "ocsp-update.mode" { &mut updates.on } else { &mut updates.disabled } = on;
        }
        "ocsp-update.httpproxy" => {
            let prefix = "ocsp-update: Failed to parse destination address in ";
            let options = AddressOptions { port: true, ..AddressOptions::HOST };
            match crate::resolve::address(cx, line, 1, &options, prefix)? {
                Address::Ip { ip, port, .. } => {
                    let port = if let PortSpec::Fixed(port) = port { port } else { 0 };
                    let port = if port == 0 { 80 } else { port };
                    cx.config.global.tls.update_proxy = Some(SocketAddr::new(ip, port));
                }
                other => {
                    let why = "responders are asked over TCP";
                    return Err(crate::keyword::not_supported(line, 1, other.family_name(), why));
                }
            }
        }
        _ => {
            if line.text(1).is_empty() {
                return Err(fail(line, 1, format!("'{name}' expects an integer argument.")));
            }
            let seconds = lenient(cx, line, 1);
            if seconds < 0 {
                return Err(fail(line, 1, format!("'{name}' expects a positive numeric value.")));
            }
            let updates = &mut cx.config.global.tls.updates;
            if name.ends_with("maxdelay") {
                updates.max_s = seconds;
            } else {
                updates.min_s = seconds;
            }
            if updates.max_s < updates.min_s {
                let other = if name.ends_with("maxdelay") {
                    "lower than tune.ssl.ocsp-update.mindelay"
                } else {
                    "higher than tune.ssl.ocsp-update.maxdelay"
                };
                return Err(fail(line, 1, format!("'{name}' can not be {other}.")));
            }
        }
    }
    Ok(())
}

/// `jwt.decrypt_alg_list`, `jwt.decrypt_enc_list`
pub(crate) fn token_algorithms(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    let tokens = &mut cx.config.global.tokens;
    let read = match line.text(0) {
        "jwt.decrypt_alg_list" => tokens.allow_algorithms(line.text(1)),
        _ => tokens.allow_encryptions(line.text(1)),
    };
    read.map_err(|unknown| fail(line, 1, format!("Unknown algorithm/encoding {unknown}")))
}

/// `ssl-dh-param-file`, which cannot have an effect.
pub(crate) fn tls_dh_file(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.text(1).is_empty() {
        return Err(fail(
            line,
            1,
            "global statement 'ssl-dh-param-file' expects a file path as an argument.",
        ));
    }
    cx.warn(
        line,
        0,
        "'ssl-dh-param-file' has no effect: no key is agreed on in finite fields, clients get elliptic curves ('curves')",
    );
    Ok(())
}

/// `ssl-security-level`: what is accepted at all has 112 bits of security, which is level 2.
pub(crate) fn tls_security_level(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.text(1).is_empty() {
        return Err(fail(line, 1, "'ssl-security-level' : missing value"));
    }
    match lenient(cx, line, 1) {
        2 => {}
        0 | 1 => cx.warn(
            line,
            1,
            "'ssl-security-level' is 2 at least: keys and digests of less than 112 bits of security are not accepted",
        ),
        3..=5 => {
            return Err(crate::keyword::not_supported(
                line,
                1,
                &format!("ssl-security-level {}", line.text(1)),
                "level 2 is what is enforced; choose 'ciphers', 'curves' and 'sigalgs' instead",
            ));
        }
        _ => return Err(fail(line, 1, "'ssl-security-level' : expects a value between 0 and 5")),
    }
    Ok(())
}

/// `ktls`: without it the records are made here, as they are by the reference where the kernel has none of its own.
pub(crate) fn ktls<T>(cx: &mut Cx<'_>, line: &Line, at: usize, _: &mut T) -> Took {
    cx.experimental_used = true;
    if !cx.config.global.expose_experimental {
        let message =
            "'ktls' directive is experimental, must be allowed via a global 'expose-experimental-directives'";
        return Err(fail(line, at, message));
    }
    match line.text(at + 1) {
        "off" => {}
        "on" => cx.warn(line, at, "'ktls on' has no effect: the kernel's TLS is not used"),
        "" => return Err(fail(line, at, "'ktls' expects \"on\" or \"off\" as an argument")),
        other => {
            let message = format!("'ktls' expects \"on\" or \"off\" as an argument, got '{other}'");
            return Err(fail(line, at + 1, message));
        }
    }
    Ok(2)
}

/// `noktls`: the kernel's TLS is never used.
pub(crate) fn noktls(_: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 0)
}

/// `tune.ssl.keyupdate-rate-limit`
pub(crate) fn tls_key_updates(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    if line.text(1).is_empty() {
        let message = "'tune.ssl.keyupdate-rate-limit' expects a number (KeyUpdates/s, 0 to disable).";
        return Err(fail(line, 1, message));
    }
    let limit = u32::try_from(lenient(cx, line, 1));
    let limit =
        limit.map_err(|_| fail(line, 1, "'tune.ssl.keyupdate-rate-limit' expects a positive number."))?;
    cx.config.global.tls.key_updates_max = limit;
    Ok(())
}

/// `tune.ssl.certificate-compression`: the library's default is not to compress, so both words come to the same.
pub(crate) fn tls_compression(_: &mut Cx<'_>, line: &Line) -> Outcome {
    at_most(line, 1, 1)?;
    match line.text(1) {
        "auto" | "off" => Ok(()),
        _ => Err(fail(line, 1, "'tune.ssl.certificate-compression' expects either 'auto' or 'off'.")),
    }
}

/// `ssl-provider`: those that only bring algorithms are not needed. One that promises more, as `fips` does, is refused.
pub(crate) fn tls_provider(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    match line.text(1) {
        "" => {
            let message =
                "global statement 'ssl-provider' expects a valid engine provider name as an argument.";
            Err(fail(line, 1, message))
        }
        "default" | "base" | "legacy" => tls_no_effect(cx, line),
        other => Err(crate::keyword::not_supported(
            line,
            1,
            &format!("ssl-provider {other}"),
            "the TLS library has no providers",
        )),
    }
}

/// Keywords about parts of OpenSSL that the library does not have, and whose absence takes nothing from anybody.
pub(crate) fn tls_no_effect(cx: &mut Cx<'_>, line: &Line) -> Outcome {
    let name = line.text(0);
    let (words_max, why) = match name {
        "ssl-mode-async" => (0, "no key is in an engine that could be waited for"),
        "tune.ssl.force-private-cache" => (0, "one process serves, and shares its sessions with no other"),
        _ => (1, "the TLS library has its algorithms built in"),
    };
    at_most(line, 1, words_max)?;
    if name == "ssl-provider-path" && line.text(1).is_empty() {
        let message = "global statement 'ssl-provider-path' expects a directory path as an argument.";
        return Err(fail(line, 1, message));
    }
    cx.warn(line, 0, format!("'{name}' has no effect: {why}"));
    Ok(())
}
