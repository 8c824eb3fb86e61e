//! `thalweg help`: what each keyword is, from the tables that the program reads files with; and the pages of
//! docs/reference, which are the same text.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use thalweg_cli::command::{self, Run};
use thalweg_config::{Form, Inside, Known, Support, all_keywords, inside_sections};
use thalweg_rules::{Kind, all_actions};
use thalweg_sample::pattern::Method;
use thalweg_sample::{acl, converter, fetch};
use thalweg_syntax::did_you_mean;

use super::{Call, Tool, unknown};
use crate::report::output;

pub const TOOL: Tool = Tool {
    name: "help",
    arguments: "[<keyword>... | --all]",
    text: "say what a keyword, fetch, converter, action or CLI command is",
    help: "\
Without a keyword it lists the kinds of things there are. '--all' prints everything, as docs/reference has it;
'--pages <directory>' writes those pages, '--man' prints the manual page (thalweg.8).
",
    run,
};

/// A thing with a name.
#[derive(Clone)]
struct Item {
    name: String,
    /// How it is written.
    usage: String,
    doc: String,
    /// Where it may stand, how it is written, what holds without it; or that it is refused and why.
    notes: Vec<String>,
    /// How it differs from HAProxy's, as docs/differences.md has it.
    differences: Vec<String>,
}

/// A page of the reference.
struct Page {
    /// Its file, without `.md`, and what `help` calls the kind.
    file: &'static str,
    title: String,
    /// What stands at its top.
    text: &'static str,
    items: Vec<Item>,
}

impl Page {
    /// It is about the keywords of one section that is no proxy.
    fn is_inside(&self) -> bool {
        inside_sections().any(|inside| inside.form.place == self.file)
    }
}

/// Where keywords of a table of the configuration belong: the table, the page, and how they are written.
const TABLES: [(&str, &str, &str, &str, &str); 6] = [
    ("section", "sections", "Sections", "What begins a section of a file.", ""),
    ("global", "global", "Keywords of global", "Settings of the whole process.", ""),
    (
        "proxy",
        "proxies",
        "Keywords of proxies",
        "What stands in `frontend`, `backend`, `listen` and `defaults`.",
        "",
    ),
    ("option", "options", "Options", "Behind `option` in a proxy, and behind `no option`.", "option "),
    ("bind", "bind", "Words of bind", "Behind the address of a `bind` line.", "bind <address> ... "),
    (
        "server",
        "server",
        "Words of server",
        "Behind the address of a `server` line, and behind `default-server`.",
        "server <name> <address> ... ",
    ),
];

