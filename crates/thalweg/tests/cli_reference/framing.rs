//! How lines, commands, words and payloads are cut out of what a client sends, and how sessions go on: byte for byte.

use super::pair::{CONFIGURATION, Pair};

/// What a client sends. Those that a program need not answer to the end are sent with a half-close only.
const EXCHANGES: &[&str] = &[
    "",
    "show cli level",
    "show cli level\n",
    "\n",
    "\n\n\n",
    " \n",
    ";\n",
    ";;\n",
    "show cli level;\n",
    ";show cli level\n",
    "show cli level;;echo x\n",
    "  show   cli  level \n",
    "echo a\tb\n",
    "echo a\\;b;echo c\n",
    "echo a\\ b\n",
    "echo a\\\\;echo b\n",
    "echo a\\\nb\n",
    "echo a\\\n\nb\n",
    "echo a\\",
    "echo \"a b\"\n",
    "echo # x\n",
    "echo a;echo b\necho c\n",
    "quit\n",
    "quit x\n",
    "quit;echo x\n",
    "echo x;quit;echo y\n",
    "prompt\nshow cli level\nquit\n",
    "prompt\n\n\nquit\n",
    "prompt\nshow cli level\n",
    "prompt i\nshow cli level\n\necho x\nquit\n",
    "prompt i\nshow cli level",
    "prompt i\necho a;quit\necho b\n",
    "prompt n\necho x\n",
    "prompt p\nprompt n\necho x\n",
    "prompt p\nset severity-output number\nshow cli level\nget weight x\nquit\n",
    "prompt;show cli level\necho x\nquit\n",
    "prompt\nprompt\necho x\n",
    "prompt i timed\necho x\nquit\n",
    "prompt p\nexpert-mode on\nexperimental-mode on\nexpert-mode off\nquit\n",
    "operator;prompt\nshow env HOME\nuser\nshow env HOME\nquit\n",
    "add map #0 <<\na b\nc d\n\n",
    "add map #0 <<X\ng h\nX\n",
    "add map #0 << X\ng h\nX\n",
    "add map #0 <<X Y\ng h\nX Y\n",
    "add map #0<<\ni j\n\n",
    "add map #0 <<\nm n\n",
    "add map #0 <<",
    "add map #0 <<\n# x\ns t\nu\n\n",
    "add map #0 <<E\nv w\nE\n",
    "add map #0 <<\\E\nx y\n\\E\n",
    "add map #0 <<;echo b\no p\n\n",
    "echo a;add map #0 <<\no p\n\n",
    "prompt i\nadd map #0 <<\nk l\n\necho x\nquit\n",
    "prompt\nadd map #0 <<\nk l\n\necho x\nquit\n",
    "prompt i\necho <<E\nfoo\nE\necho y\nquit\n",
    "echo <<\nfoo\n\n",
    "echo <<<\nx\n<\n",
    "echo a <<\nfoo\n\n",
    "echo a<<b\n",
    "show cli level <<\nfoo\n\n",
    "show map #0\n",
    "set timeout cli 1s\n",
];

#[test]
fn what_a_client_sends_is_cut_as_in_the_reference() {
    let Some(pair) = Pair::start(CONFIGURATION) else { return };
    let words = |count: usize| format!("echo{}\n", " x".repeat(count));
    let long = |len: usize| format!("echo {}\n", "x".repeat(len));
    let generated = [
        words(61),
        words(62),
        words(63),
        words(64),
        words(65),
        long(1000),
        long(16_000),
        long(20_000),
        "x".repeat(40_000),
        format!("{}\n", "echo a;".repeat(200)),
        format!("prompt i\n{}quit\n", "echo a\n".repeat(500)),
        format!("add map #0 <<\n{}\n", "aaa bbb\n".repeat(1000)),
        format!("add map #0 <<\n{}\n", "aaa bbb\n".repeat(30_000)),
        format!("add map #0 <<{}\nq r\n\n", "Z".repeat(70)),
    ];
    let mut found = Vec::new();
    for sent in EXCHANGES.iter().map(|text| (*text).to_owned()).chain(generated) {
        // References to entries of maps are addresses there.
        let masked = |text: String| {
            let line = |line: &str| match line.split_once(' ') {
                Some((first, rest)) if first.starts_with("0x") => format!("<reference> {rest}"),
                _ => line.to_owned(),
            };
            // Who says too much is cut off there in the middle of it.
            let text = text.replace("<ConnectionReset>", "");
            text.split('\n').map(line).collect::<Vec<_>>().join("\n")
        };
        let ours = masked(pair.ours.exchange("admin", sent.as_bytes(), true));
        let theirs = masked(pair.theirs.exchange("admin", sent.as_bytes(), true));
        if ours != theirs {
            found.push(format!(
                "{:.80?} ({} bytes)\n  ours   {ours:.300?}\n  theirs {theirs:.300?}",
                sent,
                sent.len()
            ));
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_session_ends_without_being_told_that_there_is_no_more() {
    let Some(pair) = Pair::start(CONFIGURATION) else { return };
    for sent in [
        "show cli level\n",
        "\n",
        "echo a;echo b\necho c\n",
        "quit\n",
        "prompt\necho x\nquit\n",
        "prompt i\necho x\nquit\n",
        "add map #0 <<\na b\n\n",
        "foo;quit\n",
    ] {
        let ours = pair.ours.exchange("admin", sent.as_bytes(), false);
        let theirs = pair.theirs.exchange("admin", sent.as_bytes(), false);
        // Suggestions are our own.
        let beginning = |text: &str| text.lines().next().unwrap_or("").to_owned();
        if sent.starts_with("foo") {
            assert_eq!(beginning(&ours), beginning(&theirs), "{sent:?}");
        } else {
            assert_eq!(ours, theirs, "{sent:?}");
        }
    }
}
