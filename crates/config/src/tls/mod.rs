//! TLS: the words of `bind` and `server` lines, the keywords of `global`, `crt-store` sections, and, once all is read, the
//! files that they name.

mod global;
mod load;
mod passphrase;
mod store;
mod wanted;

use std::sync::Arc;

use thalweg_syntax::Line;
use thalweg_tls::options::words::Read;

use crate::build::{Cx, ServerDraft};
use crate::keyword::fail;
use crate::model::{Bind, BindTls, CertificateSource, NamedFile, ServerTls, SourceKind};
use crate::sample_env::{under, words};
use crate::setter::{Took, value};

pub(crate) use global::*;
pub(crate) use load::{asks_by_expression, load, load_servers, uses_tls};
pub(crate) use passphrase::tls_passphrase;
pub(crate) use store::{FrontendCertificate, StoreDraft, close, line, open, proxy_certificate};
pub(crate) use wanted::check_protocols;

/// A path of a line, below the directory that a keyword of `global` names, or else below `default-path`. What begins with
/// `@` is in a store.
fn resolved(cx: &mut Cx<'_>, line: &Line, index: usize, base: Option<Arc<str>>) -> Arc<str> {
    let path = line.text(index);
    if path.starts_with(['/', '@']) {
        return cx.name(path);
    }
    let full = match base {
        Some(base) => format!("{base}/{path}"),
        None => under(cx.base_directory(line.span_at(index)).as_deref(), path).into_owned(),
    };
    cx.name(&full)
}

fn crt_base(cx: &Cx<'_>) -> Option<Arc<str>> {
    cx.config.global.tls.crt_base.clone()
}

fn tls_of(bind: &mut Bind) -> &mut BindTls {
    bind.tls.get_or_insert_default()
}

/// A word of a `bind` line that says how TLS is spoken.
pub(crate) fn bind_word(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let name = line.text(at);
    let tls = tls_of(bind);
    let taken = match tls.words.read(name, &words(line, at + 1)) {
        Ok(Read::Taken(taken)) => taken,
        Ok(Read::NotMine) => return Err(fail(line, at, format!("'{name}' is not supported"))),
        Err(message) => return Err(fail(line, at + 1, message)),
    };
    let base = cx.config.global.tls.ca_base.clone();
    let (word, place) = match name {
        "ca-file" => ("ca-file", &mut tls.words.ca_file),
        "ca-verify-file" => ("ca-verify-file", &mut tls.words.ca_verify_file),
        "crl-file" => ("crl-file", &mut tls.words.crl_file),
        _ => return Ok(1 + taken),
    };
    let path = resolved(cx, line, at + 1, base);
    *place = Some(path.to_string());
    tls.files.push(NamedFile { word, path, span: line.span_at(at + 1) });
    Ok(1 + taken)
}

/// `crt`, `default-crt` and `crt-list` of a `bind` line.
pub(crate) fn bind_source(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    let name = line.text(at);
    let kind = match name {
        "crt" => SourceKind::Certificate,
        "default-crt" => SourceKind::Default,
        _ => SourceKind::List,
    };
    value(line, at, &format!("'{name}' : missing certificate location"))?;
    // A list is no certificate: the reference looks for it where the program runs.
    let base = if kind == SourceKind::List { None } else { crt_base(cx) };
    let path = resolved(cx, line, at + 1, base);
    tls_of(bind).sources.push(CertificateSource { kind, path, span: line.span_at(at + 1) });
    Ok(2)
}

/// `ssl` of a `bind` line.
pub(crate) fn bind_ssl(cx: &mut Cx<'_>, _: &Line, _: usize, bind: &mut Bind) -> Took {
    let tls = tls_of(bind);
    tls.ssl = true;
    tls.below = cx.config.global.tls.bind.clone();
    Ok(1)
}

/// `generate-certificates`, `ca-sign-file`, `ca-sign-pass`
pub(crate) fn generate(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    match line.text(at) {
        "generate-certificates" => {
            tls_of(bind).generates = true;
            Ok(1)
        }
        "ca-sign-file" => {
            value(line, at, "'ca-sign-file' : missing CAfile path")?;
            let base = cx.config.global.tls.ca_base.clone();
            tls_of(bind).sign_file = Some(resolved(cx, line, at + 1, base));
            Ok(2)
        }
        _ => {
            value(line, at, "'ca-sign-pass' : missing CAkey password")?;
            tls_of(bind).sign_pass = Some(line.text(at + 1).into());
            Ok(2)
        }
    }
}

/// `tls-ticket-keys`
pub(crate) fn ticket_keys(cx: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    value(line, at, "'tls-ticket-keys' : missing TLS ticket keys file path")?;
    let path = resolved(cx, line, at + 1, None);
    tls_of(bind).ticket_keys = Some((path, line.span_at(at + 1)));
    Ok(2)
}

fn tls_to(draft: &mut ServerDraft) -> &mut ServerTls {
    Arc::make_mut(draft.server.tls.get_or_insert_default())
}

/// A word of a `server` line that says how TLS is spoken.
pub(crate) fn server_word(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let name = line.text(at);
    let tls = tls_to(draft);
    let taken = match tls.words.read(name, &words(line, at + 1)) {
        Ok(Read::Taken(taken)) => taken,
        Ok(Read::NotMine) => return Err(fail(line, at, format!("'{name}' is not supported"))),
        // The caller ends the sentence.
        Err(message) => return Err(fail(line, at + 1, message.trim_end_matches('.'))),
    };
    let (word, place, base) = match name {
        "ca-file" => ("ca-file", &mut tls.words.ca_file, cx.config.global.tls.ca_base.clone()),
        "crl-file" => ("crl-file", &mut tls.words.crl_file, cx.config.global.tls.ca_base.clone()),
        "crt" => ("crt", &mut tls.words.certificate, crt_base(cx)),
        "ssl" | "check-ssl" => {
            tls.below.get_or_insert_with(|| cx.config.global.tls.server.clone());
            return Ok(1 + taken);
        }
        "sni" => {
            tls.sni_span = Some(line.span_at(at + 1));
            return Ok(1 + taken);
        }
        _ => return Ok(1 + taken),
    };
    let path = resolved(cx, line, at + 1, base);
    *place = Some(path.to_string());
    tls.files.retain(|file| file.word != word);
    tls.files.push(NamedFile { word, path, span: line.span_at(at + 1) });
    Ok(1 + taken)
}
