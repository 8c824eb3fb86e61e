//! Captured values.

/// Captured values of one direction, in the order of the `capture` lines. Memory is reused between requests.
#[derive(Debug, Default)]
pub struct Captures {
    /// Those behind the first `len` are memory for later.
    slots: Vec<(bool, Vec<u8>)>,
    len: usize,
}

impl Captures {
    /// Forgets every value and makes room for `n` slots.
    #[inline]
    pub fn reset(&mut self, n: usize) {
        self.len = n;
        if n > self.slots.len() {
            self.slots.resize_with(n, Default::default);
        }
        for (set, bytes) in &mut self.slots[..n] {
            *set = false;
            bytes.clear();
        }
    }

    /// Stores at most `max` bytes in slot `i`; false when there is no such slot.
    pub fn set(&mut self, i: usize, value: &[u8], max: usize) -> bool {
        let Some((set, bytes)) = self.slots[..self.len].get_mut(i) else { return false };
        *set = true;
        bytes.clear();
        bytes.extend_from_slice(&value[..value.len().min(max)]);
        true
    }

    /// The value of slot `i`.
    pub fn at(&self, i: usize) -> Option<&[u8]> {
        self.slots[..self.len].get(i).filter(|(set, _)| *set).map(|(_, bytes)| &bytes[..])
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when there is no slot.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_cut_and_forgotten() {
        let mut c = Captures::default();
        c.reset(2);
        assert!(c.set(1, b"abcdef", 3));
        assert!(!c.set(2, b"x", 3));
        assert_eq!((c.at(0), c.at(1)), (None, Some(&b"abc"[..])));
        c.reset(2);
        assert_eq!(c.at(1), None);
    }
}
