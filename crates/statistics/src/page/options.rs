//! What a request for the page asks for: what follows the page's URI.

use thalweg_config::model::StatsPage;

use crate::format::whole_number;
use crate::report::Filter;

/// Longest text that is looked for in names.
const PART_MAX: usize = 20;

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// The page, for people.
    Page,
    /// `;csv`
    Csv,
    /// `;json`
    Json,
    /// `;typed`
    Typed,
    /// `;json-schema`
    Schema,
    /// `;live`, `;live=past`: what the page's script asks for. Ours.
    Live,
    /// `;row=<proxy>.<kind>.<number>`: all that is known of one row. Ours.
    Row(RowId),
}

/// How a row is called: the number of its proxy, its kind, and its own number.
pub type RowId = (u32, u32, u32);

/// What became of a change that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// All of it was done.
    Done,
    /// There was nothing to do.
    None,
    /// Some servers were changed.
    Part,
    /// What was asked for cannot be understood.
    Errp,
    /// It was too long.
    Excd,
    /// Not allowed.
    Deny,
    /// It was no change at all.
    Unkn,
}

impl Code {
    const ALL: [(Code, &'static str, &'static str); 7] = [
        (Code::Done, "DONE", "Done."),
        (Code::None, "NONE", "Nothing had to be changed."),
        (Code::Part, "PART", "Some of the servers were changed, the others were not found."),
        (Code::Errp, "ERRP", "This change could not be understood, and nothing was changed."),
        (Code::Excd, "EXCD", "That is too much at once: choose fewer servers. Nothing was changed."),
        (Code::Deny, "DENY", "You may not do that here, and nothing was changed."),
        (Code::Unkn, "UNKN", "Something unexpected happened."),
    ];

    /// As the reference calls it in `st=`.
    pub fn name(self) -> &'static str {
        Code::ALL[self as usize].1
    }

    /// What it says to people.
    pub fn text(self) -> &'static str {
        Code::ALL[self as usize].2
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// In which form.
    pub view: View,
    /// `;up`: no servers that are down.
    pub up: bool,
    /// `;no-maint`: no servers in maintenance.
    pub no_maint: bool,
    /// `;norefresh`: the page is not loaded again by itself.
    pub norefresh: bool,
    /// `scope=`: only proxies with this in their name.
    pub part: String,
    /// `;st=`: what became of the change before.
    pub code: Option<Code>,
    /// `;live=past`: also what the curves show of the time before.
    pub past: bool,
}

impl Options {
    /// Reads what follows the URI.
    pub fn of(rest: &[u8]) -> Options {
        let rest = String::from_utf8_lossy(rest);
        let has = |word: &str| rest.contains(word);
        let view = [(";json-schema", View::Schema), (";json", View::Json), (";typed", View::Typed)]
            .into_iter()
            .chain([(";csv", View::Csv), (";live", View::Live)])
            .find(|(word, _)| has(word))
            .map_or(View::Page, |(_, view)| view);
        let view = value(&rest, ";row=").and_then(row_id).map_or(view, View::Row);
        let code = value(&rest, ";st=")
            .and_then(|name| Code::ALL.iter().find(|(_, known, _)| *known == name).map(|(code, ..)| *code));
        Options {
            view,
            up: has(";up"),
            no_maint: has(";no-maint"),
            norefresh: has(";norefresh"),
            part: value(&rest, "scope=").and_then(part).unwrap_or_default(),
            code,
            past: has(";live=past"),
        }
    }

    /// The rows that are wanted of a page of this proxy.
    pub fn filter(&self, proxy: &str, page: &StatsPage) -> Filter {
        let name = |name: &std::sync::Arc<str>| {
            if **name == *"." { proxy.into() } else { std::sync::Arc::clone(name) }
        };
        Filter {
            up: self.up,
            no_maint: self.no_maint,
            names: page.scope.iter().map(name).collect(),
            part: self.part.clone(),
            ..Filter::default()
        }
    }

    /// What follows the URI of a page with these options, beside `more`.
    pub fn suffix(&self, page: &StatsPage, more: &str) -> String {
        let mut text = more.to_owned();
        if self.up {
            text.push_str(";up");
        }
        if self.norefresh && page.refresh_s != 0 {
            text.push_str(";norefresh");
        }
        if !self.part.is_empty() {
            text.push_str("?scope=");
            text.push_str(&self.part);
        }
        text
    }
}

/// What follows `key`, up to the next separator.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(key)?;
    after.split([';', '&']).next()
}

/// Text of which names may consist; anything else is not looked for at all.
fn part(text: &str) -> Option<String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':');
    let text = &text.as_bytes()[..text.len().min(PART_MAX)];
    text.iter().all(|b| legal(*b)).then(|| text.iter().map(|b| char::from(*b)).collect())
}

/// The numbers of a row, as they stand behind `;row=`.
pub fn write_row_id(out: &mut String, (proxy, kind, number): RowId) {
    for (at, n) in [proxy, kind, number].into_iter().enumerate() {
        if at > 0 {
            out.push('.');
        }
        whole_number(out, u64::from(n));
    }
}

fn row_id(text: &str) -> Option<RowId> {
    let mut numbers = text.split('.').map(str::parse);
    match (numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()) {
        (Ok(proxy), Ok(kind), Ok(number), None) => Some((proxy, kind, number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_say_what_is_wanted() {
        let view = |text: &str| Options::of(text.as_bytes()).view;
        assert_eq!(view(""), View::Page);
        assert_eq!(view("?x;csv;norefresh"), View::Csv);
        assert_eq!(view(";csvx"), View::Csv);
        assert_eq!(view("/foo;xcsv"), View::Page);
        assert_eq!(view(";json-schema"), View::Schema);
        assert_eq!((view(";live=past"), Options::of(b";live=past;up").past), (View::Live, true));
        assert_eq!((view(";live;up"), Options::of(b";live;up").past), (View::Live, false));
        assert_eq!(view(";row=2.1.0"), View::Row((2, 1, 0)));
        assert_eq!(view(";row=2.1"), View::Page);
        assert_eq!(view(";row=2.1.99999999999"), View::Page);
        let part = |text: &str| Options::of(text.as_bytes()).part;
        assert_eq!(part("?scope=be&x"), "be");
        assert_eq!(part(";scope=b%65"), "");
        assert_eq!(part(";scope=<b>"), "");
        assert_eq!(part(";scope=aaaaaaaaaabbbbbbbbbbc"), "aaaaaaaaaabbbbbbbbbb");
        // A cut in the middle of a character must not panic.
        assert_eq!(part(";scope=aaaaaaaaaabbbbbbbbb\u{e9}"), "");
        assert_eq!(Options::of(b";st=PART").code, Some(Code::Part));
        assert_eq!(Options::of(b";st=part").code, None);
    }

    #[test]
    fn redirects_keep_what_was_chosen() {
        let mut page = StatsPage::default();
        let options = Options::of(b";up;norefresh;no-maint;csv;st=NONE?scope=a");
        assert_eq!(options.suffix(&page, ";st=DONE"), ";st=DONE;up?scope=a");
        page.refresh_s = 5;
        assert_eq!(options.suffix(&page, ";st=DONE"), ";st=DONE;up;norefresh?scope=a");
    }

    #[test]
    fn codes_are_in_order() {
        for (at, (code, ..)) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, at);
        }
    }
}
