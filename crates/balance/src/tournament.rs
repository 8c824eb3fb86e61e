//! `leastconn`: the server with the least work for its weight, and among equals the one idle for longest.
//!
//! Servers are the leaves of a tournament. Each inner node remembers which of the two below it has less load, so
//! the root names the server to use: a reader loads one word and writes nothing. A server whose load changes
//! replays its own matches upwards and stops at the first one whose outcome stays the same; no update takes a
//! lock, and one that does not change the order ends after a single comparison. What a match compares of a server is one word
//! beside its load ([`Load::settle`]), so that the servers of a match are one line of memory each.
//!
//! **Replaying a match with several threads.** A node holds its winner and a version. To replay, read the node,
//! then both winners below and their loads, then write the outcome if the node has not changed meanwhile; try
//! at most twice. If both writes fail, another thread wrote the node after reading the loads that this thread had
//! already published, so its outcome accounts for them (the double refresh of Jayanti's f-arrays).

use thalweg_live::Rows;

use crate::load::{Load, LoadNow, Rank};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// What servers are doing, by number, for who plays matches.
pub trait Loads {
    /// That of a number which may have no server: `None`, then, unless it has a neighbour.
    fn of(&self, server: u32) -> Option<&Load>;
}

impl Loads for Rows<Load> {
    #[inline]
    fn of(&self, server: u32) -> Option<&Load> {
        self.find(server as usize)
    }
}

/// The tournament over all servers of a backend. Loads live outside and are passed in.
#[derive(Debug)]
pub struct Tournament {
    /// A heap-ordered complete tree: node `i` has children `2i` and `2i + 1`; node 1 is the root. The leaves,
    /// numbered from `leaves` on, are the servers and need no storage.
    nodes: Box<[AtomicU64]>,
    leaves: usize,
}

/// Tournaments that replace each other when there are more servers than the one at the time has leaves.
#[derive(Debug)]
pub struct Tournaments {
    /// By the power of two of their leaves.
    sizes: [OnceLock<Tournament>; 32],
    now: AtomicUsize,
}

impl Tournaments {
    /// A tournament of `servers` servers, where nobody has won yet.
    pub fn new(servers: usize) -> Tournaments {
        let sizes: [OnceLock<Tournament>; 32] = std::array::from_fn(|_| OnceLock::new());
        let size = size(servers);
        sizes[size].get_or_init(|| Tournament::new(1 << size));
        Tournaments { sizes, now: AtomicUsize::new(size) }
    }

    fn of(&self, size: usize) -> &Tournament {
        self.sizes[size].get_or_init(|| Tournament::new(1 << size))
    }

    /// The server with the least load.
    pub fn winner(&self, loads: &impl Loads) -> Option<u32> {
        self.of(self.now.load(Ordering::SeqCst)).winner(loads)
    }

    /// Replays the matches of `server` after its load or its weight changed.
    pub fn update(&self, server: u32, loads: &impl Loads) {
        let load = loads.of(server);
        if let Some(load) = load {
            load.settle();
        }
        let mut size = self.now.load(Ordering::SeqCst);
        loop {
            self.of(size).update(Player { server, load }, loads);
            // Another one may have begun before this one was replayed: then it may have seen what was before the change.
            match self.now.load(Ordering::SeqCst) {
                now if now == size => return,
                now => size = now,
            }
        }
    }

    /// There are `servers` servers from now on, at most: all of their matches are played where there is room for all.
    pub fn grow(&self, servers: usize, loads: &impl Loads) {
        let size = size(servers);
        if size > self.now.load(Ordering::SeqCst) {
            self.of(size);
            self.now.store(size, Ordering::SeqCst);
            (0..servers).for_each(|server| self.update(server as u32, loads));
        }
    }
}

/// The power of two of the leaves for that many servers.
fn size(servers: usize) -> usize {
    servers.next_power_of_two().trailing_zeros() as usize
}

const NOBODY: u32 = u32::MAX;

