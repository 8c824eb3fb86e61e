//! Durations and sizes (configuration manual, sections 2.5 and 2.6).

/// A unit of time, `us` to `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeUnit {
    /// Microseconds.
    Microseconds,
    /// Milliseconds, the unit of a number without one in most places.
    Milliseconds,
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Days.
    Days,
}

impl TimeUnit {
    /// How many microseconds it lasts.
    pub fn microseconds(self) -> u64 {
        match self {
            TimeUnit::Microseconds => 1,
            TimeUnit::Milliseconds => 1_000,
            TimeUnit::Seconds => 1_000_000,
            TimeUnit::Minutes => 60_000_000,
            TimeUnit::Hours => 3_600_000_000,
            TimeUnit::Days => 86_400_000_000,
        }
    }
}

/// Why a duration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeError {
    /// Above [`TIME_MAX`] in the unit of the result.
    Overflow,
    /// Not zero, but less than one of the unit of the result.
    Underflow,
    /// Something that is neither a digit nor a unit; holds the offset.
    Unexpected(usize),
    /// A unit is followed by more text; holds the offset.
    Trailing(usize),
    /// Nothing at all.
    Empty,
}

/// The greatest duration, in whatever unit the result has: 2147483647 ms are about 24.8 days.
pub const TIME_MAX: u64 = i32::MAX as u64;

/// Reads a duration. A number without a unit is in `default`; the result is in `result`, rounded up so that a
/// short delay never becomes none, and at most [`TIME_MAX`].
pub fn parse_time(text: &str, default: TimeUnit, result: TimeUnit) -> Result<u64, TimeError> {
    if text.is_empty() {
        return Err(TimeError::Empty);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(TimeError::Unexpected(0));
    }
    let (number, rest) = text.split_at(digits);
    let (unit, length) = match rest.as_bytes() {
        [] => (default, 0),
        [b'u', b's', ..] => (TimeUnit::Microseconds, 2),
        [b'm', b's', ..] => (TimeUnit::Milliseconds, 2),
        [b's', ..] => (TimeUnit::Seconds, 1),
        [b'm', ..] => (TimeUnit::Minutes, 1),
        [b'h', ..] => (TimeUnit::Hours, 1),
        [b'd', ..] => (TimeUnit::Days, 1),
        _ => return Err(TimeError::Unexpected(digits)),
    };
    if rest.len() > length {
        return Err(TimeError::Trailing(digits + length));
    }
    let value: u64 = number.parse().map_err(|_| TimeError::Overflow)?;
    let exact = u128::from(value) * u128::from(unit.microseconds());
    let value = exact.div_ceil(u128::from(result.microseconds()));
    match u64::try_from(value) {
        Ok(value) if value <= TIME_MAX => Ok(value),
        _ => Err(TimeError::Overflow),
    }
}

/// Reads a duration in milliseconds, the usual case: a number without a unit is in milliseconds, and the
/// result fits in 31 bits.
pub fn parse_time_ms(text: &str) -> Result<u32, TimeError> {
    parse_time(text, TimeUnit::Milliseconds, TimeUnit::Milliseconds).map(|ms| ms as u32)
}

impl TimeError {
    /// The warning for text after a unit, which begins at `at`, where it is passed over.
    pub fn trailing_message(text: &str, at: usize) -> String {
        format!(
            "{}. This will be reported as an error in next versions.",
            TimeError::Trailing(at).message(text, "")
        )
    }

    /// The message for a keyword's argument, in the words the reference uses for `timeout`.
    pub fn message(self, text: &str, keyword: &str) -> String {
        let character = |at: usize| text.get(at..).and_then(|t| t.chars().next()).unwrap_or('?');
        match self {
            TimeError::Overflow => format!(
                "timer overflow in argument '{text}' to '{keyword}' (maximum value is 2147483647 ms or ~24.8 days)"
            ),
            TimeError::Underflow => {
                format!(
                    "timer underflow in argument '{text}' to '{keyword}' (minimum non-null value is 1 ms)"
                )
            }
            TimeError::Unexpected(at) => format!("unexpected character '{}' in '{keyword}'", character(at)),
            TimeError::Trailing(at) => format!(
                "unexpected character '{}' after the timer value '{text}', only (us=microseconds,ms=milliseconds,\
                 s=seconds,m=minutes,h=hours,d=days) are supported",
                character(at)
            ),
            TimeError::Empty => format!(
                "'{keyword}' expects a duration (an integer, optionally followed by us, ms, s, m, h or d)"
            ),
        }
    }

    /// The part of the text to underline.
    pub fn range(self, text: &str) -> std::ops::Range<usize> {
        match self {
            TimeError::Unexpected(at) | TimeError::Trailing(at) => at..text.len(),
            TimeError::Overflow | TimeError::Underflow | TimeError::Empty => 0..text.len(),
        }
    }
}

/// Why a size is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// More than the place allows.
    Overflow,
    /// Something that is neither a digit nor a unit; holds the offset.
    Unexpected(usize),
    /// Nothing at all.
    Empty,
}

/// Reads a size in bytes: an integer, optionally followed by k, m or g in either case, 1024-based. `max` is the
/// greatest value accepted, `u32::MAX` in most places.
pub fn parse_size(text: &str, max: u64) -> Result<u64, SizeError> {
    if text.is_empty() {
        return Err(SizeError::Empty);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(SizeError::Unexpected(0));
    }
    let (number, rest) = text.split_at(digits);
    let (shift, length) = match rest.bytes().next() {
        None => (0, 0),
        Some(b'k' | b'K') => (10, 1),
        Some(b'm' | b'M') => (20, 1),
        Some(b'g' | b'G') => (30, 1),
        Some(_) => return Err(SizeError::Unexpected(digits)),
    };
    if rest.len() > length {
        return Err(SizeError::Unexpected(digits + length));
    }
    let value: u64 = number.parse().map_err(|_| SizeError::Overflow)?;
    value.checked_mul(1 << shift).filter(|value| *value <= max).ok_or(SizeError::Overflow)
}

impl SizeError {
    /// The message for a keyword's argument, in the words the reference uses.
    pub fn message(self, text: &str, keyword: &str, max: u64) -> String {
        match self {
            SizeError::Overflow => {
                format!("size '{text}' passed to '{keyword}' is too large (maximum is {max} bytes)")
            }
            SizeError::Unexpected(at) => {
                format!("unexpected '{}' after size passed to '{keyword}'", text.get(at..).unwrap_or(text))
            }
            SizeError::Empty => {
                format!("'{keyword}' expects a size (an integer, optionally followed by k, m or g)")
            }
        }
    }

    /// The part of the text to underline.
    pub fn range(self, text: &str) -> std::ops::Range<usize> {
        match self {
            SizeError::Unexpected(at) => at..text.len(),
            SizeError::Overflow | SizeError::Empty => 0..text.len(),
        }
    }
}
