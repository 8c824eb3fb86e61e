//! The servers that follow names and services: which of them gets which address, host, port and weight.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{By, Event, Follow, Followed, Key, Loss, Resolver};
use crate::families::Families;
use crate::lookup::{Place, Plan, Status};
use crate::message::{RECORDS_MAX, Service};
use crate::name::Name;

impl Resolver {
    /// A server follows a name from now on. What it followed before it does no more.
    pub fn follow(&mut self, key: Key, follow: Follow, now_ms: u64) {
        self.forget(key);
        let (name, families) = (follow.name.clone(), follow.preference.families);
        let followed = Followed { follow, host: None, lookup: None, service: None, port: None, weight: None };
        self.servers.insert(key, followed);
        if name.is_service() {
            let at = self.attach(key, &name, Plan::Service, now_ms);
            if let Some(followed) = self.servers.get_mut(&key) {
                followed.service = Some(at);
            }
            self.fill_servers(at, now_ms);
        } else {
            self.follow_host(key, &name, families, now_ms);
        }
    }

    /// A server follows nothing any more, and keeps what it has.
    pub fn forget(&mut self, key: Key) {
        let Some(followed) = self.servers.remove(&key) else { return };
        for at in [followed.lookup, followed.service].into_iter().flatten() {
            if let Some(lookup) = &mut self.lookups[at] {
                lookup.places.iter_mut().for_each(|place| place.servers.retain(|server| *server != key));
            }
            self.detach(key, at);
        }
    }

    /// Lets a server have a lookup's answers. It is asked at once if it is new, and so that a queue of servers is served in the
    /// order of their numbers, they are kept so.
    fn attach(&mut self, key: Key, name: &Name, plan: Plan, now_ms: u64) -> usize {
        let at = self.lookup(name, plan, now_ms);
        let Some(lookup) = self.lookups[at].as_mut() else { return at };
        if lookup.followers.is_empty() {
            // What a client asked for says nothing of how long a server may keep what it has.
            lookup.held_ms = now_ms;
        }
        let place = lookup.followers.binary_search(&key).unwrap_or_else(|place| place);
        lookup.followers.insert(place, key);
        if lookup.is_idle() && lookup.due_ms.is_none() {
            self.set_due(at, Some(now_ms));
        }
        at
    }

    fn detach(&mut self, key: Key, at: usize) {
        let Some(lookup) = &mut self.lookups[at] else { return };
        lookup.followers.retain(|other| *other != key);
        if lookup.is_unwanted() {
            self.remove(at);
        }
    }

    fn follow_host(&mut self, key: Key, host: &Name, families: Families, now_ms: u64) {
        let at = self.attach(key, host, Plan::Host(families), now_ms);
        if let Some(followed) = self.servers.get_mut(&key) {
            followed.lookup = Some(at);
        }
        if self.lookups[at].as_ref().is_some_and(|lookup| lookup.offer.iter().next().is_some()) {
            self.offer_changed(at, None);
        }
    }

    /// The addresses of a host are others than before: each of its servers keeps its own, or takes one that is free. A name
    /// server that was asked for the first change is named, what follows from it comes of what is known.
    pub(super) fn offer_changed(&mut self, at: usize, server: Option<usize>) {
        let Some(lookup) = &self.lookups[at] else { return };
        let followers = lookup.followers.clone();
        let mut taken = self.taken(&lookup.name);
        let mut by = server.map_or(By::Cache, By::NameServer);
        for key in followers {
            let (Some(followed), Some(lookup)) = (self.servers.get_mut(&key), &self.lookups[at]) else {
                continue;
            };
            let current = followed.follow.address;
            let shares = followed.shares();
            // One of several servers that have an address keeps it: the others go first.
            if let Some(address) = current {
                taken.remove(key.group, shares, address);
            }
            let others = |address| taken.count(key.group, shares, address);
            let chosen = followed.follow.preference.choose(lookup.offer.iter(), current, shares, others);
            followed.follow.address = chosen;
            let port = followed.port;
            if let Some(address) = chosen {
                taken.insert(key.group, shares, address);
            }
            match chosen {
                Some(address) if chosen != current => {
                    if let By::NameServer(server) = by {
                        self.tally(server, |tally| tally.update += 1);
                    }
                    self.events.push_back(Event::Address { key, address, port, by });
                    by = By::Cache;
                }
                Some(_) => {}
                None if current.is_some() => {
                    self.events.push_back(Event::Lost { key, loss: Loss::NoAddress });
                }
                None => {}
            }
        }
    }

