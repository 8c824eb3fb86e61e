//! A stream in a backend, or on a server.

use thalweg_config::model::ProxyId;
use thalweg_runtime::clock;

use crate::counters::{OfServer, Present};
use crate::worker::Worker;

/// Where a stream is.
enum Place {
    Backend(ProxyId),
    /// By its flat number.
    Server(usize),
}

/// Counts a stream where it is, until this is dropped, and sees to it that the most at once is known: see
/// [`crate::counters::Peaks`].
#[must_use]
pub struct Stay<'a> {
    worker: &'a Worker,
    place: Place,
    present: Present<'a>,
}

impl<'a> Stay<'a> {
    /// A stream comes to a backend.
    #[inline]
    pub fn in_backend(worker: &'a Worker, backend: ProxyId) -> Stay<'a> {
        let present = worker.count_stream(backend).enter();
        Stay { worker, place: Place::Backend(backend), present }
    }

    /// A stream comes to a server.
    pub fn on_server(worker: &'a Worker, server: OfServer<'a>) -> Stay<'a> {
        Stay { worker, place: Place::Server(server.index), present: server.counters.enter() }
    }

    #[cold]
    fn look_at_all(&self) {
        let instance = &self.worker.instance;
        let mine = self.present.counters();
        match self.place {
            Place::Backend(id) => {
                let at = id.0 as usize;
                let all = instance.threads.iter().map(|thread| &thread.backends[at]);
                instance.backend_peaks[at].look(mine, all);
            }
            Place::Server(index) => {
                instance.servers.own_peaks(index).look(mine, instance.servers.all(index));
            }
        }
    }
}

impl Drop for Stay<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.present.counters().is_time_to_look(clock::now_ms()) {
            self.look_at_all();
        }
    }
}
