//! HTTP/2 as exchanges need it: what scripts wait for, frames for the stream at hand, and what a connection carried as
//! text in which frames that mean the same look the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use thalweg_h2::error::ErrorCode;
use thalweg_h2::frame::{self, HEADER_LEN, Header, Kind, PREFACE, flag};
use thalweg_h2::hpack::{Decoder, Name, Sink, Strings};
use thalweg_h2::settings::Change;

/// Stands for the stream that a server's script waited for last.
pub const THIS: u32 = 0x7fff_fffe;

/// What a proxy may send, in the windows that [`opening`] gives.
const WINDOW: u32 = 1 << 24;

/// Something of a stream that a script waits for.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// A stream with a higher number than the last one.
    NewStream,
    /// A head on a stream.
    Head(u32),
    /// So many octets of payload on a stream.
    Octets(u32, usize),
    /// The end of a stream, in order or not.
    Over(u32),
}

/// Whether what a proxy sent is HTTP/2.
pub fn is_http2(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFACE) || (bytes.len() >= HEADER_LEN && bytes[..2] == [0, 0] && bytes[3..5] == [4, 0])
}

/// The frames that are complete, each with the offset behind it.
fn frames(bytes: &[u8]) -> impl Iterator<Item = (Header, &[u8], usize)> {
    let mut at = if bytes.starts_with(PREFACE) { PREFACE.len() } else { 0 };
    std::iter::from_fn(move || {
        let header = Header::parse(bytes.get(at..at + HEADER_LEN)?.try_into().ok()?);
        let start = at + HEADER_LEN;
        at = start + header.len;
        Some((header, bytes.get(start..at)?, at))
    })
}

/// Looks for something in all that a proxy sent; on which stream it was. `current` is the stream that was looked for last.
pub fn find(bytes: &[u8], mark: Mark, current: u32) -> Option<u32> {
    let own = |id: u32| if id == THIS { current } else { id };
    let mut octets = 0;
    let found = |header: &Header| match mark {
        Mark::NewStream => header.kind == Kind::Headers && header.stream > current,
        Mark::Head(id) => header.kind == Kind::Headers && header.stream == own(id),
        Mark::Octets(id, wanted) => {
            if header.kind == Kind::Data && header.stream == own(id) {
                octets += header.len;
            }
            octets >= wanted
        }
        Mark::Over(id) => {
            let ends = matches!(header.kind, Kind::Headers | Kind::Data) && header.has(flag::END_STREAM);
            header.stream == own(id) && (ends || header.kind == Kind::RstStream)
        }
    };
    let mut found = found;
    frames(bytes).find(|(header, _, _)| found(header)).map(|(header, _, _)| header.stream)
}

