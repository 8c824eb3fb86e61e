use super::*;
use crate::pattern::{Needle, Registry, SnapshotCache};
use std::net::IpAddr;

fn set_of(registry: &Registry, map: bool, lines: &str) -> Arc<PatternSet> {
    registry.open("test", map, "", |_| Ok(lines.as_bytes().to_vec())).unwrap()
}

fn look(set: &PatternSet, method: Method, icase: bool, value: &str) -> Option<String> {
    let index = set.index(method, icase).unwrap();
    let needle = match method {
        Method::Int => Needle::Int(value.parse().unwrap()),
        Method::Len => Needle::Int(value.len() as i64),
        Method::Ip => Needle::Ip(value.parse::<IpAddr>().unwrap()),
        _ => Needle::Bytes(value.as_bytes()),
    };
    index.find(&mut SnapshotCache::default(), needle, false, |hit| {
        String::from_utf8_lossy(hit.value()).into_owned()
    })
}

/// `lines` is a map; looks `value` up.
fn check(method: Method, icase: bool, lines: &str, value: &str, expected: Option<&str>) {
    let registry = Registry::default();
    let set = set_of(&registry, true, lines);
    assert_eq!(look(&set, method, icase, value).as_deref(), expected, "{method:?} {lines:?} {value:?}");
}

#[test]
fn every_method_finds_its_entry() {
    let m = "abc 1\nabd 2\nab 3\nabc 4\n";
    check(Method::Str, false, m, "abc", Some("1"));
    check(Method::Str, false, m, "ABC", None);
    check(Method::Str, true, m, "ABd", Some("2"));
    check(Method::Beg, false, m, "abcdef", Some("1"));
    check(Method::Beg, false, m, "abx", Some("3"));
    check(Method::Beg, false, m, "a", None);
    check(Method::Beg, true, m, "ABX", Some("3"));
    check(Method::End, false, "c 1\nbc 2\n", "abc", Some("1"));
    check(Method::End, false, "bc 2\nc 1\n", "abc", Some("2"));
    check(Method::End, false, "bc 2\n", "c", None);
    check(Method::Sub, false, "zz 0\nb 1\nabc 2\n", "xabcx", Some("1"));
    check(Method::Sub, true, "AB 1\n", "xabx", Some("1"));
    check(Method::Sub, false, "ab 1\n", "xaby", Some("1"));
    check(Method::Dir, false, "b 1\n", "/a/b?c", Some("1"));
    check(Method::Dir, false, "c 1\n", "/a/b?c", Some("1"));
    check(Method::Dir, false, "b?c 1\n", "/a/b?c/d", Some("1"));
    check(Method::Dir, false, "/a/ 1\n", "/a/b", Some("1"));
    check(Method::Dir, false, "// 1\n", "/a/b", None);
    check(Method::Dir, false, "b.c 1\n", "/a/b.c/d", Some("1"));
    check(Method::Dir, false, "c 1\n", "/a/b.c/d", None);
    check(Method::Dom, false, "b:c 1\n", "a.b:c/d?e", Some("1"));
    check(Method::Dom, false, ".b. 1\n", "a.b:c/d?e", Some("1"));
    check(Method::Dom, false, "/ 1\n", "a.b:c/d?e", None);
    check(Method::Dom, false, "example.com 1\n", "www.example.com:80", Some("1"));
    check(Method::Dom, false, "example.co 1\n", "www.example.com:80", None);
    check(Method::Dom, true, "EXAMPLE 1\n", "www.example.com:80", Some("1"));
    check(Method::Reg, false, "^a 1\nb$ 2\n", "ab", Some("1"));
    check(Method::Reg, true, "^A 1\n", "ab", Some("1"));
    check(Method::Int, false, "1:4 1\n3:9 2\n20 3\n", "3", Some("1"));
    check(Method::Int, false, "1:4 1\n3:9 2\n20 3\n", "9", Some("2"));
    check(Method::Int, false, "1:4 1\n3:9 2\n20 3\n", "10", None);
    check(Method::Int, false, "5: 1\n", "9223372036854775807", Some("1"));
    check(Method::Int, false, ":5 1\n", "-9223372036854775808", Some("1"));
    check(Method::Len, false, "3 1\n", "abc", Some("1"));
    check(Method::Bin, false, "6142 1\n", "aB", Some("1"));
    check(Method::Bin, false, "6142 1\n", "ab", None);
}

