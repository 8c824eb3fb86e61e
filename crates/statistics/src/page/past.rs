//! What the page's curves show of the time before it was opened: how many requests each row had, and how long they took, in the
//! last five minutes.
//!
//! Nothing is kept until somebody looks at a page for the first time. From then on a task reads what was counted every
//! [`STEP_S`] seconds. A row takes some 550 bytes, of which its points are 480, and at most [`ROWS_MAX`] have them: 10,000
//! servers take 5.5 MB, and no configuration more than 9 MB.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_proxy::Live;
use thalweg_runtime::{Class, Kind, SpawnOptions, spawn_with, timer, yield_now};

use crate::latency;
use crate::report::{Filter, Place, Walk};

use super::options::RowId;

static SAMPLE: Kind = Kind::new("statistics-page");

/// Seconds between two points of a curve; page.js makes its own points of as many.
pub const STEP_S: u64 = 5;

/// Points of a curve.
pub const POINTS: usize = 60;

/// Rows that have curves: the first ones, where there are more.
pub const ROWS_MAX: usize = 16_384;

/// Rows that are read in one turn.
const STEP: usize = 100;

/// One point of a row's curves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// New requests, or sessions, of the step.
    pub begun: u32,
    /// How long those took that ended in it, in microseconds on average; [`Point::NONE_ENDED`] without any.
    time_us: u32,
}

impl Point {
    const NONE_ENDED: u32 = u32::MAX;

    /// What came between two readings.
    fn between(before: Totals, now: Totals) -> Point {
        let narrow = |n: u64| u32::try_from(n).unwrap_or(Point::NONE_ENDED - 1);
        let ended = now.ended.saturating_sub(before.ended);
        let time_us = match now.time_us.saturating_sub(before.time_us).checked_div(ended) {
            Some(mean) => narrow(mean).min(Point::NONE_ENDED - 1),
            None => Point::NONE_ENDED,
        };
        // Counters may have been cleared in between.
        Point { begun: narrow(now.begun.saturating_sub(before.begun)), time_us }
    }

    /// How long those took that ended in the step, if any did.
    pub fn time_us(self) -> Option<u32> {
        (self.time_us != Point::NONE_ENDED).then_some(self.time_us)
    }
}

/// What a row counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    begun: u64,
    ended: u64,
    time_us: u64,
}

impl Totals {
    fn of(instance: &thalweg_proxy::Instance, place: Place) -> Totals {
        let counts_requests = place.counts_requests(instance);
        let mut totals = Totals::default();
        latency::each_counters(instance, place, |counters| {
            let begun = if counts_requests { &counters.requests } else { &counters.total };
            totals.begun = totals.begun.wrapping_add(begun.get());
            if let Some(latency) = counters.latency.get() {
                totals.ended += latency.streams();
                totals.time_us = totals.time_us.wrapping_add(latency.total_us());
            }
        });
        totals
    }
}

/// The points of a row: that of a sweep is at its number, modulo [`POINTS`].
struct Curves {
    points: [Point; POINTS],
    /// What was read last.
    totals: Totals,
    /// The sweep that saw the row first, and the last one.
    from: u64,
    until: u64,
}

impl Curves {
    fn begin(totals: Totals, sweep: u64) -> Box<Curves> {
        Box::new(Curves { points: [Point::default(); POINTS], totals, from: sweep, until: sweep })
    }

    fn add(&mut self, totals: Totals, sweep: u64) {
        self.points[sweep as usize % POINTS] = Point::between(self.totals, totals);
        (self.totals, self.until) = (totals, sweep);
    }

    /// The oldest first.
    fn points(&self) -> Vec<Point> {
        let first = (self.from + 1).max((self.until + 1).saturating_sub(POINTS as u64));
        (first..=self.until).map(|sweep| self.points[sweep as usize % POINTS]).collect()
    }
}

/// See the module's documentation.
#[derive(Default)]
pub struct Past {
    rows: Mutex<HashMap<RowId, Box<Curves>>>,
    is_kept: AtomicBool,
}

