//! Loading texts without a disk.

use std::io;
use std::sync::OnceLock;

use thalweg_config::{Input, LoadOptions, Loaded, load};
use thalweg_syntax::{Environment, Facts, Loader, RenderOptions};
use thalweg_tls::pem;
use thalweg_tls::x509::make::{MadeKey, NewKey, Template, revocations};

/// A certificate with its key, which is its own authority, and a list of what it revoked.
fn certificates() -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let key = MadeKey::generate(NewKey::P256).expect("a key");
        let template = Template::new("www.example.com", 0, 4_000_000_000).ca(None);
        let der = template.sign(&key, &template.subject, &key).expect("a certificate");
        let pem = pem::encode("CERTIFICATE", &der) + &pem::encode("PRIVATE KEY", key.pkcs8());
        let list = revocations(&template.subject, &key, (0, 4_000_000_000), &[]).expect("a list");
        (pem.into_bytes(), pem::encode("X509 CRL", &list).into_bytes())
    })
}

/// A few files, and none other.
pub struct Files;

impl Loader for Files {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        match path.trim_start_matches("./") {
            "page.http" => Ok(b"HTTP/1.0 400 Bad\r\nContent-Type: text/plain\r\n\r\nno\n".to_vec()),
            "empty.http" => Ok(Vec::new()),
            "broken.http" => Ok(b"hello\n".to_vec()),
            "cases.lst" => Ok(b"content-type Content-TYPE\n".to_vec()),
            "site.pem" | "ca.pem" => Ok(certificates().0.clone()),
            "crl.pem" => Ok(certificates().1.clone()),
            "list.txt" => Ok(b"site.pem [alpn http/1.1] www.example.com\n".to_vec()),
            // Three times 48 bytes.
            "keys.txt" => Ok(format!("{}\n", "QUJD".repeat(16)).repeat(3).into_bytes()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_dir(&self, path: &str) -> io::Result<bool> {
        self.read(path).map(|_| false)
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
