//! Answers of protocols that checks speak by themselves: SMTP, Redis, MySQL, PostgreSQL, LDAP. Each is a function from the
//! bytes that arrived so far to what they mean; nothing is kept between calls.

use crate::Status;
use crate::answer::Answer;

/// An answer that a built-in check waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A banner or reply of SMTP whose code begins with 2. The banner may be anything that is a reply.
    Smtp,
    /// `+PONG` of Redis.
    Redis,
    /// The first packet of a MySQL server. Whether more is said after it (a login).
    MysqlGreeting,
    /// The answer to a MySQL login.
    MysqlLogin,
    /// The answer to a PostgreSQL startup message.
    Pgsql,
    /// The answer to an anonymous LDAP bind.
    Ldap,
    /// The greeting of an agent that processes streams, in answer to [`spop_hello`](crate::spop_hello) with this size.
    Spop(u64),
    /// The answer of the health service of gRPC to [`health_call`](crate::health_call), in frames of HTTP/2, which
    /// [`crate::Conversation`] reads.
    Grpc,
    /// A line of an agent ([`crate::agent`]), which its owner reads.
    Agent,
}

impl Dialect {
    pub(crate) fn is_mysql(self) -> bool {
        matches!(self, Dialect::MysqlGreeting | Dialect::MysqlLogin)
    }

