//! A section in virtual time: what it asks and when, and what servers make of the answers.

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use support::wire::{Record, Reply, ip, name};
use support::{World, follow, key, preference, settings};
use thalweg_dns::message::{Kind, Question};
use thalweg_dns::{Families, Follow, Key, LOOKUPS_MAX, Preference, Resolved, Settings, Status};

/// A zone that tests change while name servers serve it: what each says about a name and a type; `None` is silence.
type Zone = Rc<RefCell<BTreeMap<(&'static str, u16), Option<Reply>>>>;

fn zone() -> Zone {
    Zone::default()
}

fn set(zone: &Zone, owner: &'static str, addresses: &[&str]) {
    let records = addresses.iter().map(|address| Record::address(owner, address)).collect();
    zone.borrow_mut().insert((owner, 1), Some(Reply::of(records)));
}

fn set_service(zone: &Zone, owner: &'static str, services: &[((u16, u16, u16), &str)]) {
    let records = services.iter().map(|(numbers, target)| Record::service(owner, *numbers, target)).collect();
    zone.borrow_mut().insert((owner, 33), Some(Reply::of(records)));
}

fn say(zone: &Zone, owner: &'static str, reply: Option<Reply>) {
    for kind in [1, 28, 33] {
        zone.borrow_mut().insert((owner, kind), reply.clone());
    }
}

fn look(zone: &Zone, question: &Question) -> Option<Reply> {
    let number = match question.kind {
        Kind::V4 => 1,
        Kind::V6 => 28,
        Kind::Service => 33,
    };
    let zone = zone.borrow();
    let known = zone.iter().find(|((owner, kind), _)| *owner == question.name.as_str() && *kind == number);
    match known {
        Some((_, reply)) => reply.clone(),
        // Other types of a name that there is, and names that there are not.
        None if zone.keys().any(|(owner, _)| *owner == question.name.as_str()) => Some(Reply::default()),
        None => Some(Reply::code(3)),
    }
}

fn world(settings: Settings, zone: &Zone) -> World {
    let zone = Rc::clone(zone);
    World::new(settings, Box::new(move |_, _, question| look(&zone, question)))
}

/// Milliseconds since the start of each query, with the family that was asked for.
fn asked(world: &mut World) -> String {
    let shown = world.queries.drain(..).map(|(at, _, _, question)| {
        let kind = match question.kind {
            Kind::V4 => "4",
            Kind::V6 => "6",
            Kind::Service => "S",
        };
        format!("{}{kind}", at - 1_000_000)
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_follows_its_name() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    let mut world = world(settings(1), &zone);
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(2500);
    assert_eq!(world.told(), ["0 0 has 192.0.2.1 by NameServer(0)"]);
    assert_eq!(asked(&mut world), "04 10004 20004");
    set(&zone, "a.test", &["192.0.2.2"]);
    world.run(1000);
    // The address of before is held for 2 s: it is obsolete when an answer without it comes then.
    assert_eq!(world.told(), Vec::<String>::new());
    world.run(1000);
    assert_eq!(world.told(), ["4000 0 has 192.0.2.2 by NameServer(0)"]);
    let tally = world.resolver.tallies()[0];
    assert_eq!((tally.sent, tally.valid, tally.update), (5, 5, 2));
}

#[test]
fn failures_are_held_for_as_long_as_the_configuration_says() {
    // As seen of the reference: tries at 0, 500 and 1000 ms of a second, the next lookup a second after the last of them.
    for (reply, hold, loss, queries) in [
        (Some(Reply::code(3)), 3000, "NoSuchName", "10004 10006 15004 15006 20004 20006 30004 30006"),
        (Some(Reply::code(5)), 3000, "Refused", "10004 10006 15004 15006 20004 20006 30004 30006"),
        (Some(Reply::code(2)), 3000, "Other", "10004 10006 15004 15006 20004 20006 30004 30006"),
        (Some(Reply::default()), 3000, "Other", "10004 10006 15004 15006 20004 20006 30004 30006"),
        (None, 3000, "Timeout", "10004 15004 20004 35004"),
    ] {
        let zone = zone();
        set(&zone, "a.test", &["192.0.2.1"]);
        let mut world = world(settings(1), &zone);
        world.resolver.follow(key(0), follow("a.test"), world.now_ms);
        world.run(500);
        say(&zone, "a.test", reply);
        asked(&mut world);
        world.told();
        world.run(3200);
        assert!(asked(&mut world).starts_with(queries), "{loss}");
        assert_eq!(world.told(), Vec::<String>::new(), "{loss}: nothing before {hold} ms");
        world.run(6000);
        assert_eq!(world.told().len(), 1, "{loss}: it goes once");
        assert!(world.has().is_empty());
        set(&zone, "a.test", &["192.0.2.1"]);
        world.run(2500);
        assert_eq!(world.has(), ["0=192.0.2.1"], "{loss}: it comes back");
    }
}

/// Nothing flaps while a name server fails for an hour: the server goes once, its name is asked for no more often than within the
/// first seconds, and the first answer brings it back.
#[test]
fn an_hour_of_failures_takes_a_server_once() {
    for reply in [Some(Reply::code(2)), Some(Reply::default()), None] {
        let zone = zone();
        set(&zone, "a.test", &["192.0.2.1"]);
        let mut world = world(settings(1), &zone);
        world.resolver.follow(key(0), follow("a.test"), world.now_ms);
        world.run(500);
        assert_eq!(world.told().len(), 1);
        say(&zone, "a.test", reply);
        world.run(3_600_000);
        assert_eq!(world.told().len(), 1, "it goes once");
        assert!(world.has().is_empty());
        assert!(world.queries.len() <= 3 * 3600 + 10, "{} queries in an hour", world.queries.len());
        set(&zone, "a.test", &["192.0.2.1"]);
        world.run(2500);
        assert_eq!((world.told().len(), world.has()), (1, vec!["0=192.0.2.1".to_owned()]));
    }
}

#[test]
fn a_hold_ends_with_the_first_failure_after_it() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    let mut world = world(settings(1), &zone);
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(100);
    say(&zone, "a.test", Some(Reply::code(3)));
    world.told();
    world.run(10_000);
    // The last answer was at 0; lookups fail at 2000, 4000 ...
    assert_eq!(world.told(), ["4000 0 lost: Failed(NoSuchName)"]);
}

#[test]
fn a_server_that_has_an_address_of_the_start_keeps_it_as_long() {
    let zone = zone();
    let mut world = world(settings(1), &zone);
    let address = Some(ip("192.0.2.7"));
    world.addresses.insert(key(0), (ip("192.0.2.7"), None));
    world.resolver.follow(key(0), Follow { address, ..follow("a.test") }, world.now_ms);
    world.run(10_000);
    assert_eq!(world.told(), ["3000 0 lost: Failed(NoSuchName)"]);
}

#[test]
fn a_single_failure_between_answers_changes_nothing() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    let failing = Rc::new(RefCell::new(0u32));
    let (count, inner) = (Rc::clone(&failing), Rc::clone(&zone));
    let mut world = World::new(
        settings(1),
        Box::new(move |_, _, question| {
            *count.borrow_mut() += 1;
            if (*count.borrow()).is_multiple_of(3) { Some(Reply::code(2)) } else { look(&inner, question) }
        }),
    );
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(60_000);
    assert_eq!(world.told(), ["0 0 has 192.0.2.1 by NameServer(0)"]);
}

#[test]
fn servers_of_one_name_share_its_addresses_out() {
    let zone = zone();
    set(&zone, "m.test", &["192.0.2.1", "192.0.2.2"]);
    let mut world = world(settings(1), &zone);
    for server in 0..3 {
        world.resolver.follow(key(server), follow("m.test"), world.now_ms);
    }
    let other = Key { group: 1, server: 0 };
    world.resolver.follow(other, follow("m.test"), world.now_ms);
    let twice = Preference { duplicates: true, ..preference() };
    world.resolver.follow(key(9), Follow { preference: twice, ..follow("m.test") }, world.now_ms);
    world.run(100);
    let told = [
        "0 0 has 192.0.2.1 by NameServer(0)",
        "0 1 has 192.0.2.2 by Cache",
        "0 9 has 192.0.2.1 by Cache",
        "0 0 has 192.0.2.1 by Cache",
    ];
    assert_eq!(world.told(), told);
    assert_eq!(asked(&mut world), "04", "one question for all of them");
    // One more address: the server that had none gets it. One less: who had it looks for another, in vain.
    set(&zone, "m.test", &["192.0.2.2", "192.0.2.3", "192.0.2.1"]);
    world.run(1000);
    assert_eq!(world.told(), ["1000 2 has 192.0.2.3 by NameServer(0)"]);
    set(&zone, "m.test", &["192.0.2.3", "192.0.2.1"]);
    world.run(5000);
    assert_eq!(world.told(), ["3000 1 lost: NoAddress"]);
    assert_eq!(world.has(), ["0=192.0.2.1", "2=192.0.2.3", "9=192.0.2.1", "0=192.0.2.1"]);
}

#[test]
fn a_record_that_disappears_and_returns_within_its_hold_is_not_noticed() {
    let zone = zone();
    set(&zone, "m.test", &["192.0.2.1", "192.0.2.2"]);
    let mut world = world(settings(1), &zone);
    for server in 0..2 {
        world.resolver.follow(key(server), follow("m.test"), world.now_ms);
    }
    world.run(100);
    world.told();
    for _ in 0..20 {
        set(&zone, "m.test", &["192.0.2.2"]);
        world.run(1000);
        set(&zone, "m.test", &["192.0.2.2", "192.0.2.1"]);
        world.run(1000);
    }
    assert_eq!(world.told(), Vec::<String>::new());
}

#[test]
fn five_hundred_addresses_go_to_five_hundred_servers() {
    let zone = zone();
    let all: Vec<String> = (0..500).map(|i| format!("10.0.{}.{}", i / 256, i % 256)).collect();
    let mut shuffled: Vec<&str> = all.iter().map(String::as_str).collect();
    set(&zone, "big.test", &shuffled);
    let mut world = world(Settings { payload_max: 65535, ..settings(1) }, &zone);
    for server in 0..500 {
        world.resolver.follow(key(server), follow("big.test"), world.now_ms);
    }
    world.run(1);
    assert_eq!(world.told().len(), 500);
    // Round robin on the name server's side moves nobody.
    for _ in 0..10 {
        shuffled.rotate_left(37);
        set(&zone, "big.test", &shuffled);
        world.run(1000);
    }
    assert_eq!(world.told(), Vec::<String>::new());
    // Its answers may hold only some of them each time: the hold covers that.
    for _ in 0..10 {
        shuffled.rotate_left(300);
        set(&zone, "big.test", &shuffled[..300]);
        world.run(1000);
    }
    assert_eq!(world.told(), Vec::<String>::new());
}

#[test]
fn families_are_tried_in_their_order() {
    let zone = zone();
    set(&zone, "four.test", &["192.0.2.1"]);
    for (families, expected) in [
        (Families::V6First, "06 04"),
        (Families::V4First, "04"),
        (Families::V4, "04"),
        (Families::V6, "06 5006"),
    ] {
        let mut world = world(settings(1), &zone);
        let preference = Preference { families, ..preference() };
        world.resolver.follow(key(0), Follow { preference, ..follow("four.test") }, world.now_ms);
        world.run(600);
        assert_eq!(asked(&mut world), expected, "{families:?}");
        assert_eq!(world.has().len(), usize::from(families != Families::V6));
    }
}

#[test]
fn the_first_valid_answer_counts_and_a_dead_name_server_does_no_harm() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    for (dead, says) in [(0, None), (1, None), (0, Some(Reply::code(2))), (1, Some(Reply::code(3)))] {
        let inner = Rc::clone(&zone);
        let reply = says.clone();
        let mut world = World::new(
            settings(2),
            Box::new(
                move |server, _, question| {
                    if server == dead { reply.clone() } else { look(&inner, question) }
                },
            ),
        );
        world.resolver.follow(key(0), follow("a.test"), world.now_ms);
        world.run(30_000);
        assert_eq!(world.told(), [format!("0 0 has 192.0.2.1 by NameServer({})", 1 - dead)]);
        assert_eq!(world.queries.len(), 62);
    }
}

