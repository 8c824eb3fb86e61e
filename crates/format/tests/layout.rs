//! What a laid out file looks like, and that it means what it meant.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use thalweg_format::format;
use thalweg_syntax::{Diagnostics, Environment, Facts, Reader, SourceMap};

fn formatted(text: &str) -> String {
    String::from_utf8(format(text.as_bytes())).unwrap()
}

/// The words of every line that counts, and how many complaints there were.
fn meaning(text: &[u8]) -> (Vec<Vec<Vec<u8>>>, usize) {
    let mut sources = SourceMap::new();
    let file = sources.add("x", text.to_vec());
    let mut diagnostics = Diagnostics::new();
    let mut environment = Environment::empty();
    environment.set("LIST", "a b");
    let mut reader = Reader::new(Facts::default(), environment);
    reader.start_file(file);
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line(&sources, &mut diagnostics) {
        lines.push(line.words.iter().map(|word| word.bytes().to_vec()).collect());
    }
    (lines, diagnostics.error_count())
}

#[test]
fn a_file_gets_its_layout() {
    let text = "\n\n# top\nglobal\n\tmaxconn\t100   # enough\r\n# about daemon\ndaemon\n\n\n\n #left over\n\n# the site\n# and more\nlisten a   # x\n\
        bind   :80\n.if defined(A)\nserver s\t1.1.1.1:80 cookie \"a  b\"\n  # inside\n.else\n.if 1\nno  log\n.endif\n.endif\n# end\n\n#----\n# next\n#----\n\n\
        frontend b\n# why\n.if 1\nbackend c\n mode tcp\n.endif\nacl x path a\\\tb";
    let expected = "# top
global
    maxconn 100  # enough
    # about daemon
    daemon

    #left over

# the site
# and more
listen a  # x
    bind :80
    .if defined(A)
        server s 1.1.1.1:80 cookie \"a  b\"
        # inside
    .else
        .if 1
            no log
        .endif
    .endif
# end

#----
# next
#----

frontend b

# why
.if 1

backend c
    mode tcp
.endif
    acl x path a\\\tb
";
    let once = formatted(text);
    assert_eq!(once, expected, "\n{once}");
    assert_eq!(formatted(&once), once);
}

#[test]
fn an_empty_file_stays_empty() {
    assert_eq!(formatted(""), "");
    assert_eq!(formatted("\n \n\t\n"), "");
    assert_eq!(formatted("global"), "global\n");
}

/// Every configuration in the repository.
fn configurations(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != ".git" {
            configurations(&path, found);
        } else if path.extension().is_some_and(|e| e == "cfg") {
            found.push(path);
        }
    }
}

#[test]
fn the_configurations_here_keep_their_meaning() {
    let mut found = Vec::new();
    configurations(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut found);
    assert!(found.len() > 45, "{found:?}");
    for path in found {
        let text = std::fs::read(&path).unwrap();
        let once = format(&text);
        // A missing line feed at the end is the one complaint that goes.
        let complaints = |text: &[u8]| meaning(text).1 - usize::from(!text.ends_with(b"\n"));
        assert_eq!(meaning(&text).0, meaning(&once).0, "{}", path.display());
        assert_eq!(complaints(&text), complaints(&once), "{}", path.display());
        assert_eq!(format(&once), once, "{}", path.display());
        if path.parent().is_some_and(|parent| parent.ends_with("examples")) {
            assert!(once == text, "{} is not in the canonical layout: thalweg fmt -i", path.display());
        }
    }
}

fn piece() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "global",
        "listen",
        "frontend",
        "a",
        "bind",
        "\"x  y\"",
        "'x'",
        "\\ ",
        "\\",
        "#",
        "# c",
        "\t",
        "  ",
        "\n",
        "\n",
        "\n\n",
        "\r\n",
        ".if 1",
        ".if 0",
        ".else",
        ".elif 1",
        ".endif",
        "\"",
        "\"${LIST[*]}\"",
        "\"$LIST\"",
        "\\#",
        "é",
        "\\x41",
        "\r",
        "peers",
        "\"\"",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    /// The words that are read are the same, and a second time changes nothing.
    #[test]
    fn nothing_but_blanks_changes(pieces in prop::collection::vec((piece(), any::<bool>()), 0..40)) {
        let mut text: String =
            pieces.iter().map(|(p, blank)| format!("{p}{}", if *blank { " " } else { "" })).collect();
        // What has no line feed at its end is refused; it gets one.
        text.push('\n');
        let once = format(text.as_bytes());
        prop_assert_eq!(meaning(text.as_bytes()), meaning(&once), "{}", String::from_utf8_lossy(&once));
        let twice = format(&once);
        prop_assert_eq!(String::from_utf8_lossy(&twice), String::from_utf8_lossy(&once));
        let comments = |text: &str| text.matches('#').count();
        prop_assert_eq!(comments(&text), comments(&String::from_utf8_lossy(&once)));
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let once = format(&bytes);
        prop_assert_eq!(format(&once), once);
    }
}

/// Time goes with the size of a file, however deep its blocks and long its comments are. It took minutes.
#[test]
fn large_files_take_no_longer_for_each_line() {
    const MANY: usize = 20_000;
    let began = std::time::Instant::now();
    let (deep, long) = (".if 1\n".repeat(MANY), "# a\n".repeat(MANY));
    let text = formatted(&format!("{deep}global\n{}{long}", ".endif\n".repeat(MANY)));
    assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 3 * MANY + 1);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}
