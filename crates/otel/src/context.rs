//! Which trace a request belongs to: the fields `traceparent` and `tracestate` (W3C Trace Context, level 2).

use crate::json::hex_digits;

/// The field that says which trace a request belongs to.
pub const TRACEPARENT: &[u8] = b"traceparent";

/// The field with what others keep in a trace.
pub const TRACESTATE: &[u8] = b"tracestate";

/// Bytes of a `traceparent` of version 00: `00-<trace>-<span>-<flags>`.
const PARENT_LEN: usize = 55;

/// The most members of a `tracestate` (section 3.3.1.1).
const STATE_MEMBERS_MAX: usize = 32;

/// The flag of a trace that is recorded (section 3.2.2.5.1).
const SAMPLED: u8 = 1;

/// The flag of a trace whose number was made at random (level 2, section 3.2.2.5.2).
const RANDOM: u8 = 2;

/// What a client says of the trace that its request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    flags: u8,
}

impl Parent {
    /// Reads a `traceparent`, of any version that is laid out as the first one was. `None` if it is none: then a trace begins, and
    /// nobody looks at what the client says besides (section 3.2.2).
    pub fn parse(field: &[u8]) -> Option<Parent> {
        let field = field.trim_ascii();
        let fits = match field.get(..3)? {
            b"00-" => field.len() == PARENT_LEN,
            // What a later version has besides follows a hyphen.
            _ => field.len() == PARENT_LEN || field.get(PARENT_LEN) == Some(&b'-'),
        };
        let [version]: [u8; 1] = bytes(field.get(..2)?)?;
        let hyphens = [2, 35, 52].iter().all(|at| field.get(*at) == Some(&b'-'));
        if !fits || !hyphens || version == 0xff {
            return None;
        }
        let [flags]: [u8; 1] = bytes(&field[53..PARENT_LEN])?;
        let parent = Parent { trace: bytes(&field[3..35])?, span: bytes(&field[36..52])?, flags };
        (parent.trace != [0; 16] && parent.span != [0; 8]).then_some(parent)
    }
}

/// Lowercase hexadecimal digits as bytes.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let (pairs, rest) = digits.as_chunks();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in out.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Whether what `tracestate` fields say can be passed on (section 3.3.1): a list of at most 32 members, `key=value`.
pub fn is_state<'v>(fields: impl Iterator<Item = &'v [u8]>) -> bool {
    let mut members = fields.flat_map(|field| field.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    let mut count = 0;
    members.all(|member| {
        // Empty members are allowed, and count as none.
        count += usize::from(!member.is_empty());
        count <= STATE_MEMBERS_MAX && (member.is_empty() || is_member(member))
    })
}

fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let in_key = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'*' | b'/' | b'@')
    };
    let first = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let in_value = |byte: &u8| matches!(byte, 0x20..=0x7e) && !matches!(byte, b',' | b'=');
    (1..=256).contains(&key.len())
        && key.first().is_some_and(first)
        && key.iter().all(in_key)
        && (1..=256).contains(&value.len())
        && value.iter().all(in_value)
        && value.last() != Some(&b' ')
}

/// The place of one request in a trace: its own span, and the one it was made by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Context {
    trace: [u8; 16],
    span: [u8; 8],
    parent: Option<[u8; 8]>,
    /// Whether it is recorded, as everyone behind is told.
    pub sampled: bool,
    random: bool,
}

impl Context {
    /// A request with this parent, or one that begins a trace of which `share` are recorded. `random` gives random bytes.
    pub fn new(parent: Option<Parent>, share: Share, mut random: impl FnMut(&mut [u8])) -> Context {
        let mut span = [0; 8];
        random(&mut span);
        // A number of zeros means none (section 3.2.2.4).
        span[7] |= u8::from(span == [0; 8]);
        if let Some(Parent { trace, span: parent, flags }) = parent {
            let (sampled, random) = (flags & SAMPLED != 0, flags & RANDOM != 0);
            return Context { trace, span, parent: Some(parent), sampled, random };
        }
        let mut trace = [0; 16];
        random(&mut trace);
        trace[15] |= u8::from(trace == [0; 16]);
        Context { trace, span, parent: None, sampled: share.has(&trace), random: true }
    }

    /// Decides anew whether it is recorded.
    pub fn sample(&mut self, share: Share) {
        self.sampled = share.has(&self.trace);
    }

    /// The trace, as it is written.
    pub fn trace_id(&self) -> [u8; 32] {
        digits(&self.trace)
    }

    /// The request's own span, as it is written.
    pub fn span_id(&self) -> [u8; 16] {
        digits(&self.span)
    }

    /// What a server is told: the `traceparent` whose parent is this request.
    pub fn traceparent(&self) -> [u8; PARENT_LEN] {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        out[3..35].copy_from_slice(&self.trace_id());
        out[36..52].copy_from_slice(&self.span_id());
        out[53..].copy_from_slice(&hex_digits(self.flags()));
        out
    }

    pub(crate) fn flags(&self) -> u8 {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        flag(self.sampled, SAMPLED) | flag(self.random, RANDOM)
    }

    pub(crate) fn ids(&self) -> (&[u8; 16], &[u8; 8], Option<&[u8; 8]>) {
        (&self.trace, &self.span, self.parent.as_ref())
    }
}

