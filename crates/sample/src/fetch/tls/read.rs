//! What the fetches of TLS read: facts of a session, certificates, ClientHellos.

use thalweg_tls::facts::{Facts, HelloFacts, cipher_names, without_grease};
use thalweg_tls::x509::{Certificate, name};

use crate::args::Args;
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::facts::TlsFacts;
use crate::value::{Sample, Text};

/// Which connection.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Client,
    Server,
}

/// Whose certificate: the client's, the server's, or the one that was shown to the client.
#[derive(Clone, Copy)]
pub(super) enum Whose {
    Client,
    Server,
    Own,
}

pub(super) fn tls<'c>(cx: &'c Ctx<'_>, side: Side) -> Option<&'c TlsFacts> {
    match side {
        Side::Client => cx.session.rare().tls.as_deref(),
        Side::Server => cx.stream.as_ref()?.bc_tls.as_deref(),
    }
}

pub(super) fn known<'c>(cx: &'c Ctx<'_>, side: Side) -> Option<&'c Facts> {
    tls(cx, side).map(|tls| &tls.known)
}

/// What is known of an established connection, or of one that came far enough to know.
pub(super) fn agreed<'c>(cx: &'c Ctx<'_>, side: Side) -> Option<&'c Facts> {
    known(cx, side).filter(|known| known.version != 0)
}

pub(super) fn certificate<'c>(cx: &'c Ctx<'_>, whose: Whose) -> Option<&'c Certificate> {
    match whose {
        Whose::Client => known(cx, Side::Client)?.peer_certificate().map(|one| &**one),
        Whose::Server => known(cx, Side::Server)?.peer_certificate().map(|one| &**one),
        Whose::Own => known(cx, Side::Client)?.own.as_deref(),
    }
}

pub(super) fn hello<'c>(cx: &'c Ctx<'_>) -> Option<&'c HelloFacts> {
    known(cx, Side::Client)?.hello.as_deref()
}

pub(super) fn bool(value: bool) -> Option<Sample> {
    Some(Sample::bool(value))
}

pub(super) fn int(value: impl Into<i64>) -> Option<Sample> {
    Some(Sample::int(value.into()))
}

pub(super) fn word(value: &'static str) -> Option<Sample> {
    (!value.is_empty()).then(|| Sample::str(Text::Static(value.as_bytes())))
}

/// Keeps bytes that were found or made.
pub(super) fn kept(cx: &mut Ctx<'_>, bytes: Option<Vec<u8>>, make: fn(Text) -> Sample) -> Option<Sample> {
    cx.store(&bytes?).map(make)
}

pub(super) fn text(cx: &mut Ctx<'_>, bytes: Option<Vec<u8>>) -> Option<Sample> {
    kept(cx, bytes, Sample::str)
}

pub(super) fn binary(cx: &mut Ctx<'_>, bytes: Option<Vec<u8>>) -> Option<Sample> {
    kept(cx, bytes, Sample::bin)
}

/// The error of a connection as OpenSSL numbers it: the library's number is 20.
pub(super) fn error(cx: &Ctx<'_>, side: Side) -> Option<Sample> {
    let failure = tls(cx, side)?.failure.as_ref();
    int(failure.map_or(0, |failure| (20 << 23) | i64::from(failure.reason())))
}

pub(super) fn error_text(cx: &mut Ctx<'_>, side: Side) -> Option<Sample> {
    let words = tls(cx, side)?.failure.as_ref().map(|failure| failure.text().into_bytes());
    text(cx, words)
}

/// A secret in hexadecimal, as key logs have it.
pub(super) fn secret(cx: &mut Ctx<'_>, side: Side, label: &str) -> Option<Sample> {
    let hex = known(cx, side)?
        .secret(label)
        .map(|secret| secret.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect());
    text(cx, hex)
}

/// A name, one of its entries, or the name in the form of RFC 2253, by the arguments. What has a zero in it is none: some
/// read no further.
pub(super) fn distinguished(name: &[u8], args: &Args) -> Option<Vec<u8>> {
    let entry = args.str(0).filter(|entry| !entry.is_empty());
    let found = match entry {
        Some(entry) => {
            let occurrence = args.int(1).unwrap_or(1).clamp(i64::from(i32::MIN) + 1, i64::from(i32::MAX));
            name::entry(name, entry, occurrence as i32)?.to_vec()
        }
        None if args.str(2).is_some_and(|format| !format.is_empty()) => name::rfc2253(name).into_bytes(),
        None => name::oneline(name),
    };
    (!found.is_empty() && !found.contains(&0)).then_some(found)
}

pub(super) fn check_dn(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    match args.str(2) {
        None | Some(b"" | b"rfc2253") => Ok(()),
        Some(_) => Err("only rfc2253 is supported or empty string".to_owned()),
    }
}

pub(super) fn subject(cx: &mut Ctx<'_>, args: &Args, whose: Whose) -> Option<Sample> {
    let name = certificate(cx, whose).and_then(|one| distinguished(one.subject(), args));
    text(cx, name)
}

pub(super) fn issuer(cx: &mut Ctx<'_>, args: &Args, whose: Whose) -> Option<Sample> {
    let name = certificate(cx, whose).and_then(|one| distinguished(one.issuer(), args));
    text(cx, name)
}

/// The root above a client's certificate: the issuer of the last one that was sent, if the client was believed.
pub(super) fn root(cx: &mut Ctx<'_>, args: &Args) -> Option<Sample> {
    let known = known(cx, Side::Client)?;
    let believed = known.verdict.fatal.is_none();
    let root = known.root.as_ref().filter(|_| believed)?;
    let name = distinguished(root.subject(), args);
    text(cx, name)
}

pub(super) fn policies(cx: &mut Ctx<'_>, args: &Args) -> Option<Sample> {
    let found = certificate(cx, Whose::Client)?.policies();
    let listed = match args.str(0).filter(|wanted| !wanted.is_empty()) {
        Some(wanted) => found.into_iter().find(|policy| policy.as_bytes() == wanted),
        None => Some(found.join(", ")).filter(|list| !list.is_empty()),
    };
    text(cx, listed.map(String::into_bytes))
}

/// A list of two-byte values of the ClientHello, without those that clients mix in at random if the argument is 1.
pub(super) fn list(cx: &Ctx<'_>, args: &Args, of: fn(&HelloFacts) -> &Vec<u8>) -> Option<Vec<u8>> {
    let found = of(hello(cx)?);
    let found = if args.int(0) == Some(1) { without_grease(found) } else { found.clone() };
    (!found.is_empty()).then_some(found)
}

pub(super) fn cipher_text(cx: &mut Ctx<'_>, args: &Args) -> Option<Sample> {
    let names = list(cx, args, |hello| &hello.ciphers).map(|list| cipher_names(&list).into_bytes());
    text(cx, names)
}
