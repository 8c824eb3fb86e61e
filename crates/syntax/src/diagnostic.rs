//! What is said about a configuration: collected first, shown together.

use crate::source::Span;

/// How serious a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Shown only in diagnostic mode (`-dD`); never changes the outcome.
    Diag,
    /// For information.
    Notice,
    /// The configuration is accepted, unless warnings were made fatal (`-dW`, `zero-warning`).
    Warning,
    /// The configuration is refused.
    Alert,
}

impl Severity {
    /// The word between brackets that begins the line.
    pub fn label(self) -> &'static str {
        match self {
            Severity::Diag => "DIAG",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Alert => "ALERT",
        }
    }
}

/// What stands between `[ALERT] (pid) : ` and the message. HAProxy uses several forms, and scripts match them,
/// so each message says which one it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// `config : parsing [file:line] : message`: a complaint about the line itself.
    Parsing,
    /// `config : [file:line] : message`: used by HAProxy for servers.
    Located,
    /// `config : message`: found once the whole configuration is known.
    Config,
    /// `[file:line] : message`: found later, while preparing to start.
    BareLocated,
    /// The message alone.
    Bare,
}

/// One complaint. Build it with [`Diagnostic::alert_at`] and the other constructors, then add to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How serious it is.
    pub severity: Severity,
    /// The form of the beginning of the first line.
    pub lead: Lead,
    /// The place it is about. Quoted with carets below the first line when known.
    pub span: Option<Span>,
    /// Whether the line is quoted below the message.
    pub quoted: bool,
    /// The message, HAProxy's where it has one. Further lines are shown indented.
    pub message: String,
    /// What explains the situation, one statement each.
    pub notes: Vec<String>,
    /// What to do about it, one suggestion each.
    pub help: Vec<String>,
    /// Another place that matters, with what it is (for instance "first declared here").
    pub related: Vec<(Span, String)>,
}

impl Diagnostic {
    /// A message of any severity and form.
    pub fn new(severity: Severity, lead: Lead, span: Option<Span>, message: impl Into<String>) -> Self {
        let (notes, help, related) = (Vec::new(), Vec::new(), Vec::new());
        Self { severity, lead, span, quoted: true, message: message.into(), notes, help, related }
    }

    /// An error on a line: `[ALERT] config : parsing [file:line] : message`.
    pub fn alert_at(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Alert, Lead::Parsing, Some(span), message)
    }

    /// A warning on a line: `[WARNING] config : parsing [file:line] : message`.
    pub fn warning_at(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Lead::Parsing, Some(span), message)
    }

    /// An information about a line.
    pub fn notice_at(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Notice, Lead::Parsing, Some(span), message)
    }

    /// A remark about a line, shown in diagnostic mode only.
    pub fn diag_at(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Diag, Lead::Parsing, Some(span), message)
    }

    /// An error about the configuration as a whole: `[ALERT] config : message`.
    pub fn alert(message: impl Into<String>) -> Self {
        Self::new(Severity::Alert, Lead::Config, None, message)
    }

    /// A warning about the configuration as a whole: `[WARNING] config : message`.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Lead::Config, None, message)
    }

    /// Changes the form of the first line.
    pub fn lead(mut self, lead: Lead) -> Self {
        self.lead = lead;
        self
    }

    /// Says where to look.
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Leaves out the quoted line, for a message that says it all.
    pub fn unquoted(mut self) -> Self {
        self.quoted = false;
        self
    }

    /// Adds an explanation.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a way out.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds another place that matters.
    pub fn related(mut self, span: Span, what: impl Into<String>) -> Self {
        self.related.push((span, what.into()));
        self
    }
}

/// The messages of one run, in the order they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
    /// Messages left out because [`DIAGNOSTICS_MAX`] was reached.
    dropped: usize,
    errors: usize,
    warnings: usize,
    aborted: bool,
}

/// A generated file can be wrong on every line: past this many messages the rest are only counted.
pub const DIAGNOSTICS_MAX: usize = 1000;

impl Diagnostics {
    /// No message yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        match diagnostic.severity {
            Severity::Alert => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Notice | Severity::Diag => {}
        }
        if self.items.len() < DIAGNOSTICS_MAX {
            self.items.push(diagnostic);
        } else {
            self.dropped += 1;
        }
    }

    /// Adds the messages of another collection, in order.
    pub fn append(&mut self, other: Diagnostics) {
        self.dropped += other.dropped;
        self.aborted |= other.aborted;
        for diagnostic in other.items {
            self.push(diagnostic);
        }
    }

    /// An error on a line; the same as pushing [`Diagnostic::alert_at`].
    pub fn alert(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::alert_at(span, message));
    }

    /// A warning on a line; the same as pushing [`Diagnostic::warning_at`].
    pub fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::warning_at(span, message));
    }

    /// All the messages kept.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.items.iter()
    }

    /// Whether anything was said.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Number of errors.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// Number of warnings.
    pub fn warning_count(&self) -> usize {
        self.warnings
    }

    /// Whether the configuration must be refused.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether there were warnings, which `-dW` makes fatal.
    pub fn has_warnings(&self) -> bool {
        self.warnings > 0
    }

    /// How many messages were counted but not kept.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Records that the file could not be read to its end (an `.if` that cannot be evaluated, an `.alert`).
    /// The reference leaves at once in this case and does not print "Fatal errors found in configuration.".
    pub fn abort(&mut self) {
        self.aborted = true;
    }

    /// Whether [`Diagnostics::abort`] was called.
    pub fn aborted(&self) -> bool {
        self.aborted
    }
}
