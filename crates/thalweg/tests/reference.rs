//! `thalweg help`, and docs/reference and the manual page, which are the same text.
//!
//! `UPDATE_DOCS=1 cargo test -p thalweg --test reference` writes the pages.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use support::{Directory, program};

fn help(arguments: &[&str]) -> (String, bool) {
    let output = program().arg("help").args(arguments).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.success())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeMap::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

#[test]
fn the_pages_are_up_to_date() {
    let directory = Directory::new();
    assert!(help(&["--pages", directory.0.to_str().unwrap()]).1);
    let made: BTreeMap<_, _> =
        files(&directory.0).into_iter().filter(|(name, _)| name.ends_with(".md")).collect();
    let (manual, _) = help(&["--man"]);
    let reference = docs().join("reference");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(&reference).unwrap();
        made.iter().for_each(|(name, text)| fs::write(reference.join(name), text).unwrap());
        fs::write(docs().join("thalweg.8"), manual).unwrap();
        return;
    }
    let written = files(&reference);
    assert!(made.keys().eq(written.keys()), "{:?}", written.keys());
    for (name, text) in &made {
        let differs = text.lines().zip(written[name].lines()).find(|(new, old)| new != old);
        assert!(
            *text == written[name],
            "docs/reference/{name} is not up to date (UPDATE_DOCS=1): {differs:?}"
        );
    }
    let written = fs::read_to_string(docs().join("thalweg.8")).unwrap();
    assert!(manual == written, "docs/thalweg.8 is not up to date (UPDATE_DOCS=1)");
}

#[test]
fn every_keyword_is_explained() {
    let (text, ok) = help(&["maxconn"]);
    assert!(ok);
    for place in ["(keywords of global)", "(keywords of proxies)", "(words of bind)", "(words of server)"] {
        assert!(text.contains(&format!("maxconn  {place}")), "{text}");
    }
    for (words, expected) in [
        (&["option", "httplog"][..], "option httplog  (options)\n"),
        (&["path"], "path : str  (sample fetches)\n"),
        (&["lower"], "lower : str => str  (converters)\n"),
        (&["set-header"], "In http-request, http-response, http-after-response.\n"),
        (&["show", "stat"], "(commands of the cli)\n"),
        (&["path_beg"], "begins with one of the patterns: short for 'path -m beg'.\n"),
        (&["METH_GET"], "There without being declared: 'method GET HEAD'.\n"),
        (&["http-request", "deny"], "    In http-request, http-response.\n"),
        (&["reqadd"], "    Removed: "),
        (&["timeout", "client"], "timeout  (keywords of proxies)\n"),
        (&["frontend"], "frontend  (sections)\n"),
        (&["traces"], "    Inside: trace.\n"),
        (&["hold", "nx"], "hold nx  (keywords of resolvers)\n"),
        (&["hold"], "    Written: hold valid <time>\n    Default: 10s\n"),
        (&["dgram-bind"], "dgram-bind  (keywords of log-forward)\n"),
        (
            &["client-context"],
            "    Default: continue\n    Since: this program; HAProxy has no such keyword.\n",
        ),
        (&["tune.bufsize"], "    Written: tune.bufsize <size>\n    Default: 16384\n    Differs: "),
        (&["crt-watch"], "    Since: this program; HAProxy has no such keyword.\n"),
        (&["option", "checkcache"], "    Default: off\n    Differs: `option checkcache` blocks "),
    ] {
        let (text, ok) = help(words);
        assert!(ok && text.contains(expected), "{words:?}: {text}");
    }
    // Of a keyword that is written in several ways, what was asked for, and no other keyword of that name.
    let (text, _) = help(&["stats", "uri"]);
    assert_eq!(text.matches("Written: ").count(), 1, "{text}");
    assert!(text.starts_with("stats  (keywords of proxies)\n"), "{text}");
    assert_eq!(
        help(&["maxcnn"]),
        ("Nothing is called 'maxcnn'; did you mean 'maxconn' maybe ?\n".into(), false)
    );
    assert!(help(&[]).0.contains("fetches"));
}

/// `thalweg top` reads the CLI of a process, this program's or HAProxy's.
#[test]
fn top_shows_a_running_process() {
    let own = support::Setup::http(
        "frontend www\nbind <@fe>\nhttp-request return status 200\nbackend b\nserver s <@s>\n",
    );
    let own = own.global("stats socket <@dir>/top mode 600 level user");
    let mut proxies = vec![own.start("epoll")];
    if let Some(reference) = support::reference() {
        proxies.push(own.program(&reference).start("epoll"));
    }
    for proxy in &proxies {
        let output = program().args(["top", "--once", "-s"]).arg(proxy.path("top")).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        for line in ["www                  FRONTEND         OPEN", "b                    s                "] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
    let output = program().args(["top", "--once", "/nowhere/socket"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
