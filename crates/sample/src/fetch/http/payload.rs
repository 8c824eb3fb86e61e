//! Bodies, and parameters in them and in targets.

use super::*;

pub(super) fn body(cx: &mut Ctx, side: Side) -> Option<Sample> {
    head(cx, side)?;
    let (place, len) = match side {
        Side::Request => (Place::RequestBody, cx.req_body.data().len()),
        Side::Response => (Place::ResponseBody, cx.res_body.data().len()),
    };
    Some(Sample::bin(Text::At { place, off: 0, len: u32::try_from(len).ok()? }))
}

pub(super) fn body_len(cx: &mut Ctx, side: Side) -> Option<Sample> {
    Some(Sample::int(body(cx, side)?.value.text()?.len() as i64))
}

pub(super) fn body_size(cx: &mut Ctx, side: Side) -> Option<Sample> {
    let available = body(cx, side)?.value.text()?.len() as u64;
    let payload = match side {
        Side::Request => cx.req_body,
        Side::Response => cx.res_body,
    };
    Some(Sample::int(i64::try_from(payload.total().unwrap_or(available)).unwrap_or(i64::MAX)))
}

/// Finds the next parameter named `name` (any, if empty) in `text` from the position of `iter` on: where its value stands.
/// Parameters end at `&`, `;` or `delimiter`.
pub(super) fn param(
    text: &[u8],
    name: &[u8],
    delimiter: u8,
    icase: bool,
    iter: &mut Iter,
) -> Option<(usize, usize)> {
    let mut at = iter.offset as usize;
    while at < text.len() {
        let rest = &text[at..];
        let end = rest.iter().position(|b| matches!(b, b'&' | b';') || *b == delimiter).unwrap_or(rest.len());
        let pair = &rest[..end];
        let start = at;
        at += end + 1;
        let Some(equals) = memchr::memchr(b'=', pair) else { continue };
        let found = &pair[..equals];
        if name.is_empty() || found == name || icase && found.eq_ignore_ascii_case(name) {
            iter.offset = at.min(text.len()) as u32;
            return Some((start + equals + 1, pair.len() - equals - 1));
        }
    }
    None
}

pub(super) fn param_sample(text: Text, (start, len): (usize, usize), iter: &Iter) -> Sample {
    let value = text.slice(start, len);
    let mut sample = Sample::str(value);
    sample.flags.not_last = iter.every;
    sample
}

pub(super) fn check_param(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.str(1).is_some_and(|d| d.len() > 1) {
        // The reference only looks at the first character.
        let first = args.str(1).map(|d| d[..1].into()).unwrap_or_default();
        args.put(1, Arg::Str(first));
    }
    Ok(())
}

pub(super) fn url_param(args: &Args, cx: &mut Ctx, iter: &mut Iter) -> Option<Sample> {
    let delimiter = args.str(1).and_then(|d| d.first().copied()).unwrap_or(b'?');
    let icase = args.str(2) == Some(b"i");
    let target = target(cx)?;
    let whole = cx.text(target);
    // The parameters begin after the first delimiter of the path and query.
    let (start, len) = position(whole, uri::path_and_query(whole));
    let from = start + memchr::memchr(delimiter, &whole[start..start + len])? + 1;
    let text = target.skip(from);
    let found = param(cx.text(text), args.str(0).unwrap_or(b""), delimiter, icase, iter)?;
    Some(param_sample(text, found, iter))
}
