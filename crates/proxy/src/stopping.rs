//! How far the process is on its way out.

/// How far the process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stopping {
    /// Serving.
    No = 0,
    /// No new connections; those in progress finish.
    Soft = 1,
    /// Now.
    Hard = 2,
}

impl Stopping {
    /// The one of that number.
    #[inline]
    pub(crate) fn of_number(number: u8) -> Stopping {
        match number {
            0 => Stopping::No,
            1 => Stopping::Soft,
            _ => Stopping::Hard,
        }
    }
}
