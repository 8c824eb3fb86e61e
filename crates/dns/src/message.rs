//! Queries and answers on the wire.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::base::iana::{Class, Opcode, Rcode, Rtype};
use domain::base::name::ToName;
use domain::base::{Message, MessageBuilder, ParsedName, ParsedRecord};
use domain::rdata::{A, Aaaa, Cname, Soa, Srv};

use crate::name::Name;

/// What is asked about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Its IPv4 addresses (A).
    V4,
    /// Its IPv6 addresses (AAAA).
    V6,
    /// Who serves it (SRV).
    Service,
}

impl Kind {
    fn number(self) -> Rtype {
        match self {
            Kind::V4 => Rtype::A,
            Kind::V6 => Rtype::AAAA,
            Kind::Service => Rtype::SRV,
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    /// About which name.
    pub name: Name,
    /// What about it.
    pub kind: Kind,
}

/// Who serves a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Lower ones are to be used first.
    pub priority: u16,
    /// Share among those of one priority.
    pub weight: u16,
    /// Its port.
    pub port: u16,
    /// Its host.
    pub target: Name,
    /// Addresses of that host that came with the answer.
    pub addresses: Vec<IpAddr>,
}

/// What was asked for, at least one of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Addresses, each once, in the order of the answer.
    Addresses(Vec<IpAddr>),
    /// Services, each host and port once, in the order of the answer.
    Services(Vec<Service>),
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub found: Found,
    /// The name was another one's alias (CNAME).
    pub aliased: bool,
}

/// Why an answer gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Shorter than a header, not an answer, of another operation, or cut in the middle of a record; or a name in it
    /// cannot be followed.
    Malformed,
    /// It answers another question.
    WrongQuestion,
    /// More than was said to be accepted, in bytes or records.
    TooBig,
    /// It did not fit, and is to be asked for over a stream.
    Truncated,
    /// The name does not exist (NXDOMAIN). Seconds this holds (RFC 2308, section 5), when the zone says.
    NoSuchName(Option<u32>),
    /// The name server does not want to answer (REFUSED).
    Refused,
    /// Another code than success.
    Failed(u8),
    /// The name exists and has none of what was asked for. Seconds this holds, when the zone says.
    Nothing(Option<u32>),
    /// Aliases that lead nowhere, in a circle, or on for too long.
    BrokenAlias,
}

/// Bytes of a header.
const HEADER: usize = 12;

/// Records of one message that are looked at. An answer of 64 kB could hold 4,000 addresses; nobody has as many servers
/// behind one name.
pub const RECORDS_MAX: usize = 2048;

/// Aliases that are followed.
const ALIASES_MAX: usize = 16;

/// The longest message that UDP carries, which is the most to announce.
pub const PAYLOAD_MAX: u16 = u16::MAX;

/// Writes a query, with an announcement of the longest answer that is accepted over UDP (RFC 6891). One that announces no more
/// than everybody accepts, 512 bytes, still has it: some servers tell by it what else they may say.
pub fn query(id: u16, question: &Question, payload_max: u16) -> Vec<u8> {
    let written = || -> Option<Vec<u8>> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(true);
        let mut builder = builder.question();
        let name = domain::base::Name::<Vec<u8>>::vec_from_str(question.name.as_str()).ok()?;
        builder.push((&name, question.kind.number())).ok()?;
        let mut builder = builder.additional();
        builder
            .opt(|opt| {
                opt.set_udp_payload_size(payload_max);
                Ok(())
            })
            .ok()?;
        Some(builder.finish())
    };
    // A vector always has room, and a `Name` is a name.
    written().unwrap_or_default()
}

/// Puts a message into the form that streams carry: behind its length (RFC 1035, section 4.2.2).
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let mut out = Vec::with_capacity(2 + message.len());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&message[..usize::from(length)]);
    out
}

/// The first message of a stream, and how many bytes it takes; `None` while it is not complete.
pub fn unframed(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let length = usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    Some((bytes.get(2..2 + length)?, 2 + length))
}

/// The number that tells which query a message answers; `None` when it is too short for a header.
pub fn id(bytes: &[u8]) -> Option<u16> {
    (bytes.len() >= HEADER).then(|| u16::from_be_bytes([bytes[0], bytes[1]]))
}

