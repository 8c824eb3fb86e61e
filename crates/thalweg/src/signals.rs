//! Signals become calls (management manual, chapter 4).
//!
//! | Signal | Effect |
//! |---|---|
//! | SIGUSR1 | stop listening, finish what is in progress, leave with 0 |
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

/// Starts the thread that waits for signals. `hard_stop_after` bounds a soft stop. `reloads`: it is
/// this process that SIGHUP reloads, and not a master.
pub fn start(
    set: SignalSet,
    control: Control,
    mut reporter: Reporter,
    hard_stop_after: Option<Duration>,
    reloads: bool,
) -> std::io::Result<()> {
    let serve = move || {
        thalweg_runtime::memory::keep();
        loop {
            let Ok(signal) = set.wait() else { return };
            match signal {
                Signal::User1 => {
                    control.soft_stop().iter().for_each(|line| reporter.warning(line));
                    if let Some(delay) = hard_stop_after {
                        stop_later(control.clone(), reporter.clone(), delay);
                    }
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
