//! Error replies of a proxy: `errorfile`, `errorfiles`, `errorloc*`, `http-error`, and `http-errors` sections.

use crate::keyword::{RuleEnv, Words};
use crate::reply::{Body, Reply, ReplyUse};
use crate::ruleset::Kind;
use crate::{compile, default_replies};
use std::fmt;
use std::sync::Arc;
use thalweg_http::{Head, RewriteError, Version, ascii};
use thalweg_sample::CompileEnv;
use thalweg_syntax::carry::restore;

/// The statuses of replies that we may generate.
pub const GENERATED_CODES: [u16; 21] =
    [200, 400, 401, 403, 404, 405, 407, 408, 410, 413, 414, 421, 422, 425, 429, 431, 500, 501, 502, 503, 504];

/// True for a status that we may generate, and whose reply can be configured.
pub fn is_generated(status: u16) -> bool {
    GENERATED_CODES.contains(&status)
}

fn slot(status: u16) -> Option<usize> {
    GENERATED_CODES.iter().position(|&code| code == status)
}

/// The name, in lower case, and the value of a field.
pub(crate) type RawField = (Box<[u8]>, Box<[u8]>);

/// A complete response, as read from a file.
pub struct RawReply {
    status: u16,
    reason: Box<[u8]>,
    fields: Vec<RawField>,
    body: Arc<[u8]>,
    /// The file was empty: no response is sent at all.
    silent: bool,
}

impl fmt::Debug for RawReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawReply({}, {} bytes)", self.status, self.body.len())
    }
}

impl RawReply {
    pub(crate) fn new(status: u16, reason: &str, fields: Vec<RawField>, body: Vec<u8>) -> RawReply {
        RawReply { status, reason: reason.as_bytes().into(), fields, body: body.into(), silent: false }
    }

    /// Reads a file that holds a complete response.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn load(path: &str, env: &mut CompileEnv) -> Result<RawReply, String> {
        let mut bytes = env.names.read_file(path).map_err(|_| format!("error opening file '{path}'."))?;
        if bytes.len() > env.bufsize {
            env.warnings.push(format!(
                "custom error message file '{path}' larger than {} bytes. Truncating.",
                env.bufsize
            ));
            bytes.truncate(env.bufsize);
        }
        RawReply::parse(&bytes, env.bufsize).map_err(|e| format!("'{path}': {e}"))
    }

    /// Parses a complete response: HTTP/1.x, lines ended by CR LF or LF.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn parse(bytes: &[u8], max: usize) -> Result<RawReply, String> {
        if bytes.is_empty() {
            return Ok(RawReply {
                status: 0,
                reason: Box::default(),
                fields: Vec::new(),
                body: Arc::from(&b""[..]),
                silent: true,
            });
        }
        let bad = |at: isize| format!("unable to parse headers (error offset: {at})");
        let mut at = 0;
        let line = next_line(bytes, &mut at).ok_or_else(|| bad(-2))?;
        let (status, reason) = status_line(line).ok_or_else(|| bad(0))?;
        if status < 200 {
            return Err(format!("invalid http status code for an error message ({status})"));
        }
        let mut fields: Vec<RawField> = Vec::new();
        let mut announced = None;
        loop {
            let start = at;
            let line = next_line(bytes, &mut at).ok_or_else(|| bad(-2))?;
            if line.is_empty() {
                break;
            }
            let colon = line.iter().position(|&b| b == b':').ok_or_else(|| bad(start as isize))?;
            let (name, value) = (line[..colon].to_ascii_lowercase(), ascii::trim_ows(&line[colon + 1..]));
            if !ascii::is_token(&name) {
                return Err(bad(start as isize));
            }
            match name.as_slice() {
                b"transfer-encoding" => return Err("chunk-encoded payload not supported".into()),
                b"content-length" => announced = thalweg_http::semantics::parse_length(value),
                // How the connection goes on is decided when the reply is sent.
                b"connection" | b"keep-alive" | b"proxy-connection" => continue,
                _ => {}
            }
            fields.push((name.into(), value.into()));
        }
        let body = &bytes[at..];
        match announced {
            Some(length) if length != body.len() as u64 => {
                return Err(format!(
                    "payload size does not match the announced content-length ({} != {length})",
                    body.len()
                ));
            }
            Some(_) => {}
            None => {
                fields.push((b"content-length".as_slice().into(), body.len().to_string().into_bytes().into()))
            }
        }
        let head: usize = fields.iter().map(|(n, v)| n.len() + v.len() + 4).sum();
        if head + body.len() + 64 > max {
            return Err("unable to add payload into the HTX message".into());
        }
        Ok(RawReply { status, reason: reason.into(), fields, body: body.into(), silent: false })
    }

    /// The status of the response.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// True when the file was empty: close without a response.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// As [`Reply::write`].
    pub(crate) fn write(&self, head: &mut Head, body: &mut Vec<u8>) -> Result<bool, RewriteError> {
        if self.silent {
            return Ok(false);
        }
        // A status line without a reason gets the usual one.
        let reason = Some(&self.reason[..]).filter(|reason| !reason.is_empty());
        head.start_response(Version::HTTP_11, self.status, reason)?;
        for (name, value) in &self.fields {
            head.push(name, value)?;
        }
        body.extend_from_slice(&self.body);
        Ok(true)
    }
}