type Wire<'m> = &'m Message<[u8]>;
type WireName<'m> = ParsedName<&'m [u8]>;

/// Reads the answer to a question. Its number was looked at by the caller.
///
/// # Errors
/// Why it is none.
pub fn read(bytes: &[u8], question: &Question, payload_max: u16) -> Result<Answer, Refusal> {
    if bytes.len() > usize::from(payload_max) {
        return Err(Refusal::TooBig);
    }
    let message = Message::from_slice(bytes).map_err(|_| Refusal::Malformed)?;
    let header = message.header();
    if !header.qr() || header.opcode() != Opcode::QUERY {
        return Err(Refusal::Malformed);
    }
    answers(message, question)?;
    if header.tc() {
        return Err(Refusal::Truncated);
    }
    let counts = message.header_counts();
    let records =
        usize::from(counts.ancount()) + usize::from(counts.nscount()) + usize::from(counts.arcount());
    if records > RECORDS_MAX {
        return Err(Refusal::TooBig);
    }
    match header.rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Err(Refusal::NoSuchName(negative_ttl(message))),
        Rcode::REFUSED => return Err(Refusal::Refused),
        other => return Err(Refusal::Failed(other.to_int())),
    }
    let answer = section(message.answer())?;
    match question.kind {
        Kind::V4 | Kind::V6 => addresses(message, question, &answer),
        Kind::Service => services(message, question, &answer),
    }
}

/// Whether a message repeats the question. Some servers leave it out of an error.
fn answers(message: Wire<'_>, question: &Question) -> Result<(), Refusal> {
    let mut questions = message.question();
    let Some(asked) = questions.next() else {
        return if message.header().rcode() == Rcode::NOERROR { Err(Refusal::WrongQuestion) } else { Ok(()) };
    };
    let asked = asked.map_err(|_| Refusal::Malformed)?;
    let same = asked.qtype() == question.kind.number()
        && asked.qclass() == Class::IN
        && is(asked.qname(), &question.name)
        && message.header_counts().qdcount() == 1;
    if same { Ok(()) } else { Err(Refusal::WrongQuestion) }
}

/// Whether a name of a message is that one. Letters may differ in case (RFC 4343).
fn is(name: &impl ToName, wanted: &Name) -> bool {
    text(name).is_some_and(|name| name == *wanted)
}

/// A name of a message as text; `None` for what no host is called.
fn text(name: &impl ToName) -> Option<Name> {
    let mut out = String::new();
    for label in name.iter_labels().filter(|label| !label.is_root()) {
        let label = std::str::from_utf8(label.as_slice()).ok()?;
        // A dot inside of a label would make two of it.
        if label.contains('.') {
            return None;
        }
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(label);
    }
    Name::new(&out).ok()
}

/// The records of a section that are of the internet. One that lies about its length makes the message none.
fn section<'m>(
    section: Result<domain::base::message::RecordSection<'m, [u8]>, domain::base::wire::ParseError>,
) -> Result<Vec<ParsedRecord<'m, [u8]>>, Refusal> {
    let mut records = Vec::new();
    for record in section.map_err(|_| Refusal::Malformed)? {
        let record = record.map_err(|_| Refusal::Malformed)?;
        if record.class() == Class::IN {
            records.push(record);
        }
    }
    Ok(records)
}

/// The data of a record of that type, which must be what it says.
fn data<'m, D>(record: &ParsedRecord<'m, [u8]>) -> Result<Option<D>, Refusal>
where
    D: domain::base::rdata::ParseRecordData<'m, [u8]>,
{
    let record = record.to_record::<D>().map_err(|_| Refusal::Malformed)?;
    Ok(record.map(domain::base::Record::into_data))
}

fn address(record: &ParsedRecord<'_, [u8]>) -> Result<Option<IpAddr>, Refusal> {
    Ok(match record.rtype() {
        Rtype::A => data::<A>(record)?.map(|a| IpAddr::V4(Ipv4Addr::from(a.addr().octets()))),
        Rtype::AAAA => data::<Aaaa>(record)?.map(|a| IpAddr::V6(Ipv6Addr::from(a.addr().octets()))),
        _ => None,
    })
}

