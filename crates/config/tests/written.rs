//! What a configuration says can be written down again from what was kept of its texts, and means the same.

#[path = "common/cases.rs"]
mod cases;
mod common;

use cases::CASES;
use common::{load_text, rendered};
use thalweg_config::written::{CountingLine, Edits, Place, Words, words};
use thalweg_config::{Config, compare};

fn normalised(config: &Config) -> String {
    let lines = config.written().in_one_file(config.written().lines());
    lines.iter().map(|line| line.text() + "\n").collect()
}

fn said(config: &Config) -> Vec<Words> {
    config.written().lines().into_iter().map(|line| line.words).collect()
}

/// What is to be the same of two configurations, wherever their lines are.
fn model(config: &Config) -> String {
    let places = |text: String| {
        let mut lines =
            text.lines().filter(|line| !line.trim_start().starts_with("line: ")).collect::<Vec<_>>();
        lines.dedup();
        lines.join("\n")
    };
    let servers = config.proxies.iter().flat_map(|proxy| &proxy.servers);
    let servers = servers.map(|server| places(format!("{:#?}", **server))).collect::<String>();
    let proxies = config.proxies.iter().map(|proxy| {
        format!(
            "{} {:?} {} {:?} {:?} {:?}",
            proxy.name, proxy.kind, proxy.uid, proxy.opts, proxy.timeouts, proxy.balance
        )
    });
    format!("{:#?}\n{}\n{servers}", *config.global, proxies.collect::<Vec<_>>().join("\n"))
}

/// Writes a configuration down and reads that; false when the text is none.
fn comes_back(text: &str) -> bool {
    let Some(first) = load_text(text).config else { return false };
    let written = normalised(&first);
    let again = load_text(&written);
    let Some(second) = &again.config else {
        panic!("not accepted again:\n{text}\n---\n{written}\n---\n{}", rendered(&again));
    };
    assert_eq!(normalised(second), written, "{text}");
    let mut differs = compare(&first, second);
    // It says in words what follows from the name of the file.
    differs.changes.retain(|change| change.what != "global default-path");
    assert!(differs.is_empty(), "{text}\n---\n{written}\n{differs:?}");
    assert_eq!(model(&first), model(second), "{text}\n---\n{written}");
    true
}

#[test]
fn every_keyword_comes_back() {
    let mut read = 0;
    for cases in CASES {
        let mut head = String::new();
        for line in cases.lines() {
            let line = line.replace("\\n", "\n");
            match line.strip_prefix("@head ") {
                Some(text) => head = format!("{text}\n"),
                None => read += usize::from(comes_back(&format!("{head} {line}\n"))),
            }
        }
    }
    assert!(read > 700, "only {read} cases are configurations");
}

#[test]
fn whatever_words_are_they_come_back() {
    // Blanks, quotes, escapes, bytes that are not UTF-8, line ends, variables of several words, branches not taken.
    let text = "global\n setenv A \"x  y\" # no\n setenv B b\\ c\n description \"$A'\\\"\\xff\\n\\t#\\\\\" \n\
        .if defined(A)\n node here\n.else\n node there\n.endif\n\
        defaults d\n mode http\n timeout client \"${T-5s}\"\n\
        frontend f from d\n bind :1\n http-request set-header x 'a \"b\" %[req.hdr(x),concat(\" \\, \")]' if { path '/#' }\n \
        http-request set-header \"${A[*]}\" if TRUE\n acl e path é \\\\d\\x80\n";
    let loaded = load_text(text);
    let config = loaded.config.as_ref().unwrap_or_else(|| panic!("{}", rendered(&loaded)));
    assert!(comes_back(text));
    let shown = normalised(config);
    assert!(shown.contains("\n    description x\\ \\ y\\'\\\"\\xff\\n\\t\\#\\\\\n"), "{shown}");
    assert!(shown.contains("\n    node here\n") && !shown.contains("there"), "{shown}");
    assert!(shown.contains("\n    http-request set-header x y if TRUE\n"), "{shown}");
    assert!(!shown.contains('$'), "{shown}");
}

#[test]
fn names_of_files_do_not_depend_on_where_the_lines_are() {
    let text = "global\n default-path config\nfrontend f\n bind :1\n mode http\n errorfile 400 page.http\n";
    let config = load_text(text).config.expect("a configuration");
    assert!(normalised(&config).contains("default-path current\n"), "{}", normalised(&config));
    assert!(comes_back(text));
}

