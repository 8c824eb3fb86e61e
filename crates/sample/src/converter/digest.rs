//! Cryptographic digests: `sha1`, `sha2`, `digest`, `hmac`, `secure_memcmp`.

use super::ConverterDef;
use super::secret::{Secret, want_secret};
use super::shape::{entry, text_of, to_bin, var_as, want_var};
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type, Value};
use aws_lc_rs::digest as lc;
use md5::Digest as _;
use smallvec::SmallVec;
use std::sync::Arc;

const BIN_BIN: (Type, Type) = (Type::Bin, Type::Bin);

/// The converters of this family.
pub static DIGEST: &[ConverterDef] = &[
    entry(
        "digest",
        BIN_BIN,
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(|args, _| want_algorithm(args)),
        digest,
        "A message digest by its OpenSSL name.",
    ),
    entry(
        "hmac",
        BIN_BIN,
        ArgSpec::new(2, &[ArgKind::Str, ArgKind::Str]),
        Some(check_hmac),
        hmac,
        "A keyed message digest.",
    ),
    entry(
        "secure_memcmp",
        (Type::Bin, Type::Bool),
        ArgSpec::new(1, &[ArgKind::Str]),
        Some(check_memcmp),
        secure_memcmp,
        "Compares with a variable in a time that does not tell where they differ.",
    ),
    entry(
        "sha1",
        BIN_BIN,
        ArgSpec::NONE,
        None,
        |_, s, c| to_bin(s, c, |i, o| o.extend(Algorithm::SHA1.hash(&[i]).as_slice())),
        "A SHA-1 digest.",
    ),
    entry(
        "sha2",
        BIN_BIN,
        ArgSpec::new(0, &[ArgKind::Int]),
        Some(check_sha2),
        sha2,
        "A SHA-2 digest of 224, 256, 384 or 512 bits.",
    ),
];

/// The longest digest, that of SHA-512.
const DIGEST_MAX: usize = 64;
/// The longest block, that of SHA3-256.
const BLOCK_MAX: usize = 136;

/// A digest function.
#[derive(Clone, Copy)]
pub(super) struct Algorithm {
    function: Function,
    block: usize,
}

#[derive(Clone, Copy)]
enum Function {
    Md5,
    Lc(&'static lc::Algorithm),
    /// MD5 and SHA-1, one after the other.
    Md5Sha1,
}

/// The bytes of a digest.
pub(super) struct Output {
    bytes: [u8; DIGEST_MAX],
    len: usize,
}

impl Output {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn new(parts: &[&[u8]]) -> Output {
        let mut output = Output { bytes: [0; DIGEST_MAX], len: 0 };
        for part in parts {
            output.bytes[output.len..output.len + part.len()].copy_from_slice(part);
            output.len += part.len();
        }
        output
    }
}

/// SHA-1 of some octets, for protocols that have it (the handshake of WebSocket).
pub fn sha1(octets: &[u8]) -> [u8; 20] {
    let mut digest = [0; 20];
    digest.copy_from_slice(Algorithm::SHA1.hash(&[octets]).as_slice());
    digest
}

impl Algorithm {
    const SHA1: Algorithm = Algorithm { function: Function::Lc(&lc::SHA1_FOR_LEGACY_USE_ONLY), block: 64 };
    const SHA224: Algorithm = Algorithm { function: Function::Lc(&lc::SHA224), block: 64 };
    pub(super) const SHA256: Algorithm = Algorithm { function: Function::Lc(&lc::SHA256), block: 64 };
    pub(super) const SHA384: Algorithm = Algorithm { function: Function::Lc(&lc::SHA384), block: 128 };
    pub(super) const SHA512: Algorithm = Algorithm { function: Function::Lc(&lc::SHA512), block: 128 };
    const MD5: Algorithm = Algorithm { function: Function::Md5, block: 64 };

    /// The function with this OpenSSL name.
    fn by_name(name: &str) -> Option<Algorithm> {
        let sha3 = |function, block| Algorithm { function: Function::Lc(function), block };
        let name = name.to_ascii_lowercase();
        // Signature algorithms name the digest they use.
        let name = name.strip_prefix("rsa-").or(name.strip_suffix("withrsaencryption")).unwrap_or(&name);
        Some(match name {
            "md5" | "ssl3-md5" => Algorithm::MD5,
            "sha1" | "sha-1" | "ssl3-sha1" => Algorithm::SHA1,
            "md5-sha1" => Algorithm { function: Function::Md5Sha1, block: 64 },
            "sha224" | "sha-224" | "sha2-224" => Algorithm::SHA224,
            "sha256" | "sha-256" | "sha2-256" => Algorithm::SHA256,
            "sha384" | "sha-384" | "sha2-384" => Algorithm::SHA384,
            "sha512" | "sha-512" | "sha2-512" => Algorithm::SHA512,
            "sha512-256" | "sha-512/256" | "sha2-512/256" | "sha512/256" => sha3(&lc::SHA512_256, 128),
            "sha3-256" => sha3(&lc::SHA3_256, 136),
            "sha3-384" => sha3(&lc::SHA3_384, 104),
            "sha3-512" => sha3(&lc::SHA3_512, 72),
            _ => return None,
        })
    }

    /// The digest of all parts, one after the other.
    pub(super) fn hash(&self, parts: &[&[u8]]) -> Output {
        let md5 = || {
            let mut context = md5::Md5::new();
            parts.iter().for_each(|part| context.update(part));
            context.finalize()
        };
        match self.function {
            Function::Md5 => Output::new(&[&md5()]),
            Function::Lc(function) => {
                let mut context = lc::Context::new(function);
                parts.iter().for_each(|part| context.update(part));
                Output::new(&[context.finish().as_ref()])
            }
            Function::Md5Sha1 => Output::new(&[&md5(), Algorithm::SHA1.hash(parts).as_slice()]),
        }
    }

