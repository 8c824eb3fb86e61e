//! `thalweg fmt` from the command line. What it does to text is tested beside the crate.

mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};

use support::{Directory, program};

fn fmt(arguments: &[&str]) -> Output {
    program().arg("fmt").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn files_are_printed_checked_or_changed() {
    let directory = Directory::new();
    let path = directory.0.join("a.cfg");
    let link = directory.0.join("link.cfg");
    let file = link.to_str().unwrap();
    fs::write(&path, "global\n    maxconn 1\n  daemon\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let new = "global\n    maxconn 1\n    daemon\n";

    assert_eq!(text(&fmt(&["-f", file]).stdout), new);
    let checked = fmt(&["--check", file]);
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(text(&checked.stderr), format!("{file}:3: is not in the layout of 'thalweg fmt'\n"));
    assert!(fmt(&["-i", file]).status.success());
    assert_eq!(fs::read_to_string(&path).unwrap(), new);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fmt(&["--check", file]).status.success());
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 2);

    assert_eq!(fmt(&[]).status.code(), Some(2));
    assert_eq!(fmt(&["-x", file]).status.code(), Some(2));
    assert_eq!(fmt(&["-i", "/nowhere/a.cfg"]).status.code(), Some(2));
}

#[test]
fn the_standard_input_is_a_file_too() {
    let mut child =
        program().args(["fmt", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"listen a\n bind :80").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "listen a\n    bind :80\n");
}

#[test]
fn a_file_that_is_no_text_is_left_alone() {
    let directory = Directory::new();
    let path = directory.0.join("program");
    let file = path.to_str().unwrap();
    fs::write(&path, b"#!\n \0  global\n").unwrap();
    for arguments in [["fmt", "-i"], ["fmt", "-f"], ["upgrade", "-f"]] {
        let output = program().args(arguments).arg(file).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(said.contains(&format!("{file} is no text file: line 2 has a NUL byte\n")), "{said}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"#!\n \0  global\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = Directory::new();
    let path = directory.0.join("a.cfg");
    // More than a pipe holds.
    fs::write(&path, "# comment\n".repeat(20_000)).unwrap();
    for arguments in [["fmt", "-f"], ["upgrade", "-f"]] {
        let mut command = program();
        command.args(arguments).arg(&path).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
    }
}
