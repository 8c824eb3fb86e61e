//! Messages: what is sent, and what is made of what comes.

mod support;

use proptest::prelude::*;
use support::wire::{Record, Reply, ip, name, write_name};
use thalweg_dns::message::{
    Answer, Found, Kind, PAYLOAD_MAX, Question, RECORDS_MAX, Refusal, framed, id, query, read, unframed,
};

fn question(kind: Kind) -> Question {
    Question { name: name("www.test"), kind }
}

fn reading(reply: &Reply, kind: Kind) -> Result<Answer, Refusal> {
    read(&reply.write(7, &question(kind)), &question(kind), PAYLOAD_MAX)
}

fn addresses(reply: &Reply) -> Result<Vec<String>, Refusal> {
    match reading(reply, Kind::V4)?.found {
        Found::Addresses(found) => Ok(found.iter().map(ToString::to_string).collect()),
        Found::Services(_) => panic!("services"),
    }
}

#[test]
fn a_query_is_what_the_reference_sends() {
    let bytes = query(0x400a, &Question { name: name("a.test"), kind: Kind::V6 }, 512);
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, "400a010000010000000000010161047465737400001c00010000290200000000000000");
    assert_eq!(id(&bytes), Some(0x400a));
    assert_eq!(id(&bytes[..11]), None);
}

#[test]
fn streams_carry_lengths() {
    let bytes = framed(b"abc");
    assert_eq!(bytes, b"\0\x03abc");
    assert_eq!(unframed(&bytes), Some((&b"abc"[..], 5)));
    assert_eq!(unframed(b"\0\x03abcd"), Some((&b"abc"[..], 5)));
    for cut in 0..5 {
        assert_eq!(unframed(&bytes[..cut]), None);
    }
    assert_eq!(unframed(b"\0\0"), Some((&b""[..], 2)));
}

#[test]
fn addresses_are_found() {
    let found = Reply::of(vec![
        Record::address("www.test", "192.0.2.2"),
        Record::address("WWW.Test", "192.0.2.1"),
        Record::address("www.test", "192.0.2.2"),
        Record::address("www.test", "2001:db8::1"),
        Record::address("other.test", "192.0.2.9"),
    ]);
    assert_eq!(addresses(&found), Ok(vec!["192.0.2.2".into(), "192.0.2.1".into()]));
    let v6 = reading(&found, Kind::V6);
    assert_eq!(v6, Ok(Answer { found: Found::Addresses(vec![ip("2001:db8::1")]), aliased: false }));
}

#[test]
fn aliases_are_followed_in_any_order() {
    let reply = Reply::of(vec![
        Record::address("c.test", "192.0.2.1"),
        Record::alias("b.test", "c.test"),
        Record::alias("www.test", "b.test"),
    ]);
    assert_eq!(reading(&reply, Kind::V4).map(|answer| answer.aliased), Ok(true));
    for broken in [
        vec![Record::alias("www.test", "www.test")],
        vec![Record::alias("www.test", "b.test"), Record::alias("b.test", "www.test")],
        vec![Record::alias("www.test", "b.test")],
        vec![Record::alias("www.test", "b.test"), Record::address("www.test", "192.0.2.1")],
    ] {
        let with_address = broken.len() == 2 && broken[1].kind == 1;
        let expected =
            if with_address { Ok(vec!["192.0.2.1".to_owned()]) } else { Err(Refusal::BrokenAlias) };
        assert_eq!(addresses(&Reply::of(broken)), expected);
    }
    // A chain without end is not followed to it.
    let chain = (0..100).map(|i| Record::alias(&chained(i), &chained(i + 1)));
    assert_eq!(addresses(&Reply::of(chain.collect())), Err(Refusal::BrokenAlias));
}

fn chained(i: usize) -> String {
    if i == 0 { "www.test".into() } else { format!("n{i}.test") }
}

