//! JSON Web Tokens in compact form (RFC 7515): reading their parts, verifying their signature.

use super::ConverterDef;
use super::digest::Algorithm as Digest;
use super::encoding::{base64_decode, base64url_decode};
use super::json_query::{QUERY, check_query, query};
use super::shape::{entry, text_of, var_text};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value};
use crate::vars::VarRef;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED,
    RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
    RSA_PKCS1_2048_8192_SHA384, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};
use std::ops::Range;
use std::sync::Arc;
use thalweg_tls::live::TokenCertificate;

const OPTIONAL_QUERY: ArgSpec = ArgSpec::new(0, QUERY.kinds);

/// The converters of this family.
pub static JWT: &[ConverterDef] = &[
    entry(
        "jwt_header_query",
        (Type::Bin, Type::Any),
        OPTIONAL_QUERY,
        Some(check_part),
        |a, s, c| query_part(a, s, c, 0),
        "A value out of the header of a token, by path.",
    ),
    entry(
        "jwt_payload_query",
        (Type::Bin, Type::Any),
        OPTIONAL_QUERY,
        Some(check_part),
        |a, s, c| query_part(a, s, c, 1),
        "A value out of the payload of a token, by path.",
    ),
    entry(
        "jwt_verify",
        (Type::Bin, Type::Int),
        ArgSpec::new(2, &[ArgKind::Str, ArgKind::Str]),
        Some(check_verify),
        verify,
        "1 when the signature of a token is right, 0 when it is wrong, negative for errors.",
    ),
    entry(
        "jwt_verify_cert",
        (Type::Bin, Type::Int),
        ArgSpec::new(2, &[ArgKind::Str, ArgKind::Str]),
        Some(check_verify_by_certificate),
        verify,
        "The same by the key of a certificate.",
    ),
];

fn check_part(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    if text_of(args, 0).is_empty() && text_of(args, 1).is_empty() {
        return Ok(());
    }
    check_query(args, env)
}

/// Part `i` of a token.
fn part(token: &[u8], i: usize) -> Option<Range<usize>> {
    let mut start = 0;
    for _ in 0..i {
        start += memchr::memchr(b'.', &token[start..])? + 1;
    }
    let len = memchr::memchr(b'.', &token[start..]).unwrap_or(token.len() - start);
    Some(start..start + len)
}

fn query_part(args: &Args, sample: &mut Sample, cx: &mut Ctx, i: usize) -> bool {
    let Some(text) = sample.value.text() else { return false };
    let json = cx.map_bytes(text, |token, out| {
        part(token, i).is_some_and(|range| !range.is_empty() && base64url_decode(&token[range], out))
    });
    json.is_some_and(|json| query(args, json, sample, cx))
}

const UNKNOWN_ALGORITHM: i64 = -1;
const UNMANAGED_ALGORITHM: i64 = -2;
const INVALID_TOKEN: i64 = -3;
const UNKNOWN_KEY: i64 = -5;
const UNAVAILABLE_CERTIFICATE: i64 = -7;

