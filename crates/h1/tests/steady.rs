//! A head that was used before is used again where it is: no memory moves once the largest message was
//! seen.

use thalweg_h1::{EncodeOptions, HeadParser, ParseOptions, Parsed, encode_into};
use thalweg_http::Head;
use thalweg_http::semantics::RequestContext;

#[test]
fn nothing_is_allocated_for_the_second_request() {
    let request =
        b"POST /a?b HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nX-A: 1\r\nTE: trailers, gzip\r\n\
        Transfer-Encoding: Chunked\r\n\r\n";
    let response =
        b"HTTP/1.1 200\r\nContent-Length: 3, 3\r\nSet-Cookie: a=b\r\nConnection: foo, close\r\n\r\n";
    let options = ParseOptions::default();
    let mut head = Head::new();
    let mut out = [0; 1024];
    let mut places = Vec::new();
    for _ in 0..50 {
        let parsed = HeadParser::new().parse_request(&options, request, &mut head);
        assert_eq!(parsed, Ok(Parsed::Complete(request.len())));
        head.set(b"x-forwarded-for", b"192.0.2.1").unwrap();
        head.replace_value(2, b"another value").unwrap();
        head.remove_all(b"te");
        assert!(encode_into(&head, &EncodeOptions::default(), &mut out).is_some());
        let first = (head.store().as_ptr(), head.raw_fields().as_ptr());

        let context = RequestContext::of(&head);
        let parsed = HeadParser::new().parse_response(&options, &context, response, &mut head);
        assert_eq!(parsed, Ok(Parsed::Complete(response.len())));
        head.push(b"strict-transport-security", b"max-age=31536000").unwrap();
        assert!(encode_into(&head, &EncodeOptions::default(), &mut out).is_some());
        places.push((first, (head.store().as_ptr(), head.raw_fields().as_ptr())));
    }
    assert!(places[1..].iter().all(|place| *place == places[1]), "memory moved: {places:?}");
}
