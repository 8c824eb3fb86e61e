//! The steps of checks that speak a protocol by themselves.

use std::sync::Arc;

use thalweg_check::{
    Connect, Dialect, Expect, LDAP_BIND, Matcher, Status, Step, StepKind, Text, health_call, mysql_login,
    pgsql_startup, spop_hello, tls_hello,
};
use thalweg_sample::pattern::Regex;
use thalweg_syntax::{Line, Word};

use super::CheckDraft;

/// Adds the steps of the protocol that a draft chose. Frames of SPOP are as large as a buffer but for their length.
pub(super) fn dialect(draft: &CheckDraft, steps: &mut Vec<Step>, bufsize: usize) {
    let Some(line) = &draft.option else { return };
    let mut push = |kind| steps.push(Step::implicit(kind));
    let send = |bytes: Vec<u8>| StepKind::Send(Text::Fixed(bytes.into()));
    match line.text(1) {
        "smtpchk" => {
            // The reference takes any other word for HELO, and needs both or none.
            let (hello, domain) = match (line.text(2), line.text(3)) {
                (hello @ ("HELO" | "EHLO"), domain) if !domain.is_empty() => (hello, domain),
                _ => ("HELO", "localhost"),
            };
            push(StepKind::Answer(Dialect::Smtp));
            push(send(format!("{hello} {domain}\r\n").into_bytes()));
            push(StepKind::Answer(Dialect::Smtp));
            push(send(b"QUIT\r\n".to_vec()));
            push(StepKind::Answer(Dialect::Smtp));
        }
        "redis-check" => {
            push(send(b"*1\r\n$4\r\nPING\r\n".to_vec()));
            push(StepKind::Answer(Dialect::Redis));
        }
        "mysql-check" => {
            // As the reference does, the login goes out before the greeting that it answers.
            let user = line.word(3);
            if let Some(user) = user {
                let version = if line.text(4).is_empty() { "post-41" } else { line.text(4) };
                push(send(mysql_login(user.bytes(), version)));
            }
            push(StepKind::Answer(Dialect::MysqlGreeting));
            if user.is_some() {
                push(StepKind::Answer(Dialect::MysqlLogin));
            }
        }
        "spop-check" => {
            let size = bufsize as u64 - 4;
            push(send(spop_hello(size)));
            push(StepKind::Answer(Dialect::Spop(size)));
        }
        "grpc-check" => {
            // Servers of gRPC over TLS mostly insist on the word for HTTP/2.
            let protocols = Some(Arc::from([b"h2".to_vec()]));
            push(StepKind::Connect(Connect { protocols, ..Connect::default() }));
            let said = |name| argument(line, name).map(Word::bytes);
            let call =
                health_call(said("service").unwrap_or_default(), said("authority").unwrap_or(b"localhost"));
            push(StepKind::Request(Box::new(call)));
            push(StepKind::Answer(Dialect::Grpc));
        }
        "ldap-check" => {
            push(send(LDAP_BIND.to_vec()));
            push(StepKind::Answer(Dialect::Ldap));
        }
        "ssl-hello-chk" => {
            push(send(tls_hello()));
            // A handshake or an alert: the server speaks TLS.
            let Ok(regex) = Regex::new("^1[56]", true) else { return };
            let mut expect = Expect::new(Matcher::HexRegex(Arc::new(regex)));
            expect.ok_status = Some(Status::L6Ok);
            expect.error_status = Some(Status::L6Response);
            expect.timeout_status = Some(Status::L6Timeout);
            // The header of a record.
            expect.min_recv = 5;
            let number = 2;
            steps.push(Step { number, ..Step::implicit(StepKind::Expect(Box::new(expect))) });
        }
        _ => {
            push(send(pgsql_startup(line.word(3).map_or(&b""[..], |w| w.bytes()))));
            push(StepKind::Answer(Dialect::Pgsql));
        }
    }
}

/// Names of arguments of `option grpc-check`; a value follows each.
pub(super) const GRPC_ARGUMENTS: [&str; 2] = ["service", "authority"];

/// The value of a named argument of `option grpc-check`.
fn argument<'l>(line: &'l Line, name: &str) -> Option<&'l Word> {
    let at = (2..line.words.len()).step_by(2).find(|at| line.text(*at) == name)?;
    line.word(at + 1)
}