/// A server in a match. What it is doing is looked up once for all the matches that it wins.
#[derive(Clone, Copy)]
struct Player<'a> {
    server: u32,
    load: Option<&'a Load>,
}

impl Player<'_> {
    /// Where it stands now. Who does not exist, or cannot be used, never wins against one who can.
    #[inline]
    fn rank(self) -> Rank {
        self.load.map_or(Rank::OUT, Load::rank)
    }
}

impl Tournament {
    /// A tournament of `servers` servers, where nobody has won yet.
    pub fn new(servers: usize) -> Tournament {
        let leaves = servers.next_power_of_two().max(1);
        Tournament { nodes: (0..leaves).map(|_| AtomicU64::new(NOBODY.into())).collect(), leaves }
    }

    /// The server with the least load.
    pub fn winner(&self, loads: &impl Loads) -> Option<u32> {
        let server = if self.leaves == 1 { 0 } else { self.nodes[1].load(Ordering::Acquire) as u32 };
        (self.player(server, loads).rank() != Rank::OUT).then_some(server)
    }

    /// Replays the matches of a server after its rank changed.
    #[inline]
    fn update<'a>(&self, changed: Player<'a>, loads: &'a impl Loads) {
        let mut place = self.leaves + changed.server as usize;
        let mut ours = changed;
        while place > 1 {
            let (before, winner) = match self.play(place, ours, loads) {
                Ok(played) => played,
                Err(_) => self.play_again(place, ours, loads),
            };
            if before == winner.server && winner.server != changed.server {
                return;
            }
            ours = winner;
            place /= 2;
        }
    }

    /// Plays the match between who stands at `place`, which is probably `ours`, and who stands beside, and gives the winner before
    /// and after; the one after as the error when somebody else wrote an outcome meanwhile.
    #[inline(always)]
    fn play<'a>(
        &self,
        place: usize,
        ours: Player<'a>,
        loads: &'a impl Loads,
    ) -> Result<(u32, Player<'a>), Player<'a>> {
        let node = &self.nodes[place / 2];
        let word = node.load(Ordering::Acquire);
        let here = self.stands_at(place);
        // One that was not there may be by now.
        let here = if here == ours.server && ours.load.is_some() { ours } else { self.player(here, loads) };
        let beside = self.player(self.stands_at(place ^ 1), loads);
        // Among equals the left one wins.
        let is_right = place % 2 == 1;
        let here_wins = match is_right {
            true => here.rank().beats(beside.rank()),
            false => !beside.rank().beats(here.rank()),
        };
        let winner = if here_wins { here } else { beside };
        let next = ((word >> 32).wrapping_add(1) << 32) | u64::from(winner.server);
        match node.compare_exchange(word, next, Ordering::AcqRel, Ordering::Acquire) {
            // What counts is what this very write replaced: whoever wrote that carries it upwards.
            Ok(_) => Ok((word as u32, winner)),
            Err(_) => Err(winner),
        }
    }

    #[cold]
    fn play_again<'a>(&self, place: usize, ours: Player<'a>, loads: &'a impl Loads) -> (u32, Player<'a>) {
        // Somebody else's outcome stands and includes our load; carry on upwards as if it had changed.
        self.play(place, ours, loads).unwrap_or_else(|winner| (NOBODY, winner))
    }

    /// Who stands at a place: the winner of a match, or a server.
    #[inline]
    fn stands_at(&self, place: usize) -> u32 {
        match self.nodes.get(place) {
            Some(node) => node.load(Ordering::Acquire) as u32,
            None => (place - self.leaves) as u32,
        }
    }

    /// A server, and what it is doing, if there is one of that number.
    #[inline]
    fn player<'a>(&self, server: u32, loads: &'a impl Loads) -> Player<'a> {
        let load = if (server as usize) < self.leaves { loads.of(server) } else { None };
        Player { server, load }
    }
}

