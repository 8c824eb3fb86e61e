//! Findings for people and for programs.

use std::collections::HashSet;

use crate::{File, Finding, RULES};

/// How findings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A line for each; below the first of each rule, the reason.
    Text,
    /// An array of objects.
    Json,
    /// SARIF 2.1.0 (OASIS), for code hosts.
    Sarif,
}

fn why(finding: &Finding) -> &'static str {
    RULES.iter().find(|rule| rule.name == finding.rule).map_or("", |rule| rule.why)
}

/// Writes findings.
pub fn render(form: Form, files: &[File<'_>], findings: &[Finding]) -> String {
    let name = |finding: &Finding| files.get(finding.file).map_or("", |file| file.name);
    match form {
        Form::Text => {
            let mut explained = HashSet::new();
            let mut text = String::new();
            for f in findings {
                let (level, message) = (f.level.name(), &f.message);
                text.push_str(&format!(
                    "{}:{}:{}: {level}: {message} [{}]\n",
                    name(f),
                    f.line,
                    f.column,
                    f.rule
                ));
                // Once is enough.
                if explained.insert(f.rule) {
                    text.push_str(&format!("    {}\n", why(f)));
                }
            }
            text
        }
        Form::Json => {
            let objects = findings.iter().map(|f| {
                format!(
                    "{{\"file\":{},\"line\":{},\"column\":{},\"level\":\"{}\",\"rule\":\"{}\",\"message\":{},\"why\":{}}}",
                    json(name(f)), f.line, f.column, f.level.name(), f.rule, json(&f.message), json(why(f))
                )
            });
            format!("[{}]\n", objects.collect::<Vec<_>>().join(",\n"))
        }
        Form::Sarif => sarif(files, findings),
    }
}

fn sarif(files: &[File<'_>], findings: &[Finding]) -> String {
    let rules = RULES.iter().map(|rule| {
        format!(
            "{{\"id\":\"{}\",\"shortDescription\":{{\"text\":{}}},\"defaultConfiguration\":{{\"level\":\"{}\"}}}}",
            rule.name, json(rule.why), rule.level.name()
        )
    });
    let results = findings.iter().map(|f| {
        let uri = files.get(f.file).map_or("", |file| file.name);
        format!(
            "{{\"ruleId\":\"{}\",\"level\":\"{}\",\"message\":{{\"text\":{}}},\"locations\":[{{\"physicalLocation\":\
             {{\"artifactLocation\":{{\"uri\":{}}},\"region\":{{\"startLine\":{},\"startColumn\":{}}}}}}}]}}",
            f.rule, f.level.name(), json(&f.message), json(uri), f.line, f.column
        )
    });
    format!(
        "{{\"$schema\":\"https://json.schemastore.org/sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{{\"tool\":\
         {{\"driver\":{{\"name\":\"thalweg lint\",\"rules\":[{}]}}}},\"results\":[{}]}}]}}\n",
        rules.collect::<Vec<_>>().join(","),
        results.collect::<Vec<_>>().join(",")
    )
}

/// A string of JSON (RFC 8259, section 7).
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