#[test]
fn answers_that_come_late_or_from_elsewhere_are_counted_and_not_believed() {
    let mut world = World::new(settings(2), Box::new(|_, _, _| None));
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.resolver.handle_deadline(world.now_ms);
    let sent = world.resolver.poll_transmit().expect("a query");
    let (id, question) = support::wire::asked(&sent.bytes);
    let lie = Reply::of(vec![Record::address("a.test", "203.0.113.1")]);
    let now = world.now_ms;
    // Too short, another number, another question, a server that was not asked.
    world.resolver.handle(0, false, b"xyz", now);
    world.resolver.handle(0, false, &lie.write(id.wrapping_add(1), &question), now);
    world.resolver.handle(0, false, &lie.write_for(id, "b.test", 1), now);
    world.resolver.handle(7, false, &lie.write(id, &question), now);
    let tally = world.resolver.tallies()[0];
    assert_eq!((tally.invalid, tally.outdated, tally.valid), (2, 1, 0));
    world.settle();
    assert_eq!(world.told(), Vec::<String>::new());
    // The truth still comes through; the same again is late.
    let truth = Reply::of(vec![Record::address("a.test", "192.0.2.1")]).write(id, &question);
    world.resolver.handle(0, false, &truth, now);
    world.resolver.handle(1, false, &truth, now);
    world.settle();
    assert_eq!(world.told(), ["0 0 has 192.0.2.1 by NameServer(0)"]);
    assert_eq!(world.resolver.tallies()[1].outdated, 1);
}