/// How a token is signed (RFC 7518 section 3.1).
#[derive(Clone, Copy)]
enum Method {
    None,
    Hmac(Digest),
    Public(&'static dyn VerificationAlgorithm),
    /// ECDSA, with signatures of so many bytes.
    Curve(&'static dyn VerificationAlgorithm),
}

fn method(name: &[u8]) -> Option<Method> {
    Some(match name {
        b"none" => Method::None,
        b"HS256" => Method::Hmac(Digest::SHA256),
        b"HS384" => Method::Hmac(Digest::SHA384),
        b"HS512" => Method::Hmac(Digest::SHA512),
        b"RS256" => Method::Public(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
        b"RS384" => Method::Public(&RSA_PKCS1_2048_8192_SHA384),
        b"RS512" => Method::Public(&RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
        b"ES256" => Method::Curve(&ECDSA_P256_SHA256_FIXED),
        b"ES384" => Method::Curve(&ECDSA_P384_SHA384_FIXED),
        b"ES512" => Method::Curve(&ECDSA_P521_SHA512_FIXED),
        b"PS256" => Method::Public(&RSA_PSS_2048_8192_SHA256),
        b"PS384" => Method::Public(&RSA_PSS_2048_8192_SHA384),
        b"PS512" => Method::Public(&RSA_PSS_2048_8192_SHA512),
        _ => return None,
    })
}

enum MethodArg {
    Known(Method),
    Var(VarRef),
}

enum KeyArg {
    /// A secret, and the public key in the file of that name, if there is one and the algorithm may ask for it.
    Known {
        secret: Box<[u8]>,
        public: Option<Arc<[u8]>>,
    },
    Var(VarRef),
    /// A certificate of this name.
    Certificate(Box<[u8]>),
    /// A variable with the name of a certificate.
    CertificateVar(VarRef),
}

impl KeyArg {
    fn is_certificate(&self) -> bool {
        matches!(self, KeyArg::Certificate(_) | KeyArg::CertificateVar(_))
    }
}

fn variable(text: &[u8]) -> Option<VarRef> {
    VarRef::parse(std::str::from_utf8(text).ok()?).ok()
}

fn check_verify(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    let name = text_of(args, 0);
    let how = match (variable(name), method(name)) {
        (Some(var), _) => MethodArg::Var(var),
        (None, Some(method)) => MethodArg::Known(method),
        (None, None) => return Err(format!("unknown JWT algorithm: {}", String::from_utf8_lossy(name))),
    };
    let key = text_of(args, 1);
    let key = match variable(key) {
        Some(var) => KeyArg::Var(var),
        None => {
            let path = String::from_utf8_lossy(key);
            let is_secret = matches!(how, MethodArg::Known(Method::Hmac(_)));
            let read = |path: &str| env.names.read_file(path).ok().and_then(|pem| public_key(&pem));
            let public = if is_secret { None } else { read(&path) };
            if let MethodArg::Known(Method::Public(_) | Method::Curve(_)) = how
                && public.is_none()
            {
                return Err(format!("cannot load a public key from file '{path}'"));
            }
            if let Some(public) = &public {
                env.names.keep_token_key(&path, public);
            }
            KeyArg::Known { secret: key.into(), public }
        }
    };
    args.put(0, Arg::Compiled(Arc::new(how)));
    args.put(1, Arg::Compiled(Arc::new(key)));
    Ok(())
}

fn check_verify_by_certificate(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    let name = text_of(args, 0);
    let how = match (variable(name), method(name)) {
        (Some(var), _) => MethodArg::Var(var),
        (None, Some(Method::Hmac(_))) => {
            return Err("HMAC-signed tokens can't be processed by this converter".into());
        }
        (None, Some(method)) => MethodArg::Known(method),
        (None, None) => return Err(format!("unknown JWT algorithm: {}", String::from_utf8_lossy(name))),
    };
    let key = match certificate_argument(args, 1, env)? {
        (_, Some(var)) => KeyArg::CertificateVar(var),
        (name, None) => KeyArg::Certificate(name),
    };
    args.put(0, Arg::Compiled(Arc::new(how)));
    args.put(1, Arg::Compiled(Arc::new(key)));
    Ok(())
}

/// The name of a certificate, or the variable that has it.
pub(super) fn certificate_argument(
    args: &Args,
    i: usize,
    env: &mut CompileEnv,
) -> Result<(Box<[u8]>, Option<VarRef>), String> {
    let name = text_of(args, i);
    let text = String::from_utf8_lossy(name);
    match variable(name) {
        Some(var) => Ok((Box::default(), Some(var))),
        None if !name.is_empty() && env.names.certificate(&text) => Ok((name.into(), None)),
        None => Err(format!("unknown certificate {text}")),
    }
}

/// The first public key of a PEM file, in DER: SPKI or PKCS #1.
fn public_key(pem: &[u8]) -> Option<Arc<[u8]>> {
    let text = std::str::from_utf8(pem).ok()?;
    let body = ["PUBLIC KEY-----", "RSA PUBLIC KEY-----"].iter().find_map(|kind| {
        let (_, rest) = text.split_once(&format!("-----BEGIN {kind}"))?;
        Some(rest.split_once(&format!("-----END {kind}"))?.0)
    })?;
    let digits: Vec<u8> = body.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let mut memory = vec![0; digits.len()];
    let mut out = Out::new(&mut memory);
    base64_decode(&digits, &mut out).then(|| out.as_slice().into())
}

fn verify(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (Some(how), Some(key), Some(token)) =
        (args.compiled::<MethodArg>(0), args.compiled::<KeyArg>(1), sample.value.text())
    else {
        return false;
    };
    let method = match how {
        MethodArg::Known(method) => Some(*method),
        MethodArg::Var(var) => match var_text(cx, *var) {
            Some(text) => method(cx.text(text)),
            None => return false,
        },
    };
    let key_text = match key {
        KeyArg::Var(var) | KeyArg::CertificateVar(var) => match var_text(cx, *var) {
            Some(text) if !text.is_empty() => Some(text),
            _ => return false,
        },
        KeyArg::Known { secret, .. } if secret.is_empty() => return false,
        KeyArg::Known { .. } | KeyArg::Certificate(_) => None,
    };
    let Some(method) = method else {
        sample.value = Value::Int(UNKNOWN_ALGORITHM);
        return true;
    };
    // Decoded here, used below: the signature needs its own memory.
    let Some(signature) = cx.map_bytes(token, |token, out| {
        // Where the signature is not, nothing is decoded, which is found out below.
        signature_of(token).is_none_or(|range| base64url_decode(&token[range], out) || out.is_empty())
    }) else {
        return false;
    };
    let bytes = cx.text(token);
    let result = match signature_of(bytes) {
        None => INVALID_TOKEN,
        Some(range) if matches!(method, Method::None) => i64::from(range.is_empty()),
        Some(range) => {
            let signed = Signed { text: &bytes[..range.start - 1], signature: cx.text(signature) };
            signed.verify(method, key, key_text.map(|text| cx.text(text)), cx)
        }
    };
    sample.value = Value::Int(result);
    true
}

/// What was signed, and the signature.
struct Signed<'t> {
    text: &'t [u8],
    signature: &'t [u8],
}

impl Signed<'_> {
    /// 1 when the signature is right, 0 when it is wrong, negative for errors. `text` is what the variable holds that the key is
    /// given by, where it is.
    fn verify(&self, method: Method, key: &KeyArg, text: Option<&[u8]>, cx: &Ctx) -> i64 {
        match method {
            _ if self.signature.is_empty() => INVALID_TOKEN,
            Method::Hmac(_) if key.is_certificate() => UNMANAGED_ALGORITHM,
            Method::Hmac(digest) => {
                let secret = match (key, text) {
                    (_, Some(text)) => text,
                    (KeyArg::Known { secret, .. }, None) => secret,
                    // A variable without text was answered before: never is an empty secret one.
                    (KeyArg::Var(_) | KeyArg::Certificate(_) | KeyArg::CertificateVar(_), None) => {
                        return UNKNOWN_KEY;
                    }
                };
                let expected = digest.hmac(secret, &[self.text]);
                i64::from(verify_slices_are_equal(expected.as_slice(), self.signature).is_ok())
            }
            Method::Public(algorithm) | Method::Curve(algorithm) => {
                let is_curve = matches!(method, Method::Curve(_));
                self.verify_by_public_key(algorithm, is_curve, key, text, cx)
            }
            // Who does not sign needs no key.
            Method::None => INVALID_TOKEN,
        }
    }

    fn verify_by_public_key(
        &self,
        algorithm: &'static dyn VerificationAlgorithm,
        is_curve: bool,
        key: &KeyArg,
        text: Option<&[u8]>,
        cx: &Ctx,
    ) -> i64 {
        // Two numbers, one after the other (RFC 7518 section 3.4), which only halves can be: no DER.
        let is_malformed = is_curve && !self.signature.len().is_multiple_of(2);
        let check = |key: &[u8]| match UnparsedPublicKey::new(algorithm, key) {
            _ if is_malformed => INVALID_TOKEN,
            key => i64::from(key.verify(self.text, self.signature).is_ok()),
        };
        match (key, text) {
            (KeyArg::Certificate(_) | KeyArg::CertificateVar(_), _) => {
                let name = match key {
                    KeyArg::Certificate(name) => name,
                    _ => text.unwrap_or_default(),
                };
                match cx.world.token_certificate(name) {
                    TokenCertificate::Usable(credential) => check(credential.leaf().key_info()),
                    TokenCertificate::Unavailable => UNAVAILABLE_CERTIFICATE,
                    TokenCertificate::Unknown => UNKNOWN_KEY,
                }
            }
            (_, Some(text)) => {
                let key = cx.world.token_key(text);
                key.map_or(UNKNOWN_KEY, |key| check(&key))
            }
            (KeyArg::Known { public: Some(key), .. }, None) => check(key),
            (KeyArg::Known { public: None, .. } | KeyArg::Var(_), None) => UNKNOWN_KEY,
        }
    }
}

/// Where the third part of a token is, when there are three and none after it.
fn signature_of(token: &[u8]) -> Option<Range<usize>> {
    let range = part(token, 2)?;
    (range.end == token.len()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let check = |token: &str, i, expected: Option<&str>| {
            assert_eq!(part(token.as_bytes(), i).map(|range| &token[range]), expected, "{token}");
        };
        check("a.b.c", 0, Some("a"));
        check("a.b.c", 1, Some("b"));
        check("a.b.c", 2, Some("c"));
        check("a.b.c", 3, None);
        check("a..", 2, Some(""));
        check("", 0, Some(""));
        assert_eq!(signature_of(b"a.b.c"), Some(4..5));
        assert_eq!(signature_of(b"a.b.c.d"), None);
        assert_eq!(signature_of(b"a.b"), None);
    }

    #[test]
    fn public_keys_are_read_from_pem() {
        let check =
            |pem: &str, expected: Option<&[u8]>| assert_eq!(public_key(pem.as_bytes()).as_deref(), expected);
        check("x\n-----BEGIN PUBLIC KEY-----\naGVs\nbG8=\n-----END PUBLIC KEY-----\n", Some(b"hello"));
        check("-----BEGIN RSA PUBLIC KEY-----\naGVsbG8=\n-----END RSA PUBLIC KEY-----\n", Some(b"hello"));
        check("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n", None);
        check("-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", None);
    }

    /// A variable may name the file of a key that another expression names, where that is no secret.
    #[test]
    fn files_of_keys_are_found_by_name() {
        let mut rig = crate::testing::Rig::default();
        // RFC 7515 appendix A.3.
        let key = "-----BEGIN PUBLIC KEY-----\n\
                   MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n\
                   6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n\
                   -----END PUBLIC KEY-----\n";
        let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0\
                     cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        for file in ["of_es", "of_none", "secret", "other"] {
            rig.world.files.insert(file.into(), key.into());
        }
        let mut verify = |method: &str, file: &str| {
            rig.eval(&format!("str({token}),jwt_verify({method},{file})")).expect("a number")
        };
        assert_eq!(verify("ES256", "of_es"), "1");
        assert_eq!(verify("none", "of_none"), "0");
        assert_eq!(verify("HS256", "secret"), "0");
        let named = |rig: &mut crate::testing::Rig, file: &str| {
            let set = format!("str({file}),set-var(txn.file)");
            rig.eval(&set).expect("a name");
            rig.eval(&format!("str({token}),jwt_verify(ES256,txn.file)")).expect("a number")
        };
        for (file, expected) in [("of_es", "1"), ("of_none", "1"), ("secret", "-5"), ("other", "-5")] {
            assert_eq!(named(&mut rig, file), expected, "{file}");
        }
    }

    /// A signature of two numbers that has no halves is none; one of another length is not right.
    #[test]
    fn signatures_of_curves_have_halves() {
        let mut rig = crate::testing::Rig::default();
        let key = "-----BEGIN PUBLIC KEY-----\n\
                   MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE+4iuozHBkVzLqwd0EkzcKDbimDo4\n\
                   0BfB3PttaUjxtnJY0g+VWzVcBCeLpfHoHzk2uPDI5/ZuqelpwVAqnZBwbg==\n\
                   -----END PUBLIC KEY-----\n";
        rig.world.files.insert("key".into(), key.into());
        for (signature, expected) in [("AAA", "0"), ("AAAA", "-3"), ("AA", "-3"), (&*"AAAA".repeat(22), "0")]
        {
            let token = format!("str(eyJhbGciOiJFUzI1NiJ9.e30.{signature}),jwt_verify(ES256,key)");
            assert_eq!(rig.eval(&token).as_deref(), Some(expected), "{signature}");
        }
    }
}