    /// Judges what arrived. `last` says that nothing more comes.
    pub(crate) fn judge(self, input: &[u8], last: bool) -> Answer {
        match self {
            Dialect::Smtp => smtp(input, last),
            Dialect::Redis => redis(input, last),
            Dialect::MysqlGreeting => mysql(input, last, true),
            Dialect::MysqlLogin => mysql(input, last, false),
            Dialect::Pgsql => pgsql(input, last),
            Dialect::Ldap => ldap(input, last),
            Dialect::Spop(max_frame_size) => crate::spop::judge(input, last, max_frame_size),
            Dialect::Agent => agent(input, last),
            Dialect::Grpc => Answer::Wait,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn first_line(input: &[u8]) -> &[u8] {
    let end = input.iter().position(|b| matches!(b, b'\r' | b'\n')).unwrap_or(input.len());
    &input[..end]
}

/// RFC 5321 section 4.2: lines of three digits and a hyphen, the last one with a space.
fn smtp(input: &[u8], last: bool) -> Answer {
    let bad = |status, code, info| Answer::Bad { status, code, info };
    let mut rest = input;
    loop {
        let Some(end) = rest.iter().position(|b| *b == b'\n') else {
            // Three digits must come first; a server that says something else will not correct itself.
            let wrong = rest.iter().take(3).any(|b| !b.is_ascii_digit());
            return if wrong || last {
                bad(Status::L7Response, None, text(first_line(rest)))
            } else {
                Answer::Wait
            };
        };
        let line = first_line(&rest[..end]);
        let code = line.get(..3).filter(|c| c.iter().all(u8::is_ascii_digit));
        let Some(code) = code else { return bad(Status::L7Response, None, text(line)) };
        let number = code.iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0'));
        rest = &rest[end + 1..];
        let info = text(line.get(4..).unwrap_or_default());
        match line.get(3) {
            Some(b'-') => {}
            None | Some(b' ') if code[0] == b'2' => {
                return Answer::Good { len: input.len() - rest.len(), code: number, info };
            }
            None | Some(b' ') => return bad(Status::L7Status, Some(number), info),
            Some(_) => return bad(Status::L7Response, None, text(line)),
        }
    }
}

fn redis(input: &[u8], last: bool) -> Answer {
    const PONG: &[u8] = b"+PONG\r\n";
    if input.starts_with(PONG) {
        return Answer::Good { len: PONG.len(), code: 0, info: "Redis server is ok".into() };
    }
    // An error line may be cut: what it says is wanted whole.
    let complete = input.contains(&b'\n') && !PONG.starts_with(input);
    if last || complete {
        return Answer::Bad { status: Status::L7Status, code: Some(0), info: text(first_line(input)) };
    }
    Answer::Wait
}

/// A MySQL packet: three bytes of length, a sequence number, then a protocol version or 0xff and an error.
fn mysql(input: &[u8], last: bool, greeting: bool) -> Answer {
    let bad = |status, code, info: &str| Answer::Bad { status, code, info: info.into() };
    let [a, b, c, _, kind, ..] = *input else {
        return if last { bad(Status::L7Response, None, "") } else { Answer::Wait };
    };
    let len = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
    let Some(packet) = input.get(4..4 + len).filter(|p| !p.is_empty()) else {
        // A greeting is rarely over a few hundred bytes: one that claims to be larger is no greeting.
        return if last || len == 0 { bad(Status::L7Response, None, "") } else { Answer::Wait };
    };
    if kind == 0xff {
        let code = packet.get(1..3).map_or(0, |c| i64::from(c[0]) | i64::from(c[1]) << 8);
        let message = packet.get(3..).unwrap_or_default();
        return bad(Status::L7Status, Some(code), &text(message));
    }
    if !greeting {
        return Answer::Good { len: 4 + len, code: 0, info: "MySQL server is ok".into() };
    }
    let version = packet[1..].split(|b| *b == 0).next().unwrap_or_default();
    Answer::Good { len: 4 + len, code: 0, info: text(version) }
}

/// A line of an agent stays in the input: what it means is not for the check alone.
fn agent(input: &[u8], last: bool) -> Answer {
    let bad = |status, info: &str| Answer::Bad { status, code: None, info: info.into() };
    if input.iter().any(|b| matches!(b, b'\r' | b'\n')) {
        return Answer::Good { len: 0, code: 0, info: String::new() };
    }
    match (last, input) {
        (false, _) => Answer::Wait,
        (true, []) => bad(Status::L7Response, "TCPCHK got an empty response at step 2"),
        // Nobody knows what the rest would have said.
        (true, _) => bad(Status::L7Timeout, "Ignoring incomplete line from agent"),
    }
}

/// The shortest answer of PostgreSQL that asks for nothing: its letter, its length and a number.
const PGSQL_ANSWER_LEN: usize = 9;

fn pgsql(input: &[u8], last: bool) -> Answer {
    let bad = |status, code, info: String| Answer::Bad { status, code, info };
    match input {
        [b'R', ..] if input.len() >= PGSQL_ANSWER_LEN => {
            Answer::Good { len: input.len(), code: 0, info: "PostgreSQL server is ok".into() }
        }
        // An error is a list of fields, each a letter and a text; what follows the first letter is shown.
        [b'E', ..] if input.len() > 6 && (last || input.last() == Some(&0)) => {
            let message: Vec<u8> = input[6..].iter().map(|b| if *b == 0 { b' ' } else { *b }).collect();
            bad(Status::L7Response, None, text(message.trim_ascii()))
        }
        [] | [b'R' | b'E', ..] if !last => Answer::Wait,
        // Nothing that follows makes an answer of it.
        _ if last || input.len() >= PGSQL_ANSWER_LEN => {
            bad(Status::L7Status, Some(0), "PostgreSQL unknown error".into())
        }
        _ => Answer::Wait,
    }
}

/// A bind response of LDAP (RFC 4511 section 4.2.2): a sequence of the number 1, since that was the request's, and of a
/// result that begins with its code.
fn ldap(input: &[u8], last: bool) -> Answer {
    let bad = |status, code, info: &str| Answer::Bad { status, code, info: info.into() };
    let foreign = || bad(Status::L7Response, None, "Not LDAPv3 protocol");
    let cut = || if last { bad(Status::L7Response, None, "") } else { Answer::Wait };
    let message = match ber(input, 0x30) {
        Ber::Value(message) => message,
        Ber::Short if input.is_empty() && last => return foreign(),
        Ber::Short => return cut(),
        Ber::Other => return foreign(),
    };
    let Some(operation) = message.strip_prefix(&[0x02, 0x01, 0x01]) else { return foreign() };
    // All of the message is there: what its parts lack, nothing will bring.
    let Ber::Value(result) = ber(operation, 0x61) else { return foreign() };
    match result {
        [0x0a, 0x01, 0, ..] => Answer::Good { len: input.len(), code: 0, info: "Success".into() },
        [0x0a, 0x01, code, ..] => bad(
            Status::L7Status,
            Some(i64::from(*code)),
            "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9",
        ),
        _ => foreign(),
    }
}

/// What was found where a value of the Basic Encoding Rules should be.
enum Ber<'b> {
    /// Its content.
    Value(&'b [u8]),
    /// The beginning of one.
    Short,
    /// Something else, or one of more than four gigabytes.
    Other,
}

/// Reads a value with this tag (X.690 section 8.1: the length is one byte, or a count of the bytes that hold it).
fn ber(input: &[u8], tag: u8) -> Ber<'_> {
    let (first, rest) = match input {
        [] => return Ber::Short,
        [found, ..] if *found != tag => return Ber::Other,
        [_] => return Ber::Short,
        [_, first, rest @ ..] => (*first, rest),
    };
    let count = match first {
        0..=0x7f => 0,
        0x81..=0x84 => usize::from(first & 0x7f),
        _ => return Ber::Other,
    };
    let Some((length, content)) = rest.split_at_checked(count) else { return Ber::Short };
    let length = match count {
        0 => usize::from(first),
        _ => length.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)),
    };
    content.get(..length).map_or(Ber::Short, Ber::Value)
}

