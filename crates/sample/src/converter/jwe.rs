//! Encrypted JSON Web Tokens in compact form (RFC 7516): `jwt_decrypt_cert`, `jwt_decrypt_secret` and `jwt_decrypt_jwk`.
//!
//! A token is decrypted once per evaluation, in memory of its own: this is no work for each request of a connection, and
//! keys should not stay behind in the scratch memory.

use super::ConverterDef;
use super::aes::{Gcm, cbc_decrypt, ecb_key};
use super::digest::Algorithm as Digest;
use super::jwt::certificate_argument;
use super::shape::{entry, text_of, var_text};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value};
use crate::vars::VarRef;
use aws_lc_rs::agreement::{self, ECDH_P256, ECDH_P384, ECDH_P521, UnparsedPublicKey};
use aws_lc_rs::cipher::DecryptionContext;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rsa::{
    OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, Pkcs1PrivateDecryptingKey,
    PrivateDecryptingKey,
};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value as Json;
use std::sync::Arc;
use thalweg_tls::certificate::Material;
use thalweg_tls::live::TokenCertificate;

/// The converters of this family.
pub static JWE: &[ConverterDef] = &[
    entry(
        "jwt_decrypt_cert",
        (Type::Bin, Type::Bin),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(check_certificate),
        run,
        "The content of an encrypted token, by the key of a certificate.",
    ),
    entry(
        "jwt_decrypt_jwk",
        (Type::Bin, Type::Bin),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(|args, env| {
            let problem = "the key is neither a variable nor a JSON Web Key of type 'oct', 'RSA' or 'EC'";
            check(args, env, jwk, problem)
        }),
        run,
        "The content of an encrypted token, by a JSON Web Key.",
    ),
    entry(
        "jwt_decrypt_secret",
        (Type::Bin, Type::Bin),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(|args, env| {
            check(
                args,
                env,
                secret,
                "failed to parse secret: argument needs to be base64 encoded, and can either be a string or a variable",
            )
        }),
        run,
        "The content of an encrypted token, by a secret in base64.",
    ),
];

/// What decrypts tokens.
enum Key {
    /// A secret that both sides know.
    Secret(Box<[u8]>),
    /// An RSA key, in PKCS #8.
    Rsa(Box<[u8]>),
    /// The private number of a key on a curve.
    Curve(&'static agreement::Algorithm, Box<[u8]>),
}

/// Where the key is.
enum Place {
    Known(Key),
    /// A variable holds its text, which is read so.
    Var(VarRef, Read),
    /// The certificate of this name has it.
    Certificate(Box<[u8]>),
    /// The one whose name is in a variable.
    CertificateVar(VarRef),
}

/// A converter's argument: the key, and what a token may be encrypted with.
struct KeyArg {
    place: Place,
    allowed: TokenAlgorithms,
}

/// How tokens may be encrypted: `jwt.decrypt_alg_list` and `jwt.decrypt_enc_list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenAlgorithms {
    /// By position in [`ALGORITHMS`].
    algorithms: u32,
    /// By position in [`ENCRYPTIONS`].
    encryptions: u32,
}

const ALGORITHMS: [&str; 14] = [
    "RSA1_5",
    "RSA-OAEP",
    "RSA-OAEP-256",
    "A128KW",
    "A192KW",
    "A256KW",
    "dir",
    "ECDH-ES",
    "ECDH-ES+A128KW",
    "ECDH-ES+A192KW",
    "ECDH-ES+A256KW",
    "A128GCMKW",
    "A192GCMKW",
    "A256GCMKW",
];

const ENCRYPTIONS: [&str; 6] =
    ["A128CBC-HS256", "A192CBC-HS384", "A256CBC-HS512", "A128GCM", "A192GCM", "A256GCM"];

impl Default for TokenAlgorithms {
    /// All but RSA1_5, whose padding has given keys away (RFC 8725 section 3.2).
    fn default() -> TokenAlgorithms {
        TokenAlgorithms { algorithms: (1 << ALGORITHMS.len()) - 2, encryptions: (1 << ENCRYPTIONS.len()) - 1 }
    }
}

