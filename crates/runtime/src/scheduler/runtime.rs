//! Threads: starting them, their loop, stopping them.

use super::local::{Local, expect_local, local};
use super::shared::SharedTasks;
use super::thread::{self, Endpoint};
use super::{Cause, Incident, SpawnOptions};
use crate::buffer::{self, BufferConfig};
use crate::driver::{self, Driver, DriverKind, DriverOptions, Wait};
use crate::profile::{self, Kind, Profiling};
use crate::topology::CpuSet;
use crate::{clock, memory, pool, topology, watchdog};
use std::future::Future;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use thalweg_shared::{AtomicBool, AtomicU64, Ordering, fence};

/// Called when a task misbehaved; on the thread it ran on, outside of any task.
pub type OnIncident = Arc<dyn Fn(&Incident<'_>) + Send + Sync>;

/// See [`Config::on_trim`].
pub type OnTrim = Arc<dyn Fn() + Send + Sync>;

/// See [`Config::on_publish`].
pub type OnPublish = Arc<dyn Fn(&mut pool::TakeStock<'_>) + Send + Sync>;

/// How to run. `Config::default()` is one thread with the best driver there is.
#[derive(Clone)]
pub struct Config {
    /// Threads, 1 to 1022 (`nbthread`).
    pub threads: usize,
    /// The CPUs each thread may use (`cpu-map`); missing or `None`: as inherited.
    pub cpus: Vec<Option<CpuSet>>,
    /// Which driver.
    pub driver: DriverKind,
    /// Its settings.
    pub driver_options: DriverOptions,
    /// Each thread's buffers (`tune.bufsize`, `tune.buffers.limit`, `tune.buffers.reserve`).
    pub buffers: BufferConfig,
    /// The most entries a round runs between two polls, 1 to 65536 (`tune.runqueue-depth`).
    pub runqueue_depth: u32,
    /// A more urgent class takes over as soon as it has work (`tune.sched.low-latency`).
    pub low_latency: bool,
    /// Poll without ever sleeping (`busy-polling`).
    pub busy_polling: bool,
    /// How long a task may run without yielding before it is reported; `None`: for ever.
    pub budget: Option<Duration>,
    /// Whether to profile from the start (`profiling.tasks`).
    pub profiling: Profiling,
    /// Start of the threads' names; the thread's number follows.
    pub thread_name: &'static str,
    /// Called when a task misbehaved; without it a line is written to standard error.
    pub on_incident: Option<OnIncident>,
    /// Called on a thread that has just given its free memory to the allocator, because it had nothing to do for a while
    /// or has much less to look after than before: others may do the same, and the allocator return its pages. On the
    /// thread, outside of any task.
    pub on_trim: Option<OnTrim>,
    /// Called a few times a second on a thread that is awake, outside of any task: tells what else it keeps, for `show
    /// pools`.
    pub on_publish: Option<OnPublish>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            threads: 1,
            cpus: Vec::new(),
            driver: DriverKind::Auto,
            driver_options: DriverOptions::default(),
            buffers: BufferConfig::default(),
            runqueue_depth: 40,
            low_latency: false,
            busy_polling: false,
            budget: Some(Duration::from_millis(100)),
            profiling: Profiling::Auto,
            thread_name: "worker",
            on_incident: None,
            on_trim: None,
            on_publish: None,
        }
    }
}

/// What the threads of a runtime have in common. Written when it starts, and `stop` when it ends.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) threads: Vec<&'static Endpoint>,
    pub(crate) numbers: Vec<u32>,
    /// Shared tasks, where there is more than one thread.
    pub(crate) tasks: Option<&'static SharedTasks>,
    tasks_number: Option<u32>,
    pub(crate) stop: AtomicBool,
    /// How profiling is switched; see [`profile::set_profiling`].
    pub(crate) profiling: AtomicU64,
    /// Since when there is a profile, and until when (0: it goes on), in microseconds.
    pub(crate) profiled_from: AtomicU64,
    pub(crate) profiled_until: AtomicU64,
    pub(crate) started_us: u64,
}

