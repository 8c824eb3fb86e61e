//! The properties of `properties/mod.rs`, held against a fixed number of mutations of the cases. The same
//! seeds every time, so that a failure is one to look at, not to wait for.

mod properties;

use properties::{Mode, chunks, head};

const CASES: [&str; 5] = [
    include_str!("data/requests.txt"),
    include_str!("data/framing.txt"),
    include_str!("data/relaxed.txt"),
    include_str!("data/responses.txt"),
    include_str!("data/chunks.txt"),
];

/// Bytes and words that mean something to one parser or another.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"\r\n ",
    b"\r\n\r\n",
    b"\xff",
    b"\x0b",
    b"content-length: 3\r\n",
    b"Content-Length:5,5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"connection: close, upgrade\r\n",
    b"upgrade: websocket, h2c\r\n",
    b"host: a\r\n",
    b"HOST: b:80\r\n",
    b"te: trailers\r\n",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"http://a:80",
    b"CONNECT",
    b"0\r\n",
    b"ffffffffffffffff",
    b"chunked",
    b"\"",
    b"#",
    b"@",
];

/// xorshift64*: small, fast, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// The inputs of the cases. Escapes are resolved roughly: it does not matter here.
fn corpus() -> Vec<Vec<u8>> {
    let mut corpus = Vec::new();
    for file in CASES {
        let mut input = Vec::new();
        for line in file.lines().chain(["## "]) {
            if let Some(text) = line.strip_prefix('>') {
                let text = text.strip_prefix(' ').unwrap_or(text);
                let (text, end) = text.strip_suffix('\\').map_or((text, "\r\n"), |text| (text, ""));
                let text =
                    text.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\0", "\0");
                input.extend_from_slice(text.as_bytes());
                input.extend_from_slice(end.as_bytes());
            } else if line.starts_with("##") && !input.is_empty() {
                corpus.push(std::mem::take(&mut input));
            }
        }
    }
    corpus
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>], input: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(7) {
            0 => {
                let word = WORDS[random.below(WORDS.len())];
                input.splice(at..at, word.iter().copied());
            }
            1 if at < input.len() => input[at] ^= 1 << random.below(8),
            2 if at < input.len() => {
                input.remove(at);
            }
            3 => {
                let end = (at + random.below(20)).min(input.len());
                input.drain(at..end);
            }
            4 => {
                let end = (at + random.below(40)).min(input.len());
                let part = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, part);
            }
            5 => {
                let other = &corpus[random.below(corpus.len())];
                input.truncate(at);
                input.extend_from_slice(&other[random.below(other.len())..]);
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                let end = (at + word.len()).min(input.len());
                input.splice(at..end, word.iter().copied());
            }
        }
    }
}

#[test]
fn mutated_heads_keep_their_properties() {
    let corpus = corpus();
    let mut random = Random(0x5eed_0001);
    let mut accepted = 0;
    for round in 0..60_000 {
        let mut input = corpus[random.below(corpus.len())].clone();
        mutate(&mut random, &corpus, &mut input);
        let mode = random.next() as u8;
        let cut = random.next() as usize;
        accepted += usize::from(head(Mode::from_byte(mode), cut, &input));
        // Were nothing accepted any more, nothing would be tested.
        assert!(round < 1000 || accepted > round / 50, "only {accepted} of {round} accepted");
    }
}

#[test]
fn mutated_bodies_keep_their_properties() {
    let corpus: Vec<_> =
        corpus().into_iter().filter(|input| input.first().is_some_and(u8::is_ascii_hexdigit)).collect();
    let mut random = Random(0x5eed_0002);
    let mut complete = 0;
    for round in 0..40_000 {
        let mut input = corpus[random.below(corpus.len())].clone();
        mutate(&mut random, &corpus, &mut input);
        complete += usize::from(chunks(random.next() as usize, &input));
        assert!(round < 1000 || complete > round / 50, "only {complete} of {round} complete");
    }
}
