//! Diagnostics as people read them.
//!
//! ```text
//! [ALERT]    (4242) : config : parsing [/etc/lb.cfg:2] : unknown keyword 'maxcnn' in 'global' section; did you mean 'maxconn' maybe ?
//!    |     maxcnn 100
//!    |     ^^^^^^
//!    | note: section 'global' starts at line 1
//! ```
//!
//! The first line is HAProxy's, the continuation lines use its own `   | ` style.

use std::fmt::Write as _;

use crate::carry::is_carrier;
use crate::diagnostic::{Diagnostic, Diagnostics, Lead, Severity};
use crate::source::{SourceMap, Span};

/// A quoted line is cut to this many characters around its carets.
const QUOTE_WIDTH_MAX: usize = 160;

/// What to show and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderOptions {
    /// The process id shown on each line.
    pub pid: u32,
    /// Whether [`Severity::Diag`] messages are shown (`-dD`).
    pub diagnostic_mode: bool,
}

impl Diagnostics {
    /// All the messages, one after the other, each ending with a line feed.
    pub fn render(&self, sources: &SourceMap, options: RenderOptions) -> String {
        let mut out = String::new();
        for diagnostic in self.iter() {
            if diagnostic.severity != Severity::Diag || options.diagnostic_mode {
                diagnostic.render_to(&mut out, sources, options.pid);
            }
        }
        if self.dropped() > 0 {
            let text = format!("config : {} further messages are not shown.", self.dropped());
            render_line(&mut out, Severity::Alert, options.pid, &text);
        }
        out
    }
}

/// A line such as `[ALERT]    (4242) : text`, with its line feed.
pub fn message_line(severity: Severity, pid: u32, text: &str) -> String {
    let mut out = String::new();
    render_line(&mut out, severity, pid, text);
    out
}

/// Puts colours on rendered messages, for terminals: the rank by how bad it is, and what points at the mistake or leads
/// out of it. Without its escape sequences the text is what it was.
pub fn paint(text: &str) -> String {
    const RED: &str = "\x1b[1;31m";
    const YELLOW: &str = "\x1b[1;33m";
    const BLUE: &str = "\x1b[1;34m";
    const GREEN: &str = "\x1b[1;32m";
    const PLAIN: &str = "\x1b[0m";
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut colour = BLUE;
    for line in text.split_inclusive('\n') {
        let body = line.strip_suffix('\n').unwrap_or(line);
        let end = &line[body.len()..];
        let painted = match body.strip_prefix("   | ") {
            Some(quoted)
                if !quoted.is_empty()
                    && quoted.trim_start_matches([' ', '\t']).bytes().all(|b| b == b'^') =>
            {
                Some(("   | ", quoted, colour, ""))
            }
            Some(quoted) => ["note:", "help:"]
                .into_iter()
                .find_map(|label| Some(("   | ", label, GREEN, quoted.strip_prefix(label)?))),
            None => body.find(']').filter(|_| body.starts_with('[')).map(|at| {
                colour = match &body[1..at] {
                    "ALERT" => RED,
                    "WARNING" => YELLOW,
                    _ => BLUE,
                };
                ("", &body[..=at], colour, &body[at + 1..])
            }),
        };
        match painted {
            Some((before, inside, colour, after)) => {
                out.extend([before, colour, inside, PLAIN, after, end]);
            }
            None => out.push_str(line),
        }
    }
    out
}

fn render_line(out: &mut String, severity: Severity, pid: u32, text: &str) {
    let label = format!("[{}]", severity.label());
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{label:<10} ({pid}) : {}", printable(text));
}

impl Diagnostic {
    /// The message with its quoted lines, ending with a line feed.
    pub fn render(&self, sources: &SourceMap, pid: u32) -> String {
        let mut out = String::new();
        self.render_to(&mut out, sources, pid);
        out
    }

    fn render_to(&self, out: &mut String, sources: &SourceMap, pid: u32) {
        let location = self.span.map(|span| format!("[{}:{}] : ", sources.name(span.file), span.line));
        let lead = match (self.lead, &location) {
            (Lead::Parsing, Some(location)) => format!("config : parsing {location}"),
            (Lead::Located, Some(location)) => format!("config : {location}"),
            (Lead::BareLocated, Some(location)) => location.clone(),
            (Lead::Parsing | Lead::Located | Lead::Config, _) => "config : ".to_string(),
            (Lead::Bare | Lead::BareLocated, _) => String::new(),
        };
        let mut lines = self.message.lines();
        render_line(out, self.severity, pid, &format!("{lead}{}", lines.next().unwrap_or("")));
        for line in lines {
            continuation(out, line);
        }
        if let Some(span) = self.span.filter(|_| self.quoted) {
            let located = matches!(self.lead, Lead::Parsing | Lead::Located | Lead::BareLocated);
            quote(out, sources, span, (!located).then_some("here"));
        }
        for (span, what) in &self.related {
            quote(out, sources, *span, Some(what));
        }
        for note in &self.notes {
            prefixed(out, "note: ", note);
        }
        for help in &self.help {
            prefixed(out, "help: ", help);
        }
    }
}

