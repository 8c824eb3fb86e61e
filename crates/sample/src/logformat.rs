//! Log formats (manual section 8.2.6): text made of literals, aliases such as `%ci` and expressions such as `%[src]`.
//!
//! Despite their name they also form headers, payloads, variables and unique identifiers; [`Usage`] says which
//! rules apply.

use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::expr::Expr;
use crate::value::{Text, Type};
use std::fmt;
use thalweg_syntax::carry::restore;

mod alias;
mod emit;

pub use alias::{ALIASES, Alias};
use emit::Emitter;

/// `HAPROXY_TCP_LOG_FMT`: what `option tcplog` logs.
pub const TCP_LOG_FMT: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";
/// `HAPROXY_TCP_CLF_LOG_FMT`: what `option tcplog clf` logs.
pub const TCP_CLF_LOG_FMT: &str = "%{+Q}o %{-Q}ci - - [%T] \"TCP \" 000 %B \"\" \"\" %cp %ms %ft %b %s %Th %Tw %Tc %Tt \
                                   %U %ts-- %ac %fc %bc %sc %rc %sq %bq \"\" \"\" ";
/// `HAPROXY_HTTP_LOG_FMT`: what `option httplog` logs.
pub const HTTP_LOG_FMT: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
                                %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
/// `HAPROXY_HTTP_CLF_LOG_FMT`: what `option httplog clf` logs.
pub const HTTP_CLF_LOG_FMT: &str = "%{+Q}o %{-Q}ci - - [%trg] %r %ST %B \"\" \"\" %cp %ms %ft %b %s %TR %Tw %Tc %Tr %Ta \
                                    %tsc %ac %fc %bc %sc %rc %sq %bq %CC %CS %hrl %hsl";
/// `HAPROXY_HTTPS_LOG_FMT`: what `option httpslog` logs.
pub const HTTPS_LOG_FMT: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc \
                                 %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r \
                                 %[fc_err]/%[ssl_fc_err,hex]/%[ssl_c_err]/%[ssl_c_ca_err]/%[ssl_fc_is_resumed] \
                                 %[ssl_fc_sni]/%sslv/%sslc";
/// `HAPROXY_KEYLOG_FC_LOG_FMT`: TLS secrets of client connections.
pub const KEYLOG_FC_LOG_FMT: &str = "CLIENT_RANDOM %[ssl_fc_client_random,hex] %[ssl_fc_session_key,hex]\n\
CLIENT_EARLY_TRAFFIC_SECRET %[ssl_fc_client_random,hex] %[ssl_fc_client_early_traffic_secret]\n\
CLIENT_HANDSHAKE_TRAFFIC_SECRET %[ssl_fc_client_random,hex] %[ssl_fc_client_handshake_traffic_secret]\n\
SERVER_HANDSHAKE_TRAFFIC_SECRET %[ssl_fc_client_random,hex] %[ssl_fc_server_handshake_traffic_secret]\n\
CLIENT_TRAFFIC_SECRET_0 %[ssl_fc_client_random,hex] %[ssl_fc_client_traffic_secret_0]\n\
SERVER_TRAFFIC_SECRET_0 %[ssl_fc_client_random,hex] %[ssl_fc_server_traffic_secret_0]\n\
EXPORTER_SECRET %[ssl_fc_client_random,hex] %[ssl_fc_exporter_secret]\n\
EARLY_EXPORTER_SECRET %[ssl_fc_client_random,hex] %[ssl_fc_early_exporter_secret]";
/// `HAPROXY_KEYLOG_BC_LOG_FMT`: TLS secrets of server connections.
pub const KEYLOG_BC_LOG_FMT: &str = "CLIENT_RANDOM %[ssl_bc_client_random,hex]  %[ssl_bc_session_key,hex]\n\
CLIENT_EARLY_TRAFFIC_SECRET %[ssl_bc_client_random,hex] %[ssl_bc_client_early_traffic_secret]\n\
CLIENT_HANDSHAKE_TRAFFIC_SECRET %[ssl_bc_client_random,hex] %[ssl_bc_client_handshake_traffic_secret]\n\
SERVER_HANDSHAKE_TRAFFIC_SECRET %[ssl_bc_client_random,hex] %[ssl_bc_server_handshake_traffic_secret]\n\
CLIENT_TRAFFIC_SECRET_0 %[ssl_bc_client_random,hex] %[ssl_bc_client_traffic_secret_0]\n\
SERVER_TRAFFIC_SECRET_0 %[ssl_bc_client_random,hex] %[ssl_bc_server_traffic_secret_0]\n\
EXPORTER_SECRET %[ssl_bc_client_random,hex] %[ssl_bc_exporter_secret]\n\
EARLY_EXPORTER_SECRET %[ssl_bc_client_random,hex] %[ssl_bc_early_exporter_secret]";
/// Ours: `option httplog json` logs every field of [`HTTP_LOG_FMT`] by name.
pub const HTTP_JSON_LOG_FMT: &str = "%{+json}o %(client_ip)ci %(client_port)cp %(request_date)tr %(frontend)ft \
%(backend)b %(server)s %(time_request)TR %(time_queue)Tw %(time_connect)Tc %(time_response)Tr %(time_active)Ta \
%(status)ST %(bytes_read)B %(request_cookie)CC %(response_cookie)CS %(termination_state)tsc %(active_connections)ac \
%(frontend_connections)fc %(backend_connections)bc %(server_connections)sc %(retries)rc %(server_queue)sq \
%(backend_queue)bq %(request_headers)hrl %(response_headers)hsl %(request)r";

