//! HPACK by the RFC's examples, by public vectors where they are, and against itself.

use proptest::prelude::*;
use thalweg_h2::hpack::{DecodeError, Decoder, Encoder, Name, Sink, Strings};
use thalweg_http::HeaderId;

#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Sink for Fields {
    fn field(&mut self, kind: Name, name: &[u8], value: &[u8], _: bool) {
        assert_eq!(kind, Name::of(name), "a name is judged the same wherever it comes from");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        self.0.push((text(name), text(value)));
    }
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut fields = Fields::default();
    decoder.decode(block, &mut Strings::default(), &mut fields).map(|()| fields.0)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |d: u8| (d as char).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A block, its fields, and the size of the table after it.
type Block<'a> = (&'a str, &'a [(&'a str, &'a str)], usize);

/// Blocks of one connection.
fn check(table: usize, blocks: &[Block<'_>]) {
    let mut decoder = Decoder::new(table, 16_384);
    for (hex, fields, size) in blocks {
        let got = decode(&mut decoder, &bytes(hex)).unwrap();
        let wanted: Vec<_> = fields.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        assert_eq!(got, wanted, "{hex}");
        assert_eq!(decoder.table_size(), *size, "{hex}");
    }
}

const A: (&str, &str) = (":authority", "www.example.com");
const G: (&str, &str) = (":method", "GET");

#[test]
fn requests_of_the_rfc() {
    let first: &[_] = &[G, (":scheme", "http"), (":path", "/"), A];
    let second: &[_] = &[G, (":scheme", "http"), (":path", "/"), A, ("cache-control", "no-cache")];
    let third: &[_] = &[G, (":scheme", "https"), (":path", "/index.html"), A, ("custom-key", "custom-value")];
    // RFC 7541 appendix C.3.
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", first, 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", second, 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", third, 164),
        ],
    );
    // RFC 7541 appendix C.4.
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", first, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", second, 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", third, 164),
        ],
    );
}

#[test]
fn responses_of_the_rfc_with_eviction() {
    let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let later = ("date", "Mon, 21 Oct 2013 20:13:22 GMT");
    let (private, location) = (("cache-control", "private"), ("location", "https://www.example.com"));
    let cookie = ("set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    // RFC 7541 appendix C.5.
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                &[(":status", "302"), private, date, location],
                222,
            ),
            ("4803 3330 37c1 c0bf", &[(":status", "307"), private, date, location], 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                &[(":status", "200"), private, later, location, ("content-encoding", "gzip"), cookie],
                215,
            ),
        ],
    );
}

#[test]
fn bad_blocks_are_refused() {
    let refused = |hex: &str| decode(&mut Decoder::new(4096, 16_384), &bytes(hex)).unwrap_err();
    assert_eq!(refused("80"), DecodeError::Index);
    assert_eq!(refused("be"), DecodeError::Index, "the table is empty");
    assert_eq!(refused("7f00 0161"), DecodeError::Index, "as a name too");
    assert_eq!(refused("82 20"), DecodeError::TableSize, "a change of size behind a field");
    assert_eq!(refused("3fe2 1f"), DecodeError::TableSize, "4097");
    assert_eq!(refused("00 0161"), DecodeError::Truncated);
    assert_eq!(refused("00 7f8180 8080 7f"), DecodeError::Integer);
    assert_eq!(refused("00 7fff 7f"), DecodeError::StringLength);
    assert_eq!(refused("00 81ff 00"), DecodeError::Huffman);
}

#[test]
fn a_reduction_must_be_confirmed() {
    let mut decoder = Decoder::new(4096, 16_384);
    decoder.set_allowed(100);
    assert_eq!(decode(&mut decoder, &bytes("82")), Err(DecodeError::TableSize));
    let mut decoder = Decoder::new(4096, 16_384);
    decoder.set_allowed(100);
    assert!(decode(&mut decoder, &bytes("20 3f45 82")).is_ok());
    assert!(decode(&mut decoder, &bytes("82")).is_ok());
    assert_eq!(decode(&mut decoder, &bytes("3f46")), Err(DecodeError::TableSize));
}

