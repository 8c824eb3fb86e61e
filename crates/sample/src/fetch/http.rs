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

use ArgKind::{Int, Str, Userlist};

const NAME: &[ArgKind] = &[Str];
const NAME_OCC: &[ArgKind] = &[Str, Int];
const PARAM: &[ArgKind] = &[Str, Str, Str];

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
        let (scheme, _) = credentials(cx, HeaderId::Authorization, b"authorization")?;
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

/// The message of a side. Without one, more data may bring it.
fn head<'c>(cx: &'c mut Ctx, side: Side) -> Option<&'c Head> {
    let present = match side {
        Side::Request => cx.request.is_some(),
        Side::Response => cx.response.is_some(),
    };
    if !present {
        cx.may_change = !cx.last;
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

// ---- headers ----

fn check_hdr(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
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
fn next_field(head: &Head, name: &Arg, from: usize) -> Option<(usize, Span)> {
    let field = match name {
        Arg::Header(HeaderId::Other, name) => head.find_from(name, from)?,
        Arg::Header(id, _) => head.get_from(*id, from)?,
        _ => (from..head.raw_fields().len()).find_map(|i| head.field(i))?,
    };
    Some((field.index, trimmed(head, field.value_span)))
}

/// A value without the white space around it, which only rules can have written: none is received.
fn trimmed(head: &Head, span: Span) -> Span {
    let value = head.bytes(span);
    let start = value.len() - value.trim_ascii_start().len();
    Span { off: span.off + start as u32, len: value.trim_ascii().len() as _ }
}

/// Calls `visit` with each value of the list-valued fields of a name, in order, until it returns false.
fn each_value(head: &Head, name: &Arg, mut visit: impl FnMut(Span) -> bool) {
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
struct Picker {
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

fn hdr(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
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

fn fhdr(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
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

fn hdr_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let mut count = 0;
    each_value(head(cx, side)?, args.at(0), |_| {
        count += 1;
        true
    });
    Some(Sample::int(count))
}

fn fhdr_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let head = head(cx, side)?;
    let (mut count, mut from) = (0, 0);
    while let Some((index, _)) = next_field(head, args.at(0), from) {
        from = index + 1;
        count += 1;
    }
    Some(Sample::int(count))
}

/// An address, with an optional port after an IPv4 address or a bracketed IPv6 address.
fn address(text: &[u8]) -> Option<IpAddr> {
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

fn hdr_ip(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
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

fn delimiter(args: &Args) -> u8 {
    args.str(0).and_then(|d| d.first().copied()).unwrap_or(b',')
}

/// Writes a text made from the head of a side.
fn write_from_head(cx: &mut Ctx, side: Side, write: impl FnOnce(&Head, &mut Out) -> bool) -> Option<Text> {
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

fn lower(out: &mut Out, name: &[u8]) -> bool {
    name.iter().all(|b| out.push(b.to_ascii_lowercase()))
}

fn hdr_names(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let delimiter = delimiter(args);
    let text = write_from_head(cx, side, |head, out| {
        head.fields().enumerate().all(|(i, field)| (i == 0 || out.push(delimiter)) && lower(out, field.name))
    })?;
    Some(Sample::str(text))
}

fn hdrs(cx: &mut Ctx, side: Side) -> Option<Sample> {
    let text = write_from_head(cx, side, |head, out| {
        head.fields().all(|field| {
            lower(out, field.name) && out.extend(b": ") && out.extend(field.value) && out.extend(b"\r\n")
        }) && out.extend(b"\r\n")
    })?;
    Some(Sample::bin(text))
}

/// The variable-length integers of the SPOE protocol.
fn varint(out: &mut Out, value: usize) -> bool {
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

fn hdrs_bin(cx: &mut Ctx, side: Side) -> Option<Sample> {
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

// ---- cookies ----

fn cookie_field(side: Side) -> Arg {
    match side {
        Side::Request => Arg::Header(HeaderId::Cookie, Box::default()),
        Side::Response => Arg::Header(HeaderId::SetCookie, Box::default()),
    }
}

/// Calls `visit` with the name and the position of the value of each cookie until it returns false.
fn each_cookie<'h>(head: &'h Head, side: Side, mut visit: impl FnMut(&'h [u8], Span) -> bool) {
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

fn cook(args: &Args, cx: &mut Ctx, iter: &mut Iter, side: Side) -> Option<Sample> {
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
fn next_request_cookie(head: &Head, name: &[u8], iter: &mut Iter) -> Option<Span> {
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

fn cook_cnt(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
    let name = args.str(0).unwrap_or(b"");
    let mut count = 0;
    each_cookie(head(cx, side)?, side, |cookie, _| {
        count += i64::from(name.is_empty() || cookie == name);
        true
    });
    Some(Sample::int(count))
}

fn cook_names(args: &Args, cx: &mut Ctx, side: Side) -> Option<Sample> {
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

// ---- the body and parameters ----

fn body(cx: &mut Ctx, side: Side) -> Option<Sample> {
    head(cx, side)?;
    let (place, len) = match side {
        Side::Request => (Place::RequestBody, cx.req_body.data().len()),
        Side::Response => (Place::ResponseBody, cx.res_body.data().len()),
    };
    Some(Sample::bin(Text::At { place, off: 0, len: u32::try_from(len).ok()? }))
}

fn body_len(cx: &mut Ctx, side: Side) -> Option<Sample> {
    Some(Sample::int(body(cx, side)?.value.text()?.len() as i64))
}

fn body_size(cx: &mut Ctx, side: Side) -> Option<Sample> {
    let available = body(cx, side)?.value.text()?.len() as u64;
    let payload = match side {
        Side::Request => cx.req_body,
        Side::Response => cx.res_body,
    };
    Some(Sample::int(i64::try_from(payload.total().unwrap_or(available)).unwrap_or(i64::MAX)))
}

/// Finds the next parameter named `name` (any, if empty) in `text` from the position of `iter` on: where its value stands.
/// Parameters end at `&`, `;` or `delimiter`.
fn param(text: &[u8], name: &[u8], delimiter: u8, icase: bool, iter: &mut Iter) -> Option<(usize, usize)> {
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

fn param_sample(text: Text, (start, len): (usize, usize), iter: &Iter) -> Sample {
    let value = text.slice(start, len);
    let mut sample = Sample::str(value);
    sample.flags.not_last = iter.every;
    sample
}

fn check_param(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.str(1).is_some_and(|d| d.len() > 1) {
        // The reference only looks at the first character.
        let first = args.str(1).map(|d| d[..1].into()).unwrap_or_default();
        args.put(1, Arg::Str(first));
    }
    Ok(())
}

fn url_param(args: &Args, cx: &mut Ctx, iter: &mut Iter) -> Option<Sample> {
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

// ---- credentials ----

/// The scheme and the rest of a header with credentials.
fn credentials(cx: &mut Ctx, id: HeaderId, name: &[u8]) -> Option<(Text, Text)> {
    let head = head(cx, Side::Request)?;
    let field = if id == HeaderId::Other { head.find(name)? } else { head.get(id)? };
    let text = at(Place::Request, field.value_span);
    let value = field.value;
    let space = memchr::memchr(b' ', value)?;
    let rest = value[space..].iter().position(|b| *b != b' ').map_or(value.len(), |n| space + n);
    let tail = value[rest..].iter().rposition(|b| *b != b' ').map_or(0, |n| n + 1);
    Some((text.slice(0, space), text.slice(rest, tail)))
}

fn http_auth_bearer(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let (scheme, token) = match args.at(0) {
        Arg::Header(id, name) => credentials(cx, *id, name)?,
        _ => credentials(cx, HeaderId::Authorization, b"authorization")?,
    };
    if !cx.text(scheme).eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return None;
    }
    Some(Sample::str(token))
}

/// The user and password of Basic credentials.
fn basic_auth(cx: &mut Ctx) -> Option<(Text, Text)> {
    let (scheme, token) = credentials(cx, HeaderId::Authorization, b"authorization")?;
    if !cx.text(scheme).eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let plain = cx.map_bytes(token, |input, out| {
        // Decoding needs room for whole groups of three bytes.
        match base64::engine::general_purpose::STANDARD.decode_slice(input, out.spare()) {
            Ok(n) => {
                out.advance(n);
                true
            }
            Err(_) => false,
        }
    })?;
    let colon = memchr::memchr(b':', cx.text(plain))?;
    Some((plain.slice(0, colon), plain.skip(colon + 1)))
}

/// The user name sent, and whether its password is right for the user list.
fn auth_user(args: &Args, cx: &mut Ctx) -> Option<(Text, bool)> {
    let Arg::Userlist(list) = *args.at(0) else { return None };
    let Some((user, password)) = basic_auth(cx) else {
        return if cx.may_change { None } else { Some((Text::EMPTY, false)) };
    };
    let good = cx.world.check_auth(list, cx.text(user), cx.text(password));
    Some((user, good))
}

fn check_capture(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.int(0).is_some_and(|i| i < 0) { Err("capture identifier must be >= 0".into()) } else { Ok(()) }
}

fn captured(args: &Args, cx: &mut Ctx, response: bool) -> Option<Sample> {
    let slot = usize::try_from(args.int(0)?).ok()?;
    let stream = cx.stream.as_deref_mut()?;
    let captures = std::mem::take(if response { &mut stream.res_captures } else { &mut stream.req_captures });
    let stored = captures.at(slot).map(|value| cx.store(value));
    let stream = cx.stream.as_deref_mut()?;
    *(if response { &mut stream.res_captures } else { &mut stream.req_captures }) = captures;
    Some(Sample::str(stored??))
}
