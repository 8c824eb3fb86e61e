//! The framing rules that depend on more than one message: the cases of single messages are in the h1
//! crate, beside the parser that asks for them.

use thalweg_http::semantics::{
    BodyLength, FramingPolicy, NamePolicy, RequestContext, accept_request, accept_response,
    connection_option, is_interim, may_have_body,
};
use thalweg_http::{Head, HeaderId, Method, Version, ViolationKind};

fn request(method: &str, version: Version, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_request(method.as_bytes(), b"/", version).unwrap();
    for (name, value) in fields {
        head.push(name.as_bytes(), value.as_bytes()).unwrap();
    }
    head
}

#[test]
fn the_policy_decides_about_old_requests_with_a_body() {
    let body = [("content-length", "3")];
    for (method, allowed, expected) in [
        ("GET", false, Err(ViolationKind::UnexpectedPayload)),
        ("GET", true, Ok(BodyLength::Sized(3))),
        ("HEAD", true, Ok(BodyLength::Sized(3))),
        ("DELETE", true, Ok(BodyLength::Sized(3))),
        ("POST", false, Ok(BodyLength::Sized(3))),
        ("PUT", false, Ok(BodyLength::Sized(3))),
    ] {
        let mut head = request(method, Version::HTTP_10, &body);
        let policy = FramingPolicy { payload_with_any_method: allowed, ..FramingPolicy::default() };
        let found = accept_request(&mut head, policy).map(|framing| framing.body);
        assert_eq!(found.map_err(|violation| violation.kind), expected, "{method} {allowed}");
    }
}

#[test]
fn the_policy_decides_about_connections_with_two_framings() {
    let both = [("content-length", "3"), ("transfer-encoding", "chunked")];
    for (version, keep, expected) in [
        (Version::HTTP_11, false, false),
        (Version::HTTP_11, true, true),
        // Nothing makes an HTTP/1.0 agent understand chunks.
        (Version::HTTP_10, true, false),
    ] {
        let policy = FramingPolicy { keep_insecure: keep, ..FramingPolicy::default() };
        let mut head = request("POST", version, &both);
        let framing = accept_request(&mut head, policy).unwrap();
        assert_eq!((framing.body, framing.keep_alive), (BodyLength::Chunked, expected));
        assert!(!head.has(HeaderId::ContentLength), "the length is dropped in any case");

        let mut head = request("GET", version, &both);
        head.start_response(version, 200, None).unwrap();
        let framing = accept_response(&mut head, &RequestContext::default(), policy).unwrap();
        assert_eq!((framing.body, framing.keep_alive), (BodyLength::Chunked, expected));
        assert!(!head.has(HeaderId::ContentLength));
    }
}

#[test]
fn the_context_of_a_response_is_its_request() {
    let mut head = request("GET", Version::HTTP_11, &[("connection", "upgrade"), ("upgrade", "foo")]);
    accept_request(&mut head, FramingPolicy::default()).unwrap();
    let context = RequestContext::of(&head);
    assert_eq!(context, RequestContext { method: Method::Get, upgrade: true, websocket: false });
}

#[test]
fn persistence_is_announced_to_those_who_do_not_assume_it() {
    let (old, new, h2) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
    for (sent, peer, keep, expected) in [
        (new, new, true, None),
        (new, new, false, Some("close")),
        (new, old, true, Some("keep-alive")),
        (new, old, false, Some("close")),
        (old, new, true, Some("keep-alive")),
        (old, new, false, None),
        (old, old, true, Some("keep-alive")),
        (old, old, false, None),
        (new, h2, true, None),
    ] {
        let found = connection_option(sent, peer, keep);
        assert_eq!(found, expected.map(str::as_bytes), "{sent:?} to {peer:?}, {keep}");
    }
}

#[test]
fn some_responses_never_have_a_body() {
    for (method, status, body, interim) in [
        (Method::Get, 200, true, false),
        (Method::Head, 200, false, false),
        (Method::Get, 100, false, true),
        (Method::Get, 101, false, false),
        (Method::Get, 103, false, true),
        (Method::Get, 204, false, false),
        (Method::Get, 205, true, false),
        (Method::Get, 304, false, false),
        (Method::Post, 404, true, false),
    ] {
        assert_eq!(may_have_body(method, status), body, "{method:?} {status}");
        assert_eq!(is_interim(status), interim, "{status}");
    }
}

#[test]
fn odd_names_are_kept_removed_or_rejected() {
    for (name, policy, accepted, kept) in [
        ("x_y", NamePolicy::Preserve, true, 2),
        ("x_y", NamePolicy::Delete, true, 1),
        ("x_y", NamePolicy::Reject, false, 2),
        ("x.y", NamePolicy::Delete, true, 1),
        ("x.y", NamePolicy::Reject, false, 2),
        ("x1-y", NamePolicy::Delete, true, 2),
        ("x1-y", NamePolicy::Reject, true, 2),
    ] {
        let mut head = request("GET", Version::HTTP_11, &[("host", "a"), (name, "1")]);
        assert_eq!(policy.apply(&mut head), accepted, "{name} {policy:?}");
        assert_eq!(head.len(), kept, "{name} {policy:?}");
    }
}
