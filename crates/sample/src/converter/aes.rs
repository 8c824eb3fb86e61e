//! `aes_cbc_*` and `aes_gcm_*`.
//!
//! The modes are built here on the block cipher: unlike the library's, they take nonces of any length, as OpenSSL's do.

use super::ConverterDef;
use super::encoding::base64_encode;
use super::secret::{Secret, want_secret};
use super::shape::entry;
use crate::args::{Arg, ArgKind, ArgSpec, Args};
use crate::context::{Ctx, Out};
use crate::env::CompileEnv;
use crate::value::{Sample, Text, Type, Value};
use crate::vars::VarRef;
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::iv::FixedLength;

const BIN_BIN: (Type, Type) = (Type::Bin, Type::Bin);
const CBC: ArgSpec = ArgSpec::new(3, &[ArgKind::Int, ArgKind::Str, ArgKind::Str, ArgKind::Str]);
const GCM: ArgSpec = ArgSpec::new(4, &[ArgKind::Int, ArgKind::Str, ArgKind::Str, ArgKind::Str, ArgKind::Str]);

/// The converters of this family.
pub static AES: &[ConverterDef] = &[
    entry(
        "aes_cbc_dec",
        BIN_BIN,
        CBC,
        Some(check_cbc),
        |a, s, c| cbc(a, s, c, cbc_decrypt),
        "Decrypts AES-CBC.",
    ),
    entry(
        "aes_cbc_enc",
        BIN_BIN,
        CBC,
        Some(check_cbc),
        |a, s, c| cbc(a, s, c, cbc_encrypt),
        "Encrypts with AES-CBC.",
    ),
    entry(
        "aes_gcm_dec",
        BIN_BIN,
        GCM,
        Some(|args, env| check_gcm(args, env, false)),
        gcm_dec,
        "Decrypts AES-GCM and checks its tag.",
    ),
    entry(
        "aes_gcm_enc",
        BIN_BIN,
        GCM,
        Some(|args, env| check_gcm(args, env, true)),
        gcm_enc,
        "Encrypts with AES-GCM and stores the tag in a variable.",
    ),
];

const BLOCK: usize = 16;

fn check_bits(args: &Args) -> Result<(), String> {
    match args.int(0) {
        Some(128 | 192 | 256) => Ok(()),
        _ => Err("key size must be 128, 192 or 256 (bits).".into()),
    }
}

fn check_cbc(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    check_bits(args)?;
    want_secret(args, 1, "nonce")?;
    want_secret(args, 2, "key")?;
    want_secret(args, 3, "aad")
}

fn check_gcm(args: &mut Args, _: &mut CompileEnv, encrypt: bool) -> Result<(), String> {
    check_bits(args)?;
    want_secret(args, 1, "nonce")?;
    want_secret(args, 2, "key")?;
    if encrypt {
        let name = String::from_utf8_lossy(args.str(3).unwrap_or_default()).into_owned();
        let var = VarRef::parse(&name).map_err(|e| format!("failed to parse aead_tag : {e}"))?;
        args.put(3, Arg::Var(var));
    } else {
        want_secret(args, 3, "aead_tag")?;
    }
    want_secret(args, 4, "aad")
}

/// The bytes of argument `i`, which may be absent.
fn optional(args: &Args, i: usize, cx: &mut Ctx) -> Option<Text> {
    match args.compiled::<Secret>(i) {
        Some(secret) => secret.text(cx),
        None => Some(Text::EMPTY),
    }
}

/// The key of argument 2, when it has the length that argument 0 asks for.
fn key(args: &Args, cx: &mut Ctx) -> Option<Text> {
    let key = args.compiled::<Secret>(2)?.text(cx)?;
    (args.int(0) == i64::try_from(key.len() * 8).ok()).then_some(key)
}

fn unbound(key: &[u8]) -> Option<UnboundCipherKey> {
    let algorithm = match key.len() {
        16 => &AES_128,
        24 => &AES_192,
        32 => &AES_256,
        _ => return None,
    };
    UnboundCipherKey::new(algorithm, key).ok()
}

/// A key that decrypts single blocks.
pub(super) fn ecb_key(key: &[u8]) -> Option<DecryptingKey> {
    DecryptingKey::ecb(unbound(key)?).ok()
}

type Mode = fn(key: &[u8], iv: [u8; BLOCK], input: &[u8], out: &mut Out) -> Option<()>;

fn cbc(args: &Args, sample: &mut Sample, cx: &mut Ctx, mode: Mode) -> bool {
    let nonce = args.compiled::<Secret>(1).and_then(|nonce| nonce.text(cx));
    let (Some(nonce), Some(key), Some(_)) = (nonce, key(args, cx), optional(args, 3, cx)) else {
        return false;
    };
    let Some(text) = sample.value.text() else { return false };
    // A shorter nonce is filled with zeroes, of a longer one the start is used.
    let mut iv = [0; BLOCK];
    let given = cx.text(nonce);
    let len = given.len().min(BLOCK);
    iv[..len].copy_from_slice(&given[..len]);
    let Some(text) = cx.map_two(text, key, |input, key, out| mode(key, iv, input, out).is_some()) else {
        return false;
    };
    sample.value = Value::Bin(text);
    true
}

