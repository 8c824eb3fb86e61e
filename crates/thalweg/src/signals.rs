//! Signals become calls (management manual, chapter 4).
//!
//! | Signal | Effect |
//! |---|---|
//! | SIGUSR1 | stop listening, finish what is in progress, leave with 0; after `grace` |
//! | SIGTERM, SIGINT | leave now, and let the parent see the signal |
//! | SIGTTOU, SIGTTIN | stop listening for a while; listen again |
//! | SIGHUP | show the state of proxies and servers; without a master, reload in place |
//! | SIGQUIT | show the state of memory |
//! | SIGUSR2, SIGPIPE | nothing |

use std::sync::Mutex;
use std::time::Duration;

use thalweg_sys::signal::{Signal, SignalSet, die_by};

use crate::locked;
use crate::report::Reporter;
use crate::service::Control;

/// The signals this process acts on or ignores by waiting for them.
pub const HANDLED: [Signal; 8] = [
    Signal::User1,
    Signal::User2,
    Signal::Terminate,
    Signal::Interrupt,
    Signal::Hangup,
    Signal::Quit,
    Signal::TerminalOutput,
    Signal::TerminalInput,
];

/// After a hard stop, threads that do not notice are not waited for longer.
const HARD_STOP_PATIENCE: Duration = Duration::from_secs(2);

/// The stack of a thread that only waits and calls.
const STACK_SIZE: usize = 128 * 1024;

/// The signal that ended the process, if one did. Set before the threads are told to stop.
static ENDED_BY: Mutex<Option<Signal>> = Mutex::new(None);

/// The signal that ended the process, if one did.
pub fn ended_by() -> Option<Signal> {
    *locked(&ENDED_BY)
}

/// When a soft stop begins and ends.
#[derive(Clone, Copy, Debug)]
pub struct StopDelays {
    /// How long after SIGUSR1 it begins (`grace`); zero: at once.
    pub grace: Duration,
    /// How long it may take from there (`hard-stop-after`).
    pub hard_stop_after: Option<Duration>,
}

/// Starts the thread that waits for signals. `reloads`: it is this process that SIGHUP reloads, and not a master.
pub fn start(
    set: SignalSet,
    control: Control,
    mut reporter: Reporter,
    delays: StopDelays,
    reloads: bool,
) -> std::io::Result<()> {
    let serve = move || {
        thalweg_runtime::memory::keep();
        let mut is_announced = false;
        loop {
            let Ok(signal) = set.wait() else { return };
            match signal {
                Signal::User1 if delays.grace.is_zero() => soft_stop(&control, &mut reporter, delays),
                // As in the reference, another signal hastens nothing.
                Signal::User1 if is_announced => {}
                Signal::User1 => {
                    is_announced = true;
                    announce_stop(&control, &mut reporter, delays);
                }
                Signal::Terminate | Signal::Interrupt => {
                    *locked(&ENDED_BY) = Some(signal);
                    control.hard_stop();
                    std::thread::sleep(HARD_STOP_PATIENCE);
                    die_by(signal);
                }
                Signal::TerminalOutput => control.pause().iter().for_each(|line| reporter.warning(line)),
                Signal::TerminalInput => control.resume().iter().for_each(|line| reporter.warning(line)),
                Signal::Hangup => {
                    reporter.warning("SIGHUP received, dumping servers states.");
                    for line in control.states() {
                        reporter.warning(&line);
                    }
                    if reloads {
                        let mut reporter = reporter.clone();
                        control.reload(move |said| reporter.notice(&format!("Reload: {}", said.trim_end())));
                    }
                }
                // Memory pools are trimmed by themselves: there is nothing to flush.
                Signal::Quit => {
                    reporter.notice("SIGQUIT received: memory that is not used is given back by itself.")
                }
                Signal::User2 | Signal::Child => {}
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).stack_size(STACK_SIZE).spawn(serve).map(|_| ())
}

/// Stops listening, and lets what is in progress finish.
fn soft_stop(control: &Control, reporter: &mut Reporter, delays: StopDelays) {
    control.soft_stop().iter().for_each(|line| reporter.warning(line));
    if let Some(delay) = delays.hard_stop_after {
        stop_later(control.clone(), reporter.clone(), delay);
    }
}

/// Begins a soft stop when `grace` is over. Until then rules know of it (`stopping`), so that who asks whether this process is
/// there can be told no, and everybody is served as before.
fn announce_stop(control: &Control, reporter: &mut Reporter, delays: StopDelays) {
    control.announce_stop();
    reporter.notice(&format!("Scheduling a soft-stop in {} ms.", delays.grace.as_millis()));
    let thread = std::thread::Builder::new().name("grace".into()).stack_size(STACK_SIZE);
    let (later, mut told) = (control.clone(), reporter.clone());
    let begun = thread.spawn(move || {
        std::thread::sleep(delays.grace);
        told.notice("Grace period expired, proceeding with soft-stop now.");
        soft_stop(&later, &mut told, delays);
    });
    // Without memory for a thread nobody would end the process.
    if begun.is_err() {
        soft_stop(control, reporter, delays);
    }
}

/// Ends a soft stop that takes too long (`hard-stop-after`).
fn stop_later(control: Control, mut reporter: Reporter, delay: Duration) {
    let thread = std::thread::Builder::new().name("hard-stop".into()).stack_size(STACK_SIZE);
    // Without memory for a thread, the soft stop goes on without a bound: an operator can still send SIGTERM.
    let _ = thread.spawn(move || {
        std::thread::sleep(delay);
        reporter.warning("soft-stop running for too long, performing a hard-stop.");
        control.remaining().iter().for_each(|line| reporter.warning(line));
        control.hard_stop();
    });
}