    /// The addresses that servers with this name have, whichever families they want.
    fn taken(&self, name: &Name) -> Taken {
        let mut taken = Taken::default();
        for families in Families::ALL {
            let Some(at) = self.by_question.get(&(name.clone(), Plan::Host(families))) else { continue };
            let Some(lookup) = &self.lookups[*at] else { continue };
            for key in &lookup.followers {
                let Some(followed) = self.servers.get(key) else { continue };
                if let Some(address) = followed.follow.address {
                    taken.insert(key.group, followed.shares(), address);
                }
            }
        }
        taken
    }

    /// A lookup failed for longer than its hold.
    pub(super) fn lose_followers(&mut self, at: usize, status: Status) {
        let Some(lookup) = &mut self.lookups[at] else { return };
        if lookup.plan == Plan::Service {
            let places = std::mem::take(&mut lookup.places);
            places.into_iter().flat_map(|place| place.servers).for_each(|key| self.release(key));
            return;
        }
        for key in lookup.followers.clone() {
            let address = self.servers.get_mut(&key).and_then(|followed| followed.follow.address.take());
            if address.is_some() {
                self.events.push_back(Event::Lost { key, loss: Loss::Failed(status) });
            }
        }
    }

    /// A server of a service has no host any more.
    fn release(&mut self, key: Key) {
        let Some(followed) = self.servers.get_mut(&key) else { return };
        let (lookup, had_address) = (followed.lookup.take(), followed.follow.address.take().is_some());
        (followed.host, followed.port, followed.weight) = (None, None, None);
        if had_address {
            self.events.push_back(Event::Lost { key, loss: Loss::Removed });
        }
        self.events.push_back(Event::Host { key, host: None });
        if let Some(at) = lookup {
            self.detach(key, at);
        }
    }

    /// A service answered: what it lists no more goes once it was not listed for as long as the hold says, and what is new gets
    /// a server that is free.
    pub(super) fn places_changed(&mut self, at: usize, services: Vec<Service>, now_ms: u64) {
        let obsolete_ms = self.settings.hold_obsolete_ms;
        let Some(lookup) = &mut self.lookups[at] else { return };
        let known: HashMap<(Name, u16), usize> =
            lookup.places.iter().enumerate().map(|(i, p)| ((p.target.clone(), p.port), i)).collect();
        for Service { priority, weight, port, target, addresses } in services {
            match known.get(&(target.clone(), port)) {
                Some(i) => {
                    let place = &mut lookup.places[*i];
                    (place.priority, place.weight, place.seen_ms) = (priority, weight, now_ms);
                    place.addresses = addresses;
                }
                None if lookup.places.len() < 2 * RECORDS_MAX => {
                    let seen_ms = now_ms;
                    let servers = Vec::new();
                    lookup.places.push(Place { target, port, priority, weight, addresses, seen_ms, servers });
                }
                None => {}
            }
        }
        let is_kept =
            |place: &Place| place.seen_ms == now_ms || now_ms.saturating_sub(place.seen_ms) < obsolete_ms;
        let gone = lookup.places.iter().filter(|place| !is_kept(place));
        let gone: Vec<Key> = gone.flat_map(|place| place.servers.iter().copied()).collect();
        lookup.places.retain(is_kept);
        gone.into_iter().for_each(|key| self.release(key));
        self.fill_servers(at, now_ms);
    }

