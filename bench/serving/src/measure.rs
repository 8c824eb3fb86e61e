//! What the kernel says about processes, and what to make of several rounds.

use std::fs;

/// CPU time given to a process and its threads so far, in nanoseconds (`/proc/<pid>/task/*/schedstat`).
pub fn cpu_ns(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum()
}

/// Anonymous memory of a process in bytes: what the program itself holds, without its file's pages.
pub fn anonymous_bytes(pid: u32) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// One metric over several rounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds a round's figure.
    pub fn push(&mut self, figure: f64) {
        let at = self.0.partition_point(|other| other.total_cmp(&figure).is_lt());
        self.0.insert(at, figure);
    }

    /// The middle figure; NaN without any.
    pub fn median(&self) -> f64 {
        match self.0.len() {
            0 => f64::NAN,
            n if n % 2 == 1 => self.0[n / 2],
            n => (self.0[n / 2 - 1] + self.0[n / 2]) / 2.0,
        }
    }

    /// The smallest and the largest figure.
    pub fn extremes(&self) -> Option<(f64, f64)> {
        self.0.first().copied().zip(self.0.last().copied())
    }

    /// How far the rounds are apart: largest minus smallest, as a share of the median. Of five rounds and more the
    /// extreme ones on either side are left out.
    pub fn spread(&self) -> f64 {
        let rounds = if self.0.len() >= 5 { &self.0[1..self.0.len() - 1] } else { &self.0[..] };
        match (rounds.first(), rounds.last()) {
            (Some(first), Some(last)) if self.median() > 0.0 => (last - first) / self.median(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(figures: &[f64]) -> Rounds {
        let mut rounds = Rounds::default();
        figures.iter().for_each(|figure| rounds.push(*figure));
        rounds
    }

    #[test]
    fn medians() {
        assert_eq!(rounds(&[3.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(rounds(&[4.0, 1.0, 2.0, 3.0]).median(), 2.5);
        assert!(rounds(&[]).median().is_nan());
    }

    #[test]
    fn the_spread_leaves_single_outliers_out() {
        assert_eq!(rounds(&[1.0, 2.0, 3.0]).spread(), 1.0);
        assert_eq!(rounds(&[10.0, 10.0, 50.0, 11.0, 1.0]).spread(), 0.1);
        assert_eq!(rounds(&[]).spread(), 0.0);
    }

    #[test]
    fn this_process_has_figures() {
        let pid = std::process::id();
        assert!(anonymous_bytes(pid) > 0);
        assert!(cpu_ns(pid) > 0);
    }
}