#[test]
fn addresses_find_the_narrowest_network() {
    let m = "10.0.0.0/8 8\n10.1.0.0/16 16\n10.1.2.3 32\n0.0.0.0/0 0\n2001:db8::/32 v6\n10.1.0.0/16 dup\n";
    check(Method::Ip, false, m, "10.1.2.3", Some("32"));
    check(Method::Ip, false, m, "10.1.2.4", Some("16"));
    check(Method::Ip, false, m, "10.2.0.0", Some("8"));
    check(Method::Ip, false, m, "11.0.0.0", Some("0"));
    check(Method::Ip, false, m, "255.255.255.255", Some("0"));
    check(Method::Ip, false, m, "2001:db8::1", Some("v6"));
    check(Method::Ip, false, m, "::ffff:10.1.2.3", Some("32"));
    check(Method::Ip, false, "127.0.0.1/255.0.0.255 x\n", "127.9.9.1", Some("x"));
    check(Method::Ip, false, "::ffff:127.0.0.0/104 x\n", "127.9.9.1", Some("x"));
    check(Method::Ip, false, "1.2.3.4 x\n", "2002:102:304::", Some("x"));
    check(Method::Ip, false, "::/0 x\n", "::1", Some("x"));
}

#[test]
fn files_have_comments_blanks_and_values_with_blanks() {
    let registry = Registry::default();
    let set = set_of(&registry, true, "# comment\n\n  a   b c \r\nd\n#e f\n");
    let all = set.entries(None, 0, 10);
    let texts: Vec<_> = all.iter().map(|e| (&e.key[..], &e.value[..])).collect();
    assert_eq!(texts, [(&b"a"[..], &b"b c"[..]), (b"d", b"")]);
}

#[test]
fn changes_are_seen_and_keep_their_place() {
    let registry = Registry::default();
    let set = set_of(&registry, true, "b 1\nab 2\n");
    let find = |value: &str| look(&set, Method::End, false, value);
    assert_eq!(find("ab").as_deref(), Some("1"));
    assert_eq!(set.set(b"b", b"one"), 1);
    assert_eq!(find("ab").as_deref(), Some("one"), "a changed entry keeps its rank");
    assert_eq!(set.delete(b"b"), 1);
    assert_eq!(find("ab").as_deref(), Some("2"));
    set.add(b"b", b"3").unwrap();
    assert_eq!(find("ab").as_deref(), Some("2"));
    assert_eq!(find("b").as_deref(), Some("3"));
    assert_eq!(set.delete(b"nope"), 0);
    set.clear(None);
    assert_eq!(find("ab"), None);
    assert_eq!(set.len(), 0);
}

#[test]
fn many_small_changes_stay_ordered() {
    let registry = Registry::default();
    let set = set_of(&registry, true, "");
    let index = set.index(Method::Str, false).unwrap();
    let mut cache = SnapshotCache::default();
    for i in 0..2000u32 {
        set.add(format!("k{i}").as_bytes(), format!("v{i}").as_bytes()).unwrap();
        if i % 3 == 0 {
            set.delete(format!("k{}", i / 2).as_bytes());
        }
    }
    let mut live = 0;
    for i in 0..2000u32 {
        let key = format!("k{i}");
        let found = index.find(&mut cache, Needle::Bytes(key.as_bytes()), false, |h| h.value().to_vec());
        assert_eq!(found, set.entry(key.as_bytes()).map(|e| e.value));
        live += usize::from(found.is_some());
    }
    assert_eq!(live, set.len());
    let ids: Vec<_> = set.entries(None, 0, usize::MAX).iter().map(|e| e.id).collect();
    assert!(ids.is_sorted());
}

#[test]
fn versions_replace_everything_at_once() {
    let registry = Registry::default();
    let set = set_of(&registry, true, "a 1\n");
    let generation = set.prepare();
    set.add_prepared(generation, b"b", b"2").unwrap();
    assert_eq!(look(&set, Method::Str, false, "a").as_deref(), Some("1"));
    assert_eq!(set.entries(Some(generation), 0, 10).len(), 1);
    set.commit(generation).unwrap();
    assert_eq!(look(&set, Method::Str, false, "a"), None);
    assert_eq!(look(&set, Method::Str, false, "b").as_deref(), Some("2"));
    assert!(set.commit(generation + 1).is_err());
    assert!(set.add_prepared(generation + 1, b"x", b"y").is_err());
}

