//! Messages of name servers, honest and not, written without the library that reads them. Shared with the black-box tests.

#![allow(dead_code)]

use std::net::IpAddr;

use thalweg_dns::Name;
use thalweg_dns::message::{Kind, Question};

/// A name.
pub fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Writes a name without compression.
pub fn write_name(out: &mut Vec<u8>, text: &str) {
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(u8::try_from(label.len()).expect("a short label"));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}

/// A record of a message being written.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its owner.
    pub owner: String,
    /// Its type.
    pub kind: u16,
    /// Its data, as it goes over the wire.
    pub data: Vec<u8>,
}

impl Record {
    /// A or AAAA.
    pub fn address(owner: &str, address: &str) -> Record {
        let (kind, data) = match ip(address) {
            IpAddr::V4(ip) => (1, ip.octets().to_vec()),
            IpAddr::V6(ip) => (28, ip.octets().to_vec()),
        };
        Record { owner: owner.into(), kind, data }
    }

    /// CNAME.
    pub fn alias(owner: &str, target: &str) -> Record {
        let mut data = Vec::new();
        write_name(&mut data, target);
        Record { owner: owner.into(), kind: 5, data }
    }

    /// SRV.
    pub fn service(owner: &str, (priority, weight, port): (u16, u16, u16), target: &str) -> Record {
        let mut data = Vec::new();
        for number in [priority, weight, port] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        write_name(&mut data, target);
        Record { owner: owner.into(), kind: 33, data }
    }

    /// SOA, whose minimum is the last of its numbers.
    pub fn authority(owner: &str, minimum: u32) -> Record {
        let mut data = Vec::new();
        write_name(&mut data, "ns.test");
        write_name(&mut data, "mail.test");
        for number in [1, 2, 3, 4, minimum] {
            data.extend_from_slice(&u32::to_be_bytes(number));
        }
        Record { owner: owner.into(), kind: 6, data }
    }
}

/// What a name server says.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// RCODE.
    pub code: u8,
    /// TC.
    pub truncated: bool,
    /// By section: answer, authority, additional.
    pub records: [Vec<Record>; 3],
}

impl Reply {
    /// A success with these answers.
    pub fn of(answers: Vec<Record>) -> Reply {
        Reply { records: [answers, Vec::new(), Vec::new()], ..Reply::default() }
    }

    /// A failure.
    pub fn code(code: u8) -> Reply {
        Reply { code, ..Reply::default() }
    }

    /// As it goes over the wire, in answer to a question.
    pub fn write(&self, id: u16, question: &Question) -> Vec<u8> {
        let number = match question.kind {
            Kind::V4 => 1,
            Kind::V6 => 28,
            Kind::Service => 33,
        };
        self.write_for(id, question.name.as_str(), number)
    }

    /// The same for any name and type.
    pub fn write_for(&self, id: u16, name: &str, kind: u16) -> Vec<u8> {
        let mut out = id.to_be_bytes().to_vec();
        let flags = 0x8180 | u16::from(self.code) | u16::from(self.truncated) << 9;
        out.extend_from_slice(&flags.to_be_bytes());
        let counts = self.records.iter().map(|section| u16::try_from(section.len()).expect("few records"));
        for count in std::iter::once(1).chain(counts) {
            out.extend_from_slice(&count.to_be_bytes());
        }
        write_name(&mut out, name);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&1u16.to_be_bytes());
        for record in self.records.iter().flatten() {
            write_name(&mut out, &record.owner);
            out.extend_from_slice(&record.kind.to_be_bytes());
            out.extend_from_slice(&1u16.to_be_bytes());
            out.extend_from_slice(&60u32.to_be_bytes());
            let length = u16::try_from(record.data.len()).expect("short data");
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(&record.data);
        }
        out
    }
}

/// The question of a query that was sent, and its number.
pub fn asked(query: &[u8]) -> (u16, Question) {
    let id = u16::from_be_bytes([query[0], query[1]]);
    let (mut at, mut text) = (12, String::new());
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        text.push_str(std::str::from_utf8(&query[at + 1..end]).expect("text"));
        text.push('.');
        at = end;
    }
    let kind = match u16::from_be_bytes([query[at + 1], query[at + 2]]) {
        1 => Kind::V4,
        28 => Kind::V6,
        _ => Kind::Service,
    };
    (id, Question { name: name(&text), kind })
}
