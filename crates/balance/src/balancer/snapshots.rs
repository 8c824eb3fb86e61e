//! What each snapshot of a configuration has of a backend's servers.

use super::Balancer;
use std::sync::Arc;

impl Balancer {
    /// The way of the next snapshot, in which the backend has servers of these numbers and no others. What others are doing is known
    /// for as long as a snapshot is there that has them.
    pub fn next(&self, used: impl Iterator<Item = usize>) -> Balancer {
        Balancer { loads: self.loads.next(used), common: Arc::clone(&self.common) }
    }

    /// No snapshot that comes has the backend.
    pub fn part(&self) {
        self.loads.part();
    }

    /// Frees the memory of servers that no snapshot has any more.
    pub fn free_left(&self) {
        self.loads.free_left();
    }

    /// Servers for which memory is taken, their neighbours included.
    pub fn made(&self) -> usize {
        let mut made = 0;
        self.loads.each(|_| made += 1);
        made
    }
}