fn pages() -> Vec<Page> {
    let mut pages: Vec<Page> = TABLES
        .iter()
        .map(|(place, file, title, text, prefix)| {
            let of_place = all_keywords().into_iter().filter(|keyword| keyword.place == *place);
            let items = of_place.map(|keyword| item_of(&keyword, prefix)).collect();
            Page { file, title: (*title).to_owned(), text, items }
        })
        .collect();
    pages.extend(pages_of_sections());
    let actions = all_actions().map(|action| {
        let places = Kind::ALL.iter().filter(|kind| action.rulesets.contains(**kind)).map(|kind| kind.name());
        let mut notes = vec![format!("In {}.", places.collect::<Vec<_>>().join(", "))];
        if action.experimental {
            notes.push("Experimental: 'expose-experimental-directives' must allow it.".into());
        }
        let usage = format!("{} {}", action.shown(), action.args).trim_end().to_owned();
        let doc =
            if action.is_supported() { sentence(action.doc) } else { "Refused: not supported yet.".into() };
        Item { name: action.name.to_owned(), usage, doc, notes, differences: Vec::new() }
    });
    let fetches = fetch::all().map(|fetch| Item {
        name: fetch.name.to_owned(),
        usage: format!("{}{} : {}", fetch.name, fetch.args.signature(), fetch.output.name()),
        doc: sentence(fetch.doc),
        notes: Vec::new(),
        differences: Vec::new(),
    });
    let converters = converter::all().map(|converter| Item {
        name: converter.name.to_owned(),
        usage: format!(
            "{}{} : {} => {}",
            converter.name,
            converter.args.signature(),
            converter.input.name(),
            converter.output.name()
        ),
        doc: sentence(converter.doc),
        notes: Vec::new(),
        differences: Vec::new(),
    });
    let commands =
        command::all().iter().filter(|command| !command.words.starts_with('_')).map(|command| Item {
            name: command.words.to_owned(),
            usage: format!("{} {}", command.words, command.arguments.trim()).trim_end().to_owned(),
            doc: sentence(command.text),
            notes: vec![match command.run {
                Run::Missing(what) => format!("Refused: {what}."),
                _ => format!("For level {} and above.", thalweg_cli::level_name(command.level)),
            }],
            differences: Vec::new(),
        });
    let rules =
        "Behind `http-request`, `http-response`, `http-after-response`, `tcp-request` and `tcp-response`.";
    let values =
        "In conditions, log formats and `%[...]`; behind a name stand its arguments and the type it gives.";
    let acls = "In `acl` lines and conditions, where all sample fetches may stand as well; and the ACLs that are there without a line.";
    let steps = "Behind a fetch, with commas between: arguments, and from which type to which.";
    let cli = "On a `stats socket`; docs/cli.md says more.";
    for (file, title, text, mut items) in [
        ("actions", "Actions of rules", rules, actions.collect::<Vec<_>>()),
        ("fetches", "Sample fetches", values, fetches.collect()),
        ("acls", "Keywords of ACLs", acls, criteria()),
        ("converters", "Converters", steps, converters.collect()),
        ("commands", "Commands of the CLI", cli, commands.collect()),
    ] {
        items.sort_by(|a, b| a.name.cmp(&b.name));
        pages.push(Page { file, title: title.to_owned(), text, items });
    }
    pages
}

/// Keywords that are a fetch with a way to compare, and ACLs that nobody has to write.
fn criteria() -> Vec<Item> {
    let item = |name: &str, doc: String| {
        let (name, usage) = (name.to_owned(), name.to_owned());
        Item { name, usage, doc, notes: Vec::new(), differences: Vec::new() }
    };
    // Others have an entry as fetches.
    let only_here = |keyword: &&acl::Keyword| fetch::all().all(|fetch| fetch.name != keyword.name);
    let keywords = acl::KEYWORDS.iter().filter(only_here).map(|keyword| {
        let compared = match keyword.method {
            Method::Beg => "begins with one of the patterns",
            Method::Dir => "has one of the patterns between slashes",
            Method::Dom => "has one of the patterns between dots",
            Method::End => "ends with one of the patterns",
            Method::Len => "is as long as one of the patterns says",
            Method::Reg => "matches one of the regular expressions",
            Method::Sub => "contains one of the patterns",
            _ => "is one of the patterns",
        };
        let method = match keyword.suffixed() {
            true => format!(" -m {}", keyword.method.name()),
            false => String::new(),
        };
        item(
            keyword.name,
            format!(
                "True when what '{}' gives {compared}: short for '{}{method}'.",
                keyword.fetch, keyword.fetch
            ),
        )
    });
    let known = acl::PREDEFINED
        .iter()
        .map(|(name, words)| item(name, format!("There without being declared: '{}'.", words.join(" "))));
    keywords.chain(known).collect()
}

/// A page for each section that is no proxy.
fn pages_of_sections() -> Vec<Page> {
    let sections = all_keywords().into_iter().filter(|keyword| keyword.place == "section");
    let pages = sections.map(|section| {
        let inside = inside_sections().filter(|inside| inside.form.place == section.name);
        let items = inside.map(|inside| item_inside(&inside)).collect();
        Page { file: section.name, title: format!("Keywords of {}", section.name), text: section.doc, items }
    });
    pages.filter(|page| !page.items.is_empty()).collect()
}

