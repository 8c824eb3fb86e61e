//! What must be true whatever a peer sends or a file holds; shared by the property tests and the fuzz targets.

#![allow(dead_code, reason = "each test uses some of it")]

use std::sync::Arc;

use thalweg_stick::data::{DataType, Shape};
use thalweg_stick::kept::{Head, Now, Reader};
use thalweg_stick::peers::{PeerSpec, Section, SectionSpec, TableSpec, read_hello, read_status, wire};
use thalweg_stick::{KeyType, Spec, Stored, Table};

fn table(name: &str, key: KeyType) -> Arc<Table> {
    let stored = |kind: DataType| Stored {
        kind,
        count: if kind.is_array() { 3 } else { 1 },
        period_ms: if kind.shape() == Shape::Rate { 1000 } else { 0 },
    };
    Arc::new(Table::new(
        Spec {
            expire_ms: 1000,
            peers: Some(Arc::from("p")),
            data: DataType::all().filter(|kind| kind.array().is_none()).map(stored).collect(),
            ..Spec::new(name, key, 64)
        },
        1,
    ))
}

/// A peer connects and sends `data`, which arrives in pieces; in between it is answered.
pub fn peer_says(data: &[u8]) {
    let _ = (read_hello(data), read_status(data));
    let tables = [table("p/t", KeyType::String(20)), table("u", KeyType::Ip4)];
    let peer = |name: &str| PeerSpec { name: Arc::from(name), address: String::new(), shard: 0 };
    let mut section = Section::new(
        SectionSpec {
            name: Arc::from("p"),
            peers: vec![peer("A"), peer("B")],
            local: 0,
            tables: [(0, "/t"), (1, "u")]
                .map(|(at, name)| TableSpec {
                    table: Arc::clone(&tables[at]),
                    name: Arc::from(name),
                    write_to: None,
                })
                .into(),
            shards: 0,
            updates_max: 10,
        },
        0,
    );
    let link = section.opened(1, 0);
    let (mut at, mut out) = (0, Vec::new());
    let step = usize::from(data.first().copied().unwrap_or(0)) + 1;
    for (now_ms, end) in (0..data.len()).step_by(step).chain([data.len()]).enumerate() {
        match section.receive(link, &data[at..end], now_ms as u64) {
            Ok(taken) => at += taken,
            Err(_) => break,
        }
        // What is kept of a message that is not complete is bounded by the longest one.
        assert!(end - at <= wire::MESSAGE_MAX + step);
        if section.send(link, &mut out, now_ms as u64).is_err() {
            break;
        }
        assert!(out.len() < 4 * wire::MESSAGE_MAX);
        out.clear();
        section.collect();
    }
    tables.iter().for_each(|table| {
        assert!(table.used() <= table.spec().size);
        table.check_invariants();
    });
    let mut text = String::new();
    section.show(&mut text, 0, "", true, 5);
}

/// A table with all kinds of data.
pub fn kept_table() -> Arc<Table> {
    table("t", KeyType::String(20))
}

/// A file of the state directory has a block with this body, under a check that fits.
pub fn kept_says(body: &[u8]) {
    let tables = [kept_table(), table("u", KeyType::Ip4)];
    let mut reader = Reader::default();
    let now = Now { mono_us: 5_000_000, wall_ms: 2000 };
    // What a file says twice is the same.
    for _ in 0..2 {
        let _ = reader.take(Head::of(body, 1000), body, &tables, now);
    }
    tables.iter().for_each(|table| {
        assert!(table.used() <= table.spec().size);
        table.check_invariants();
    });
}
