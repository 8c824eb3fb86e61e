//! `show profiling`: what each kind of task costs.

use thalweg_runtime::profile::{self, Order, ProfileOptions, TaskCost, TaskCosts};

use super::{known, time_or_none};
use crate::command::Call;
use crate::json::Object;
use crate::output::Reply;

/// What is wanted.
#[derive(Default)]
struct Wanted {
    status: bool,
    tasks: bool,
    memory: bool,
    options: ProfileOptions,
}

impl Wanted {
    fn read(args: &[&str]) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        for arg in args {
            match *arg {
                "all" => (wanted.status, wanted.tasks) = (true, true),
                "status" => wanted.status = true,
                "tasks" => wanted.tasks = true,
                // There is nothing to show of it, as in a reference without it.
                "memory" => wanted.memory = true,
                "byaddr" => wanted.options.order = Order::Address,
                "bytime" => wanted.options.order = Order::Time,
                "byctx" => wanted.options.order = Order::Context,
                "aggr" => wanted.options.aggregate = true,
                number => wanted.options.rows_max = number.parse().ok()?,
            }
        }
        let all = !wanted.status && !wanted.tasks && !wanted.memory;
        (wanted.status, wanted.tasks) = (wanted.status || all, wanted.tasks || all);
        Some(wanted)
    }
}

pub fn show(call: &Call<'_>) -> Reply {
    let Some(wanted) = Wanted::read(call.args) else {
        return Reply::error(
            "Expects either 'all', 'status', 'tasks', 'memory', 'byaddr', 'bytime', 'byctx', 'aggr' or a max number of output \
             lines.",
        );
    };
    // What can be measured, whether it is, and how that is changed.
    let switches = [
        ("Per-task CPU", profile::profiling().name(), "tasks {on|auto|off}"),
        ("Memory usage", "off", "memory {on|off}"),
    ];
    let switches = if wanted.status { &switches[..] } else { &[] };
    let costs = profile::task_costs(wanted.options).filter(|_| wanted.tasks);
    Reply::Text(if call.wants_json() {
        json(switches, costs.as_ref())
    } else {
        text(switches, costs.as_ref())
    })
}

type Switch = (&'static str, &'static str, &'static str);

/// Lines in the layout of the reference.
fn text(switches: &[Switch], costs: Option<&TaskCosts>) -> String {
    let mut out = String::new();
    for (what, state, how) in switches {
        let what = format!("{what} profiling");
        out.push_str(&format!("{what:<36}: {state:<8}      # set profiling {how}\n"));
    }
    let Some(costs) = costs else { return out };
    let seconds = |us: u64| format!("{}.{:03}", us / 1_000_000, us / 1000 % 1000);
    let (length, ended) = (seconds(costs.length_us), seconds(costs.ended_us));
    out.push_str(&format!(
        "Tasks activity over {length} sec till {ended} sec ago:\n  function                      calls   cpu_tot   cpu_avg   \
         lkw_avg   lkd_avg   mem_avg   lat_avg\n"
    ));
    costs.rows.iter().for_each(|row| line(&mut out, row));
    out
}

fn line(out: &mut String, row: &TaskCost) {
    // Time in locks and for memory: nothing here waits for either.
    const NONE: &str = "   -   ";
    out.push_str(&format!(
        "  {:<24}{:>11}   {}   {}   {NONE}   {NONE}   {NONE}   {}",
        row.name,
        row.calls,
        time_or_none(row.cpu_ns),
        time_or_none(row.cpu_ns / row.calls.max(1)),
        time_or_none(row.latency_ns / row.calls.max(1)),
    ));
    if let Some(from) = row.from {
        out.push_str(&format!(" <- {}:{}", from.file(), from.line()));
    }
    out.push('\n');
}

/// An object for each switch, then one for each kind of task.
fn json(switches: &[Switch], costs: Option<&TaskCosts>) -> String {
    let mut out = String::new();
    for (what, state, _) in switches {
        Object::default().text("profiling", what).text("state", state).end(&mut out);
    }
    for row in costs.iter().flat_map(|costs| &costs.rows) {
        let place = row.from.map_or_else(String::new, |from| format!("{}:{}", from.file(), from.line()));
        Object::default()
            .text("function", row.name)
            .numbers([
                ("calls", row.calls),
                ("cpu_tot_ns", row.cpu_ns),
                ("cpu_avg_ns", row.cpu_ns / row.calls.max(1)),
            ])
            .number("lat_avg_ns", known(row.latency_ns / row.calls.max(1)))
            .text("from", &place)
            .end(&mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_objects_say_the_same() {
        let row =
            TaskCost { name: "h1_io_cb", from: None, calls: 344, cpu_ns: 8_570_000, latency_ns: 467 * 344 };
        let costs = TaskCosts { length_us: 1_500_000, ended_us: 0, rows: vec![row] };
        let switches = [("Per-task CPU", "on", "tasks {on|auto|off}")];
        assert_eq!(
            text(&switches, Some(&costs)),
            "Per-task CPU profiling              : on            # set profiling tasks {on|auto|off}\n\
             Tasks activity over 1.500 sec till 0.000 sec ago:\n\
             \x20 function                      calls   cpu_tot   cpu_avg   lkw_avg   lkd_avg   mem_avg   lat_avg\n\
             \x20 h1_io_cb                        344   8.570ms   24.91us      -         -         -      467.0ns\n"
        );
        assert_eq!(
            json(&switches, Some(&costs)),
            "{\"profiling\":\"Per-task CPU\",\"state\":\"on\"}\n{\"function\":\"h1_io_cb\",\"calls\":344,\"cpu_tot_ns\":8570000,\
             \"cpu_avg_ns\":24912,\"lat_avg_ns\":467,\"from\":\"\"}\n"
        );
    }
}
