//! What connections of a thread need now and then, kept for all of them: most wait, and hold nothing that only streams need.

use std::cell::RefCell;
use std::sync::Arc;

use thalweg_h2::connection::{Config, Room};
use thalweg_http::Head;

use super::State;
use super::slot::Slots;

/// Heads that are kept.
const HEADS_MAX: usize = 64;
/// Connections whose memory for streams is kept.
const ROOMS_MAX: usize = 64;

struct Store {
    #[allow(clippy::vec_box)] // They go from hand to hand.
    heads: Vec<Box<Head>>,
    rooms: Vec<(Room, Slots)>,
    /// What the last connection was made with; the next is mostly made with the same.
    config: Option<Arc<Config>>,
}

thread_local! {
    static STORE: RefCell<Store> =
        const { RefCell::new(Store { heads: Vec::new(), rooms: Vec::new(), config: None }) };
}

/// One configuration for all connections that have the same.
pub(super) fn shared(config: Config) -> Arc<Config> {
    STORE.with_borrow_mut(|store| match &store.config {
        Some(last) if **last == config => Arc::clone(last),
        _ => Arc::clone(store.config.insert(Arc::new(config))),
    })
}

/// A head, in memory that was used before if there is some.
pub(super) fn take_head() -> Box<Head> {
    STORE.with_borrow_mut(|store| store.heads.pop()).unwrap_or_default()
}

/// Keeps the memory of a head that is not needed any more.
pub(super) fn give_head(head: Box<Head>) {
    STORE.with_borrow_mut(|store| {
        if store.heads.len() < HEADS_MAX {
            store.heads.push(head);
        }
    });
}

/// A connection may have streams soon: it gets what another one gave back, if there is some.
#[inline]
pub(super) fn lend(state: &mut State) {
    if state.h2.lacks_room() {
        lend_now(state);
    }
}

fn lend_now(state: &mut State) {
    if let Some((room, slots)) = STORE.with_borrow_mut(|store| store.rooms.pop()) {
        state.h2.lend(room);
        state.slots.lend(slots);
    }
}

/// A connection may wait for long: what of it only streams need is kept for others.
pub(super) fn take_back(state: &mut State) {
    if state.slots.is_empty()
        && let Some(room) = state.h2.rest()
    {
        let slots = state.slots.give_back();
        STORE.with_borrow_mut(|store| {
            if store.rooms.len() < ROOMS_MAX {
                store.rooms.push((room, slots));
            }
        });
    }
}

/// Gives the allocator back what no connection needs now.
pub(super) fn trim() {
    drop(STORE.with_borrow_mut(|store| (std::mem::take(&mut store.heads), std::mem::take(&mut store.rooms))));
}
