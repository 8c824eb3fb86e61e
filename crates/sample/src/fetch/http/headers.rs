//! The fields of a message.

use super::*;

pub(super) fn check_hdr(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.int(1).is_some_and(|occurrence| occurrence < -10) {
        return Err("header occurrence must be >= -10".into());
    }
    if let Some(name) = args.str(0) {
        let name: Box<[u8]> = name.to_ascii_lowercase().into();
        args.put(0, Arg::Header(HeaderId::from_lower(&name), name));
    }
    Ok(())
}

/// The next field from index `from` on with the wanted name; any name without one.
pub(super) fn next_field(head: &Head, name: &Arg, from: usize) -> Option<(usize, Span)> {
    let field = match name {
        Arg::Header(HeaderId::Other, name) => head.find_from(name, from)?,
        Arg::Header(id, _) => head.get_from(*id, from)?,
        _ => (from..head.raw_fields().len()).find_map(|i| head.field(i))?,
    };
    Some((field.index, trimmed(head, field.value_span)))
}

/// A value without the white space around it, which only rules can have written: none is received.
pub(super) fn trimmed(head: &Head, span: Span) -> Span {
    let value = head.bytes(span);
    let start = value.len() - value.trim_ascii_start().len();
    Span { off: span.off + start as u32, len: value.trim_ascii().len() as _ }
}

/// Calls `visit` with each value of the list-valued fields of a name, in order, until it returns false.
pub(super) fn each_value(head: &Head, name: &Arg, mut visit: impl FnMut(Span) -> bool) {
    let mut from = 0;
    while let Some((index, span)) = next_field(head, name, from) {
        from = index + 1;
        let value = head.bytes(span);
        if memchr::memchr(b',', value).is_none() {
            // Most values are no lists.
            let trimmed = thalweg_http::ascii::trim_ows(value);
            let (start, len) = position(value, trimmed);
            let start = span.off as usize + if len == 0 { 0 } else { start };
            if !visit(Span::new(start, start + len)) {
                return;
            }
            continue;
        }
        let mut list = values::list_with_empty(value);
        while let Some((offset, element)) = list.next_at() {
            let start = span.off as usize + offset;
            if !visit(Span::new(start, start + element.len())) {
                return;
            }
        }
    }
}

/// Picks one of several values by its number: from 1 up, or from -1 down for the last ones; 0 is the last.
pub(super) struct Picker {
    wanted: i64,
    seen: i64,
    /// The last values seen, for negative numbers: at most ten.
    last: [Span; 10],
}

impl Picker {
    fn new(wanted: i64) -> Picker {
        Picker { wanted: if wanted == 0 { -1 } else { wanted }, seen: 0, last: [Span::default(); 10] }
    }

    /// Takes the next value; true to go on.
    fn take(&mut self, span: Span) -> bool {
        self.seen += 1;
        self.last[((self.seen - 1) % 10) as usize] = span;
        self.wanted < 0 || self.seen < self.wanted
    }

    fn result(&self) -> Option<Span> {
        let number = if self.wanted > 0 { self.wanted } else { self.seen + 1 + self.wanted };
        (number >= 1 && number <= self.seen).then(|| self.last[((number - 1) % 10) as usize])
    }
}

pub(super) fn hdr(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
    let name = args.at(0);
    let occurrence = args.int(1).unwrap_or(0);
    let every = iter.every && occurrence == 0;
    let head = head(cx, side)?;
    if every {
        // `field` is the index of the field to look at, `offset` where to go on in it.
        let (index, span) = next_field(head, name, iter.field as usize)?;
        let skip = if index == iter.field as usize { iter.offset } else { 0 };
        let rest = Span { off: span.off + skip.min(span.len), len: span.len - skip.min(span.len) };
        let mut list = values::list_with_empty(head.bytes(rest));
        let (offset, element) = list.next_at()?;
        let start = rest.off as usize + offset;
        let found = Span::new(start, start + element.len());
        match list.rest_offset() {
            Some(next) => *iter = Iter { field: index as u32, offset: skip + next as u32, every: true },
            None => *iter = Iter { field: index as u32 + 1, offset: 0, every: true },
        }
        let mut sample = Sample::str(at(side.place(), found));
        sample.flags.not_last = true;
        return Some(sample);
    }
    if matches!(occurrence, 0 | -1) {
        let mut last = None;
        each_value(head, name, |span| {
            last = Some(span);
            true
        });
        return Some(Sample::str(at(side.place(), last?)));
    }
    let mut picker = Picker::new(occurrence);
    each_value(head, name, |span| picker.take(span));
    Some(Sample::str(at(side.place(), picker.result()?)))
}

