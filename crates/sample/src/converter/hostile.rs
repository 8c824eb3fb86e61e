//! Hostile input: no converter costs more than linear time in the size of its input, whatever the input is. As for the
//! fetches, work is counted in time, which is only compared with itself.

use super::all;
use crate::testing::Rig;
use crate::vars::VarRef;
use crate::{Expr, Scratch, Text, Value};
use std::time::Instant;

/// Arguments for the converters that need some, chosen to make them look at all of their input.
const ARGUMENTS: &[(&str, &str)] = &[
    ("add", "(1)"),
    ("add_item", "(',',txn.none,x)"),
    ("aes_cbc_dec", "(128,MTIzNDU2Nzg5MDEyMzQ1Ng==,Zm9vb2Zvb29mb29wZm9vbw==)"),
    ("aes_cbc_enc", "(128,MTIzNDU2Nzg5MDEyMzQ1Ng==,Zm9vb2Zvb29mb29wZm9vbw==)"),
    ("aes_gcm_dec", "(128,MTIzNDU2Nzg5MDEy,Zm9vb2Zvb29mb29wZm9vbw==,MTIzNDU2Nzg5MDEyMzQ1Ng==)"),
    ("aes_gcm_enc", "(128,MTIzNDU2Nzg5MDEy,Zm9vb2Zvb29mb29wZm9vbw==,txn.tag)"),
    ("and", "(1)"),
    ("be2dec", "(:,1)"),
    ("be2hex", "(:,1)"),
    ("bytes", "(1)"),
    ("capture-req", "(0)"),
    ("capture-res", "(0)"),
    ("concat", "(x,txn.none,y)"),
    ("digest", "(sha256)"),
    ("div", "(3)"),
    ("field", "(-1,'=/',0)"),
    ("fix_tag_value", "(99)"),
    ("hmac", "(sha256,a2V5)"),
    ("iif", "(a,b)"),
    ("ipmask", "(8,8)"),
    ("json", "(utf8s)"),
    ("json_query", "('$.zz')"),
    ("jwt_decrypt_cert", "(txn.k)"),
    ("jwt_decrypt_jwk", "(txn.k)"),
    ("jwt_decrypt_secret", "(GawgguFyGrWKav7AX4VKUg==)"),
    ("jwt_header_query", "('$.zz')"),
    ("jwt_payload_query", "('$.zz')"),
    ("jwt_verify", "(HS256,secret)"),
    ("jwt_verify_cert", "(RS256,txn.k)"),
    ("language", "('zz;zy;zx')"),
    ("le2dec", "(:,1)"),
    ("ltime", "(%c)"),
    ("ltrim", "('a=,')"),
    ("mod", "(3)"),
    ("mqtt_field_value", "(connect,username)"),
    ("ms_ltime", "(%c)"),
    ("ms_utime", "(%c)"),
    ("mul", "(3)"),
    ("or", "(3)"),
    ("param", "(zz)"),
    ("protobuf", "(99)"),
    ("regsub", "('(a|b|=)+z','x',g)"),
    ("rfc7239_field", "(for)"),
    ("rtrim", "('a=,')"),
    ("secure_memcmp", "(txn.x)"),
    ("set-var", "(txn.y)"),
    ("strcmp", "(txn.x)"),
    ("sub", "(3)"),
    ("ungrpc", "(99)"),
    ("unset-var", "(txn.y)"),
    ("us_ltime", "(%c)"),
    ("us_utime", "(%c)"),
    ("utime", "(%c)"),
    ("when", "(normal)"),
    ("word", "(-1,'=/',0)"),
    ("xor", "(3)"),
];

/// What inputs are made of.
const UNITS: &[&[u8]] = &[
    b"a",
    b"=",
    b"%41",
    b"\\",
    b"[",
    b"{\"a\":",
    b"a=b;",
    b"a,",
    b"a.",
    b"\xc3",
    b"1=2\x01",
    b"\x0a\x02\x08\x05",
    b"\x10",
    b"a;q=0.1,",
    b"\"\\u0041\",",
];

/// Expressions that backtrack are bounded in steps instead.
const MAPS: &str = "(@MAP@)";
/// Maps that give addresses need some.
const ADDRESS_MAPS: &str = "(@IPS@)";

/// The least time of several runs of `work`, in nanoseconds, after one to warm up.
fn least(mut work: impl FnMut()) -> u128 {
    work();
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos().max(1)
    };
    (0..7).map(time).min().unwrap_or(1)
}

#[test]
fn converters_are_linear() {
    let var = VarRef::parse("txn.x").unwrap();
    // Those that ask a table find their key by its hash, and there is no table here.
    for def in all().filter(|def| def.name != "in_table" && !def.name.starts_with("table_")) {
        let given = ARGUMENTS.iter().find(|(name, _)| *name == def.name).map(|(_, arguments)| *arguments);
        let map = def.name == "map" || def.name.starts_with("map_");
        let arguments = match given {
            Some(arguments) => arguments,
            None if map && def.name.ends_with("_ip") && def.name != "map_ip" => ADDRESS_MAPS,
            None if map => MAPS,
            None => "",
        };
        for unit in UNITS {
            let mut rig = Rig::with_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            rig.scratch = Scratch::new(1 << 18);
            rig.world.files.insert("@MAP@".into(), b"1 1\n2 2\n".to_vec());
            rig.world.files.insert("@IPS@".into(), b"1 1.1.1.1\n2 2.2.2.2\n".to_vec());
            let text = format!("var(txn.x),{}{arguments}", def.name);
            let expr = rig.compile(|env| Expr::compile(&text, env)).unwrap();
            let mut measure = |len: usize| {
                let input: &'static [u8] = Box::leak(unit.repeat(len / unit.len()).into_boxed_slice());
                rig.run(|cx| {
                    cx.set_var(var, Value::Bin(Text::Static(input)));
                    least(|| {
                        cx.reset();
                        let _ = expr.eval(cx);
                    })
                })
            };
            // Eight times the input: linear work grows eight times, quadratic sixty-four. A slow moment of the machine must
            // not fail this: the best of several tries counts.
            let mut ratio = f64::MAX;
            for _ in 0..8 {
                let small = measure(1600) as f64;
                // What is too fast to be told from the clock's own cost is no danger.
                let large = measure(12_800) as f64;
                ratio = ratio.min(if large < 3000.0 { 1.0 } else { large / small });
                if ratio < 18.0 {
                    break;
                }
            }
            let unit = String::from_utf8_lossy(unit);
            assert!(ratio < 32.0, "{text} on {unit:?}: eight times the input took {ratio:.0} times the time");
        }
    }
}