impl TokenAlgorithms {
    /// `jwt.decrypt_alg_list`: names with colons between them, `ALL`, and names behind `!` that are not allowed.
    ///
    /// # Errors
    /// The name that is none.
    pub fn allow_algorithms(&mut self, list: &str) -> Result<(), String> {
        self.algorithms = mask(list, &ALGORITHMS)?;
        Ok(())
    }

    /// `jwt.decrypt_enc_list`, in the same form.
    ///
    /// # Errors
    /// The name that is none.
    pub fn allow_encryptions(&mut self, list: &str) -> Result<(), String> {
        self.encryptions = mask(list, &ENCRYPTIONS)?;
        Ok(())
    }

    fn allows(self, alg: &str, enc: &str) -> bool {
        let has = |names: &[&str], bits: u32, name: &str| {
            names.iter().position(|known| *known == name).is_some_and(|at| bits & 1 << at != 0)
        };
        has(&ALGORITHMS, self.algorithms, alg) && has(&ENCRYPTIONS, self.encryptions, enc)
    }
}

fn mask(list: &str, names: &[&str]) -> Result<u32, String> {
    let (mut allowed, mut refused) = (0, 0);
    for word in list.split(':') {
        let (name, bits) = match word.strip_prefix('!') {
            Some(name) => (name, &mut refused),
            None => (word, &mut allowed),
        };
        *bits |= match names.iter().position(|known| *known == name) {
            Some(at) => 1 << at,
            None if name == "ALL" => (1 << names.len()) - 1,
            None => return Err(name.to_owned()),
        };
    }
    Ok(allowed & !refused)
}

type Read = fn(&[u8]) -> Option<Key>;

fn check(args: &mut Args, env: &CompileEnv, read: Read, problem: &str) -> Result<(), String> {
    let text = text_of(args, 0);
    let var = std::str::from_utf8(text).ok().and_then(|name| VarRef::parse(name).ok());
    let place = match (var, read(text)) {
        (Some(var), _) => Place::Var(var, read),
        (None, Some(key)) => Place::Known(key),
        (None, None) => return Err(problem.into()),
    };
    args.put(0, Arg::Compiled(Arc::new(KeyArg { place, allowed: env.names.token_algorithms() })));
    Ok(())
}

fn check_certificate(args: &mut Args, env: &mut CompileEnv) -> Result<(), String> {
    let place = match certificate_argument(args, 0, env)? {
        (_, Some(var)) => Place::CertificateVar(var),
        (name, None) => Place::Certificate(name),
    };
    args.put(0, Arg::Compiled(Arc::new(KeyArg { place, allowed: env.names.token_algorithms() })));
    Ok(())
}

fn run(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (Some(key), Some(token)) = (args.compiled::<KeyArg>(0), sample.value.text()) else { return false };
    let of_variable = match &key.place {
        Place::Var(var, _) | Place::CertificateVar(var) => match var_text(cx, *var) {
            Some(text) => Some(text),
            None => return false,
        },
        Place::Known(_) | Place::Certificate(_) => None,
    };
    let text = of_variable.map_or(&[][..], |text| cx.text(text));
    let own;
    let found = match &key.place {
        Place::Known(key) => Some(key),
        Place::Var(_, read) => {
            own = read(text);
            own.as_ref()
        }
        Place::Certificate(name) => {
            own = of_certificate(cx, name);
            own.as_ref()
        }
        Place::CertificateVar(_) => {
            own = of_certificate(cx, text);
            own.as_ref()
        }
    };
    let plain = found.and_then(|found| decrypt(cx.text(token), found, key.allowed));
    let Some(text) = plain.and_then(|plain| cx.store(&plain)) else { return false };
    sample.value = Value::Bin(text);
    true
}

/// The key of a certificate, if that is for tokens.
fn of_certificate(cx: &Ctx, name: &[u8]) -> Option<Key> {
    let TokenCertificate::Usable(credential) = cx.world.token_certificate(name) else { return None };
    Some(match credential.key.as_ref()?.material()? {
        Material::Pkcs1(key) => Key::Rsa(pkcs8_of(key).into()),
        Material::Number(number) => {
            let (curve, len) = match credential.leaf().key_size() {
                256 => (&ECDH_P256, 32),
                384 => (&ECDH_P384, 48),
                521 => (&ECDH_P521, 66),
                _ => return None,
            };
            Key::Curve(curve, padded(number, len)?.into())
        }
    })
}

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);

fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    GeneralPurpose::new(&URL_SAFE, LENIENT).decode(text).ok()
}

fn secret(text: &[u8]) -> Option<Key> {
    let bytes = GeneralPurpose::new(&STANDARD, LENIENT).decode(text).ok().or_else(|| base64url(text))?;
    Some(Key::Secret(bytes.into()))
}

/// A JSON Web Key (RFC 7517, RFC 7518 section 6).
fn jwk(text: &[u8]) -> Option<Key> {
    let json: Json = serde_json::from_slice(text).ok()?;
    let part = |name: &str| base64url(json.get(name)?.as_str()?.as_bytes());
    Some(match json.get("kty")?.as_str()? {
        "oct" => Key::Secret(part("k")?.into()),
        "EC" => {
            let (curve, len) = curve(json.get("crv")?.as_str()?)?;
            Key::Curve(curve, padded(&part("d")?, len)?.into())
        }
        "RSA" => {
            let numbers = ["n", "e", "d", "p", "q", "dp", "dq", "qi"].map(part);
            let numbers: Option<Vec<Vec<u8>>> = numbers.into_iter().collect();
            Key::Rsa(pkcs8(&numbers?).into())
        }
        _ => return None,
    })
}

/// A curve and the length of its numbers in bytes.
fn curve(name: &str) -> Option<(&'static agreement::Algorithm, usize)> {
    Some(match name {
        "P-256" => (&ECDH_P256, 32),
        "P-384" => (&ECDH_P384, 48),
        "P-521" => (&ECDH_P521, 66),
        _ => return None,
    })
}

/// A number in exactly `len` bytes.
fn padded(number: &[u8], len: usize) -> Option<Vec<u8>> {
    let zeros = len.checked_sub(number.len())?;
    Some([vec![0; zeros].as_slice(), number].concat())
}

/// One item of DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len().to_be_bytes();
    let significant = &len[len.iter().position(|b| *b != 0).unwrap_or(len.len() - 1)..];
    let mut out = vec![tag];
    if content.len() >= 0x80 {
        out.push(0x80 | significant.len() as u8);
    }
    out.extend_from_slice(significant);
    out.extend_from_slice(content);
    out
}

const INTEGER: u8 = 2;
const OCTETS: u8 = 4;
const SEQUENCE: u8 = 0x30;

/// An RSA key of PKCS #1 in PKCS #8 (RFC 5958).
fn pkcs8_of(key: &[u8]) -> Vec<u8> {
    /// rsaEncryption, and no parameters.
    const RSA: &[u8] = &[0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    der(SEQUENCE, &[&der(INTEGER, &[0]), RSA, &der(OCTETS, key)].concat())
}

/// The numbers of an RSA key in PKCS #8 (RFC 8017 appendix A.1.2).
fn pkcs8(numbers: &[Vec<u8>]) -> Vec<u8> {
    let mut key = der(INTEGER, &[0]);
    for number in numbers {
        let number = &number[number.iter().position(|b| *b != 0).unwrap_or(number.len())..];
        // A first bit that is set would make it negative.
        let sign: &[u8] = if number.first().is_none_or(|b| *b >= 0x80) { &[0] } else { &[] };
        key.extend(der(INTEGER, &[sign, number].concat()));
    }
    pkcs8_of(&der(SEQUENCE, &key))
}

/// The content of `token`, if `key` is the right one, nothing was changed, and it is encrypted as it may be.
fn decrypt(token: &[u8], key: &Key, allowed: TokenAlgorithms) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = token.split(|b| *b == b'.').collect();
    let [protected, wrapped, iv, cipher, tag] = parts[..] else { return None };
    let header: Json = serde_json::from_slice(&base64url(protected)?).ok()?;
    let name = |of: &str| header.get(of)?.as_str();
    if header.get("zip").is_some() || header.get("crit").is_some() {
        return None;
    }
    if !allowed.allows(name("alg")?, name("enc")?) {
        return None;
    }
    let content = Content::by_name(name("enc")?)?;
    let (wrapped, iv, tag) = (base64url(wrapped)?, base64url(iv)?, base64url(tag)?);
    let content_key = content_key(name("alg")?, &header, &wrapped, key, content)?;
    if content_key.len() != content.key_len() {
        return None;
    }
    content.open(&content_key, &iv, &base64url(cipher)?, &tag, protected)
}