#[test]
fn what_does_not_fit_into_a_datagram_is_asked_for_over_a_stream() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    let inner = Rc::clone(&zone);
    let mut world = World::new(
        settings(1),
        Box::new(move |_, stream, question| match stream {
            false => Some(Reply { truncated: true, ..Reply::default() }),
            true => look(&inner, question),
        }),
    );
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(500);
    assert_eq!(world.told(), ["0 0 has 192.0.2.1 by NameServer(0)"]);
    let streams: Vec<bool> = world.queries.iter().map(|query| query.2).collect();
    assert_eq!(streams, [false, true]);
    assert_eq!(world.resolver.tallies()[0].truncated, 1);
}

#[test]
fn services_fill_their_servers() {
    let zone = zone();
    set(&zone, "x1.test", &["192.0.2.1"]);
    set(&zone, "x2.test", &["192.0.2.2"]);
    set(&zone, "x3.test", &["192.0.2.3"]);
    set_service(&zone, "_s._tcp.test", &[((2, 512, 81), "x1.test"), ((1, 100, 82), "x2.test")]);
    let mut world = world(settings(1), &zone);
    for server in 0..3 {
        world.resolver.follow(key(server), follow("_s._tcp.test"), world.now_ms);
    }
    world.run(100);
    let told = [
        "0 0 is x2.test",
        "0 1 is x1.test",
        "0 1 weighs 2",
        "0 0 weighs 1",
        "0 1 has 192.0.2.1 port 81 by NameServer(0)",
        "0 0 has 192.0.2.2 port 82 by NameServer(0)",
    ];
    assert_eq!(world.told(), told);
    // One more takes the server that is free; another weight is noticed; another port makes it another one.
    let more: &[_] = &[((2, 65535, 81), "x1.test"), ((1, 100, 83), "x2.test"), ((1, 0, 80), "x3.test")];
    set_service(&zone, "_s._tcp.test", more);
    world.run(1000);
    let told = world.told();
    assert_eq!(told.iter().filter(|line| line.contains("1 weighs 256")).count(), 1, "{told:?}");
    assert!(told.iter().any(|line| line.contains("2 is x2.test")), "{told:?}");
    // What was not listed for 2 s goes, and its server is given to who waited.
    world.run(2000);
    let told = world.told();
    assert!(told.contains(&"2000 0 lost: Removed".to_owned()), "{told:?}");
    assert!(told.contains(&"2000 0 is x3.test".to_owned()), "{told:?}");
    assert_eq!(world.has(), ["0=192.0.2.3", "1=192.0.2.1", "2=192.0.2.2"]);
    // The service fails for longer than its hold: all go, and come back with it.
    say(&zone, "_s._tcp.test", Some(Reply::code(3)));
    world.run(8000);
    assert!(world.has().is_empty());
    assert_eq!(world.told().iter().filter(|line| line.ends_with("lost: Removed")).count(), 3);
    set_service(&zone, "_s._tcp.test", more);
    world.run(3000);
    assert_eq!(world.has().len(), 3);
}