/// A keyword inside of a section.
fn item_inside(inside: &Inside) -> Item {
    let (name, usage) = (inside.form.name.to_owned(), inside.form.name.to_owned());
    Item { name, usage, doc: inside.doc.to_owned(), notes: notes_of(&[inside.form]), differences: Vec::new() }
}

/// A keyword of the configuration.
fn item_of(keyword: &Known, prefix: &str) -> Item {
    let (notes, differences) = match keyword.support {
        Support::Works => (notes(keyword), differences(keyword, prefix)),
        Support::NotYet(why) => (vec![format!("Refused: {why}.")], Vec::new()),
        Support::Removed(sentence) => (vec![format!("Removed: {sentence}")], Vec::new()),
    };
    let (name, usage) = (keyword.name.to_owned(), format!("{prefix}{}", keyword.name));
    Item { name, usage, doc: keyword.doc.to_owned(), notes, differences }
}

/// How a keyword is written, what holds without it, and whether HAProxy has it.
fn notes(keyword: &Known) -> Vec<String> {
    let of_keyword = |form: &Form| form.place == keyword.place && form.name == keyword.name;
    let mut notes = notes_of(&thalweg_config::forms().filter(of_keyword).collect::<Vec<_>>());
    let inside =
        inside_sections().filter(|inside| keyword.place == "section" && inside.form.place == keyword.name);
    let inside: Vec<&str> = inside.map(|inside| inside.form.name).collect();
    if !inside.is_empty() {
        notes.push(format!("Inside: {}.", inside.join(", ")));
    }
    notes
}

/// The same of all forms of a keyword.
fn notes_of(forms: &[Form]) -> Vec<String> {
    let written = forms.iter().filter(|form| !form.values.is_empty());
    let mut notes: Vec<String> =
        written.map(|form| format!("{WRITTEN}{} {}", form.name, form.values)).collect();
    let default = forms.iter().map(|form| form.default).find(|default| !default.is_empty());
    notes.extend(default.map(|default| format!("Default: {default}")));
    if forms.iter().any(|form| form.is_ours) {
        notes.push("Since: this program; HAProxy has no such keyword.".into());
    }
    notes
}

/// The points of docs/differences.md that have the name of a keyword between backquotes.
fn differences(keyword: &Known, prefix: &str) -> Vec<String> {
    let page = include_str!("../../../../docs/differences.md");
    // Words of `bind` and `server` are told from others of that name by what stands before them.
    let name = match keyword.place {
        "option" => format!("{prefix}{}", keyword.name),
        "bind" | "server" => format!("{} ... {}", keyword.place, keyword.name),
        _ => keyword.name.to_owned(),
    };
    let is_named = |point: &&str| {
        let spans = point.split('`').skip(1).step_by(2);
        spans.map(|span| span.replace('\n', " ")).any(|span| {
            span.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '=']))
        })
    };
    page.split("\n- ").skip(1).filter(is_named).map(on_one_line).collect()
}

/// The first paragraph of a point, without its marks.
fn on_one_line(point: &str) -> String {
    let paragraph = point.split("\n\n").next().unwrap_or_default();
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ").replace("**", "")
}

/// A text of a table with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let Some(first) = chars.next() else { return String::new() };
    let stop = if text.ends_with('.') { "" } else { "." };
    format!("{}{}{stop}", first.to_uppercase(), chars.as_str())
}

fn markdown(page: &Page) -> String {
    let mut out = format!(
        "# {}\n\n{}\n\nThis page is made from the tables of the program (`thalweg help` prints the same, and what \
         [differences.md](../differences.md) says of a keyword): do not edit it.\n",
        page.title, page.text
    );
    for item in &page.items {
        out.push_str(&format!("\n## `{}`\n", item.usage));
        for text in std::iter::once(&item.doc).chain(&item.notes) {
            out.push_str(&format!("\n{}\n", escaped(text)));
        }
    }
    out
}