/// An anonymous bind of LDAP version 3 (RFC 4511 section 4.2), the first message of a session.
pub const LDAP_BIND: &[u8] = &[
    0x30, 12, // a message of 12 bytes:
    0x02, 1, 1, // its number, 1;
    0x60, 7, // a bind request of 7 bytes:
    0x02, 1, 3, // the version, 3;
    0x04, 0, // no name,
    0x80, 0, // and simple authentication without a password.
];

/// The ClientHello of SSL 3.0 (RFC 6101 section 5.6.1.2), which every version of TLS answers, if only with an alert.
pub fn tls_hello() -> Vec<u8> {
    // The suites of SSL 3.0 and the AES ones of RFC 3268.
    let suites: Vec<u8> = (0x01..=0x1bu8).chain(0x2f..=0x3a).flat_map(|suite| [0, suite]).collect();
    let mut body = vec![3, 0];
    // No secret ever comes of the random bytes: they say who asks.
    body.extend_from_slice(b"health check, not a handshake...");
    // No session to resume; the suites; no compression.
    body.push(0);
    body.extend_from_slice(&(suites.len() as u16).to_be_bytes());
    body.extend_from_slice(&suites);
    body.extend_from_slice(&[1, 0]);
    let length = (body.len() as u16).to_be_bytes();
    let record = (body.len() as u16 + 4).to_be_bytes();
    let mut out = vec![0x16, 3, 0, record[0], record[1], 1, 0, length[0], length[1]];
    out.append(&mut body);
    out
}

/// The startup message of PostgreSQL's protocol 3.0 for a user.
pub fn pgsql_startup(user: &[u8]) -> Vec<u8> {
    let len = u32::try_from(4 + 4 + 5 + user.len() + 2).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(len as usize);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&0x0003_0000u32.to_be_bytes());
    out.extend_from_slice(b"user\0");
    out.extend_from_slice(user);
    out.extend_from_slice(b"\0\0");
    out
}

