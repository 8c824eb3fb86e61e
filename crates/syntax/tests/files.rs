//! Which files `-f` reads.

use std::io;

use thalweg_syntax::source::expand_paths;
use thalweg_syntax::{DiskLoader, Loader, SourceMap};

/// A file system that never touches the disk.
struct Table;

impl Loader for Table {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match path {
            "a.cfg" => Ok(b"global\n".to_vec()),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn is_dir(&self, path: &str) -> io::Result<bool> {
        match path {
            "a.cfg" => Ok(false),
            "dir" | "empty" => Ok(true),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let names: &[&str] = match directory {
            "dir" => &["b.cfg", "B.cfg", ".hidden.cfg", "10.cfg", "9.cfg", "a.txt", "cfg", "é.cfg"],
            _ => &[],
        };
        Ok(names.iter().map(|name| name.to_string()).collect())
    }
}

#[test]
fn directories_give_their_cfg_files_in_byte_order() {
    let expand = |paths: &[&str]| {
        expand_paths(&Table, &paths.iter().map(|p| p.to_string()).collect::<Vec<_>>())
            .map_err(|diagnostic| diagnostic.message)
    };
    let expected = ["a.cfg", "dir/10.cfg", "dir/9.cfg", "dir/B.cfg", "dir/b.cfg", "dir/é.cfg", "a.cfg"];
    assert_eq!(expand(&["a.cfg", "dir", "a.cfg"]).unwrap(), expected);
    assert_eq!(expand(&["empty"]).unwrap(), [""; 0]);
    let missing = "Cannot open configuration file/directory nofile.cfg : No such file or directory";
    assert_eq!(expand(&["nofile.cfg"]).unwrap_err(), missing);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let mut sources = SourceMap::new();
    assert!(sources.load(&Table, "a.cfg").is_ok());
    let error = sources.load(&Table, "b.cfg").unwrap_err();
    assert_eq!(error.message, "Cannot open configuration file/directory b.cfg : No such file or directory");
}

#[test]
fn the_disk_is_read() {
    let here = env!("CARGO_MANIFEST_DIR");
    let mut names = DiskLoader.list(here).unwrap();
    names.sort();
    assert_eq!(names, ["Cargo.toml"]);
    assert!(DiskLoader.is_dir(here).unwrap());
    assert!(DiskLoader.read(&format!("{here}/Cargo.toml")).unwrap().starts_with(b"[package]"));
    assert!(DiskLoader.read(&format!("{here}/no such file")).is_err());
}