/// How the content is encrypted (RFC 7518 section 5).
#[derive(Clone, Copy)]
enum Content {
    /// AES-GCM with a key of so many bytes.
    Gcm(usize),
    /// AES-CBC and HMAC with two keys of so many bytes each.
    Cbc(usize, Digest),
}

impl Content {
    fn by_name(name: &str) -> Option<Content> {
        Some(match name {
            "A128GCM" => Content::Gcm(16),
            "A192GCM" => Content::Gcm(24),
            "A256GCM" => Content::Gcm(32),
            "A128CBC-HS256" => Content::Cbc(16, Digest::SHA256),
            "A192CBC-HS384" => Content::Cbc(24, Digest::SHA384),
            "A256CBC-HS512" => Content::Cbc(32, Digest::SHA512),
            _ => return None,
        })
    }

    /// The length of the whole key in bytes.
    fn key_len(self) -> usize {
        match self {
            Content::Gcm(len) => len,
            Content::Cbc(len, _) => 2 * len,
        }
    }

    fn open(self, key: &[u8], iv: &[u8], cipher: &[u8], tag: &[u8], aad: &[u8]) -> Option<Vec<u8>> {
        match self {
            Content::Gcm(_) => open_gcm(key, iv, cipher, tag, aad),
            Content::Cbc(len, digest) => {
                let (mac_key, key) = key.split_at(len);
                let bits = (aad.len() as u64 * 8).to_be_bytes();
                let mac = digest.hmac(mac_key, &[aad, iv, cipher, &bits]);
                verify_slices_are_equal(mac.as_slice().get(..len)?, tag).ok()?;
                let mut memory = vec![0; cipher.len()];
                let mut out = Out::new(&mut memory);
                cbc_decrypt(key, iv.try_into().ok()?, cipher, &mut out)?;
                let len = out.len();
                memory.truncate(len);
                Some(memory)
            }
        }
    }
}

fn open_gcm(key: &[u8], iv: &[u8], cipher: &[u8], tag: &[u8], aad: &[u8]) -> Option<Vec<u8>> {
    // Exactly the lengths of RFC 7518: a shorter tag would be easy to guess.
    if iv.len() != 12 || tag.len() != 16 {
        return None;
    }
    let mut plain = cipher.to_vec();
    Gcm::new(key)?.open(iv, aad, tag, &mut plain)?;
    Some(plain)
}

/// The key of the content (RFC 7518 section 4).
fn content_key(alg: &str, header: &Json, wrapped: &[u8], key: &Key, content: Content) -> Option<Vec<u8>> {
    match (alg, key) {
        ("dir", Key::Secret(secret)) => wrapped.is_empty().then(|| secret.to_vec()),
        ("A128KW" | "A192KW" | "A256KW", Key::Secret(secret)) => {
            (secret.len() == bytes_of(alg)?).then(|| unwrap(secret, wrapped))?
        }
        ("A128GCMKW" | "A192GCMKW" | "A256GCMKW", Key::Secret(secret)) => {
            let part = |name: &str| base64url(header.get(name)?.as_str()?.as_bytes());
            let (iv, tag) = (part("iv")?, part("tag")?);
            (secret.len() == bytes_of(alg)?).then(|| open_gcm(secret, &iv, wrapped, &tag, b""))?
        }
        ("RSA-OAEP" | "RSA-OAEP-256", Key::Rsa(der)) => {
            let algorithm = if alg == "RSA-OAEP" { &OAEP_SHA1_MGF1SHA1 } else { &OAEP_SHA256_MGF1SHA256 };
            let key = OaepPrivateDecryptingKey::new(PrivateDecryptingKey::from_pkcs8(der).ok()?).ok()?;
            let mut memory = vec![0; key.min_output_size()];
            key.decrypt(algorithm, wrapped, &mut memory, None).ok().map(|plain| plain.to_vec())
        }
        ("RSA1_5", Key::Rsa(der)) => {
            let key = Pkcs1PrivateDecryptingKey::new(PrivateDecryptingKey::from_pkcs8(der).ok()?).ok()?;
            let mut memory = vec![0; key.min_output_size()];
            let plain =
                key.decrypt(wrapped, &mut memory).ok().filter(|plain| plain.len() == content.key_len());
            // Nobody is told whether it was the padding or the content that was wrong (RFC 7516 section 11.5).
            plain.map(|plain| plain.to_vec()).or_else(|| random_key(content.key_len()))
        }
        ("ECDH-ES", Key::Curve(curve, number)) => {
            let enc = header.get("enc")?.as_str()?;
            wrapped.is_empty().then(|| agree(curve, number, header, enc, content.key_len()))?
        }
        ("ECDH-ES+A128KW" | "ECDH-ES+A192KW" | "ECDH-ES+A256KW", Key::Curve(curve, number)) => {
            let len = bytes_of(alg.strip_prefix("ECDH-ES+")?)?;
            unwrap(&agree(curve, number, header, alg, len)?, wrapped)
        }
        _ => None,
    }
}

