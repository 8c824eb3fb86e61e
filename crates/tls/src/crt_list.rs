//! Files that list certificates (`crt-list`): a certificate per line, options in brackets, names that it is for.

use crate::certificate::{DummyWords, Parts};
use crate::options::words::{Read, Words};
use crate::x509::make::NewKey;

/// The longest file that is read, in lines.
const LINES_MAX: usize = 1_000_000;

/// The words of a `bind` line that a certificate may have for itself; the others are about the whole listener.
const OWN_WORDS: [&str; 17] = [
    "allow-0rtt",
    "alpn",
    "ca-file",
    "ca-verify-file",
    "ciphers",
    "ciphersuites",
    "client-sigalgs",
    "crl-file",
    "curves",
    "ecdhe",
    "no-alpn",
    "no-ca-names",
    "npn",
    "sigalgs",
    "ssl-max-ver",
    "ssl-min-ver",
    "verify",
];

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The certificate's file, or its name in a `crt-store` (`@store/name`).
    pub path: String,
    pub words: Words,
    /// What stood between the brackets, as `show ssl crt-list` prints it.
    pub options: Vec<String>,
    /// The parts of the certificate that stand in other files.
    pub parts: Parts,
    /// `ocsp-update on|off`
    pub ocsp_update: Option<bool>,
    /// `jwt on|off`
    pub jwt: Option<bool>,
    /// Names as they were written, with star and exclamation mark.
    pub filters: Vec<String>,
    /// Counted from 1.
    pub number: usize,
}

/// A file that cannot be read. The text follows `'crt-list' : `.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListError(pub String);

impl std::fmt::Display for ListError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ListError {}

/// Reads a whole file. `name` is how messages call it.
pub fn parse(name: &str, text: &str) -> Result<Vec<Line>, ListError> {
    let mut lines = Vec::new();
    if let Some(last) = text.rsplit('\n').next().filter(|last| !last.is_empty()) {
        let number = text.split('\n').count();
        return Err(ListError(format!(
            "parsing [{name}:{number}]: Missing LF on last line, file might have been truncated at position {}.",
            last.len() + 1
        )));
    }
    for (index, text) in text.lines().enumerate() {
        if index >= LINES_MAX {
            return Err(ListError(format!("parsing [{name}:{index}]: more than {LINES_MAX} lines.")));
        }
        if let Some(line) = parse_line(name, index + 1, text)? {
            lines.push(line);
        }
    }
    Ok(lines)
}

/// Reads one line; None when it is empty or a comment.
pub fn parse_line(name: &str, number: usize, text: &str) -> Result<Option<Line>, ListError> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let error = |why: String| ListError(format!("parsing [{name}:{number}]: {why}"));
    let (path, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    if path.starts_with('[') {
        return Err(error("file must start with a cert".to_owned()));
    }
    let mut line = Line { path: path.to_owned(), number, ..Line::default() };
    line.parts.certificate = path.to_owned();
    let rest = rest.trim_start();
    let filters = match rest.strip_prefix('[') {
        None => rest,
        Some(inside) => {
            // A bracket that nothing closes ends with the line, as in the reference.
            let (options, filters) = inside.split_once(']').unwrap_or((inside, ""));
            line.options = options.split_whitespace().map(str::to_owned).collect();
            read_options(&mut line).map_err(|why| match why {
                Why::Here(why) => error(why),
                Why::Words(why) => ListError(why),
            })?;
            filters
        }
    };
    for filter in filters.split_whitespace() {
        if filter.starts_with('[') {
            return Err(error("too many '['".to_owned()));
        }
        if filter.ends_with(']') && !filter.contains('[') {
            return Err(error("missing '['".to_owned()));
        }
        line.filters.push(filter.to_owned());
    }
    Ok(Some(line))
}

/// Reads a line that is given in words, all of them options: `ssl-f-use`. An error stands alone.
pub fn of_words(words: &[&str], number: usize) -> Result<Line, String> {
    let mut line = Line { number, ..Line::default() };
    let mut at = 0;
    while at < words.len() {
        let (word, value) = (words[at], words.get(at + 1).copied());
        let taken = match (word, value) {
            ("crt", Some(path)) if !path.is_empty() => {
                line.path = path.to_owned();
                line.parts.certificate = path.to_owned();
                1
            }
            ("crt", _) => return Err("'crt' : missing certificate location".to_owned()),
            _ => match read_own(&mut line, word, &words[at + 1..])? {
                Read::Taken(after) => after,
                Read::NotMine => read_part(&mut line, word, value).map_err(|why| match why {
                    Why::Here(why) if why.starts_with("unknown ") => format!("unknown crt keyword '{word}'"),
                    Why::Here(why) | Why::Words(why) => why,
                })?,
            },
        };
        line.options.extend(words[at..words.len().min(at + 1 + taken)].iter().map(|word| (*word).to_owned()));
        at += 1 + taken;
    }
    if line.path.is_empty() {
        return Err("Trying to load a certificate but no 'crt' keyword specified.".to_owned());
    }
    Ok(line)
}

