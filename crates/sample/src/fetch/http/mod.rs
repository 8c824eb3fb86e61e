//! Fetches of HTTP messages (manual section 7.3.6).

use super::{EITHER, FetchDef, Iter, REQUEST, RESPONSE, RESPONSE_FACTS, TRANSACTION};
use crate::args::{Arg, ArgKind, Args};
use crate::cast::{leading_ip4, parse_ip6};
use crate::context::{Ctx, Out};
use crate::converter::hash::{full_avalanche, sdbm};
use crate::env::CompileEnv;
use crate::value::{Place, Sample, Text, Type, Value, leading_int};
use base64::Engine as _;
use std::net::IpAddr;
use thalweg_http::{Head, HeaderId, Span, Version, cookie, uri, values};

mod cookies;
mod credentials;
mod headers;
mod payload;

use cookies::*;
use credentials::*;
use headers::*;
use payload::*;

use ArgKind::{Int, Str, Userlist};

const NAME: &[ArgKind] = &[Str];
const NAME_OCC: &[ArgKind] = &[Str, Int];
const PARAM: &[ArgKind] = &[Str, Str, Str];

pub use headers::header_address;

/// The fetches of this file.
pub static TABLE: &[FetchDef] = &[
    FetchDef::new("base", Type::Str, REQUEST, "the host and the path", |_, cx, _| {
        Some(Sample::str(write_base(cx, Part::Path)?))
    }),
    FetchDef::new("base32", Type::Int, REQUEST, "a hash of the host and the path", |_, cx, _| {
        Some(Sample::int(hash_base(cx, Part::Path)?.into()))
    }),
    FetchDef::new("base32+src", Type::Bin, REQUEST, "that hash and the client's address", |_, cx, _| {
        hash_and_source(cx, Part::Path)
    }),
    FetchDef::new("baseq", Type::Str, REQUEST, "the host, the path and the query", |_, cx, _| {
        Some(Sample::str(write_base(cx, Part::PathAndQuery)?))
    }),
    FetchDef::new("capture.req.hdr", Type::Str, TRANSACTION, "a captured request header", |args, cx, _| {
        captured(args, cx, false)
    })
    .takes(1, &[Int])
    .checked(check_capture),
    FetchDef::new(
        "capture.req.method",
        Type::Str,
        TRANSACTION,
        "the request's method as received",
        |_, cx, _| request_line(cx, |line| line.method),
    ),
    FetchDef::new(
        "capture.req.uri",
        Type::Str,
        TRANSACTION,
        "the request's path and query as received",
        |_, cx, _| {
            // Neither `*` nor a host and port have one.
            let found = request_line(cx, |line| uri::path_and_query(line.target))?;
            found.value.text().is_some_and(|text| !text.is_empty()).then_some(found)
        },
    ),
    FetchDef::new(
        "capture.req.ver",
        Type::Str,
        TRANSACTION,
        "the request's version as received",
        |_, cx, _| request_line(cx, |line| line.version),
    ),
    FetchDef::new(
        "capture.res.hdr",
        Type::Str,
        RESPONSE_FACTS,
        "a captured response header",
        |args, cx, _| captured(args, cx, true),
    )
    .takes(1, &[Int])
    .checked(check_capture),
    FetchDef::new(
        "capture.res.ver",
        Type::Str,
        TRANSACTION,
        "the response's version as received",
        |_, cx, _| {
            let (major, minor) = cx.stream.as_ref()?.res_version?;
            let text = cx
                .write(|out| std::fmt::Write::write_fmt(out, format_args!("HTTP/{major}.{minor}")).is_ok())?;
            Some(Sample::str(text))
        },
    ),
    FetchDef::new("cook", Type::Str, REQUEST, "a request cookie", |a, cx, it| cook(a, cx, it, Side::Request))
        .takes(0, NAME),
    FetchDef::new("cook_cnt", Type::Int, REQUEST, "number of request cookies", |a, cx, _| {
        cook_cnt(a, cx, Side::Request)
    })
    .takes(0, NAME),
    FetchDef::new("cook_val", Type::Int, REQUEST, "a request cookie as a number", |a, cx, it| {
        number(cook(a, cx, it, Side::Request)?, cx)
    })
    .takes(0, NAME),
    FetchDef::new("cookie", Type::Str, EITHER, "a cookie of the message being processed", |a, cx, it| {
        let side = Side::current(cx);
        cook(a, cx, it, side)
    })
    .takes(0, NAME),
    FetchDef::new("hdr", Type::Str, EITHER, "a header of the message being processed", |a, cx, it| {
        let side = Side::current(cx);
        hdr(a, cx, it, side)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("hdr_cnt", Type::Int, REQUEST, "number of values of a request header", |a, cx, _| {
        hdr_cnt(a, cx, Side::Request)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("hdr_ip", Type::Addr, REQUEST, "a request header as an address", |a, cx, it| {
        hdr_ip(a, cx, it, Side::Request)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("hdr_val", Type::Int, REQUEST, "a request header as a number", |a, cx, it| {
        number(hdr(a, cx, it, Side::Request)?, cx)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new(
        "http_auth",
        Type::Bool,
        REQUEST,
        "true when the credentials are those of a user list",
        |args, cx, _| Some(Sample::bool(auth_user(args, cx)?.1)),
    )
    .takes(1, &[Userlist]),
    FetchDef::new("http_auth_bearer", Type::Str, REQUEST, "the bearer token", http_auth_bearer)
        .takes(0, NAME)
        .checked(check_hdr),
    FetchDef::new(
        "http_auth_group",
        Type::Str,
        REQUEST,
        "the user's name, once authenticated",
        |args, cx, _| {
            let (user, good) = auth_user(args, cx)?;
            if good { Some(Sample::str(user)) } else { None }
        },
    )
    .takes(1, &[Userlist]),
    FetchDef::new("http_auth_pass", Type::Str, REQUEST, "the password sent", |_, cx, _| {
        Some(Sample::str(basic_auth(cx)?.1))
    }),
    FetchDef::new("http_auth_type", Type::Str, REQUEST, "the kind of credentials sent", |_, cx, _| {
        let (scheme, _) = own_credentials(cx)?;
        let name = match &cx.text(scheme).to_ascii_lowercase()[..] {
            b"basic" => "Basic",
            b"bearer" => "Bearer",
            _ => return None,
        };
        Some(Sample::str(Text::Static(name.as_bytes())))
    }),
    FetchDef::new("http_auth_user", Type::Str, REQUEST, "the user name sent", |_, cx, _| {
        Some(Sample::str(basic_auth(cx)?.0))
    }),
    FetchDef::new(
        "http_first_req",
        Type::Bool,
        TRANSACTION,
        "true for the first request of a connection",
        |_, cx, _| Some(Sample::bool(cx.stream.as_ref()?.first_request)),
    ),
    FetchDef::new("method", Type::Method, TRANSACTION, "the request's method", |_, cx, _| {
        if let Some(head) = cx.request.as_deref() {
            return Some(Sample::new(Value::Method(at(Place::Request, head.method_span()))));
        }
        let method = request_line(cx, |line| line.method)?;
        Some(Sample::new(Value::Method(method.value.text()?)))
    }),
    FetchDef::new("path", Type::Str, REQUEST, "the path", |_, cx, _| {
        let target = target(cx)?;
        let (start, len) = position(cx.text(target), uri::path(cx.text(target)));
        found_path(target.slice(start, len))
    }),
    FetchDef::new("pathq", Type::Str, REQUEST, "the path and the query", |_, cx, _| {
        let target = target(cx)?;
        let (start, len) = position(cx.text(target), uri::path_and_query(cx.text(target)));
        found_path(target.slice(start, len))
    }),
    FetchDef::new("query", Type::Str, REQUEST, "the query", |args, cx, _| {
        let target = target(cx)?;
        let query = uri::query(cx.text(target))?;
        let (start, len) = position(cx.text(target), query);
        Some(Sample::str(if args.is_set(0) && len > 0 {
            target.slice(start - 1, len + 1)
        } else {
            target.slice(start, len)
        }))
    })
    .takes(0, NAME)
    .checked(|args, _| match args.str(0) {
        None | Some(b"with_qm") => Ok(()),
        Some(_) => Err("supported options are: 'with_qm'".into()),
    }),
    FetchDef::new("req.body", Type::Bin, REQUEST, "the request's body received so far", |_, cx, _| {
        body(cx, Side::Request)
    }),
    FetchDef::new(
        "req.body_len",
        Type::Int,
        REQUEST,
        "the length of the request's body received so far",
        |_, cx, _| body_len(cx, Side::Request),
    ),
    FetchDef::new(
        "req.body_param",
        Type::Bin,
        REQUEST,
        "a parameter of an url-encoded body",
        |args, cx, iter| {
            let text = body(cx, Side::Request)?.value.text()?;
            let icase = args.str(1) == Some(b"i");
            let found = param(cx.text(text), args.str(0).unwrap_or(b""), b'&', icase, iter)?;
            // Declared as bytes, and text when it is there, which shows when its type is asked for late.
            Some(param_sample(text, found, iter))
        },
    )
    .takes(0, &[Str, Str]),
    FetchDef::new(
        "req.body_size",
        Type::Int,
        REQUEST,
        "the announced length of the request's body",
        |_, cx, _| body_size(cx, Side::Request),
    ),
    FetchDef::new("req.cook", Type::Str, REQUEST, "a request cookie", |a, cx, it| {
        cook(a, cx, it, Side::Request)
    })
    .takes(0, NAME),
    FetchDef::new("req.cook_cnt", Type::Int, REQUEST, "number of request cookies", |a, cx, _| {
        cook_cnt(a, cx, Side::Request)
    })
    .takes(0, NAME),
    FetchDef::new("req.cook_names", Type::Str, REQUEST, "names of the request's cookies", |a, cx, _| {
        cook_names(a, cx, Side::Request)
    })
    .takes(0, NAME),
    FetchDef::new("req.cook_val", Type::Int, REQUEST, "a request cookie as a number", |a, cx, it| {
        number(cook(a, cx, it, Side::Request)?, cx)
    })
    .takes(0, NAME),
    FetchDef::new("req.fhdr", Type::Str, REQUEST, "a whole request header", |a, cx, it| {
        fhdr(a, cx, it, Side::Request)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("req.fhdr_cnt", Type::Int, REQUEST, "number of request headers of a name", |a, cx, _| {
        fhdr_cnt(a, cx, Side::Request)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("req.hdr", Type::Str, REQUEST, "a value of a request header", |a, cx, it| {
        hdr(a, cx, it, Side::Request)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("req.hdr_cnt", Type::Int, REQUEST, "number of values of a request header", |a, cx, _| {
        hdr_cnt(a, cx, Side::Request)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("req.hdr_ip", Type::Addr, REQUEST, "a request header as an address", |a, cx, it| {
        hdr_ip(a, cx, it, Side::Request)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("req.hdr_names", Type::Str, REQUEST, "names of the request's headers", |a, cx, _| {
        hdr_names(a, cx, Side::Request)
    })
    .takes(0, NAME),
    FetchDef::new("req.hdr_val", Type::Int, REQUEST, "a request header as a number", |a, cx, it| {
        number(hdr(a, cx, it, Side::Request)?, cx)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("req.hdrs", Type::Bin, REQUEST, "all request headers", |_, cx, _| hdrs(cx, Side::Request)),
    FetchDef::new("req.hdrs_bin", Type::Bin, REQUEST, "all request headers, in binary", |_, cx, _| {
        hdrs_bin(cx, Side::Request)
    }),
    FetchDef::new("req.ver", Type::Str, TRANSACTION, "the request's version", |_, cx, _| request_version(cx)),
    FetchDef::new("req_ver", Type::Str, TRANSACTION, "the request's version", |_, cx, _| request_version(cx)),
    FetchDef::new("res.body", Type::Bin, RESPONSE, "the response's body received so far", |_, cx, _| {
        body(cx, Side::Response)
    }),
    FetchDef::new(
        "res.body_len",
        Type::Int,
        RESPONSE,
        "the length of the response's body received so far",
        |_, cx, _| body_len(cx, Side::Response),
    ),
    FetchDef::new(
        "res.body_size",
        Type::Int,
        RESPONSE,
        "the announced length of the response's body",
        |_, cx, _| body_size(cx, Side::Response),
    ),
    FetchDef::new("res.cook", Type::Str, RESPONSE, "a response cookie", |a, cx, it| {
        cook(a, cx, it, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("res.cook_cnt", Type::Int, RESPONSE, "number of response cookies", |a, cx, _| {
        cook_cnt(a, cx, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("res.cook_names", Type::Str, RESPONSE, "names of the response's cookies", |a, cx, _| {
        cook_names(a, cx, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("res.cook_val", Type::Int, RESPONSE, "a response cookie as a number", |a, cx, it| {
        number(cook(a, cx, it, Side::Response)?, cx)
    })
    .takes(0, NAME),
    FetchDef::new("res.fhdr", Type::Str, RESPONSE, "a whole response header", |a, cx, it| {
        fhdr(a, cx, it, Side::Response)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("res.fhdr_cnt", Type::Int, RESPONSE, "number of response headers of a name", |a, cx, _| {
        fhdr_cnt(a, cx, Side::Response)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("res.hdr", Type::Str, RESPONSE, "a value of a response header", |a, cx, it| {
        hdr(a, cx, it, Side::Response)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("res.hdr_cnt", Type::Int, RESPONSE, "number of values of a response header", |a, cx, _| {
        hdr_cnt(a, cx, Side::Response)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("res.hdr_ip", Type::Addr, RESPONSE, "a response header as an address", |a, cx, it| {
        hdr_ip(a, cx, it, Side::Response)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("res.hdr_names", Type::Str, RESPONSE, "names of the response's headers", |a, cx, _| {
        hdr_names(a, cx, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("res.hdr_val", Type::Int, RESPONSE, "a response header as a number", |a, cx, it| {
        number(hdr(a, cx, it, Side::Response)?, cx)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("res.hdrs", Type::Bin, RESPONSE, "all response headers", |_, cx, _| {
        hdrs(cx, Side::Response)
    }),
    FetchDef::new("res.hdrs_bin", Type::Bin, RESPONSE, "all response headers, in binary", |_, cx, _| {
        hdrs_bin(cx, Side::Response)
    }),
    FetchDef::new("res.ver", Type::Str, RESPONSE_FACTS, "the response's version", |_, cx, _| {
        response_version(cx)
    }),
    FetchDef::new("resp_ver", Type::Str, RESPONSE_FACTS, "the response's version", |_, cx, _| {
        response_version(cx)
    }),
    FetchDef::new("scook", Type::Str, RESPONSE, "a response cookie", |a, cx, it| {
        cook(a, cx, it, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("scook_cnt", Type::Int, RESPONSE, "number of response cookies", |a, cx, _| {
        cook_cnt(a, cx, Side::Response)
    })
    .takes(0, NAME),
    FetchDef::new("scook_val", Type::Int, RESPONSE, "a response cookie as a number", |a, cx, it| {
        number(cook(a, cx, it, Side::Response)?, cx)
    })
    .takes(0, NAME),
    FetchDef::new("shdr", Type::Str, RESPONSE, "a value of a response header", |a, cx, it| {
        hdr(a, cx, it, Side::Response)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("shdr_cnt", Type::Int, RESPONSE, "number of values of a response header", |a, cx, _| {
        hdr_cnt(a, cx, Side::Response)
    })
    .takes(0, NAME)
    .checked(check_hdr),
    FetchDef::new("shdr_ip", Type::Addr, RESPONSE, "a response header as an address", |a, cx, it| {
        hdr_ip(a, cx, it, Side::Response)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("shdr_val", Type::Int, RESPONSE, "a response header as a number", |a, cx, it| {
        number(hdr(a, cx, it, Side::Response)?, cx)
    })
    .takes(0, NAME_OCC)
    .checked(check_hdr),
    FetchDef::new("status", Type::Int, RESPONSE_FACTS, "the response's status", |_, cx, _| {
        match cx.response.as_deref() {
            Some(head) => Some(Sample::int(head.status().into())),
            None => {
                let status = cx.stream.as_ref()?.status;
                (status >= 0).then(|| Sample::int(status.into()))
            }
        }
    }),
    FetchDef::new("url", Type::Str, REQUEST, "the request's target", |_, cx, _| {
        Some(Sample::str(target(cx)?))
    }),
    FetchDef::new("url32", Type::Int, REQUEST, "a hash of the host and the target", |_, cx, _| {
        Some(Sample::int(hash_base(cx, Part::Target)?.into()))
    }),
    FetchDef::new("url32+src", Type::Bin, REQUEST, "that hash and the client's address", |_, cx, _| {
        hash_and_source(cx, Part::Target)
    }),
    FetchDef::new("url_ip", Type::Ip4, REQUEST, "the address in the request's target", |_, cx, _| {
        let target = target(cx)?;
        Some(Sample::new(Value::Ip4(target_address(cx.text(target))?.0)))
    }),
    FetchDef::new("url_param", Type::Str, REQUEST, "a parameter of the query", url_param)
        .takes(0, PARAM)
        .checked(check_param),
    FetchDef::new("url_port", Type::Int, REQUEST, "the port in the request's target", |_, cx, _| {
        let target = target(cx)?;
        Some(Sample::int(target_address(cx.text(target))?.1.into()))
    }),
    FetchDef::new("urlp", Type::Str, REQUEST, "a parameter of the query", url_param)
        .takes(0, PARAM)
        .checked(check_param),
    FetchDef::new("urlp_val", Type::Int, REQUEST, "a parameter of the query as a number", |a, cx, it| {
        number(url_param(a, cx, it)?, cx)
    })
    .takes(0, PARAM)
    .checked(check_param),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

impl Side {
    fn current(cx: &Ctx) -> Side {
        if cx.response_side { Side::Response } else { Side::Request }
    }

    fn place(self) -> Place {
        match self {
            Side::Request => Place::Request,
            Side::Response => Place::Response,
        }
    }
}

/// The message of a side. Without one, more data may bring it, unless a client of TCP says something else.
fn head<'c>(cx: &'c mut Ctx, side: Side) -> Option<&'c Head> {
    let present = match side {
        Side::Request => cx.request.is_some(),
        Side::Response => cx.response.is_some(),
    };
    if !present {
        let may_come = cx.request_may_come || side == Side::Response || !cx.is_tcp();
        cx.may_change = may_come && !cx.last;
        return None;
    }
    match side {
        Side::Request => cx.request.as_deref(),
        Side::Response => cx.response.as_deref(),
    }
}

fn at(place: Place, span: Span) -> Text {
    Text::At { place, off: span.off, len: span.len }
}

/// Where `part`, a part of `whole`, stands in it.
fn position(whole: &[u8], part: &[u8]) -> (usize, usize) {
    if part.is_empty() {
        return (whole.len(), 0);
    }
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    (start.min(whole.len()), part.len())
}

fn number(sample: Sample, cx: &Ctx) -> Option<Sample> {
    let value = leading_int(cx.bytes(&sample.value)).0;
    Some(Sample { value: Value::Int(value), flags: sample.flags })
}

// ---- the start line ----

fn target(cx: &mut Ctx) -> Option<Text> {
    let head = head(cx, Side::Request)?;
    Some(at(Place::Request, head.target_span()))
}

/// A path; targets without any, such as `*`, have none.
fn found_path(path: Text) -> Option<Sample> {
    if path.is_empty() { None } else { Some(Sample::str(path)) }
}

/// The parts of the request line that was kept.
pub(crate) struct RequestLine<'l> {
    pub method: &'l [u8],
    pub target: &'l [u8],
    pub version: &'l [u8],
}

/// Cuts a request line into its parts.
pub(crate) fn split_request_line(line: &[u8]) -> Option<RequestLine<'_>> {
    let first = memchr::memchr(b' ', line)?;
    let (method, rest) = (&line[..first], &line[first + 1..]);
    Some(match memchr::memrchr(b' ', rest) {
        Some(last) => RequestLine { method, target: &rest[..last], version: &rest[last + 1..] },
        None => RequestLine { method, target: rest, version: b"" },
    })
}

/// A part of the request line that was kept when the request came, copied.
fn request_line(cx: &mut Ctx, part: for<'l> fn(&RequestLine<'l>) -> &'l [u8]) -> Option<Sample> {
    let line = std::mem::take(&mut cx.stream.as_mut()?.request_line);
    let stored = split_request_line(&line).and_then(|parts| cx.store(part(&parts)));
    cx.stream.as_mut()?.request_line = line;
    Some(Sample::str(stored?))
}

fn version_text(version: Version) -> Text {
    match (version.major, version.minor) {
        (1, 1) => Text::Static(b"1.1"),
        (1, 0) => Text::Static(b"1.0"),
        (2, 0) => Text::Static(b"2.0"),
        (3, 0) => Text::Static(b"3.0"),
        _ => Text::EMPTY,
    }
}

fn any_version(cx: &mut Ctx, version: Version) -> Option<Sample> {
    let known = version_text(version);
    if !known.is_empty() {
        return Some(Sample::str(known));
    }
    let Version { major, minor } = version;
    let text = cx.write(|out| std::fmt::Write::write_fmt(out, format_args!("{major}.{minor}")).is_ok())?;
    Some(Sample::str(text))
}

fn request_version(cx: &mut Ctx) -> Option<Sample> {
    if cx.request.is_none() && cx.stream.as_ref().is_some_and(|s| !s.request_line.is_empty()) {
        let version = request_line(cx, |line| line.version)?;
        return Some(Sample::str(version.value.text()?.skip(5)));
    }
    let version = head(cx, Side::Request)?.version();
    any_version(cx, version)
}

fn response_version(cx: &mut Ctx) -> Option<Sample> {
    let version = match (cx.response.as_deref(), cx.stream.as_deref().and_then(|s| s.res_version)) {
        (None, Some((major, minor))) => Version { major, minor },
        _ => head(cx, Side::Response)?.version(),
    };
    any_version(cx, version)
}

enum Part {
    Path,
    PathAndQuery,
    Target,
}

fn with_base<R>(cx: &mut Ctx, part: Part, with: impl FnOnce(&[u8], &[u8]) -> R) -> Option<R> {
    let head = head(cx, Side::Request)?;
    let host = head.value(HeaderId::Host).unwrap_or(b"");
    let path = match part {
        Part::Path => uri::path(head.target()),
        Part::PathAndQuery => uri::path_and_query(head.target()),
        Part::Target => head.target(),
    };
    Some(with(host, path))
}

fn write_base(cx: &mut Ctx, part: Part) -> Option<Text> {
    let head = head(cx, Side::Request)?;
    let target = head.target();
    let path = match part {
        Part::Path => uri::path(target),
        _ => uri::path_and_query(target),
    };
    let (start, len) = position(target, path);
    let path = at(Place::Request, head.target_span()).slice(start, len);
    let host = head.get(HeaderId::Host).map_or(Text::EMPTY, |field| at(Place::Request, field.value_span));
    cx.map_two(host, path, |host, path, out| out.extend(host) && out.extend(path))
}

fn hash_base(cx: &mut Ctx, part: Part) -> Option<u32> {
    let hash = with_base(cx, part, |host, path| {
        let first = sdbm(host);
        // An asterisk is no path.
        let path = if path == b"*" { &[] } else { path };
        // The hash goes on over the path: multiplying by 65599 and adding is all it does.
        path.iter().fold(first, |hash, b| hash.wrapping_mul(65599).wrapping_add(u32::from(*b)))
    })?;
    Some(full_avalanche(hash))
}

fn hash_and_source(cx: &mut Ctx, part: Part) -> Option<Sample> {
    let hash = hash_base(cx, part)?.to_be_bytes();
    let ip = cx.source().ip()?;
    let text = cx.write(|out| {
        out.extend(&hash)
            && match ip {
                IpAddr::V4(ip) => out.extend(&ip.octets()),
                IpAddr::V6(ip) => out.extend(&ip.octets()),
            }
    })?;
    Some(Sample::bin(text))
}

/// The IPv4 address and port of an absolute target.
fn target_address(target: &[u8]) -> Option<(std::net::Ipv4Addr, u16)> {
    let authority = uri::split(target).authority;
    if authority.is_empty() {
        return None;
    }
    let ip = leading_ip4(match memchr::memchr(b':', authority) {
        Some(colon) => &authority[..colon],
        None => authority,
    })?;
    let port = match memchr::memchr(b':', authority) {
        Some(colon) => u16::try_from(leading_int(&authority[colon + 1..]).0).ok()?,
        None => 80,
    };
    Some((ip, port))
}
