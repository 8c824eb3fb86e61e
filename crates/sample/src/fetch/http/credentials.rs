//! Who the client says it is, and what was captured.

use super::*;

/// The scheme and the rest of a header with credentials.
pub(super) fn credentials(cx: &mut Ctx, id: HeaderId, name: &[u8]) -> Option<(Text, Text)> {
    let head = head(cx, Side::Request)?;
    let field = if id == HeaderId::Other { head.find(name)? } else { head.get(id)? };
    let text = at(Place::Request, field.value_span);
    let value = field.value;
    let space = memchr::memchr(b' ', value)?;
    let rest = value[space..].iter().position(|b| *b != b' ').map_or(value.len(), |n| space + n);
    let tail = value[rest..].iter().rposition(|b| *b != b' ').map_or(0, |n| n + 1);
    Some((text.slice(0, space), text.slice(rest, tail)))
}

/// The same of the header that the client has to use: a proxy asks for credentials of its own.
pub(super) fn own_credentials(cx: &mut Ctx) -> Option<(Text, Text)> {
    let target = head(cx, Side::Request)?.target();
    let has_authority = target.first().is_some_and(|byte| !matches!(byte, b'/' | b'*'));
    if has_authority && cx.world.is_proxy_to_clients(cx.session.frontend) {
        return credentials(cx, HeaderId::ProxyAuthorization, b"proxy-authorization");
    }
    credentials(cx, HeaderId::Authorization, b"authorization")
}

pub(super) fn http_auth_bearer(args: &Args, cx: &mut Ctx, _: &mut Iter) -> Option<Sample> {
    let (scheme, token) = match args.at(0) {
        Arg::Header(id, name) => credentials(cx, *id, name)?,
        _ => own_credentials(cx)?,
    };
    if !cx.text(scheme).eq_ignore_ascii_case(b"bearer") || token.is_empty() {
        return None;
    }
    Some(Sample::str(token))
}

/// The user and password of Basic credentials.
pub(super) fn basic_auth(cx: &mut Ctx) -> Option<(Text, Text)> {
    let (scheme, token) = own_credentials(cx)?;
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
pub(super) fn auth_user(args: &Args, cx: &mut Ctx) -> Option<(Text, bool)> {
    let Arg::Userlist(list) = *args.at(0) else { return None };
    let Some((user, password)) = basic_auth(cx) else {
        return if cx.may_change { None } else { Some((Text::EMPTY, false)) };
    };
    let good = cx.world.check_auth(list, cx.text(user), cx.text(password));
    Some((user, good))
}

pub(super) fn check_capture(args: &mut Args, _: &mut CompileEnv) -> Result<(), String> {
    if args.int(0).is_some_and(|i| i < 0) { Err("capture identifier must be >= 0".into()) } else { Ok(()) }
}

pub(super) fn captured(args: &Args, cx: &mut Ctx, response: bool) -> Option<Sample> {
    let slot = usize::try_from(args.int(0)?).ok()?;
    let stream = cx.stream.as_deref_mut()?;
    let captures = std::mem::take(if response { &mut stream.res_captures } else { &mut stream.req_captures });
    let stored = captures.at(slot).map(|value| cx.store(value));
    let stream = cx.stream.as_deref_mut()?;
    *(if response { &mut stream.res_captures } else { &mut stream.req_captures }) = captures;
    Some(Sample::str(stored??))
}
