//! Where a session is counted and seen, for as long as it lives.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use thalweg_runtime::{clock, current_task};
use thalweg_sample::facts::Endpoint;

use super::ClientSession;
use super::reverse::Ending;
use crate::traces;
use crate::worker::{SessionEntry, Thread};

/// The session in the list of its thread, among what its thread has to do, and in the counters of those that there are: however its
/// task ends, it is there no more.
pub(super) struct Listed {
    pub(super) own: Rc<Thread>,
    /// Its place in the list, [`UNLISTED`] before it has one.
    slot: u32,
    counted: Cell<bool>,
    /// Who waits for its end, of a connection that this process made.
    _ending: Option<Ending>,
}

/// No place in the list of sessions.
const UNLISTED: u32 = u32::MAX;

impl Listed {
    /// Of a session that is about to begin.
    pub(super) fn new(own: &Rc<Thread>, ending: Option<Ending>) -> Listed {
        Listed { own: Rc::clone(own), slot: UNLISTED, counted: Cell::new(false), _ending: ending }
    }

    /// The current task is that of the session.
    pub(super) fn enter(&mut self, session: &ClientSession) {
        let own = &self.own;
        let (task, frontend, since_ms) = (current_task(), session.frontend, clock::now_ms());
        let source = match session.facts().fc_src {
            Endpoint::Inet(source) => Some((source.ip(), source.port())),
            Endpoint::Unix | Endpoint::Unknown => None,
        };
        let listener = u32::try_from(session.listener).unwrap_or(u32::MAX);
        let socket = traces::socket_number(session);
        let entry = SessionEntry { task, frontend, listener, socket, since_ms, source };
        self.slot = u32::try_from(own.session_began(entry)).unwrap_or(UNLISTED);
        own.trace_session(session, traces::SESSION_NEW);
        own.live.thread_load[own.thread].fetch_add(1, Ordering::Relaxed);
    }

    /// It passed what connections must pass.
    pub(super) fn count(&self, listener: usize) {
        self.own.begin_session(listener);
        self.counted.set(true);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let own = &self.own;
        if self.slot == UNLISTED {
            return;
        }
        let session = own.sessions.borrow_mut().remove(self.slot as usize);
        if self.counted.get() {
            own.end_session(session.listener as usize);
        }
        own.trace_session_end(&session);
        own.left_listener(session.listener as usize);
        own.live.thread_load[own.thread].fetch_sub(1, Ordering::Relaxed);
    }
}
