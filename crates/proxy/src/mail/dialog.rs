//! What is said to a mailer, and what its replies mean (SMTP, RFC 5321). No I/O here.

use super::Mail;

/// The most bytes of a reply. RFC 5321 4.5.3.1.5 has 512 for a line; `EHLO` is answered with several.
const REPLY_MAX: usize = 8 * 1024;

/// What was said last: what the next reply is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing yet: the mailer greets.
    Nothing,
    Hello,
    /// For mailers that know of nothing newer.
    OldHello,
    From,
    To,
    Data,
    /// The mail itself.
    Mail,
}

impl Said {
    fn name(self) -> &'static str {
        match self {
            Said::Nothing => "the greeting",
            Said::Hello => "EHLO",
            Said::OldHello => "HELO",
            Said::From => "MAIL FROM",
            Said::To => "RCPT TO",
            Said::Data => "DATA",
            Said::Mail => "the mail",
        }
    }
}

/// Why a mailer did not take a mail.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It answered so to what was said.
    Code(Said, u16),
    /// It said something that is no reply.
    NoReply,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refused::Code(said, code) => write!(f, "it answered {code} to {}", said.name()),
            Refused::NoReply => f.write_str("what it says is not SMTP"),
        }
    }
}

/// One mail on its way.
pub struct Dialog<'m> {
    mail: &'m Mail,
    said: Said,
    received: Vec<u8>,
}

impl<'m> Dialog<'m> {
    /// Waits for the mailer to greet.
    pub fn new(mail: &'m Mail) -> Dialog<'m> {
        Dialog { mail, said: Said::Nothing, received: Vec::new() }
    }

    /// What is said next, now that the mailer said this; nothing before its reply is complete. `None` when it took the mail.
    ///
    /// # Errors
    /// It does not take it.
    pub fn hear(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, Refused> {
        self.received.extend_from_slice(bytes);
        match reply(&self.received)? {
            Some(code) => {
                self.received.clear();
                self.answer(code)
            }
            None if self.received.len() > REPLY_MAX => Err(Refused::NoReply),
            None => Ok(Some(Vec::new())),
        }
    }

    fn answer(&mut self, code: u16) -> Result<Option<Vec<u8>>, Refused> {
        let is_good = if self.said == Said::Data { code == 354 } else { (200..300).contains(&code) };
        let mail = self.mail;
        let (said, text) = match (self.said, is_good) {
            (Said::Nothing, true) => (Said::Hello, format!("EHLO {}\r\n", mail.host)),
            (Said::Hello, false) if (500..600).contains(&code) => {
                (Said::OldHello, format!("HELO {}\r\n", mail.host))
            }
            (said, false) => return Err(Refused::Code(said, code)),
            (Said::Hello | Said::OldHello, true) => (Said::From, format!("MAIL FROM:<{}>\r\n", mail.from)),
            (Said::From, true) => (Said::To, format!("RCPT TO:<{}>\r\n", mail.to)),
            (Said::To, true) => (Said::Data, "DATA\r\n".into()),
            (Said::Data, true) => (Said::Mail, mail.text()),
            (Said::Mail, true) => return Ok(None),
        };
        self.said = said;
        Ok(Some(text.into_bytes()))
    }
}

/// The code of a complete reply: three digits, in front of each of its lines (RFC 5321 4.2).
fn reply(bytes: &[u8]) -> Result<Option<u16>, Refused> {
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = rest.split_at(end + 1);
        let digits = line.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let code = digits.ok_or(Refused::NoReply)?.iter().fold(0, |code, d| code * 10 + u16::from(d - b'0'));
        match (line[3], behind.is_empty()) {
            (b'-', _) => rest = behind,
            (b' ' | b'\r' | b'\n', true) => return Ok(Some(code)),
            // It speaks out of turn.
            _ => return Err(Refused::NoReply),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Mail {
        Mail {
            host: "lb".into(),
            from: "a@b".into(),
            to: "c@d".into(),
            line: "Server x/y is DOWN".into(),
            date: "Sun, 06 Nov 1994 08:49:37 +0000".into(),
            id: "1.2@lb".into(),
        }
    }

    /// What is said after each of these replies; the last one ends it.
    fn play(replies: &[&str]) -> (Vec<String>, Result<bool, Refused>) {
        let mail = mail();
        let mut dialog = Dialog::new(&mail);
        let mut said = Vec::new();
        for reply in replies {
            match dialog.hear(reply.as_bytes()) {
                Ok(Some(text)) => said.push(String::from_utf8(text).expect("text")),
                Ok(None) => return (said, Ok(true)),
                Err(refused) => return (said, Err(refused)),
            }
        }
        (said, Ok(false))
    }

    #[test]
    fn a_mail_is_handed_over() {
        let replies = [
            "220 hello\r\n",
            "250-here\r\n250-SIZE\r\n250 HELP\r\n",
            "250 OK\r\n",
            "250\r\n",
            "354 go\r\n",
            "250 queued\r\n",
        ];
        let (said, end) = play(&replies);
        assert_eq!(end, Ok(true));
        assert_eq!(said[..4], ["EHLO lb\r\n", "MAIL FROM:<a@b>\r\n", "RCPT TO:<c@d>\r\n", "DATA\r\n"]);
        assert!(said[4].ends_with("\r\n.\r\n"), "{}", said[4]);
    }

    #[test]
    fn replies_may_come_in_pieces() {
        let (said, end) = play(&["22", "0 hello\r", "\n", "250-a\r\n2", "50 b\r\n"]);
        assert_eq!(end, Ok(false));
        assert_eq!(said, ["", "", "EHLO lb\r\n", "", "MAIL FROM:<a@b>\r\n"]);
    }

    #[test]
    fn a_mailer_may_know_of_nothing_newer() {
        let (said, end) = play(&["220 a\r\n", "502 what\r\n", "250 b\r\n"]);
        assert_eq!(
            (said[1].as_str(), said[2].as_str(), end),
            ("HELO lb\r\n", "MAIL FROM:<a@b>\r\n", Ok(false))
        );
    }

    #[test]
    fn refusals_end_it() {
        let cases: [(&[&str], Refused); 7] = [
            (&["554 no\r\n"], Refused::Code(Said::Nothing, 554)),
            (&["220 a\r\n", "421 later\r\n"], Refused::Code(Said::Hello, 421)),
            (&["220 a\r\n", "250 a\r\n", "250 a\r\n", "550 who\r\n"], Refused::Code(Said::To, 550)),
            (
                &["220 a\r\n", "250 a\r\n", "250 a\r\n", "250 a\r\n", "250 a\r\n"],
                Refused::Code(Said::Data, 250),
            ),
            (&["SSH-2.0-x\r\n"], Refused::NoReply),
            (&["220 a\r\n250 b\r\n"], Refused::NoReply),
            (&["\n"], Refused::NoReply),
        ];
        for (replies, refused) in cases {
            assert_eq!(play(replies).1, Err(refused), "{replies:?}");
        }
        let long = "a".repeat(REPLY_MAX + 1);
        assert_eq!(play(&[&long]).1, Err(Refused::NoReply));
    }
}