fn cbc_encrypt(key: &[u8], iv: [u8; BLOCK], input: &[u8], out: &mut Out) -> Option<()> {
    let start = out.len();
    // PKCS #7: as many bytes as are missing, or a whole block, each with their number.
    let padding = BLOCK - input.len() % BLOCK;
    let done = out.extend(input) && (0..padding).all(|_| out.push(padding as u8));
    let key = EncryptingKey::cbc(unbound(key)?).ok()?;
    let context = EncryptionContext::Iv128(FixedLength::from(iv));
    key.less_safe_encrypt(&mut out.as_mut_slice()[start..], context).ok()?;
    done.then_some(())
}

pub(super) fn cbc_decrypt(key: &[u8], iv: [u8; BLOCK], input: &[u8], out: &mut Out) -> Option<()> {
    let start = out.len();
    if input.is_empty() || !input.len().is_multiple_of(BLOCK) || !out.extend(input) {
        return None;
    }
    let key = DecryptingKey::cbc(unbound(key)?).ok()?;
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let plain = key.decrypt(&mut out.as_mut_slice()[start..], context).ok()?;
    let padding = usize::from(*plain.last()?);
    let end = plain.len().checked_sub(padding).filter(|_| (1..=BLOCK).contains(&padding))?;
    if plain[end..].iter().any(|b| usize::from(*b) != padding) {
        return None;
    }
    out.truncate(start + end);
    Some(())
}

/// Galois/Counter Mode (NIST SP 800-38D) on the block cipher.
pub(super) struct Gcm {
    key: EncryptingKey,
    hash_key: u128,
}

impl Gcm {
    pub(super) fn new(key: &[u8]) -> Option<Gcm> {
        let mut gcm = Gcm { key: EncryptingKey::ecb(unbound(key)?).ok()?, hash_key: 0 };
        gcm.hash_key = gcm.block(0)?;
        Some(gcm)
    }

    fn block(&self, block: u128) -> Option<u128> {
        let mut bytes = block.to_be_bytes();
        self.key.less_safe_encrypt(&mut bytes, EncryptionContext::None).ok()?;
        Some(u128::from_be_bytes(bytes))
    }

    /// The product in the field of GCM, whose bits are in reverse order.
    fn multiply(&self, mut x: u128) -> u128 {
        let mut product = 0u128;
        let mut factor = self.hash_key;
        for _ in 0..128 {
            // Without branches: the bits depend on secrets.
            product ^= factor & 0u128.wrapping_sub(x >> 127);
            x <<= 1;
            factor = (factor >> 1) ^ ((0xe1 << 120) & 0u128.wrapping_sub(factor & 1));
        }
        product
    }

    fn hash(&self, mut state: u128, bytes: &[u8]) -> u128 {
        for chunk in bytes.chunks(BLOCK) {
            let mut block = [0; BLOCK];
            block[..chunk.len()].copy_from_slice(chunk);
            state = self.multiply(state ^ u128::from_be_bytes(block));
        }
        state
    }

    fn first_counter(&self, nonce: &[u8]) -> u128 {
        match <[u8; 12]>::try_from(nonce) {
            Ok(nonce) => {
                let mut block = [0; BLOCK];
                block[..12].copy_from_slice(&nonce);
                u128::from_be_bytes(block) | 1
            }
            Err(_) => self.multiply(self.hash(0, nonce) ^ (nonce.len() as u128 * 8)),
        }
    }

    /// Encrypts or decrypts in place.
    fn apply(&self, counter: u128, bytes: &mut [u8]) -> Option<()> {
        let mut low = counter as u32;
        for chunk in bytes.chunks_mut(BLOCK) {
            low = low.wrapping_add(1);
            let pad = self.block(counter & !0xffff_ffff | u128::from(low))?.to_be_bytes();
            chunk.iter_mut().zip(pad).for_each(|(b, p)| *b ^= p);
        }
        Some(())
    }

    fn tag(&self, counter: u128, aad: &[u8], cipher: &[u8]) -> Option<[u8; BLOCK]> {
        let state = self.hash(self.hash(0, aad), cipher);
        let lengths = ((aad.len() as u128 * 8) << 64) | (cipher.len() as u128 * 8);
        Some((self.multiply(state ^ lengths) ^ self.block(counter)?).to_be_bytes())
    }

    /// Encrypts in place and returns the tag.
    fn seal(&self, nonce: &[u8], aad: &[u8], bytes: &mut [u8]) -> Option<[u8; BLOCK]> {
        let counter = self.first_counter(nonce);
        self.apply(counter, bytes)?;
        self.tag(counter, aad, bytes)
    }

