//! Host names, through the system's resolver (`getaddrinfo`). It blocks: for start-up only.

use std::net::{IpAddr, ToSocketAddrs};

/// The addresses of a host name in the order the system gives them, without repetition; none when it has none.
pub fn addresses(name: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    if let Ok(addresses) = (name, 0_u16).to_socket_addrs() {
        for address in addresses {
            if !found.contains(&address.ip()) {
                found.push(address.ip());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn numbers_are_their_own_addresses() {
        assert_eq!(addresses("127.0.0.1"), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        // The short form inet_aton() knows.
        assert_eq!(addresses("127.1"), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        assert!(addresses("").is_empty());
        assert!(addresses("a b").is_empty());
    }
}
