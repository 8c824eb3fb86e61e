//! The record layer: one key per direction, one nonce per record (RFC 8446 section 5, RFC 5246 section 6.2 with RFC 5288
//! and RFC 7905).

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion};
use std::ops::Range;

use crate::failure::Failure;
use crate::hello::record::{HEADER, content};

/// The most plaintext of one record.
pub const FRAGMENT_MAX: usize = 1 << 14;

/// What a record has beyond its plaintext, at most: header, explicit nonce or type, tag.
pub const OVERHEAD_MAX: usize = HEADER + 8 + TAG;

/// The same in TLS 1.3, always: header, type, tag.
pub const OVERHEAD_TLS13: usize = HEADER + 1 + TAG;

/// The most bytes of one record on the wire that are accepted (RFC 5246 section 6.2.3 allows the most).
pub const RECORD_MAX: usize = HEADER + FRAGMENT_MAX + 2048;

const TAG: usize = 16;

/// How many records AES-GCM keys of TLS 1.3 may protect (RFC 8446 section 5.5 says 2^24.5); new keys are made before.
pub const GCM_RECORDS_MAX: u64 = 1 << 24;

/// The same where keys cannot be renewed: TLS 1.2. OpenSSL has no bound at all; at this one a connection has carried 70 TB.
pub const GCM_RECORDS_MAX_TLS12: u64 = 1 << 32;

/// How nonce and additional data are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Tls13,
    /// Half of the nonce travels with the record.
    Tls12Gcm,
    Tls12ChaCha,
}

/// One direction's key and the number of its next record.
pub struct Key {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    form: Form,
    /// The sequence number at which the key is used up.
    limit: u64,
}

impl Key {
    /// The key of a direction, as rustls hands it over with its next sequence number.
    pub fn new(
        version: ProtocolVersion,
        (sequence, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Key, Failure> {
        let tls13 = version == ProtocolVersion::TLSv1_3;
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            // An algorithm that a later rustls may bring and that was never offered.
            _ => return Err(Failure::Unexpected),
        };
        let is_gcm = !std::ptr::eq(algorithm, &CHACHA20_POLY1305);
        let form = match (tls13, is_gcm) {
            (true, _) => Form::Tls13,
            (false, true) => Form::Tls12Gcm,
            (false, false) => Form::Tls12ChaCha,
        };
        let limit = match (is_gcm, tls13) {
            (true, true) => GCM_RECORDS_MAX,
            (true, false) => GCM_RECORDS_MAX_TLS12,
            (false, _) => u64::MAX - 1,
        };
        let unbound = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| Failure::Unexpected)?;
        let iv = iv.as_ref().try_into().map_err(|_| Failure::Unexpected)?;
        Ok(Key { key: LessSafeKey::new(unbound), iv, sequence, form, limit })
    }

    /// What a record has beyond its plaintext.
    pub fn overhead(&self) -> usize {
        HEADER
            + TAG
            + match self.form {
                Form::Tls13 => 1,
                Form::Tls12Gcm => 8,
                Form::Tls12ChaCha => 0,
            }
    }

    /// The key protects no more than a few records more: in TLS 1.3 it is time for another.
    pub fn is_nearly_used_up(&self) -> bool {
        self.sequence >= self.limit - 16
    }

    pub fn is_tls13(&self) -> bool {
        self.form == Form::Tls13
    }

