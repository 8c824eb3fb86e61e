//! Messages of other programs, on their way through (`log-forward`): what a message says about itself, where it ends on a
//! stream, and how it is written anew for a target.
//!
//! A message in neither of the two known forms is kept whole; what its new form needs and it does not say comes from here:
//! the time of arrival, and the sender's address as the host.

use std::borrow::Cow;
use std::net::IpAddr;

use thalweg_config::model::{LogFormatKind, LogHost};

use super::syslog::{DateCache, MONTHS, decimal, iso_date, or_dash};

/// What a message says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The form it came in: [`LogFormatKind::Rfc3164`], [`LogFormatKind::Rfc5424`], or unspecified.
    pub format: LogFormatKind,
    /// Facility and level in one number, up to 1023.
    pub priority: Option<u16>,
    /// As it is written in its form.
    pub time: &'a [u8],
    /// Empty where it is missing; so are those that follow.
    pub host: &'a [u8],
    pub tag: &'a [u8],
    pub pid: &'a [u8],
    pub id: &'a [u8],
    pub structured_data: &'a [u8],
    pub text: &'a [u8],
}

/// The largest number that a priority of three digits can be.
const PRIORITY_DIGITS_MAX: usize = 3;

impl<'a> Message<'a> {
    /// Reads a message (RFC 5424 section 6, RFC 3164 section 4.1). Line feeds at its end do not belong to it. `None` when
    /// nothing is left but a priority.
    pub fn read(bytes: &'a [u8], as_it_is: bool) -> Option<Message<'a>> {
        let end = bytes.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |last| last + 1);
        // An empty line is a message, an empty datagram is none.
        let ended = end < bytes.len();
        let bytes = &bytes[..end];
        let mut message = Message {
            format: LogFormatKind::Unspecified,
            priority: None,
            time: &[],
            host: &[],
            tag: &[],
            pid: &[],
            id: &[],
            structured_data: &[],
            text: bytes,
        };
        if !as_it_is {
            let (priority, rest) = priority(bytes).map_or((None, bytes), |(p, rest)| (Some(p), rest));
            (message.priority, message.text) = (priority, rest);
            if priority.is_some() {
                let known = message.clone();
                message = known.rfc5424(rest).or_else(|| known.rfc3164(rest)).unwrap_or(message);
            }
        }
        let says_something =
            ended || !message.text.is_empty() || message.format != LogFormatKind::Unspecified;
        says_something.then_some(message)
    }

    /// `1 time host tag pid id [data] text`, behind the priority.
    fn rfc5424(&self, rest: &'a [u8]) -> Option<Message<'a>> {
        let rest = rest.strip_prefix(b"1 ")?;
        let (time, rest) = word(rest)?;
        let (host, rest) = word(rest)?;
        let (tag, rest) = word(rest)?;
        let (pid, rest) = word(rest)?;
        let (id, rest) = word(rest)?;
        let (structured_data, rest) = structured_data(rest)?;
        // The text may be missing, and then so is the space before it.
        let text = match rest {
            [] => rest,
            _ => rest.strip_prefix(b" ")?,
        };
        let given = |field: &'a [u8]| if field == b"-" { &[][..] } else { field };
        let time = given(time);
        if !time.is_empty() && !is_timestamp(time) {
            return None;
        }
        Some(Message {
            format: LogFormatKind::Rfc5424,
            priority: self.priority,
            time,
            host: given(host),
            tag: given(tag),
            pid: given(pid),
            id: given(id),
            structured_data: given(structured_data),
            text,
        })
    }

    /// `Mmm dd hh:mm:ss host tag[pid]: text`, behind the priority.
    fn rfc3164(&self, rest: &'a [u8]) -> Option<Message<'a>> {
        let (time, rest) = rest.split_at_checked(15)?;
        if !is_date(time) {
            return None;
        }
        let (host, rest) = word(rest.strip_prefix(b" ")?)?;
        if host.is_empty() {
            return None;
        }
        let (tag, pid, text) = tag(rest).unwrap_or((&[], &[], rest));
        Some(Message { format: LogFormatKind::Rfc3164, time, host, tag, pid, text, ..self.clone() })
    }
}

/// `<nnn>` at the beginning.
fn priority(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let rest = bytes.strip_prefix(b"<")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, rest) = rest.split_at(digits);
    // Zeros before it say nothing, and no digit is a zero: so the reference reads them.
    let number = &number[number.iter().take_while(|b| **b == b'0').count()..];
    if number.len() > PRIORITY_DIGITS_MAX {
        return None;
    }
    let number = number.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    Some((number, rest.strip_prefix(b">")?))
}

/// Up to a space, which is taken away.
fn word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|b| *b == b' ')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// `-`, or elements in brackets, in which quoted values may have anything.
fn structured_data(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some(rest) = bytes.strip_prefix(b"-") {
        return Some((&bytes[..1], rest));
    }
    let mut at = 0;
    while bytes.get(at) == Some(&b'[') {
        let (mut quoted, mut escaped) = (false, false);
        loop {
            at += 1;
            match *bytes.get(at)? {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b']' if !quoted => break,
                _ => {}
            }
        }
        at += 1;
    }
    (at > 0).then(|| bytes.split_at(at))
}