/// What a format is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A log line: blanks merge, what is missing prints `-`.
    Log,
    /// A unique identifier, which may become a header's value: as in [`Usage::Header`], and blanks merge.
    Identifier,
    /// A header's value, a URI or the like: what is not allowed in headers becomes `%XX`, encodings do nothing.
    Header,
    /// Anything else (variables, payloads): as it comes.
    Raw,
}

impl Usage {
    fn merges_blanks(self) -> bool {
        matches!(self, Usage::Log | Usage::Identifier)
    }

    /// Whether the text is made for a header.
    fn is_for_headers(self) -> bool {
        matches!(self, Usage::Header | Usage::Identifier)
    }
}

/// Flags of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub quote: bool,
    pub hex: bool,
    pub escape: bool,
    pub json: bool,
    pub cbor: bool,
    pub bin: bool,
}

/// The type forced on an item (`%(name:type)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    Str,
    Int,
    Bool,
    Raw,
}

enum What {
    /// A literal.
    Text(Box<[u8]>),
    /// A blank that merges with its neighbours.
    Blank,
    Alias(Alias),
    Expr(Box<Expr>),
}

struct Item {
    what: What,
    name: Option<Box<str>>,
    forced: Option<Forced>,
    flags: Flags,
}

/// Counts that a format shows. See [`LogFormat::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedCounts {
    /// `%ac`.
    pub process: bool,
    /// `%fc`.
    pub frontend: bool,
    /// `%bc`.
    pub backend: bool,
    /// `%sc`.
    pub server: bool,
}

impl std::ops::BitOr for AskedCounts {
    type Output = AskedCounts;

    fn bitor(self, other: AskedCounts) -> AskedCounts {
        AskedCounts {
            process: self.process | other.process,
            frontend: self.frontend | other.frontend,
            backend: self.backend | other.backend,
            server: self.server | other.server,
        }
    }
}

/// A compiled log format.
pub struct LogFormat {
    items: Vec<Item>,
    usage: Usage,
    /// What `%{...}o` says for the whole.
    global: Flags,
    text: Box<str>,
}

impl fmt::Debug for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogFormat({:?})", self.text)
    }
}

impl Default for LogFormat {
    fn default() -> LogFormat {
        LogFormat { items: Vec::new(), usage: Usage::Raw, global: Flags::default(), text: "".into() }
    }
}

impl LogFormat {
    /// Compiles a format for `usage`.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference, without its location.
    pub fn compile(text: &str, usage: Usage, env: &mut CompileEnv) -> Result<LogFormat, String> {
        let mut format = LogFormat { items: Vec::new(), usage, global: Flags::default(), text: text.into() };
        let mut parser = Parser { text, at: 0, literal: Vec::new(), format: &mut format };
        parser.run(env)?;
        Ok(format)
    }

    /// Which of the counts `%ac`, `%fc`, `%bc` and `%sc` the format shows: whoever renders it must know them.
    pub fn counts(&self) -> AskedCounts {
        let asks = |alias| self.items.iter().any(|item| matches!(item.what, What::Alias(a) if a == alias));
        AskedCounts {
            process: asks(Alias::ActiveConnections),
            frontend: asks(Alias::FrontendConnections),
            backend: asks(Alias::BackendConnections),
            server: asks(Alias::ServerConnections),
        }
    }

