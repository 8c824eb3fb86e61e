//! "Did you mean": the known word nearest to a mistyped one.

/// The candidate that differs least from `word`, if it is near enough that someone probably meant it: at most
/// one change (insertion, deletion, replacement, exchange of neighbours) for each three letters, and for words
/// of one or two letters none. The first of equally near candidates wins.
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word_bytes = word.as_bytes();
    // Nobody means a keyword by a word this long, and the distance costs length times length.
    if word_bytes.len() > 64 {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let limit = word_bytes.len().max(candidate.len()) / 3;
        if candidate == word || candidate.len() > 64 || word_bytes.len().abs_diff(candidate.len()) > limit {
            continue;
        }
        let distance = distance(word_bytes, candidate.as_bytes());
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance, letters compared without case.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut previous: Vec<usize> = (0..=b.len()).collect();
    let mut current: Vec<usize> = vec![0; b.len() + 1];
    for (i, &x) in a.iter().enumerate() {
        current[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let same = x.eq_ignore_ascii_case(&y);
            let mut cost = (previous[j] + usize::from(!same)).min(previous[j + 1] + 1).min(current[j] + 1);
            let exchanged =
                i > 0 && j > 0 && x.eq_ignore_ascii_case(&b[j - 1]) && y.eq_ignore_ascii_case(&a[i - 1]);
            if exchanged {
                cost = cost.min(before[j - 1] + 1);
            }
            current[j + 1] = cost;
        }
        std::mem::swap(&mut before, &mut previous);
        std::mem::swap(&mut previous, &mut current);
    }
    previous[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_misses_are_suggested() {
        let words = ["bind", "maxconn", "mode", "server", "stats", "timeout", "default_backend", "tfo"];
        let check = |word, expected| assert_eq!(did_you_mean(word, words), expected, "{word}");
        check("maxcnn", Some("maxconn"));
        check("bin", Some("bind"));
        check("BIND", Some("bind"));
        check("sevrer", Some("server"));
        check("default-backend", Some("default_backend"));
        check("timeuot", Some("timeout"));
        check("foo", None);
        check("frobnicate", None);
        check("x", None);
        check("", None);
        check(&"bind".repeat(1000), None);
    }

    #[test]
    fn distance_counts_single_changes() {
        for (a, b, expected) in
            [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("abc", "abd", 1), ("abc", "xyz", 3)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
            assert_eq!(distance(b.as_bytes(), a.as_bytes()), expected, "{b} {a}");
        }
    }
}