/// Two backends whose servers follow one service: each has all of it.
#[test]
fn a_service_fills_the_servers_of_each_backend() {
    let zone = zone();
    set(&zone, "x1.test", &["192.0.2.1"]);
    set(&zone, "x2.test", &["192.0.2.2"]);
    set_service(&zone, "_s._tcp.test", &[((1, 256, 81), "x1.test"), ((1, 256, 82), "x2.test")]);
    let mut world = world(settings(1), &zone);
    let keys = || (0..2).flat_map(|group| (0..3).map(move |server| Key { group, server }));
    keys().for_each(|key| world.resolver.follow(key, follow("_s._tcp.test"), world.now_ms));
    world.run(100);
    let has = |world: &World| {
        world.addresses.iter().map(|(key, (ip, port))| (key.group, *ip, *port)).collect::<Vec<_>>()
    };
    let of = |group, ip: &str, port| (group, ip.parse().unwrap(), Some(port));
    let both = |group| [of(group, "192.0.2.1", 81), of(group, "192.0.2.2", 82)];
    assert_eq!(has(&world), [both(0), both(1)].concat());
    // One goes from both, and another one comes to both.
    set(&zone, "x3.test", &["192.0.2.3"]);
    set_service(&zone, "_s._tcp.test", &[((1, 256, 81), "x1.test"), ((1, 256, 83), "x3.test")]);
    world.run(5000);
    let both = |group| [of(group, "192.0.2.1", 81), of(group, "192.0.2.3", 83)];
    assert_eq!(has(&world), [both(0), both(1)].concat());
    // A backend that goes leaves the other one what it has.
    keys().filter(|key| key.group == 0).for_each(|key| world.resolver.forget(key));
    say(&zone, "_s._tcp.test", Some(Reply::code(3)));
    world.run(5000);
    assert_eq!(has(&world), both(0), "who follows nothing keeps what it has");
}

