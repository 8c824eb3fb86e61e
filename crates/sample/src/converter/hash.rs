//! Hashes that are not meant for security: `crc32`, `djb2`, `wt6`, `xxh3`...

use super::ConverterDef;
use super::shape::{entry, to_int};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::value::{Sample, Type};

const BIN_INT: (Type, Type) = (Type::Bin, Type::Int);
const OPTION: ArgSpec = ArgSpec::new(0, &[ArgKind::Int]);

/// The converters of this family.
pub static HASH: &[ConverterDef] = &[
    entry(
        "crc32",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| hash32(a, s, c, crc32fast::hash),
        "The CRC32 checksum of Ethernet and gzip.",
    ),
    entry(
        "crc32c",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| hash32(a, s, c, crc32c::crc32c),
        "The CRC32C checksum of RFC 4960.",
    ),
    entry(
        "djb2",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| hash32(a, s, c, djb2),
        "The DJB2 hash, as `hash-type` uses it.",
    ),
    entry(
        "sdbm",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| hash32(a, s, c, sdbm),
        "The SDBM hash, as `hash-type` uses it.",
    ),
    entry(
        "wt6",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| hash32(a, s, c, wt6),
        "The WT6 hash, as `hash-type` uses it.",
    ),
    entry(
        "xxh3",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| to_int(s, c, |i| Some(xxhash_rust::xxh3::xxh3_64_with_seed(i, seed(a)).cast_signed())),
        "The 64-bit XXH3 hash.",
    ),
    entry(
        "xxh32",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| to_int(s, c, |i| Some(i64::from(xxhash_rust::xxh32::xxh32(i, seed(a) as u32)))),
        "The XXH32 hash.",
    ),
    entry(
        "xxh64",
        BIN_INT,
        OPTION,
        None,
        |a, s, c| to_int(s, c, |i| Some(xxhash_rust::xxh64::xxh64(i, seed(a)).cast_signed())),
        "The XXH64 hash.",
    ),
];

fn seed(args: &Args) -> u64 {
    args.int(0).unwrap_or(0).cast_unsigned()
}

/// A hash, mixed once more when the argument is not zero.
fn hash32(args: &Args, sample: &mut Sample, cx: &mut Ctx, hash: fn(&[u8]) -> u32) -> bool {
    let avalanche = args.int(0).is_some_and(|n| n != 0);
    to_int(sample, cx, |input| {
        let value = hash(input);
        Some(i64::from(if avalanche { full_avalanche(value) } else { value }))
    })
}

/// Bob Jenkins' full avalanche of 32 bits, spread by a final product as the reference's hash balancing does.
pub fn full_avalanche(value: u32) -> u32 {
    let mut a = value;
    a = a.wrapping_add(0x7ed5_5d16).wrapping_add(a << 12);
    a = (a ^ 0xc761_c23c) ^ (a >> 19);
    a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    a = (a ^ 0xb55a_4f09) ^ (a >> 16);
    a.wrapping_mul(3_221_225_473)
}

/// Dan Bernstein's hash: times 33 plus each byte.
pub fn djb2(input: &[u8]) -> u32 {
    input.iter().fold(5381, |hash: u32, &b| hash.wrapping_mul(33).wrapping_add(u32::from(b)))
}

/// The hash of the sdbm database library: times 65599 plus each byte.
pub fn sdbm(input: &[u8]) -> u32 {
    input.iter().fold(0, |hash: u32, &b| hash.wrapping_mul(65599).wrapping_add(u32::from(b)))
}

/// Willy Tarreau's hash: two words that are mixed with each byte, then rotated by amounts that depend on
/// both and swapped.
pub fn wt6(input: &[u8]) -> u32 {
    let (mut first, mut second) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut turn_second, mut turn_first) = (6, 18);
    for &b in input {
        first = !(first ^ u32::from(b));
        second = !second.wrapping_add(u32::from(b));
        (first, second) = (second.rotate_left(turn_second), first.rotate_left(turn_first));
        let turns = (first >> 16 ^ second) & 0xffff;
        turn_second = turns & 31;
        turn_first = turns >> 11;
    }
    first ^ second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_known_inputs() {
        let check = |got: u32, expected: u32| assert_eq!(got, expected);
        check(crc32fast::hash(b"abc"), 891_568_578);
        check(full_avalanche(crc32fast::hash(b"abc")), 930_845_320);
        check(crc32c::crc32c(b"abc"), 910_901_175);
        check(djb2(b"abc"), 193_485_963);
        check(djb2(b""), 5381);
        check(full_avalanche(djb2(b"abc")), 2_235_766_107);
        check(sdbm(b"abc"), 807_794_786);
        check(wt6(b"abc"), 2_483_038_440);
        check(wt6(b""), 4_187_620_192);
        check(full_avalanche(wt6(b"abc")), 266_135_527);
        check(xxhash_rust::xxh32::xxh32(b"abc", 5), 1_562_728_233);
        assert_eq!(xxhash_rust::xxh64::xxh64(b"abc", 0).cast_signed(), 4_952_883_123_889_572_249);
        assert_eq!(xxhash_rust::xxh3::xxh3_64_with_seed(b"abc", 0).cast_signed(), 8_696_274_497_037_089_104);
        let seed = (-5_i64).cast_unsigned();
        assert_eq!(
            xxhash_rust::xxh3::xxh3_64_with_seed(b"abc", seed).cast_signed(),
            -6_165_315_974_102_190_573
        );
    }
}
