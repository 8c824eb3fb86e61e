//! Zones: requests stay in the zone of this process, unless its servers are too few for them.

use crate::turns::Entry;

/// Weights are kept within what a configuration can say, in 16ths.
const WEIGHT_MAX: u64 = 256 * 16;

/// A plan is made anew when a weight is scaled to more than this: not each time when the heaviest one grows.
const SCALED_MAX: u64 = 2 * WEIGHT_MAX;

/// And when none is scaled to as much any more: light ones are told apart by what they are scaled to.
const SCALED_HEAVY: u64 = WEIGHT_MAX / 8;

/// Who takes part when some servers are in the zone of this process and others elsewhere.
#[derive(Debug)]
pub struct Blend {
    /// Those that requests are balanced to, with their weights.
    pub entries: Vec<Entry>,
    /// Those that get what finds all of these full.
    pub spare: Vec<Entry>,
    /// Absent where zones do not matter.
    pub shares: Option<Shares>,
}

/// What the weights of servers come to in the own zone and elsewhere, as long as nothing changes but they.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    near: u64,
    far: u64,
    /// What `near` is to be for all requests to stay, in hundredths.
    want: u64,
    /// Absent while they do.
    scale: Option<Scale>,
}

/// How weights of both sides are made weights that can be compared.
#[derive(Debug, Clone, Copy)]
struct Scale {
    near: u128,
    far: u128,
    /// The heaviest of all, times its factor.
    heaviest: u128,
    /// So many are scaled to [`SCALED_HEAVY`] and more.
    heavy: usize,
}

impl Blend {
    /// Where zones do not matter.
    pub fn plain(entries: Vec<Entry>) -> Blend {
        Blend { entries, spare: Vec::new(), shares: None }
    }
}

impl Scale {
    fn new(near: &[Entry], far: &[Entry], shares: &Shares) -> Scale {
        // near : far as have : want - have.
        let have = shares.near * 100;
        let factors = (
            u128::from(have) * u128::from(shares.far),
            u128::from(shares.want - have) * u128::from(shares.near),
        );
        let heaviest = |entries: &[Entry], factor: u128| {
            entries.iter().map(|entry| u128::from(entry.weight) * factor).max().unwrap_or(1)
        };
        let heaviest = heaviest(near, factors.0).max(heaviest(far, factors.1)).max(1);
        Scale { near: factors.0, far: factors.1, heaviest, heavy: 0 }
    }

    fn scaled(&self, is_near: bool, weight: u32) -> u64 {
        let factor = if is_near { self.near } else { self.far };
        let scaled = u128::from(weight) * factor * u128::from(WEIGHT_MAX) / self.heaviest;
        u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
    }

    /// Gives all of one side the weights that they are balanced by.
    fn apply(&mut self, is_near: bool, entries: &mut [Entry]) {
        for entry in entries {
            let scaled = self.scaled(is_near, entry.weight);
            self.heavy += usize::from(scaled >= SCALED_HEAVY);
            entry.weight = scaled as u32;
        }
    }
}

impl Shares {
    /// The weight of a server that takes part changes: what it is balanced by from now on. Absent when all of them have to be worked out
    /// anew, as the own zone would get 1 % more or less than its share. While that is not so a change costs as much however many
    /// servers there are; and the more there are, the more changes it takes until it is.
    pub fn reweigh(&mut self, is_near: bool, before: u32, now: u32) -> Option<u32> {
        let sum = if is_near { &mut self.near } else { &mut self.far };
        *sum = *sum - u64::from(before) + u64::from(now);
        if !self.is_fair() {
            return None;
        }
        let Some(scale) = &mut self.scale else { return Some(now) };
        let (before, scaled) = (scale.scaled(is_near, before), scale.scaled(is_near, now));
        scale.heavy -= usize::from(before >= SCALED_HEAVY);
        scale.heavy += usize::from(scaled >= SCALED_HEAVY);
        (scaled <= SCALED_MAX && scale.heavy > 0).then_some(scaled as u32)
    }

    /// Whether the own zone gets what it should, but for 1 %.
    fn is_fair(&self) -> bool {
        let due = (self.near as f64 * 100.0 / self.want as f64).min(1.0);
        let gets = match &self.scale {
            None => 1.0,
            Some(scale) => {
                let (near, far) = (self.near as f64 * scale.near as f64, self.far as f64 * scale.far as f64);
                near / (near + far)
            }
        };
        (gets - due).abs() <= due / 100.0
    }
}

