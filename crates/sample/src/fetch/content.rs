//! Fetches of raw bytes, before or instead of HTTP (manual section 7.3.5).

use super::hello::{self, ClientHello, Peek, extension};
use super::{EITHER_BYTES, FetchDef, HELLO, REQUEST_BYTES, RESPONSE_BYTES, TRANSACTION};
use crate::args::{Arg, ArgKind, Args};
use crate::context::{Ctx, Payload};
use crate::env::CompileEnv;
use crate::value::{Place, Sample, Text, Type};
use std::ops::Range;

use ArgKind::{Int, Str};

const OFFSET_LENGTH: &[ArgKind] = &[Int, Int];
const LENGTH_VALUE: &[ArgKind] = &[Int, Int, Str];

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new("payload", Type::Bin, EITHER_BYTES, "bytes of the side being processed", |a, cx, _| {
        let place = current(cx);
        payload(a, cx, place)
    })
    .takes(2, OFFSET_LENGTH),
    FetchDef::new(
        "payload_lv",
        Type::Bin,
        EITHER_BYTES,
        "bytes with their length before them",
        |a, cx, _| {
            let place = current(cx);
            payload_lv(a, cx, place)
        },
    )
    .takes(2, LENGTH_VALUE)
    .checked(check_lv),
    FetchDef::new("rdp_cookie", Type::Str, REQUEST_BYTES, "the RDP cookie", |a, cx, _| rdp_cookie(a, cx))
        .takes(0, &[Str]),
    FetchDef::new("rdp_cookie_cnt", Type::Int, REQUEST_BYTES, "1 if there is an RDP cookie", |a, cx, _| {
        rdp_cookie_cnt(a, cx)
    })
    .takes(0, &[Str]),
    FetchDef::new(
        "rep_ssl_hello_type",
        Type::Int,
        RESPONSE_BYTES,
        "type of the server's TLS hello",
        |_, cx, _| hello_type(cx, Place::ResponseBody),
    ),
    FetchDef::new("req.len", Type::Int, REQUEST_BYTES, "number of bytes from the client", |_, cx, _| {
        len(cx, Place::RequestBody)
    }),
    FetchDef::new("req.payload", Type::Bin, REQUEST_BYTES, "bytes from the client", |a, cx, _| {
        payload(a, cx, Place::RequestBody)
    })
    .takes(2, OFFSET_LENGTH),
    FetchDef::new(
        "req.payload_lv",
        Type::Bin,
        REQUEST_BYTES,
        "bytes from the client with their length before them",
        |a, cx, _| payload_lv(a, cx, Place::RequestBody),
    )
    .takes(2, LENGTH_VALUE)
    .checked(check_lv),
    FetchDef::new(
        "req.proto_http",
        Type::Bool,
        TRANSACTION,
        "true when the client speaks HTTP",
        |_, cx, _| proto_http(cx),
    ),
    FetchDef::new("req.rdp_cookie", Type::Str, REQUEST_BYTES, "the RDP cookie", |a, cx, _| rdp_cookie(a, cx))
        .takes(0, &[Str]),
    FetchDef::new(
        "req.rdp_cookie_cnt",
        Type::Int,
        REQUEST_BYTES,
        "1 if there is an RDP cookie",
        |a, cx, _| rdp_cookie_cnt(a, cx),
    )
    .takes(0, &[Str]),
    FetchDef::new("req.ssl_alpn", Type::Str, REQUEST_BYTES, "first protocol of the TLS hello", |_, cx, _| {
        hello_text(cx, ClientHello::alpn).map(Sample::str)
    }),
    FetchDef::new("req.ssl_cipherlist", Type::Bin, HELLO, "cipher suites of the TLS hello", |_, cx, _| {
        hello_text(cx, |hello, _| Some(hello.ciphers.clone())).map(Sample::bin)
    }),
    FetchDef::new(
        "req.ssl_ec_ext",
        Type::Bool,
        REQUEST_BYTES,
        "true when the TLS hello names curves",
        |_, cx, _| {
            let hello = client_hello(cx)?;
            Some(Sample::bool(hello.extension(cx.req_body.data(), extension::SUPPORTED_GROUPS).is_some()))
        },
    ),
    FetchDef::new(
        "req.ssl_hello_type",
        Type::Int,
        REQUEST_BYTES,
        "type of the client's TLS hello",
        |_, cx, _| hello_type(cx, Place::RequestBody),
    ),
    FetchDef::new(
        "req.ssl_keyshare_groups",
        Type::Bin,
        HELLO,
        "groups with key shares in the TLS hello",
        |_, cx, _| {
            let hello = client_hello(cx)?;
            let data = cx.req_body.data();
            let text = cx.write(|out| hello.key_share_groups(data, |group| out.extend(group)).is_some())?;
            Some(Sample::bin(text))
        },
    ),
    FetchDef::new(
        "req.ssl_sigalgs",
        Type::Bin,
        HELLO,
        "signature algorithms of the TLS hello",
        |_, cx, _| {
            hello_text(cx, |hello, data| hello.list(data, extension::SIGNATURE_ALGORITHMS)).map(Sample::bin)
        },
    ),
    FetchDef::new("req.ssl_sni", Type::Str, REQUEST_BYTES, "host name of the TLS hello", |_, cx, _| {
        hello_text(cx, ClientHello::server_name).map(Sample::str)
    }),
    FetchDef::new(
        "req.ssl_st_ext",
        Type::Int,
        REQUEST_BYTES,
        "session ticket of the TLS hello: 0 none, 1 empty, 2 full",
        |_, cx, _| {
            let hello = client_hello(cx)?;
            let ticket = hello.extension(cx.req_body.data(), extension::SESSION_TICKET);
            Some(Sample::int(ticket.map_or(0, |range| if range.is_empty() { 1 } else { 2 })))
        },
    ),
    FetchDef::new("req.ssl_supported_groups", Type::Bin, HELLO, "groups of the TLS hello", |_, cx, _| {
        hello_text(cx, |hello, data| hello.list(data, extension::SUPPORTED_GROUPS)).map(Sample::bin)
    }),
    FetchDef::new("req.ssl_ver", Type::Int, REQUEST_BYTES, "version of the TLS hello", |_, cx, _| {
        hello_version(cx)
    }),
    FetchDef::new("req_len", Type::Int, REQUEST_BYTES, "number of bytes from the client", |_, cx, _| {
        len(cx, Place::RequestBody)
    }),
    FetchDef::new(
        "req_proto_http",
        Type::Bool,
        TRANSACTION,
        "true when the client speaks HTTP",
        |_, cx, _| proto_http(cx),
    ),
    FetchDef::new(
        "req_ssl_hello_type",
        Type::Int,
        REQUEST_BYTES,
        "type of the client's TLS hello",
        |_, cx, _| hello_type(cx, Place::RequestBody),
    ),
    FetchDef::new("req_ssl_sni", Type::Str, REQUEST_BYTES, "host name of the TLS hello", |_, cx, _| {
        hello_text(cx, ClientHello::server_name).map(Sample::str)
    }),
    FetchDef::new("req_ssl_ver", Type::Int, REQUEST_BYTES, "version of the TLS hello", |_, cx, _| {
        hello_version(cx)
    }),
    FetchDef::new("res.len", Type::Int, RESPONSE_BYTES, "number of bytes from the server", |_, cx, _| {
        len(cx, Place::ResponseBody)
    }),
    FetchDef::new("res.payload", Type::Bin, RESPONSE_BYTES, "bytes from the server", |a, cx, _| {
        payload(a, cx, Place::ResponseBody)
    })
    .takes(2, OFFSET_LENGTH),
    FetchDef::new(
        "res.payload_lv",
        Type::Bin,
        RESPONSE_BYTES,
        "bytes from the server with their length before them",
        |a, cx, _| payload_lv(a, cx, Place::ResponseBody),
    )
    .takes(2, LENGTH_VALUE)
    .checked(check_lv),
    FetchDef::new(
        "res.ssl_hello_type",
        Type::Int,
        RESPONSE_BYTES,
        "type of the server's TLS hello",
        |_, cx, _| hello_type(cx, Place::ResponseBody),
    ),
];

