//! Loading texts without a disk.

use std::io;

use thalweg_config::{Input, LoadOptions, Loaded, load};
use thalweg_syntax::{Environment, Facts, Loader, RenderOptions};

/// A few files, and none other.
pub struct Files;

impl Loader for Files {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match path {
            "page.http" => Ok(b"HTTP/1.0 400 Bad\r\nContent-Type: text/plain\r\n\r\nno\n".to_vec()),
            "empty.http" => Ok(Vec::new()),
            "broken.http" => Ok(b"hello\n".to_vec()),
            "cases.lst" => Ok(b"content-type Content-TYPE\n".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_dir(&self, _: &str) -> io::Result<bool> {
        Ok(false)
    }

    fn list(&self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// Loads one text under the name `lb.cfg`.
pub fn load_text(text: &str) -> Loaded {
    let options = LoadOptions {
        files: vec![Input::Memory { name: "lb.cfg".to_owned(), text: text.as_bytes().to_vec() }],
        loader: &Files,
        facts: Facts { version: "3.5-dev5".to_owned(), ..Facts::default() },
        environment: Environment::empty(),
        cpus: 2,
        file_limit: (20_000, 20_000),
        resolver: |_, _| None,
        inherited: |_| Ok(()),
        ..LoadOptions::default()
    };
    load(&options)
}

/// Everything a load had to say, as people see it.
pub fn rendered(loaded: &Loaded) -> String {
    loaded.diagnostics.render(&loaded.sources, RenderOptions { pid: 1, diagnostic_mode: false })
}