/// Bytes as digits. `M` is twice `N`.
fn digits<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u8; M] {
    const { assert!(M == 2 * N) }
    let mut out = [0; M];
    for (two, byte) in out.as_chunks_mut().0.iter_mut().zip(bytes) {
        *two = hex_digits(*byte);
    }
    out
}

/// How many of all traces are recorded. Which ones follows from their numbers, so that all who record the same share of a trace's
/// requests, or more, record the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Of the 2^56 numbers that the last seven bytes of a trace can be, those from this one on are recorded.
    from: u64,
}

/// Numbers that seven bytes can be.
const NUMBERS: u64 = 1 << 56;

impl Share {
    /// All of them.
    pub const ALL: Share = Share { from: 0 };

    /// Reads a share in per cent, from `0%` to `100%`, with as many decimals as are wanted.
    pub fn parse(text: &str) -> Option<Share> {
        let number = text.strip_suffix('%')?;
        // No sign, no exponent, and none of the words that a number may be.
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent: f64 = number.parse().ok().filter(|_| plain)?;
        // The cast of what is between 0 and 2^56 is exact enough for a share, and cannot overflow.
        let recorded = (percent / 100.0 * NUMBERS as f64) as u64;
        (percent <= 100.0).then(|| Share { from: NUMBERS - recorded.min(NUMBERS) })
    }

    fn has(self, trace: &[u8; 16]) -> bool {
        let mut last = [0; 8];
        last[1..].copy_from_slice(&trace[9..]);
        u64::from_be_bytes(last) >= self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// Bytes that count up, from 1.
    fn counting() -> impl FnMut(&mut [u8]) {
        let mut next = 0;
        move |out| {
            out.fill_with(|| {
                next += 1;
                next
            });
        }
    }

    #[test]
    fn a_trace_goes_on() {
        let parent = Parent::parse(PARENT.as_bytes()).expect("valid");
        let context = Context::new(Some(parent), Share::parse("0%").expect("a share"), counting());
        assert_eq!(&context.traceparent(), b"00-0af7651916cd43dd8448eb211c80319c-0102030405060708-01");
        assert_eq!(context.ids().2, Some(&[0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]));
        let unrecorded = PARENT.replace("-01", "-00");
        let parent = Parent::parse(unrecorded.as_bytes());
        assert!(!Context::new(parent, Share::ALL, counting()).sampled, "who began it decided");
    }

    #[test]
    fn a_trace_begins() {
        let context = Context::new(None, Share::ALL, counting());
        assert_eq!(&context.traceparent(), b"00-090a0b0c0d0e0f101112131415161718-0102030405060708-03");
        let nothing = Context::new(None, Share::ALL, |_| {});
        assert_eq!(&nothing.traceparent(), b"00-00000000000000000000000000000001-0000000000000001-03");
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        for (text, valid) in [
            (PARENT.to_owned(), true),
            (format!(" {PARENT} "), true),
            (PARENT.replacen("00", "cc", 1), true),
            (format!("{}-what-will-be", PARENT.replacen("00", "cc", 1)), true),
            (format!("{}.what", PARENT.replacen("00", "cc", 1)), false),
            (format!("{PARENT}-more"), false),
            (PARENT.replacen("00", "ff", 1), false),
            (PARENT.replacen("00", "0", 1), false),
            (PARENT.to_uppercase(), false),
            (PARENT.replace("-01", "-0x"), false),
            (PARENT.replace("-01", "-ff"), true),
            (PARENT.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), false),
            (PARENT.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            (PARENT.replace('-', "_"), false),
            (PARENT[..54].to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(Parent::parse(text.as_bytes()).is_some(), valid, "{text}");
        }
    }

    #[test]
    fn unknown_flags_go_no_further() {
        let parent = Parent::parse(PARENT.replace("-01", "-ff").as_bytes());
        assert!(Context::new(parent, Share::ALL, counting()).traceparent().ends_with(b"-03"));
    }

    #[test]
    fn states_are_lists_of_members() {
        let state = |text: &str| is_state([text.as_bytes()].into_iter());
        let many = |count: usize| (0..count).map(|at| format!("k{at}=v")).collect::<Vec<_>>().join(",");
        for good in
            ["", "a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "a=1, ,b=2 ", "0t@v_-*/=a b", &many(32)]
        {
            assert!(state(good), "{good}");
        }
        for bad in ["a", "=1", "a=", "A=1", "a=b=c", "_a=1", "a=\u{e9}", &many(33)] {
            assert!(!state(bad), "{bad}");
        }
        assert!(!is_state([many(20).as_bytes(), many(20).as_bytes()].into_iter()));
    }

    #[test]
    fn shares_are_of_all_traces() {
        for bad in ["", "%", "10", "-1%", "101%", "1e1%", "inf%", "nan%", "+5%", "1%%"] {
            assert_eq!(Share::parse(bad), None, "{bad}");
        }
        let recorded = |share: &str| {
            let share = Share::parse(share).expect("a share");
            let mut seed = 1u64;
            let random = |out: &mut [u8]| {
                out.fill_with(|| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (seed >> 56) as u8
                });
            };
            let mut random = random;
            (0..10_000).filter(|_| Context::new(None, share, &mut random).sampled).count()
        };
        assert_eq!((recorded("0%"), recorded("100%"), recorded("100.0%")), (0, 10_000, 10_000));
        assert!((900..1100).contains(&recorded("10%")), "{}", recorded("10%"));
        assert!((30..80).contains(&recorded("0.5%")), "{}", recorded("0.5%"));
    }
}
