//! Telling collectors of OpenTelemetry what happens (`opentelemetry` section): a task of each thread sends the spans of its streams,
//! one of the first thread sends metrics. They run when there is nothing more urgent, and traffic waits for none of them.

mod collector;

use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::model::OpenTelemetry;
use thalweg_otel::{METRICS_PATH, Resource, TRACES_PATH};
use thalweg_proxy::backend::health::say;
use thalweg_proxy::spans::Waiting;
use thalweg_proxy::worker::{self, Thread};
use thalweg_runtime::{Class, Kind, SpawnOptions, Turn, clock, spawn_with, timer, yield_now};
use thalweg_statistics::prometheus::{Exposition, Notation, Wanted};

use thalweg_cli::Cli;

use collector::{Collector, Failure};

static SPANS: Kind = Kind::new("otel-spans");
static METRICS: Kind = Kind::new("otel-metrics");

/// Bytes of metrics that are worth a message of their own.
const MESSAGE_SIZE: usize = 256 * 1024;

/// Nanoseconds of a microsecond.
const NS_PER_US: u64 = 1000;

/// Starts to tell collectors of what happens on the calling thread, if anybody is to be told.
pub fn start(cli: &Arc<Cli>) {
    let Some(worker) = worker::current() else { return };
    let Some(settings) = &worker.instance.config.opentelemetry else { return };
    let (own, settings) = (Rc::clone(worker.own()), Arc::clone(settings));
    let resource = resource(&own, &settings, &cli.version);
    let bulk = || SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
    if let Some(every_ms) = settings.metrics_ms.filter(|_| own.thread == 0) {
        let resource = self::resource(&own, &settings, &cli.version);
        let teller = Teller { collector: Collector::new(&own, &settings), failed: false };
        spawn_with(
            &METRICS,
            bulk(),
            send_metrics(Rc::clone(&own), Arc::clone(cli), every_ms, resource, teller),
        );
    }
    spawn_with(&SPANS, bulk(), send_spans(own, settings, resource));
}

/// Who tells.
fn resource(own: &Thread, settings: &OpenTelemetry, version: &str) -> Resource {
    let attributes = settings.attributes.iter().map(|(name, value)| (&**name, &**value));
    Resource::new(&settings.service_name, ("thalweg", version), &own.live.hostname, attributes)
}

async fn send_spans(own: Rc<Thread>, settings: Arc<OpenTelemetry>, resource: Resource) {
    own.send_spans();
    let mut teller = Teller { collector: Collector::new(&own, &settings), failed: false };
    loop {
        enough_spans(&own, &mut teller.collector, settings.interval_ms).await;
        let (spans, count) = own.take_spans();
        let rejected = teller.tell(&own, TRACES_PATH, &resource.with_spans(&spans)).await.unwrap_or(count);
        own.spans_done(count, rejected);
    }
}

/// Waits until there are spans to be sent.
async fn enough_spans(own: &Thread, collector: &mut Collector, interval_ms: u64) {
    let mut due = None;
    std::future::poll_fn(|_| {
        collector.watch();
        match own.waiting_spans() {
            Waiting::None => Poll::Pending,
            Waiting::Enough => Poll::Ready(()),
            Waiting::Some => {
                timer::Deadline(Some(*due.get_or_insert_with(|| timer::deadline_in(interval_ms)))).poll()
            }
        }
    })
    .await;
}

async fn send_metrics(own: Rc<Thread>, cli: Arc<Cli>, every_ms: u64, resource: Resource, mut teller: Teller) {
    loop {
        let due = timer::Deadline(Some(timer::deadline_in(every_ms)));
        std::future::poll_fn(|_| {
            teller.collector.watch();
            due.poll()
        })
        .await;
        let Some(instance) = own.live.current() else { return };
        let notation = Notation::otlp(own.live.start_wall_us * NS_PER_US, clock::wall_us() * NS_PER_US);
        let wanted = Wanted::of(b"latency").unwrap_or_default();
        let mut exposition = Exposition::new(instance, &cli.around(), wanted, notation);
        let (mut metrics, mut turn) = (String::new(), Turn::default());
        loop {
            let more = exposition.step(&mut metrics);
            if metrics.len() >= MESSAGE_SIZE || !more {
                exposition.cut(&mut metrics);
                tell_metrics(&own, &mut teller, &resource, &metrics).await;
                metrics.clear();
            }
            if !more {
                break;
            }
            if turn.is_over() {
                yield_now().await;
            }
        }
    }
}

async fn tell_metrics(own: &Rc<Thread>, teller: &mut Teller, resource: &Resource, metrics: &str) {
    if metrics.is_empty() {
        return;
    }
    let told = teller.tell(own, METRICS_PATH, &resource.with_metrics(metrics.as_bytes())).await;
    let counters = &own.counters().spans;
    if told.is_some() { &counters.metrics_sent } else { &counters.metrics_failed }.add(1);
}

/// Tells a collector, and the operator when that begins or ceases to fail.
struct Teller {
    collector: Collector,
    failed: bool,
}

impl Teller {
    async fn tell(&mut self, own: &Rc<Thread>, path: &str, message: &[u8]) -> Option<u64> {
        let (rejected, failure) = match self.collector.tell(path, message).await {
            Ok(rejected) => (Some(rejected), None),
            Err(why) => (None, Some(why)),
        };
        let failed = failure.is_some();
        if std::mem::replace(&mut self.failed, failed) != failed {
            self.say(own, failure);
        }
        rejected
    }

    fn say(&self, own: &Rc<Thread>, why: Option<Failure>) {
        let Some(pin) = own.pin() else { return };
        let name = self.collector.name();
        match why {
            Some(why) => say(&pin, "WARNING", &format!("collector {name} was not told : {why}.")),
            None => say(&pin, "NOTICE", &format!("collector {name} is told again.")),
        }
    }
}