/// A key that nobody has.
fn random_key(length: usize) -> Option<Vec<u8>> {
    let mut key = vec![0; length];
    aws_lc_rs::rand::fill(&mut key).ok()?;
    Some(key)
}

/// The length of the key of an algorithm such as `A128KW`.
fn bytes_of(alg: &str) -> Option<usize> {
    Some(alg.get(1..4)?.parse::<usize>().ok()? / 8)
}

/// AES key unwrap (RFC 3394 section 2.2.2).
fn unwrap(key: &[u8], wrapped: &[u8]) -> Option<Vec<u8>> {
    const INITIAL: [u8; 8] = [0xa6; 8];
    if wrapped.len() < 24 || !wrapped.len().is_multiple_of(8) {
        return None;
    }
    let key = ecb_key(key)?;
    let mut first: [u8; 8] = wrapped[..8].try_into().ok()?;
    let mut rest = wrapped[8..].to_vec();
    let n = rest.len() / 8;
    for round in (0..6).rev() {
        for i in (0..n).rev() {
            let count = ((n * round + i + 1) as u64).to_be_bytes();
            let mut block = [0; 16];
            block[..8].iter_mut().zip(first.iter().zip(count)).for_each(|(b, (a, t))| *b = a ^ t);
            block[8..].copy_from_slice(&rest[i * 8..i * 8 + 8]);
            key.decrypt(&mut block, DecryptionContext::None).ok()?;
            first.copy_from_slice(&block[..8]);
            rest[i * 8..i * 8 + 8].copy_from_slice(&block[8..]);
        }
    }
    verify_slices_are_equal(&first, &INITIAL).ok()?;
    Some(rest)
}