#[test]
fn what_must_not_be_indexed_is_not() {
    let mut encoder = Encoder::new(4096);
    for _ in 0..2 {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        encoder.field(HeaderId::Authorization, b"authorization", b"Basic eDp5", &mut block);
        encoder.field(HeaderId::Cookie, b"cookie", b"a=1", &mut block);
        assert_eq!(block[0] & 0xf0, 0x10, "never indexed");
        let mut decoder = Decoder::new(4096, 16_384);
        decode(&mut decoder, &block).unwrap();
        assert_eq!(decoder.table_size(), 0);
    }
}

/// The stories of the public HPACK test vectors, in the folder that `HPACK_VECTORS` names.
#[test]
fn public_vectors() {
    let Some(root) = std::env::var_os("HPACK_VECTORS") else {
        eprintln!("skipped: HPACK_VECTORS names no folder of vectors");
        return;
    };
    let mut blocks = 0;
    for folder in std::fs::read_dir(root).unwrap().flatten().filter(|f| f.path().is_dir()) {
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let Ok(text) = std::fs::read_to_string(file.path()) else { continue };
            let Ok(story) = serde_json::from_str::<serde_json::Value>(&text) else { continue };
            let mut decoder = Decoder::new(4096, 1 << 20);
            for case in story["cases"].as_array().into_iter().flatten() {
                let Some(wire) = case["wire"].as_str() else { continue };
                if let Some(size) = case["header_table_size"].as_u64() {
                    decoder.set_allowed(size as usize);
                }
                let got =
                    decode(&mut decoder, &bytes(wire)).unwrap_or_else(|e| panic!("{:?}: {e}", file.path()));
                let wanted: Vec<(String, String)> = case["headers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .flat_map(|field| field.as_object().unwrap())
                    .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_string()))
                    .collect();
                assert_eq!(got, wanted, "{:?} {wire}", file.path());
                blocks += 1;
            }
        }
    }
    println!("{blocks} blocks");
}

fn field() -> impl Strategy<Value = (String, String)> {
    let names = prop_oneof![
        Just("server".to_string()),
        Just("content-type".to_string()),
        Just("accept-encoding".to_string()),
        Just("cookie".to_string()),
        Just("authorization".to_string()),
        "[a-z][a-z0-9-]{0,20}",
    ];
    (names, prop_oneof![Just("gzip, deflate".to_string()), "[a-c]{0,3}", "\\PC{0,60}"])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(
        blocks in prop::collection::vec((prop::collection::vec(field(), 0..12), prop::option::of(0usize..5000)), 1..20),
        wanted in 0usize..5000,
    ) {
        let mut encoder = Encoder::new(wanted);
        let mut decoder = Decoder::new(4096, 16_384);
        for (fields, resize) in blocks {
            if let Some(size) = resize {
                // Settings are acknowledged before they bind.
                encoder.set_allowed(size);
                decoder.set_allowed(size);
            }
            let mut block = Vec::new();
            encoder.begin(&mut block);
            for (name, value) in &fields {
                encoder.field(HeaderId::from_lower(name.as_bytes()), name.as_bytes(), value.as_bytes(), &mut block);
            }
            // A decoder that is allowed less than its table has wants to be told so, which an encoder that uses less
            // anyway need not do.
            match decode(&mut decoder, &block) {
                Ok(got) => prop_assert_eq!(got, fields),
                Err(error) => prop_assert!(false, "{error}"),
            }
        }
    }

    #[test]
    fn no_block_panics(block in prop::collection::vec(any::<u8>(), 0..200), allowed in 0usize..200) {
        let mut decoder = Decoder::new(200, 100);
        decoder.set_allowed(allowed);
        for part in block.chunks(50) {
            if decode(&mut decoder, part).is_err() {
                break;
            }
            prop_assert!(decoder.table_size() <= 200);
        }
    }
}