    /// The keyed digest of RFC 2104.
    pub(super) fn hmac(&self, key: &[u8], message: &[&[u8]]) -> Output {
        let mut block = [0; BLOCK_MAX];
        let block = &mut block[..self.block];
        if key.len() > block.len() {
            let short = self.hash(&[key]);
            block[..short.len].copy_from_slice(short.as_slice());
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        block.iter_mut().for_each(|b| *b ^= 0x36);
        let inner = {
            let parts: SmallVec<[&[u8]; 6]> =
                std::iter::once(&*block).chain(message.iter().copied()).collect();
            self.hash(&parts)
        };
        block.iter_mut().for_each(|b| *b ^= 0x36 ^ 0x5c);
        self.hash(&[block, inner.as_slice()])
    }
}

/// Digests of OpenSSL that this program cannot compute.
const FOREIGN: [&str; 14] = [
    "blake2b512",
    "blake2s256",
    "ripemd",
    "ripemd160",
    "rmd160",
    "sm3",
    "md4",
    "shake128",
    "shake256",
    "sha512-224",
    "sha3-224",
    "whirlpool",
    "sha2-512/224",
    "sha512/224",
];

fn want_algorithm(args: &mut Args) -> Result<(), String> {
    let name = String::from_utf8_lossy(text_of(args, 0)).into_owned();
    let Some(algorithm) = Algorithm::by_name(&name) else {
        if FOREIGN.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!(
                "message digest '{name}' is known but not supported; use one of the SHA-2 family"
            ));
        }
        return Err("algorithm must be a valid OpenSSL message digest name.".into());
    };
    args.put(0, Arg::Compiled(Arc::new(algorithm)));
    Ok(())
}

fn digest(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(algorithm) = args.compiled::<Algorithm>(0) else { return false };
    to_bin(sample, cx, |input, out| out.extend(algorithm.hash(&[input]).as_slice()))
}

fn check_hmac(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_algorithm(args)?;
    want_secret(args, 1, "key")
}

fn hmac(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (Some(algorithm), Some(key)) = (args.compiled::<Algorithm>(0), args.compiled::<Secret>(1)) else {
        return false;
    };
    let (Some(key), Some(text)) = (key.text(cx), sample.value.text()) else { return false };
    let Some(text) =
        cx.map_two(text, key, |input, key, out| out.extend(algorithm.hmac(key, &[input]).as_slice()))
    else {
        return false;
    };
    sample.value = Value::Bin(text);
    true
}

fn check_sha2(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    let bits = args.int(0).unwrap_or(256);
    let algorithm = match bits {
        224 => Algorithm::SHA224,
        256 => Algorithm::SHA256,
        384 => Algorithm::SHA384,
        512 => Algorithm::SHA512,
        _ => return Err(format!("Unsupported number of bits: '{bits}'")),
    };
    args.put(0, Arg::Compiled(Arc::new(algorithm)));
    Ok(())
}

fn sha2(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    digest(args, sample, cx)
}

fn check_memcmp(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    want_var(args, 0)
}

fn secure_memcmp(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(other) = args.var(0).and_then(|var| var_as(cx, var, Type::Bin)?.value.text()) else {
        return false;
    };
    let Some(text) = sample.value.text() else { return false };
    let (left, right) = (cx.text(text), cx.text(other));
    let equal = aws_lc_rs::constant_time::verify_slices_are_equal(left, right).is_ok();
    sample.value = Value::Bool(equal);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexa(output: &Output) -> String {
        output.as_slice().iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn digests() {
        let check = |name: &str, expected: &str| {
            let algorithm = Algorithm::by_name(name).unwrap();
            assert_eq!(&hexa(&algorithm.hash(&[b"a", b"bc"]))[..16], expected, "{name}");
        };
        check("md5", "900150983cd24fb0");
        check("SHA1", "a9993e364706816a");
        check("sha224", "23097d223405d822");
        check("SHA2-256", "ba7816bf8f01cfea");
        check("RSA-SHA256", "ba7816bf8f01cfea");
        check("sha384", "cb00753f45a35e8b");
        check("sha512", "ddaf35a193617aba");
        check("sha512-256", "53048e2681941ef9");
        check("sha3-256", "3a985da74fe225b2");
        check("sha3-384", "ec01498288516fc9");
        check("sha3-512", "b751850b1a57168a");
        check("md5-sha1", "900150983cd24fb0");
        assert!(Algorithm::by_name("nope").is_none());
    }

    #[test]
    fn keyed_digests() {
        let check = |name: &str, key: &[u8], expected: &str| {
            let algorithm = Algorithm::by_name(name).unwrap();
            assert_eq!(&hexa(&algorithm.hmac(key, &[b"abc"]))[..16], expected, "{name}");
        };
        check("sha256", b"key", "9c196e32dc0175f8");
        check("sha1", b"key", "4fd0b215276ef12f");
        check("md5", b"key", "d2fe98063f876b03");
        check("sha3-256", b"key", "09b6dbab8d11795c");
        check("sha256", b"", "fd7adb152c05ef80");
        let long = [b'k'; 200];
        let short = Algorithm::SHA256.hash(&[&long]);
        assert_eq!(
            hexa(&Algorithm::SHA256.hmac(&long, &[b"abc"])),
            hexa(&Algorithm::SHA256.hmac(short.as_slice(), &[b"abc"]))
        );
    }
}
