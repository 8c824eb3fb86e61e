//! Very many things that a thread has to do beside its traffic.

use thalweg_runtime::{Kind, give_way, spawn};

static MANY: Kind = Kind::new("many-changes");

/// How many are dealt with in one turn: what is done for each takes a microsecond or a few.
const AT_ONCE: usize = 64;

/// How many connections are closed in one turn, which takes some ten microseconds each.
const CLOSED_AT_ONCE: usize = 4;

/// Does something with each on the calling thread, and `then` something else. If there are many, others have their turn after a few.
pub(crate) fn each_in_turn<T>(
    all: impl ExactSizeIterator<Item = T> + 'static,
    each: impl FnMut(T) + 'static,
    then: impl FnOnce() + 'static,
) {
    in_turns(AT_ONCE, all, each, then);
}

/// Closes connections by dropping them.
pub(crate) fn close_in_turn<C: 'static>(connections: Vec<C>) {
    in_turns(CLOSED_AT_ONCE, connections.into_iter(), drop, || {});
}

/// Between two turns the thread looks for what came from the network.
fn in_turns<T>(
    at_once: usize,
    mut all: impl ExactSizeIterator<Item = T> + 'static,
    mut each: impl FnMut(T) + 'static,
    then: impl FnOnce() + 'static,
) {
    if all.len() <= at_once {
        all.for_each(each);
        return then();
    }
    spawn(&MANY, async move {
        while all.len() > 0 {
            all.by_ref().take(at_once).for_each(&mut each);
            give_way().await;
        }
        then();
    });
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use thalweg_runtime::driver::sim::{self, SimConfig};
    use thalweg_runtime::yield_now;

    use super::*;

    static OTHER: Kind = Kind::new("other");

    /// A round of the thread has forty entries, of which a turn is one.
    #[test]
    fn a_round_has_one_turn() {
        const TURNS: usize = 20;
        let seen = Rc::new(Cell::new(None));
        let see = Rc::clone(&seen);
        let report = sim::run(1, SimConfig::faultless(), move |_| async move {
            let (sum, others) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (count, other, over) = (Rc::clone(&sum), Rc::clone(&others), Rc::clone(&see));
            spawn(&OTHER, async move {
                while over.get().is_none() {
                    other.set(other.get() + 1);
                    yield_now().await;
                }
            });
            let then = move || see.set(Some((sum.get(), others.get())));
            each_in_turn(0..TURNS * AT_ONCE, move |n| count.set(count.get() + n), then);
        });
        report.check().unwrap();
        let (sum, others) = seen.get().unwrap();
        assert_eq!(sum, (0..TURNS * AT_ONCE).sum::<usize>());
        assert!(others >= 20 * TURNS, "{others} turns of another task beside {TURNS}");
    }
}
