//! The addresses that a name had lately, and which of them a server gets.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::families::Families;
use crate::message::RECORDS_MAX;

/// A network, to be preferred (`resolve-net`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address of it.
    pub address: IpAddr,
    /// Bits that all its addresses share with that one, 0 to 32 or to 128.
    pub bits: u8,
}

impl Network {
    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = |longest: u32| longest.saturating_sub(u32::from(self.bits));
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let differ = u32::from(ours) ^ u32::from(other);
                differ.checked_shr(shift(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let differ = u128::from(ours) ^ u128::from(other);
                differ.checked_shr(shift(128)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// What a server wants of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// `resolve-prefer`, `dns-accept-family`.
    pub families: Families,
    /// `resolve-net`.
    pub networks: Vec<Network>,
    /// `resolve-opts allow-dup-ip`: it may have the address of another server of its backend with the same name.
    pub duplicates: bool,
    /// `resolve-opts ignore-weight`: its weight does not follow that of its service.
    pub ignore_weight: bool,
}

impl Preference {
    /// Whether an address is one that is asked for.
    pub fn accepts(&self, address: IpAddr) -> bool {
        match self.families {
            Families::V4 => address.is_ipv4(),
            Families::V6 => address.is_ipv6(),
            Families::V4First | Families::V6First => true,
        }
    }

    /// The lowest is the best.
    fn rank(&self, address: IpAddr) -> u8 {
        let wrong_network =
            !self.networks.is_empty() && !self.networks.iter().any(|net| net.contains(address));
        u8::from(wrong_network) | u8::from(address.is_ipv6() != self.families.prefers_v6()) << 1
    }

    /// The address to take: the one that is there already as long as it is offered, then the best one that is free. One that `others`
    /// have is free for who `shares`, and of equals it takes the one that the fewest have.
    pub(crate) fn choose(
        &self,
        offered: impl Iterator<Item = IpAddr> + Clone,
        current: Option<IpAddr>,
        shares: bool,
        others: impl Fn(IpAddr) -> u32,
    ) -> Option<IpAddr> {
        let free = |address: &IpAddr| self.accepts(*address) && (shares || others(*address) == 0);
        if let Some(current) = current.filter(free)
            && offered.clone().any(|address| address == current)
        {
            return Some(current);
        }
        // Of equals, the first of the answer.
        offered.filter(free).min_by_key(|address| (self.rank(*address), others(*address)))
    }
}

/// Addresses of a name, each with when it was last in an answer. Those of the last answer come first, in its order.
#[derive(Debug, Default)]
pub(crate) struct Offer(Vec<(IpAddr, u64)>);

/// Addresses that are remembered of a name: those of the last answer, and as many of before.
const REMEMBERED_MAX: usize = 2 * RECORDS_MAX;

impl Offer {
    /// An answer came. What it lacks is forgotten once it was last seen `obsolete_ms` ago.
    pub fn merge(&mut self, found: &[IpAddr], now_ms: u64, obsolete_ms: u64) {
        let before = std::mem::take(&mut self.0);
        let mut old: HashMap<IpAddr, u64> = before.iter().copied().collect();
        self.0.extend(found.iter().map(|address| (*address, now_ms)));
        for address in found {
            old.remove(address);
        }
        let kept = |seen: u64| now_ms.saturating_sub(seen) < obsolete_ms;
        let held = before.iter().filter(|(address, seen)| old.contains_key(address) && kept(*seen));
        self.0.extend(held);
        self.0.truncate(REMEMBERED_MAX);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + Clone + '_ {
        self.0.iter().map(|(address, _)| *address)
    }

    /// Those of the last answer, which came at that time.
    pub fn of_answer(&self, at_ms: u64) -> impl Iterator<Item = IpAddr> + Clone + '_ {
        self.0.iter().take_while(move |(_, seen)| *seen == at_ms).map(|(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn preference() -> Preference {
        Preference {
            families: Families::V4First,
            networks: Vec::new(),
            duplicates: false,
            ignore_weight: false,
        }
    }

    #[test]
    fn networks_contain_their_addresses() {
        for (network, bits, address, inside) in [
            ("10.0.0.0", 8, "10.255.1.2", true),
            ("10.0.0.0", 8, "11.0.0.0", false),
            ("10.0.0.0", 0, "192.0.2.1", true),
            ("10.0.0.1", 32, "10.0.0.1", true),
            ("10.0.0.1", 32, "10.0.0.0", false),
            ("fd00::", 8, "fdff::1", true),
            ("fd00::", 8, "fe00::1", false),
            ("::", 0, "fe00::1", true),
            ("::", 0, "10.0.0.1", false),
        ] {
            let network = Network { address: ip(network), bits };
            assert_eq!(network.contains(ip(address)), inside, "{network:?} {address}");
        }
    }

    #[test]
    fn an_address_stays_as_long_as_it_is_offered() {
        let offered = [ip("10.0.0.1"), ip("10.0.0.2")];
        let choose = |current: Option<&str>, taken: &[&str]| {
            let others = |address| taken.iter().filter(|taken| ip(taken) == address).count() as u32;
            preference().choose(offered.iter().copied(), current.map(ip), false, others)
        };
        assert_eq!(choose(None, &[]), Some(offered[0]));
        assert_eq!(choose(Some("10.0.0.2"), &[]), Some(offered[1]));
        assert_eq!(choose(Some("10.0.0.3"), &[]), Some(offered[0]));
        assert_eq!(choose(Some("10.0.0.3"), &["10.0.0.1"]), Some(offered[1]));
        // Another one has it, too: one of them has to look for another.
        assert_eq!(choose(Some("10.0.0.1"), &["10.0.0.1"]), Some(offered[1]));
        assert_eq!(choose(None, &["10.0.0.1", "10.0.0.2"]), None);
    }

    #[test]
    fn who_shares_takes_what_the_fewest_have() {
        let offered = [ip("10.0.0.1"), ip("10.0.0.2")];
        let choose = |current: Option<IpAddr>, counts: [u32; 2]| {
            let others = |address| counts[usize::from(address == offered[1])];
            preference().choose(offered.iter().copied(), current, true, others)
        };
        assert_eq!(choose(None, [0, 0]), Some(offered[0]));
        assert_eq!(choose(None, [1, 0]), Some(offered[1]));
        assert_eq!(choose(None, [1, 1]), Some(offered[0]));
        assert_eq!(choose(Some(offered[0]), [3, 0]), Some(offered[0]));
    }

    #[test]
    fn families_come_before_networks_and_both_before_order() {
        let offered = [ip("2001:db8::1"), ip("192.0.2.1"), ip("10.0.0.1")];
        let near = Network { address: ip("10.0.0.0"), bits: 8 };
        let choose = |families, networks: &[Network]| {
            let preference = Preference { families, networks: networks.to_vec(), ..preference() };
            preference.choose(offered.iter().copied(), None, false, |_| 0)
        };
        assert_eq!(choose(Families::V4First, &[]), Some(offered[1]));
        assert_eq!(choose(Families::V4First, &[near]), Some(offered[2]));
        assert_eq!(choose(Families::V6First, &[near]), Some(offered[0]));
        assert_eq!(choose(Families::V4, &[]), Some(offered[1]));
        assert_eq!(choose(Families::V6, &[]), Some(offered[0]));
    }

    #[test]
    fn addresses_become_obsolete() {
        let mut offer = Offer::default();
        offer.merge(&[ip("10.0.0.1"), ip("10.0.0.2")], 1000, 500);
        offer.merge(&[ip("10.0.0.2")], 1499, 500);
        assert_eq!(offer.iter().collect::<Vec<_>>(), [ip("10.0.0.2"), ip("10.0.0.1")]);
        offer.merge(&[ip("10.0.0.2")], 1500, 500);
        assert_eq!(offer.iter().collect::<Vec<_>>(), [ip("10.0.0.2")]);
        offer.merge(&[ip("10.0.0.3")], 1501, 0);
        assert_eq!(offer.iter().collect::<Vec<_>>(), [ip("10.0.0.3")]);
        assert_eq!(offer.of_answer(1501).count(), 1);
        assert_eq!(offer.of_answer(1500).count(), 0);
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut offer = Offer::default();
        for round in 0..10u32 {
            let first = round << 16;
            let found: Vec<IpAddr> = (first..first + 2048).map(|n| IpAddr::V4(n.into())).collect();
            offer.merge(&found, u64::from(round), u64::MAX);
        }
        assert_eq!(offer.iter().count(), REMEMBERED_MAX);
    }
}
