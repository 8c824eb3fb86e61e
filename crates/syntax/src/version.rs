//! Comparing versions as `version_atleast()` and `openssl_version_atleast()` do
//! (configuration manual, section 2.4).

/// A proxy version, ordered: `3.5-dev5 < 3.5-rc1 < 3.5 < 3.5.1`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: [u32; 3],
    /// Development, release candidate, or neither, with the number that follows.
    stage: (Stage, u32),
    /// Commits since the tag.
    commits: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Development,
    Candidate,
    #[default]
    Release,
}

impl Version {
    /// Reads a version such as `3.5-dev5-50872d-2`. Nothing is an error: what is missing or cannot be read
    /// counts as zero, so that a leading letter gives the lowest version.
    pub fn parse(text: &str) -> Version {
        let mut version = Version::default();
        let mut rest = text;
        for number in &mut version.numbers {
            *number = take_number(&mut rest);
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None => break,
            }
        }
        let mut parts = rest.strip_prefix('-').unwrap_or_default().split('-').peekable();
        if let Some(part) = parts.peek() {
            for (prefix, stage) in
                [("dev", Stage::Development), ("rc", Stage::Candidate), ("pre", Stage::Candidate)]
            {
                if let Some(mut number) = part.strip_prefix(prefix) {
                    version.stage = (stage, take_number(&mut number));
                    parts.next();
                    break;
                }
            }
        }
        // What remains is an optional commit id, then an optional number of commits.
        if let Some(last) = parts.last()
            && !last.is_empty()
            && last.bytes().all(|b| b.is_ascii_digit())
        {
            let mut last = last;
            version.commits = take_number(&mut last);
        }
        version
    }
}

/// An OpenSSL version, ordered: `3.0.0-beta1 < 3.0.0 < 3.0.1`, `1.1.1 < 1.1.1a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpensslVersion {
    numbers: [u32; 3],
    /// 0 for a pre-release, 1 for the release, 2 and above for patch letters.
    patch: u32,
}

impl OpensslVersion {
    /// Reads `major.minor.fix`, optionally followed by a letter or by `-something` for a pre-release.
    pub fn parse(text: &str) -> Option<OpensslVersion> {
        let mut rest = text;
        let mut numbers = [0; 3];
        for (index, number) in numbers.iter_mut().enumerate() {
            if index > 0 {
                rest = rest.strip_prefix('.')?;
            }
            if !rest.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            *number = take_number(&mut rest);
        }
        let patch = match rest.bytes().next() {
            None => 1,
            Some(b'-') => 0,
            Some(letter @ b'a'..=b'z') => 2 + u32::from(letter - b'a'),
            Some(_) => return None,
        };
        Some(OpensslVersion { numbers, patch })
    }
}

fn take_number(text: &mut &str) -> u32 {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(length);
    *text = rest;
    if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered() {
        let ordered = [
            "",
            "1.9",
            "2.x",
            "3.4.1",
            "3.5-dev",
            "3.5-dev4",
            "3.5-dev5",
            "3.5-dev5-abcdef-2",
            "3.5-dev5-3",
            "3.5-dev10",
            "3.5-rc1",
            "3.5",
            "3.5.1",
            "3.10",
            "4",
        ];
        for pair in ordered.windows(2) {
            assert!(Version::parse(pair[0]) < Version::parse(pair[1]), "{pair:?}");
        }
        assert_eq!(Version::parse("x"), Version::parse("v9"));
        assert_eq!(Version::parse("3.5"), Version::parse("3.5.0"));
        assert_eq!(Version::parse("3.5-dev5-g50872d-2"), Version::parse("3.5-dev5-2"));
    }

    #[test]
    fn openssl_versions_are_ordered() {
        let ordered = ["1.0.2", "1.1.1-beta", "1.1.1", "1.1.1a", "3.0.0-beta1", "3.0.0", "3.0.22", "3.5.0"];
        for pair in ordered.windows(2) {
            assert!(OpensslVersion::parse(pair[0]) < OpensslVersion::parse(pair[1]), "{pair:?}");
        }
        for wrong in ["", "x", "3", "3.0", "3.0.", "3.0.1+"] {
            assert_eq!(OpensslVersion::parse(wrong), None, "{wrong}");
        }
    }
}
