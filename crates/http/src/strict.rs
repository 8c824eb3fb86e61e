//! What `option http-strict` refuses beyond what is always refused.
//!
//! The RFCs let a recipient repair much of what a sender must not send, and compatibility asks for it. Each repair is
//! a reading, and the next hop may have another one. Here nothing is read kindly: what breaks a MUST or the grammar
//! is a [`Violation`]. Line ends, foldings and white space are the parser's business (`thalweg-h1`), all that can be
//! told from the parsed head is here.

use crate::authority;
use crate::head::Head;
use crate::header_id::HeaderId;
use crate::method::Method;
use crate::semantics::{Violation, ViolationKind};
use crate::uri::{self, Form};

fn violation<T>(kind: ViolationKind, offset: u32) -> Result<T, Violation> {
    Err(Violation { kind, offset })
}

/// Judges a request as it was received, before anything is taken out of it.
pub(crate) fn request(head: &Head) -> Result<(), Violation> {
    fields(head)?;
    let target = head.target_span().off;
    if head.method() == Method::Connect {
        // No configuration makes tunnels: it would reach the server as a request among others, and what follows it
        // would not be read as HTTP any more.
        return violation(ViolationKind::NoTunnel, head.method_span().off);
    }
    let uri = uri::split(head.target());
    // User information is to be treated as an error (RFC 9110 section 4.2.4), as is an empty host (section 4.2.1).
    if uri.form == Form::Absolute && !authority::is_exact_host(uri.authority) || is_overlong(head.target()) {
        return violation(ViolationKind::BadTarget, target);
    }
    host(head)?;
    framing(head)
}

/// Judges a response as it was received.
pub(crate) fn response(head: &Head) -> Result<(), Violation> {
    fields(head)?;
    let reason = head.reason_span();
    if head.bytes(reason).iter().any(|b| is_control(*b)) {
        return violation(ViolationKind::ControlCharacter, reason.off);
    }
    framing(head)
}

/// Field values hold no control characters but the tab (RFC 9110 section 5.5).
pub(crate) fn fields(head: &Head) -> Result<(), Violation> {
    for field in head.fields() {
        if let Some(at) = field.value.iter().position(|b| is_control(*b)) {
            return violation(ViolationKind::ControlCharacter, field.value_span.off + at as u32);
        }
    }
    Ok(())
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 && byte != b'\t' || byte == 0x7f
}

/// Exactly one `Host` from HTTP/1.1 on, at most one before, with a host in it (RFC 9112 section 3.2).
fn host(head: &Head) -> Result<(), Violation> {
    let Some(first) = head.get(HeaderId::Host) else {
        return match head.version().is_11_or_later() {
            true => violation(ViolationKind::MissingHost, head.target_span().off),
            false => Ok(()),
        };
    };
    if let Some(again) = head.get_from(HeaderId::Host, first.index + 1) {
        return violation(ViolationKind::RepeatedHost, again.value_span.off);
    }
    if !authority::is_exact_host(first.value) {
        return violation(ViolationKind::BadHost, first.value_span.off);
    }
    Ok(())
}

/// One length or one coding, and no coding before HTTP/1.1 (RFC 9112 sections 6.1 and 6.3).
fn framing(head: &Head) -> Result<(), Violation> {
    let coding = head.get(HeaderId::TransferEncoding);
    if let Some(length) = head.get(HeaderId::ContentLength) {
        if coding.is_some() {
            return violation(ViolationKind::LengthAndCoding, length.value_span.off);
        }
        let again = head.get_from(HeaderId::ContentLength, length.index + 1);
        if again.is_some() || length.value.contains(&b',') {
            let offset = again.map_or(length.value_span.off, |again| again.value_span.off);
            return violation(ViolationKind::RepeatedContentLength, offset);
        }
    }
    match coding {
        Some(coding) if !head.version().is_11_or_later() => {
            violation(ViolationKind::BadTransferEncoding, coding.value_span.off)
        }
        _ => Ok(()),
    }
}

/// Whether a target hides a character behind a longer UTF-8 form than it needs, percent-encoded: `%c0%af` is a slash
/// to some decoders (RFC 3629 section 10).
fn is_overlong(target: &[u8]) -> bool {
    let byte = |at: usize| {
        let [b'%', high, low] = target.get(at..at + 3)? else { return None };
        let digit = |b: &u8| char::from(*b).to_digit(16);
        Some(digit(high)? << 4 | digit(low)?)
    };
    memchr::memchr_iter(b'%', target).any(|at| match byte(at) {
        Some(0xc0 | 0xc1) => byte(at + 3).is_some_and(|b| b & 0xc0 == 0x80),
        Some(0xe0) => byte(at + 3).is_some_and(|b| b & 0xe0 == 0x80),
        Some(0xf0) => byte(at + 3).is_some_and(|b| b & 0xf0 == 0x80),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_forms_are_seen() {
        for (target, expected) in [
            ("/a%c0%afb", true),
            ("/%C1%bf", true),
            ("/%e0%80%af", true),
            ("/%f0%80%80%af", true),
            ("/%c3%a9%e0%a4%85%f0%9f%98%80", false),
            ("/%c0", false),
            ("/%c0%2f", false),
            ("/%c0af", false),
            ("/%", false),
            ("/%%c0%af", true),
        ] {
            assert_eq!(is_overlong(target.as_bytes()), expected, "{target}");
        }
    }
}
