//! What was found out about a server by its checks.

use thalweg_check::{Passed, Status, Verdict};

/// What is known of a server's health, as the statistics show it.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What the last check found out.
    pub verdict: Verdict,
    /// How long it took, in milliseconds; `None` before the first.
    pub duration_ms: Option<u64>,
    /// One is in progress.
    pub running: bool,
    /// Checks that failed while the server was up (`chkfail`).
    pub failures: u64,
}

/// Which of a server's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `check`: whether it works.
    Health,
    /// `agent-check`: what its agent says.
    Agent,
}

impl CheckReport {
    /// `srv_check_result` of `show servers state`: 0 unknown, 2 failed, 3 passed, 4 conditionally.
    pub fn result_number(&self) -> u8 {
        match self.verdict.status.passed() {
            _ if self.verdict.status == Status::Initializing => 0,
            Passed::No => 2,
            Passed::Yes => 3,
            Passed::Conditionally => 4,
        }
    }

    /// `check_status`: `L7OK`, `INI`; `* ` before it while a check runs.
    pub fn status_word(&self) -> String {
        let mark = if self.running { "* " } else { "" };
        format!("{mark}{}", self.verdict.status.word())
    }
}