impl Past {
    /// Sees to it that points are kept from now on. To be called on a thread of the runtime, which does that.
    pub fn keep(self: &Arc<Past>, live: &Arc<Live>) {
        if self.is_kept.swap(true, Ordering::Relaxed) {
            return;
        }
        let options = SpawnOptions { class: Class::Bulk, ..SpawnOptions::default() };
        spawn_with(&SAMPLE, options, sample(Keeping(Arc::clone(self)), Arc::clone(live)));
    }

    /// The points of a row, the oldest first.
    pub fn of(&self, id: RowId) -> Vec<Point> {
        self.rows().get(&id).map_or_else(Vec::new, |row| row.points())
    }

    fn add(&self, id: RowId, totals: Totals, sweep: u64) {
        let mut rows = self.rows();
        let has_room = rows.len() < ROWS_MAX;
        match rows.entry(id) {
            Entry::Occupied(row) => row.into_mut().add(totals, sweep),
            Entry::Vacant(row) if has_room => _ = row.insert(Curves::begin(totals, sweep)),
            Entry::Vacant(_) => {}
        }
    }

    /// Forgets the rows that this sweep did not see: they are gone.
    fn end_sweep(&self, sweep: u64) {
        self.rows().retain(|_, row| row.until == sweep);
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<RowId, Box<Curves>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody keeps points. Should its task end, the next page begins another one.
struct Keeping(Arc<Past>);

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.is_kept.store(false, Ordering::Relaxed);
    }
}

async fn sample(keeping: Keeping, live: Arc<Live>) {
    let past = &keeping.0;
    // What an earlier task left is of another time.
    past.rows().clear();
    for sweep in 0.. {
        let next = timer::deadline_in(STEP_S * 1000);
        let Some(instance) = live.current() else { return };
        let mut walk = Walk::new(Filter::default());
        let mut read = 0;
        while let Some(place) = walk.next(&instance) {
            past.add(place.id(&instance), Totals::of(&instance, place), sweep);
            read += 1;
            if read % STEP == 0 {
                yield_now().await;
            }
        }
        past.end_sweep(sweep);
        drop(instance);
        timer::sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: RowId = (3, 2, 1);

    fn totals(begun: u64, ended: u64, time_us: u64) -> Totals {
        Totals { begun, ended, time_us }
    }

    #[test]
    fn a_point_is_what_came_between_two_readings() {
        let point = Point::between(totals(10, 4, 1000), totals(30, 14, 3000));
        assert_eq!((point.begun, point.time_us()), (20, Some(200)));
        let idle = Point::between(totals(10, 4, 1000), totals(10, 4, 1000));
        assert_eq!((idle.begun, idle.time_us()), (0, None));
        let cleared = Point::between(totals(10, 4, 1000), totals(2, 1, 50));
        assert_eq!((cleared.begun, cleared.time_us()), (0, None));
        let much = Point::between(totals(0, 0, 0), totals(u64::MAX, 1, u64::MAX));
        assert_eq!((much.begun, much.time_us()), (u32::MAX - 1, Some(u32::MAX - 1)));
    }

    #[test]
    fn the_last_points_are_kept() {
        let past = Past::default();
        assert_eq!(past.of(ID), []);
        for sweep in 0..=3 * POINTS as u64 {
            past.add(ID, totals(sweep * sweep, 0, 0), sweep);
            past.end_sweep(sweep);
            assert_eq!(past.of(ID).len(), POINTS.min(sweep as usize));
        }
        let begun: Vec<u32> = past.of(ID).iter().map(|point| point.begun).collect();
        assert_eq!((begun[0], begun[POINTS - 1]), (2 * 121 - 1, 2 * 180 - 1));
    }

    #[test]
    fn rows_are_bounded_and_go() {
        let past = Past::default();
        for number in 0..ROWS_MAX as u32 + 10 {
            past.add((0, 2, number), Totals::default(), 0);
        }
        assert_eq!(past.rows().len(), ROWS_MAX);
        past.add((0, 2, 5), totals(7, 0, 0), 1);
        past.end_sweep(1);
        assert_eq!(past.rows().len(), 1);
        assert_eq!(past.of((0, 2, 5)).len(), 1);
        assert!(size_of::<Curves>() <= 520, "{}", size_of::<Curves>());
    }
}
