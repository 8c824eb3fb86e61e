//! The properties of `properties/mod.rs`, held against a fixed number of made-up conversations. The same seeds every
//! time, so that a failure is one to look at, not to wait for.

mod properties;

use thalweg_h2::connection::Role;
use thalweg_h2::frame::PREFACE;

/// xorshift64*: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Header blocks that mean something.
const BLOCKS: &[&[u8]] = &[
    b"\x82\x87\x84\x01\x01a",
    b"\x83\x87\x84\x01\x01a\x0f\x0d\x013",
    b"\x82\x86\x44\x01/\x41\x01b",
    b"\x88",
    b"\x88\x0f\x0d\x013",
    b"\x08\x03103",
    b"\x89",
    b"\x00\x01x\x01y",
    b"\x40\x01x\x01y",
    b"\xbe",
    b"\x20\x3f\x45",
    b"\x82\x82",
    b"\x00\x01X\x01y",
    b"",
];

fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// What a peer that behaves would send next.
fn honest(random: &mut Random, role: Role, next: &mut u32, open: &mut Vec<u32>, out: &mut Vec<u8>) {
    let ends = random.below(3) == 0;
    match (random.below(8), open.is_empty()) {
        (0..=1, _) | (_, true) => {
            let (block, ends): (&[u8], bool) = match role {
                Role::Server if random.below(2) == 0 => (b"\x83\x87\x84\x01\x01a", false),
                Role::Server => (b"\x83\x87\x84\x01\x01a\x0f\x0d\x0210", false),
                Role::Client => (b"\x88", ends),
            };
            let (first, rest) = block.split_at(random.below(block.len() as u64 + 1) as usize);
            if random.below(4) == 0 {
                put(out, 1, u8::from(ends), *next, first);
                put(out, 9, 4, *next, rest);
            } else {
                put(out, 1, 4 | u8::from(ends), *next, block);
            }
            if !ends {
                open.push(*next);
            }
            *next += 2;
        }
        (kind, false) => {
            let at = random.below(open.len() as u64) as usize;
            let stream = open[at];
            match kind {
                2..=4 => {
                    let data = vec![b'd'; [0, 1, 5, 10, 300][random.below(5) as usize]];
                    if random.below(3) == 0 {
                        let padding = random.below(4) as u8;
                        let padded = [&[padding][..], &data, &vec![0; usize::from(padding)]].concat();
                        put(out, 0, 8 | u8::from(ends), stream, &padded);
                    } else {
                        put(out, 0, u8::from(ends), stream, &data);
                    }
                    if ends {
                        open.remove(at);
                    }
                }
                5 => {
                    put(out, 1, 5, stream, b"\x00\x01x\x01y");
                    open.remove(at);
                }
                6 => put(out, 8, 0, stream, &[0, 0, 4, 0]),
                _ => {
                    put(out, 3, 0, stream, &[0, 0, 0, 8]);
                    open.remove(at);
                }
            }
        }
    }
}

fn frame(random: &mut Random, out: &mut Vec<u8>) {
    let kind = [0, 0, 1, 1, 1, 2, 3, 4, 6, 7, 8, 8, 9, 5, 77][random.below(15) as usize];
    let mut payload = match kind {
        0 => vec![b'd'; random.below(20) as usize],
        1 | 9 => BLOCKS[random.below(BLOCKS.len() as u64) as usize].to_vec(),
        4 => {
            let id = random.below(10) as u8;
            let value = [0u32, 1, 2, 100, 16_384, 65_535, 0x7fff_ffff, u32::MAX][random.below(8) as usize];
            let one = [&[0, id][..], &value.to_be_bytes()].concat();
            one.repeat(random.below(3) as usize)
        }
        6 | 7 => vec![0; 8],
        2 => vec![0, 0, 0, random.below(6) as u8, 1],
        _ => [0u32, 1, 5, 1000, 0x7fff_ffff][random.below(5) as usize].to_be_bytes().to_vec(),
    };
    let mut flags = [0, 1, 4, 5, 5, 5][random.below(6) as usize];
    if random.below(12) == 0 {
        flags = random.next() as u8;
    }
    if random.below(16) == 0 {
        payload.truncate(random.below(4) as usize);
    }
    let stream = match kind {
        4 | 6 | 7 if random.below(20) > 0 => 0,
        8 if random.below(2) == 0 => 0,
        _ => [1, 1, 3, 3, 5, 7, 2, 0, 99][random.below(9) as usize],
    };
    put(out, kind, flags, stream, &payload);
}

#[test]
fn conversations_that_nobody_wrote() {
    for seed in 1..=30_000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let role = if seed % 3 == 0 { Role::Client } else { Role::Server };
        let mut input = Vec::new();
        if role == Role::Server {
            input.extend_from_slice(PREFACE);
        }
        input.extend_from_slice(b"\0\0\0\x04\0\0\0\0\0");
        let (mut next, mut open) = (1, Vec::new());
        let odd = [1, 10, 50][random.below(3) as usize];
        for _ in 0..1 + random.below(40) {
            if random.below(100) < odd {
                frame(&mut random, &mut input);
            } else if role == Role::Server || next <= 5 || !open.is_empty() {
                honest(&mut random, role, &mut next, &mut open, &mut input);
            }
        }
        if random.below(6) == 0 {
            let at = random.below(input.len() as u64) as usize;
            input[at] = random.next() as u8;
        }
        properties::hostile(role, random.next() as usize, &input);
    }
}
