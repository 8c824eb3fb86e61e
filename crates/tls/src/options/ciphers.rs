//! `ciphers` and `ciphersuites`: OpenSSL's lists, read as OpenSSL reads them, and what of them can be spoken here.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite as suite;

use super::cipher_table::{Au, Cipher, Enc, Kx, Mac, TABLE};

/// What a list of ciphers came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The suites that are spoken, in the list's order.
    pub suites: Vec<SupportedCipherSuite>,
    /// The suites that the list names and that are not supported.
    pub unsupported: Vec<&'static str>,
}

/// A list that OpenSSL would refuse: nothing matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoMatch;

impl std::fmt::Display for NoMatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no cipher matches it")
    }
}

impl std::error::Error for NoMatch {}

/// The suites of TLS 1.2, strongest first.
pub const TLS12: [SupportedCipherSuite; 6] = [
    suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// The suites of TLS 1.3 in OpenSSL's order.
pub const TLS13: [SupportedCipherSuite; 3] =
    [suite::TLS13_AES_256_GCM_SHA384, suite::TLS13_CHACHA20_POLY1305_SHA256, suite::TLS13_AES_128_GCM_SHA256];

/// The number of `TLS_AES_128_GCM_SHA256`.
pub const AES_128_GCM_SHA256: u16 = 0x1301;

/// The suites of TLS 1.3 with AES in GCM.
pub const AES_OF_TLS13: [u16; 2] = [AES_128_GCM_SHA256, 0x1302];

/// The suites with ChaCha20-Poly1305 (RFC 7905, RFC 8446), of DHE as well, which is not spoken here.
pub const CHACHA: [u16; 4] = [0x1303, 0xcca8, 0xcca9, 0xccaa];

/// OpenSSL's name of a suite, as `ssl_fc_cipher` gives it.
pub fn name(code: u16) -> &'static str {
    match code {
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0x1304 => "TLS_AES_128_CCM_SHA256",
        0x1305 => "TLS_AES_128_CCM_8_SHA256",
        _ => TABLE.iter().find(|cipher| cipher.code == code).map_or("(NONE)", |cipher| cipher.name),
    }
}

/// The bits of a suite's key: `ssl_fc_alg_keysize`, `ssl_fc_use_keysize`.
pub fn key_bits(code: u16) -> u16 {
    match code {
        0x1301 | 0x1304 | 0x1305 => 128,
        0x1302 | 0x1303 => 256,
        _ => TABLE.iter().find(|cipher| cipher.code == code).map_or(0, |cipher| cipher.bits),
    }
}

/// Reads `ciphersuites`: names of TLS 1.3 suites with colons between them. Names that nobody knows are skipped, as OpenSSL
/// does, as long as one is left.
pub fn ciphersuites(list: &str) -> Result<Chosen, NoMatch> {
    let mut chosen = Chosen { suites: Vec::new(), unsupported: Vec::new() };
    for word in list.split(':').map(str::trim) {
        let known = TLS13.into_iter().find(|suite| name(suite.suite().into()) == word);
        match (known, word) {
            (Some(suite), _) if !chosen.suites.contains(&suite) => chosen.suites.push(suite),
            (None, "TLS_AES_128_CCM_SHA256") => chosen.unsupported.push("TLS_AES_128_CCM_SHA256"),
            (None, "TLS_AES_128_CCM_8_SHA256") => chosen.unsupported.push("TLS_AES_128_CCM_8_SHA256"),
            _ => {}
        }
    }
    let empty = chosen.suites.is_empty() && chosen.unsupported.is_empty();
    if empty { Err(NoMatch) } else { Ok(chosen) }
}

/// Reads `ciphers`: OpenSSL's cipher list for TLS 1.2 (ciphers(1)).
pub fn ciphers(list: &str) -> Result<Chosen, NoMatch> {
    let mut state = State { entries: TABLE.iter().map(|cipher| (cipher, Mark::Off)).collect() };
    for (at, word) in list.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()).enumerate() {
        state.word(word, at == 0)?;
    }
    let mut chosen = Chosen { suites: Vec::new(), unsupported: Vec::new() };
    for (cipher, mark) in &state.entries {
        if *mark != Mark::On {
            continue;
        }
        match TLS12.into_iter().find(|suite| u16::from(suite.suite()) == cipher.code) {
            Some(suite) => chosen.suites.push(suite),
            None => chosen.unsupported.push(cipher.name),
        }
    }
    let empty = chosen.suites.is_empty() && chosen.unsupported.is_empty();
    if empty { Err(NoMatch) } else { Ok(chosen) }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    On,
    Off,
    /// `!`: can never come back.
    Dead,
}