#[test]
fn servers_that_may_share_addresses_use_all_of_them() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1", "192.0.2.2"]);
    let mut world = world(settings(1), &zone);
    for server in 0..4 {
        let mut follow = follow("a.test");
        follow.preference.duplicates = true;
        world.resolver.follow(key(server), follow, world.now_ms);
    }
    world.run(100);
    assert_eq!(world.has(), ["0=192.0.2.1", "1=192.0.2.2", "2=192.0.2.1", "3=192.0.2.2"]);
    // One goes: its servers join the others, and stay where they are when it is back.
    set(&zone, "a.test", &["192.0.2.2"]);
    world.run(5000);
    assert_eq!(world.has(), ["0=192.0.2.2", "1=192.0.2.2", "2=192.0.2.2", "3=192.0.2.2"]);
}

#[test]
fn a_service_whose_weights_are_all_zero_has_equal_servers() {
    let zone = zone();
    set(&zone, "x1.test", &["192.0.2.1"]);
    set_service(&zone, "_s._tcp.test", &[((0, 0, 81), "x1.test"), ((0, 0, 82), "x1.test")]);
    let mut world = world(settings(1), &zone);
    for server in 0..2 {
        world.resolver.follow(key(server), follow("_s._tcp.test"), world.now_ms);
    }
    world.run(100);
    let told = world.told();
    assert_eq!(told.iter().filter(|line| line.ends_with("weighs 1")).count(), 2, "{told:?}");
    // Two ports of one host are two servers with one address.
    assert_eq!(world.has(), ["0=192.0.2.1", "1=192.0.2.1"]);
}

#[test]
fn addresses_that_come_with_a_service_save_questions() {
    let zone = zone();
    let reply = Reply {
        records: [
            vec![Record::service("_s._tcp.test", (0, 1, 81), "x1.test")],
            vec![],
            vec![Record::address("x1.test", "2001:db8::1"), Record::address("x1.test", "192.0.2.1")],
        ],
        ..Reply::default()
    };
    zone.borrow_mut().insert(("_s._tcp.test", 33), Some(reply));
    let mut world = world(settings(1), &zone);
    world.resolver.follow(key(0), follow("_s._tcp.test"), world.now_ms);
    world.run(2100);
    assert_eq!(asked(&mut world), "0S 1000S 2000S");
    assert_eq!(world.told()[2], "0 0 has 192.0.2.1 port 81 by Additional");
    // Then they do not come any more: the host is asked for.
    set(&zone, "x1.test", &["192.0.2.1"]);
    set_service(&zone, "_s._tcp.test", &[((0, 1, 81), "x1.test")]);
    world.run(2000);
    assert_eq!(asked(&mut world), "3000S 30004 4000S 40004");
    assert_eq!(world.told(), Vec::<String>::new());
}