fn prefixed(out: &mut String, prefix: &str, text: &str) {
    let mut lines = text.lines();
    continuation(out, &format!("{prefix}{}", lines.next().unwrap_or("")));
    for line in lines {
        continuation(out, &format!("{:width$}{line}", "", width = prefix.len()));
    }
}

fn continuation(out: &mut String, text: &str) {
    let _ = writeln!(out, "   | {}", printable(text).trim_end());
}

/// Shows the line of a span with carets below it. An empty span gets one caret, at the place between two bytes.
fn quote(out: &mut String, sources: &SourceMap, span: Span, title: Option<&str>) {
    if let Some(title) = title {
        continuation(out, &format!("[{}:{}] {title}:", sources.name(span.file), span.line));
    }
    let Some(line) = sources.line(span.file, span.line) else { return };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = (span.start as usize).min(line.len());
    let end = (span.end as usize).clamp(start, line.len());
    let before: Vec<char> = characters(&line[..start]);
    let marked: Vec<char> = characters(&line[start..end]);
    let after: Vec<char> = characters(&line[end..]);
    // A window around the marked part, which itself is shown from its beginning.
    let marked_width = marked.len().min(QUOTE_WIDTH_MAX);
    let room = QUOTE_WIDTH_MAX - marked_width;
    let fits = before.len() + marked.len() + after.len() <= QUOTE_WIDTH_MAX;
    let (skip, keep_after) = if fits {
        (0, after.len())
    } else {
        let keep_before = before.len().min(room / 2).max(before.len().min(room.saturating_sub(after.len())));
        (before.len() - keep_before, after.len().min(room - keep_before))
    };
    let mut text = String::new();
    let mut carets = String::new();
    if skip > 0 {
        text.push_str("...");
        carets.push_str("   ");
    }
    for &c in &before[skip..] {
        text.push(c);
        // Tabs stay tabs, so that the carets line up whatever their width.
        carets.push(if c == '\t' { '\t' } else { ' ' });
    }
    text.extend(&marked[..marked_width]);
    carets.extend(std::iter::repeat_n('^', marked_width.max(1)));
    text.extend(&after[..keep_after]);
    if keep_after < after.len() || marked_width < marked.len() {
        text.push_str("...");
    }
    continuation(out, &text);
    continuation(out, &carets);
}

/// Bytes as characters that are safe on a terminal, one per column.
fn characters(bytes: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(bytes).chars().map(|c| if is_hidden(c) { '\u{fffd}' } else { c }).collect()
}

/// Control characters could drive the terminal, and what carries a byte means nothing to people.
fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\t' || is_carrier(c)
}

/// The text with U+FFFD in place of what must not be shown.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().any(is_hidden) {
        characters(text.as_bytes()).into_iter().collect::<String>().into()
    } else {
        text.into()
    }
}

impl Diagnostics {
    /// The line that closes the report of a refused configuration, unless reading was cut short, in which case the
    /// reference says no more either. Empty when there is no error.
    pub fn verdict(&self, pid: u32) -> String {
        if self.has_errors() && !self.aborted() {
            message_line(Severity::Alert, pid, "config : Fatal errors found in configuration.")
        } else {
            String::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::paint;

    #[test]
    fn colours_are_all_that_is_added() {
        let plain = "[ALERT]    (1) : config : parsing [a.cfg:2] : unknown keyword 'maxcnn'\n   |  maxcnn 100\n   \
                     |  ^^^^^^\n   | note: section 'global' [2] starts here\n[WARNING]  (1) : x\n   |\n   | ^\ntext";
        let painted = paint(plain);
        assert!(painted.starts_with("\x1b[1;31m[ALERT]\x1b[0m    (1) : config : parsing [a.cfg:2]"));
        assert!(painted.contains("   | \x1b[1;31m ^^^^^^\x1b[0m\n"));
        assert!(painted.contains("   | \x1b[1;32mnote:\x1b[0m section"));
        assert!(painted.contains("\x1b[1;33m[WARNING]\x1b[0m  (1) : x\n   |\n   | \x1b[1;33m^\x1b[0m\ntext"));
        let mut bare = painted;
        for code in ["\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, plain);
        assert_eq!(paint(""), "");
    }
}
