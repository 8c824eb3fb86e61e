//! `thalweg explain` and `thalweg test`: what becomes of requests, without a network.

use std::process::ExitCode;

use thalweg_config::Config;
use thalweg_explain::{AskReader, explain, parse_cases};

use super::{Call, Tool, read, unknown};
use crate::cli::Options;
use crate::load;
use crate::report::{Reporter, Verbosity, error_output, output};

pub const EXPLAIN: Tool = Tool {
    name: "explain",
    arguments: "-f <file>... [options] '<method> <url>'",
    text: "show what becomes of a request: rules, values, backend, server",
    help: "\
The request goes through the program's own data path, in a simulated network: servers answer from a script, nothing leaves
this machine, no time passes. Every rule that is evaluated is shown with its place, the values of its condition, and what
it changed; then backend and server and why, what the server got, what the client got, and the timeouts in force.

    -f <file>            the configuration; may be repeated
    --from <address>     where the client is (default 127.0.0.1)
    --to <name>          the frontend, bind or address it comes to, where the URL does not decide
    --http 1|2           the version of HTTP that the client speaks (default 1, and 2 to a bind with 'proto h2')
    -H '<name>: <value>' a field of the request; may be repeated
    --body <file>        the body of the request
    --status <code>      what servers answer (default 200)
    --answer-header '<name>: <value>'
    --format text|json

Health checks are not made: every server is as the file says. Leaves with 2 if the configuration is refused.
",
    run: run_explain,
};

pub const TEST: Tool = Tool {
    name: "test",
    arguments: "-f <file>... <tests.toml>...",
    text: "check that requests are answered as a file of tests says",
    help: "\
Each test is a request that is played as 'thalweg explain' plays it, and what is expected of it:

    [[test]]
    name = \"images have servers of their own\"
    request = \"GET http://www.example.com/img/a.png\"
    headers = [\"Accept: image/*\"]
    from = \"192.0.2.7\"
    expect_backend = \"images\"
    expect_status = 200

    request headers body from to http         the request
    answer_status answer_headers answer_body  what servers answer
    expect_status expect_frontend expect_backend expect_server
    expect_headers = [\"name: value\", \"!name\"]  of the answer
    expect_sent_headers expect_sent_target    what the server got
    expect_body expect_closed

Leaves with 1 if something is not as expected, with 2 if a file is refused.
",
    run: run_test,
};

/// The configuration, or what to leave with: its errors were reported.
fn configuration(call: &Call<'_>, options: &Options) -> Result<Config, ExitCode> {
    let loaded = load::load(options);
    match loaded.config.filter(|_| !loaded.diagnostics.has_errors()) {
        Some(config) => Ok(config),
        None => {
            let mut reporter = Reporter::new(call.program, Verbosity::default());
            reporter.diagnostics(&loaded.diagnostics, &loaded.sources, false, None);
            Err(ExitCode::from(2))
        }
    }
}

fn options() -> Options {
    // Names of servers need not be known where a file is written.
    Options { ignore_resolution_failures: true, ..Options::default() }
}

fn run_explain(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut options = options();
    let (mut reader, mut body) = (AskReader::default(), Vec::new());
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "-f" => options.files.push(words.value(word, "a file")?.into()),
            "--body" => body = read(words.value(word, "a file")?)?,
            _ if reader.option(word, |what| words.value(word, what))? => {}
            other if other.starts_with('-') => return unknown(other),
            text if reader.request(text)? => {}
            text => return unknown(text),
        }
    }
    if options.files.is_empty() {
        return Err("no configuration file was given".into());
    }
    let json = reader.json;
    let ask = reader.ask(body)?;
    let config = match configuration(call, &options) {
        Ok(config) => config,
        Err(code) => return Ok(code),
    };
    let explanation = explain(config.into(), &ask)?;
    output(&if json { explanation.json() } else { explanation.text() });
    Ok(ExitCode::SUCCESS)
}

fn run_test(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut options = options();
    let mut files = Vec::new();
    let mut words = call.words();
    while let Some(word) = words.next() {
        match word {
            "-f" => options.files.push(words.value(word, "a file")?.into()),
            other if other.starts_with('-') => return unknown(other),
            file => files.push(file),
        }
    }
    if options.files.is_empty() || files.is_empty() {
        return Err("a configuration (-f) and a file of tests are needed".into());
    }
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let text = String::from_utf8_lossy(&read(file)?).into_owned();
        let cases = parse_cases(&text).map_err(|error| format!("{file}: {error}"))?;
        for case in cases {
            // Each begins with a process that has seen nothing.
            let config = match configuration(call, &options) {
                Ok(config) => config,
                Err(code) => return Ok(code),
            };
            let wrong = match explain(config.into(), &case.ask) {
                Ok(explanation) => case.check(&explanation),
                Err(error) => vec![error],
            };
            if wrong.is_empty() {
                passed += 1;
                continue;
            }
            failed += 1;
            for what in wrong {
                error_output(format!("{file}:{}: {}: {what}\n", case.line, case.name).as_bytes());
            }
        }
    }
    output(&format!("{passed} passed, {failed} failed\n"));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
