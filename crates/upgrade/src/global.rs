//! Lines of the `global` section.

use thalweg_syntax::layout::WrittenLine;

use crate::quote::rest;
use crate::{Decision, Work};

/// Translates a line of the `global` section.
pub fn line(work: &mut Work, line: &WrittenLine<'_>) -> Decision {
    let second = line.word(1);
    match &*line.word(0) {
        "nbproc" => nbproc(work, &second),
        "cpu-map" => cpu_map(work, line, &second),
        "master-worker" => Decision::gone(
            "'master-worker' was removed in 3.5: start the program with -W, or with -Ws under systemd",
        ),
        "nosepoll" => Decision::gone("'nosepoll' has nothing to disable since 1.6"),
        "debug" => Decision::gone("'debug' was removed: -d on the command line does the same"),
        "tune.chksize" => Decision::gone("'tune.chksize' was removed: checks use tune.bufsize"),
        "tune.ssl.capture-cipherlist-size" => Decision::same(
            format!("tune.ssl.capture-buffer-size {}", rest(line, 1)),
            "'tune.ssl.capture-cipherlist-size' is called 'tune.ssl.capture-buffer-size' now",
        ),
        "stats" if second == "bind-process" => {
            Decision::gone("'stats bind-process' was removed: there is one process since 2.5")
        }
        "stats" if second == "socket" => process_option(line).unwrap_or(Decision::Keep),
        _ => Decision::Keep,
    }
}

fn nbproc(work: &Work, number: &str) -> Decision {
    if work.facts.processes.is_none() {
        return Decision::gone(format!("'nbproc {number}' was removed in 2.5: there is always one process"));
    }
    let why = format!(
        "'nbproc {number}' was removed in 2.5; threads took the place of processes. Limits such as maxconn, stick tables \
         and statistics were those of each process and are shared now"
    );
    if work.facts.has_threads {
        return Decision::near(Vec::new(), why);
    }
    Decision::near(vec![format!("nbthread {number}")], why)
}

/// `cpu-map`: what were processes are threads of the first group.
fn cpu_map(work: &Work, line: &WrittenLine<'_>, which: &str) -> Decision {
    let (auto, set) = match which.strip_prefix("auto:") {
        Some(set) => ("auto:", set),
        None => ("", which),
    };
    if set.contains('/') {
        let (process, threads) = set.split_once('/').unwrap_or((set, ""));
        if process == "1" {
            return Decision::Keep;
        }
        let new = format!("cpu-map {auto}1/{threads} {}", rest(line, 2));
        return match work.facts.processes {
            // `all/1-4` and the like, with one process.
            None => Decision::same(new, "'cpu-map' names groups of threads now, and there is one"),
            Some(_) => Decision::leave(
                "'cpu-map' named threads of several processes: say which threads of the one process it is for",
            ),
        };
    }
    if work.facts.processes.is_none() && set == "1" && auto.is_empty() {
        // With one process it placed all of its threads, as it does today for the first group.
        return Decision::Keep;
    }
    Decision::same(
        format!("cpu-map {auto}1/{set} {}", rest(line, 2)),
        "processes are threads now: 'cpu-map' names threads of the first group",
    )
}

/// `process` among the options of a listening socket.
pub fn process_option(line: &WrittenLine<'_>) -> Option<Decision> {
    let at = (2..line.words.len()).find(|index| line.word(*index) == "process")?;
    let value = line.word(at + 1).into_owned();
    let threads = value.split_once('/').map(|(_, threads)| threads).filter(|threads| *threads != "all");
    let mut words: Vec<&str> = line.words.iter().map(|word| word.raw).collect();
    words.drain(at..(at + 2).min(words.len()));
    let mut new = words.join(" ");
    let mut why = format!("'process {value}' was removed: there is one process since 2.5");
    if let Some(threads) = threads {
        new.push_str(&format!(" thread {threads}"));
        why.push_str("; its threads are named by 'thread'");
    }
    Some(Decision::same(new, why))
}
