//! The words of a `server` line, and how they change when the server does.

use crate::LoadOptions;
use crate::build::Cx;
use crate::keyword::{Status, find};
use crate::presets;
use crate::table::SERVER;
use crate::written::{Words, words};

/// The words of a line that makes one server: `server <name> <address> [from <origin>] <options>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerWords {
    words: Words,
}

impl ServerWords {
    /// Of a line that was accepted.
    pub fn new(words: Words) -> ServerWords {
        ServerWords { words }
    }

    /// One of those that a `server-template` line makes; `None` where they depend on each other, as those do that share the
    /// addresses of a name.
    pub fn of_template(line: &[Box<str>], name: &str) -> Option<ServerWords> {
        let address = line.get(3)?;
        let is_number = address.parse::<std::net::SocketAddr>().is_ok()
            || address.parse::<std::net::IpAddr>().is_ok()
            || address.split(':').next().is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok());
        let own =
            ServerWords { words: words(["server", name].into_iter().chain(line[3..].iter().map(|w| &**w))) };
        let is_shared = ["id", "guid", "resolvers"].iter().any(|option| own.has(option));
        (is_number && !is_shared).then_some(own)
    }

    pub fn words(&self) -> &Words {
        &self.words
    }

    pub fn into_words(self) -> Words {
        self.words
    }

    pub fn rename(&mut self, name: &str) {
        self.words[1] = name.into();
    }

    pub fn set_address(&mut self, address: &str) {
        self.words[2] = address.into();
    }

    pub fn address(&self) -> &str {
        &self.words[2]
    }

    /// Whether it says where the server's settings come from.
    fn has_origin(&self) -> bool {
        self.words.get(3).is_some_and(|word| &**word == "from")
    }

    /// It takes nothing from the presets of its section, unless it says so.
    pub fn take_no_presets(&mut self) {
        if !self.has_origin() {
            self.words.splice(3..3, words(["from", "none"]));
        }
    }

    /// Where each option begins; `None` when they cannot be read.
    fn options(&self) -> Option<Vec<usize>> {
        let options = LoadOptions::default();
        let mut cx = Cx::new(&options);
        cx.config.global.expose_experimental = true;
        cx.config.global.expose_deprecated = true;
        let line = crate::dynamic::words_line(&mut cx, &self.words).ok()?;
        let mut draft = presets::nothing();
        let mut at = if self.has_origin() { 5 } else { 3 };
        let mut starts = Vec::new();
        while at < line.words.len() {
            starts.push(at);
            let name = line.text(at).split('(').next().unwrap_or_default();
            let Status::Works(setter) = find(SERVER, name)?.status else { return None };
            at += setter.read(&mut cx, &line, at, &mut draft).ok()?;
        }
        Some(starts)
    }

    /// Where the last of these options is, and where the next one begins.
    fn last_of(&self, names: &[&str]) -> Option<(usize, usize)> {
        let starts = self.options()?;
        let at = starts.iter().rposition(|at| names.contains(&&*self.words[*at]))?;
        Some((starts[at], starts.get(at + 1).copied().unwrap_or(self.words.len())))
    }

    /// Whether it has an option.
    pub fn has(&self, name: &str) -> bool {
        self.last_of(&[name]).is_some()
    }

    /// Gives an option a value: in its place, or at the end.
    pub fn set(&mut self, name: &str, value: &str) {
        match self.last_of(&[name]) {
            Some((at, end)) if end == at + 2 => self.words[at + 1] = value.into(),
            _ => self.words.extend(words([name, value])),
        }
    }

    /// Switches something: `on` takes the place of the last `off`.
    pub fn switch(&mut self, on: &str, off: &str) {
        match self.last_of(&[on, off]) {
            Some((at, _)) => self.words[at] = on.into(),
            None => self.words.push(on.into()),
        }
    }

    /// Takes an option with its value away. False when the line has none.
    pub fn drop(&mut self, name: &str) -> bool {
        let Some((at, end)) = self.last_of(&[name]) else { return false };
        self.words.drain(at..end);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> ServerWords {
        ServerWords::new(words(text.split(' ')))
    }

    #[test]
    fn options_change_where_they_are() {
        let check = |before: &str, change: fn(&mut ServerWords), after: &str| {
            let mut words = line(before);
            change(&mut words);
            assert_eq!(words.words().join(" "), after, "{before}");
        };
        check("server s :1", |l| l.set("weight", "5"), "server s :1 weight 5");
        check("server s :1 weight 1 check", |l| l.set("weight", "5"), "server s :1 weight 5 check");
        check("server s :1 weight 1 weight 2", |l| l.set("weight", "5"), "server s :1 weight 1 weight 5");
        // What only looks like the option is the value of another one.
        check(
            "server s :1 cookie weight check",
            |l| l.set("weight", "5"),
            "server s :1 cookie weight check weight 5",
        );
        check(
            "server disabled :1 cookie disabled",
            |l| l.switch("enabled", "disabled"),
            "server disabled :1 cookie disabled enabled",
        );
        check("server s :1 disabled check", |l| l.switch("enabled", "disabled"), "server s :1 enabled check");
        check("server s :1 port 5 check", |l| assert!(l.drop("port")), "server s :1 check");
        check("server s :1 check", |l| assert!(!l.drop("port")), "server s :1 check");
        check("server s :1 check", ServerWords::take_no_presets, "server s :1 from none check");
        check("server s :1 from srv:a check", ServerWords::take_no_presets, "server s :1 from srv:a check");
        check("server s :1 from none weight 3", |l| l.set("weight", "5"), "server s :1 from none weight 5");
        check(
            "server s :1 source 192.0.2.1 usesrc client set-proxy-v2-tlv-fmt(0x20) weight weight 4 id 3",
            |l| l.set("weight", "5"),
            "server s :1 source 192.0.2.1 usesrc client set-proxy-v2-tlv-fmt(0x20) weight weight 5 id 3",
        );
    }

    #[test]
    fn a_template_makes_lines() {
        let of = |text: &str| {
            let template = words(text.split(' '));
            ServerWords::of_template(&template, "s3").map(|line| line.words().join(" "))
        };
        assert_eq!(
            of("server-template s 1-5 192.0.2.1:80 check").as_deref(),
            Some("server s3 192.0.2.1:80 check")
        );
        assert_eq!(of("server-template s 1-5 192.0.2.1:+80").as_deref(), Some("server s3 192.0.2.1:+80"));
        assert_eq!(of("server-template s 5 ::1").as_deref(), Some("server s3 ::1"));
        for text in ["example.com:80", "_http._tcp.example.com", "192.0.2.1 id 5", "192.0.2.1 guid x"] {
            assert_eq!(of(&format!("server-template s 5 {text}")), None, "{text}");
        }
    }
}
