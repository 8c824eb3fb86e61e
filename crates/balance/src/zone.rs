//! Zones: requests stay in the zone of this process, unless its servers are too few for them.

use crate::turns::Entry;

/// Weights are kept within what a configuration can say, in 16ths.
const WEIGHT_MAX: u64 = 256 * 16;

/// Who takes part when some servers are in the zone of this process and others elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub struct Blend {
    /// Those that requests are balanced to, with their weights.
    pub entries: Vec<Entry>,
    /// Those that get what finds all of these full.
    pub spare: Vec<Entry>,
    /// While the weights of the entries come to as much nothing but weights is different when one of them changes. Absent where
    /// they are shares of zones, which change together.
    pub least: Option<u64>,
}

impl Blend {
    /// Where zones do not matter.
    pub fn plain(entries: Vec<Entry>) -> Blend {
        Blend { entries, spare: Vec::new(), least: Some(0) }
    }
}

/// Blends the usable servers of the own zone (`near`) and of others (`far`). All servers of the own zone, usable or not, weigh
/// `near_full`; as long as the usable ones weigh `spill_over` percent of that, requests stay with them. What is missing to that is
/// the share that goes elsewhere: with half of it, half of the requests. Where `fixed`, weights cannot be changed: a zone that is too
/// weak shares with all others by their own weights.
pub fn blend(near: Vec<Entry>, far: Vec<Entry>, near_full: u64, spill_over: u32, fixed: bool) -> Blend {
    let sum = |entries: &[Entry]| entries.iter().map(|entry| u64::from(entry.weight)).sum::<u64>();
    let (have, want) = (sum(&near) * 100, near_full * u64::from(spill_over));
    if near.is_empty() || far.is_empty() || have >= want {
        return match near.is_empty() {
            true => Blend::plain(far),
            false if far.is_empty() => Blend::plain(near),
            false => Blend { entries: near, spare: far, least: Some(want.div_ceil(100)) },
        };
    }
    let (mut near, mut far) = (near, far);
    if !fixed {
        // near : far as have : want - have.
        let (near_sum, far_sum) = (u128::from(sum(&near)), u128::from(sum(&far)));
        let (near_factor, far_factor) = (u128::from(have) * far_sum, u128::from(want - have) * near_sum);
        let heaviest = |entries: &[Entry], factor: u128| {
            entries.iter().map(|entry| u128::from(entry.weight) * factor).max().unwrap_or(1)
        };
        let scale = heaviest(&near, near_factor).max(heaviest(&far, far_factor)).max(1);
        let scaled = |entry: &mut Entry, factor: u128| {
            let weight = u128::from(entry.weight) * factor * u128::from(WEIGHT_MAX) / scale;
            entry.weight = u32::try_from(weight).unwrap_or(u32::MAX).max(1);
        };
        near.iter_mut().for_each(|entry| scaled(entry, near_factor));
        far.iter_mut().for_each(|entry| scaled(entry, far_factor));
    }
    near.append(&mut far);
    Blend { entries: near, spare: Vec::new(), least: None }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