/// A MySQL login without a password, and the command that ends the session. `version` is `pre-41`, `post-41` or
/// `post-80`.
pub fn mysql_login(user: &[u8], version: &str) -> Vec<u8> {
    const PROTOCOL_41: u16 = 1 << 9;
    const CONNECT_WITH_PLUGIN: u32 = 1 << 19;
    let mut body = Vec::new();
    if version == "pre-41" {
        // Capabilities (long password is off, one bit for the protocol) and the largest packet, three bytes.
        body.extend_from_slice(&[0x00, 0x80, 0x00, 0x00, 0x01]);
        body.extend_from_slice(user);
        body.extend_from_slice(&[0, 0]);
    } else {
        // Capabilities: protocol 4.1 and secure connection, and naming the plugin since 8.0.
        let mut capabilities = 0x0000_8000 | u32::from(PROTOCOL_41);
        if version == "post-80" {
            capabilities |= CONNECT_WITH_PLUGIN;
        }
        // The bytes the reference sends: 00 82 00 00, or 00 82 08 00 with the plugin.
        body.extend_from_slice(&capabilities.to_le_bytes());
        body.extend_from_slice(&[0x00, 0x80, 0x00, 0x01]);
        body.push(0x21);
        body.extend_from_slice(&[0; 23]);
        body.extend_from_slice(user);
        body.extend_from_slice(&[0, 0]);
        if version == "post-80" {
            body.extend_from_slice(b"mysql_native_password\0");
        }
    }
    let mut out = Vec::new();
    let len = u32::try_from(body.len()).unwrap_or(0).to_le_bytes();
    out.extend_from_slice(&[len[0], len[1], len[2], 1]);
    out.extend_from_slice(&body);
    // COM_QUIT.
    out.extend_from_slice(&[1, 0, 0, 0, 1]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(answer: &Answer) -> String {
        match answer {
            Answer::Wait => "wait".into(),
            Answer::Good { len, code, info } => format!("good {len} {code} {info}"),
            Answer::Bad { status, code, info } => format!("{} {code:?} {info}", status.word()),
        }
    }

    #[test]
    fn answers_are_judged() {
        use Dialect::*;
        let cases: &[(Dialect, &[u8], bool, &str)] = &[
            (Smtp, b"", false, "wait"),
            (Smtp, b"", true, "L7RSP None "),
            (Smtp, b"22", false, "wait"),
            (Smtp, b"220 ready\r\n", false, "good 11 220 ready"),
            (Smtp, b"250-a\r\n", false, "wait"),
            (Smtp, b"250-a\r\n250 ok\r\nx", false, "good 15 250 ok"),
            (Smtp, b"550 no\r\n", false, "L7STS Some(550) no"),
            (Smtp, b"+OK POP3 ready\r\n", false, "L7RSP None +OK POP3 ready"),
            (Redis, b"+PO", false, "wait"),
            (Redis, b"+PONG\r\n", false, "good 7 0 Redis server is ok"),
            (Redis, b"-ERR x\r\n", false, "L7STS Some(0) -ERR x"),
            (Redis, b"-ERR x", true, "L7STS Some(0) -ERR x"),
            (MysqlGreeting, b"\x04\0\0\0\x0a5.\0", false, "good 8 0 5."),
            (MysqlGreeting, b"\x04\0\0\0\x0a5.", false, "wait"),
            (
                MysqlGreeting,
                b"\x17\0\0\0\xff\x10\x04Too many connections",
                false,
                "L7STS Some(1040) Too many connections",
            ),
            (MysqlGreeting, b"ab", true, "L7RSP None "),
            (MysqlLogin, b"\x03\0\0\x02\0\0\0", false, "good 7 0 MySQL server is ok"),
            (Pgsql, b"R\0\0\0\x08\0\0\0\0", false, "good 9 0 PostgreSQL server is ok"),
            (Pgsql, b"R\0", false, "wait"),
            (Pgsql, b"E\0\0\0\x08abc\0", false, "L7RSP None bc"),
            (Pgsql, b"junk", false, "wait"),
            (Pgsql, b"junk", true, "L7STS Some(0) PostgreSQL unknown error"),
            (Pgsql, b"junk", false, "wait"),
            (Pgsql, b"HTTP/1.1 ", false, "L7STS Some(0) PostgreSQL unknown error"),
            (Agent, b"", false, "wait"),
            (Agent, b"", true, "L7RSP None TCPCHK got an empty response at step 2"),
            (Agent, b"up", false, "wait"),
            (Agent, b"up", true, "L7TOUT None Ignoring incomplete line from agent"),
            (Agent, b"up\n", false, "good 0 0 "),
            (Agent, b"up\r", false, "good 0 0 "),
            (Ldap, b"", false, "wait"),
            (Ldap, b"", true, "L7RSP None Not LDAPv3 protocol"),
            (Ldap, b"\x30", false, "wait"),
            (Ldap, b"\x30", true, "L7RSP None "),
            (Ldap, b"hello", false, "L7RSP None Not LDAPv3 protocol"),
            (Ldap, b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0", false, "good 14 0 Success"),
            (Ldap, b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04", false, "wait"),
            (Ldap, b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04", true, "L7RSP None "),
            (
                Ldap,
                b"\x30\x84\0\0\0\x10\x02\x01\x01\x61\x84\0\0\0\x07\x0a\x01\0\x04\0\x04\0",
                false,
                "good 22 0 Success",
            ),
            // Not the shortest form, and allowed (X.690 section 8.1.3.5).
            (Ldap, b"\x30\x81\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0", false, "good 15 0 Success"),
            (
                Ldap,
                b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\x04\0\x04\0",
                false,
                "L7STS Some(49) See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9",
            ),
            (
                Ldap,
                b"\x30\x0c\x02\x01\x02\x61\x07\x0a\x01\0\x04\0\x04\0",
                false,
                "L7RSP None Not LDAPv3 protocol",
            ),
            (
                Ldap,
                b"\x30\x0c\x02\x01\x01\x62\x07\x0a\x01\0\x04\0\x04\0",
                false,
                "L7RSP None Not LDAPv3 protocol",
            ),
            (Ldap, b"\x30\x05\x02\x01\x01\x61\x07\x0a", false, "L7RSP None Not LDAPv3 protocol"),
            (Ldap, b"\x30\x85\x01\x01\x01\x01\x01", false, "L7RSP None Not LDAPv3 protocol"),
        ];
        for (dialect, input, last, expected) in cases {
            assert_eq!(show(&dialect.judge(input, *last)), *expected, "{dialect:?} {input:?} {last}");
        }
    }

    #[test]
    fn what_is_sent() {
        assert_eq!(LDAP_BIND, b"0\x0c\x02\x01\x01`\x07\x02\x01\x03\x04\0\x80\0");
        let hello = tls_hello();
        assert_eq!(hello.len(), 126);
        // Record, message and suites say how long they are.
        assert_eq!((&hello[..9], &hello[43..46]), (&b"\x16\x03\0\0\x79\x01\0\0\x75"[..], &b"\0\0\x4e"[..]));
        assert_eq!(pgsql_startup(b"u"), b"\0\0\0\x10\0\x03\0\0user\0u\0\0");
        assert_eq!(mysql_login(b"foo", "pre-41"), b"\x0a\0\0\x01\0\x80\0\0\x01foo\0\0\x01\0\0\0\x01");
        assert_eq!(&mysql_login(b"foo", "post-41")[..13], b"%\0\0\x01\0\x82\0\0\0\x80\0\x01!");
        assert_eq!(&mysql_login(b"foo", "post-80")[..13], b";\0\0\x01\0\x82\x08\0\0\x80\0\x01!");
        assert_eq!(mysql_login(b"foo", "post-41").len(), 4 + 0x25 + 5);
        assert_eq!(mysql_login(b"foo", "post-80").len(), 4 + 0x3b + 5);
    }

    proptest! {
        #[test]
        fn no_answer_panics_and_the_last_word_is_final(input in proptest::collection::vec(any::<u8>(), 0..80)) {
            for dialect in [Dialect::Smtp, Dialect::Redis, Dialect::MysqlGreeting, Dialect::MysqlLogin, Dialect::Pgsql, Dialect::Ldap] {
                let _ = dialect.judge(&input, false);
                prop_assert_ne!(dialect.judge(&input, true), Answer::Wait);
            }
        }
    }
}
