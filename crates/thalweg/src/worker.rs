//! This process as the worker of a master: how it learns that it is one, and what it does differently.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use thalweg_cli::Cli;
use thalweg_cli::doors::Door;
use thalweg_runtime::Handle;
use thalweg_sys::inherited;
use thalweg_sys::signal::{self, Signal};

use crate::master::link::{self, Part, Said, WORKER_VARIABLE};
use crate::report;
use crate::service::ReloadSettings;

/// The stack of the thread that waits for the master.
const STACK_SIZE: usize = 128 * 1024;

/// See the module's documentation.
pub struct Worker {
    link: OwnedFd,
    /// A connection to the CLI of the worker that this one replaces.
    pub predecessor: Option<UnixStream>,
    /// Workers that hold the ports now. It is the master that tells them to leave.
    pub old: Vec<u32>,
    /// The master is a daemon.
    pub daemon: bool,
}

impl Worker {
    /// What the master that started this process says; `None` without one.
    pub fn from_environment() -> Option<Worker> {
        let part = Part::decode(&std::env::var(WORKER_VARIABLE).ok()?)?;
        let take = |number| inherited::take(number).ok();
        let link = take(part.link)?;
        let predecessor = part.predecessor.and_then(take).map(UnixStream::from);
        Some(Worker { link, predecessor, old: part.old, daemon: part.daemon })
    }

    /// Tells the master that the start failed, and why.
    pub fn failed(&self) {
        // Without it the master learns of it by the end of this process.
        let _ = link::tell(self.link.as_fd(), &Said::Failed { log: report::startup_log() });
    }

    /// Tells the master that this process serves, and from then on takes connections to the CLI from it, which come in at `door`.
    pub fn ready(
        self,
        version: &str,
        reloads: ReloadSettings,
        (cli, door): (Arc<Cli>, Arc<Door>),
        handle: Handle,
    ) -> std::io::Result<()> {
        if reloads.in_place {
            // Before that it serves, so that the first reload finds it known.
            link::tell(self.link.as_fd(), &Said::Follows)?;
        }
        let ReloadSettings { most: max_reloads, master_stays, .. } = reloads;
        let log = report::startup_log();
        let said = Said::Ready { version: version.to_owned(), max_reloads, master_stays, log };
        link::tell(self.link.as_fd(), &said)?;
        let link = self.link;
        let serve = move || {
            thalweg_runtime::memory::keep();
            while let Ok(Some((fd, begin))) = link::accept(link.as_fd()) {
                let (cli, door) = (Arc::clone(&cli), Arc::clone(&door));
                handle.run_on(0, move || thalweg_cli::adopt(&cli, &door, fd, begin));
            }
            let _ = signal::send(std::process::id(), Signal::User1);
        };
        std::thread::Builder::new().name("master".into()).stack_size(STACK_SIZE).spawn(serve).map(drop)
    }
}
