//! Counting verdicts: when a server goes up or down (configuration manual, section 5.2, `rise`, `fall`, `init-state`).

use std::fmt;

/// How a server starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// Up; all of `fall` checks must fail before it is down.
    FullyUp,
    /// Up; the first check that fails takes it down.
    #[default]
    Up,
    /// Down; the first check that passes brings it up.
    Down,
    /// Down; all of `rise` checks must pass before it is up.
    FullyDown,
}

/// The health of one server: 0 (certainly down) to `rise + fall - 1` (certainly up); up from `rise` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    value: u32,
    rise: u32,
    fall: u32,
}

/// What one verdict did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The health is not what it was.
    pub moved: bool,
    /// The server was up before.
    pub was_up: bool,
    /// It is up now.
    pub is_up: bool,
}

impl Health {
    /// The health at start. Counts of 0 are taken as 1.
    pub fn new(rise: u32, fall: u32, initial: Initial) -> Health {
        let (rise, fall) = (rise.max(1), fall.max(1));
        let value = match initial {
            Initial::FullyUp => rise.saturating_add(fall) - 1,
            Initial::Up => rise,
            Initial::Down => rise - 1,
            Initial::FullyDown => 0,
        };
        Health { value, rise, fall }
    }

    /// As a number, for statistics.
    pub fn value(&self) -> u32 {
        self.value
    }

    /// Passed checks that bring the server up.
    pub fn rise(&self) -> u32 {
        self.rise
    }

    /// Failed checks that take it down.
    pub fn fall(&self) -> u32 {
        self.fall
    }

    /// Whether the server is up.
    pub fn is_up(&self) -> bool {
        self.value >= self.rise
    }

    /// Neither certainly up nor certainly down: the next checks decide, and come at `fastinter`.
    pub fn is_changing(&self) -> bool {
        self.value != 0 && self.value != self.top()
    }

    /// Certainly up, whatever checks said.
    pub fn set_top(&mut self) {
        self.value = self.top();
    }

    /// No more than this many failed checks, at least one, take it down from here. Who is down stays so.
    pub fn weaken(&mut self, failures_left: u32) {
        self.value = self.value.min(self.rise.saturating_add(failures_left.max(1)) - 1);
    }

    /// Certainly down.
    pub fn set_bottom(&mut self) {
        self.value = 0;
    }

    /// Certainly up: all of `fall` checks must fail before it is down.
    pub fn is_top(&self) -> bool {
        self.value == self.top()
    }

    fn top(&self) -> u32 {
        self.rise.saturating_add(self.fall) - 1
    }

    /// A check passed. Who is up again, or was about to go down, is certainly up.
    pub fn pass(&mut self) -> Change {
        let (before, was_up) = (self.value, self.is_up());
        self.value = if before + 1 >= self.rise { self.top() } else { before + 1 };
        Change { moved: self.value != before, was_up, is_up: self.is_up() }
    }

    /// A check failed. Who falls below `rise` is certainly down.
    pub fn fail(&mut self) -> Change {
        let (before, was_up) = (self.value, self.is_up());
        self.value = if before > self.rise { before - 1 } else { 0 };
        Change { moved: self.value != before, was_up, is_up: self.is_up() }
    }
}

/// As logs show it: `2/3 UP` of `fall`, or `1/2 DOWN` of `rise`.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_up() {
            write!(f, "{}/{} UP", self.value - self.rise + 1, self.fall)
        } else {
            write!(f, "{}/{} DOWN", self.value, self.rise)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn verdicts_move_the_health() {
        use Initial::*;
        // `+` passes, `-` fails; what the reference logs after each.
        let cases: &[(u32, u32, Initial, &str, &str)] = &[
            (2, 2, Up, "+", "2/2 UP"),
            (2, 2, Up, "-", "0/2 DOWN"),
            (2, 3, Up, "+-", "2/3 UP"),
            (2, 3, Up, "+-+-", "2/3 UP"),
            (2, 3, Up, "+---", "0/2 DOWN"),
            (2, 3, Up, "+---+", "1/2 DOWN"),
            (2, 3, Up, "+---++", "3/3 UP"),
            (2, 3, Up, "+---+-", "0/2 DOWN"),
            (1, 1, Up, "", "1/1 UP"),
            (1, 1, Up, "-", "0/1 DOWN"),
            (1, 1, Up, "-+", "1/1 UP"),
            (2, 3, FullyUp, "--", "1/3 UP"),
            (2, 3, FullyUp, "---", "0/2 DOWN"),
            (3, 2, Down, "", "2/3 DOWN"),
            (3, 2, Down, "+", "2/2 UP"),
            (3, 2, FullyDown, "++", "2/3 DOWN"),
            (3, 2, FullyDown, "+++", "2/2 UP"),
            (0, 0, Up, "-", "0/1 DOWN"),
        ];
        for (rise, fall, initial, verdicts, expected) in cases {
            let mut health = Health::new(*rise, *fall, *initial);
            for verdict in verdicts.bytes() {
                if verdict == b'+' {
                    health.pass()
                } else {
                    health.fail()
                };
            }
            assert_eq!(health.to_string(), *expected, "{rise}/{fall} {initial:?} {verdicts}");
        }
    }

    #[test]
    fn errors_of_traffic_leave_fewer_failures() {
        let mut health = Health::new(2, 5, Initial::FullyUp);
        health.weaken(2);
        health.fail();
        assert_eq!(health.to_string(), "1/5 UP");
        health.weaken(2);
        health.fail();
        assert_eq!(health.to_string(), "0/2 DOWN");
        health.weaken(1);
        assert_eq!(health.to_string(), "0/2 DOWN");
        let mut health = Health::new(2, 5, Initial::FullyUp);
        health.weaken(1);
        health.fail();
        assert_eq!(health.to_string(), "0/2 DOWN");
    }

    proptest! {
        #[test]
        fn it_stays_in_its_range(rise in 0u32..20, fall in 0u32..20, verdicts in proptest::collection::vec(any::<bool>(), 0..60)) {
            let mut health = Health::new(rise, fall, Initial::Up);
            let mut run = (0u32, true);
            for passed in verdicts {
                let was_up = health.is_up();
                let change = if passed { health.pass() } else { health.fail() };
                run = if run.1 == passed { (run.0 + 1, passed) } else { (1, passed) };
                prop_assert_eq!(change.was_up, was_up);
                prop_assert!(health.value() < health.rise() + health.fall());
                if passed && run.0 >= health.rise() { prop_assert!(health.is_up()); }
                if !passed && run.0 >= health.fall() { prop_assert!(!health.is_up()); }
                prop_assert_eq!(health.is_up(), change.is_up);
            }
        }
    }
}