/// Text whose signs mean nothing to Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '_' | '<' | '>' | '`' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Every page of docs/reference: its file and its text.
fn written() -> BTreeMap<String, String> {
    let pages = pages();
    let mut all = BTreeMap::new();
    let mut index = String::from(
        "# Reference\n\nWhat the language has, table by table. `thalweg help <keyword>` prints what stands here.\n\n",
    );
    for page in &pages {
        index.push_str(&format!("- [{}]({}.md): {}\n", page.title, page.file, page.text));
        all.insert(format!("{}.md", page.file), markdown(page));
    }
    all.insert("README.md".into(), index);
    all
}

/// The manual page, for man(1).
fn manual() -> String {
    // A point or a quote at the start of a line, backslashes and dashes mean something there.
    let roff = |text: &str| {
        text.replace('\\', "\\e").replace('-', "\\-").replace("\n.", "\n\\&.").replace("\n'", "\n\\&'")
    };
    let mut out = String::from(
        ".TH THALWEG 8\n.SH NAME\nthalweg \\- load balancer and reverse proxy that reads HAProxy's configuration\n\
         .SH SYNOPSIS\n.B thalweg\n\\-f <file|directory>... [options]\n.br\n.B thalweg\n<command> ...\n",
    );
    out.push_str(
        ".SH DESCRIPTION\nThalweg balances TCP and HTTP over servers. It takes the files, the command line and the signals \
         of HAProxy 3.5, writes its log lines, and answers with its exit codes. Under the name\n.B haproxy\nit introduces \
         itself as that.\n",
    );
    for (title, options) in crate::cli::HELP {
        out.push_str(&format!(".SH {}\n", title.to_uppercase()));
        for (option, what) in options {
            out.push_str(&format!(".TP\n.B {}\n{}\n", roff(option), roff(what)));
        }
    }
    out.push_str(".SH COMMANDS\n");
    for tool in super::TOOLS {
        let usage = format!("{} {}", tool.name, tool.arguments);
        out.push_str(&format!(
            ".SS {}\n{}.\n.PP\n.nf\n{}.fi\n",
            roff(&usage),
            roff(tool.text),
            roff(tool.help)
        ));
    }
    out.push_str(
        ".SH SIGNALS\n.TP\n.B SIGUSR1\nstop listening, finish what is in progress, leave\n.TP\n.B SIGTERM\nleave at once\n\
         .TP\n.B SIGUSR2\nto a master: reload\n.TP\n.B SIGTTOU, SIGTTIN\nlet go of the ports, and take them back\n\
         .TP\n.B SIGHUP\nlog the states of servers\n",
    );
    out.push_str(
        ".SH SEE ALSO\nThe documents that come with the program: README.md, docs/getting\\-started.md, docs/operations.md, \
         docs/reference.\n",
    );
    out
}

fn text(page: &Page, item: &Item) -> String {
    let mut out = format!("{}  ({})\n", item.usage, page.title.to_lowercase());
    let differences = item.differences.iter().map(|difference| format!("Differs: {difference}"));
    for line in std::iter::once(item.doc.clone()).chain(item.notes.iter().cloned()).chain(differences) {
        out.push_str(&format!("    {line}\n"));
    }
    out
}