/// `2003-08-24T05:14:15.000003-07:00`, with `Z` or an offset, which is what makes it complete.
fn is_timestamp(time: &[u8]) -> bool {
    let Some((date, rest)) = time.split_at_checked(19) else { return false };
    let shape = b"9999-99-99T99:99:99";
    let fits = date.iter().zip(shape).all(|(b, s)| if *s == b'9' { b.is_ascii_digit() } else { b == s });
    let zone = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if !(1..=6).contains(&digits) {
                return false;
            }
            &fraction[digits..]
        }
        rest => rest,
    };
    let offset = |zone: &[u8]| {
        matches!(zone, [b'+' | b'-', h1, h2, b':', m1, m2]
            if [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()))
    };
    fits && month_of(&date[5..7]).is_some() && (zone == b"Z" || offset(zone))
}

/// `Nov  2 08:14:54`.
fn is_date(time: &[u8]) -> bool {
    let [m1, m2, m3, b' ', d1, d2, b' ', h1, h2, b':', n1, n2, b':', s1, s2] = time else { return false };
    month_named(&[*m1, *m2, *m3]).is_some()
        && (*d1 == b' ' || d1.is_ascii_digit())
        && [d2, h1, h2, n1, n2, s1, s2].iter().all(|b| b.is_ascii_digit())
}

fn month_named(name: &[u8]) -> Option<usize> {
    MONTHS.iter().position(|month| month.as_bytes() == name)
}

/// The month of two digits, counted from 0.
fn month_of(digits: &[u8]) -> Option<usize> {
    let number: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (1..=12).contains(&number).then(|| number - 1)
}

/// `tag[pid]: ` or `tag: ` at the beginning.
fn tag(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let end = bytes.iter().position(|b| *b == b' ').unwrap_or(bytes.len());
    let name = bytes[..end].strip_suffix(b":").filter(|name| !name.is_empty())?;
    let text = bytes.get(end + 1..).unwrap_or(&[]);
    let bracket = name.iter().rposition(|b| *b == b'[').filter(|_| name.ends_with(b"]"));
    Some(match bracket {
        Some(at) if at > 0 => (&name[..at], &name[at + 1..name.len() - 1], text),
        _ => (name, &[], text),
    })
}

/// How a message is written anew.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// The target's form; unspecified keeps that of the message.
    pub format: LogFormatKind,
    /// Facility and level.
    pub priority: u16,
    /// What becomes of the host.
    pub host: LogHost,
    /// Who sent it, where that is an IP address.
    pub sender: Option<IpAddr>,
    /// When it arrived, in microseconds since 1970.
    pub wall_us: u64,
}