/// The key both sides agree on, `len` bytes (RFC 7518 section 4.6).
fn agree(
    curve_of_key: &'static agreement::Algorithm,
    number: &[u8],
    header: &Json,
    algorithm: &str,
    len: usize,
) -> Option<Vec<u8>> {
    let peer = header.get("epk")?;
    let (curve, size) = curve(peer.get("crv")?.as_str()?)?;
    if curve != curve_of_key || peer.get("kty")?.as_str()? != "EC" {
        return None;
    }
    let part = |name: &str| padded(&base64url(peer.get(name)?.as_str()?.as_bytes())?, size);
    let point = [&[4u8][..], &part("x")?, &part("y")?].concat();
    let key = agreement::PrivateKey::from_private_key(curve, number).ok()?;
    let info = |name: &str| header.get(name).map_or(Some(Vec::new()), |v| base64url(v.as_str()?.as_bytes()));
    let (producer, consumer) = (info("apu")?, info("apv")?);
    let length = |bytes: &[u8]| (bytes.len() as u32).to_be_bytes();
    agreement::agree(&key, UnparsedPublicKey::new(curve, point), (), |shared| {
        let mut out = Vec::new();
        let mut round = 1u32;
        while out.len() < len {
            let digest = Digest::SHA256.hash(&[
                &round.to_be_bytes(),
                shared,
                &length(algorithm.as_bytes()),
                algorithm.as_bytes(),
                &length(&producer),
                &producer,
                &length(&consumer),
                &consumer,
                &(len as u32 * 8).to_be_bytes(),
            ]);
            out.extend_from_slice(digest.as_slice());
            round += 1;
        }
        out.truncate(len);
        Ok(out)
    })
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(token: &[u8], key: &Key) -> Option<Vec<u8>> {
        decrypt(token, key, TokenAlgorithms::default())
    }

    #[test]
    fn what_is_not_allowed_is_not_decrypted() {
        let key = secret(b"GawgguFyGrWKav7AX4VKUg==").unwrap();
        let token = tokens()[0].1;
        let header: Json =
            serde_json::from_slice(&base64url(token.split('.').next().unwrap().as_bytes()).unwrap()).unwrap();
        let (alg, enc) = (header["alg"].as_str().unwrap(), header["enc"].as_str().unwrap());
        let with = |algorithms: &str, encryptions: &str| {
            let mut allowed = TokenAlgorithms::default();
            allowed.allow_algorithms(algorithms).unwrap();
            allowed.allow_encryptions(encryptions).unwrap();
            decrypt(token.as_bytes(), &key, allowed).is_some()
        };
        assert!(with("ALL", "ALL") && with(alg, enc) && with(&format!("dir:{alg}"), "ALL"));
        assert!(
            !with(&format!("ALL:!{alg}"), "ALL")
                && !with("ALL", &format!("ALL:!{enc}"))
                && !with("RSA1_5", "ALL")
        );
        assert_eq!(TokenAlgorithms::default().allow_algorithms("dir:foo"), Err("foo".to_owned()));
        assert!(!TokenAlgorithms::default().allows("RSA1_5", "A128GCM"));
    }

    /// Keys and the tokens they open.
    fn tokens() -> Vec<(&'static str, &'static str)> {
        let lines: Vec<&str> = include_str!("jwe.txt")
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        lines.chunks(2).map(|pair| (pair[0], pair[1])).collect()
    }

    #[test]
    fn tokens_of_all_families_are_read() {
        assert!(tokens().len() >= 7);
        for (key, token) in tokens() {
            let key = jwk(key.as_bytes()).unwrap();
            let plain = opened(token.as_bytes(), &key);
            assert_eq!(plain.as_deref(), Some(&b"Live long and prosper."[..]), "{token}");
        }
        let secret = secret(b"GawgguFyGrWKav7AX4VKUg==").unwrap();
        assert!(opened(tokens()[0].1.as_bytes(), &secret).is_some());
    }

    /// Whatever byte of a token is changed, nothing comes out.
    #[test]
    fn changed_tokens_are_refused() {
        for (key, token) in tokens() {
            let key = jwk(key.as_bytes()).unwrap();
            for at in (0..token.len()).step_by(7) {
                let mut changed = token.as_bytes().to_vec();
                changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
                // The last digit of a part has bits that mean nothing.
                if changed.get(at + 1).is_none_or(|b| *b == b'.') {
                    continue;
                }
                assert_eq!(opened(&changed, &key), None, "byte {at} of {token}");
            }
            for end in [0, 1, token.len() / 2, token.len() - 4] {
                assert_eq!(opened(&token.as_bytes()[..end], &key), None);
            }
            assert_eq!(opened(format!("{token}.x").as_bytes(), &key), None);
        }
        let other = secret(b"AAAAAAAAAAAAAAAAAAAAAA==").unwrap();
        assert!(tokens().iter().all(|(_, token)| opened(token.as_bytes(), &other).is_none()));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in [
            "",
            "x",
            "{}",
            r#"{"kty":"oct"}"#,
            r#"{"kty":"EC","crv":"P-1","d":"AA"}"#,
            r#"{"kty":"RSA","n":"AA"}"#,
        ] {
            assert!(jwk(text.as_bytes()).is_none(), "{text}");
        }
        assert!(secret(b"!").is_none());
    }
}
