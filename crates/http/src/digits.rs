//! Numbers in decimal, as fields have them.

/// The first number that needs more than eight digits.
const EIGHT: u64 = 100_000_000;

/// A number below 100,000,000 in decimal: its digits, and behind them anything. Eight digits are made side by side in one word,
/// without a step for each.
#[inline]
pub(crate) fn short(number: u64) -> Option<([u8; 8], usize)> {
    if number >= EIGHT {
        return None;
    }
    // Four digits in each half, two in each quarter, one in each octet: the first of them in the lowest. The products with a
    // reciprocal are exact for what they divide.
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = (fours.wrapping_mul(10_486) >> 20) & 0x0000_007f_0000_007f;
    let twos = hundreds | fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16;
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    let ones = tens | twos.wrapping_sub(tens.wrapping_mul(10)) << 8;
    // A lone zero is a digit, too.
    let zeros = (ones | 1 << 56).trailing_zeros() as usize / 8;
    let digits = (ones | 0x3030_3030_3030_3030) >> (8 * zeros);
    Some((digits.to_le_bytes(), 8_usize.wrapping_sub(zeros)))
}

/// Writes `number` in decimal somewhere in `buffer` and returns the digits.
pub fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    if let Some((digits, len)) = short(number) {
        buffer[..8].copy_from_slice(&digits);
        return &buffer[..len];
    }
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_everywhere() {
        let edges = (0..20)
            .map(|power| 10_u64.saturating_pow(power))
            .flat_map(|n| [n - 1, n, n + 1, n.saturating_mul(2)]);
        for number in
            edges.chain(0..20_000).chain((0..EIGHT).step_by(997)).chain((0..64).map(|bits| u64::MAX >> bits))
        {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
