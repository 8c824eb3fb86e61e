//! What messages carry: every byte of a body follows from the message's key and the byte's place, so that a byte that is
//! lost, repeated or another message's is seen.

/// The key of what a client sends with a request.
pub fn request_key(id: usize) -> u64 {
    (id as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95)
}

/// The key of what a server answers to the `attempt`th time it sees a request, from 0.
pub fn response_key(id: usize, attempt: usize) -> u64 {
    request_key(id).rotate_left(17) ^ (attempt as u64 + 1).wrapping_mul(0xaf25_1af3_b0f0_25b5)
}

/// The byte of a body at a place.
#[inline]
pub fn byte(key: u64, at: u64) -> u8 {
    ((at ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// A part of a body.
pub fn bytes(key: u64, from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).map(|at| byte(key, at)).collect()
}

/// The first place, counted from the body's start, at which `part`, which begins at `from`, is not what it should be.
pub fn first_difference(key: u64, from: u64, part: &[u8]) -> Option<u64> {
    part.iter().zip(from..).find(|(b, at)| **b != byte(key, *at)).map(|(_, at)| at)
}