    /// Checks the tag, then decrypts in place.
    pub(super) fn open(&self, nonce: &[u8], aad: &[u8], tag: &[u8], bytes: &mut [u8]) -> Option<()> {
        let counter = self.first_counter(nonce);
        let expected = self.tag(counter, aad, bytes)?;
        if tag.is_empty() || verify_slices_are_equal(expected.get(..tag.len())?, tag).is_err() {
            return None;
        }
        self.apply(counter, bytes)
    }
}

/// What both directions of GCM need: nonce, key and additional data.
fn gcm_inputs(args: &Args, cx: &mut Ctx) -> Option<(Text, Gcm, Text)> {
    let nonce = args.compiled::<Secret>(1)?.text(cx).filter(|nonce| !nonce.is_empty())?;
    let key = key(args, cx)?;
    let aad = optional(args, 4, cx)?;
    Some((nonce, Gcm::new(cx.text(key))?, aad))
}

fn gcm_enc(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (Some((nonce, gcm, aad)), Some(text), Some(var)) =
        (gcm_inputs(args, cx), sample.value.text(), args.var(3))
    else {
        return false;
    };
    let mut tag = [0; BLOCK];
    let output = cx.map_three(text, nonce, aad, |input, nonce, aad, out| {
        let start = out.len();
        let sealed =
            out.extend(input).then(|| gcm.seal(nonce, aad, &mut out.as_mut_slice()[start..])).flatten();
        sealed.map(|sealed| tag = sealed).is_some()
    });
    let Some(output) = output else { return false };
    let Some(encoded) = cx.write(|out| base64_encode(&tag, out)) else { return false };
    if !cx.set_var(var, Value::Str(encoded)) {
        return false;
    }
    sample.value = Value::Bin(output);
    true
}

fn gcm_dec(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (Some((nonce, gcm, aad)), Some(text)) = (gcm_inputs(args, cx), sample.value.text()) else {
        return false;
    };
    let Some(tag) = args.compiled::<Secret>(3).and_then(|tag| tag.text(cx)) else { return false };
    let mut given = [0; BLOCK];
    let bytes = cx.text(tag);
    let tag_len = bytes.len();
    let Some(slot) = given.get_mut(..tag_len) else { return false };
    slot.copy_from_slice(bytes);
    let output = cx.map_three(text, nonce, aad, |input, nonce, aad, out| {
        let start = out.len();
        out.extend(input)
            && gcm.open(nonce, aad, &given[..tag_len], &mut out.as_mut_slice()[start..]).is_some()
    });
    let Some(output) = output else { return false };
    sample.value = Value::Bin(output);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8; 16] = b"foob/foob/foob/o";

    fn hexa(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn bytes(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn gcm_test_cases() {
        // Test cases 4 and 6 of the GCM specification: nonces of 12 and 60 bytes.
        let key = bytes("feffe9928665731c6d6a8f9467308308");
        let plain = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let aad = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let check = |nonce: &str, tag: &str, start: &str| {
            let gcm = Gcm::new(&key).unwrap();
            let mut text = plain.clone();
            let sealed = gcm.seal(&bytes(nonce), &aad, &mut text).unwrap();
            assert_eq!((hexa(&sealed).as_str(), &hexa(&text)[..16]), (tag, start));
            assert!(gcm.open(&bytes(nonce), &aad, &sealed[..15], &mut text.clone()).is_some());
            assert!(gcm.open(&bytes(nonce), b"x", &sealed, &mut text.clone()).is_none());
            assert!(gcm.open(&bytes(nonce), &aad, &[], &mut text.clone()).is_none());
            assert_eq!(gcm.open(&bytes(nonce), &aad, &sealed, &mut text), Some(()));
            assert_eq!(text, plain);
        };
        check("cafebabefacedbaddecaf888", "5bc94fbc3221a5db94fae95ae7121a47", "42831ec221777424");
        check(
            "9313225df88406e555909c5aff5269aa6a7a9538534f7da1e4c303d2a318a728c3c0c95156809539fcf0e2429a6b525416aedbf5a0de6a57a637b39b",
            "619cc5aefffe0bfa462af43c1699d050",
            "8ce24998625615b6",
        );
    }

    #[test]
    fn cbc_both_ways() {
        let mut memory = [0; 64];
        for len in [0, 1, 15, 16, 17] {
            let plain = vec![b'x'; len];
            let mut out = Out::new(&mut memory);
            cbc_encrypt(KEY, [7; 16], &plain, &mut out).unwrap();
            let cipher = out.as_slice().to_vec();
            assert_eq!(cipher.len(), (len / 16 + 1) * 16);
            let mut out = Out::new(&mut memory);
            cbc_decrypt(KEY, [7; 16], &cipher, &mut out).unwrap();
            assert_eq!(out.as_slice(), plain);
            let mut out = Out::new(&mut memory);
            assert!(cbc_decrypt(KEY, [7; 16], &cipher[1..], &mut out).is_none());
        }
        let mut out = Out::new(&mut memory);
        assert!(cbc_decrypt(KEY, [7; 16], b"", &mut out).is_none());
        let mut out = Out::new(&mut memory);
        assert!(cbc_encrypt(b"short", [7; 16], b"", &mut out).is_none());
    }
}