/// All ciphers in their present order, and which of them are in the list.
struct State {
    entries: Vec<(&'static Cipher, Mark)>,
}

impl State {
    fn word(&mut self, word: &str, is_first: bool) -> Result<(), NoMatch> {
        if let Some(command) = word.strip_prefix('@') {
            if command == "STRENGTH" {
                // Stable, so that equals keep their order.
                self.entries
                    .sort_by_key(|(cipher, mark)| (*mark != Mark::On, std::cmp::Reverse(cipher.bits)));
            } else if !command.starts_with("SECLEVEL=") {
                return Err(NoMatch);
            }
            return Ok(());
        }
        let (operation, rest) = match word.as_bytes()[0] {
            operation @ (b'!' | b'-' | b'+') => (operation, &word[1..]),
            _ => (b' ', word),
        };
        if rest == "DEFAULT" || rest.starts_with("DEFAULT@") {
            // Only at the start, OpenSSL says; elsewhere it matches nothing.
            if is_first && operation == b' ' {
                self.word("ALL", false)?;
                for removed in ["!COMPLEMENTOFDEFAULT", "!eNULL"] {
                    self.word(removed, false)?;
                }
            }
            return Ok(());
        }
        let matches = |cipher: &Cipher| rest.split('+').all(|part| fits(cipher, part));
        match operation {
            b'!' => self.mark(matches, |_| true, Mark::Dead),
            b'-' => self.mark(matches, |mark| mark == Mark::On, Mark::Off),
            b'+' => self.move_to_end(matches, Mark::On),
            _ => self.move_to_end(matches, Mark::Off),
        }
        Ok(())
    }

    fn mark(&mut self, matches: impl Fn(&Cipher) -> bool, which: impl Fn(Mark) -> bool, to: Mark) {
        for (cipher, mark) in &mut self.entries {
            if which(*mark) && matches(cipher) {
                *mark = to;
            }
        }
    }