impl Shared {
    fn new(config: Config) -> io::Result<Shared> {
        let too_many = || io::Error::other("too many threads in this process");
        let mut shared = Shared {
            threads: Vec::new(),
            numbers: Vec::new(),
            tasks: None,
            tasks_number: None,
            stop: AtomicBool::new(false),
            profiling: AtomicU64::new(profile::initial_switch(config.profiling)),
            profiled_from: AtomicU64::new(if config.profiling == Profiling::On {
                clock::now_us()
            } else {
                0
            }),
            profiled_until: AtomicU64::new(0),
            started_us: clock::now_us(),
            config,
        };
        for _ in 0..shared.config.threads.max(1) {
            let (number, endpoint) = thread::claim_thread().ok_or_else(too_many)?;
            endpoint.open(shared.config.threads <= 1);
            shared.threads.push(endpoint);
            shared.numbers.push(number);
        }
        if shared.threads.len() > 1 {
            let (number, tasks) = thread::claim_tasks().ok_or_else(too_many)?;
            tasks.open(number, shared.threads.clone());
            shared.tasks = Some(tasks);
            shared.tasks_number = Some(number);
        }
        Ok(shared)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.iter().for_each(|t| t.wake_now());
    }

    pub(crate) fn report(&self, incident: &Incident<'_>) {
        match &self.config.on_incident {
            Some(hook) => {
                // The hook is the last resort; if it panics too there is nobody left to tell.
                _ = catch_unwind(AssertUnwindSafe(|| hook(incident)));
            }
            // Whoever closed the standard error does not want to know.
            None => _ = writeln!(io::stderr(), "{incident}"),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The last thread is gone.
        if let Some(tasks) = self.tasks {
            tasks.close();
        }
        // SAFETY: the owners are gone, and nobody else has their numbers yet.
        self.threads.iter().for_each(|endpoint| unsafe { endpoint.discard() });
        self.numbers.iter().copied().chain(self.tasks_number).for_each(thread::release);
    }
}

/// A runtime: its threads, each with a scheduler, a driver and pools.
pub struct Runtime {
    shared: Arc<Shared>,
    on_thread_start: Arc<dyn Fn(usize) + Send + Sync>,
    threads: Vec<JoinHandle<()>>,
}

/// Reaches a runtime from threads that are not its own.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// See [`stop`].
    pub fn stop(&self) {
        self.0.stop();
    }

    /// See [`crate::run_on`].
    ///
    /// # Panics
    /// If there is no such thread.
    pub fn run_on(&self, thread: usize, f: impl FnOnce() + Send + 'static) {
        self.0.threads[thread].send_job(Box::new(f));
    }

    /// See [`crate::spawn_shared`]. With one thread the task is sent there.
    #[track_caller]
    pub fn spawn_shared(&self, kind: &'static Kind, future: impl Future<Output = ()> + Send + 'static) {
        let from = Location::caller();
        let future = match self.0.tasks {
            Some(tasks) => match tasks.spawn(kind, future, from) {
                Ok(_) => return,
                Err(future) => future,
            },
            None => future,
        };
        self.run_on(0, move || _ = expect_local().spawn(kind, SpawnOptions::default(), future, from));
    }

    /// The number of threads.
    pub fn thread_count(&self) -> usize {
        self.0.threads.len()
    }
}