fn run(call: &Call<'_>) -> Result<ExitCode, String> {
    let mut words = call.words();
    let mut wanted = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--all" => {
                written().into_values().for_each(|page| output(&page));
                return Ok(ExitCode::SUCCESS);
            }
            "--man" => {
                output(&manual());
                return Ok(ExitCode::SUCCESS);
            }
            "--pages" => {
                let directory = Path::new(words.value(word, "a directory")?);
                for (file, text) in written() {
                    std::fs::write(directory.join(&file), text)
                        .map_err(|e| format!("cannot write {file}: {e}"))?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            other if other.starts_with("--") => return unknown(other),
            word => wanted.push(word),
        }
    }
    let pages = pages();
    if wanted.is_empty() {
        for page in &pages {
            output(&format!("{:<12} {:>4}  {}\n", page.file, page.items.len(), page.text.replace('`', "'")));
        }
        output("\n'thalweg help <keyword>' says what one of them is.\n");
        return Ok(ExitCode::SUCCESS);
    }
    // `option httplog` and `timeout client` may be asked for as they are written.
    let name = wanted.join(" ");
    let short = name.strip_prefix("option ").unwrap_or(&name);
    let items = || pages.iter().flat_map(|page| page.items.iter().map(move |item| (page, item)));
    let mut found: Vec<_> = items().filter(|(_, item)| item.name == name || item.name == short).collect();
    if found.is_empty() {
        // Families: `timeout`, `tune.h2`, `show ssl`.
        let begins = |item: &Item| {
            let rest = item.name.strip_prefix(short);
            rest.is_some_and(|rest| rest.starts_with([' ', '.', '-', '_']))
        };
        found = items().filter(|(_, item)| begins(item)).collect();
    }
    if found.iter().all(|(page, _)| page.is_inside()) {
        found.extend(items_of_words(&pages, short));
    }
    if found.is_empty() {
        let near = did_you_mean(short, items().map(|(_, item)| item.name.as_str()));
        let hint = near.map_or(String::new(), |near| format!("; did you mean '{near}' maybe ?"));
        output(&format!("Nothing is called '{name}'{hint}\n"));
        return Ok(ExitCode::FAILURE);
    }
    let texts: Vec<String> = found.iter().map(|(page, item)| text(page, &item.about(short))).collect();
    output(&texts.join("\n"));
    Ok(ExitCode::SUCCESS)
}

/// Several words that have no entry of their own: an action with its ruleset (`http-request deny`), or a keyword that is written in
/// several ways (`timeout client`).
fn items_of_words<'a>(pages: &'a [Page], words: &str) -> Vec<(&'a Page, &'a Item)> {
    let items = || pages.iter().flat_map(|page| page.items.iter().map(move |item| (page, item)));
    let action = Kind::ALL.iter().find_map(|kind| words.strip_prefix(kind.name())?.strip_prefix(' '));
    if let Some(action) = action.and_then(|rest| rest.split(['(', ' ']).next()) {
        let found: Vec<_> =
            items().filter(|(page, item)| page.file == "actions" && item.name == action).collect();
        if !found.is_empty() {
            return found;
        }
    }
    let first = words.split(' ').next().unwrap_or(words);
    let of_first: Vec<_> = items().filter(|(page, item)| item.name == first && !page.is_inside()).collect();
    let written: Vec<_> = of_first.iter().copied().filter(|(_, item)| item.is_written(words)).collect();
    if written.is_empty() { of_first } else { written }
}

impl Item {
    /// One of its forms begins with these words.
    fn is_written(&self, words: &str) -> bool {
        self.notes.iter().any(|note| is_form(note, words))
    }

    /// The same, without the forms that do not begin with these words, and what differs of them, if some do.
    fn about(&self, words: &str) -> Item {
        let mut item = self.clone();
        if words.contains(' ') && self.is_written(words) {
            item.notes.retain(|note| !note.starts_with(WRITTEN) || is_form(note, words));
            item.differences.retain(|difference| difference.contains(&format!("`{words}")));
        }
        item
    }
}

/// How notes about forms begin.
const WRITTEN: &str = "Written: ";

/// Whether a note is about a form that begins with these words.
fn is_form(note: &str, words: &str) -> bool {
    let rest = note.strip_prefix(WRITTEN).and_then(|form| form.strip_prefix(words));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