const EDITED: &str = "# the whole\nglobal\n  maxconn 100   # many\n\n# what is served\nbackend a   # first\n\tmode http\n\tserver s1  192.0.2.1:80 weight \"1\"  # one\n\
                      \t.if defined(NOTHING)\n\tserver s9 192.0.2.9:80\n\t.else\n\tserver s2 192.0.2.2:80\n\t.endif\n\n# the other\nbackend b\n    server t 192.0.2.3:80\n";

fn edited(text: &str, edit: impl FnOnce(&mut Edits, &[CountingLine])) -> Result<String, String> {
    let config = load_text(text).config.expect("a configuration");
    let (written, mut edits) = (config.written(), Edits::default());
    let lines = written.lines();
    edit(&mut edits, &lines);
    let mut texts = edits.texts(written, &lines)?;
    let text = String::from_utf8(texts.remove(0)).expect("text");
    let again = load_text(&text);
    let config = again.config.as_ref().unwrap_or_else(|| panic!("{text}\n{}", rendered(&again)));
    assert_eq!(
        said(config),
        edits.lines(&lines).into_iter().map(|line| line.words).collect::<Vec<_>>(),
        "{text}"
    );
    Ok(text)
}

fn split(text: &str) -> Words {
    words(text.split(' '))
}

fn at(line: u32) -> Place {
    Place { text: 0, line }
}

#[test]
fn edits_leave_everything_else_as_it_is() {
    let text = edited(EDITED, |edits, _| {
        edits.replace(at(3), vec![split("maxconn 7")]);
        edits.replace(at(8), vec![split("server s1 192.0.2.1:80 weight 5 disabled")]);
        edits.append(at(6), vec![split("server s3 192.0.2.4:80")]);
        edits.append(at(16), vec![words(["description", "a b"])]);
        edits.end_with(vec![split("backend c"), split("mode tcp")]);
    });
    let expected = EDITED
        .replace("maxconn 100", "maxconn 7")
        .replace("weight \"1\"", "weight 5 disabled")
        .replace("\t.endif\n", "\t.endif\n\tserver s3 192.0.2.4:80\n")
        + "    description 'a b'\n\nbackend c\n    mode tcp\n";
    assert_eq!(text.as_deref(), Ok(&*expected));
    // Nothing at all.
    assert_eq!(edited(EDITED, |_, _| ()).as_deref(), Ok(EDITED));
    // The end of lines is the file's.
    let dos = EDITED.replace('\n', "\r\n");
    let text = edited(&dos, |edits, _| edits.append(at(16), vec![split("description x")])).expect("a text");
    assert!(text.ends_with("192.0.2.3:80\r\n    description x\r\n"), "{text:?}");
}

#[test]
fn lines_and_sections_go() {
    let text = edited(EDITED, |edits, _| {
        edits.replace(at(8), Vec::new());
        edits.remove(at(16));
    });
    let expected = EDITED
        .replace("\tserver s1  192.0.2.1:80 weight \"1\"  # one\n", "\t# one\n")
        .replace("backend b\n    server t 192.0.2.3:80\n", "");
    assert_eq!(text.as_deref(), Ok(&*expected));
}

#[test]
fn what_the_lines_around_would_spoil_is_refused() {
    let why = edited(EDITED, |edits, _| edits.remove(at(6))).expect_err("'.if' is in it");
    assert!(why.contains("'.if'"), "{why}");
    // The line would be in a branch that is not taken.
    let text = "global\n.if defined(NOTHING)\n.endif\nbackend a\n server s :1\n.if defined(NOTHING)\n.else\nbackend b\n server t :1\n.endif\n";
    let text = edited(text, |edits, _| edits.append(at(8), vec![split("server u :2")]));
    assert_eq!(text.map(|text| text.contains("server t :1\n server u :2\n.endif")), Ok(true));
}

#[test]
fn a_first_line_of_global_gets_a_section() {
    let text =
        edited("# x\nbackend a\n server s :1\n", |edits, _| edits.begin_with_global(split("maxconn 5")));
    assert_eq!(text.as_deref(), Ok("global\n    maxconn 5\n\n# x\nbackend a\n server s :1\n"));
}

/// The files that come with the program.
#[test]
fn examples_come_back() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = ["examples", "packaging", "bench"].map(|directory| root.join(directory));
    let files = files.iter().flat_map(|directory| std::fs::read_dir(directory).expect("a directory"));
    let files = files.map(|entry| entry.expect("an entry").path());
    let mut names = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "cfg")) {
        if comes_back(&std::fs::read_to_string(&path).expect("text")) {
            names.push(path);
        }
    }
    assert!(names.len() >= 8, "only these are configurations: {names:?}");
}
