//! Dumps that may be shown to strangers: names and addresses become hashes of which the same ones stay the same
//! (`set anon`). The hash is the reference's, so that dumps of both can be compared.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use thalweg_config::written::{CountingLine, words};
use thalweg_syntax::carry::restore;

/// How much of a hash is shown: too little to find the text again.
const SHOWN: u32 = 0xff_ffff;

/// A text as a dump shows it; with the key 0, as it is.
pub fn text(key: u32, text: &str) -> Cow<'_, str> {
    if key == 0 || text.is_empty() {
        return Cow::Borrowed(text);
    }
    let hash = xxhash_rust::xxh32::xxh32(&restore(text.as_bytes()), key);
    Cow::Owned(format!("{:06x}", hash & SHOWN))
}

/// An address as a dump shows it: the port stays.
pub fn address(key: u32, address: SocketAddr) -> String {
    match key {
        0 => address.to_string(),
        _ => format!("{}:{}", text(key, &address.ip().to_string()), address.port()),
    }
}

/// The address of a server, as text, without its port. Loopback tells nothing.
pub fn server_address(key: u32, address: &str) -> Cow<'_, str> {
    if key == 0 {
        return Cow::Borrowed(address);
    }
    match address.parse::<IpAddr>() {
        Ok(ip) if ip.is_loopback() => Cow::Borrowed(address),
        Ok(IpAddr::V4(_)) => Cow::Owned(format!("IPV4({})", text(key, address))),
        Ok(IpAddr::V6(_)) => Cow::Owned(format!("IPV6({})", text(key, address))),
        Err(_) => text(key, address),
    }
}

/// Keywords that names follow.
const NAMED: [&str; 9] =
    ["acl", "backend", "default_backend", "defaults", "frontend", "listen", "peers", "server", "use_backend"];

/// Keywords of two words, of which the second tells nothing of anybody.
const FAMILIES: [&str; 5] = ["balance", "mode", "no", "option", "timeout"];

/// Whether a word tells nothing of anybody: a number, a duration, a size, or what commands call a state.
pub fn is_harmless(word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit())
        && word.len() <= NUMBER_MAX
        && word.bytes().all(|b| b.is_ascii_alphanumeric());
    is_number || ["changed", "drain", "maint", "no", "off", "on", "ready", "set", "yes"].contains(&word)
}

/// The longest number with its unit.
const NUMBER_MAX: usize = 12;

/// A line of a configuration; with the key 0, as it is. Else it shows its keyword, names as hashes, and ends before the first word
/// that may tell anything.
pub fn line(key: u32, line: &CountingLine) -> String {
    if key == 0 {
        return line.text();
    }
    let keyword = &*line.words[0];
    let mut shown = CountingLine { words: words([keyword]), ..line.clone() };
    let mut rest = line.words.iter().enumerate().skip(1);
    for (at, word) in &mut rest {
        // The key itself is the one number that would tell all.
        if at == 1 && FAMILIES.contains(&keyword) || is_harmless(word) && keyword != "anonkey" {
            shown.words.push(word.clone());
        } else if at == 1 && (line.opens || NAMED.contains(&keyword)) {
            shown.words.push(format!("ID({})", text(key, word)).into());
        } else {
            shown.words.push("[...]".into());
            break;
        }
    }
    shown.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_reference() {
        for (key, plain, expected) in
            [(5, "be", "5c7c37"), (5, "a", "cec951"), (7, "abc", "cfd434"), (5, "", ""), (0, "be", "be")]
        {
            assert_eq!(text(key, plain), expected);
        }
        for (plain, expected) in
            [("10.1.2.3", "IPV4(ee3025)"), ("2001:db8::1", "IPV6(c4347b)"), ("::1", "::1"), ("-", "2a05f4")]
        {
            assert_eq!(server_address(5, plain), expected);
        }
        let local = SocketAddr::from(([127, 0, 0, 1], 34566));
        assert_eq!((address(5, local), address(0, local)), ("50b561:34566".into(), "127.0.0.1:34566".into()));
    }
}