#[test]
fn services_are_found_with_the_addresses_of_their_hosts() {
    let reply = Reply {
        records: [
            vec![
                Record::service("www.test", (10, 60, 80), "a.test"),
                Record::service("www.test", (20, 0, 81), "B.test"),
                Record::service("www.test", (30, 1, 80), "a.test"),
                Record::service("else.test", (10, 60, 99), "a.test"),
            ],
            Vec::new(),
            vec![
                Record::address("b.test", "192.0.2.2"),
                Record::address("b.test", "2001:db8::2"),
                Record::address("c.test", "192.0.2.3"),
            ],
        ],
        ..Reply::default()
    };
    let Ok(Answer { found: Found::Services(found), .. }) = reading(&reply, Kind::Service) else {
        panic!("no services")
    };
    let shown: Vec<String> = found
        .iter()
        .map(|s| format!("{} {} {}:{} {:?}", s.priority, s.weight, s.target, s.port, s.addresses))
        .collect();
    assert_eq!(shown, ["10 60 a.test:80 []", "20 0 b.test:81 [192.0.2.2, 2001:db8::2]"]);
    // "." is a service that is decidedly not there.
    let none = Reply::of(vec![Record::service("www.test", (0, 0, 0), "")]);
    assert_eq!(reading(&none, Kind::Service), Err(Refusal::Nothing(None)));
}

#[test]
fn refusals_have_names() {
    for (reply, expected) in [
        (Reply::code(2), Refusal::Failed(2)),
        (Reply::code(3), Refusal::NoSuchName(None)),
        (Reply::code(5), Refusal::Refused),
        (Reply::default(), Refusal::Nothing(None)),
        (
            Reply { truncated: true, ..Reply::of(vec![Record::address("www.test", "192.0.2.1")]) },
            Refusal::Truncated,
        ),
        (
            Reply { records: [vec![], vec![Record::authority("test", 30)], vec![]], ..Reply::code(3) },
            Refusal::NoSuchName(Some(30)),
        ),
        // The lesser of both times counts: the record's own is 60.
        (
            Reply { records: [vec![], vec![Record::authority("test", 90)], vec![]], ..Reply::default() },
            Refusal::Nothing(Some(60)),
        ),
    ] {
        assert_eq!(reading(&reply, Kind::V4), Err(expected), "{reply:?}");
    }
}

#[test]
fn what_answers_another_question_is_not_believed() {
    let good = Reply::of(vec![Record::address("www.test", "192.0.2.1")]);
    for (name, kind) in [("www2.test", 1), ("www.test", 28), ("www.test", 255), ("test", 1), ("", 1)] {
        let bytes = good.write_for(7, name, kind);
        assert_eq!(read(&bytes, &question(Kind::V4), PAYLOAD_MAX), Err(Refusal::WrongQuestion), "{name}");
    }
    // In capitals it is the same.
    let bytes = good.write_for(7, "WwW.tEsT", 1);
    assert!(read(&bytes, &question(Kind::V4), PAYLOAD_MAX).is_ok());
    // Some servers do not repeat the question when they fail, and then there is nothing to compare.
    let mut failure = Reply::code(5).write_for(7, "", 1);
    failure.truncate(12);
    failure[5] = 0;
    assert_eq!(read(&failure, &question(Kind::V4), PAYLOAD_MAX), Err(Refusal::Refused));
    failure[3] = 0;
    assert_eq!(read(&failure, &question(Kind::V4), PAYLOAD_MAX), Err(Refusal::WrongQuestion));
}

