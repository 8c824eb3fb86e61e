//! Cookies of requests and responses.

use super::*;

pub(super) fn cookie_field(side: Side) -> Arg {
    match side {
        Side::Request => Arg::Header(HeaderId::Cookie, Box::default()),
        Side::Response => Arg::Header(HeaderId::SetCookie, Box::default()),
    }
}

/// Calls `visit` with the name and the position of the value of each cookie until it returns false.
pub(super) fn each_cookie<'h>(head: &'h Head, side: Side, mut visit: impl FnMut(&'h [u8], Span) -> bool) {
    let name = cookie_field(side);
    let mut from = 0;
    while let Some((index, span)) = next_field(head, &name, from) {
        from = index + 1;
        let value = head.bytes(span);
        let cookies = match side {
            Side::Request => cookie::request_cookies(value),
            Side::Response => cookie::response_cookies(value),
        };
        for found in cookies {
            // An equals sign at the very end of the field makes no cookie.
            if found.value.is_empty() && found.value_offset >= value.len() {
                continue;
            }
            let start = span.off as usize + found.value_offset;
            if !visit(found.name, Span::new(start, start + found.value.len())) {
                return;
            }
        }
    }
}

pub(super) fn cook(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
    let name = args.str(0).unwrap_or(b"");
    let head = head(cx, side)?;
    let mut found = None;
    if iter.every {
        let found = match side {
            Side::Request => next_request_cookie(head, name, iter),
            Side::Response => {
                // A Set-Cookie field cannot be entered in its middle, so the cookies seen are counted; an ACL looks at
                // this many at most.
                let mut skip = iter.field;
                each_cookie(head, side, |cookie, value| {
                    if !name.is_empty() && cookie != name {
                        return true;
                    }
                    if skip > 0 {
                        skip -= 1;
                        return true;
                    }
                    found = Some(value);
                    false
                });
                iter.field += 1;
                found
            }
        };
        let mut sample = Sample::str(at(side.place(), found?));
        sample.flags.not_last = side == Side::Request || iter.field < 64;
        return Some(sample);
    }
    each_cookie(head, side, |cookie, value| {
        if name.is_empty() {
            found = Some(value);
            return false;
        }
        if cookie == name {
            found = Some(value);
        }
        true
    });
    Some(Sample::str(at(side.place(), found?)))
}

/// The next request cookie from the position of `iter` on.
pub(super) fn next_request_cookie(head: &Head, name: &[u8], iter: &mut Iter) -> Option<Span> {
    let header = cookie_field(Side::Request);
    loop {
        let (index, span) = next_field(head, &header, iter.field as usize)?;
        if index != iter.field as usize {
            *iter = Iter { field: index as u32, offset: 0, every: true };
        }
        let value = head.bytes(span);
        let from = (iter.offset as usize).min(value.len());
        for found in cookie::request_cookies(&value[from..]) {
            let start = from + found.value_offset;
            let end = start + found.value.len();
            if found.value.is_empty() && start >= value.len() {
                continue;
            }
            if name.is_empty() || found.name == name {
                iter.offset = end as u32;
                let base = span.off as usize;
                return Some(Span::new(base + start, base + end));
            }
        }
        *iter = Iter { field: index as u32 + 1, offset: 0, every: true };
    }
}

pub(super) fn cook_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let name = args.str(0).unwrap_or(b"");
    let mut count = 0;
    each_cookie(head(cx, side)?, side, |cookie, _| {
        count += i64::from(name.is_empty() || cookie == name);
        true
    });
    Some(Sample::int(count))
}

pub(super) fn cook_names(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let delimiter = delimiter(args);
    let text = write_from_head(cx, side, |head, out| {
        let mut fits = true;
        each_cookie(head, side, |cookie, _| {
            fits = (out.is_empty() || out.push(delimiter)) && out.extend(cookie);
            fits
        });
        fits
    })?;
    Some(Sample::str(text))
}
