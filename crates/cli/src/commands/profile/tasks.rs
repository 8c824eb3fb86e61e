//! `show tasks`: what waits for a thread.

use std::io;

use thalweg_runtime::profile::{self, QueuedTasks};
use thalweg_runtime::thread_count;

use super::{known, time_or_none};
use crate::command::Call;
use crate::json::Object;
use crate::output::Reply;

pub async fn show(call: Call<'_>) -> io::Result<Reply> {
    let kinds = profile::queued_tasks().await;
    Ok(Reply::Text(if call.wants_json() { json(&kinds) } else { text(&kinds, thread_count()) }))
}

/// Lines in the layout of the reference. What the tasks did before is not counted.
fn text(kinds: &[QueuedTasks], threads: usize) -> String {
    let total: u64 = kinds.iter().map(|kind| kind.places).sum();
    let plural = if threads == 1 { "" } else { "s" };
    let mut out = format!(
        "Running tasks: {total} ({threads} thread{plural})\n  function                     places     %    lat_tot   lat_avg  \
         calls_tot  calls_avg calls%\n"
    );
    for QueuedTasks { name, places, latency_ns } in kinds {
        let permille = places * 1000 / total.max(1);
        let (percent, tenth) = (permille / 10, permille % 10);
        let (all, average) = (time_or_none(*latency_ns), time_or_none(latency_ns / places.max(&1)));
        out.push_str(&format!(
            "  {name:<24}{places:>11}  {percent:>3}.{tenth}   {all}   {average}{:>11}{:>11}    0.0\n",
            0, 0
        ));
    }
    out
}

/// An object for each kind.
fn json(kinds: &[QueuedTasks]) -> String {
    let mut out = String::new();
    for QueuedTasks { name, places, latency_ns } in kinds {
        Object::default()
            .text("function", name)
            .number("places", Some(*places))
            .number("lat_tot_ns", known(*latency_ns))
            .number("lat_avg_ns", known(latency_ns / places.max(&1)))
            .end(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_say_the_same() {
        let kinds = [
            QueuedTasks { name: "stream", places: 2, latency_ns: 3_500_000_000 },
            QueuedTasks { name: "cli", places: 1, latency_ns: 0 },
        ];
        assert_eq!(
            text(&kinds, 2),
            "Running tasks: 3 (2 threads)\n\
             \x20 function                     places     %    lat_tot   lat_avg  calls_tot  calls_avg calls%\n\
             \x20 stream                            2   66.6   3.500s    1.750s           0          0    0.0\n\
             \x20 cli                               1   33.3      -         -             0          0    0.0\n"
        );
        assert_eq!(
            json(&kinds),
            "{\"function\":\"stream\",\"places\":2,\"lat_tot_ns\":3500000000,\"lat_avg_ns\":1750000000}\n\
             {\"function\":\"cli\",\"places\":1,\"lat_tot_ns\":null,\"lat_avg_ns\":null}\n"
        );
    }
}
