//! Replies that we make ourselves: what `return`, `deny`, `tarpit` and `http-error` describe.

use crate::action::render;
use crate::compile;
use crate::default_replies::default_reply;
use crate::effects::Effects;
use crate::errors::{ErrorReplies, HttpErrors, RawReply, is_generated};
use crate::keyword::{RuleEnv, Words};
use crate::ruleset::References;
use std::sync::{Arc, OnceLock};
use thalweg_http::semantics::decimal;
use thalweg_http::{Head, HeaderId, RewriteError, Version};
use thalweg_sample::Ctx;
use thalweg_sample::logformat::LogFormat;
use thalweg_syntax::carry::{carry, restore};

/// A reply, compiled.
pub struct Reply {
    /// Its status, 200 to 599.
    pub status: u16,
    /// The `content-type` of its payload; not used with a complete response.
    pub content_type: Option<Box<[u8]>>,
    /// Fields to add, in order.
    pub headers: Vec<(Box<[u8]>, LogFormat)>,
    /// What it carries.
    pub body: Body,
}

/// Where the content of a reply comes from.
pub enum Body {
    /// No payload.
    Empty,
    /// These bytes.
    Static(Arc<[u8]>),
    /// A format, rendered for each reply.
    Format(LogFormat),
    /// A complete response, read from a file (`errorfile`).
    Raw(Arc<RawReply>),
    /// What the proxy answers with for this status (`default-errorfiles`).
    ProxyErrors,
    /// What an `http-errors` section holds for this status (`errorfiles`).
    Section {
        /// The name of the section.
        name: Box<str>,
        /// The section, once the configuration is read.
        errors: OnceLock<Arc<HttpErrors>>,
    },
}

/// What a reply is parsed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyUse {
    /// `return`: 200 by default.
    Return,
    /// `deny` and `tarpit`: this status by default, and the proxy's error for it when nothing else is said.
    Deny(u16),
    /// `http-error`: the status must be said and be one that we generate.
    Error,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply({})", self.status)
    }
}

impl Reply {
    /// A reply without payload.
    pub fn empty(status: u16) -> Reply {
        Reply { status, content_type: None, headers: Vec::new(), body: Body::Empty }
    }

    /// A reply that is a complete response.
    pub fn raw(status: u16, raw: RawReply) -> Reply {
        Reply { status, content_type: None, headers: Vec::new(), body: Body::Raw(Arc::new(raw)) }
    }

    /// Parses the words that describe a reply, up to the condition.
    pub(crate) fn parse(words: &mut Words, env: &mut RuleEnv, usage: ReplyUse) -> Result<Reply, String> {
        let mut reply = Reply::empty(match usage {
            ReplyUse::Return => 200,
            ReplyUse::Deny(status) => status,
            ReplyUse::Error => 0,
        });
        // A refusal without any argument, or with `deny_status` only, means the proxy's own error.
        let mut plain_denial = true;
        let mut source: Option<&str> = None;
        let mut refused_with = false;
        while let Some(word) = words.peek() {
            let content = matches!(
                word,
                "default-errorfiles"
                    | "errorfile"
                    | "errorfiles"
                    | "file"
                    | "lf-file"
                    | "string"
                    | "lf-string"
            );
            if content && let Some(before) = source {
                return Err(format!("unexpected '{word}' argument, '{before}' already defined"));
            }
            match word {
                // The older word stands alone.
                "deny_status" if !plain_denial || refused_with => break,
                "status" | "deny_status" => {
                    refused_with = word == "deny_status";
                    words.next();
                    plain_denial &= word == "deny_status";
                    let code = words.value().ok_or("'status' expects <status_code> as argument")?;
                    let code = compile::leading(code);
                    if !(200..=599).contains(&code) {
                        return Err(format!("Unexpected status code '{code}'"));
                    }
                    reply.status = code as u16;
                    continue;
                }
                "content-type" => {
                    words.next();
                    let value = words.value().ok_or("'content-type' expects <ctype> as argument")?;
                    reply.content_type = Some(restore(value.as_bytes()).into());
                }
                "hdr" => reply.read_header(words, env)?,
                _ if content => {
                    words.next();
                    reply.body = content_of(word, words, env)?;
                }
                _ => break,
            }
            if content {
                source = Some(word);
            }
            plain_denial = false;
        }
        if plain_denial && matches!(usage, ReplyUse::Deny(_)) {
            reply.body = Body::ProxyErrors;
            source = Some("default-errorfiles");
        }
        reply.check(source, env)?;
        Ok(reply)
    }