/// The names that a question is about: the one that was asked for, and where its aliases lead. The answer may list them in
/// any order.
fn aliases(question: &Question, answer: &[ParsedRecord<'_, [u8]>]) -> Result<Vec<Name>, Refusal> {
    let mut leads: HashMap<Name, Name> = HashMap::new();
    for record in answer.iter().filter(|record| record.rtype() == Rtype::CNAME) {
        let alias = data::<Cname<WireName<'_>>>(record)?;
        if let (Some(from), Some(Some(to))) = (text(&record.owner()), alias.map(|a| text(a.cname()))) {
            leads.insert(from, to);
        }
    }
    let mut names = vec![question.name.clone()];
    while let Some(next) = names.last().and_then(|last| leads.get(last)) {
        if names.contains(next) || names.len() > ALIASES_MAX {
            return Err(Refusal::BrokenAlias);
        }
        names.push(next.clone());
    }
    Ok(names)
}

/// Where aliases end without what was asked for: the name server followed them as far as it could.
fn nothing(message: Wire<'_>, aliased: bool) -> Refusal {
    if aliased { Refusal::BrokenAlias } else { Refusal::Nothing(negative_ttl(message)) }
}

fn addresses(
    message: Wire<'_>,
    question: &Question,
    answer: &[ParsedRecord<'_, [u8]>],
) -> Result<Answer, Refusal> {
    let names = aliases(question, answer)?;
    let aliased = names.len() > 1;
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for record in answer.iter().filter(|record| record.rtype() == question.kind.number()) {
        let Some(address) = address(record)? else { continue };
        let about_it = text(&record.owner()).is_some_and(|owner| names.contains(&owner));
        if about_it && seen.insert(address) {
            found.push(address);
        }
    }
    if found.is_empty() {
        return Err(nothing(message, aliased));
    }
    Ok(Answer { found: Found::Addresses(found), aliased })
}

fn services(
    message: Wire<'_>,
    question: &Question,
    answer: &[ParsedRecord<'_, [u8]>],
) -> Result<Answer, Refusal> {
    let names = aliases(question, answer)?;
    let aliased = names.len() > 1;
    let mut found: Vec<Service> = Vec::new();
    let mut seen = HashSet::new();
    let mut says_none = false;
    for record in answer.iter().filter(|record| record.rtype() == Rtype::SRV) {
        let Some(srv) = data::<Srv<WireName<'_>>>(record)? else { continue };
        if !text(&record.owner()).is_some_and(|owner| names.contains(&owner)) {
            continue;
        }
        // "." says that the service is decidedly not there (RFC 2782).
        says_none |= srv.target().is_root();
        let Some(target) = text(srv.target()) else { continue };
        if seen.insert((target.clone(), srv.port())) {
            let (priority, weight, port) = (srv.priority(), srv.weight(), srv.port());
            found.push(Service { priority, weight, port, target, addresses: Vec::new() });
        }
    }
    if found.is_empty() {
        return Err(if says_none { Refusal::Nothing(None) } else { nothing(message, aliased) });
    }
    let mut known: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    // What comes besides is a kindness: an answer whose additional records cannot be read is refused all the same, because
    // nothing else of it can be believed then.
    for record in &section(message.additional())? {
        if let (Some(address), Some(owner)) = (address(record)?, text(&record.owner())) {
            let addresses = known.entry(owner).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    for service in &mut found {
        if let Some(addresses) = known.get(&service.target) {
            service.addresses.clone_from(addresses);
        }
    }
    Ok(Answer { found: Found::Services(found), aliased })
}

/// How long a denial holds, in seconds (RFC 2308, section 5): the lesser of the start of authority's own time to live and the
/// minimum it names. Without one it must not be kept.
fn negative_ttl(message: Wire<'_>) -> Option<u32> {
    let authority = section(message.authority()).ok()?;
    let record = authority.iter().find(|record| record.rtype() == Rtype::SOA)?;
    let soa = data::<Soa<WireName<'_>>>(record).ok()??;
    Some(record.ttl().as_secs().min(soa.minimum().as_secs()))
}
