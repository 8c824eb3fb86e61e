//! The result of a check, as the statistics and logs name it.

/// What a check found out (management manual, section 9.1, `check_status`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Status {
    /// No check ran yet.
    #[default]
    Initializing,
    /// An agent answered, and said neither that the server is up nor that it is down.
    Checked,
    /// Traffic found too many errors in a row.
    Analyzed,
    SocketError,
    L4Ok,
    L4Timeout,
    L4Connection,
    L6Ok,
    L6Timeout,
    L6Response,
    L7Timeout,
    L7Response,
    L7Ok,
    /// Passed, and new sessions should go elsewhere.
    L7OkConditional,
    L7Status,
    /// A program was run and said that it does not work, or could not be run.
    ProgramError,
    ProgramTimeout,
    ProgramOk,
}

/// What a status means for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It works.
    Yes,
    /// It works and wants no new sessions (`http-check disable-on-404`).
    Conditionally,
    /// It does not work.
    No,
}

impl Status {
    /// Each of them, in the order of their numbers.
    const ALL: [Status; 18] = [
        Status::Initializing,
        Status::Checked,
        Status::Analyzed,
        Status::SocketError,
        Status::L4Ok,
        Status::L4Timeout,
        Status::L4Connection,
        Status::L6Ok,
        Status::L6Timeout,
        Status::L6Response,
        Status::L7Timeout,
        Status::L7Response,
        Status::L7Ok,
        Status::L7OkConditional,
        Status::L7Status,
        Status::ProgramError,
        Status::ProgramTimeout,
        Status::ProgramOk,
    ];

    /// The word of the statistics: `L4OK`.
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The words of log lines: `Layer4 check passed`.
    pub fn description(self) -> &'static str {
        self.row().1
    }

    /// The number in `show servers state`.
    pub fn number(self) -> u8 {
        self.row().2
    }

    /// What it means for the server.
    pub fn passed(self) -> Passed {
        match self {
            Status::L4Ok | Status::L6Ok | Status::L7Ok | Status::ProgramOk => Passed::Yes,
            Status::L7OkConditional => Passed::Conditionally,
            _ => Passed::No,
        }
    }

    /// Whether a code of the protocol comes with it.
    pub fn has_code(self) -> bool {
        matches!(
            self,
            Status::L7Ok
                | Status::L7OkConditional
                | Status::L7Status
                | Status::ProgramError
                | Status::ProgramTimeout
                | Status::ProgramOk
        )
    }

    fn row(self) -> (&'static str, &'static str, u8) {
        match self {
            Status::Initializing => ("INI", "Initializing", 1),
            Status::Checked => ("CHECKED", "No status change", 3),
            Status::Analyzed => ("HANA", "Health analyze", 4),
            Status::SocketError => ("SOCKERR", "Socket error", 5),
            Status::L4Ok => ("L4OK", "Layer4 check passed", 6),
            Status::L4Timeout => ("L4TOUT", "Layer4 timeout", 7),
            Status::L4Connection => ("L4CON", "Layer4 connection problem", 8),
            Status::L6Ok => ("L6OK", "Layer6 check passed", 9),
            Status::L6Timeout => ("L6TOUT", "Layer6 timeout", 10),
            Status::L6Response => ("L6RSP", "Layer6 invalid response", 11),
            Status::L7Timeout => ("L7TOUT", "Layer7 timeout", 12),
            Status::L7Response => ("L7RSP", "Layer7 invalid response", 13),
            Status::L7Ok => ("L7OK", "Layer7 check passed", 15),
            Status::L7OkConditional => ("L7OKC", "Layer7 check conditionally passed", 16),
            Status::L7Status => ("L7STS", "Layer7 wrong status", 17),
            Status::ProgramError => ("PROCERR", "External check error", 18),
            Status::ProgramTimeout => ("PROCTOUT", "External check timeout", 19),
            Status::ProgramOk => ("PROCOK", "External check passed", 20),
        }
    }

    /// The status of that number; `None` for those that nothing here comes to.
    pub fn numbered(number: u8) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.number() == number)
    }

    /// The status of that word among those that `ok-status`, `error-status` and `tout-status` take: what a connection or a protocol
    /// came to.
    pub fn named(word: &str) -> Option<Status> {
        let is_layer =
            |status: &Status| (Status::L4Ok.number()..=Status::L7Status.number()).contains(&status.number());
        Status::ALL.into_iter().filter(is_layer).find(|status| status.word() == word)
    }
}
