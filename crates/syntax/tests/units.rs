//! Durations and sizes (configuration manual, sections 2.5 and 2.6).

use thalweg_syntax::{SizeError, TimeError, TimeUnit, parse_size, parse_time, parse_time_ms};

#[test]
fn durations() {
    for (text, expected) in [
        ("0", Ok(0)),
        ("10", Ok(10)),
        ("10ms", Ok(10)),
        ("10s", Ok(10_000)),
        ("2m", Ok(120_000)),
        ("1h", Ok(3_600_000)),
        ("24d", Ok(2_073_600_000)),
        ("0us", Ok(0)),
        ("1us", Ok(1)),
        ("999us", Ok(1)),
        ("1000us", Ok(1)),
        ("1001us", Ok(2)),
        ("2147483647", Ok(2_147_483_647)),
        ("2147483s", Ok(2_147_483_000)),
        ("596h", Ok(2_145_600_000)),
        ("2147483648", Err(TimeError::Overflow)),
        ("2147484s", Err(TimeError::Overflow)),
        ("597h", Err(TimeError::Overflow)),
        ("25d", Err(TimeError::Overflow)),
        ("99999999999999999999", Err(TimeError::Overflow)),
        ("99999999999999999d", Err(TimeError::Overflow)),
        ("", Err(TimeError::Empty)),
        ("s", Err(TimeError::Unexpected(0))),
        ("-1", Err(TimeError::Unexpected(0))),
        ("+1", Err(TimeError::Unexpected(0))),
        ("1.5s", Err(TimeError::Unexpected(1))),
        ("10x", Err(TimeError::Unexpected(2))),
        ("1S", Err(TimeError::Unexpected(1))),
        ("1u", Err(TimeError::Unexpected(1))),
        ("1w", Err(TimeError::Unexpected(1))),
        ("10sx", Err(TimeError::Trailing(3))),
        ("10mss", Err(TimeError::Trailing(4))),
    ] {
        assert_eq!(parse_time_ms(text), expected, "{text}");
    }
    use TimeUnit::{Microseconds, Seconds};
    assert_eq!(parse_time("5", Seconds, Seconds), Ok(5));
    assert_eq!(parse_time("1500ms", Seconds, Seconds), Ok(2));
    assert_eq!(parse_time("3ms", Seconds, Microseconds), Ok(3000));
}

#[test]
fn messages_about_durations() {
    let message = |text: &str| parse_time_ms(text).unwrap_err().message(text, "timeout client");
    assert_eq!(message("10x"), "unexpected character 'x' in 'timeout client'");
    assert_eq!(
        message("25d"),
        "timer overflow in argument '25d' to 'timeout client' (maximum value is 2147483647 ms or ~24.8 days)"
    );
    assert_eq!(
        message("10sx"),
        "unexpected character 'x' after the timer value '10sx', only (us=microseconds,ms=milliseconds,s=seconds,\
         m=minutes,h=hours,d=days) are supported"
    );
}

#[test]
fn sizes() {
    let max = u64::from(u32::MAX);
    for (text, expected) in [
        ("0", Ok(0)),
        ("10", Ok(10)),
        ("10k", Ok(10 << 10)),
        ("10K", Ok(10 << 10)),
        ("10m", Ok(10 << 20)),
        ("3g", Ok(3 << 30)),
        ("3G", Ok(3 << 30)),
        ("4294967295", Ok(4_294_967_295)),
        ("4g", Err(SizeError::Overflow)),
        ("4294967296", Err(SizeError::Overflow)),
        ("99999999999999999999", Err(SizeError::Overflow)),
        ("17179869184g", Err(SizeError::Overflow)),
        ("", Err(SizeError::Empty)),
        ("k", Err(SizeError::Unexpected(0))),
        ("-1", Err(SizeError::Unexpected(0))),
        ("1.5k", Err(SizeError::Unexpected(1))),
        ("10x", Err(SizeError::Unexpected(2))),
        ("10kb", Err(SizeError::Unexpected(3))),
    ] {
        assert_eq!(parse_size(text, max), expected, "{text}");
    }
    assert_eq!(parse_size("4g", u64::MAX), Ok(4 << 30));
    let message = |text: &str| parse_size(text, max).unwrap_err().message(text, "tune.bufsize", max);
    assert_eq!(message("1.5k"), "unexpected '.5k' after size passed to 'tune.bufsize'");
    assert_eq!(message("10kb"), "unexpected 'b' after size passed to 'tune.bufsize'");
}
