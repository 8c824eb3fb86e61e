//! An explanation for people, and for programs.

use crate::json::{array, object, option, string};
use crate::{Event, Explanation, Message, Term};

/// Values of terms are shown this far apart from their rule.
const BELOW: &str = "        ";

impl Explanation {
    /// Line by line, in the order in which it happened.
    pub fn text(&self) -> String {
        let mut out = format!("bind      {}  {}  ({})\n", self.bind, self.bind_place, self.bind_reason);
        let mode = if self.http { "" } else { "  (mode tcp: the request is not looked into)" };
        out.push_str(&format!("frontend  {}{mode}\n", self.frontend));
        for event in &self.events {
            out.push_str(&event_text(event));
        }
        for backend in &self.backends {
            out.push_str(&format!("backend   {backend}\n"));
        }
        if self.backends.is_empty() {
            out.push_str("backend   none\n");
        }
        for (server, why) in &self.servers {
            out.push_str(&format!("server    {server}  ({why})\n"));
        }
        if self.servers.is_empty() {
            out.push_str("server    none\n");
        }
        if let Some(sent) = &self.sent {
            out.push_str(&message_text("sent", sent));
        }
        match &self.received {
            Some(received) => out.push_str(&message_text("answer", received)),
            None => out.push_str("answer    none: the connection was closed\n"),
        }
        out.push_str(&format!("took      {} ms of simulated time\n", self.took_ms));
        for (proxy, which, ms) in &self.timeouts {
            out.push_str(&format!("timeout   {which} {ms} ms  ({proxy})\n"));
        }
        for note in &self.notes {
            out.push_str(&format!("note      {note}\n"));
        }
        out
    }

    /// One object.
    pub fn json(&self) -> String {
        let bind = object([
            ("address", string(&self.bind)),
            ("place", string(&self.bind_place)),
            ("reason", string(&self.bind_reason)),
        ]);
        let servers =
            self.servers.iter().map(|(name, why)| object([("name", string(name)), ("reason", string(why))]));
        let timeouts = self.timeouts.iter().map(|(proxy, which, ms)| {
            object([("proxy", string(proxy)), ("timeout", string(which)), ("ms", ms.to_string())])
        });
        let all = object([
            ("bind", bind),
            ("frontend", string(&self.frontend)),
            ("mode", string(if self.http { "http" } else { "tcp" })),
            ("from", option(self.from.map(|from| string(&from.to_string())))),
            ("events", array(self.events.iter().map(event_json))),
            ("backends", array(self.backends.iter().map(|name| string(name)))),
            ("servers", array(servers)),
            ("sent", option(self.sent.as_ref().map(message_json))),
            ("received", option(self.received.as_ref().map(message_json))),
            ("took_ms", self.took_ms.to_string()),
            ("timeouts", array(timeouts)),
            ("notes", array(self.notes.iter().map(|note| string(note)))),
        ]);
        all + "\n"
    }
}

fn event_text(event: &Event) -> String {
    let verdict = match event.applies {
        None => "",
        Some(true) => "  applies",
        Some(false) => "  does not apply",
    };
    let outcome = if event.outcome.is_empty() { String::new() } else { format!("  => {}", event.outcome) };
    let mut out =
        format!("  {}:{}  {} {}{verdict}{outcome}\n", event.file, event.line, event.ruleset, event.action);
    for term in &event.terms {
        out.push_str(&format!("{BELOW}{}\n", term_text(term)));
    }
    for change in &event.changes {
        out.push_str(&format!("{BELOW}-> {change}\n"));
    }
    out
}

fn term_text(term: &Term) -> String {
    let not = if term.negated { "!" } else { "" };
    let name = term.name.as_deref().unwrap_or("{ ... }");
    let holds = match term.holds {
        Some(true) => "true",
        Some(false) => "false",
        None => "not known yet",
    };
    let values = term.values.iter().map(|value| {
        let sign = if value.matched { "matches" } else { "matches not" };
        match &value.value {
            Some(text) => format!("{} = \"{text}\" {sign}", value.expression),
            None => format!("{} has no value", value.expression),
        }
    });
    let values: Vec<String> = values.collect();
    format!("{not}{name}: {name_is} {}", values.join(", "), name_is = holds).trim_end().to_owned()
}

fn message_text(what: &str, message: &Message) -> String {
    let mut out = format!("{what:<10}{}\n", message.line);
    for (name, value) in &message.fields {
        out.push_str(&format!("          {name}: {value}\n"));
    }
    if !message.body.is_empty() {
        out.push_str(&format!("          ({} bytes of body)\n", message.body.len()));
    }
    out
}

fn event_json(event: &Event) -> String {
    let boolean = |value: Option<bool>| option(value.map(|v| v.to_string()));
    let terms = event.terms.iter().map(|term| {
        let values = term.values.iter().map(|value| {
            object([
                ("expression", string(&value.expression)),
                ("value", option(value.value.as_deref().map(string))),
                ("matched", value.matched.to_string()),
            ])
        });
        object([
            ("name", option(term.name.as_deref().map(string))),
            ("negated", term.negated.to_string()),
            ("holds", boolean(term.holds)),
            ("values", array(values)),
        ])
    });
    object([
        ("ruleset", string(&event.ruleset)),
        ("action", string(&event.action)),
        ("file", string(&event.file)),
        ("line", event.line.to_string()),
        ("applies", boolean(event.applies)),
        ("outcome", string(&event.outcome)),
        ("terms", array(terms)),
        ("changes", array(event.changes.iter().map(|change| string(change)))),
    ])
}

fn message_json(message: &Message) -> String {
    let fields = message.fields.iter().map(|(name, value)| array([string(name), string(value)]));
    object([
        ("line", string(&message.line)),
        ("fields", array(fields)),
        ("body", string(&String::from_utf8_lossy(&message.body))),
    ])
}