impl Rewrite {
    /// The host to write, empty for none.
    fn host<'a>(&self, message: &Message<'a>) -> Cow<'a, [u8]> {
        let Some(sender) = self.sender.filter(|_| self.host != LogHost::Keep) else {
            return Cow::Borrowed(message.host);
        };
        match (self.host, message.host) {
            (LogHost::Replace, _) | (_, []) => Cow::Owned(sender.to_string().into_bytes()),
            (LogHost::Append, host) => Cow::Owned([host, format!(",{sender}").as_bytes()].concat()),
            (_, host) => Cow::Borrowed(host),
        }
    }

    /// The form that comes out.
    fn form(&self, message: &Message<'_>, host: &[u8]) -> LogFormatKind {
        match (self.format, message.format) {
            (LogFormatKind::Unspecified, LogFormatKind::Unspecified) => match (host, message.priority) {
                ([], None) => LogFormatKind::Raw,
                ([], Some(_)) => LogFormatKind::Priority,
                _ => LogFormatKind::Rfc3164,
            },
            (LogFormatKind::Unspecified, form) => form,
            (form, _) => form,
        }
    }

    /// Appends the message in its new form, without an end of line.
    pub fn write(&self, out: &mut Vec<u8>, dates: &mut DateCache, message: &Message<'_>) {
        dates.refresh(self.wall_us / 1_000_000);
        let host = self.host(message);
        let form = self.form(message, &host);
        if !matches!(form, LogFormatKind::Raw | LogFormatKind::Iso) {
            let level_only = matches!(form, LogFormatKind::Short | LogFormatKind::Timed);
            let number = if level_only { self.priority % 8 } else { self.priority };
            out.push(b'<');
            decimal(out, u64::from(number));
            out.push(b'>');
        }
        match form {
            LogFormatKind::Unspecified | LogFormatKind::Local | LogFormatKind::Rfc3164 => {
                self.date(out, dates, message);
                out.push(b' ');
                if form == LogFormatKind::Rfc3164 {
                    out.extend_from_slice(if host.is_empty() { b"localhost" } else { &host });
                    out.push(b' ');
                }
                if !message.tag.is_empty() {
                    out.extend_from_slice(message.tag);
                    if !message.pid.is_empty() {
                        out.push(b'[');
                        out.extend_from_slice(message.pid);
                        out.push(b']');
                    }
                    out.extend_from_slice(b": ");
                }
            }
            LogFormatKind::Rfc5424 => {
                out.extend_from_slice(b"1 ");
                match message.format {
                    // It said that it has none.
                    LogFormatKind::Rfc5424 => out.extend_from_slice(or_dash(message.time)),
                    _ => self.timestamp(out, dates, message),
                }
                for field in [&*host, message.tag, message.pid, message.id, message.structured_data] {
                    out.push(b' ');
                    out.extend_from_slice(or_dash(field));
                }
                out.push(b' ');
            }
            LogFormatKind::Timed | LogFormatKind::Iso => {
                self.timestamp(out, dates, message);
                out.push(b' ');
            }
            LogFormatKind::Priority | LogFormatKind::Short | LogFormatKind::Raw => {}
        }
        out.extend_from_slice(message.text);
    }

    /// The time as RFC 3164 writes it.
    fn date(&self, out: &mut Vec<u8>, dates: &DateCache, message: &Message<'_>) {
        match message.format {
            LogFormatKind::Rfc3164 => out.extend_from_slice(message.time),
            LogFormatKind::Rfc5424 if !message.time.is_empty() => {
                // Its form was checked: these are digits.
                let month = month_of(&message.time[5..7]).unwrap_or(0);
                out.extend_from_slice(MONTHS[month].as_bytes());
                out.push(b' ');
                let day = &message.time[8..10];
                out.push(if day[0] == b'0' { b' ' } else { day[0] });
                out.push(day[1]);
                out.push(b' ');
                out.extend_from_slice(&message.time[11..19]);
            }
            _ => out.extend_from_slice(dates.rfc3164().as_bytes()),
        }
    }

    /// The time as RFC 5424 writes it. RFC 3164 says neither year nor zone: a month that is still to come is last year's,
    /// and the zone is unknown (RFC 3339 section 4.3).
    fn timestamp(&self, out: &mut Vec<u8>, dates: &DateCache, message: &Message<'_>) {
        match message.format {
            LogFormatKind::Rfc5424 if !message.time.is_empty() => out.extend_from_slice(message.time),
            LogFormatKind::Rfc3164 => {
                let month = month_named(&message.time[..3]).unwrap_or(0);
                let (year, current) = dates.year_and_month();
                let year = if month > current { year - 1 } else { year };
                let day = [message.time[4], message.time[5]].map(|b| if b == b' ' { b'0' } else { b });
                out.extend_from_slice(format!("{year:04}-{:02}-", month + 1).as_bytes());
                out.extend_from_slice(&day);
                out.push(b'T');
                out.extend_from_slice(&message.time[7..]);
                out.extend_from_slice(b"-00:00");
            }
            _ => iso_date(out, dates, self.wall_us),
        }
    }
}

