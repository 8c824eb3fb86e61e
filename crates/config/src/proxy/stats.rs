//! The statistics page: `stats` in proxies.
//!
//! Any `stats` line of a proxy begins a page of its own: what it would have inherited is forgotten, as in the reference,
//! accounts included.

use std::sync::Arc;

use thalweg_rules::{CaptureSlots, Kind, Ruleset};
use thalweg_syntax::{Diagnostic, Lead, Line, Severity, TimeError, TimeUnit};

use crate::build::{Building, Cx};
use crate::global::rest_of;
use crate::keyword::{NoteBoxed, Outcome, fail, pass_over};
use crate::model::{
    Config, DEFAULT_REALM, Label, Mode, Password, ProxyKind, Shared, StatsPage, User, Userlist,
};
use crate::numbers::duration;
use crate::rules::{Place, compile, push, resolve};
use crate::sample_env::{Where, required_condition};

const EXPECTS: &str = "expects 'admin', 'uri', 'realm', 'auth', 'scope', 'enable', 'hide-version', 'show-node', 'show-desc' , \
                       'show-legends' or 'show-version'.";

/// Words after `stats`, for suggestions.
const WORDS: &[&str] = &[
    "admin",
    "auth",
    "enable",
    "hide-version",
    "http-request",
    "realm",
    "refresh",
    "scope",
    "show-desc",
    "show-legends",
    "show-modules",
    "show-node",
    "show-version",
    "uri",
];

/// Whether a `stats` line holds expressions, so that it is read when all names are known.
pub(crate) fn stats_is_rule(line: &Line) -> bool {
    matches!(line.text(1), "admin" | "http-request")
}

/// `stats ...`
pub(crate) fn stats(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let expects = |index: usize, what: &str| fail(line, index, format!("'{}' needs {what}.", line.text(1)));
    let value = |what: &str| match line.text(2) {
        "" => Err(expects(2, what)),
        text => Ok(text),
    };
    // How many words follow the second one; any number where they make one text.
    let mut arguments = 1;
    match line.text(1) {
        "" => return Err(fail(line, 1, format!("missing keyword in 'stats', {EXPECTS}"))),
        "admin" | "http-request" => return rule(cx, b, line),
        "enable" => {
            own_page(b);
            arguments = 0;
        }
        "uri" => own_page(b).uri = thalweg_syntax::carry::restore(value("an URI prefix")?.as_bytes()).into(),
        "realm" => own_page(b).realm = Some(value("an realm name")?.into()),
        "auth" => {
            let (user, password) =
                value("a user:password account")?.split_once(':').unwrap_or((line.text(2), ""));
            let page = own_page(b);
            if page.accounts.iter().any(|(known, _)| **known == *user) {
                let message = format!("uri auth: ignoring duplicated user '{user}'.");
                cx.diagnostics.push(Diagnostic::new(
                    Severity::Warning,
                    Lead::Config,
                    Some(line.span_at(2)),
                    message,
                ));
            } else {
                page.accounts.push((user.into(), password.into()));
            }
        }
        "scope" => {
            let name = value("a proxy name")?.into();
            own_page(b).scope.push(name);
        }
        "refresh" => own_page(b).refresh_s = refresh(cx, line)?,
        "hide-version" | "show-version" => {
            own_page(b).show_version = line.text(1) == "show-version";
            arguments = 0;
        }
        "show-legends" => {
            own_page(b).show_legends = true;
            arguments = 0;
        }
        "show-modules" => {
            own_page(b).show_modules = true;
            arguments = 0;
        }
        "show-node" => own_page(b).node = node(line)?,
        "show-desc" => {
            arguments = usize::MAX - 2;
            own_page(b).description = match (line.text(2), &cx.config.global.description) {
                ("", None) => {
                    let message =
                        "'show-desc' requires a parameter or 'desc' to be set in the global section.";
                    cx.warn(line, 1, message);
                    Label::Hidden
                }
                ("", Some(_)) => Label::OfProcess,
                _ => Label::Given(rest_of(line, 2).into()),
            };
        }
        other => {
            let complaint = fail(line, 1, format!("unknown stats parameter '{other}', {EXPECTS}"));
            let near = thalweg_syntax::did_you_mean(other, WORDS.iter().copied());
            return Err(match near {
                Some(near) => complaint.help_boxed(format!("did you mean 'stats {near}'?")),
                None => complaint,
            });
        }
    }
    if arguments < usize::MAX - 2 {
        pass_over(cx, line, 2, arguments);
    }
    Ok(())
}

/// The page of the section itself.
fn own_page(b: &mut Building) -> &mut StatsPage {
    if !std::mem::replace(&mut b.stats_here, true) && b.p.kind != ProxyKind::Defaults {
        b.p.stats = None;
    }
    Arc::make_mut(b.p.stats.get_or_insert_default())
}

/// `stats refresh`: whole seconds, up.
fn refresh(cx: &mut Cx<'_>, line: &Line) -> Result<u32, Box<Diagnostic>> {
    let text = line.text(2);
    let time = duration(cx, line, 2, TimeUnit::Seconds, TimeUnit::Seconds);
    time.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)).or_else(|error| {
        Err(fail(
            line,
            2,
            match error {
                // Less than one second is one.
                TimeError::Underflow => return Ok(1),
                TimeError::Empty => "'stats refresh' expects a delay.".to_owned(),
                TimeError::Overflow => format!(
                    "timer overflow in argument <{text}> to stats refresh interval, maximum value is 2147483647 s (~68 years)."
                ),
                TimeError::Unexpected(at) | TimeError::Trailing(at) => {
                    let c = text[at.min(text.len())..].chars().next().unwrap_or('?');
                    format!("unexpected character '{c}' in argument to stats refresh interval.")
                }
            },
        ))
    })
}

