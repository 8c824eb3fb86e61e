//! The properties of `properties/mod.rs`, held against a fixed number of seeded inputs.

mod properties;

const SEEDS: &[&[u8]] = &[
    b"a=1; b=\"x;y\\\"\"; c, d=2",
    b"a=1; Expires=Wed, 09 Jun 2021 10:18:14 GMT; Path=/, b=2",
    b"Sun, 06 Nov 1994 08:49:37 GMT",
    b"Sunday, 06-Nov-94 08:49:37 GMT",
    b"Sun Nov  6 08:49:37 1994",
    b"http://user:pass@[::1]:8080/path/x;y?query=1&b=2#f",
    b"host.example:443",
    b"*",
    b"/a//b?c?d",
    b"gzip;q=1.0, identity; q=0.5, *;q=0, \"a,b\"",
    b"Access-Control-Allow-Credentials",
];

/// xorshift64*: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

#[test]
fn readers_of_values_survive_anything() {
    const BYTES: &[u8] = b"aZ09=;,\"\\ \t:/?#@[]%*&$\0\r\n\x7f\xff.-_";
    let mut random = Random(0x5eed_0003);
    for _ in 0..60_000 {
        let mut text = SEEDS[random.below(SEEDS.len())].to_vec();
        for _ in 0..random.below(5) {
            let at = random.below(text.len() + 1);
            let byte = BYTES[random.below(BYTES.len())];
            match random.below(4) {
                0 => text.insert(at, byte),
                1 if at < text.len() => text[at] = byte,
                2 if at < text.len() => {
                    text.remove(at);
                }
                _ => {
                    let other = SEEDS[random.below(SEEDS.len())];
                    text.truncate(at);
                    text.extend_from_slice(&other[random.below(other.len())..]);
                }
            }
        }
        properties::values(&text);
    }
}

#[test]
fn edited_heads_are_lists_of_fields() {
    let mut random = Random(0x5eed_0004);
    for _ in 0..2_000 {
        let script: Vec<u8> = (0..4 * (1 + random.below(60))).map(|_| random.next() as u8).collect();
        properties::edits(&script);
    }
}
