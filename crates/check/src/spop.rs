//! The first frames of SPOP, the protocol of agents that process streams (HAProxy's SPOE.txt, section 3.2): what a check says
//! to one, and whether its answer is a greeting.

use crate::Status;
use crate::answer::Answer;

/// The bytes of a frame's metadata: type, flags, numbers of stream and frame.
const METADATA: usize = 7;
/// The one flag of a frame that is whole.
const WHOLE: [u8; 4] = [0, 0, 0, 1];
/// The smallest frames that both sides must take.
const FRAME_MIN: u64 = 256;

/// HAPROXY-HELLO with the mark of a health check, from a process whose frames have at most so many bytes.
pub fn hello(max_frame_size: u64) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend_from_slice(&WHOLE);
    frame.extend_from_slice(&[0, 0]);
    let name = |frame: &mut Vec<u8>, name: &str| {
        put_number(frame, name.len() as u64);
        frame.extend_from_slice(name.as_bytes());
    };
    name(&mut frame, "supported-versions");
    frame.extend_from_slice(b"\x08\x032.0");
    name(&mut frame, "max-frame-size");
    frame.push(3);
    put_number(&mut frame, max_frame_size);
    name(&mut frame, "capabilities");
    frame.extend_from_slice(&[8, 0]);
    name(&mut frame, "healthcheck");
    frame.push(0x11);
    let mut out = u32::try_from(frame.len()).unwrap_or(0).to_be_bytes().to_vec();
    out.append(&mut frame);
    out
}

/// A number below 240 is one byte; of a larger one the first has four bits, the others seven.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    if number < 240 {
        out.push(number as u8);
        return;
    }
    out.push(number as u8 | 0xf0);
    number = (number - 240) >> 4;
    while number >= 128 {
        out.push(number as u8 | 0x80);
        number = (number - 128) >> 7;
    }
    out.push(number as u8);
}

/// What is left of a frame.
struct Rest<'b>(&'b [u8]);

/// A value; what a greeting does not have is read over.
enum Value<'b> {
    Number(u64),
    Text(&'b [u8]),
    Other,
}

impl<'b> Rest<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = u64::from(self.byte()?);
        if number < 240 {
            return Some(number);
        }
        let mut shift = 4;
        loop {
            let byte = u64::from(self.byte()?);
            number = number.checked_add(byte.checked_shl(shift).filter(|n| n >> shift == byte)?)?;
            shift += 7;
            if byte < 128 {
                return Some(number);
            }
        }
    }

    fn text(&mut self) -> Option<&'b [u8]> {
        let len = self.number()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn value(&mut self) -> Option<Value<'b>> {
        Some(match self.byte()? & 0x0f {
            // Nothing, and a truth value, which is in the other four bits.
            0 | 1 => Value::Other,
            2..=5 => Value::Number(self.number()?),
            6 => self.take(4).map(|_| Value::Other)?,
            7 => self.take(16).map(|_| Value::Other)?,
            8 => Value::Text(self.text()?),
            9 => self.text().map(|_| Value::Other)?,
            _ => return None,
        })
    }
}

/// Judges what arrived, in answer to [`hello`] with this size.
pub(crate) fn judge(input: &[u8], last: bool, max_frame_size: u64) -> Answer {
    let bad = |info: &str| Answer::Bad { status: Status::L7Response, code: None, info: info.into() };
    const INVALID: &str = "invalid frame received";
    let Some((len, rest)) = input.split_at_checked(4) else {
        return match (last, input) {
            (false, _) => Answer::Wait,
            (true, []) => bad("TCPCHK got an empty response at step 3"),
            (true, _) => bad(INVALID),
        };
    };
    let len = len.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    // What is longer than we can take is no greeting to us.
    if len < METADATA as u64 || len > max_frame_size {
        return bad(INVALID);
    }
    let Some(frame) = rest.get(..len as usize) else {
        return if last { bad(INVALID) } else { Answer::Wait };
    };
    match greeting(frame, max_frame_size) {
        Ok(()) => Answer::Good { len: 4 + frame.len(), code: 0, info: "SPOA server is ok".into() },
        Err(why) => bad(why),
    }
}

