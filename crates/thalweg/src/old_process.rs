//! The processes this one replaces (`-sf`, `-st`, `-x`; management manual, chapter 4).

use std::path::Path;

use thalweg_sys::handover::{self, FetchError, HandedSocket};
use thalweg_sys::signal::{self, Signal};

use crate::cli::OldProcesses;
use crate::report::Reporter;

/// Takes the listening sockets of the process behind a stats socket. On failure the start must not go on: binding
/// again would fail, or split new connections between two processes.
pub fn take_listeners(path: &Path, reporter: &mut Reporter) -> Result<Vec<HandedSocket>, ()> {
    handover::fetch(path).map_err(|error| {
        let message = thalweg_syntax::source::os_message;
        let warning = match &error {
            FetchError::Connect(error) => {
                let path = path.display();
                format!("Failed to connect to the old process socket '{path}' : {}", message(error))
            }
            FetchError::Count(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                "Failed to get the number of sockets to be transferred ! Does its 'stats socket' line say 'expose-fd \
                 listeners' ?"
                    .to_string()
            }
            FetchError::Count(error) => {
                format!("Failed to get the number of sockets to be transferred ! ({})", message(error))
            }
            FetchError::Sockets(error) => {
                format!("We didn't get the expected number of sockets ({})", message(error))
            }
        };
        reporter.warning(&warning);
        reporter.alert("Failed to get the sockets from the old process!");
    })
}

/// Sends a signal to processes; one that is gone already is what was wanted.
pub fn tell(pids: &[u32], signal: Signal) {
    for &pid in pids {
        // A pid that cannot be signalled belongs to somebody else: there is nothing to do about it.
        let _ = signal::send(pid, signal);
    }
}

/// Tells the old processes that this one is in charge.
pub fn replace(how: OldProcesses, pids: &[u32]) {
    tell(
        pids,
        match how {
            OldProcesses::Finish => Signal::User1,
            OldProcesses::Terminate => Signal::Terminate,
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
    use crate::report::Verbosity;

    #[test]
    fn a_socket_that_does_not_answer_prevents_the_start() {
        let quiet = Verbosity { quiet: true, verbose: false };
        let mut reporter = Reporter::new(&Program::from_arg0(None), quiet);
        assert!(take_listeners(Path::new("/no/such/socket"), &mut reporter).is_err());
    }
}