enum Why {
    /// The line is wrong.
    Here(String),
    /// A word is: its own text says all.
    Words(String),
}

fn read_options(line: &mut Line) -> Result<(), Why> {
    let options = line.options.clone();
    let all: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut at = 0;
    while at < all.len() {
        let word = all[at];
        let taken = match read_own(line, word, &all[at + 1..]) {
            Ok(Read::Taken(after)) => after,
            Ok(Read::NotMine) => read_part(line, word, all.get(at + 1).copied())?,
            Err(_) if at + 1 == all.len() => {
                return Err(Why::Here(format!("ssl args out of '[]' for {word}")));
            }
            Err(why) => return Err(Why::Words(why)),
        };
        at += 1 + taken;
    }
    Ok(())
}

/// The words of a `bind` line that a certificate may have for itself.
fn read_own(line: &mut Line, word: &str, after: &[&str]) -> Result<Read, String> {
    if OWN_WORDS.contains(&word) { line.words.read(word, after) } else { Ok(Read::NotMine) }
}

/// The words of `load` that a line may have, too.
fn read_part(line: &mut Line, word: &str, value: Option<&str>) -> Result<usize, Why> {
    let slot = match word {
        "key" => &mut line.parts.key,
        "ocsp" => &mut line.parts.ocsp,
        "issuer" => &mut line.parts.issuer,
        "sctl" => &mut line.parts.sctl,
        "ocsp-update" => {
            line.ocsp_update = Some(on_or_off(word, value)?);
            return Ok(1);
        }
        "jwt" => {
            line.jwt = Some(on_or_off(word, value)?);
            return Ok(1);
        }
        "crt" | "alias" | "acme" | "domains" | "ips" | "generate-dummy" | "keytype" | "bits" | "ktls" => {
            return Err(Why::Here(format!("'{word}' is not supported in a crt-list")));
        }
        other => return Err(Why::Here(format!("unknown ssl keyword {other}"))),
    };
    *slot = Some(value.ok_or_else(|| Why::Here(format!("ssl args out of '[]' for {word}")))?.to_owned());
    Ok(1)
}

fn on_or_off(word: &str, value: Option<&str>) -> Result<bool, Why> {
    match value {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        None => Err(Why::Here(format!("ssl args out of '[]' for {word}"))),
        Some(other) => {
            Err(Why::Here(format!("cannot parse '{word}' value '{other}', 'on' or 'off' is expected.")))
        }
    }
}

/// A `load` line of a `crt-store`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub parts: Parts,
    pub alias: Option<String>,
    pub ocsp_update: Option<bool>,
    pub jwt: Option<bool>,
    /// The key of the certificate that is made if there is none (`generate-dummy`).
    pub made: Option<NewKey>,
}

impl Load {
    /// Reads the words after `load`. An error is in the reference's words, without `parsing [file:line] : `.
    pub fn parse(words: &[&str]) -> Result<Load, String> {
        let mut load = Load::default();
        let (mut certificate, mut dummy) = (None, DummyWords::default());
        for pair in words.chunks(2) {
            let (word, value) = (pair[0], pair.get(1).copied());
            let needs =
                || value.ok_or_else(|| format!("'load {word}' in section 'crt-store': missing value."));
            let switch = || match value {
                Some("on") => Ok(true),
                Some("off") => Ok(false),
                other => {
                    let other = other.unwrap_or_default();
                    Err(format!("cannot parse '{word}' value '{other}', 'on' or 'off' is expected."))
                }
            };
            match word {
                "crt" => certificate = Some(needs()?.to_owned()),
                "key" => load.parts.key = Some(needs()?.to_owned()),
                "ocsp" => load.parts.ocsp = Some(needs()?.to_owned()),
                "issuer" => load.parts.issuer = Some(needs()?.to_owned()),
                "sctl" => load.parts.sctl = Some(needs()?.to_owned()),
                "alias" => load.alias = Some(needs()?.to_owned()),
                "ocsp-update" => load.ocsp_update = Some(switch()?),
                "jwt" => load.jwt = Some(switch()?),
                "generate-dummy" => dummy.on = switch()?,
                "keytype" => dummy.kind = Some(needs()?),
                "bits" => dummy.bits = Some(needs()?),
                "curves" => dummy.curve = Some(needs()?),
                "acme" | "domains" | "ips" => {
                    return Err(format!(
                        "'load {word}' in section 'crt-store': '{word}' is not supported: there is no ACME client."
                    ));
                }
                other => {
                    return Err(format!("'load {other}' in section 'crt-store': unknown keyword '{other}'."));
                }
            }
        }
        load.made = dummy.key()?;
        load.parts.certificate = certificate.ok_or_else(|| {
            "'load' in section 'crt-store': mandatory 'crt' parameter not found.".to_owned()
        })?;
        Ok(load)
    }

