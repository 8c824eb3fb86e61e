//! Messages and numbers as bytes.

/// The most bytes of a message, its head included: what the reference receives into.
pub const MESSAGE_MAX: usize = 16_384;

/// The most bytes of a number.
const NUMBER_MAX: usize = 10;

/// What the messages of each class and type are.
mod kind {
    pub const CONTROL: u8 = 0;
    pub const ERROR: u8 = 1;
    pub const TABLES: u8 = 10;

    pub const UPDATE: u8 = 128;
    pub const UPDATE_NEXT: u8 = 129;
    pub const DEFINITION: u8 = 130;
    pub const SWITCH: u8 = 131;
    pub const ACKNOWLEDGEMENT: u8 = 132;
    pub const UPDATE_TIMED: u8 = 133;
    pub const UPDATE_NEXT_TIMED: u8 = 134;

    /// Messages of this type and above say how long they are.
    pub const WITH_LENGTH: u8 = 128;
}

/// A message without contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Asks to be taught.
    Teach,
    /// All was taught, by one who knows all.
    Finished,
    /// All was taught, by one who may not know all.
    Partial,
    /// The end of the lesson was noticed.
    Confirmed,
    /// Nothing to say, but still here.
    Heartbeat,
}

impl Control {
    const ALL: [Control; 5] =
        [Control::Teach, Control::Finished, Control::Partial, Control::Confirmed, Control::Heartbeat];
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'b> {
    /// See [`Control`].
    Control(Control),
    /// The sender did not accept what it was sent, and closes.
    Error,
    /// An entry.
    Update {
        /// It begins with its number; otherwise that is the one after the last.
        numbered: bool,
        /// It says when it expires.
        timed: bool,
        /// The rest.
        body: &'b [u8],
    },
    /// What the table of the entries that follow is.
    Definition(&'b [u8]),
    /// The entries that follow are of this table, which was defined before.
    Switch(&'b [u8]),
    /// An entry arrived, and all before it.
    Acknowledgement(&'b [u8]),
    /// A message of a later version.
    Unknown,
}

/// What bytes begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'b> {
    /// A message, and how many bytes it has.
    Message(Message<'b>, usize),
    /// The beginning of one.
    Partial,
    /// One that is too long.
    TooLong,
    /// Something that is no message.
    Malformed,
}

/// The first message of what was received.
pub fn parse(bytes: &[u8]) -> Parsed<'_> {
    let [class, kind, rest @ ..] = bytes else { return Parsed::Partial };
    if *kind < kind::WITH_LENGTH {
        let message = match *class {
            kind::CONTROL => Control::ALL.get(usize::from(*kind)).map(|control| Message::Control(*control)),
            kind::ERROR => Some(Message::Error),
            _ => None,
        };
        return Parsed::Message(message.unwrap_or(Message::Unknown), 2);
    }
    let mut input = Input(rest);
    let len = match input.try_number() {
        Ok(Some(len)) => len,
        Ok(None) => return Parsed::Partial,
        Err(Overlong) => return Parsed::Malformed,
    };
    let head = bytes.len() - input.0.len();
    let Some(len) = usize::try_from(len).ok().filter(|len| *len <= MESSAGE_MAX - head) else {
        return Parsed::TooLong;
    };
    let Some(body) = input.0.get(..len) else { return Parsed::Partial };
    let update = |numbered, timed| Message::Update { numbered, timed, body };
    let message = match (*class, *kind) {
        (kind::TABLES, kind::UPDATE) => update(true, false),
        (kind::TABLES, kind::UPDATE_NEXT) => update(false, false),
        (kind::TABLES, kind::UPDATE_TIMED) => update(true, true),
        (kind::TABLES, kind::UPDATE_NEXT_TIMED) => update(false, true),
        (kind::TABLES, kind::DEFINITION) => Message::Definition(body),
        (kind::TABLES, kind::SWITCH) => Message::Switch(body),
        (kind::TABLES, kind::ACKNOWLEDGEMENT) => Message::Acknowledgement(body),
        _ => Message::Unknown,
    };
    Parsed::Message(message, head + len)
}

/// Why a peer is left, as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// It did not keep to the protocol.
    Protocol,
    /// A message was too long.
    Size,
}

/// Writes a complaint.
pub fn put_complaint(out: &mut Vec<u8>, complaint: Complaint) {
    out.extend([kind::ERROR, complaint as u8]);
}

/// Writes a message without contents.
pub fn put_control(out: &mut Vec<u8>, control: Control) {
    out.extend([kind::CONTROL, control as u8]);
}

/// Writes what a table is.
pub fn put_definition(out: &mut Vec<u8>, body: &[u8]) {
    put(out, kind::DEFINITION, body);
}

/// Writes an entry, numbered, whose body is this.
pub fn put_update(out: &mut Vec<u8>, timed: bool, body: &[u8]) {
    put(out, if timed { kind::UPDATE_TIMED } else { kind::UPDATE }, body);
}

/// Writes that the entry with this number, of the table that the peer calls `table`, arrived, and all before it.
pub fn put_acknowledgement(out: &mut Vec<u8>, table: u64, number: u32) {
    let mut body = Vec::with_capacity(NUMBER_MAX + 4);
    put_number(&mut body, table);
    body.extend(number.to_be_bytes());
    put(out, kind::ACKNOWLEDGEMENT, &body);
}

fn put(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.extend([kind::TABLES, kind]);
    put_number(out, body.len() as u64);
    out.extend(body);
}

/// Writes a number: one byte below 240, else four bits and then seven bits at a time.
pub fn put_number(out: &mut Vec<u8>, number: u64) {
    if number < 0xf0 {
        out.push(number as u8);
        return;
    }
    out.push(number as u8 | 0xf0);
    let mut rest = (number - 0xf0) >> 4;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest = (rest - 0x80) >> 7;
    }
    out.push(rest as u8);
}