impl Runtime {
    /// Starts a runtime. Threads 1 and up run from here on; thread 0 is the one that calls [`Runtime::run`].
    /// `on_thread_start` is called on each thread, before its loop, to spawn its first tasks.
    ///
    /// # Errors
    /// When a thread or its driver cannot be made, or a CPU set is refused; what had been started is stopped.
    pub fn start(
        config: Config,
        on_thread_start: impl Fn(usize) + Send + Sync + 'static,
    ) -> io::Result<Runtime> {
        let shared = Arc::new(Shared::new(config)?);
        let mut runtime = Runtime {
            shared: shared.clone(),
            on_thread_start: Arc::new(on_thread_start),
            threads: Vec::new(),
        };
        let (ready, started) = mpsc::channel();
        for index in 1..shared.threads.len() {
            let (shared, hook, ready) = (shared.clone(), runtime.on_thread_start.clone(), ready.clone());
            let thread = std::thread::Builder::new()
                .name(runtime.thread_name(index))
                .spawn(move || run_thread(&shared, index, &*hook, |result| _ = ready.send(result)))?;
            runtime.threads.push(thread);
        }
        drop(ready);
        for _ in 1..shared.threads.len() {
            started.recv().map_err(|_| io::Error::other("a thread ended while it started"))??;
        }
        Ok(runtime)
    }

    /// A handle for other threads.
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// What the thread of that number is called.
    pub fn thread_name(&self, index: usize) -> String {
        format!("{}/{}", self.shared.config.thread_name, index + 1)
    }

    /// Runs thread 0 here until someone calls [`stop`], then waits for the other threads. All tasks are dropped, each
    /// on its thread.
    ///
    /// # Errors
    /// When thread 0's driver cannot be made, or its CPU set is refused.
    ///
    /// # Panics
    /// When a thread's loop itself panicked (not a task: those are contained).
    pub fn run(mut self) -> io::Result<()> {
        let mut result = Ok(());
        run_thread(&self.shared, 0, &*self.on_thread_start, |r| result = r);
        self.shared.stop();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
        result
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Not run, or a start that failed half-way.
        self.shared.stop();
        for thread in self.threads.drain(..) {
            _ = thread.join();
        }
    }
}

/// A handle of the runtime this thread belongs to.
pub fn handle() -> Option<Handle> {
    local().map(|l| Handle(l.runtime.clone()))
}

/// Asks all threads of this runtime to end after their current round. Nothing outside of one.
pub fn stop() {
    if let Some(local) = local() {
        local.runtime.stop();
    }
}

/// Whether this runtime has been asked to stop.
pub fn stopping() -> bool {
    local().is_some_and(|l| super::local::stopping(&l.runtime))
}

static BLOCK_ON: Kind = Kind::new("block-on");

/// Runs one future on a one-thread runtime made for it, on this thread, and returns its output. Other tasks it spawned
/// are dropped at its end. For tests and small programs.
///
/// # Panics
/// When the runtime cannot be started, or the future panics.
pub fn block_on<F: Future + 'static>(config: Config, future: F) -> F::Output
where
    F::Output: 'static,
{
    use std::cell::RefCell;
    use std::rc::Rc;
    let output = Rc::new(RefCell::new(None));
    // The future is not `Send`, so it is handed to the loop's start directly and not through the start hook.
    let shared = Arc::new(Shared::new(Config { threads: 1, ..config }).expect("a thread number is free"));
    let result = output.clone();
    let mut failed = None;
    run_thread_with(
        &shared,
        0,
        || {
            crate::spawn(&BLOCK_ON, async move {
                // Stops whether the future returns or panics.
                struct Stop;
                impl Drop for Stop {
                    fn drop(&mut self) {
                        stop();
                    }
                }
                let _stop = Stop;
                *result.borrow_mut() = Some(future.await);
            });
        },
        |r| failed = r.err(),
    );
    if let Some(error) = failed {
        panic!("the runtime did not start: {error}");
    }
    output.take().expect("the future panicked")
}

fn run_thread(
    shared: &Arc<Shared>,
    index: usize,
    hook: &(dyn Fn(usize) + Send + Sync),
    ready: impl FnOnce(io::Result<()>),
) {
    run_thread_with(shared, index, || hook(index), ready);
}