/// Where messages end on a stream (RFC 6587 section 3.4): counted in front of each, or by a line feed.
#[derive(Debug)]
pub struct Framer {
    /// Every message ends with a line feed, whatever it begins with.
    by_line_only: bool,
    /// The longest message.
    max: usize,
}

/// What is next on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A message from here to there; the next one begins behind `next`.
    Message { from: usize, to: usize, next: usize },
    /// More has to come.
    Partial,
    /// This is no message, or it is too long: what follows cannot be found.
    Broken,
}

impl Framer {
    /// Of messages up to `max` bytes.
    pub fn new(by_line_only: bool, max: usize) -> Framer {
        Framer { by_line_only, max }
    }

    /// The message at the beginning of what was received. `ended` says that nothing follows.
    pub fn next(&self, bytes: &[u8], ended: bool) -> Framed {
        match bytes.first() {
            None => Framed::Partial,
            Some(b'1'..=b'9') if !self.by_line_only => self.counted(bytes),
            Some(b'<') => self.line(bytes, ended),
            Some(_) if self.by_line_only => self.line(bytes, ended),
            Some(_) => Framed::Broken,
        }
    }

    fn counted(&self, bytes: &[u8]) -> Framed {
        let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        // More digits than any length that is allowed.
        if digits > 7 {
            return Framed::Broken;
        }
        match bytes.get(digits) {
            None => return Framed::Partial,
            Some(b' ') => {}
            Some(_) => return Framed::Broken,
        }
        let len = bytes[..digits].iter().fold(0, |n, digit| n * 10 + usize::from(digit - b'0'));
        let (from, to) = (digits + 1, digits + 1 + len);
        match len > self.max {
            true => Framed::Broken,
            false if to > bytes.len() => Framed::Partial,
            false => Framed::Message { from, to, next: to },
        }
    }