/// A number of more than 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlong;

/// What is left of a message.
#[derive(Clone, Copy, Debug)]
pub struct Input<'b>(pub &'b [u8]);

impl<'b> Input<'b> {
    /// A number; `Ok(None)`, and nothing taken, when it goes on behind the end.
    fn try_number(&mut self) -> Result<Option<u64>, Overlong> {
        let Some(first) = self.0.first() else { return Ok(None) };
        let mut number = u64::from(*first);
        if *first < 0xf0 {
            self.0 = &self.0[1..];
            return Ok(Some(number));
        }
        for (i, byte) in self.0.iter().enumerate().skip(1) {
            let shift = 4 + 7 * (i as u32 - 1);
            let part = u64::from(*byte);
            let shifted = if shift < u64::BITS { part << shift } else { 0 };
            if shift >= u64::BITS || shifted >> shift != part {
                return Err(Overlong);
            }
            number = number.checked_add(shifted).ok_or(Overlong)?;
            if *byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(Some(number));
            }
        }
        if self.0.len() > NUMBER_MAX { Err(Overlong) } else { Ok(None) }
    }

    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        self.try_number().ok().flatten()
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Four bytes in network order.
    pub fn word(&mut self) -> Option<u32> {
        let bytes = self.bytes(4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }

    /// Bytes that say first how many they are.
    pub fn counted(&mut self) -> Option<&'b [u8]> {
        let len = self.number()?;
        self.bytes(usize::try_from(len).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        let check = |number: u64, bytes: &[u8]| {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(out, bytes, "{number:#x}");
            assert_eq!(Input(bytes).number(), Some(number));
        };
        check(0xef, &[0xef]);
        check(0xf0, &[0xf0, 0]);
        check(0x1234, &[0xf4, 0x94, 0x01]);
        check(2287, &[0xff, 0x7f]);
        check(2288, &[0xf0, 0x80, 0]);
        // Read from what the reference sent.
        check(60_000, &[0xf0, 0x97, 0x1c]);
        check(0x80010, &[0xf0, 0xf2, 0xfe, 0]);
        check(123_456_789_012, &[0xf4, 0x92, 0xa2, 0xa5, 0xde, 0x1b]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(parse(&[10]), Parsed::Partial);
        assert_eq!(parse(&[10, 128]), Parsed::Partial);
        assert_eq!(parse(&[10, 128, 3, 1, 2]), Parsed::Partial);
        assert_eq!(parse(&[10, 140, 1, 1, 0, 4]), Parsed::Message(Message::Unknown, 4));
        assert_eq!(parse(&[0, 4]), Parsed::Message(Message::Control(Control::Heartbeat), 2));
        assert_eq!(parse(&[0, 77]), Parsed::Message(Message::Unknown, 2));
        let mut long = vec![10, 128];
        put_number(&mut long, MESSAGE_MAX as u64);
        assert_eq!(parse(&long), Parsed::TooLong);
        assert_eq!(parse(&[&[10, 128][..], &[0xff; 12]].concat()), Parsed::Malformed);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: u64) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            prop_assert!(out.len() <= NUMBER_MAX);
            for cut in 0..out.len() {
                prop_assert_eq!(Input(&out[..cut]).try_number(), Ok(None));
            }
            let mut input = Input(&out);
            prop_assert_eq!(input.number(), Some(number));
            prop_assert!(input.0.is_empty());
        }

        #[test]
        fn anything_can_be_parsed(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Parsed::Message(_, len) = parse(&bytes) {
                prop_assert!(len >= 2 && len <= bytes.len());
            }
        }
    }
}