    /// A format without any item or literal.
    pub fn is_empty(&self) -> bool {
        self.items.iter().all(|item| matches!(item.what, What::Blank))
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text itself when the format is nothing but a literal.
    pub fn as_literal(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for item in &self.items {
            match &item.what {
                What::Text(text) => out.extend_from_slice(text),
                What::Blank => out.push(b' '),
                _ => return None,
            }
        }
        Some(out)
    }

    /// The only expression when the format is `%[expression]` and nothing else.
    pub fn as_expr(&self) -> Option<&Expr> {
        match &self.items[..] {
            [Item { what: What::Expr(expr), .. }] => Some(expr),
            _ => None,
        }
    }

    /// Appends the formatted text to `out`.
    pub fn render(&self, cx: &mut Ctx, out: &mut Vec<u8>) {
        let mut emitter = Emitter::new(out, self.usage, self.global);
        emitter.begin();
        for item in &self.items {
            match &item.what {
                What::Text(text) => emitter.literal(text),
                What::Blank => emitter.blank(),
                What::Alias(alias) => {
                    if emitter.item(item.name.as_deref(), item.forced, item.flags) {
                        alias.emit(cx, &mut emitter);
                    }
                }
                What::Expr(expr) => {
                    if emitter.item(item.name.as_deref(), item.forced, item.flags) {
                        let mark = cx.mark();
                        emitter.expr(expr, cx);
                        cx.release(mark);
                    }
                }
            }
        }
        emitter.end();
    }

    /// The formatted text in the scratch memory.
    pub fn render_text(&self, cx: &mut Ctx) -> Option<Text> {
        let mut out = std::mem::take(&mut cx.scratch.format);
        out.clear();
        self.render(cx, &mut out);
        let text = cx.store(&out);
        cx.scratch.format = out;
        text
    }
}

struct Parser<'t, 'f> {
    text: &'t str,
    at: usize,
    literal: Vec<u8>,
    format: &'f mut LogFormat,
}

impl Parser<'_, '_> {
    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let text = restore(&self.literal).into();
            self.literal.clear();
            self.push(What::Text(text), None, None, Flags::default());
        }
    }

    fn push(&mut self, what: What, name: Option<Box<str>>, forced: Option<Forced>, flags: Flags) {
        self.format.items.push(Item { what, name, forced, flags });
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn run(&mut self, env: &mut CompileEnv) -> Result<(), String> {
        while let Some(byte) = self.peek() {
            match byte {
                b'%' if self.text.as_bytes().get(self.at + 1) == Some(&b'%') => {
                    self.literal.push(b'%');
                    self.at += 2;
                }
                b'%' => {
                    self.flush();
                    self.at += 1;
                    self.item(env)?;
                }
                b' ' if self.format.usage.merges_blanks() => {
                    self.flush();
                    self.push(What::Blank, None, None, Flags::default());
                    while self.peek() == Some(b' ') {
                        self.at += 1;
                    }
                }
                byte => {
                    self.literal.push(byte);
                    self.at += 1;
                }
            }
        }
        self.flush();
        Ok(())
    }

    /// Reads what follows a `%`.
    fn item(&mut self, env: &mut CompileEnv) -> Result<(), String> {
        let truncated = || Err("truncated line after '%'".to_string());
        let mut name = None;
        let mut forced = None;
        let named = self.peek() == Some(b'(');
        if named {
            (name, forced) = self.name()?;
        }
        let mut flags = self.format.global;
        let start = self.at;
        if self.peek() == Some(b'{') {
            self.flags(&mut flags, env)?;
        }
        match self.peek() {
            Some(b'[') => {
                let inner = &self.text[self.at + 1..];
                let (expr, used) = Expr::compile_prefix(inner, env)
                    .map_err(|e| format!("failed to parse sample expression <{inner}> : {e}"))?;
                match inner.as_bytes().get(used) {
                    Some(b']') => {}
                    Some(_) => {
                        let found = inner[used..].chars().next().unwrap_or(' ');
                        return Err(format!("expected ']' after '{}', but found '{found}'", &inner[..used]));
                    }
                    None => return Err(format!("missing ']' after '{inner}'")),
                }
                self.at += used + 2;
                expr.check_points(env)?;
                self.push(What::Expr(Box::new(expr)), name, forced, flags);
            }
            Some(byte) if byte.is_ascii_alphanumeric() => {
                let rest = &self.text[self.at..];
                let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
                let word = &rest[..len];
                self.at += len;
                if word == "o" {
                    // Its flags hold for everything that follows.
                    self.format.global = flags;
                    return Ok(());
                }
                let Some(alias) = Alias::by_name(word) else {
                    return Err(format!(
                        "no such format alias '{word}'. If you wanted to emit the '%' character verbatim, you need to use \
                         '%%'"
                    ));
                };
                // `bin` only means something for the whole.
                flags.bin = self.format.global.bin;
                self.push(What::Alias(alias), name, forced, flags);
            }
            // After a name alone it is a percent sign.
            Some(b'%') if named && self.at == start => {
                self.literal.push(b'%');
                self.at += 1;
            }
            _ if self.at > start => {
                return Err(format!(
                    "parse argument modifier without alias name near '%{}'",
                    &self.text[start..self.at]
                ));
            }
            None => return truncated(),
            Some(_) if name.is_some() || forced.is_some() => {}
            Some(byte) => {
                return Err(format!("unexpected character '{}' after '%'", char::from(byte)));
            }
        }
        Ok(())
    }

    /// Reads `{flags}`.
    fn flags(&mut self, flags: &mut Flags, env: &mut CompileEnv) -> Result<(), String> {
        let rest = &self.text[self.at + 1..];
        let Some(end) = rest.find('}') else {
            return Err(format!("truncated line after '{rest}'"));
        };
        for part in rest[..end].split(',') {
            // Between commas, the last sign begins the flag: `+Q +E` is `+E`.
            let flag = part.rfind(['+', '-']).map_or("", |sign| &part[sign..]);
            let on = flag.starts_with('+');
            match flag.get(1..).unwrap_or("") {
                "Q" => flags.quote = on,
                "X" => flags.hex = on,
                "E" => flags.escape = on,
                "bin" => flags.bin = on,
                // One encoding at a time: the first one stays.
                "json" if !(on && flags.cbor) => flags.json = on,
                "cbor" if !(on && flags.json) => flags.cbor = on,
                "json" | "cbor" => {}
                _ if part.is_empty() => continue,
                _ => env
                    .warnings
                    .push(format!("'{part}' in '%{{{}}}' is no flag and is ignored", &rest[..end])),
            }
            if flag.len() < part.trim_start().len() {
                env.warnings.push(format!(
                    "'{part}' in '%{{{}}}' stands for '{flag}': flags are separated by commas",
                    &rest[..end]
                ));
            }
        }
        self.at += end + 2;
        Ok(())
    }

    /// Reads `(name:type)`.
    fn name(&mut self) -> Result<(Option<Box<str>>, Option<Forced>), String> {
        let start = self.at + 1;
        let rest = &self.text[start..];
        let bad = |at: usize| {
            let found =
                self.text.get(at..).and_then(|t| t.chars().next()).map_or(String::new(), |c| c.to_string());
            format!(
                "invalid character in custom name near '{found}' at position {} line : '{}'",
                at, self.text
            )
        };
        let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
        let name = &rest[..len];
        let mut at = start + len;
        let mut forced = None;
        if rest.as_bytes().get(len) == Some(&b':') {
            let tail = &rest[len + 1..];
            let word = &tail[..tail.find(')').unwrap_or(tail.len())];
            forced = Some(match word {
                "str" => Forced::Str,
                "sint" => Forced::Int,
                "bool" => Forced::Bool,
                "raw" => Forced::Raw,
                _ => {
                    return Err(format!(
                        "unexpected output type '{word}' at position {} line : '{}'. Supported types are: str, sint, bool, raw",
                        at + 1,
                        self.text
                    ));
                }
            });
            at += 1 + word.len();
        }
        if self.text.as_bytes().get(at) != Some(&b')') {
            return Err(bad(at));
        }
        self.at = at + 1;
        Ok(((!name.is_empty()).then(|| name.into()), forced))
    }
}

