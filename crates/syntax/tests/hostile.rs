//! Whatever the text, reading it ends, never panics, and every place it names exists. The first part draws
//! structured text with proptest; the second mutates real lines with a fixed seed, so that it does the same
//! thing on every machine.

use proptest::prelude::*;
use thalweg_syntax::{Diagnostics, Environment, Facts, Reader, SourceMap, parse_time_ms, split_arguments};

mod properties;
use properties::parse_all;

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in "[ -~\t\r\n\"'\\\\${}\\[\\]*#.-]{0,200}") {
        parse_all(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        parse_all(&bytes);
    }

    /// Quoting a word in any of the three ways gives the word back.
    #[test]
    fn quoting_is_undone(words in prop::collection::vec("[ -~é]{1,12}", 1..10)) {
        let mut sources = SourceMap::new();
        let weak = |w: &str| format!("\"{}\"", w.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "\\$"));
        let strong = |w: &str| format!("'{}'", w.replace('\'', "'\\''"));
        let bare = |w: &str| w.chars().map(|c| match c {
            ' ' | '\\' | '"' | '\'' | '#' => format!("\\{c}"),
            c => c.to_string(),
        }).collect::<String>();
        let hex = |w: &str| w.bytes().map(|b| format!("\\x{b:02x}")).collect::<String>();
        for quote in [&weak as &dyn Fn(&str) -> String, &strong, &bare, &hex] {
            // The first word keeps the line from being taken for a directive.
            let line = words.iter().map(|w| quote(w)).fold("k".to_string(), |a, b| a + " " + &b) + "\n";
            let file = sources.add("t", line.into_bytes());
            let mut reader = Reader::new(Facts::default(), Environment::empty());
            reader.start_file(file);
            let mut diagnostics = Diagnostics::new();
            let line = reader.next_line(&sources, &mut diagnostics).expect("a line");
            let found: Vec<&str> = line.arguments().iter().map(|w| w.text()).collect();
            prop_assert_eq!(&found, &words);
        }
    }

    /// The same between parentheses.
    #[test]
    fn quoted_arguments_are_undone(words in prop::collection::vec("[ -~é]{0,12}", 1..6)) {
        let weak = |w: &str| format!("\"{}\"", w.replace('\\', "\\\\").replace('"', "\\\""));
        let strong = |w: &str| format!("'{}'", w.replace('\'', "'\\''"));
        for quote in [&weak as &dyn Fn(&str) -> String, &strong] {
            let text = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(",") + ")rest";
            let list = split_arguments(text.as_bytes()).expect("a list");
            let found: Vec<String> =
                list.arguments.iter().map(|a| String::from_utf8_lossy(&a.text).into_owned()).collect();
            prop_assert_eq!(&found, &words);
            prop_assert_eq!(&text[list.end..], "rest");
        }
    }

    #[test]
    fn durations_grow_with_their_number(a in 0u32..10_000_000, b in 0u32..10_000_000, unit in "us|ms|s|m|h|d|") {
        let time = |n: u32| parse_time_ms(&format!("{n}{unit}")).unwrap_or(u32::MAX);
        prop_assert_eq!(a == 0, time(a) == 0);
        if a <= b {
            prop_assert!(time(a) <= time(b));
        }
    }
}

const SEEDS: [&str; 14] = [
    "global\n  maxconn 100 # many\n  setenv A \"x ${A-def} ${A[*]}\"\n",
    "frontend f\n  bind :80,127.0.0.1:81-90,[::1]:82,unix@/tmp/x,fd@3,abns@y\n",
    "  server s1 192.0.2.1:+80 cookie 'a b' weight 10\\ 0 check inter 1500ms\n",
    ".if defined(A) && (version_atleast(2.4) || !streq(\"$A\",x y))\n a\n.elif 0x1f\n b\n.else\n c\n.endif\n",
    ".notice \"${.FILE}:${.LINE}:${.SECTION}\"\n.alert 'x\\'\n",
    "  http-request set-path '%[path,regsub(\"(foo|bar)\",\"my/\\1\",g)]'\n",
    "streq(\"a,b\",'c)d',e\\ f)",
    "1 && (0 || !(defined(HOME) && feature(THREAD)))",
    "quic4@127.0.0.1:443",
    "stream+fd@${A}",
    "mptcp6@[2001:db8::1]:80-90",
    "udp@localhost:+514",
    "99999999999999999999d",
    "2147483647ms",
];

/// Pieces that mutations insert: everything that has a meaning somewhere.
const PIECES: [&str; 30] = [
    "\"",
    "'",
    "\\",
    "\\x",
    "\\x4",
    "$",
    "${",
    "}",
    "[*]",
    "[",
    "-",
    "#",
    "\n",
    "\r",
    "\0",
    "\u{fffd}",
    "é",
    " ",
    "\t",
    "(",
    ")",
    ",",
    "!",
    "&&",
    "||",
    ".if ",
    ".endif\n",
    "@",
    ":",
    "4294967296",
];

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

#[test]
fn mutated_lines_are_read() {
    let mut random = Random(42);
    for round in 0..20_000 {
        let mut text = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(text.len() + 1);
            match random.below(5) {
                0 => text.truncate(at),
                1 => {
                    let end = (at + random.below(8)).min(text.len());
                    text.drain(at..end);
                }
                2 => {
                    let piece = SEEDS[random.below(SEEDS.len())].as_bytes();
                    let cut = random.below(piece.len());
                    text.splice(at..at, piece[cut..].iter().copied());
                }
                3 if at < text.len() => text[at] = random.below(256) as u8,
                _ => {
                    let piece = PIECES[random.below(PIECES.len())].as_bytes();
                    text.splice(at..at, piece.iter().copied());
                }
            }
        }
        parse_all(&text);
    }
}