    /// `hdr <name> <format>`
    fn read_header(&mut self, words: &mut Words, env: &mut RuleEnv) -> Result<(), String> {
        words.next();
        let (Some(name), Some(format)) = (words.value(), words.value()) else {
            return Err("'hdr' expects <name> and <value> as arguments".into());
        };
        let format = compile::format(format, env.compile)?;
        let name = name.to_ascii_lowercase();
        // These say what the payload is: they are written from it.
        if ["content-length", "transfer-encoding", "content-type"].contains(&name.as_str()) {
            env.compile.warnings.push(format!("header '{name}' always ignored by the http reply."));
        } else {
            self.headers.push((name.into_bytes().into(), format));
        }
        Ok(())
    }

    /// Checks what depends on several arguments, and drops what has no effect with a warning.
    fn check(&mut self, source: Option<&str>, env: &mut RuleEnv) -> Result<(), String> {
        let status = self.status;
        let mut ignored = |what: String| env.compile.warnings.push(what);
        let complete = matches!(self.body, Body::Raw(_) | Body::ProxyErrors | Body::Section { .. });
        if complete {
            if !matches!(self.body, Body::Raw(_)) && !is_generated(status) && status != 0 {
                let source = source.unwrap_or_default();
                return Err(format!(
                    "status code '{status}' not handled by default with '{source}' argument."
                ));
            }
            if let Some(kind) = self.content_type.take() {
                let kind = String::from_utf8_lossy(&kind).into_owned();
                ignored(format!(
                    "content-type '{kind}' ignored by the http reply when used with an errorfile."
                ));
            }
            if !self.headers.is_empty() {
                self.headers.clear();
                ignored("hdr parameters ignored by the http reply when used with an errorfile.".into());
            }
            return Ok(());
        }
        if matches!(self.body, Body::Empty) {
            if source == Some("lf-file") && self.content_type.is_none() {
                return Err("a content type must be defined with a log-format payload".into());
            }
            if let Some(kind) = self.content_type.take() {
                let kind = String::from_utf8_lossy(&kind).into_owned();
                ignored(match source {
                    Some(_) => {
                        format!(
                            "content-type '{kind}' ignored by the http reply when used with an empty payload."
                        )
                    }
                    None => format!(
                        "content-type '{kind}' ignored by the http reply because neither errorfile nor payload \
                         defined."
                    ),
                });
            }
            return Ok(());
        }
        if self.content_type.is_none() {
            return Err("a content type must be defined when non-empty payload is configured".into());
        }
        if matches!(status, 204 | 304) {
            return Err(format!("No body expected for {status} responses"));
        }
        Ok(())
    }

    /// Finds the `http-errors` section that it refers to.
    pub(crate) fn resolve(&self, references: &References) -> Result<(), String> {
        if let Body::Section { name, errors } = &self.body {
            let found = (references.http_errors)(name).ok_or_else(|| {
                format!("unknown http-errors section '{name}' referenced by an http reply .")
            })?;
            let _ = errors.set(found);
        }
        Ok(())
    }

