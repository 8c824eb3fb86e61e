//! The Huffman code of RFC 7541 appendix B. It is canonical: the lengths of the codes say everything.

use super::DecodeError;

/// The end of a string; never sent, its first bits are padding.
const EOS: usize = 256;
/// The longest code in bits.
const LONGEST: usize = 30;

/// How many bits the code of each octet, and of the end of a string, has.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// The code of each octet, in the low bits.
static CODES: [u32; 257] = codes();

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let mut code = 0;
    let mut len = 1;
    while len <= LONGEST {
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == len {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        len += 1;
    }
    codes
}

/// Bits that are looked up at once; most octets of a header have codes this short.
const FAST: usize = 10;

/// Symbol and length for each string of [`FAST`] bits that begins with a code no longer than that; length 0 otherwise.
static SHORT: [(u8, u8); 1 << FAST] = short();

const fn short() -> [(u8, u8); 1 << FAST] {
    let codes = codes();
    let mut table = [(0, 0); 1 << FAST];
    let mut symbol = 0;
    while symbol < EOS {
        let len = LENGTHS[symbol] as usize;
        if len <= FAST {
            let first = (codes[symbol] as usize) << (FAST - len);
            let mut i = 0;
            while i < 1 << (FAST - len) {
                table[first + i] = (symbol as u8, len as u8);
                i += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// For each length: the first code, where its symbols begin in [`Canonical::symbols`], and how many there are.
struct Canonical {
    first: [u32; LONGEST + 1],
    start: [u16; LONGEST + 1],
    count: [u16; LONGEST + 1],
    symbols: [u16; 257],
}

static LONG: Canonical = canonical();

const fn canonical() -> Canonical {
    let codes = codes();
    let mut all = Canonical {
        first: [0; LONGEST + 1],
        start: [0; LONGEST + 1],
        count: [0; LONGEST + 1],
        symbols: [0; 257],
    };
    let mut next = 0;
    let mut len = 1;
    while len <= LONGEST {
        all.start[len] = next as u16;
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] as usize == len {
                if all.count[len] == 0 {
                    all.first[len] = codes[symbol];
                }
                all.symbols[next] = symbol as u16;
                all.count[len] += 1;
                next += 1;
            }
            symbol += 1;
        }
        len += 1;
    }
    all
}

/// Appends the octets that `input` stands for.
///
/// # Errors
/// [`DecodeError::Huffman`] for the code of the end of a string, and for padding that is longer than seven bits or not
/// the beginning of that code (RFC 7541 section 5.2).
pub fn decode(input: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    // The shortest code has five bits.
    out.reserve(input.len() * 8 / 5 + 1);
    // Bits not used yet, at the top.
    let mut bits: u64 = 0;
    let mut have: usize = 0;
    let mut rest = input;
    loop {
        while have <= 56 {
            let Some((first, after)) = rest.split_first() else { break };
            bits |= u64::from(*first) << (56 - have);
            have += 8;
            rest = after;
        }
        let (symbol, len) = SHORT[(bits >> (64 - FAST)) as usize];
        if len != 0 && usize::from(len) <= have {
            out.push(symbol);
            bits <<= len;
            have -= usize::from(len);
            continue;
        }
        let Some((symbol, len)) = long(bits, have) else { break };
        if symbol == EOS {
            return Err(DecodeError::Huffman);
        }
        out.push(symbol as u8);
        bits <<= len;
        have -= len;
    }
    let padding = !(u64::MAX >> have.min(63));
    if have < 8 && bits & padding == padding { Ok(()) } else { Err(DecodeError::Huffman) }
}

/// The symbol at the top of `bits`, of which there are `have`, and the length of its code.
fn long(bits: u64, have: usize) -> Option<(usize, usize)> {
    for len in 5..=LONGEST.min(have) {
        let code = (bits >> (64 - len)) as u32;
        let offset = code.wrapping_sub(LONG.first[len]);
        if offset < u32::from(LONG.count[len]) {
            return Some((usize::from(LONG.symbols[usize::from(LONG.start[len]) + offset as usize]), len));
        }
    }
    None
}

/// How many octets `input` takes when it is coded.
#[inline]
pub fn encoded_len(input: &[u8]) -> usize {
    let bits: usize = input.iter().map(|octet| usize::from(LENGTHS[usize::from(*octet)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `input`.
pub fn encode(input: &[u8], out: &mut Vec<u8>) {
    let mut bits: u64 = 0;
    let mut have: u32 = 0;
    for octet in input {
        let len = u32::from(LENGTHS[usize::from(*octet)]);
        bits = bits << len | u64::from(CODES[usize::from(*octet)]);
        have += len;
        while have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    if have > 0 {
        // The first bits of the end of a string are all ones.
        out.push((bits << (8 - have)) as u8 | 0xff >> have);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(input: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::new();
        decode(input, &mut out).map(|()| out)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541 appendix C.4.
        let code = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&code).unwrap(), b"www.example.com");
        let mut out = Vec::new();
        encode(b"www.example.com", &mut out);
        assert_eq!(out, code);
        assert_eq!(encoded_len(b"www.example.com"), code.len());
    }

    #[test]
    fn codes_of_the_table() {
        // RFC 7541 appendix B, at both ends and in the middle.
        let code = |symbol: usize| (CODES[symbol], LENGTHS[symbol]);
        assert_eq!(code(0), (0x1ff8, 13));
        assert_eq!(code(b'0'.into()), (0, 5));
        assert_eq!(code(b'z'.into()), (0x7b, 7));
        assert_eq!(code(255), (0x3ff_ffee, 26));
        assert_eq!(code(EOS), (0x3fff_ffff, 30));
    }

    #[test]
    fn every_octet_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for len in 0..all.len() {
            let mut out = Vec::new();
            encode(&all[..len], &mut out);
            assert_eq!(out.len(), encoded_len(&all[..len]));
            assert_eq!(decoded(&out).unwrap(), &all[..len]);
        }
    }

    #[test]
    fn padding_is_checked() {
        assert_eq!(decoded(&[]), Ok(Vec::new()));
        assert_eq!(decoded(&[0x07]), Ok(b"0".to_vec()), "00000 111");
        assert_eq!(decoded(&[0x06]), Err(DecodeError::Huffman), "padding with a zero");
        assert_eq!(decoded(&[0xff]), Err(DecodeError::Huffman), "eight bits of padding");
        assert_eq!(decoded(&[0x07, 0xff]), Err(DecodeError::Huffman), "eleven bits of padding");
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), Err(DecodeError::Huffman), "the end of a string");
    }
}