/// How many octets may be sent on a stream, of which `sent` were, `sent_all` on all streams.
pub fn room(bytes: &[u8], stream: u32, sent: usize, sent_all: usize) -> usize {
    let (mut initial, mut of_stream, mut of_all) = (65_535i64, 0i64, 65_535i64);
    for (header, payload, _) in frames(bytes) {
        match header.kind {
            Kind::Settings => {
                for change in frame::settings(payload).into_iter().flatten() {
                    if let Change::InitialWindow(octets) = change {
                        initial = i64::from(octets);
                    }
                }
            }
            Kind::WindowUpdate => {
                let more = i64::from(frame::window_update(payload).unwrap_or(0));
                match header.stream {
                    0 => of_all += more,
                    id if id == stream => of_stream += more,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let left = (initial + of_stream - sent as i64).min(of_all - sent_all as i64);
    usize::try_from(left).unwrap_or(0)
}

/// Frames that name [`THIS`] stream, for a certain one.
pub fn on_stream(bytes: &[u8], stream: u32) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let mut at = 0;
    while let Some(start) = out.get(at..at + HEADER_LEN) {
        let mut header = Header::parse(start.try_into().expect("as long as a header"));
        if header.stream == THIS {
            header.stream = stream;
            out[at..at + HEADER_LEN].copy_from_slice(&header.encode());
        }
        at += HEADER_LEN + header.len;
    }
    out
}

/// What a connection begins with: windows that no exchange fills.
pub fn opening(client: bool) -> Vec<u8> {
    let mut out = if client { PREFACE.to_vec() } else { Vec::new() };
    frame::put_settings(&mut out, [Change::InitialWindow(WINDOW)]);
    frame::put_settings_ack(&mut out);
    frame::put_window_update(&mut out, 0, WINDOW);
    out
}

/// What a connection carried, and where each byte of that was complete in what was received.
pub struct Told {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl Told {
    fn push(&mut self, bytes: &[u8], end: usize) {
        self.bytes.extend_from_slice(bytes);
        self.ends.resize(self.bytes.len(), end);
    }
}

#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Sink for Fields {
    fn field(&mut self, _: Name, name: &[u8], value: &[u8], _: bool) {
        self.0.push((name.escape_ascii().to_string(), value.escape_ascii().to_string()));
    }
}

impl Fields {
    /// In the order of their names. Those of one name stay in their order; `host` and `:authority` say the same.
    fn text(mut self) -> String {
        if !self.0.iter().any(|(name, _)| name == ":authority")
            && let Some((name, _)) = self.0.iter_mut().find(|(name, _)| name == "host")
        {
            *name = ":authority".into();
        }
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.0.iter().fold(String::new(), |mut text, (name, value)| {
            let _ = write!(text, "\n  {name}: {value}");
            text
        })
    }
}

/// What was received, stream by stream: heads as lists, payload without the boundaries of frames, ends. Windows,
/// settings and the like are left out, as is what is said of a stream that was given up, and to servers of the whole connection.
pub fn told(bytes: &[u8]) -> Told {
    let mut decoder = Decoder::new(4096, 1 << 20);
    // Number 0 stands last, though, as it says how all ended.
    let mut streams: BTreeMap<u32, Vec<(Vec<u8>, usize)>> = BTreeMap::new();
    let mut block = Vec::new();
    let mut begun = (0, false);
    let mut given_up = BTreeSet::new();
    let to_client = !bytes.starts_with(PREFACE);
    // Then it does not matter what is said of streams.
    let is_error = |header: &Header, payload: &[u8]| {
        header.kind == Kind::Goaway
            && frame::goaway(payload).is_ok_and(|(_, code)| code != ErrorCode::NoError)
    };
    let failed = frames(bytes).any(|(header, payload, _)| is_error(&header, payload));
    for (header, payload, end) in frames(bytes) {
        let mut say = |id: u32, text: String| {
            streams.entry(id.wrapping_sub(1)).or_default().push((text.into_bytes(), end));
        };
        let id = header.stream;
        let ends = header.has(flag::END_STREAM);
        match header.kind {
            Kind::Headers | Kind::Continuation => {
                if header.kind == Kind::Headers {
                    block.clear();
                    begun = (id, ends);
                    block.extend_from_slice(frame::header_fragment(&header, payload).unwrap_or(b"?"));
                } else {
                    block.extend_from_slice(payload);
                }
                if !header.has(flag::END_HEADERS) {
                    continue;
                }
                let mut fields = Fields::default();
                let decoded = decoder.decode(&block, &mut Strings::default(), &mut fields);
                say(id, format!("\n{id} fields{}", fields.text()));
                if let Err(error) = decoded {
                    say(id, format!("\n{error}"));
                }
                if begun.1 {
                    say(id, format!("\n{id} ends"));
                }
            }
            Kind::Data => {
                if !payload.is_empty() {
                    let data = frame::unpadded(&header, payload).unwrap_or(b"?").to_vec();
                    let of = streams.entry(id.wrapping_sub(1)).or_default();
                    let starts = of.last().is_none_or(|(text, _)| text.starts_with(b"\n"));
                    of.push(([if starts { &b" | "[..] } else { b"" }, &data].concat(), end));
                }
                if ends {
                    let of = streams.entry(id.wrapping_sub(1)).or_default();
                    of.push((format!("\n{id} ends").into_bytes(), end));
                }
            }
            Kind::RstStream if given_up.insert(id) => {
                let code = frame::reset(payload).unwrap_or(ErrorCode::Unknown(0xff));
                if !failed || !matches!(code, ErrorCode::NoError | ErrorCode::Cancel) {
                    say(id, format!("\n{id} reset {code}"));
                }
            }
            Kind::Goaway if to_client => {
                match frame::goaway(payload) {
                    // Whoever fails may know less of what it did.
                    Ok((_, code)) if failed => say(0, format!("\ngoaway {code}")),
                    Ok((last, code)) => say(0, format!("\ngoaway {last} {code}")),
                    Err(_) => say(0, "\ngoaway ?".into()),
                }
            }
            Kind::PushPromise | Kind::Unknown(_) => say(id, format!("\n{id} {:?}", header.kind)),
            _ => {}
        }
    }
    if !to_client {
        // The reference says of streams that it never opened that they are over.
        streams.retain(|_, said| said.iter().any(|(text, _)| text.windows(6).any(|word| word == b"fields")));
    }
    let mut told = Told { bytes: Vec::new(), ends: Vec::new() };
    for (number, said) in streams.into_values().enumerate() {
        // Numbers of streams are the proxy's choice; at clients they are those of the requests.
        let prefix = if to_client { String::new() } else { format!("\nrequest {}", number + 1) };
        for (n, (text, end)) in said.into_iter().enumerate() {
            let text = match to_client {
                true => text,
                false => without_number(text),
            };
            if n == 0 {
                told.push(prefix.as_bytes(), end);
            }
            told.push(&text, end);
        }
    }
    told
}

/// What is said of a stream, without its number at the start of the line.
fn without_number(mut text: Vec<u8>) -> Vec<u8> {
    if text.first() == Some(&b'\n') {
        let digits = text[1..].iter().take_while(|b| b.is_ascii_digit()).count();
        text.drain(1..=digits);
    }
    text
}
