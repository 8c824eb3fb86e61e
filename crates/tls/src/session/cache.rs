//! Sessions that we keep for clients: `tune.ssl.cachesize` of them, for `tune.ssl.lifetime`.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_shared::{AtomicU64, Mutex, MutexGuard, Ordering};

use hashbrown::HashMap;
use rustls::server::StoresServerSessions;

use super::Binding;
use crate::Clock;

/// How many parts the cache has. Threads meet on one only by chance, and for a few hundred nanoseconds.
const SHARDS: usize = 64;

/// The largest session that is kept, in bytes. One with a client's chain of certificates in it can have 64 kB; such a
/// client does a full handshake instead.
const SESSION_MAX: usize = 8 * 1024;

/// Sessions of all `bind` lines, shared by all threads. It holds no more than the number it is made with: the oldest go
/// first.
#[derive(Debug)]
pub struct SessionCache {
    shards: Vec<Mutex<Shard>>,
    per_shard: usize,
    lifetime: u64,
    clock: Arc<dyn Clock>,
    lookups: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct Shard {
    sessions: HashMap<Box<[u8]>, Session>,
    /// Keys in the order in which they came, with the number of their session: a key that was taken or came again leaves
    /// an entry here that no longer counts.
    order: VecDeque<(Box<[u8]>, u64)>,
    next: u64,
}

#[derive(Debug)]
struct Session {
    number: u64,
    until: u64,
    value: Box<[u8]>,
}

impl SessionCache {
    /// A cache for `capacity` sessions, each good for `lifetime` seconds.
    pub fn new(capacity: usize, lifetime: u32, clock: Arc<dyn Clock>) -> SessionCache {
        let shards = if capacity == 0 { 0 } else { SHARDS.min(capacity) };
        SessionCache {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            per_shard: if shards == 0 { 0 } else { capacity.div_ceil(shards) },
            lifetime: lifetime.into(),
            clock,
            lookups: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// How often a session was looked for, and how often there was none.
    pub fn uses(&self) -> (u64, u64) {
        (self.lookups.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// How many sessions are kept now.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).sessions.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &[u8]) -> Option<MutexGuard<'_, Shard>> {
        // Keys end with random bytes that we made.
        let byte = *key.last()?;
        self.shards.get(usize::from(byte) % self.shards.len().max(1)).map(lock)
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        if value.len() > SESSION_MAX {
            return false;
        }
        let now = self.clock.now();
        let Some(mut shard) = self.shard(&key) else { return false };
        let key: Box<[u8]> = key.into();
        let number = shard.next;
        shard.next += 1;
        shard.order.push_back((key.clone(), number));
        shard.sessions.insert(key, Session { number, until: now + self.lifetime, value: value.into() });
        while shard.sessions.len() > self.per_shard || shard.order.len() > 2 * self.per_shard + 1 {
            let Some((oldest, number)) = shard.order.pop_front() else { break };
            if shard.sessions.get(&oldest).is_some_and(|session| session.number == number) {
                shard.sessions.remove(&oldest);
            }
        }
        true
    }

    fn counted(&self, found: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.misses.fetch_add(found.is_none().into(), Ordering::Relaxed);
        found
    }

    fn find(&self, key: &[u8], take: bool) -> Option<Vec<u8>> {
        let now = self.clock.now();
        let mut shard = self.shard(key)?;
        let session = shard.sessions.get(key)?;
        let fresh = session.until >= now;
        let value = fresh.then(|| session.value.to_vec());
        if take || !fresh {
            shard.sessions.remove(key);
        }
        value
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The cache as one certificate under one policy sees it.
#[derive(Debug)]
pub(crate) struct BoundCache {
    pub cache: Arc<SessionCache>,
    pub binding: Binding,
}

impl BoundCache {
    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.binding[..], key].concat()
    }
}

impl StoresServerSessions for BoundCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.cache.put(self.key(&key), value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.counted(self.cache.find(&self.key(key), false))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.counted(self.cache.find(&self.key(key), true))
    }

    fn can_cache(&self) -> bool {
        self.cache.per_shard > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedClock;

    #[test]
    fn sessions_are_found_for_a_while_and_where_they_were_made() {
        let clock = Arc::new(FixedClock::at(0));
        let cache = Arc::new(SessionCache::new(100, 300, clock.clone()));
        let here = BoundCache { cache: cache.clone(), binding: [1; 32] };
        let there = BoundCache { cache, binding: [2; 32] };
        assert!(here.can_cache() && here.put(b"a".to_vec(), b"x".to_vec()));
        assert_eq!(there.get(b"a"), None);
        assert_eq!(here.get(b"a").as_deref(), Some(&b"x"[..]));
        assert_eq!(here.take(b"a").as_deref(), Some(&b"x"[..]));
        assert_eq!(here.get(b"a"), None);
        here.put(b"b".to_vec(), b"y".to_vec());
        clock.set(301);
        assert_eq!(here.get(b"b"), None);
        assert!(!here.put(b"c".to_vec(), vec![0; SESSION_MAX + 1]));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let cache = Arc::new(SessionCache::new(128, 300, Arc::new(FixedClock::at(0))));
        let bound = BoundCache { cache: cache.clone(), binding: [0; 32] };
        for number in 0u32..10_000 {
            let key = number.to_le_bytes().iter().rev().copied().collect::<Vec<u8>>();
            bound.put(key.clone(), vec![1]);
            if number % 3 == 0 {
                bound.take(&key);
            }
        }
        assert!(cache.len() <= 128);
        assert!(cache.shards.iter().all(|shard| lock(shard).order.len() <= 2 * cache.per_shard + 1));
        let last = 9_999u32.to_le_bytes().iter().rev().copied().collect::<Vec<u8>>();
        assert!(bound.get(&last).is_none() == (9_999 % 3 == 0));
        let none = BoundCache {
            cache: Arc::new(SessionCache::new(0, 300, Arc::new(FixedClock::at(0)))),
            binding: [0; 32],
        };
        assert!(!none.can_cache() && !none.put(vec![1], vec![1]) && none.get(&[1]).is_none());
    }
}