pub(super) fn fhdr(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
    let name = args.at(0);
    let occurrence = args.int(1).unwrap_or(0);
    let head = head(cx, side)?;
    if iter.every && occurrence == 0 {
        let (index, span) = next_field(head, name, iter.field as usize)?;
        iter.field = index as u32 + 1;
        let mut sample = Sample::str(at(side.place(), span));
        sample.flags.not_last = true;
        return Some(sample);
    }
    let mut picker = Picker::new(occurrence);
    let mut from = 0;
    while let Some((index, span)) = next_field(head, name, from) {
        from = index + 1;
        if !picker.take(span) {
            break;
        }
    }
    Some(Sample::str(at(side.place(), picker.result()?)))
}

pub(super) fn hdr_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let mut count = 0;
    each_value(head(cx, side)?, args.at(0), |_| {
        count += 1;
        true
    });
    Some(Sample::int(count))
}

pub(super) fn fhdr_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let head = head(cx, side)?;
    let (mut count, mut from) = (0, 0);
    while let Some((index, _)) = next_field(head, args.at(0), from) {
        from = index + 1;
        count += 1;
    }
    Some(Sample::int(count))
}

/// An address, with an optional port after an IPv4 address or a bracketed IPv6 address.
pub(super) fn address(text: &[u8]) -> Option<IpAddr> {
    if let Some(inner) = text.strip_prefix(b"[") {
        return parse_ip6(inner.strip_suffix(b"]")?).map(IpAddr::V6);
    }
    if let Some(ip) = parse_ip6(text) {
        return Some(IpAddr::V6(ip));
    }
    let host = match memchr::memchr(b':', text) {
        Some(colon) if text[colon + 1..].iter().all(u8::is_ascii_digit) && colon + 1 < text.len() => {
            &text[..colon]
        }
        Some(_) => return None,
        None => text,
    };
    crate::cast::parse_ip4(host)
        .or_else(|| leading_ip4(host).filter(|_| host.iter().all(|b| b.is_ascii_digit() || *b == b'.')))
        .map(IpAddr::V4)
}

pub(super) fn hdr_ip(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
    loop {
        let sample = hdr(args, cx, iter, side)?;
        if let Some(ip) = address(cx.bytes(&sample.value)) {
            return Some(Sample { value: ip.into(), flags: sample.flags });
        }
        // An ACL goes on with the next value; the position has moved, so this ends.
        if !sample.flags.not_last {
            return None;
        }
    }
}

/// The address in one of the values of a field: from 1 up, or from -1 down to -10 for the last ones.
pub fn header_address(head: &Head, field: &Arg, occurrence: i32) -> Option<IpAddr> {
    let mut picker = Picker::new(i64::from(occurrence));
    each_value(head, field, |span| picker.take(span));
    address(head.bytes(picker.result()?))
}

pub(super) fn delimiter(args: &Args) -> u8 {
    args.str(0).and_then(|d| d.first().copied()).unwrap_or(b',')
}

/// Writes a text made from the head of a side.
pub(super) fn write_from_head(
    cx: &mut Ctx,
    side: Side,
    write: impl FnOnce(&Head, &mut Out) -> bool,
) -> Option<Text> {
    head(cx, side)?;
    // The head is taken out for the time of the writing.
    let slot = match side {
        Side::Request => &mut cx.request,
        Side::Response => &mut cx.response,
    };
    let head = slot.take()?;
    let text = cx.write(|out| write(head, out));
    match side {
        Side::Request => cx.request = Some(head),
        Side::Response => cx.response = Some(head),
    }
    text
}

pub(super) fn lower(out: &mut Out, name: &[u8]) -> bool {
    name.iter().all(|b| out.push(b.to_ascii_lowercase()))
}

pub(super) fn hdr_names(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let delimiter = delimiter(args);
    let text = write_from_head(cx, side, |head, out| {
        head.fields().enumerate().all(|(i, field)| (i == 0 || out.push(delimiter)) && lower(out, field.name))
    })?;
    Some(Sample::str(text))
}

pub(super) fn hdrs(cx: &mut Ctx, side: Side) -> Option<Sample> {
    let text = write_from_head(cx, side, |head, out| {
        head.fields().all(|field| {
            lower(out, field.name) && out.extend(b": ") && out.extend(field.value) && out.extend(b"\r\n")
        }) && out.extend(b"\r\n")
    })?;
    Some(Sample::bin(text))
}

/// The variable-length integers of the SPOE protocol.
pub(super) fn varint(out: &mut Out, value: usize) -> bool {
    let mut value = value as u64;
    if value < 240 {
        return out.push(value as u8);
    }
    if !out.push(value as u8 | 240) {
        return false;
    }
    value = (value - 240) >> 4;
    while value >= 128 {
        if !out.push(value as u8 | 128) {
            return false;
        }
        value = (value - 128) >> 7;
    }
    out.push(value as u8)
}

pub(super) fn hdrs_bin(cx: &mut Ctx, side: Side) -> Option<Sample> {
    let text = write_from_head(cx, side, |head, out| {
        head.fields().all(|field| {
            varint(out, field.name.len())
                && lower(out, field.name)
                && varint(out, field.value.len())
                && out.extend(field.value)
        }) && out.extend(&[0, 0])
    })?;
    Some(Sample::bin(text))
}
