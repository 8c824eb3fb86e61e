//! `thalweg lint`: what is worth a second look in a configuration that loads.

use std::process::ExitCode;
use std::sync::PoisonError;

use thalweg_lint::{File, Form, Known, Level, RULES, lint, render};
use thalweg_runtime::clock;
use thalweg_syntax::Severity;
use thalweg_syntax::carry::carry;

use super::{Call, Tool, unknown};
use crate::cli::Options;
use crate::load;
use crate::report::{Reporter, Verbosity, output};

/// Certificates that end within this many days are found, unless the command line says otherwise.
const DAYS: i64 = 30;

const DAY_S: i64 = 24 * 3600;

pub const TOOL: Tool = Tool {
    name: "lint",
    arguments: "[--format text|json|sarif] [--days <n>] [-f] <file|directory>...",
    text: "look for what is accepted and probably not meant",
    help: "\
Rules that can never match, conditions and backends that nothing uses, timeouts that are missing or odd, servers that
nobody verifies, certificates that end soon, and what the program warns about at every start. Each finding has its
line and the reason.

    --format <form>   text (default), json, or sarif (2.1.0) for code hosts
    --days <n>        find certificates that end within this many days (default 30)
    --rules           list the rules

Leaves with 1 if there are warnings, with 0 if there are none or only notes, with 2 if the configuration is refused.
",
    run,
};

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut options = Options::default();
    let (mut form, mut days) = (Form::Text, DAYS);
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "-f" => options.files.push(words.value("-f", "a file")?.into()),
            "--format" => {
                form = match words.value(word, "text, json or sarif")? {
                    "text" => Form::Text,
                    "json" => Form::Json,
                    "sarif" => Form::Sarif,
                    other => return Err(format!("'{other}' is none of the forms text, json and sarif")),
                };
            }
            "--days" => {
                let number = words.value(word, "a number of days")?;
                days =
                    number.parse::<u16>().map_err(|_| format!("'{number}' is not a number of days"))?.into();
            }
            "--rules" => {
                for rule in RULES {
                    output(&format!("{:<30} {:<8} {}\n", rule.name, rule.level.name(), rule.why));
                }
                return Ok(ExitCode::SUCCESS);
            }
            other if other.starts_with('-') => return unknown(other),
            file => options.files.push(file.into()),
        }
    }
    if options.files.is_empty() {
        return Err("no file was given".into());
    }
    let loaded = load::load(&options);
    let Some(config) = loaded.config.filter(|_| !loaded.diagnostics.has_errors()) else {
        let mut reporter = Reporter::new(call.program, Verbosity::default());
        reporter.diagnostics(&loaded.diagnostics, &loaded.sources, false, None);
        return Ok(ExitCode::from(2));
    };
    let sources = &loaded.sources;
    let texts: Vec<_> = sources.files().map(|file| (sources.name(file), carry(sources.text(file)))).collect();
    let files: Vec<File<'_>> = texts.iter().map(|(name, text)| File { name, text }).collect();
    let warnings = loaded.diagnostics.iter().filter(|d| d.severity == Severity::Warning).map(|d| {
        let place = d.span.map_or((0, 1, 1), |s| (s.file.index(), s.line, s.start as usize + 1));
        let first = d.message.lines().next().unwrap_or_default().trim_end_matches('.');
        (place.0, place.1, place.2, first.to_owned())
    });
    let known = Known {
        warnings: warnings.collect(),
        certificates: config.tls.as_ref().map_or_else(Vec::new, |live| {
            let live = live.lock().unwrap_or_else(PoisonError::into_inner);
            live.validity().map(|(name, end)| (name.to_owned(), end)).collect()
        }),
        now: i64::try_from(clock::wall_us() / 1_000_000).unwrap_or(i64::MAX),
        soon_s: days * DAY_S,
    };
    let findings = lint(&files, &known);
    output(&render(form, &files, &findings));
    let fails = findings.iter().any(|finding| finding.level == Level::Warning);
    Ok(if fails { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