/// The order of `leastconn`: load per weight, then the earlier change.
pub fn less_loaded(a: LoadNow, a_weight: u32, b: LoadNow, b_weight: u32) -> bool {
    let left = u64::from(a.total()) * u64::from(b_weight);
    let right = u64::from(b.total()) * u64::from(a_weight);
    left < right || (left == right && a.older_than(b))
}

#[cfg(test)]
impl Loads for Vec<Load> {
    fn of(&self, server: u32) -> Option<&Load> {
        self.get(server as usize)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Farm {
        tree: Tournament,
        loads: Vec<Load>,
        ticket: u64,
    }

    impl Farm {
        fn new(weights: &[u32]) -> Farm {
            let farm = Farm {
                tree: Tournament::new(weights.len()),
                loads: (0..weights.len()).map(|i| Load::with_ticket(i as u64)).collect(),
                ticket: weights.len() as u64,
            };
            for (server, &weight) in (0..).zip(weights) {
                farm.weigh(server, weight);
                farm.update(server);
            }
            farm
        }

        fn weigh(&self, server: u32, weight: u32) {
            self.loads[server as usize].weight().store(weight.into(), Ordering::Release);
        }

        fn update(&self, server: u32) {
            self.loads[server as usize].settle();
            let load = Loads::of(&self.loads, server);
            self.tree.update(Player { server, load }, &self.loads);
        }

        fn winner(&self) -> Option<u32> {
            self.tree.winner(&self.loads)
        }

        fn naive(&self) -> Option<u32> {
            let weight = |s: u32| self.loads[s as usize].weight().load(Ordering::Relaxed) as u32;
            (0..self.loads.len() as u32).filter(|&s| weight(s) != 0).reduce(|best, s| {
                let now = |s: u32| self.loads[s as usize].now();
                if less_loaded(now(s), weight(s), now(best), weight(best)) { s } else { best }
            })
        }
    }

    #[test]
    fn one_server() {
        let farm = Farm::new(&[1]);
        assert_eq!(farm.winner(), Some(0));
        assert_eq!(Farm::new(&[0]).winner(), None);
    }

    proptest! {
        #[test]
        fn the_root_is_the_least_loaded(
            weights in prop::collection::vec(0u32..5, 1..20),
            steps in prop::collection::vec((0usize..20, 0u8..4, 0u32..5), 0..200),
        ) {
            let mut farm = Farm::new(&weights);
            for (server, what, weight) in steps {
                let server = server % weights.len();
                farm.ticket += 1;
                let now = farm.loads[server].now();
                match what {
                    0 => { farm.loads[server].start(farm.ticket); }
                    1 if now.served() > 0 => { farm.loads[server].end(farm.ticket); }
                    2 => { farm.loads[server].enqueue(farm.ticket); }
                    _ => farm.weigh(server as u32, weight),
                }
                farm.update(server as u32);
                prop_assert_eq!(farm.winner(), farm.naive());
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    /// Two servers of four change load at the same time: whatever the interleaving, the root ends up right.
    #[test]
    fn concurrent_updates_leave_the_right_winner() {
        loom::model(|| {
            let tree = Arc::new((Tournament::new(3), (0..3).map(Load::with_ticket).collect::<Vec<_>>()));
            let update = |server: u32, tree: &(Tournament, Vec<Load>)| {
                tree.1[server as usize].settle();
                tree.0.update(Player { server, load: tree.1.of(server) }, &tree.1);
            };
            for server in 0..3 {
                tree.1[server as usize].weight().store(1, Ordering::SeqCst);
                update(server, &tree);
            }
            let hands: Vec<_> = [0u32, 1]
                .into_iter()
                .map(|server| {
                    let tree = tree.clone();
                    loom::thread::spawn(move || {
                        tree.1[server as usize].start(10 + u64::from(server));
                        update(server, &tree);
                    })
                })
                .collect();
            hands.into_iter().for_each(|h| h.join().unwrap());
            assert_eq!(tree.0.winner(&tree.1), Some(2));
        });
    }
}
