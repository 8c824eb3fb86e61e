//! The JSON twins of what the runtime writes for people: `show pools`, `show profiling`, `show tasks`, `show threads`. Lines become
//! objects whose numbers are numbers: bytes, and times in nanoseconds as exact as the lines are.

use crate::command::Call;
use crate::json::Object;
use crate::output::Reply;

/// The answer of a command, or where JSON is wanted what `twin` makes of its text.
pub fn of(call: &Call<'_>, reply: Reply, twin: fn(&str, &mut String)) -> Reply {
    match reply {
        Reply::Text(text) if call.wants_json() => {
            let mut out = String::new();
            twin(&text, &mut out);
            Reply::Text(out)
        }
        other => other,
    }
}

/// The numbers in a text, in order.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok())
}

/// `show pools`: `  - Pool <name> (<n> bytes) : <n> allocated (<n> bytes), <n> used (~<n> by thread caches), peak <n>, ...`.
pub fn pools(text: &str, out: &mut String) {
    const COLUMNS: [&str; 8] =
        ["size", "allocated", "allocated_bytes", "used", "cached", "peak", "failures", "users"];
    for line in text.lines() {
        let Some((name, rest)) = line.strip_prefix("  - Pool ").and_then(|line| line.split_once(" (")) else {
            continue;
        };
        let (mut object, mut values) = (Object::default(), numbers(rest));
        object.text("name", name);
        for column in COLUMNS {
            object.number(column, values.next());
        }
        object.end(out);
    }
}

/// `12.34us`, or a dash for none.
fn nanoseconds(word: &str) -> Option<u64> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &word[digits.len()..] {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    digits.parse::<f64>().ok().map(|value| (value * unit).round() as u64)
}

/// `show profiling`: what is measured, then a row for each kind of task.
pub fn profiling(text: &str, out: &mut String) {
    for line in text.lines() {
        let mut object = Object::default();
        if let Some((what, rest)) = line.split_once(" profiling ") {
            let state = rest.trim_start_matches([' ', ':']).split_whitespace().next().unwrap_or("-");
            object.text("profiling", what).text("state", state).end(out);
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [function, calls, total, average, _, _, _, latency, place @ ..] = &words[..] else { continue };
        if calls.parse::<u64>().is_err() {
            continue;
        }
        object
            .text("function", function)
            .word("calls", calls)
            .number("cpu_tot_ns", nanoseconds(total))
            .number("cpu_avg_ns", nanoseconds(average))
            .number("lat_avg_ns", nanoseconds(latency))
            .text("from", place.last().unwrap_or(&""))
            .end(out);
    }
}

/// `show tasks`: a row for each kind.
pub fn tasks(text: &str, out: &mut String) {
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [function, places, _, total, average, _, _, _] = &words[..] else { continue };
        if places.parse::<u64>().is_ok() {
            let mut object = Object::default();
            object.text("function", function).word("places", places);
            object
                .number("lat_tot_ns", nanoseconds(total))
                .number("lat_avg_ns", nanoseconds(average))
                .end(out);
        }
    }
}

/// `show threads`: `* Thread 1 : name=value ...` and the lines below it. A name in front of another one belongs to that:
/// `cpu_ns: now=1` is `cpu_ns_now`.
pub fn threads(text: &str, out: &mut String) {
    let mut object: Option<Object> = None;
    for line in text.lines() {
        if let Some((mark, rest)) = line.split_once("Thread ") {
            if let Some(mut object) = object.take() {
                object.end(out);
            }
            let begun = object.insert(Object::default());
            begun.number("thread", numbers(rest).next());
            begun.text("state", if mark.starts_with('>') { "stuck" } else { "answers" });
        }
        let Some(object) = &mut object else { continue };
        let mut prefix = String::new();
        for word in line.split_whitespace() {
            if let Some((name, value)) = word.split_once('=') {
                object.word(&format!("{}{name}", std::mem::take(&mut prefix)), value);
            } else if let Some(name) = word.strip_suffix(':').filter(|name| !name.is_empty()) {
                prefix = if name.parse::<u64>().is_ok() { String::new() } else { format!("{name}_") };
            }
        }
    }
    if let Some(mut object) = object {
        object.end(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twin(of: fn(&str, &mut String), text: &str) -> String {
        let mut out = String::new();
        of(text, &mut out);
        out
    }

    #[test]
    fn rows_become_objects() {
        let text = "Dumping pools usage. Use SIGQUIT to flush them.\n  - Pool task (64 bytes) : 128 allocated (8192 bytes), 5 \
                    used (~123 by thread caches), peak 6, 0 failures, 2 users\nTotal: 1 pools, 8192 bytes allocated.\n";
        assert_eq!(
            twin(pools, text),
            "{\"name\":\"task\",\"size\":64,\"allocated\":128,\"allocated_bytes\":8192,\"used\":5,\"cached\":123,\
             \"peak\":6,\"failures\":0,\"users\":2}\n"
        );
        let text = "Per-task CPU profiling              : on            # set profiling tasks {on|auto|off}\n\
                    Tasks activity over 0.000 sec till 0.000 sec ago:\n  function  calls   cpu_tot   cpu_avg   lkw_avg   \
                    lkd_avg   mem_avg   lat_avg\n  cli  2   23.70us   1.002ms      -         -         -      - <- a.rs:3\n";
        assert_eq!(
            twin(profiling, text),
            "{\"profiling\":\"Per-task CPU\",\"state\":\"on\"}\n{\"function\":\"cli\",\"calls\":2,\"cpu_tot_ns\":23700,\
             \"cpu_avg_ns\":1002000,\"lat_avg_ns\":null,\"from\":\"a.rs:3\"}\n"
        );
        let text = "Running tasks: 1 (2 threads)\n  function  places  %  lat_tot  lat_avg  calls_tot  calls_avg calls%\n  \
                    stream 1  100.0   3.5s   3.5s  0  0  0.0\n";
        assert_eq!(
            twin(tasks, text),
            "{\"function\":\"stream\",\"places\":1,\"lat_tot_ns\":3500000000,\"lat_avg_ns\":3500000000}\n"
        );
        let text = "* Thread 1 : id=0x7f act=0\n      1/1    loops=14\n             cpu_ns: now=45 since_poll_us=2\n> Thread \
                    2 : does not answer\n      1/2    loops=1 stuck=1\n";
        assert_eq!(
            twin(threads, text),
            "{\"thread\":1,\"state\":\"answers\",\"id\":\"0x7f\",\"act\":0,\"loops\":14,\"cpu_ns_now\":45,\
             \"since_poll_us\":2}\n{\"thread\":2,\"state\":\"stuck\",\"loops\":1,\"stuck\":1}\n"
        );
    }
}