/// A thread from its start to its end.
fn run_thread_with(
    shared: &Arc<Shared>,
    index: usize,
    start: impl FnOnce(),
    ready: impl FnOnce(io::Result<()>),
) {
    let prepared = (|| {
        if let Some(Some(cpus)) = shared.config.cpus.get(index) {
            topology::pin_current_thread(cpus)?;
        }
        let waker = shared.threads[index].waker()?;
        Driver::woken_by(waker, shared.config.driver.clone(), &shared.config.driver_options)
    })();
    let driver = match prepared {
        Ok(driver) => driver,
        Err(e) => return ready(Err(e)),
    };
    let endpoint = shared.threads[index];
    driver::install(driver);
    buffer::configure(shared.config.buffers);
    clock::refresh();
    pool::enter();
    memory::enter(shared.threads.len());
    let local = Local::new(shared.numbers[index], index, endpoint, shared.clone());
    local.enter();
    profile::enter(&local);
    let watch = shared.config.budget.and_then(|budget| watchdog::watch_current_thread(&local, budget));

    /// Takes the thread's things down in order, also when the loop panics.
    struct End<'a>(&'a Local, &'a Arc<Shared>);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            let (local, shared) = (self.0, self.1);
            // A thread that ends for whatever reason ends the others: half a proxy is worse than none.
            shared.stop();
            local.drop_tasks();
            driver::uninstall();
            local.endpoint.close();
            local.leave();
            memory::leave();
            pool::leave();
            clock::leave();
        }
    }
    let end = End(&local, shared);
    // Only the loop has to be undone by hand when it panics; the panic goes on to whoever joins the thread.
    start();
    ready(Ok(()));
    run_loop(&local);
    drop(watch);
    drop(end);
}

/// How often a thread that is awake trims and publishes its pools, in microseconds.
const HOUSEKEEPING_US: u64 = 250_000;
/// When the start of a thread is over, in microseconds.
const SETTLED_US: u64 = 2_000_000;
/// A thread that had work sleeps this long at first; when nothing came by then it gives its free memory back and sleeps
/// for as long as there is nothing to do.
const IDLE: Duration = Duration::from_secs(1);

fn run_loop(local: &Local) {
    let runtime = &*local.runtime;
    let endpoint = local.endpoint;
    let busy_polling = runtime.config.busy_polling;
    let mut housekeeping_at = 0;
    let mut trimmed = false;
    let mut ebb = pool::Ebb::default();
    // What only the start needed goes back even when the thread is never idle.
    let mut settled_at = clock::now_us() + SETTLED_US;
    loop {
        let mut busy = local.take_mail();
        local.expire();
        let ran = local.run_round();
        if super::local::stopping(runtime) {
            return last_mail(local);
        }
        busy |= busy_polling || local.has_work() || runtime.tasks.is_some_and(|t| t.waiting() > 0);
        let mut wait = if busy { Wait::Now } else { until(local.next_deadline()) };
        let mut slept_from = 0;
        if wait != Wait::Now {
            if local.several {
                endpoint.sleep.announce();
            }
            // SAFETY: this thread owns the endpoint.
            let mail = unsafe { !endpoint.is_empty() };
            if mail || super::local::stopping(runtime) || runtime.tasks.is_some_and(|t| t.waiting() > 0) {
                wait = Wait::Now;
            } else {
                let now_ns = clock::precise_ns();
                slept_from = now_ns / 1000;
                if (!trimmed || memory::is_lacking()) && !clock::is_virtual() {
                    let idle = now_ns + IDLE.as_nanos() as u64;
                    wait = Wait::Until(if let Wait::Until(at) = wait { at.min(idle) } else { idle });
                }
            }
        }
        let left = local.queued().iter().sum::<usize>() as u64;
        let polled = driver::with(|d| d.poll(wait));
        if local.several {
            endpoint.sleep.awake();
        }
        // The driver has read the clock after its wait.
        let now = clock::now_us();
        match polled {
            Ok(stats) => {
                let polled =
                    profile::Polled { stats, wait, slept_from_us: slept_from, now_us: now, ran, left };
                profile::count_round(local, &polled);
            }
            Err(error) => driver_failed(local, &error),
        }
        if now >= housekeeping_at {
            housekeeping_at = now + HOUSEKEEPING_US;
            housekeeping(local);
            if ebb.has_ebbed(local.slots.live() as usize) || now >= settled_at {
                settled_at = u64::MAX;
                trim(local);
            }
            if memory::is_lacking() {
                trim(local);
                memory::recover();
            }
        }
        if ran > 0 {
            trimmed = false;
        } else if slept_from != 0 && now - slept_from >= IDLE.as_micros() as u64 && !trimmed {
            trimmed = true;
            trim(local);
        }
    }
}

