//! Windows (RFC 9113 section 5.2 and 6.9).

use crate::settings::WINDOW_MAX;

/// What the peer lets us send. It may be negative after a change of settings (RFC 9113 section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWindow(i64);

/// A window would exceed 2^31 - 1 octets: FLOW_CONTROL_ERROR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl SendWindow {
    /// A window of this many octets.
    pub fn new(octets: u32) -> SendWindow {
        SendWindow(i64::from(octets))
    }

    /// Octets that may be sent now.
    #[inline]
    pub fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Octets were sent; no more than there was room for.
    #[inline]
    pub fn take(&mut self, octets: usize) {
        debug_assert!(octets <= self.room());
        self.0 -= octets as i64;
    }

    /// The peer gave more, or its settings changed by a difference.
    ///
    /// # Errors
    /// [`Overflow`].
    pub fn give(&mut self, octets: i64) -> Result<(), Overflow> {
        let sum = self.0 + octets;
        if sum > i64::from(WINDOW_MAX) {
            return Err(Overflow);
        }
        self.0 = sum;
        Ok(())
    }
}

/// What we let the peer send: given back in large pieces, when half of it was used and consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// Octets the peer may still send.
    left: i64,
    /// The whole of it.
    size: u32,
    /// Octets that were consumed and not given back yet.
    consumed: u32,
}

impl ReceiveWindow {
    /// A window of this many octets.
    pub fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow { left: i64::from(size), size, consumed: 0 }
    }

    /// Whether so many octets may arrive.
    #[inline]
    pub fn has_room(&self, octets: usize) -> bool {
        self.left >= octets as i64
    }

    /// Octets arrived. None may do so always, also where [`ReceiveWindow::shrink`] left less than none (RFC 9113 section 6.9.1).
    ///
    /// # Errors
    /// [`Overflow`] when the peer was not allowed to send them.
    #[inline]
    pub fn take(&mut self, octets: usize) -> Result<(), Overflow> {
        self.left -= octets as i64;
        if self.left < 0 && octets > 0 { Err(Overflow) } else { Ok(()) }
    }

    /// Octets were consumed. Returns the increment to send, once it is worth a frame.
    #[inline]
    #[must_use]
    pub fn consume(&mut self, octets: usize) -> Option<u32> {
        self.consumed = self.consumed.saturating_add(octets as u32);
        if self.consumed < self.size / 2 {
            return None;
        }
        let given = std::mem::take(&mut self.consumed);
        self.left += i64::from(given);
        Some(given)
    }

    /// Octets that may have to be kept because of this window.
    pub fn held_max(&self) -> u64 {
        u64::from(self.size)
    }

    /// The peer knows from here on that the window was this much smaller from the start. What it had sent before that may
    /// exceed it; nothing more may come until that was consumed.
    pub fn shrink(&mut self, by: u32) {
        self.size = self.size.saturating_sub(by);
        self.left -= i64::from(by);
    }

    /// Makes the window larger. Returns the increment to send.
    #[must_use]
    pub fn grow_to(&mut self, size: u32) -> Option<u32> {
        let more = size.checked_sub(self.size).filter(|more| *more > 0)?;
        self.size = size;
        self.left += i64::from(more);
        Some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_go_below_zero_but_not_beyond_its_bound() {
        let mut window = SendWindow::new(100);
        window.take(80);
        window.give(-50).unwrap();
        assert_eq!((window, window.room()), (SendWindow(-30), 0));
        window.give(31).unwrap();
        assert_eq!(window.room(), 1);
        assert_eq!(window.give(i64::from(WINDOW_MAX)), Err(Overflow));
        assert_eq!(window.room(), 1);
    }

    #[test]
    fn what_was_consumed_is_given_back_by_halves() {
        let mut window = ReceiveWindow::new(100);
        window.take(60).unwrap();
        assert_eq!(window.consume(49), None);
        assert_eq!(window.consume(1), Some(50));
        window.take(90).unwrap();
        assert_eq!(window.take(1), Err(Overflow));
    }

    #[test]
    fn nothing_is_lost() {
        let mut window = ReceiveWindow::new(1000);
        let mut allowed = 1000i64;
        for n in [1, 499, 500, 3, 997, 1000, 250] {
            assert!(allowed >= n as i64);
            window.take(n).unwrap();
            allowed -= n as i64;
            allowed += i64::from(window.consume(n).unwrap_or(0));
            assert_eq!(window.left, allowed);
            assert!(allowed > 500 || window.consumed < 500);
        }
        window.shrink(100);
        assert_eq!((window.left, window.size), (allowed - 100, 900));
        window.shrink(0);
        assert_eq!(window.grow_to(500), None);
        assert_eq!(window.grow_to(1500), Some(600));
    }
}
