//! Private keys under a passphrase, as OpenSSL writes them.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::*;
use thalweg_tls::certificate::{Ask, LoadOptions, Loader, Passphrases};
use thalweg_tls::generate::Generator;

/// A certificate and its key, under the passphrase `secret`: PBES2 with each length of AES, then with other functions, the
/// old form twice, and scrypt.
const KEYS: &str = include_str!("data/locked-keys.pem");

/// How many of them are in a form that is read.
const READABLE: usize = 7;

/// Says the same to whoever asks, and counts.
struct Always(&'static str, Arc<AtomicUsize>);

impl Ask for Always {
    fn ask(&self, path: &str) -> Result<Vec<u8>, String> {
        self.1.fetch_add(1, Ordering::Relaxed);
        if self.0.is_empty() { Err(format!("nobody knows {path}")) } else { Ok(self.0.into()) }
    }
}

fn options(answer: &'static str) -> (LoadOptions, Arc<Passphrases>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let passphrases = Arc::new(Passphrases::new(Box::new(Always(answer, Arc::clone(&count)))));
    let options = LoadOptions { passphrases: Some(Arc::clone(&passphrases)), ..LoadOptions::default() };
    (options, passphrases, count)
}

/// The certificate with each of the keys.
fn files() -> Vec<String> {
    let mut blocks = KEYS.split("-----BEGIN ").skip(1).map(|block| format!("-----BEGIN {block}"));
    let certificate = blocks.next().unwrap();
    blocks.map(|key| certificate.clone() + &key).collect()
}

fn load(options: &LoadOptions, text: &str) -> Result<(), String> {
    let files = MemoryFiles::default();
    let loaded = Loader { files: &files, options }.load_bytes("a.pem", text.as_bytes());
    loaded.map(drop).map_err(|error| error.to_string())
}

#[test]
fn keys_are_opened_by_a_passphrase_that_is_asked_for_once() {
    let files = files();
    assert_eq!(files.len(), READABLE + 1);
    for answer in ["secret", "secret\n", "secret\r\n"] {
        let (options, passphrases, count) = options(answer);
        for (at, text) in files[..READABLE].iter().enumerate() {
            assert_eq!(load(&options, text), Ok(()), "{at}");
        }
        assert_eq!(count.load(Ordering::Relaxed), 1, "the others are opened by the one that is known");
        // While it serves nobody is asked, and what is known is known.
        passphrases.stop_asking();
        assert_eq!(load(&options, &files[0]), Ok(()));
    }
}

#[test]
fn keys_that_cannot_be_opened_say_why() {
    let files = files();
    let locked = "No Private Key found in 'a.pem': the private key is protected by a passphrase";
    for (answer, text, why) in [
        ("wrong", &files[0], "; what 'ssl-passphrase-cmd' says does not open it."),
        ("wrong", &files[READABLE - 1], "; what 'ssl-passphrase-cmd' says does not open it."),
        ("", &files[0], "; nobody knows a.pem."),
        (
            "secret",
            &files[READABLE],
            "; its form is not supported: write it anew with 'openssl pkey -aes256'.",
        ),
    ] {
        let (options, ..) = options(answer);
        assert_eq!(load(&options, text), Err(format!("{locked}{why}")));
    }
    let (options, passphrases, count) = options("secret");
    passphrases.stop_asking();
    let error = load(&options, &files[0]).unwrap_err();
    assert_eq!(error, format!("{locked}; none of the passphrases fits that were known at the start."));
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let error = load(&LoadOptions::default(), &files[0]).unwrap_err();
    assert!(error.contains("no 'ssl-passphrase-cmd' says it"), "{error}");
}

/// What is cut or changed is refused, whatever it is.
#[test]
fn broken_keys_are_refused() {
    let (options, ..) = options("secret");
    for text in &files()[..READABLE] {
        let (key, end) = (text.rfind("-----BEGIN").unwrap(), text.rfind("-----END").unwrap());
        for at in (key..end).step_by(7) {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            // Some changes make no difference that a key could show, none makes it panic or hang.
            let _ = load(&options, &String::from_utf8(changed).unwrap());
            assert!(load(&options, &text[..at]).is_err());
        }
    }
}

#[test]
fn authorities_are_opened_by_the_passphrase_of_their_line() {
    let text = &files()[0];
    for (passphrase, refusal) in [
        (Some("secret"), None),
        (Some("other"), Some("the passphrase does not open it")),
        (None, Some("passphrase")),
    ] {
        let made = Generator::new(text.as_bytes(), passphrase, 1).map(drop);
        assert_eq!(made.is_ok(), refusal.is_none(), "{passphrase:?}: {made:?}");
        assert!(refusal.is_none_or(|words| made.unwrap_err().contains(words)), "{passphrase:?}");
    }
}