#[test]
fn who_asks_once_is_answered_once() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    let mut world = world(settings(1), &zone);
    let ask = |world: &mut World, host: &str| {
        let now = world.now_ms;
        world.resolver.resolve(&name(host), Families::V4First, now)
    };
    let Resolved::Later(_) = ask(&mut world, "a.test") else { panic!("nothing is known yet") };
    let Resolved::Later(_) = ask(&mut world, "a.test") else { panic!("nothing is known yet") };
    world.run(0);
    assert_eq!(world.told(), ["0 ticket 0: Ok(192.0.2.1)", "0 ticket 1: Ok(192.0.2.1)"]);
    assert_eq!(asked(&mut world), "04", "one question for both");
    // For 2 s it is known, then it is asked for again; nobody asks meanwhile.
    world.run(1999);
    assert_eq!(ask(&mut world, "a.test"), Resolved::Now(Ok(ip("192.0.2.1"))));
    world.run(1);
    assert!(matches!(ask(&mut world, "a.test"), Resolved::Later(_)));
    world.run(60_000);
    assert_eq!(asked(&mut world), "20004");
    // A failure is told after its tries; without a start of authority it is not remembered.
    assert!(matches!(ask(&mut world, "no.test"), Resolved::Later(_)));
    world.told();
    world.run(60_000);
    assert_eq!(world.told(), ["63000 ticket 3: Err(NoSuchName)"]);
    assert!(matches!(ask(&mut world, "no.test"), Resolved::Later(_)));
    // With one, it is for as long as that says.
    let denial = Reply { records: [vec![], vec![Record::authority("test", 5)], vec![]], ..Reply::code(3) };
    say(&zone, "gone.test", Some(denial));
    assert!(matches!(ask(&mut world, "gone.test"), Resolved::Later(_)));
    world.run(1000);
    assert_eq!(ask(&mut world, "gone.test"), Resolved::Now(Err(Status::NoSuchName)));
    world.run(5000);
    assert!(matches!(ask(&mut world, "gone.test"), Resolved::Later(_)));
}

#[test]
fn names_that_clients_choose_have_a_bound() {
    let mut world = World::new(settings(1), Box::new(|_, _, _| None));
    let mut refused = 0;
    for i in 0..LOOKUPS_MAX + 100 {
        let now = world.now_ms;
        if world.resolver.resolve(&name(&format!("n{i}.test")), Families::V4, now)
            == Resolved::Now(Err(Status::Other))
        {
            refused += 1;
        }
    }
    assert_eq!(refused, 100, "all are being asked for");
    // A server still finds room.
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(10_000);
    assert!(world.queries.iter().any(|(_, _, _, question)| question.name == name("a.test")));
    // And who comes later takes the place of an answer that nobody needs.
    let now = world.now_ms;
    assert!(matches!(world.resolver.resolve(&name("late.test"), Families::V4, now), Resolved::Later(_)));
}

#[test]
fn another_name_is_followed_from_where_the_server_is() {
    let zone = zone();
    set(&zone, "a.test", &["192.0.2.1"]);
    set(&zone, "b.test", &["192.0.2.2"]);
    let mut world = world(settings(1), &zone);
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(100);
    let address = world.resolver.followed(key(0)).and_then(|followed| followed.follow.address);
    world.resolver.follow(key(0), Follow { address, ..follow("b.test") }, world.now_ms);
    world.run(3000);
    assert_eq!(world.told()[1..], ["100 0 has 192.0.2.2 by NameServer(0)"]);
    let before = world.queries.iter().filter(|(_, _, _, question)| question.name == name("a.test")).count();
    assert_eq!(before, 1, "nobody follows the first name any more");
    world.resolver.forget(key(0));
    world.queries.clear();
    world.run(10_000);
    assert!(world.queries.is_empty());
    assert_eq!(world.resolver.deadline(), None);
}

#[test]
fn times_of_nothing_do_not_flood() {
    let zone = zone();
    let flat = Settings { resolve_ms: 0, retry_ms: 0, tries: 0, ..settings(1) };
    let mut world = world(flat, &zone);
    world.resolver.follow(key(0), follow("a.test"), world.now_ms);
    world.run(1000);
    assert!(world.queries.len() <= 210, "{}", world.queries.len());
}