/// Blends the usable servers of the own zone (`near`) and of others (`far`). All servers of the own zone, usable or not, weigh
/// `near_full`; as long as the usable ones weigh `spill_over` percent of that, requests stay with them. What is missing to that is
/// the share that goes elsewhere: with half of it, half of the requests. Where `fixed`, weights cannot be changed: a zone that is too
/// weak shares with all others by their own weights.
pub fn blend(near: Vec<Entry>, far: Vec<Entry>, near_full: u64, spill_over: u32, fixed: bool) -> Blend {
    if near.is_empty() || far.is_empty() {
        return Blend::plain(if near.is_empty() { far } else { near });
    }
    let sum = |entries: &[Entry]| entries.iter().map(|entry| u64::from(entry.weight)).sum::<u64>();
    let want = near_full * u64::from(spill_over);
    let mut shares = Shares { near: sum(&near), far: sum(&far), want, scale: None };
    if shares.near * 100 >= want {
        return Blend { entries: near, spare: far, shares: Some(shares) };
    }
    let (mut near, mut far) = (near, far);
    if !fixed {
        let mut scale = Scale::new(&near, &far, &shares);
        scale.apply(true, &mut near);
        scale.apply(false, &mut far);
        shares.scale = Some(scale);
    }
    near.append(&mut far);
    Blend { entries: near, spare: Vec::new(), shares: Some(shares) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(first: u32, weights: &[u32]) -> Vec<Entry> {
        weights.iter().zip(first..).map(|(&weight, server)| Entry { server, weight: weight * 16 }).collect()
    }

    /// The percentage of requests that go elsewhere.
    fn elsewhere(near: &[u32], far: &[u32], near_full: u64, spill_over: u32) -> u64 {
        let blended = blend(entries(0, near), entries(100, far), near_full * 16, spill_over, false).entries;
        let all: u64 = blended.iter().map(|e| u64::from(e.weight)).sum();
        let far: u64 = blended.iter().filter(|e| e.server >= 100).map(|e| u64::from(e.weight)).sum();
        (far * 100 + all / 2) / all
    }

    #[test]
    fn what_is_missing_goes_elsewhere() {
        for (near, far, full, spill_over, expected) in [
            (&[1, 1, 1, 1][..], &[1, 1][..], 4, 70, 0),
            (&[1, 1, 1], &[1, 1], 4, 75, 0),
            (&[1, 1], &[1, 1], 4, 100, 50),
            (&[1, 1], &[1, 1], 4, 75, 33),
            (&[1], &[1, 1, 1, 1, 1, 1, 1, 1], 4, 100, 75),
            (&[1], &[256], 4, 100, 75),
            (&[256], &[1], 1024, 100, 75),
            (&[], &[1], 4, 100, 100),
            (&[1], &[], 4, 100, 0),
            // A zone without a limit keeps all.
            (&[1], &[1], 100, 0, 0),
        ] {
            let is = elsewhere(near, far, full, spill_over);
            assert!(is.abs_diff(expected) <= 1, "{near:?} {far:?} of {full}, {spill_over}: {is}");
        }
    }

    #[test]
    fn shares_within_a_zone_stay() {
        let blended = blend(entries(0, &[3, 1]), entries(100, &[1, 2]), 8 * 16, 100, false).entries;
        let weights: Vec<u32> = blended.iter().map(|e| e.weight).collect();
        assert!(
            (weights[0] / 3).abs_diff(weights[1]) <= 1 && (weights[3] / 2).abs_diff(weights[2]) <= 1,
            "{weights:?}"
        );
    }

    #[test]
    fn others_are_spare_as_long_as_the_zone_is_strong_enough() {
        let blended = blend(entries(0, &[1, 1]), entries(100, &[1]), 2 * 16, 70, false);
        assert_eq!((blended.entries, blended.spare), (entries(0, &[1, 1]), entries(100, &[1])));
        let fixed = blend(entries(0, &[1]), entries(100, &[2]), 2 * 16, 70, true);
        assert_eq!((fixed.entries.len(), fixed.entries[1].weight, fixed.spare.len()), (2, 32, 0));
    }

    /// A blend that is kept while weights change: what it takes part with, and what it would be if it were made of the weights of now.
    struct Kept {
        near: Vec<Entry>,
        far: Vec<Entry>,
        shares: Shares,
        scaled: Vec<u32>,
        made: u32,
    }

    const FULL: u64 = 100 * 16 * 30;

    impl Kept {
        fn new(near: &[u32], far: &[u32]) -> Kept {
            let (near, far) = (entries(0, near), entries(100, far));
            let (scaled, shares) = Kept::fresh(&near, &far);
            Kept { near, far, shares, scaled, made: 1 }
        }

        fn fresh(near: &[Entry], far: &[Entry]) -> (Vec<u32>, Shares) {
            let blend = blend(near.to_vec(), far.to_vec(), FULL, 100, false);
            let all = blend.entries.iter().chain(&blend.spare);
            (all.map(|entry| entry.weight).collect(), blend.shares.unwrap())
        }

        fn reweigh(&mut self, at: usize, weight: u32) {
            let near = self.near.len();
            let entry = if at < near { &mut self.near[at] } else { &mut self.far[at - near] };
            let before = std::mem::replace(&mut entry.weight, weight);
            match self.shares.reweigh(at < near, before, weight) {
                Some(scaled) => self.scaled[at] = scaled,
                None => {
                    (self.scaled, self.shares) = Kept::fresh(&self.near, &self.far);
                    self.made += 1;
                }
            }
        }

        fn is_strong(&self) -> bool {
            self.shares.scale.is_none()
        }
    }

    fn near_share(weights: &[u32], near: usize) -> f64 {
        let sum = |weights: &[u32]| weights.iter().map(|&w| f64::from(w)).sum::<f64>();
        sum(&weights[..near]) / sum(weights)
    }

    proptest! {
        /// Whatever weights change to: the zone has what it would have if the blend were made of the weights of now, within 1 %, each
        /// server its share of that, within what numbers of 12 bits can say, and no weight is beyond what it may be.
        #[test]
        fn a_blend_that_is_kept_is_that_of_the_weights_of_now(
            near in prop::collection::vec(1u32..=256, 1..30),
            far in prop::collection::vec(1u32..=256, 1..30),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 1u32..=4096), 0..100),
        ) {
            let mut kept = Kept::new(&near, &far);
            let (near, all) = (near.len(), near.len() + far.len());
            for (at, weight) in changes {
                kept.reweigh(at.index(all), weight);
                let (fresh, shares) = Kept::fresh(&kept.near, &kept.far);
                let sum = |weights: &[u32]| weights.iter().map(|&w| u64::from(w)).sum::<u64>();
                let due = (shares.near as f64 / (FULL as f64)).min(1.0);
                if kept.is_strong() {
                    prop_assert!(due >= 0.99, "{due}");
                    continue;
                }
                let is = near_share(&kept.scaled, near);
                // Fractions of weights are cut off, of each server less than one.
                let cut = all as f64 / sum(&kept.scaled) as f64;
                prop_assert!((is - due).abs() <= due * 0.0101 + cut, "{is} {due} {cut}");
                prop_assert!(kept.scaled.iter().all(|&w| (1..=2 * 4096).contains(&w)));
                prop_assert!(kept.scaled.iter().any(|&w| w >= 512));
                if shares.scale.is_none() {
                    continue;
                }
                for side in [0..near, near..all] {
                    let of = |weights: &[u32]| {
                        let sum = f64::from(sum(&weights[side.clone()]) as u32);
                        side.clone().map(|at| f64::from(weights[at]) / sum).collect::<Vec<_>>()
                    };
                    let cut = side.len() as f64 / sum(&kept.scaled[side.clone()]).min(sum(&fresh[side.clone()])) as f64;
                    for (is, due) in of(&kept.scaled).iter().zip(of(&fresh)) {
                        prop_assert!((is - due).abs() <= 2.0 * cut, "{is} {due} {cut}");
                    }
                }
            }
        }
    }

    /// The more servers there are, the more weights change until the blend is made anew, whether the zone is strong enough, too weak, or
    /// now one and now the other, and while one server becomes the heaviest of all.
    #[test]
    fn many_changes_make_few_blends() {
        for weight in [16, 24, 29, 30, 31, 60] {
            let mut kept = Kept::new(&[weight; 100], &[30; 100]);
            for round in 0..10 {
                for at in 0..200 {
                    let by = if (at + round) % 2 == 0 { 8 } else { -8 };
                    let weights = kept.near.iter().chain(&kept.far).nth(at).unwrap().weight;
                    kept.reweigh(at, weights.checked_add_signed(by).unwrap());
                }
            }
            assert!(kept.made < 30, "{weight}: {} of 2,000", kept.made);
        }
        let mut kept = Kept::new(&[2; 1000], &[2; 10_000]);
        for weight in 32..4096 {
            kept.reweigh(1500, weight);
            assert!(kept.scaled[1500] <= 2 * 4096, "{weight}");
        }
        assert!(kept.made < 20, "{}", kept.made);
        // When the heaviest becomes a light one, those are not told apart by a few bits for ever.
        let mut far = [2; 10_000];
        far[0] = 512;
        let mut kept = Kept::new(&[2; 1000], &far);
        assert!(kept.scaled[0] < 512);
        kept.reweigh(1000, 32);
        assert_eq!((kept.made, kept.scaled[0]), (2, 4096));
    }
}