pub(super) fn current(cx: &Ctx) -> Place {
    if cx.response_side { Place::ResponseBody } else { Place::RequestBody }
}

/// The raw bytes of a side. None once the side is read as HTTP: there are no raw bytes then.
pub(super) fn raw<'c>(cx: &Ctx<'c>, place: Place) -> Option<Payload<'c>> {
    match place {
        Place::RequestBody if cx.request.is_none() || cx.is_tcp() => Some(cx.req_body),
        Place::ResponseBody if cx.response.is_none() => Some(cx.res_body),
        _ => None,
    }
}

/// Notes that more bytes may bring what was not found.
pub(super) fn wait(cx: &mut Ctx, payload: Payload) {
    cx.may_change = !payload.is_complete() && !cx.last;
}

fn text(place: Place, range: Range<usize>) -> Option<Text> {
    Some(Text::At { place, off: u32::try_from(range.start).ok()?, len: u32::try_from(range.len()).ok()? })
}

fn len(cx: &mut Ctx, place: Place) -> Option<Sample> {
    let (head, body) = match place {
        Place::RequestBody => (cx.request.as_deref().filter(|_| !cx.is_tcp()), cx.req_body),
        _ => (cx.response.as_deref(), cx.res_body),
    };
    let total = head.map_or(0, |head| head.encoded_len()) + body.data().len();
    let sample = Sample::int(total as i64);
    Some(if body.is_complete() || cx.last { sample } else { sample.volatile() })
}