/// Makes the unique identifier of the stream, unless it has one or its frontend has no format for it.
pub fn make_unique_id(cx: &mut Ctx) {
    let (world, frontend) = (cx.world, cx.session.frontend);
    // What was no request has no name. (A health check has no request either, but a backend from its beginning.)
    let is_request = cx.request.is_some();
    let Some(stream) = cx.stream.as_mut() else { return };
    if stream.unique_id.is_some() || (stream.is_http && !is_request && !stream.backend_assigned) {
        return;
    }
    let Some(format) = world.unique_id_format(frontend) else { return };
    // A format that names the identifier itself finds nothing: it would be made again and again.
    stream.unique_id = Some(Vec::new());
    let mut id = Vec::new();
    format.render(cx, &mut id);
    if let Some(stream) = cx.stream.as_mut() {
        stream.unique_id = Some(id);
    }
}

/// The unique identifier of the stream, made now if it was not before.
pub(crate) fn unique_id(cx: &mut Ctx) -> Option<Text> {
    make_unique_id(cx);
    let id = cx.stream.as_mut()?.unique_id.take()?;
    let text = cx.store(&id);
    cx.stream.as_mut()?.unique_id = Some(id);
    text
}

impl Forced {
    pub(crate) const fn kind(self) -> Type {
        match self {
            Forced::Str => Type::Str,
            Forced::Int => Type::Int,
            Forced::Bool => Type::Bool,
            Forced::Raw => Type::Bin,
        }
    }
}

#[cfg(test)]
mod tests;