    /// The reply that is really meant: follows `default-errorfiles` and `errorfiles` to the errors of the backend, of
    /// the frontend, and to ours.
    pub fn resolved<'a>(
        &'a self,
        backend: Option<&'a ErrorReplies>,
        frontend: Option<&'a ErrorReplies>,
    ) -> &'a Reply {
        match &self.body {
            Body::Section { errors, .. } => {
                if let Some(found) = errors.get().and_then(|e| e.replies.find(self.status)) {
                    return found;
                }
            }
            Body::ProxyErrors => {}
            _ => return self,
        }
        reply_for(self.status, backend, frontend)
    }

    /// Writes the reply: its head into `head`, which is cleared first, and its payload into `body`.
    ///
    /// The head has a `content-length`; whether the payload is sent (not for HEAD) and the fields about the connection
    /// are the sender's affair. A reply to be [resolved](Reply::resolved) must have been. An empty `errorfile` means
    /// no response at all: the result is false, and the connection is to be closed.
    ///
    /// # Errors
    /// When the reply does not fit in a buffer, or a rendered field has forbidden bytes: answer 500 instead.
    pub fn write(
        &self,
        cx: &mut Ctx,
        fx: &mut Effects,
        head: &mut Head,
        body: &mut Vec<u8>,
    ) -> Result<bool, RewriteError> {
        head.clear();
        body.clear();
        // Formats below may ask which status is being answered.
        if let Some(stream) = cx.stream.as_deref_mut() {
            stream.status = self.status.into();
        }
        match &self.body {
            Body::Raw(raw) => return raw.write(head, body),
            Body::ProxyErrors | Body::Section { .. } => {
                return default_reply(self.status).write(cx, fx, head, body);
            }
            Body::Empty => {}
            Body::Static(bytes) => body.extend_from_slice(bytes),
            Body::Format(format) => render(format, cx, body),
        }
        head.start_response(Version::HTTP_11, self.status, None)?;
        for (name, format) in &self.headers {
            render(format, cx, &mut fx.text);
            // An empty value adds nothing.
            if !fx.text.is_empty() {
                head.push(name, &fx.text)?;
            }
        }
        let mut digits = [0; 20];
        head.push_id(HeaderId::ContentLength, decimal(body.len() as u64, &mut digits))?;
        if let Some(kind) = &self.content_type
            && !body.is_empty()
        {
            head.push_id(HeaderId::ContentType, kind)?;
        }
        Ok(true)
    }
}

/// What the body is, as the word says that was read.
fn content_of(word: &str, words: &mut Words, env: &mut RuleEnv) -> Result<Body, String> {
    let what = match word {
        "default-errorfiles" => return Ok(Body::ProxyErrors),
        "errorfile" => "<fullpath>",
        "errorfiles" => "<http_errors_name>",
        "string" => "<str>",
        "lf-string" => "<fmt>",
        _ => "<file>",
    };
    let value = words.value().ok_or_else(|| format!("'{word}' expects {what} as argument"))?;
    Ok(match word {
        "errorfile" => Body::Raw(Arc::new(RawReply::load(value, env.compile)?)),
        "errorfiles" => Body::Section { name: value.into(), errors: OnceLock::new() },
        "string" => Body::Static(restore(value.as_bytes()).into()),
        "lf-string" => Body::Format(compile::raw_format(value, env.compile)?),
        _ => {
            let bytes = payload_file(value, env)?;
            match word {
                _ if bytes.is_empty() => Body::Empty,
                "file" => Body::Static(bytes.into()),
                _ => Body::Format(compile::raw_format(&carry(&bytes), env.compile)?),
            }
        }
    })
}

/// The reply to make for `status`: that of the backend if it has one, else of the frontend, else ours. A status that we
/// have no reply for is answered as 500.
pub fn reply_for<'a>(
    status: u16,
    backend: Option<&'a ErrorReplies>,
    frontend: Option<&'a ErrorReplies>,
) -> &'a Reply {
    backend
        .and_then(|e| e.find(status))
        .or_else(|| frontend.and_then(|e| e.find(status)))
        .unwrap_or_else(|| default_reply(status))
}

/// Reads a payload, which must fit in a buffer.
fn payload_file(path: &str, env: &RuleEnv) -> Result<Vec<u8>, String> {
    let bytes = env.compile.names.read_file(path).map_err(|_| format!("error opening file '{path}'"))?;
    let max = env.compile.bufsize;
    if bytes.len() > max {
        return Err(format!("file '{path}' exceeds the buffer size ({} > {max})", bytes.len()));
    }
    Ok(bytes)
}