/// Runs what was sent before the stop: whoever sends a job and then has the runtime stopped counts on the job, such as the last
/// line of a log.
#[cold]
fn last_mail(local: &Local) {
    // Pairs with the store of the flag: all that was sent before it is seen.
    fence(Ordering::Acquire);
    // Jobs that send jobs forever must not keep us here.
    for _ in 0..64 {
        let busy = local.take_mail();
        // SAFETY: this thread owns the endpoint.
        if !busy && unsafe { local.endpoint.is_empty() } {
            return;
        }
    }
}

/// How long to wait for the deadline.
fn until(deadline_ms: Option<u64>) -> Wait {
    let Some(deadline_ms) = deadline_ms else { return Wait::Forever };
    let at_ns = deadline_ms.saturating_mul(1_000_000);
    // The round's clock is behind by the length of the round.
    if at_ns <= clock::precise_ns() { Wait::Now } else { Wait::Until(at_ns) }
}

#[cold]
fn housekeeping(local: &Local) {
    pool::trim_blocks();
    buffer::pool::trim_unused();
    buffer::ring::look();
    driver::with(|d| d.close_unneeded_spares());
    publish(local);
    profile::housekeeping(local);
}

/// Publishes what the thread holds, for `show pools`.
fn publish(local: &Local) {
    pool::publish_blocks();
    buffer::pool::take_stock(&mut pool::publish_stock);
    pool::publish_stock(local.slots.stock());
    pool::publish_stock(driver::with(|d| d.stock()));
    if let Some(hook) = &local.runtime.config.on_publish {
        hook(&mut pool::publish_stock);
    }
}

/// Nothing happened for a while, or most of what there was is gone: what is free goes back.
#[cold]
fn trim(local: &Local) {
    pool::release_blocks();
    buffer::pool::trim();
    local.trim();
    driver::with(Driver::trim);
    publish(local);
    if let Some(hook) = &local.runtime.config.on_trim {
        // Memory that is given back late is no reason to end a thread.
        _ = catch_unwind(AssertUnwindSafe(|| hook()));
    }
}

#[cold]
fn driver_failed(local: &Local, error: &io::Error) {
    local.runtime.report(&Incident {
        cause: Cause::Driver,
        thread: local.index,
        kind: "driver",
        woken_from: Location::caller(),
        message: &error.to_string(),
        duration: None,
    });
    // Whatever it is, it must not become a busy loop.
    std::thread::sleep(Duration::from_millis(1));
}

impl std::fmt::Display for Incident<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Incident { thread, kind, woken_from, message, .. } = self;
        let thread = thread + 1;
        match self.cause {
            Cause::Panic => write!(
                f,
                "task '{kind}' on thread {thread}, last woken from {woken_from}, was ended by a bug: {message}"
            ),
            Cause::OverBudget => write!(
                f,
                "task '{kind}' on thread {thread}, last woken from {woken_from}, ran for {} ms without yielding",
                self.duration.unwrap_or_default().as_millis()
            ),
            Cause::Driver => write!(f, "polling for I/O failed on thread {thread}: {message}"),
        }
    }
}
