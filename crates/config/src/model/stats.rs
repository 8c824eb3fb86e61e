//! The statistics page of a proxy: its `stats` keywords.

use std::fmt;
use std::sync::Arc;

use thalweg_rules::Ruleset;
use thalweg_sample::Condition;

/// Where the page is unless `stats uri` says otherwise.
pub const DEFAULT_URI: &str = "/haproxy?stats";

/// What users are asked for unless `stats realm` says otherwise.
pub const DEFAULT_REALM: &str = "HAProxy Statistics";

/// The page that a proxy answers with.
#[derive(Clone)]
pub struct StatsPage {
    /// What the path and query of its requests begin with.
    pub uri: Arc<[u8]>,
    /// `stats realm`.
    pub realm: Option<Arc<str>>,
    /// `stats auth`: users and their passwords.
    pub accounts: Vec<(Arc<str>, Arc<str>)>,
    /// Who may see it: the `stats http-request` rules, or what follows from the accounts.
    pub rules: Arc<Ruleset>,
    /// Seconds after which a browser loads it again, 0 for never.
    pub refresh_s: u32,
    /// The version of the program is shown.
    pub show_version: bool,
    pub description: Label,
    pub node: Label,
    /// Addresses, cookies and the like are shown.
    pub show_legends: bool,
    /// Counters of modules are shown.
    pub show_modules: bool,
    /// Names of the proxies that are shown; all of them when it is empty. A dot is the proxy itself.
    pub scope: Vec<Arc<str>>,
    /// When servers may be changed; any of these is enough.
    pub admin: Vec<Arc<Condition>>,
}

/// A text that may be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Label {
    #[default]
    Hidden,
    /// The one of the process.
    OfProcess,
    Given(Arc<str>),
}

impl Default for StatsPage {
    fn default() -> StatsPage {
        StatsPage {
            uri: DEFAULT_URI.as_bytes().into(),
            realm: None,
            accounts: Vec::new(),
            rules: Arc::default(),
            refresh_s: 0,
            show_version: false,
            description: Label::Hidden,
            node: Label::Hidden,
            show_legends: false,
            show_modules: false,
            scope: Vec::new(),
            admin: Vec::new(),
        }
    }
}

// Not derived: passwords are shown to nobody.
impl fmt::Debug for StatsPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatsPage")
            .field("uri", &self.uri)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