    /// Moves those that match and have the mark `from` to the end of the list, switched on.
    fn move_to_end(&mut self, matches: impl Fn(&Cipher) -> bool, from: Mark) {
        let moves = |entry: &(&'static Cipher, Mark)| entry.1 == from && matches(entry.0);
        let (moved, mut rest): (Vec<_>, Vec<_>) = self.entries.iter().copied().partition(moves);
        rest.extend(moved.into_iter().map(|(cipher, _)| (cipher, Mark::On)));
        self.entries = rest;
    }
}

/// Whether a cipher is meant by a word of the list.
fn fits(cipher: &Cipher, word: &str) -> bool {
    let anonymous = cipher.au == Au::Null;
    let psk = matches!(cipher.kx, Kx::Psk | Kx::DhePsk | Kx::EcdhePsk | Kx::RsaPsk);
    match word {
        "ALL" => cipher.enc != Enc::Null,
        "COMPLEMENTOFALL" => cipher.enc == Enc::Null,
        "COMPLEMENTOFDEFAULT" => {
            let rare =
                matches!(cipher.enc, Enc::AesCcm | Enc::AesCcm8 | Enc::Aria | Enc::Camellia | Enc::Null);
            anonymous || cipher.au == Au::Dss || rare
        }
        "HIGH" | "FIPS" => cipher.enc != Enc::Null,
        "kRSA" | "RSA" => cipher.kx == Kx::Rsa,
        "aRSA" => cipher.au == Au::Rsa,
        "kDHE" | "kEDH" | "DH" => cipher.kx == Kx::Dhe,
        "DHE" | "EDH" => cipher.kx == Kx::Dhe && !anonymous,
        "ADH" => cipher.kx == Kx::Dhe && anonymous,
        "kECDHE" | "kEECDH" | "ECDH" => cipher.kx == Kx::Ecdhe,
        "ECDHE" | "EECDH" => cipher.kx == Kx::Ecdhe && !anonymous,
        "AECDH" => cipher.kx == Kx::Ecdhe && anonymous,
        "aNULL" => anonymous,
        "eNULL" | "NULL" => cipher.enc == Enc::Null,
        "aECDSA" | "ECDSA" => cipher.au == Au::Ecdsa,
        "aDSS" | "DSS" => cipher.au == Au::Dss,
        "PSK" => psk,
        "kPSK" => cipher.kx == Kx::Psk,
        "kRSAPSK" => cipher.kx == Kx::RsaPsk,
        "kDHEPSK" => cipher.kx == Kx::DhePsk,
        "kECDHEPSK" => cipher.kx == Kx::EcdhePsk,
        "aPSK" => cipher.au == Au::Psk,
        "SRP" | "kSRP" => cipher.kx == Kx::Srp,
        "aSRP" => cipher.au == Au::Srp,
        "AES" => matches!(cipher.enc, Enc::AesGcm | Enc::AesCcm | Enc::AesCcm8 | Enc::AesCbc),
        "AES128" => fits(cipher, "AES") && cipher.bits == 128,
        "AES256" => fits(cipher, "AES") && cipher.bits == 256,
        "AESGCM" => cipher.enc == Enc::AesGcm,
        "AESCCM" => matches!(cipher.enc, Enc::AesCcm | Enc::AesCcm8),
        "AESCCM8" => cipher.enc == Enc::AesCcm8,
        "CHACHA20" => cipher.enc == Enc::ChaCha20,
        "CAMELLIA" => cipher.enc == Enc::Camellia,
        "CAMELLIA128" => cipher.enc == Enc::Camellia && cipher.bits == 128,
        "CAMELLIA256" => cipher.enc == Enc::Camellia && cipher.bits == 256,
        "ARIA" | "ARIAGCM" => cipher.enc == Enc::Aria,
        "ARIA128" => cipher.enc == Enc::Aria && cipher.bits == 128,
        "ARIA256" => cipher.enc == Enc::Aria && cipher.bits == 256,
        "CBC" => matches!(cipher.enc, Enc::AesCbc | Enc::Camellia),
        "SHA1" | "SHA" => cipher.mac == Mac::Sha1,
        "SHA256" => cipher.mac == Mac::Sha256,
        "SHA384" => cipher.mac == Mac::Sha384,
        "MD5" => cipher.mac == Mac::Md5,
        "TLSv1.2" => cipher.version == 0x0303,
        "TLSv1" | "TLSv1.0" => cipher.version == 0x0301,
        "SSLv3" => cipher.version == 0x0300,
        _ => cipher.name == word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<&'static str> {
        let chosen = ciphers(list).unwrap();
        chosen.suites.iter().map(|suite| name(suite.suite().into())).collect()
    }

    /// What `openssl ciphers` makes of the same lists, those left out that are not supported here.
    #[test]
    fn lists_mean_what_they_mean_to_openssl() {
        let Ok(probe) = std::process::Command::new("openssl").args(["version"]).output() else {
            println!("skipped: there is no openssl command");
            return;
        };
        if !String::from_utf8_lossy(&probe.stdout).starts_with("OpenSSL 3.0") {
            println!("skipped: the table is OpenSSL 3.0's");
            return;
        }
        for list in [
            "DEFAULT",
            "HIGH:!aNULL:!MD5",
            "ECDHE-RSA-AES128-GCM-SHA256:FOO",
            "kEECDH+aRSA+AES:kRSA+AES:+AES256:RC4-SHA:!kEDH:!LOW:!EXP:!MD5:!aNULL:!eNULL",
            "ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES256:ECDH+AES128:!aNULL:!SHA1:!AESCCM",
            "aECDSA",
            "ECDHE+AES128:ECDHE+AES256:!aECDSA",
            "ALL:-ECDHE:ECDHE+CHACHA20",
            "ECDHE+AES128:ECDHE:@STRENGTH",
            "AESGCM:+aRSA",
            "ALL:!ECDHE:ECDHE",
            "EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH",
            "TLSv1.2:!AES256",
            "AES256-SHA",
            "kRSA",
            "CHACHA20,AES128 ECDHE",
        ] {
            let output =
                std::process::Command::new("openssl").args(["ciphers", "-s", "-tls1_2", list]).output();
            let text = String::from_utf8(output.unwrap().stdout).unwrap();
            let supported: Vec<&str> = TLS12.iter().map(|suite| name(suite.suite().into())).collect();
            let expected: Vec<&str> =
                text.trim().split(':').filter(|name| supported.contains(name)).collect();
            assert_eq!(names(list), expected, "{list}");
        }
    }

    #[test]
    fn lists_that_match_nothing() {
        for list in ["FOO", "TLS_AES_128_GCM_SHA256", "", "!ALL", "RC4-SHA:EXP", "ALL:@FOO"] {
            assert_eq!(ciphers(list), Err(NoMatch), "{list}");
        }
        assert!(ciphers("kRSA").unwrap().suites.is_empty());
        assert_eq!(ciphers("AES256-SHA").unwrap().unsupported, ["AES256-SHA"]);
        assert_eq!(ciphersuites("FOO"), Err(NoMatch));
        assert_eq!(ciphersuites("TLS_AES_128_CCM_SHA256").unwrap().unsupported.len(), 1);
        let chosen = ciphersuites("TLS_AES_128_GCM_SHA256:FOO:TLS_AES_256_GCM_SHA384").unwrap();
        assert_eq!(chosen.suites, [TLS13[2], TLS13[0]]);
    }
}
