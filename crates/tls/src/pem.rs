//! PEM files (RFC 7468): certificates, keys, lists, in any order, with text between them.
//!
//! Errors are named as OpenSSL names them ("no start line", "bad end line" ...), because that is what the reference
//! prints and what people search for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One `-----BEGIN x-----` ... `-----END x-----` section.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    /// What stands after BEGIN, for example `CERTIFICATE` or `RSA PRIVATE KEY`.
    pub label: String,
    /// The decoded content.
    pub der: Vec<u8>,
    /// The section is a key under a passphrase, in the traditional or in the PKCS#8 form.
    pub encrypted: bool,
    /// In the traditional form, how: the name of a cipher and, behind a comma, its IV in hexadecimal.
    pub encryption: Option<String>,
}

/// Why a file could not be read as PEM. `Display` gives OpenSSL's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PemError {
    /// A section does not end with the END line that belongs to its BEGIN line.
    BadEndLine,
    /// What stands between BEGIN and END is not base64.
    BadBase64,
}

impl std::fmt::Display for PemError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PemError::BadEndLine => "bad end line",
            PemError::BadBase64 => "bad base64 decode",
        })
    }
}

impl std::error::Error for PemError {}

/// All sections of `text`, in order. Text outside of sections is skipped, as OpenSSL does: bundles carry subject and
/// issuer as plain text.
pub fn blocks(text: &[u8]) -> Result<Vec<Block>, PemError> {
    let mut found = Vec::new();
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    while let Some(line) = lines.next() {
        let Some(label) = delimiter(line, b"-----BEGIN ") else { continue };
        found.push(block(label, &mut lines)?);
    }
    Ok(found)
}

/// The label of a BEGIN or END line.
fn delimiter<'a>(line: &'a [u8], prefix: &[u8]) -> Option<&'a str> {
    let label = line.strip_prefix(prefix)?.strip_suffix(b"-----")?;
    std::str::from_utf8(label).ok()
}

fn block<'a>(label: &str, lines: &mut impl Iterator<Item = &'a [u8]>) -> Result<Block, PemError> {
    let mut encrypted = label == "ENCRYPTED PRIVATE KEY";
    let mut encryption = None;
    let mut body = Vec::new();
    // Headers ("Proc-Type: 4,ENCRYPTED") come first and end with an empty line.
    let mut in_headers = false;
    loop {
        let line = lines.next().ok_or(PemError::BadEndLine)?;
        if let Some(end) = delimiter(line, b"-----END ") {
            if end != label {
                return Err(PemError::BadEndLine);
            }
            break;
        }
        if line.starts_with(b"-----") {
            return Err(PemError::BadEndLine);
        }
        if body.is_empty() && line.contains(&b':') {
            in_headers = true;
            if let Some(words) = line.strip_prefix(b"DEK-Info:") {
                encryption = Some(String::from_utf8_lossy(words).into_owned());
            }
            encrypted |= line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED");
        } else if in_headers {
            in_headers = !line.is_empty();
        } else {
            body.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
        }
    }
    let der = STANDARD.decode(&body).map_err(|_| PemError::BadBase64)?;
    Ok(Block { label: label.to_owned(), der, encrypted, encryption })
}

/// One section as text, with lines of 64 characters, as `dump ssl cert` prints it.
pub fn encode(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    let text = STANDARD.encode(der);
    for line in text.as_bytes().chunks(64) {
        out.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_between_other_text() {
        let one = encode("CERTIFICATE", &[1; 100]);
        let two = encode("PRIVATE KEY", b"key");
        let text = format!("subject=/CN=x\r\n{one}some words: here\n{}", two.replace('\n', "\r\n"));
        let blocks = blocks(text.as_bytes()).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].label.as_str(), blocks[0].der.as_slice()), ("CERTIFICATE", &[1u8; 100][..]));
        assert_eq!((blocks[1].label.as_str(), blocks[1].der.as_slice()), ("PRIVATE KEY", &b"key"[..]));
    }

    #[test]
    fn broken_sections_are_named_as_openssl_names_them() {
        let whole = encode("CERTIFICATE", &[1; 100]);
        let check =
            |text: &str, expected| assert_eq!(blocks(text.as_bytes()).err(), Some(expected), "{text}");
        check(&whole[..100], PemError::BadEndLine);
        check(&whole.replace("END CERT", "END FERT"), PemError::BadEndLine);
        check(&whole.replace("AQEB", "A!EB"), PemError::BadBase64);
        check(&format!("{}\n{whole}", &whole[..80]), PemError::BadEndLine);
        assert!(blocks(b"garbage\n").unwrap().is_empty());
    }

    #[test]
    fn keys_under_a_passphrase_are_marked() {
        let traditional = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n\
                           AAAA\n-----END RSA PRIVATE KEY-----\n";
        let pkcs8 = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        for text in [traditional, pkcs8] {
            assert!(blocks(text.as_bytes()).unwrap()[0].encrypted);
        }
    }
}
