//! What is drawn by lot: numbers, texts, and the words of arguments.

/// A small generator of numbers: the same seed gives the same cases everywhere.
pub struct Random {
    pub state: u64,
    /// A name that no other case uses, for what outlives a request.
    pub own: u64,
}

impl Random {
    pub fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The name of a variable, of any scope and some that do not exist.
    pub fn variable(&mut self) -> String {
        match self.below(10) {
            0 => format!("proc.o{}", self.own),
            1..=4 => "txn.o".into(),
            5 => "sess.o".into(),
            6 => "req.o".into(),
            _ => self
                .pick(&[
                    "res.o", "check.o", "psess.o", "ptxn.o", "preq.o", "pres.o", "bad.o", "o", "txn.",
                    "txn.none", "req.o-o",
                ])
                .to_string(),
        }
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) as usize) % n
    }

    pub fn pick<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.below(of.len())]
    }
}

pub const STRINGS: [&str; 24] = [
    "",
    "a",
    "abc",
    "ABC",
    "0",
    "1",
    "-1",
    "42",
    "007",
    "3.14",
    "1.2.3.4",
    "::1",
    "a,b",
    "a b",
    "true",
    "be/s1",
    "s2",
    "be",
    "fe",
    "9223372036854775807",
    "-9223372036854775808",
    "/a/b/c.d?e=f&g",
    "aGVsbG8=",
    "x=1;y=2",
];

pub const HEXES: [&str; 14] = [
    "00",
    "ff",
    "41",
    "0a0d09",
    "c3a9",
    "eda080",
    "4100",
    "0001020304050607",
    "ffffffffffffffff",
    "7f000001",
    "80",
    "c0af",
    "f09f9880",
    "61626300636465",
];

pub const INTS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "-7",
    "255",
    "256",
    "65536",
    "4294967295",
    "4294967296",
    "1700000000",
    "9223372036854775807",
    "-9223372036854775808",
];

pub const SMALL: [&str; 10] = ["1", "2", "3", "-1", "-2", "-3", "0", "5", "99", "x"];

pub const CHARS: [&str; 10] = [",", ".", "/", "=", "&", ";", "a", " ", "abc", ",;"];

/// A text as an argument: in quotes of the second level, as commas and blanks need.
pub fn argument(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./:=+*@".contains(&b);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', ""))
    }
}
