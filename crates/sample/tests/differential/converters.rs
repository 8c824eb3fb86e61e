//! Converters with odd arguments.

use super::oracle::Reference;
use super::values::{CHARS, INTS, Random, SMALL, STRINGS, argument};

/// A converter with arguments, most of them sensible. Never `has_ctl` without any: in 3.5-dev5 it changes what
/// other converters take for an argument that was not given.
pub fn converter(random: &mut Random, reference: &Reference) -> String {
    const PLAIN: [&str; 45] = [
        "b64dec",
        "base64",
        "bool",
        "cpl",
        "crc32",
        "crc32c",
        "djb2",
        "even",
        "odd",
        "not",
        "neg",
        "hex",
        "hex2i",
        "htonl",
        "length",
        "lower",
        "upper",
        "sdbm",
        "wt6",
        "xxh32",
        "xxh64",
        "xxh3",
        "sha1",
        "sha2",
        "ub64dec",
        "ub64enc",
        "url_dec",
        "url_enc",
        "cut_crlf",
        "host_only",
        "port_only",
        "json",
        "base2",
        "reverse",
        "reverse_dom",
        "rfc7239_is_valid",
        "rfc7239_n2nn",
        "rfc7239_n2np",
        "rfc7239_nn",
        "rfc7239_np",
        "date",
        "fix_is_valid",
        "mqtt_is_valid",
        "lower",
        "fe_exists",
    ];
    const PACKET: [&str; 27] = [
        "eth.data",
        "eth.dst",
        "eth.hdr",
        "eth.proto",
        "eth.src",
        "eth.vlan",
        "ip.data",
        "ip.df",
        "ip.dst",
        "ip.fp",
        "ip.hdr",
        "ip.proto",
        "ip.src",
        "ip.tos",
        "ip.ttl",
        "ip.ver",
        "tcp.dst",
        "tcp.flags",
        "tcp.options.mss",
        "tcp.options.sack",
        "tcp.options.tsopt",
        "tcp.options.wscale",
        "tcp.options_list",
        "tcp.seq",
        "tcp.src",
        "tcp.win",
        "tcp.options.tsval",
    ];
    loop {
        let r = &mut *random;
        let text = match r.below(34) {
            0..=8 => r.pick(&PLAIN).to_string(),
            9 | 10 => {
                let name = r.pick(&["add", "sub", "mul", "div", "mod", "and", "or", "xor"]);
                format!("{name}({})", if r.below(6) == 0 { r.variable() } else { r.pick(&INTS).to_string() })
            }
            11 | 12 => {
                let name = r.pick(&["field", "word"]);
                let chars = argument(r.pick(&CHARS));
                match r.below(3) {
                    0 => format!("{name}({},{chars},{})", r.pick(&SMALL), r.pick(&SMALL)),
                    _ => format!("{name}({},{chars})", r.pick(&SMALL)),
                }
            }
            13 => format!("{}({})", r.pick(&["ltrim", "rtrim"]), argument(r.pick(&CHARS))),
            14 => match r.below(3) {
                2 => format!("bytes({},{})", r.variable(), r.pick(&SMALL)),
                0 => format!("bytes({})", r.pick(&SMALL)),
                _ => format!("bytes({},{})", r.pick(&SMALL), r.pick(&SMALL)),
            },
            15 => format!(
                "concat({},{},{})",
                argument(r.pick(&STRINGS)),
                if r.below(3) == 0 { r.variable() } else { String::new() },
                argument(r.pick(&STRINGS))
            ),
            16 => format!(
                "add_item({},{},{})",
                argument(r.pick(&CHARS)),
                if r.below(3) == 0 { r.variable() } else { String::new() },
                argument(r.pick(&STRINGS))
            ),
            17 => {
                let name = r.pick(&["be2dec", "le2dec", "be2hex"]);
                format!(
                    "{name}({},{},{})",
                    argument(r.pick(&CHARS)),
                    r.pick(&SMALL),
                    r.pick(&["0", "1", "0", "2"])
                )
            }
            18 => format!("json({})", r.pick(&["ascii", "utf8", "utf8s", "utf8p", "utf8ps", "bad"])),
            19 => {
                let path = r.pick(&[
                    "$.a",
                    "$.b.c[2].d",
                    "$.s",
                    "$.f",
                    "$.t",
                    "$.n",
                    "$",
                    "$[0][0]",
                    "$[1].a",
                    "$.b",
                    "$[2]",
                    "$[4]",
                    "x",
                ]);
                match r.below(3) {
                    0 => format!("json_query('{path}','int')"),
                    _ => format!("json_query('{path}')"),
                }
            }
            20 => format!("language({})", r.pick(&["'fr;en'", "en", "'de;fr-CA;es'", "'en;fr',dflt"])),
            21 => format!(
                "param({}{})",
                r.pick(&["a", "x", "y", "q", "empty"]),
                r.pick(&["", ",;", ",0x26", ",'&'", ",ab"])
            ),
            22 => {
                let re = r.pick(&[
                    "[aeiou]", "(.)(.)", "^a", "x*", "\\.", "[^a-z]+", "$", "b|c", "(a)?b", "(?:", ".",
                ]);
                let to = r.pick(&["", "-", "[\\0]", "\\1\\2", "<\\1>", "\\x41", "y"]);
                format!("regsub('{re}','{to}'{})", r.pick(&["", ",g", ",i", ",gi", ",z"]))
            }
            23 => {
                let name = r.pick(&["utime", "ltime", "ms_utime", "us_utime", "ms_ltime", "us_ltime"]);
                let format =
                    r.pick(&["%Y-%m-%d", "%s", "%c", "%Z", "%H:%M:%S.%3N", "%N", "%j %a", "%%", "%6N|%Q"]);
                match r.below(3) {
                    0 => format!("{name}('{format}',{})", r.pick(&["0", "3600", "-1"])),
                    _ => format!("{name}('{format}')"),
                }
            }
            24 => format!("http_date({})", r.pick(&["", "0", "5", "-5", "0,s", "1,ms", "1,us", "0,h"])),
            25 => format!(
                "ipmask({})",
                r.pick(&["24", "8", "0", "32", "255.255.0.0", "24,64", "8,ffff::", "33", "16,128", "16,0"])
            ),
            26 => format!("rfc7239_field({})", r.pick(&["for", "by", "host", "proto", "x"])),
            27 => format!(
                "{}({})",
                r.pick(&["crc32", "crc32c", "djb2", "sdbm", "wt6", "xxh32", "xxh64", "xxh3"]),
                r.pick(&["0", "1", "2", "-5"])
            ),
            28 => format!(
                "{}({})",
                r.pick(&["digest", "digest"]),
                r.pick(&["sha256", "SHA1", "md5", "sha512", "nope", "sha3-256"])
            ),
            29 => format!(
                "hmac({},{})",
                r.pick(&["sha256", "sha1", "md5"]),
                r.pick(&["a2V5", "'a2V5MQ=='", "bad", "txn.none"])
            ),
            30 => {
                let name = r.pick(&["protobuf", "ungrpc"]);
                let field = r.pick(&["1", "2", "1.2", "15", "0", "2.1"]);
                match r.below(2) {
                    0 => format!("{name}({field})"),
                    _ => format!(
                        "{name}({field},{})",
                        r.pick(&["int32", "sint64", "fixed32", "double", "bool", "string"])
                    ),
                }
            }
            31 => r.pick(&PACKET).to_string(),
            32 => {
                let name = r.pick(&[
                    "map",
                    "map_str",
                    "map_str_int",
                    "map_beg",
                    "map_beg_int",
                    "map_sub",
                    "map_dir",
                    "map_dom",
                    "map_end",
                    "map_int",
                    "map_ip",
                    "map_ip_int",
                    "map_reg",
                    "map_regm",
                    "map_str_key",
                    "map_beg_key",
                    "map_int_int",
                    "map_dom_int",
                    "map_ip_ip",
                    "map_str_ip",
                    "map_reg_int",
                    "map_sub_int",
                    "map_end_int",
                    "map_dir_int",
                    "map_sub_key",
                    "map_int_key",
                    "map_ip_key",
                    "map_reg_key",
                    "map_end_str",
                    "map_int_str",
                ]);
                let file = match r.below(3) {
                    // Most often one whose keys are of the right kind.
                    0 => r.pick(&["@MAP0@", "@MAP1@", "@MAP2@", "@MAP3@", "@MAP4@"]),
                    _ if name.starts_with("map_int") => "@MAP2@",
                    _ if name.starts_with("map_ip") => "@MAP3@",
                    _ if name.starts_with("map_reg") => "@MAP4@",
                    _ => r.pick(&["@MAP0@", "@MAP1@"]),
                };
                match name.ends_with("_key") || r.below(2) == 0 {
                    true => format!("{name}({file})"),
                    false => {
                        let default =
                            if name.ends_with("_int") { "77" } else { r.pick(&["dflt", "1.2.3.4", "' '"]) };
                        format!("{name}({file},{default})")
                    }
                }
            }
            _ => match r.below(7) {
                5 => r
                    .pick(&["capture-req(0)", "capture-req(1)", "capture-res(0)", "capture-req(7)"])
                    .to_string(),
                6 => {
                    let var = r.variable();
                    match r.below(3) {
                        0 => format!("set-var({var}),concat(-,{var},-)"),
                        1 => format!("set-var({var}),unset-var({var})"),
                        _ => format!("set-var({var}),add({var})"),
                    }
                }
                0 => format!("iif({},{})", argument(r.pick(&STRINGS)), argument(r.pick(&STRINGS))),
                1 => format!("has_ctl({})", r.pick(&["any", "http", "0x200", "512", "-1", "y"])),
                2 => r
                    .pick(&[
                        "url_dec(0)",
                        "url_dec(1)",
                        "nbsrv",
                        "srv_is_up",
                        "sha2(384)",
                        "sha2(1)",
                        "x509_v_err_str",
                    ])
                    .to_string(),
                3 => "set-var(txn.o),strcmp(txn.o)".into(),
                _ => format!(
                    "set-var(txn.o{})",
                    r.pick(&["", ",ifexists", ",ifnotexists", ",ifempty", ",ifnotset", ",bad"])
                ),
            },
        };
        let name = text.split('(').next().unwrap_or_default();
        if reference.has_converter(name) {
            return text;
        }
    }
}
