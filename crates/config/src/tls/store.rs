//! `crt-store` sections, and `ssl-f-use`, which names certificates in the words of their `load`.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Line, Span, did_you_mean};
use thalweg_tls::certificate::Parts;
use thalweg_tls::crt_list::{self, Load};
use thalweg_tls::live::Keywords;
use thalweg_tls::x509::make::NewKey;

use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::sample_env::words;

/// A `crt-store` being read, and what it comes to.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreDraft {
    name: Arc<str>,
    crt_base: Option<Arc<str>>,
    key_base: Option<Arc<str>>,
    pub loads: Vec<Loaded>,
}

/// One `load` line.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    /// What configurations and the CLI call the certificate.
    pub name: String,
    pub parts: Parts,
    pub keywords: Keywords,
    /// The key of the certificate that is made if there is none.
    pub made: Option<NewKey>,
    pub span: Span,
}

/// A line of `ssl-f-use`.
#[derive(Clone, Debug)]
pub(crate) struct FrontendCertificate {
    pub line: crt_list::Line,
    pub span: Span,
}

pub(crate) fn open(cx: &mut Cx<'_>, line: &Line) -> Result<StoreDraft, Box<Diagnostic>> {
    if line.words.len() > 2 {
        return Err(fail(line, 2, "'crt-store' section only supports a <name> argument."));
    }
    let name = cx.name(line.text(1));
    Ok(StoreDraft { name, ..StoreDraft::default() })
}

pub(crate) fn line(cx: &mut Cx<'_>, draft: &mut StoreDraft, line: &Line) -> Outcome {
    let word = line.text(0);
    match word {
        "crt-base" | "key-base" => {
            at_most(line, 1, 1)?;
            let place = if word == "crt-base" { &mut draft.crt_base } else { &mut draft.key_base };
            if line.text(1).is_empty() {
                return Err(fail(line, 1, format!("'{word}' expects a directory path as an argument.")));
            }
            *place = Some(cx.name(line.text(1).trim_end_matches('/')));
            Ok(())
        }
        "load" => load(cx, draft, line),
        other => {
            let near = did_you_mean(other, ["load", "crt-base", "key-base"]);
            Err(crate::global::unknown(line, "crt-store", near))
        }
    }
}

fn load(cx: &mut Cx<'_>, draft: &mut StoreDraft, line: &Line) -> Outcome {
    let read = Load::parse(&words(line, 1)).map_err(|message| fail(line, 1, message))?;
    let global = &cx.config.global.tls;
    let crt_base = draft.crt_base.clone().or(global.crt_base.clone());
    let key_base = draft.key_base.clone().or(global.key_base.clone());
    let span = line.span_at(1);
    let below = |base: &Option<Arc<str>>, path: &str| super::load::below(cx, base.as_deref(), path, span);
    let keywords = Keywords::of(&read.parts, read.ocsp_update, read.jwt);
    let parts = Parts {
        certificate: below(&crt_base, &read.parts.certificate),
        key: read.parts.key.as_ref().map(|path| below(&key_base, path)),
        ..read.parts.clone()
    };
    // In the store without a name a certificate is called by its file, as if it had been loaded by its `bind` line.
    let name = match &read.alias {
        None if draft.name.is_empty() => parts.certificate.clone(),
        _ => read.name(&draft.name),
    };
    if draft.loads.iter().any(|known| known.name == name) {
        return Err(fail(line, 1, format!("'load' in section 'crt-store': '{name}' is already defined.")));
    }
    draft.loads.push(Loaded { name, parts, keywords, made: read.made, span });
    Ok(())
}

pub(crate) fn close(cx: &mut Cx<'_>, draft: StoreDraft) {
    cx.stores.push(draft);
}

/// `ssl-f-use`
pub(crate) fn proxy_certificate(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    crate::proxy::not_in_defaults(b, line)?;
    b.needs_frontend(cx, line, "ssl-f-use", "");
    let mut read = crt_list::of_words(&words(line, 1), line.number as usize)
        .map_err(|message| fail(line, 1, message))?;
    let base = cx.config.global.tls.crt_base.clone();
    read.path = super::load::below(cx, base.as_deref(), &read.path, line.span_at(1));
    b.certificates.push(FrontendCertificate { line: read, span: line.span_at(1) });
    Ok(())
}