/// Whether a frame is AGENT-HELLO of a version and size that are ours, too.
fn greeting(frame: &[u8], max_frame_size: u64) -> Result<(), &'static str> {
    const INVALID: &str = "invalid frame received";
    if frame[0] != 101 || frame[1..5] != WHOLE || frame[5..METADATA] != [0, 0] {
        return Err(INVALID);
    }
    let mut rest = Rest(&frame[METADATA..]);
    let (mut version, mut size, mut capabilities) = (false, false, false);
    while !rest.0.is_empty() {
        let name = rest.text().ok_or(INVALID)?;
        match (name, rest.value().ok_or(INVALID)?) {
            (b"version", Value::Text(text)) if text.trim_ascii() == b"2.0" => version = true,
            (b"version", Value::Text(_)) => return Err("unsupported version"),
            (b"max-frame-size", Value::Number(number)) if (FRAME_MIN..=max_frame_size).contains(&number) => {
                size = true;
            }
            (b"max-frame-size", Value::Number(_)) => return Err("max-frame-size too big or too small"),
            (b"capabilities", Value::Text(_)) => capabilities = true,
            (b"version" | b"max-frame-size" | b"capabilities", _) => return Err(INVALID),
            _ => {}
        }
    }
    match (version, size, capabilities) {
        (false, ..) => Err("version value not found"),
        (_, false, _) => Err("max-frame-size value not found"),
        (.., false) => Err("capabilities value not found"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 16380;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        crate::parse_hex(digits.as_bytes()).unwrap()
    }

    fn told(input: &[u8], last: bool) -> String {
        match judge(input, last, SIZE) {
            Answer::Wait => "wait".into(),
            Answer::Good { len, info, .. } => format!("{len} {info}"),
            Answer::Bad { info, .. } => info,
        }
    }

    #[test]
    fn the_question_is_the_references() {
        let expected = "0000004e 01 00000001 0000 12737570706f727465642d76657273696f6e73 0803322e30 \
                        0e6d61782d6672616d652d73697a65 03fcf006 0c6361706162696c6974696573 0800 0b6865616c7468636865636b 11";
        assert_eq!(hello(SIZE), hex(expected));
    }

    #[test]
    fn greetings_are_told_from_other_frames() {
        const VERSION: &str = "0776657273696F6E 0803322E30";
        const SIZE: &str = "0E6D61782D6672616D652D73697A65 03FCF006";
        const CAPABILITIES: &str = "0C6361706162696C6974696573 0800";
        let frame = |start: &str, fields: &[&str]| {
            let body = hex(&format!("{start}{}", fields.concat()));
            [&(body.len() as u32).to_be_bytes()[..], &body].concat()
        };
        const HELLO: &str = "65 00000001 0000";
        let good = frame(HELLO, &[VERSION, SIZE, CAPABILITIES]);
        assert_eq!(told(&good, false), format!("{} SPOA server is ok", good.len()));
        for end in 0..good.len() {
            assert_eq!(told(&good[..end], false), "wait", "{end}");
        }
        for (input, expected) in [
            (frame(HELLO, &[VERSION, SIZE]), "capabilities value not found"),
            (frame(HELLO, &[SIZE, CAPABILITIES]), "version value not found"),
            (frame(HELLO, &[VERSION, CAPABILITIES]), "max-frame-size value not found"),
            (frame(HELLO, &["0776657273696F6E 0803312E30"]), "unsupported version"),
            (
                frame(HELLO, &[VERSION, "0E6D61782D6672616D652D73697A65 0310"]),
                "max-frame-size too big or too small",
            ),
            (frame(HELLO, &["0776657273696F6E 0302"]), "invalid frame received"),
            (frame("65 00000000 0000", &[VERSION, SIZE, CAPABILITIES]), "invalid frame received"),
            (frame("65 00000001 0100", &[VERSION, SIZE, CAPABILITIES]), "invalid frame received"),
            (frame("67 00000001 0000", &[]), "invalid frame received"),
            (hex("00000000"), "invalid frame received"),
            (b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), "invalid frame received"),
        ] {
            assert_eq!(told(&input, false), expected);
        }
        assert_eq!(told(b"", true), "TCPCHK got an empty response at step 3");
        assert_eq!(told(&good[..20], true), "invalid frame received");
    }

    proptest! {
        #[test]
        fn any_answer_is_judged(input in proptest::collection::vec(any::<u8>(), 0..120), last: bool) {
            let _ = judge(&input, last, SIZE);
            let mut framed = (input.len() as u32).to_be_bytes().to_vec();
            framed.extend(&input);
            let _ = judge(&framed, last, SIZE);
        }

        #[test]
        fn numbers_come_back(number: u64) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            prop_assert_eq!(Rest(&bytes).number(), Some(number));
        }
    }
}
