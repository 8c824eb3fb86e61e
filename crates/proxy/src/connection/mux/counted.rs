//! A connection of HTTP/2 in the counters of those whose it is.

use std::rc::Rc;

use thalweg_config::model::ProxyId;
use thalweg_h2::connection::{Excess, Tally};

use super::Mux;

use crate::counters::Counters;
use crate::plant::bug;
use crate::worker::Thread;

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A client's, that came to this listener.
    Listener(usize),
    /// A server's of this backend.
    Backend(ProxyId),
}

/// The connection in the counters, as long as it is there.
pub struct Counted {
    own: Rc<Thread>,
    owner: Owner,
    /// Streams that are in the number of those there are.
    streams: u32,
}

impl Counted {
    /// A connection that was just made.
    pub fn begin(own: Rc<Thread>, owner: Owner) -> Counted {
        let counted = Counted::go_on(own, owner);
        counted.counters().h2_connections.add(1);
        counted
    }

    /// One that comes from another thread, which counted it.
    pub fn go_on(own: Rc<Thread>, owner: Owner) -> Counted {
        let counted = Counted { own, owner, streams: 0 };
        counted.counters().h2_open_connections.add(1);
        counted
    }

    fn counters(&self) -> &Counters {
        match self.owner {
            Owner::Listener(listener) => self.own.fe_counters(listener),
            Owner::Backend(backend) => self.own.counters().backends.mine(backend.0 as usize),
        }
    }

    /// Brings the counters up to date.
    pub fn note(&mut self, mux: &Mux) {
        let (streams, tally) = (mux.streams() as u32, mux.take_tally());
        if streams != self.streams || tally != Tally::default() {
            self.count(streams, &tally);
        }
    }

    fn count(&mut self, streams: u32, tally: &Tally) {
        let counters = self.counters();
        counters.h2_open_streams.add(streams.into());
        if !bug("streams-counted") {
            counters.h2_open_streams.sub(self.streams.into());
        }
        counters.count_frames(tally);
        if let Owner::Backend(_) = self.owner {
            // Those of clients are counted one by one, as requests.
            counters.h2_streams.add(tally.streams.into());
        }
        self.streams = streams;
    }

    /// It ended for too much of something.
    pub fn ended_for(&self, excess: Excess) {
        self.counters().count_excess(excess);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.streams > 0 {
            self.count(0, &Tally::default());
        }
        self.counters().h2_open_connections.sub(1);
    }
}