#[test]
fn lies_are_refused() {
    let good = Reply::of(vec![Record::address("www.test", "192.0.2.1")]).write(7, &question(Kind::V4));
    let reading = |bytes: &[u8]| read(bytes, &question(Kind::V4), PAYLOAD_MAX);
    assert!(reading(&good).is_ok());
    for cut in 0..good.len() {
        assert!(reading(&good[..cut]).is_err(), "cut at {cut}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        reading(&bytes)
    };
    assert_eq!(with(2, 0x01), Err(Refusal::Malformed), "a query");
    assert_eq!(with(2, 0x81 | 0x10), Err(Refusal::Malformed), "another operation");
    assert_eq!(with(7, 2), Err(Refusal::Malformed), "more records than there are");
    assert_eq!(with(6, 0xff), Err(Refusal::TooBig), "far more records than there are");
    let length = good.len() - 5;
    assert_eq!(with(length, 3), Err(Refusal::Malformed), "an address of three bytes");
    assert_eq!(with(length, 5), Err(Refusal::Malformed), "an address beyond the end");
    assert_eq!(read(&good, &question(Kind::V4), 40), Err(Refusal::TooBig), "more than was announced");
}

#[test]
fn names_that_lead_to_themselves_are_refused() {
    // Behind the question: an owner that is a pointer to itself, one that points ahead, two that point to each other.
    for owner in [&[0xc0, 26][..], &[0xc0, 40], &[0xff, 0xff], &[1, b'a', 0xc0, 26], &[0x40, 0], &[0x80, 0]] {
        let mut bytes = 7u16.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        write_name(&mut bytes, "www.test");
        bytes.extend_from_slice(&[0, 1, 0, 1]);
        assert_eq!(bytes.len(), 26);
        bytes.extend_from_slice(owner);
        bytes.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
        assert_eq!(read(&bytes, &question(Kind::V4), PAYLOAD_MAX), Err(Refusal::Malformed), "{owner:x?}");
    }
}

#[test]
fn many_addresses_are_read_and_too_many_are_not() {
    let many = |n: usize| {
        let records = (0..n).map(|i| Record::address("www.test", &format!("10.0.{}.{}", i / 256, i % 256)));
        addresses(&Reply::of(records.collect())).map(|found| found.len())
    };
    assert_eq!(many(500), Ok(500));
    assert_eq!(many(RECORDS_MAX), Ok(RECORDS_MAX));
    assert_eq!(many(RECORDS_MAX + 1), Err(Refusal::TooBig));
}

#[test]
fn names_that_no_host_has_are_passed_over() {
    let odd = Reply::of(vec![
        Record::service("www.test", (1, 1, 80), "a b.test"),
        Record::service("www.test", (1, 1, 81), "a/../b.test"),
        Record::service("www.test", (1, 1, 82), "fine.test"),
    ]);
    let Ok(Answer { found: Found::Services(found), .. }) = reading(&odd, Kind::Service) else {
        panic!("none")
    };
    assert_eq!(found.iter().map(|service| service.port).collect::<Vec<_>>(), [82]);
}

fn sample() -> Vec<u8> {
    Reply {
        records: [
            vec![
                Record::alias("www.test", "b.test"),
                Record::service("b.test", (1, 2, 3), "c.test"),
                Record::address("b.test", "192.0.2.1"),
            ],
            vec![Record::authority("test", 30)],
            vec![Record::address("c.test", "2001:db8::1")],
        ],
        ..Reply::default()
    }
    .write(7, &question(Kind::V4))
}

proptest! {
    #[test]
    fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for kind in [Kind::V4, Kind::V6, Kind::Service] {
            let _ = read(&bytes, &question(kind), PAYLOAD_MAX);
        }
        let _ = unframed(&bytes);
    }

    #[test]
    fn changed_messages_can_be_read(changes in proptest::collection::vec((0usize..200, any::<u8>()), 1..6)) {
        let mut bytes = sample();
        for (at, byte) in changes {
            let length = bytes.len();
            bytes[at % length] = byte;
        }
        for kind in [Kind::V4, Kind::V6, Kind::Service] {
            if let Ok(answer) = read(&bytes, &question(kind), PAYLOAD_MAX) {
                // What is believed has something in it, and not more than the message can hold.
                let found = match answer.found {
                    Found::Addresses(found) => found.len(),
                    Found::Services(found) => found.len(),
                };
                prop_assert!(found > 0 && found < bytes.len());
            }
        }
    }
}
