//! The statistics page: `stats uri` and the other `stats` keywords of a proxy.
//!
//! [`options`] reads what follows the page's URI, [`html`] writes the page, [`live`] the figures that its script asks for,
//! [`past`] what its curves show of the time before, [`row`] all that is known of one row, [`act`] does what a form asks for. The rows in CSV, JSON and typed lines are those
//! of the CLI ([`crate::report`]). The page's style and script are files in this directory; they are part of the page,
//! which allows nothing else to run ([`policy`]).

pub mod act;
pub mod figures;
pub mod html;
pub mod live;
pub mod options;
pub mod past;
pub mod row;
pub mod words;

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thalweg_config::model::{Label, Proxy, StatsPage};
use thalweg_proxy::Instance;

use crate::info::{self, Around, Field};
use crate::report::Filter;
use options::Options;

/// How the page looks.
const STYLE: &str = include_str!("page.css");

/// What keeps it up to date.
const SCRIPT: &str = include_str!("page.js");

/// The `content-security-policy` of everything that is HTML: this style and this script, figures and changes of the same
/// site, and nothing else. No other site may put the page into a frame, where it could make its visitors press buttons.
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = |text: &str| {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
            format!("'sha256-{}'", STANDARD.encode(digest.as_ref()))
        };
        format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data:; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'self'",
            hash(SCRIPT),
            hash(STYLE)
        )
    });
    &POLICY
}

/// Everything that a view of the page is made of.
pub struct Context {
    /// Whose figures are shown.
    pub instance: Arc<Instance>,
    /// How the page was asked for.
    pub options: Options,
    /// Which rows are shown.
    pub filter: Filter,
    /// Where it is.
    pub uri: String,
    /// `stats show-legends`
    pub legends: bool,
    /// `stats show-modules`
    pub modules: bool,
    /// Servers may be changed.
    pub admin: bool,
    /// Seconds after which browsers load it again, 0 for never.
    pub refresh_s: u32,
    /// What stands at its top: name and version of the program, node, description.
    pub product: String,
    pub version: Option<String>,
    pub node: Option<String>,
    pub description: Option<String>,
    /// Figures of the process.
    process: Vec<Field>,
    /// The URI with the suffix that keeps what was chosen.
    suffix: String,
}

impl Context {
    /// For a page of this proxy, as it was asked for.
    pub fn new(
        instance: Arc<Instance>,
        around: &Around<'_>,
        proxy: &Proxy,
        page: &StatsPage,
        admin: bool,
        options: Options,
    ) -> Context {
        let global = &instance.config.global;
        let label = |label: &Label, own: Option<&str>| match label {
            Label::Hidden => None,
            Label::OfProcess => own.map(str::to_owned),
            Label::Given(text) => Some(text.to_string()),
        };
        let node = global.node.as_deref().unwrap_or(&instance.hostname);
        Context {
            filter: options.filter(&proxy.name, page),
            uri: String::from_utf8_lossy(&page.uri).into_owned(),
            legends: page.show_legends,
            modules: page.show_modules,
            admin,
            refresh_s: if options.norefresh { 0 } else { page.refresh_s },
            product: around.product.to_owned(),
            version: page.show_version.then(|| around.version.to_owned()),
            node: label(&page.node, Some(node)),
            description: label(&page.description, global.description.as_deref()),
            process: info::fields(&instance, around),
            suffix: options.suffix(page, ""),
            options,
            instance,
        }
    }

    /// A figure of the process, as `show info` calls it.
    fn process(&self, name: &str) -> String {
        self.process
            .iter()
            .find(|field| field.name == name)
            .map(|field| field.value.to_string())
            .unwrap_or_default()
    }

    /// The same as a number.
    fn number(&self, name: &str) -> u64 {
        self.process(name).parse().unwrap_or(0)
    }

    /// What the top of the page says of the process: identifier, label, text.
    fn tiles(&self) -> [(&'static str, &'static str, String); 8] {
        let of = |name: &str| self.process(name);
        [
            (
                "process",
                "Process",
                format!("pid {}, {}", of("Pid"), words::counted(self.number("Nbthread"), "thread")),
            ),
            ("uptime", "Up for", words::written(words::duration, self.number("Uptime_sec"))),
            ("conns", "Connections", format!("{} of {}", of("CurrConns"), of("Maxconn"))),
            ("connrate", "New connections", format!("{}/s", of("ConnRate"))),
            ("sessrate", "New sessions", format!("{}/s", of("SessRate"))),
            ("streams", "Streams", of("CurrStreams")),
            ("requests", "Requests so far", words::written(words::count, self.number("CumReq"))),
            ("idle", "Idle", format!("{} %", of("Idle_pct"))),
        ]
    }

    /// A link to this page with other words behind its URI.
    fn link(&self, words: &str) -> String {
        format!("{}{words}", self.uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_what_the_page_has() {
        assert_eq!(policy().matches("'sha256-").count(), 2);
        assert!(!policy().contains("unsafe"));
        // They stand in the page as they are: nothing in them may end their element.
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</"), "this would end the element");
        }
    }
}