/// What the name servers of the next property do with a query, by a number.
fn misbehave(what: u8, zone: &Zone, question: &Question) -> Option<Reply> {
    match what % 10 {
        0 | 1 => None,
        2 => Some(Reply::code(2)),
        3 => Some(Reply::code(3)),
        4 => Some(Reply::code(5)),
        5 => Some(Reply::default()),
        6 => Some(Reply { truncated: true, ..Reply::default() }),
        7 => Some(Reply::of(vec![Record::alias(question.name.as_str(), question.name.as_str())])),
        _ => look(zone, question),
    }
}

proptest! {
    /// Whatever name servers do for a minute, once they are well again every server has an address within ten seconds; and
    /// as long as an answer comes every two seconds nobody loses anything.
    #[test]
    fn no_server_is_stuck_and_none_flaps(
        script in proptest::collection::vec(any::<u8>(), 1..60),
        moves in proptest::collection::vec((any::<u8>(), 0u64..3000), 0..20),
    ) {
        let zone = zone();
        set(&zone, "m.test", &["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
        set(&zone, "x1.test", &["192.0.2.11"]);
        set(&zone, "x2.test", &["192.0.2.12"]);
        set_service(&zone, "_s._tcp.test", &[((0, 1, 81), "x1.test"), ((0, 1, 82), "x2.test")]);
        let (inner, well) = (Rc::clone(&zone), Rc::new(RefCell::new(false)));
        let (is_well, mut at) = (Rc::clone(&well), 0usize);
        let mut world = World::new(settings(2), Box::new(move |_, _, question| {
            at += 1;
            if *is_well.borrow() { look(&inner, question) } else { misbehave(script[at % script.len()], &inner, question) }
        }));
        for server in 0..3 {
            world.resolver.follow(key(server), follow("m.test"), world.now_ms);
        }
        for server in 3..5 {
            world.resolver.follow(key(server), follow("_s._tcp.test"), world.now_ms);
        }
        for (what, ms) in moves {
            world.run(ms);
            let server = key(u32::from(what) % 5);
            let address = world.addresses.get(&server).map(|(address, _)| *address);
            let now = world.now_ms;
            match what / 5 % 4 {
                0 => {
                    let other = if server.server < 3 { "m.test" } else { "_s._tcp.test" };
                    let address = if server.server < 3 { address } else { None };
                    world.addresses.retain(|key, _| *key != server || address.is_some());
                    world.resolver.follow(server, Follow { address, ..follow(other) }, now);
                }
                1 => set(&zone, "m.test", &["192.0.2.2", "192.0.2.4", "192.0.2.5"]),
                2 => { let _ = world.resolver.resolve(&name("m.test"), Families::V6First, now); }
                _ => set_service(&zone, "_s._tcp.test", &[((0, 1, 83), "x1.test"), ((0, 9, 82), "x2.test")]),
            }
        }
        world.run(60_000);
        *well.borrow_mut() = true;
        world.run(10_000);
        prop_assert_eq!(world.addresses.len(), 5, "{:?}", world.has());
        // Those of one name differ, and everybody has what the zone says.
        let mut three: Vec<_> = (0..3).map(|server| world.addresses[&key(server)].0).collect();
        three.sort();
        three.dedup();
        prop_assert_eq!(three.len(), 3);
        for address in three {
            let zone = zone.borrow();
            let Some(Some(reply)) = zone.get(&("m.test", 1)) else { unreachable!() };
            let std::net::IpAddr::V4(v4) = address else { unreachable!() };
            let listed = reply.records[0].iter().any(|record| record.data == v4.octets());
            prop_assert!(listed, "{}", address);

        }
        world.told();
        world.run(30_000);
        prop_assert_eq!(world.told(), Vec::<String>::new());
    }
}

#[test]
fn thousands_of_names_are_asked_for_part_by_part() {
    let mut world = World::new(
        settings(1),
        Box::new(|_, _, question| {
            Some(Reply::of(vec![Record::address(question.name.as_str(), "192.0.2.1")]))
        }),
    );
    for server in 0..3000 {
        world.resolver.follow(key(server), follow(&format!("n{server}.test")), world.now_ms);
    }
    world.resolver.handle_deadline(world.now_ms);
    let burst = std::iter::from_fn(|| world.resolver.poll_transmit()).count();
    assert_eq!(burst, 64);
    // Nobody is forgotten, and nobody asks more often than once in a second.
    world.run(10_000);
    assert_eq!(world.addresses.len(), 3000);
    let asked = world.queries.len();
    assert!((29_000..=33_000).contains(&asked), "{asked}");
}