    fn nonce(&self) -> [u8; 12] {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    fn additional_of_tls12(&self, kind: u8, length: usize) -> [u8; 13] {
        let mut additional = [0; 13];
        additional[..8].copy_from_slice(&self.sequence.to_be_bytes());
        additional[8] = kind;
        additional[9..11].copy_from_slice(&[3, 3]);
        additional[11..].copy_from_slice(&(length as u16).to_be_bytes());
        additional
    }

    /// Writes one record with `length` bytes of plaintext, which `fill` puts in place, to the front of `out`, which has
    /// room for it. Returns the record's length.
    pub fn seal(
        &mut self,
        kind: u8,
        length: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, Failure> {
        debug_assert!(length <= FRAGMENT_MAX && out.len() >= length + self.overhead());
        if self.sequence >= self.limit {
            return Err(Failure::Exhausted);
        }
        let total = length + self.overhead();
        let nonce = self.nonce();
        let (header, body) = out[..total].split_at_mut(HEADER);
        header[0] = if self.is_tls13() { content::APPLICATION_DATA } else { kind };
        header[1..3].copy_from_slice(&[3, 3]);
        header[3..].copy_from_slice(&((total - HEADER) as u16).to_be_bytes());
        let key = &self.key;
        let tag = match self.form {
            Form::Tls13 => {
                let (inner, _) = body.split_at_mut(length + 1);
                fill(&mut inner[..length]);
                inner[length] = kind;
                let additional: [u8; HEADER] = [header[0], header[1], header[2], header[3], header[4]];
                key.seal_in_place_separate_tag(nonce_of(nonce), Aad::from(additional), inner)
            }
            Form::Tls12Gcm | Form::Tls12ChaCha => {
                let additional = Aad::from(self.additional_of_tls12(kind, length));
                let prefix = if self.form == Form::Tls12Gcm { 8 } else { 0 };
                let (explicit, rest) = body.split_at_mut(prefix);
                explicit.copy_from_slice(&nonce[12 - prefix..]);
                let (inner, _) = rest.split_at_mut(length);
                fill(inner);
                key.seal_in_place_separate_tag(nonce_of(nonce), additional, inner)
            }
        };
        let tag = tag.map_err(|_| Failure::Exhausted)?;
        body[total - HEADER - TAG..].copy_from_slice(tag.as_ref());
        self.sequence += 1;
        Ok(total)
    }

    /// Decrypts one whole record where it lies. Returns its type and where in it the plaintext is.
    pub fn open(&mut self, record: &mut [u8]) -> Result<(u8, Range<usize>), Failure> {
        let (header, body) = record.split_at_mut(HEADER);
        let outer = header[0];
        if self.sequence >= u64::MAX - 1 {
            return Err(Failure::Exhausted);
        }
        // Everything looks like data from outside (RFC 8446 section 5.2).
        if self.is_tls13() && outer != content::APPLICATION_DATA {
            return Err(Failure::Unexpected);
        }
        let (nonce, prefix) = match self.form {
            Form::Tls12Gcm => {
                let explicit = body.get(..8).ok_or(Failure::BadRecord)?;
                let mut nonce = self.iv;
                nonce[4..].copy_from_slice(explicit);
                (nonce, 8)
            }
            Form::Tls13 | Form::Tls12ChaCha => (self.nonce(), 0),
        };
        let length = body.len().checked_sub(prefix + TAG).ok_or(Failure::BadRecord)?;
        let sealed = &mut body[prefix..];
        let opened = if self.is_tls13() {
            if length > FRAGMENT_MAX + 256 - TAG {
                return Err(Failure::Overflow);
            }
            let additional: [u8; HEADER] = [outer, header[1], header[2], header[3], header[4]];
            self.key.open_in_place(nonce_of(nonce), Aad::from(additional), sealed)
        } else {
            let additional = Aad::from(self.additional_of_tls12(outer, length));
            self.key.open_in_place(nonce_of(nonce), additional, sealed)
        };
        let plain = opened.map_err(|_| Failure::BadRecord)?;
        self.sequence += 1;
        let (kind, length) = if self.is_tls13() {
            // Padding counts, too (RFC 8446 section 5.4).
            if plain.len() > FRAGMENT_MAX + 1 {
                return Err(Failure::Overflow);
            }
            // Zeros after the type are padding.
            let at = plain.iter().rposition(|byte| *byte != 0).ok_or(Failure::Unexpected)?;
            (plain[at], at)
        } else {
            (outer, plain.len())
        };
        if length > FRAGMENT_MAX {
            return Err(Failure::Overflow);
        }
        let start = HEADER + prefix;
        Ok((kind, start..start + length))
    }
}

fn nonce_of(bytes: [u8; 12]) -> Nonce {
    Nonce::assume_unique_for_key(bytes)
}

/// The length of the record at the front of `input`, header included, once its header is there.
pub fn record_length(input: &[u8]) -> Result<Option<usize>, Failure> {
    let Some(header) = input.get(..HEADER) else { return Ok(None) };
    if header[1] != 3 {
        return Err(Failure::Hello(crate::hello::HelloError::BadRecord));
    }
    let length = HEADER + usize::from(u16::from_be_bytes([header[3], header[4]]));
    if length > RECORD_MAX { Err(Failure::Overflow) } else { Ok(Some(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::cipher::{AeadKey, Iv};

    fn keys(version: ProtocolVersion, chacha: bool) -> (Key, Key) {
        let make = || {
            let (key, iv) = (AeadKey::from([7; 32]), Iv::from([9; 12]));
            match chacha {
                true => ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv },
                false => ConnectionTrafficSecrets::Aes256Gcm { key, iv },
            }
        };
        (Key::new(version, (5, make())).unwrap(), Key::new(version, (5, make())).unwrap())
    }

    fn all() -> Vec<(Key, Key)> {
        let versions = [ProtocolVersion::TLSv1_3, ProtocolVersion::TLSv1_2];
        versions.iter().flat_map(|v| [keys(*v, false), keys(*v, true)]).collect()
    }

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does() {
        for (mut tx, mut rx) in all() {
            for length in [0, 1, 100, FRAGMENT_MAX] {
                let mut out = vec![0; length + tx.overhead()];
                let plain: Vec<u8> = (0..length).map(|i| i as u8).collect();
                let written =
                    tx.seal(content::APPLICATION_DATA, length, &mut out, |to| to.copy_from_slice(&plain));
                assert_eq!(written.unwrap(), out.len());
                assert_eq!(record_length(&out).unwrap(), Some(out.len()));
                let (kind, range) = rx.open(&mut out).unwrap();
                assert_eq!((kind, &out[range]), (content::APPLICATION_DATA, &plain[..]));
            }
            let mut out = vec![0; 20 + tx.overhead()];
            tx.seal(content::HANDSHAKE, 20, &mut out, |to| to.fill(1)).unwrap();
            for at in 0..out.len() {
                // Version and length of TLS 1.2 records are known otherwise.
                let mut changed = out.clone();
                changed[at] ^= 1;
                if rx.is_tls13() || !(1..HEADER).contains(&at) {
                    assert!(rx.open(&mut changed).is_err(), "byte {at} changed");
                }
            }
            for length in HEADER..out.len() {
                assert!(rx.open(&mut out.clone()[..length]).is_err(), "cut to {length}");
            }
            let (kind, _) = rx.open(&mut out.clone()).unwrap();
            assert_eq!(kind, content::HANDSHAKE);
            assert!(rx.open(&mut out).is_err(), "a record counts once");
        }
    }

    #[test]
    fn keys_are_not_used_for_more_than_they_protect() {
        for (mut tx, _) in all() {
            if tx.limit == u64::MAX - 1 {
                continue;
            }
            let mut out = [0; 64];
            tx.sequence = tx.limit - 16;
            assert!(tx.is_nearly_used_up());
            tx.sequence = tx.limit - 1;
            assert!(tx.seal(23, 1, &mut out, |_| {}).is_ok());
            assert!(matches!(tx.seal(23, 1, &mut out, |_| {}), Err(Failure::Exhausted)));
        }
    }

    #[test]
    fn padding_is_taken_away_and_a_record_of_nothing_else_is_refused() {
        let (mut tx, mut rx) = keys(ProtocolVersion::TLSv1_3, false);
        let mut out = vec![0; 10 + tx.overhead()];
        // Type 0 and zeros: only padding.
        tx.seal(0, 10, &mut out, |to| to.fill(0)).unwrap();
        assert!(matches!(rx.open(&mut out), Err(Failure::Unexpected)));
        tx.seal(0, 10, &mut out, |to| to.copy_from_slice(b"hello\x17\0\0\0\0")).unwrap();
        let (kind, range) = rx.open(&mut out).unwrap();
        assert_eq!((kind, &out[range]), (23, &b"hello"[..]));
    }
}