    /// Gives the places of a service to its servers, to those of each backend by themselves: who has one keeps it, the others get
    /// those that are left, the lowest priority first.
    fn fill_servers(&mut self, at: usize, now_ms: u64) {
        let Some(lookup) = &mut self.lookups[at] else { return };
        let is_free = |key: &&Key| self.servers.get(key).is_some_and(|server| server.host.is_none());
        let free: Vec<Key> = lookup.followers.iter().filter(is_free).copied().collect();
        let mut order: Vec<usize> = (0..lookup.places.len()).collect();
        order.sort_by_key(|i| lookup.places[*i].priority);
        let mut pairs = Vec::new();
        for of_group in free.chunk_by(|a, b| a.group == b.group) {
            let open = order.iter().filter(|i| !lookup.places[**i].is_of(of_group[0].group));
            pairs.extend(open.copied().zip(of_group.iter().copied()));
        }
        for (i, key) in pairs {
            let place = &mut lookup.places[i];
            place.servers.push(key);
            if let Some(followed) = self.servers.get_mut(&key) {
                followed.host = Some(place.target.clone());
                followed.port = Some(place.port);
            }
            self.events.push_back(Event::Host { key, host: Some(place.target.clone()) });
        }
        let all_zero = lookup.places.iter().all(|place| place.weight == 0);
        let places: Vec<(Key, Name, u16, Vec<IpAddr>)> = lookup
            .places
            .iter()
            .flat_map(|place| place.servers.iter().map(move |key| (*key, place)))
            .map(|(key, place)| {
                let weight = weight_of(place.weight, all_zero);
                (key, place.target.clone(), weight, place.addresses.clone())
            })
            .collect();
        for (key, host, weight, addresses) in places {
            let Some(followed) = self.servers.get_mut(&key) else { continue };
            let is_new = followed.weight.replace(weight) != Some(weight);
            if is_new && !followed.follow.preference.ignore_weight {
                self.events.push_back(Event::Weight { key, weight });
            }
            self.find_host(key, &host, &addresses, now_ms);
        }
    }

    /// A server of a service gets the address that came with its host, or follows the host's name.
    fn find_host(&mut self, key: Key, host: &Name, addresses: &[IpAddr], now_ms: u64) {
        let Some(followed) = self.servers.get_mut(&key) else { return };
        let current = followed.follow.address;
        let preference = &followed.follow.preference;
        let families = preference.families;
        let Some(address) = preference.choose(addresses.iter().copied(), current, true, |_| 0) else {
            if followed.lookup.is_none() {
                self.follow_host(key, host, families, now_ms);
            }
            return;
        };
        let (port, lookup) = (followed.port, followed.lookup.take());
        followed.follow.address = Some(address);
        if current != Some(address) {
            self.events.push_back(Event::Address { key, address, port, by: By::Additional });
        }
        if let Some(at) = lookup {
            self.detach(key, at);
        }
    }
}

impl Followed {
    /// Whether others may have its address: it says so, or its service tells servers apart by their ports.
    fn shares(&self) -> bool {
        self.service.is_some() || self.follow.preference.duplicates
    }
}

/// The weight of a server for that of its record, 0 to 65535. In a service whose records all say 0 there is nothing to choose by
/// (RFC 2782), and all are equal.
fn weight_of(weight: u16, all_zero: bool) -> u16 {
    if all_zero { 1 } else { weight.div_ceil(256) }
}

/// How many servers of a group have an address: of those that want it to themselves, and of those that share.
#[derive(Default)]
struct Taken(HashMap<(u32, bool, IpAddr), u32>);

impl Taken {
    fn insert(&mut self, group: u32, shares: bool, address: IpAddr) {
        *self.0.entry((group, shares, address)).or_default() += 1;
    }

    fn remove(&mut self, group: u32, shares: bool, address: IpAddr) {
        if let Some(count) = self.0.get_mut(&(group, shares, address)) {
            *count = count.saturating_sub(1);
        }
    }

    fn count(&self, group: u32, shares: bool, address: IpAddr) -> u32 {
        self.0.get(&(group, shares, address)).copied().unwrap_or(0)
    }
}
