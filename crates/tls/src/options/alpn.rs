//! `alpn`: the protocols that are offered, most wanted first.

/// A list that no ALPN extension can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlpnError {
    /// Nothing stands between two commas, and a name on the wire has one byte at least.
    EmptyName,
    /// A name on the wire has at most 255 bytes.
    LongName,
    /// The whole list has at most 65535 bytes.
    LongList,
}

impl std::fmt::Display for AlpnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AlpnError::EmptyName => "'alpn' : a protocol name is empty",
            AlpnError::LongName => "'alpn' : protocol name too long",
            AlpnError::LongList => "'alpn' : the list of protocols is too long",
        })
    }
}

impl std::error::Error for AlpnError {}

/// Reads names with commas between them, `h2,http/1.1` for example.
pub fn parse(list: &str) -> Result<Vec<Vec<u8>>, AlpnError> {
    let names: Vec<Vec<u8>> = list.split(',').map(|name| name.as_bytes().to_vec()).collect();
    if names.iter().any(Vec::is_empty) {
        return Err(AlpnError::EmptyName);
    }
    if names.iter().any(|name| name.len() > 255) {
        return Err(AlpnError::LongName);
    }
    if names.iter().map(|name| name.len() + 1).sum::<usize>() > 0xffff {
        return Err(AlpnError::LongList);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_protocols() {
        assert_eq!(parse("h2,http/1.1"), Ok(vec![b"h2".to_vec(), b"http/1.1".to_vec()]));
        assert_eq!(parse("h2,,x"), Err(AlpnError::EmptyName));
        assert_eq!(parse(""), Err(AlpnError::EmptyName));
        assert_eq!(parse(&"a".repeat(256)), Err(AlpnError::LongName));
        assert_eq!(parse(&vec!["a".repeat(255); 257].join(",")), Err(AlpnError::LongList));
    }
}
