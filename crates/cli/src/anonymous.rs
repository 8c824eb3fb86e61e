//! Dumps that may be shown to strangers: names and addresses become hashes of which the same ones stay the same
//! (`set anon`). The hash is the reference's, so that dumps of both can be compared.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

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
