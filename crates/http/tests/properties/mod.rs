//! What must hold for any bytes at all. Used by the ordinary tests with seeded mutations, and by the
//! fuzz targets.

use thalweg_http::{HeaderId, authority, cookie, date, scan, uri, values};

/// Every reader of a value, on the same bytes.
pub fn values(text: &[u8]) {
    lists(text);
    cookies(text);
    targets(text);
    let _ = date::parse(text, 0);
    if let Some(unix_s) = date::parse(text, 1_700_000_000)
        && (0..253_402_300_800).contains(&unix_s)
    {
        assert_eq!(date::parse(&date::format(unix_s), 0), Some(unix_s), "{}", text.escape_ascii());
    }
    let id = HeaderId::from_name(text);
    assert!(id == HeaderId::Other || text.eq_ignore_ascii_case(id.name().as_bytes()));
    for at in [0, text.len() / 2, text.len()] {
        assert!((at..=text.len()).contains(&scan::control(text, at)));
        assert!((at..=text.len()).contains(&scan::target_end(text, at)));
        assert!((at..=text.len()).contains(&scan::colon(text, at)));
    }
}

/// Elements are parts of the list, in order, and together with what is between them they are all of it.
fn lists(text: &[u8]) {
    let mut elements = values::list_with_empty(text);
    let mut end = 0;
    let mut count = 0;
    while let Some((at, element)) = elements.next_at() {
        assert!(at >= end, "elements overlap");
        assert_eq!(&text[at..at + element.len()], element);
        let between = &text[end..at];
        assert!(between.iter().filter(|&&b| b == b',').count() <= 1);
        assert!(between.iter().all(|b| matches!(b, b',' | b' ' | b'\t')));
        end = at + element.len();
        count += 1;
    }
    assert!(text[end..].iter().all(|b| matches!(b, b' ' | b'\t')));
    assert!(count >= 1 && count <= text.len() + 1);
}

fn cookies(text: &[u8]) {
    for cookies in [cookie::request_cookies(text), cookie::response_cookies(text)] {
        let mut end = 0;
        for cookie in cookies {
            assert!(!cookie.name.is_empty());
            assert!(cookie.name_offset >= end, "cookies overlap");
            let name = &text[cookie.name_offset..cookie.name_offset + cookie.name.len()];
            assert_eq!(name, cookie.name);
            let value = &text[cookie.value_offset..cookie.value_offset + cookie.value.len()];
            assert_eq!(value, cookie.value);
            assert!(cookie.value_offset > cookie.name_offset);
            end = cookie.value_offset + cookie.value.len();
        }
    }
}

/// The parts of a target are parts of it, and put together they are all of it.
fn targets(text: &[u8]) {
    let parts = uri::split(text);
    let mut whole = parts.scheme.to_vec();
    if parts.form == uri::Form::Absolute {
        whole.extend_from_slice(b"://");
    }
    whole.extend_from_slice(parts.authority);
    whole.extend_from_slice(parts.path_and_query);
    if parts.form == uri::Form::Asterisk {
        whole.push(b'*');
    }
    assert_eq!(whole, text);
    let path = uri::path(text);
    match uri::query(text) {
        Some(query) => assert_eq!([path, b"?", query].concat(), uri::path_and_query(text)),
        None => assert_eq!(path, uri::path_and_query(text)),
    }
    let authority = authority::split(parts.authority);
    let mut whole = Vec::new();
    if let Some(userinfo) = authority.userinfo {
        whole.extend_from_slice(userinfo);
        whole.push(b'@');
    }
    whole.extend_from_slice(authority.host);
    if let Some(port) = authority.port {
        whole.push(b':');
        whole.extend_from_slice(port);
    }
    assert_eq!(whole, parts.authority);
    if authority::is_host(text) {
        assert!(text.iter().all(|&b| b > b' ' && b < 0x7f));
        assert!(!text.contains(&b'/') && !text.contains(&b'@') && !text.contains(&b','));
    }
}