fn next_line<'b>(bytes: &'b [u8], at: &mut usize) -> Option<&'b [u8]> {
    let rest = &bytes[*at..];
    let end = rest.iter().position(|&b| b == b'\n')?;
    *at += end + 1;
    Some(rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]))
}

fn status_line(line: &[u8]) -> Option<(u16, &[u8])> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let [b'0' | b'1', b' ', a, b, c, rest @ ..] = rest else { return None };
    let digit = |d: &u8| d.is_ascii_digit().then(|| u16::from(d - b'0'));
    let status = digit(a)? * 100 + digit(b)? * 10 + digit(c)?;
    match rest {
        [] => Some((status, rest)),
        [b' ', reason @ ..] => Some((status, reason)),
        _ => None,
    }
}

/// The error replies of one proxy: those it configures, by status.
#[derive(Clone, Debug, Default)]
pub struct ErrorReplies {
    slots: [Option<Arc<Reply>>; GENERATED_CODES.len()],
}

impl ErrorReplies {
    /// The configured reply for `status`.
    pub fn find(&self, status: u16) -> Option<&Reply> {
        self.slots[slot(status)?].as_deref()
    }

    /// Sets the reply for `status`, or removes it.
    pub fn set(&mut self, status: u16, reply: Option<Arc<Reply>>) {
        if let Some(slot) = slot(status) {
            self.slots[slot] = reply;
        }
    }

    /// True when nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(Option::is_none)
    }

    /// Takes the replies of `other` for `codes`, or all of them when `codes` is empty.
    pub fn import(&mut self, other: &ErrorReplies, codes: &[u16]) {
        for (i, reply) in other.slots.iter().enumerate() {
            if reply.is_some() && (codes.is_empty() || codes.contains(&GENERATED_CODES[i])) {
                self.slots[i].clone_from(reply);
            }
        }
    }
}

/// An `http-errors` section.
#[derive(Clone, Debug, Default)]
pub struct HttpErrors {
    /// Its name.
    pub name: Box<str>,
    /// Its replies.
    pub replies: ErrorReplies,
}

/// A line that configures error replies of a proxy. The order of lines matters, and sections may come later: keep the
/// lines of a proxy and call [`ErrorRule::apply`] on each once everything is read.
#[derive(Clone, Debug)]
pub enum ErrorRule {
    /// `errorfile`, `errorloc*`, `http-error`: this reply; `None` goes back to what would be without.
    Set {
        /// For this status.
        status: u16,
        /// The reply.
        reply: Option<Arc<Reply>>,
    },
    /// `errorfiles`: those of a section.
    Import {
        /// The section.
        section: Box<str>,
        /// For these statuses; empty: all.
        codes: Vec<u16>,
    },
}

