//! Playing one scenario and judging it.

use super::{Network, SimConfig, SimCounts};
use crate::buffer;
use crate::driver::{self, DriverKind};
use std::cell::RefCell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// Virtual milliseconds the network is given at the end to come to rest.
const REST_MS: u64 = 130_000;

/// How a scenario went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed that repeats it.
    pub seed: u64,
    /// Virtual milliseconds it took.
    pub virtual_ms: u64,
    /// What was counted.
    pub counts: SimCounts,
    /// A digest of everything that happened in the network, in order: equal for equal runs.
    pub trace: u64,
    /// Why it ended before its scenario did, if so.
    pub verdict: Option<String>,
    /// Tasks that panicked or hung.
    pub incidents: Vec<String>,
    /// Descriptors still open once everything came to rest.
    pub descriptors_left: Vec<String>,
    /// Sockets still registered.
    pub sockets_left: usize,
    /// Buffers still in use.
    pub buffers_left: usize,
    /// Tasks still alive, beside the scenario itself, by the names of their kinds.
    pub tasks_left: Vec<&'static str>,
    /// What happened, when [`Network::keep_journal`] was called.
    pub journal: Vec<(u64, String)>,
}

impl Report {
    /// `Ok` when the scenario ended by itself and nothing was left.
    ///
    /// # Errors
    /// What was wrong, one line each, starting with the seed.
    pub fn check(&self) -> Result<(), String> {
        let mut wrong = Vec::new();
        wrong.extend(self.verdict.clone());
        wrong.extend(self.incidents.iter().cloned());
        wrong.extend(self.descriptors_left.iter().map(|d| format!("descriptor left open: {d}")));
        wrong.extend(self.tasks_left.iter().map(|kind| format!("task left: {kind}")));
        for (n, what) in [(self.sockets_left, "sockets"), (self.buffers_left, "buffers")] {
            if n > 0 {
                wrong.push(format!("{n} {what} left"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("seed {}: {}", self.seed, wrong.join("\n  ")))
    }
}

/// Plays a scenario on this thread. `body` gets the network and returns the scenario, which may spawn tasks; when it
/// ends, the network comes to rest and the report is made. Nothing that goes wrong in it panics here.
pub fn run<F>(seed: u64, config: SimConfig, body: impl FnOnce(Network) -> F) -> Report
where
    F: Future<Output = ()> + 'static,
{
    let buffers = config.buffers;
    let network = Network::new(seed, config);
    let left: Rc<RefCell<Option<Report>>> = Rc::default();
    let started = network.world().now_ns;
    let scenario = body(network.clone());
    let future = {
        let (network, left) = (network.clone(), left.clone());
        async move {
            scenario.await;
            crate::timer::sleep(REST_MS).await;
            let stats = buffer::stats();
            *left.borrow_mut() = Some(Report {
                seed,
                virtual_ms: 0,
                counts: SimCounts::default(),
                trace: 0,
                verdict: None,
                incidents: Vec::new(),
                descriptors_left: network.world().leftovers(),
                sockets_left: driver::with(|d| d.stats().sockets),
                buffers_left: stats.used + stats.bulk_used + stats.heap_count,
                tasks_left: network
                    .tasks()
                    .into_iter()
                    .filter(|(task, _)| *task != crate::current_task())
                    .map(|(_, kind)| kind)
                    .collect(),
                journal: Vec::new(),
            });
        }
    };
    let incidents = network.clone();
    let config = crate::Config {
        driver: DriverKind::Sim(network.clone()),
        buffers,
        budget: None,
        on_incident: Some(Arc::new(move |incident| incidents.world().incidents.push(incident.to_string()))),
        ..crate::Config::default()
    };
    let ended = catch_unwind(AssertUnwindSafe(|| crate::block_on(config, future)));
    let journal = network.journal();
    let world = network.world();
    let mut report = left.borrow_mut().take().unwrap_or_else(|| Report {
        seed,
        virtual_ms: 0,
        counts: SimCounts::default(),
        trace: 0,
        verdict: Some("the scenario did not end".to_owned()),
        incidents: Vec::new(),
        descriptors_left: Vec::new(),
        sockets_left: 0,
        buffers_left: 0,
        tasks_left: Vec::new(),
        journal: Vec::new(),
    });
    report.virtual_ms = (world.now_ns - started) / 1_000_000;
    report.counts = world.counts;
    report.trace = world.trace;
    report.journal = journal;
    report.incidents = world.incidents.clone();
    if world.verdict.is_some() {
        report.verdict = world.verdict.clone();
    }
    if ended.is_err() && report.verdict.is_none() && report.incidents.is_empty() {
        report.verdict = Some("the scenario panicked".to_owned());
    }
    report
}