    fn line(&self, bytes: &[u8], ended: bool) -> Framed {
        match bytes.iter().position(|b| *b == b'\n') {
            Some(end) if end > self.max => Framed::Broken,
            Some(end) => Framed::Message { from: 0, to: end, next: end + 1 },
            None if bytes.len() > self.max => Framed::Broken,
            None if ended => Framed::Message { from: 0, to: bytes.len(), next: bytes.len() },
            None => Framed::Partial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-22 in every time zone.
    const NOW: u64 = 1_795_348_800_000_000;

    fn rewritten(message: &[u8], format: LogFormatKind, host: LogHost) -> String {
        let message = Message::read(message, false).unwrap();
        let mut out = Vec::new();
        let sender = Some("192.0.2.7".parse().unwrap());
        let priority = message.priority.unwrap_or(152);
        let rewrite = Rewrite { format, priority, host, sender, wall_us: NOW };
        rewrite.write(&mut out, &mut DateCache::default(), &message);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn messages_are_written_as_the_reference_writes_them() {
        use LogFormatKind::{Iso, Local, Priority, Raw, Rfc3164, Rfc5424, Short, Timed, Unspecified};
        for (message, expected) in [
            (
                "<134>Nov 22 08:14:54 myhost app[123]: hello world",
                [
                    (Unspecified, "<134>Nov 22 08:14:54 myhost app[123]: hello world"),
                    (Local, "<134>Nov 22 08:14:54 app[123]: hello world"),
                    (Rfc3164, "<134>Nov 22 08:14:54 myhost app[123]: hello world"),
                    (Rfc5424, "<134>1 2026-11-22T08:14:54-00:00 myhost app 123 - - hello world"),
                    (Priority, "<134>hello world"),
                    (Short, "<6>hello world"),
                    (Raw, "hello world"),
                    (Timed, "<6>2026-11-22T08:14:54-00:00 hello world"),
                    (Iso, "2026-11-22T08:14:54-00:00 hello world"),
                ],
            ),
            (
                "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 ID47 [ex@32473 iut=\"3\"] %% message",
                [
                    (
                        Unspecified,
                        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 ID47 [ex@32473 iut=\"3\"] %% message",
                    ),
                    (Local, "<165>Aug 24 05:14:15 myproc[8710]: %% message"),
                    (Rfc3164, "<165>Aug 24 05:14:15 192.0.2.1 myproc[8710]: %% message"),
                    (
                        Rfc5424,
                        "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 ID47 [ex@32473 iut=\"3\"] %% message",
                    ),
                    (Priority, "<165>%% message"),
                    (Short, "<5>%% message"),
                    (Raw, "%% message"),
                    (Timed, "<5>2003-08-24T05:14:15.000003-07:00 %% message"),
                    (Iso, "2003-08-24T05:14:15.000003-07:00 %% message"),
                ],
            ),
            (
                "<14>Nov  2 08:14:54 app: hello",
                [
                    (Unspecified, "<14>Nov  2 08:14:54 app: hello"),
                    (Local, "<14>Nov  2 08:14:54 hello"),
                    (Rfc3164, "<14>Nov  2 08:14:54 app: hello"),
                    (Rfc5424, "<14>1 2026-11-02T08:14:54-00:00 app: - - - - hello"),
                    (Priority, "<14>hello"),
                    (Short, "<6>hello"),
                    (Raw, "hello"),
                    (Timed, "<6>2026-11-02T08:14:54-00:00 hello"),
                    (Iso, "2026-11-02T08:14:54-00:00 hello"),
                ],
            ),
        ] {
            for (format, expected) in expected {
                assert_eq!(rewritten(message.as_bytes(), format, LogHost::Fill), expected, "{format:?}");
            }
        }
        // One that has no time is given one where the form needs it.
        for (format, expected) in [
            (Unspecified, "<13>1 - box app 7 id [a b=\"]\"] x"),
            (Rfc5424, "<13>1 - box app 7 id [a b=\"]\"] x"),
            (Raw, "x"),
            (Rfc3164, "<13>Nov 22 "),
            (Iso, "2026-11-22T"),
        ] {
            let text = rewritten(b"<13>1 - box app 7 id [a b=\"]\"] x", format, LogHost::Fill);
            assert!(text.starts_with(expected), "{format:?}: {text}");
        }
        // A month that is still to come was last year's.
        let december = rewritten(b"<14>Dec 31 23:59:59 h a: x", Rfc5424, LogHost::Fill);
        assert_eq!(december, "<14>1 2025-12-31T23:59:59-00:00 h a - - - x");
    }

    #[test]
    fn what_is_in_neither_form_is_kept_whole() {
        for text in [
            "no date here",
            "2 2003-08-24T05:14:15Z h a p m - version two",
            "1 2003-08-24T05:14:15Z h a p m [broken msg",
            "1 2003-08-24T05:14:15 h a p m - no zone",
            "1 2003-08-24T05:14:15.Z h a p m - no fraction",
            "1 2003-13-24T05:14:15Z h a p m - no month",
            "Nov 22 08:14:54  myhost  app[1]:   spaces",
            "Foo 22 08:14:54 myhost app[123]: bad month",
            "Nov 22 08:14:54",
        ] {
            let out = rewritten(format!("<13>{text}").as_bytes(), LogFormatKind::Priority, LogHost::Fill);
            assert_eq!(out, format!("<13>{text}"));
            let out = rewritten(format!("<13>{text}").as_bytes(), LogFormatKind::Unspecified, LogHost::Fill);
            assert!(out.starts_with("<13>") && out.ends_with(&format!(" 192.0.2.7 {text}")), "{out}");
        }
        for text in ["zzz", "< 13>x", "<13x", "<1234>x", "Nov 22 08:14:54 myhost app[123]: no pri"] {
            assert_eq!(rewritten(text.as_bytes(), LogFormatKind::Raw, LogHost::Fill), text);
            assert_eq!(rewritten(text.as_bytes(), LogFormatKind::Unspecified, LogHost::Keep), text);
            assert_eq!(
                rewritten(text.as_bytes(), LogFormatKind::Priority, LogHost::Fill),
                format!("<152>{text}")
            );
        }
        assert_eq!(Message::read(b"<13>", false), None);
        for (text, number) in
            [("<>x", Some(0)), ("<0001>x", Some(1)), ("<999>x", Some(999)), ("<1000>x", None)]
        {
            assert_eq!(Message::read(text.as_bytes(), false).unwrap().priority, number, "{text}");
        }
        assert_eq!(Message::read(b"", true), None);
        assert!(Message::read(b"<13>\n", false).is_some());
        assert_eq!(
            Message::read(b"<13>Nov 22 08:14:54 h a: x", true).unwrap().text,
            b"<13>Nov 22 08:14:54 h a: x"
        );
    }

    #[test]
    fn the_host_follows_the_option() {
        let check = |message: &str, host, expected: &str| {
            assert_eq!(rewritten(message.as_bytes(), LogFormatKind::Rfc3164, host), expected);
        };
        let with = "<1>Nov 22 08:14:54 myhost app: x";
        check(with, LogHost::Keep, with);
        check(with, LogHost::Fill, with);
        check(with, LogHost::Replace, "<1>Nov 22 08:14:54 192.0.2.7 app: x");
        check(with, LogHost::Append, "<1>Nov 22 08:14:54 myhost,192.0.2.7 app: x");
        let without = "<1>1 2003-08-24T05:14:15Z - app - - - x";
        check(without, LogHost::Keep, "<1>Aug 24 05:14:15 localhost app: x");
        for host in [LogHost::Fill, LogHost::Replace, LogHost::Append] {
            check(without, host, "<1>Aug 24 05:14:15 192.0.2.7 app: x");
        }
    }

    #[test]
    fn tags_and_fields_are_found() {
        let tag_of = |text: &str| {
            let text = format!("<1>Nov 22 08:14:54 h {text}");
            let message = Message::read(text.as_bytes(), false).unwrap();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(message.tag), text(message.pid), text(message.text))
        };
        let expect = |tag: &str, pid: &str, text: &str| (tag.to_owned(), pid.to_owned(), text.to_owned());
        assert_eq!(tag_of("a]b[1]: [x"), expect("a]b", "1", "[x"));
        assert_eq!(tag_of("app[]: e"), expect("app", "", "e"));
        assert_eq!(tag_of("app[1] x"), expect("", "", "app[1] x"));
        assert_eq!(tag_of("a/b.c-d: e"), expect("a/b.c-d", "", "e"));
        assert_eq!(tag_of(": e"), expect("", "", ": e"));
        assert_eq!(tag_of("kernel:"), expect("kernel", "", ""));
        let message =
            Message::read(b"<1>1 2003-08-24T05:14:15Z h a p m [a b=\"c\\\"]\"][d] x", false).unwrap();
        assert_eq!(message.structured_data, b"[a b=\"c\\\"]\"][d]");
        assert_eq!(message.text, b"x");
        assert_eq!(
            Message::read(b"<1>1 2003-08-24T05:14:15Z h a p m -", false).unwrap().format,
            LogFormatKind::Rfc5424
        );
    }

    #[test]
    fn both_ways_to_end_a_message_are_found() {
        let framer = Framer::new(false, 100);
        let message = |from, to, next| Framed::Message { from, to, next };
        assert_eq!(framer.next(b"5 ab\nde7 x", false), message(2, 7, 7));
        assert_eq!(framer.next(b"<1>a\n<2>b\n", false), message(0, 4, 5));
        for partial in ["", "1", "12 <13>", "<13>a"] {
            assert_eq!(framer.next(partial.as_bytes(), false), Framed::Partial, "{partial}");
        }
        assert_eq!(framer.next(b"<13>a", true), message(0, 5, 5));
        for broken in ["abc\n", "\n", "0 x", "101 x", "99999999 x", "7x", "7\n", " <13>x"] {
            assert_eq!(framer.next(broken.as_bytes(), false), Framed::Broken, "{broken}");
        }
        assert_eq!(framer.next(&[b'<'; 102], false), Framed::Broken);
        let lines = Framer::new(true, 100);
        assert_eq!(lines.next(b"7 x\n", false), message(0, 3, 4));
        assert_eq!(lines.next(b"\n", false), message(0, 0, 1));
    }
}