impl ErrorRule {
    /// Parses a line from its keyword on: `errorfile`, `errorfiles`, `errorloc`, `errorloc302`, `errorloc303` or
    /// `http-error`.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference, to be shown after `parsing [file:line] : `.
    pub fn parse(words: &[&str], env: &mut RuleEnv) -> Result<ErrorRule, String> {
        let keyword = words.first().copied().unwrap_or_default();
        let args = words.get(1..).unwrap_or_default();
        let result = match keyword {
            "errorfile" => match args {
                [code, path, ..] => generated(code).and_then(|status| {
                    let raw = RawReply::load(path, env.compile)?;
                    Ok(ErrorRule::Set { status, reply: Some(Arc::new(Reply::raw(status, raw))) })
                }),
                _ => Err("expects <status_code> and <file> as arguments.".into()),
            },
            "errorloc" | "errorloc302" | "errorloc303" => match args {
                [code, url, ..] => generated(code).map(|status| {
                    let (redirect, reason) =
                        if keyword == "errorloc303" { (303, "See Other") } else { (302, "Found") };
                    let fields: Vec<RawField> = vec![
                        (b"cache-control".as_slice().into(), b"no-cache".as_slice().into()),
                        (b"content-length".as_slice().into(), b"0".as_slice().into()),
                        (b"location".as_slice().into(), restore(url.as_bytes()).into()),
                    ];
                    let raw = RawReply::new(redirect, reason, fields, Vec::new());
                    ErrorRule::Set { status, reply: Some(Arc::new(Reply::raw(redirect, raw))) }
                }),
                _ => Err("expects <status_code> and <url> as arguments.".into()),
            },
            "errorfiles" => match args {
                [name, codes @ ..] if !name.is_empty() => codes
                    .iter()
                    .map(|code| generated(code))
                    .collect::<Result<Vec<u16>, String>>()
                    .map(|codes| ErrorRule::Import { section: (*name).into(), codes }),
                _ => Err("expects <name> as argument.".into()),
            },
            _ => ErrorRule::http_error(args, env),
        };
        result.map_err(|e| format!("{keyword} : {e}"))
    }

    fn http_error(args: &[&str], env: &mut RuleEnv) -> Result<ErrorRule, String> {
        if !args.contains(&"status") {
            return Err("expects at least a <status> as arguments.".into());
        }
        let mut words = Words::new(Kind::HttpRequest, "http-error", args);
        env.compile.points = Kind::HttpRequest.points(&env.compile.proxy);
        let reply = Reply::parse(&mut words, env, ReplyUse::Error)?;
        if let [other, ..] = words.rest() {
            return Err(format!("unknown keyword '{other}'."));
        }
        let status = reply.status;
        if !is_generated(status) {
            return Err(format!("status code '{status}' not handled."));
        }
        Ok(match reply.body {
            Body::ProxyErrors => ErrorRule::Set { status, reply: None },
            Body::Section { name, .. } => ErrorRule::Import { section: name, codes: vec![status] },
            _ => ErrorRule::Set { status, reply: Some(Arc::new(reply)) },
        })
    }

    /// Applies the line to the replies of its proxy.
    ///
    /// # Errors
    /// The text of the problem, to be shown as `proxy 'name': text (at file:line).`
    ///
    /// Returns what it asked for and did not find, as a warning.
    pub fn apply(
        &self,
        replies: &mut ErrorReplies,
        sections: &dyn Fn(&str) -> Option<Arc<HttpErrors>>,
    ) -> Result<Option<String>, String> {
        match self {
            ErrorRule::Set { status, reply } => replies.set(*status, reply.clone()),
            ErrorRule::Import { section, codes } => {
                let found =
                    sections(section).ok_or_else(|| format!("unknown http-errors section '{section}'"))?;
                replies.import(&found.replies, codes);
                if let Some(missing) = codes.iter().find(|code| found.replies.find(**code).is_none()) {
                    let why = format!("status '{missing}' not declared in http-errors section '{section}'");
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }
}

fn generated(word: &str) -> Result<u16, String> {
    let code = compile::leading(word);
    u16::try_from(code)
        .ok()
        .filter(|&c| is_generated(c))
        .ok_or_else(|| format!("status code '{code}' not handled."))
}

/// The reply to a request that could not be read, before any proxy is known to have others.
pub fn plain_error(status: u16) -> &'static Reply {
    default_replies::default_reply(status)
}