/// `stats show-node`.
fn node(line: &Line) -> Result<Label, Box<Diagnostic>> {
    let name = line.text(2);
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    match name {
        "" => Ok(Label::OfProcess),
        name if name.bytes().all(legal) => Ok(Label::Given(name.into())),
        _ => Err(fail(
            line,
            2,
            "'stats show-node' invalid node name - should be a stringwith digits(0-9), letters(A-Z, a-z), hyphen(-) \
             or underscode(_).",
        )),
    }
}

/// `stats admin` and `stats http-request`, once all names are known. In `defaults`, which have neither, at once.
fn rule(cx: &mut Cx<'_>, b: &mut Building, line: &Line) -> Outcome {
    let admin = line.text(1) == "admin";
    if b.p.kind == ProxyKind::Defaults {
        let what = if admin { "stats admin" } else { "stats" };
        return Err(fail(line, 0, format!("'{what}' not allowed in 'defaults' section.")));
    }
    own_page(b);
    if admin {
        let condition = required_condition(cx, b, line, 2, "stats admin", Where::StatsAdmin)?;
        own_page(b).admin.push(condition);
        return Ok(());
    }
    let rules = b.drafts.get_or_insert_default().stats.rules();
    if rules.last().is_some_and(|last| !last.is_conditional()) {
        cx.warn(line, 0, "previous 'stats' action has no condition attached, further entries are NOOP.");
    }
    push(cx, b, line, Place::Stats, 2)
}

/// What the name begins with of a user list that stands for the accounts of pages. No section can have a name with a slash.
const ACCOUNTS: &str = "stats/";

/// The users that the accounts of a page are.
fn users(page: &StatsPage) -> Vec<User> {
    let users = page.accounts.iter().map(|(name, password)| User {
        name: Arc::clone(name),
        password: Password::Clear(Arc::clone(password)),
        groups: Vec::new(),
    });
    users.collect()
}

/// The user list with the accounts of a page.
fn accounts<'c>(config: &'c Config, page: &StatsPage) -> Option<&'c Userlist> {
    let users = users(page);
    let is_it = |list: &&Shared<Userlist>| list.name.starts_with(ACCOUNTS) && list.users == users;
    config.userlists.iter().find(is_it).map(|list| &**list)
}

/// Makes user lists of accounts, before names are looked up. Those of presets are there for backends that are added.
pub(crate) fn stats_accounts(cx: &mut Cx<'_>) {
    let proxies = cx.proxies.iter().map(|b| &b.p);
    let presets = cx.config.presets.iter().map(|section| &section.building.p);
    let pages: Vec<_> = proxies.chain(presets).filter_map(|p| p.stats.clone()).collect();
    for page in pages.iter().filter(|page| !page.accounts.is_empty()) {
        if accounts(&cx.config, page).is_none() {
            let name = format!("{ACCOUNTS}{}", cx.config.userlists.len()).into();
            let list = Userlist { name, users: users(page), groups: Vec::new() };
            cx.config.userlists.push(list.into());
        }
    }
}

/// Decides who may see the page, once all lines are read. To be called while the section's rules are drafts.
pub(crate) fn settle_stats(cx: &mut Cx<'_>, b: &mut Building) {
    let mut set = b.drafts.as_mut().map(|drafts| std::mem::take(&mut drafts.stats)).unwrap_or_default();
    let Some(page) = b.p.stats.clone() else { return };
    let say = |cx: &mut Cx<'_>, severity, message| {
        cx.diagnostics.push(Diagnostic::new(severity, Lead::Bare, Some(b.span), message));
    };
    if b.p.mode != Mode::Http && !crate::rules::becomes_http(cx, b) {
        let message = format!("'stats' statement ignored for {} as it requires HTTP mode.", b.title());
        say(cx, Severity::Warning, message);
        b.p.stats = None;
        return;
    }
    if !set.is_empty() && (!page.accounts.is_empty() || page.realm.is_some()) {
        let name = &b.p.name;
        let message = format!(
            "proxy '{name}': stats 'auth'/'realm' and 'http-request' can't be used at the same time."
        );
        say(cx, Severity::Alert, message);
        return;
    }
    if !page.accounts.is_empty() {
        set = accounts_rule(cx, b, &page);
    }
    resolve(cx, b, Kind::HttpRequest, &set);
    if let Some(page) = b.p.stats.as_mut() {
        Arc::make_mut(page).rules = Arc::new(set);
    }
}

/// Asks whoever is none of the accounts for a password.
fn accounts_rule(cx: &mut Cx<'_>, b: &mut Building, page: &StatsPage) -> Ruleset {
    let users = format!("http_auth({})", accounts(&cx.config, page).map_or(ACCOUNTS, |list| &list.name));
    let realm = page.realm.as_deref().unwrap_or(DEFAULT_REALM);
    let words = ["auth", "realm", realm, "unless", "{", &users, "}"];
    let mut set = Ruleset::new();
    let mut captures = CaptureSlots::default();
    let kind = Kind::HttpRequest;
    if let Err(e) = compile(cx, b, b.span, kind, &mut captures, |env| set.push(kind, &words, env)) {
        let message = format!("proxy '{}': {e}", b.p.name);
        cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(b.span), message));
    }
    set
}