    /// The name a configuration calls it by: `@store/alias`, or `@store/file`.
    pub fn name(&self, store: &str) -> String {
        // A path from the root on is not begun twice.
        let file = self.parts.certificate.trim_start_matches('/');
        format!("@{store}/{}", self.alias.as_deref().unwrap_or(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "# comment\n\n  a.pem [alpn h2 ciphers ECDHE-RSA-AES128-GCM-SHA256]  *.foo.com\t!bar.foo.com\n\
                    b.pem\nc.pem []\nd.pem [alpn h2\ne.pem [key e.key ocsp-update on jwt on] x#y\n";
        let lines = parse("list", text).unwrap();
        assert_eq!(lines.len(), 5);
        assert_eq!((lines[0].number, lines[0].path.as_str()), (3, "a.pem"));
        assert_eq!(lines[0].filters, ["*.foo.com", "!bar.foo.com"]);
        assert_eq!(lines[0].words.alpn.as_deref(), Some("h2"));
        assert_eq!(lines[1].filters, Vec::<String>::new());
        assert_eq!(lines[3].words.alpn.as_deref(), Some("h2"));
        assert_eq!((lines[4].parts.key.as_deref(), lines[4].ocsp_update), (Some("e.key"), Some(true)));
        assert_eq!((lines[3].jwt, lines[4].jwt), (None, Some(true)));
        assert_eq!(lines[4].filters, ["x#y"]);
    }

    #[test]
    fn lines_that_are_refused() {
        for (text, error) in [
            ("a.pem [foo]\n", "parsing [l:1]: unknown ssl keyword foo"),
            // What is said of a whole listener has no effect on one certificate.
            ("a.pem [strict-sni]\n", "parsing [l:1]: unknown ssl keyword strict-sni"),
            ("a.pem [no-tlsv13]\n", "parsing [l:1]: unknown ssl keyword no-tlsv13"),
            ("a.pem [crt-ignore-err all]\n", "parsing [l:1]: unknown ssl keyword crt-ignore-err"),
            ("a.pem [jwt x]\n", "parsing [l:1]: cannot parse 'jwt' value 'x', 'on' or 'off' is expected."),
            ("a.pem alpn h2] x\n", "parsing [l:1]: missing '['"),
            ("a.pem [alpn h2] [x] y\n", "parsing [l:1]: too many '['"),
            ("a.pem [alpn]\n", "parsing [l:1]: ssl args out of '[]' for alpn"),
            ("\n [alpn h2] x\n", "parsing [l:2]: file must start with a cert"),
            (
                "a.pem [verify foo]\n",
                "'verify' : unknown verify method 'foo', only 'none', 'optional', and 'required' are supported",
            ),
            (
                "a.pem [ocsp-update foo]\n",
                "parsing [l:1]: cannot parse 'ocsp-update' value 'foo', 'on' or 'off' is expected.",
            ),
            (
                "a.pem [no-alpn] x",
                "parsing [l:1]: Missing LF on last line, file might have been truncated at position 18.",
            ),
        ] {
            assert_eq!(parse("l", text).err(), Some(ListError(error.to_owned())), "{text}");
        }
    }

    #[test]
    fn loads() {
        let load = Load::parse(&["crt", "a.crt", "key", "a.key", "alias", "x", "ocsp-update", "on"]).unwrap();
        assert_eq!((load.name("web"), load.ocsp_update), ("@web/x".to_owned(), Some(true)));
        assert_eq!(Load::parse(&["crt", "a.crt"]).unwrap().name("web"), "@web/a.crt");
        assert_eq!(Load::parse(&["crt", "/etc/a.crt"]).unwrap().name("web"), "@web/etc/a.crt");
        for (words, error) in [
            (&["key", "a"][..], "'load' in section 'crt-store': mandatory 'crt' parameter not found."),
            (&["crt", "a", "foo"], "'load foo' in section 'crt-store': unknown keyword 'foo'."),
            (
                &["crt", "a", "ocsp-update", "x"],
                "cannot parse 'ocsp-update' value 'x', 'on' or 'off' is expected.",
            ),
            (
                &["crt", "a", "ips", "x"],
                "'load ips' in section 'crt-store': 'ips' is not supported: there is no ACME client.",
            ),
            (&["crt", "a", "jwt", "x"], "cannot parse 'jwt' value 'x', 'on' or 'off' is expected."),
        ] {
            assert_eq!(Load::parse(words), Err(error.to_owned()));
        }
    }
}