fn payload(args: &Args, cx: &mut Ctx, place: Place) -> Option<Sample> {
    let data = raw(cx, place)?;
    let (offset, len) = (usize::try_from(args.int(0)?).ok()?, usize::try_from(args.int(1)?).ok()?);
    let end = if len == 0 { data.data().len().max(offset) } else { offset.checked_add(len)? };
    if end > cx.value_max() {
        return None;
    }
    if end > data.data().len() || len == 0 && offset >= data.data().len() {
        wait(cx, data);
        return None;
    }
    let sample = Sample::bin(text(place, offset..end)?);
    Some(if len == 0 && !data.is_complete() && !cx.last { sample.volatile() } else { sample })
}

/// The third argument: an offset, or a distance from the end of the length after a sign.
fn check_lv(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if !args.int(1).is_some_and(|n| (1..=8).contains(&n)) {
        return Err("length must be > 0".into());
    }
    if let Some(text) = args.str(2) {
        let relative = matches!(text.first(), Some(b'+' | b'-'));
        let value = crate::expr::parse_int(text).ok_or("payload offset2 is not a number")?;
        args.put(2, Arg::Int(value));
        args.put(3, Arg::Int(i64::from(relative)));
    }
    Ok(())
}

fn payload_lv(args: &Args, cx: &mut Ctx, place: Place) -> Option<Sample> {
    let data = raw(cx, place)?;
    let (offset, size) = (usize::try_from(args.int(0)?).ok()?, usize::try_from(args.int(1)?).ok()?);
    let after = offset.checked_add(size)?;
    let Some(field) = data.data().get(offset..after) else {
        if after <= cx.value_max() {
            wait(cx, data);
        }
        return None;
    };
    let len = field.iter().try_fold(0usize, |n, b| n.checked_mul(256)?.checked_add(usize::from(*b)))?;
    let start = match (args.int(2), args.int(3)) {
        (None, _) => after,
        (Some(distance), Some(1)) => {
            usize::try_from(i64::try_from(after).ok()?.checked_add(distance)?).ok()?
        }
        (Some(absolute), _) => usize::try_from(absolute).ok()?,
    };
    let end = start.checked_add(len)?;
    if len == 0 || end > cx.value_max() {
        return None;
    }
    if end > data.data().len() {
        wait(cx, data);
        return None;
    }
    Some(Sample::bin(text(place, start..end)?))
}

/// Turns what was seen into a value, or notes that more bytes are needed.
fn seen<T>(cx: &mut Ctx, data: Payload, peek: Peek<T>) -> Option<T> {
    match peek {
        Peek::Found(found) => Some(found),
        Peek::Other => None,
        Peek::Incomplete => {
            wait(cx, data);
            None
        }
    }
}

fn client_hello(cx: &mut Ctx) -> Option<ClientHello> {
    let data = raw(cx, Place::RequestBody)?;
    seen(cx, data, hello::client_hello(data.data()))
}

fn hello_text(cx: &mut Ctx, part: fn(&ClientHello, &[u8]) -> Option<Range<usize>>) -> Option<Text> {
    let hello = client_hello(cx)?;
    text(Place::RequestBody, part(&hello, cx.req_body.data())?)
}

fn hello_type(cx: &mut Ctx, place: Place) -> Option<Sample> {
    let data = raw(cx, place)?;
    let kind = seen(cx, data, hello::hello_type(data.data()))?;
    Some(Sample::int(kind.into()))
}

fn hello_version(cx: &mut Ctx) -> Option<Sample> {
    let data = raw(cx, Place::RequestBody)?;
    let (major, minor) = seen(cx, data, hello::version(data.data()))?;
    Some(Sample::int(i64::from(major) << 16 | i64::from(minor)))
}

fn rdp_cookie(args: &Args, cx: &mut Ctx) -> Option<Sample> {
    let data = raw(cx, Place::RequestBody)?;
    let (name, value) = seen(cx, data, hello::rdp_cookie(data.data()))?;
    if args.str(0).is_some_and(|wanted| !wanted.eq_ignore_ascii_case(&data.data()[name])) {
        return None;
    }
    Some(Sample::str(text(Place::RequestBody, value)?))
}

fn rdp_cookie_cnt(args: &Args, cx: &mut Ctx) -> Option<Sample> {
    cx.may_change = false;
    let found = rdp_cookie(args, cx).is_some();
    if !found && cx.may_change {
        return None;
    }
    Some(Sample::int(found.into()))
}

fn proto_http(cx: &mut Ctx) -> Option<Sample> {
    if cx.request.is_some() || cx.stream.as_ref().is_some_and(|s| s.is_http && !s.request_line.is_empty()) {
        return Some(Sample::bool(true));
    }
    let data = cx.req_body;
    match hello::http_request(data.data()) {
        Peek::Found(()) => Some(Sample::bool(true)),
        Peek::Other => Some(Sample::bool(false)),
        Peek::Incomplete => {
            wait(cx, data);
            None
        }
    }
}