#[test]
fn bad_patterns_are_refused_at_run_time() {
    let registry = Registry::default();
    let set = set_of(&registry, true, "1 a\n");
    set.index(Method::Int, false).unwrap();
    assert_eq!(set.add(b"x", b"y").unwrap_err(), "'x' is not a number");
    assert_eq!(set.len(), 1);
}

#[test]
fn names_are_shared_without_their_prefix() {
    let registry = Registry::default();
    let read = |_: &str| Ok(b"a\n".to_vec());
    let a = registry.open("file@x", false, "", read).unwrap();
    let b = registry.open("opt@x", false, "", |_| panic!("read twice")).unwrap();
    assert_eq!(a.id(), b.id());
    let v = registry.open("virt@x", false, "", |_| panic!("virtual")).unwrap();
    assert_ne!(a.id(), v.id());
    let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    assert!(registry.open("opt@absent", true, "", none).unwrap().is_empty());
    assert_eq!(
        registry.open("absent2", true, "", none).unwrap_err(),
        "failed to open pattern file <absent2>"
    );
    assert_eq!(registry.find("#0").unwrap().id(), a.id());
}

proptest::proptest! {
    #[test]
    fn networks_agree_with_a_plain_search(
        nets in proptest::collection::vec((proptest::prelude::any::<u32>(), 0u8..=32), 0..40),
        probes in proptest::collection::vec(proptest::prelude::any::<u32>(), 20),
    ) {
        let registry = Registry::default();
        let lines: String = nets
            .iter()
            .enumerate()
            .map(|(i, (a, bits))| format!("{}/{bits} {i}\n", std::net::Ipv4Addr::from_bits(*a)))
            .collect();
        let set = set_of(&registry, true, &lines);
        let near = nets.iter().map(|(a, _)| *a);
        for ip in probes.iter().copied().chain(near) {
            let mut best: Option<(u8, usize)> = None;
            for (i, (a, bits)) in nets.iter().enumerate() {
                let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
                if ip & mask == a & mask && best.is_none_or(|(b, _)| *bits > b) {
                    best = Some((*bits, i));
                }
            }
            let text = std::net::Ipv4Addr::from_bits(ip).to_string();
            let found = look(&set, Method::Ip, false, &text);
            proptest::prop_assert_eq!(found, best.map(|(_, i)| i.to_string()));
        }
    }

    #[test]
    fn strings_agree_with_a_plain_search(
        keys in proptest::collection::vec("[ab./]{1,5}", 1..12),
        value in "[ab./]{0,12}",
    ) {
        let registry = Registry::default();
        let lines: String = keys.iter().enumerate().map(|(i, k)| format!("{k} {i}\n")).collect();
        let set = set_of(&registry, true, &lines);
        let first = |test: &dyn Fn(&str) -> bool| keys.iter().position(|k| test(k)).map(|i| i.to_string());
        let get = |m| look(&set, m, false, &value);
        proptest::prop_assert_eq!(get(Method::Str), first(&|k| k == value));
        proptest::prop_assert_eq!(get(Method::End), first(&|k| value.ends_with(k)));
        proptest::prop_assert_eq!(get(Method::Sub), first(&|k| value.contains(k)));
        let longest = keys.iter().filter(|k| value.starts_with(*k)).map(|k| k.len()).max();
        proptest::prop_assert_eq!(get(Method::Beg), first(&|k| value.starts_with(k) && Some(k.len()) == longest));
        for (method, delimiters) in [(Method::Dir, &['/', '?'][..]), (Method::Dom, &['/', '?', '.', ':'][..])] {
            let expected = first(&|k| {
                let k = k.trim_matches(delimiters);
                !k.is_empty() && value.match_indices(|_: char| true).any(|(at, _)| {
                    let starts = at == 0 || value[..at].ends_with(delimiters);
                    let rest = &value[at..];
                    starts && rest.starts_with(k) && (rest.len() == k.len() || rest[k.len()..].starts_with(delimiters))
                })
            });
            proptest::prop_assert_eq!(get(method), expected);
        }
    }
}