/// A head edited at random is what a plain list of names and values edited the same way is. The bytes
/// are the edits.
pub fn edits(mut script: &[u8]) {
    use thalweg_http::{Head, RewriteError, Version};
    const NAMES: [&str; 6] = ["host", "X-A", "x-b", "Cookie", "Content-Length", "x-long-name-of-a-header"];
    const VALUES: [&str; 5] =
        ["", "1", "some value", "bad\r\nvalue", "a value that is rather longer than others"];
    let mut head = Head::new();
    head.set_limit(400);
    head.start_request(b"GET", b"/", Version::HTTP_11).unwrap();
    let mut model: Vec<Option<(String, String)>> = Vec::new();
    while let [edit, name, value, index, rest @ ..] = script {
        script = rest;
        let name = NAMES[*name as usize % NAMES.len()];
        let value = VALUES[*value as usize % VALUES.len()];
        let index = *index as usize % (model.len() + 1);
        let lower = name.to_lowercase();
        let there = model.get(index).is_some_and(Option::is_some);
        let before = head.clone();
        let result = match edit % 10 {
            9 => {
                let id = HeaderId::from_name(name.as_bytes());
                let pushed = head.push_id(id, value.as_bytes());
                if pushed.is_ok() {
                    model.push(Some((lower.clone(), value.into())));
                }
                assert!(pushed.is_err() || id != HeaderId::Other);
                // Only well-known names are taken.
                if id == HeaderId::Other { Ok(()) } else { pushed }
            }
            0 | 1 => head.push(name.as_bytes(), value.as_bytes()).map(|at| {
                assert_eq!(at, model.len());
                model.push(Some((lower.clone(), value.into())));
            }),
            2 => head.insert(index, name.as_bytes(), value.as_bytes()).map(|()| {
                model.insert(index, Some((lower.clone(), value.into())));
            }),
            3 => head.replace_value(index, value.as_bytes()).map(|()| {
                if there {
                    model[index].as_mut().unwrap().1 = value.into();
                }
            }),
            4 => head.rename(index, name.as_bytes()).map(|()| {
                if there {
                    model[index].as_mut().unwrap().0 = lower.clone();
                }
            }),
            5 => {
                head.remove(index);
                if there {
                    model[index] = None;
                }
                Ok(())
            }
            6 => {
                let removed = head.remove_all(name.as_bytes());
                let mut expected = 0;
                for field in &mut model {
                    if field.as_ref().is_some_and(|field| field.0 == lower) {
                        *field = None;
                        expected += 1;
                    }
                }
                assert_eq!(removed, expected);
                Ok(())
            }
            7 => head.set(name.as_bytes(), value.as_bytes()).map(|()| {
                for field in &mut model {
                    if field.as_ref().is_some_and(|field| field.0 == lower) {
                        *field = None;
                    }
                }
                model.push(Some((lower.clone(), value.into())));
            }),
            _ => {
                head.compact();
                Ok(())
            }
        };
        match result {
            Ok(()) => {}
            Err(RewriteError::Invalid) => assert!(value.contains('\n')),
            Err(RewriteError::TooLarge) => assert!(before.encoded_len() + 70 > 400),
        }
        head.check_invariants();
        assert!(head.encoded_len() <= 400);
        assert!(head.store().len() <= 1000, "what edits abandoned is collected");
        let found: Vec<_> = head
            .fields()
            .map(|field| {
                (String::from_utf8_lossy(field.name).into(), String::from_utf8_lossy(field.value).into())
            })
            .collect();
        let expected: Vec<(String, String)> = model.iter().flatten().cloned().collect();
        assert_eq!(found, expected);
        for name in NAMES {
            let lower = name.to_lowercase();
            let values: Vec<&[u8]> = head.find_all(name.as_bytes()).map(|field| field.value).collect();
            let expected: Vec<&[u8]> = model
                .iter()
                .flatten()
                .filter(|field| field.0 == lower)
                .map(|field| field.1.as_bytes())
                .collect();
            assert_eq!(values, expected, "{name}");
            let id = HeaderId::from_name(name.as_bytes());
            if id != HeaderId::Other {
                assert_eq!(head.value(id), expected.first().copied(), "{name}");
                assert_eq!(head.get_all(id).count(), expected.len());
            }
        }
    }
}
