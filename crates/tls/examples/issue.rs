//! Writes a directory of certificates with their keys, to see what many of them cost:
//! `cargo run -p thalweg-tls --example issue -- DIRECTORY COUNT [rsa]`. With `rsa` all have the same RSA key.

use thalweg_tls::x509::make::{MadeKey, NewKey, Template};
use thalweg_tls::{Clock, SystemClock, pem};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let count: usize = arguments.next().and_then(|text| text.parse().ok()).expect("a number");
    let rsa = arguments.next().map(|_| MadeKey::generate(NewKey::Rsa2048).expect("entropy"));
    let authority = MadeKey::generate(NewKey::P256).expect("entropy");
    let now = SystemClock.now() as i64;
    let (from, to) = (now - 86_400, now + 86_400 * 365);
    let root = Template::new("Root", from, to).ca(None);
    let above = root.sign(&authority, &root.subject, &authority).expect("entropy");
    std::fs::create_dir_all(&directory).expect("a directory that can be made");
    for number in 0..count {
        let host = format!("site-{number}.example.com");
        let own = if rsa.is_none() { Some(MadeKey::generate(NewKey::P256).expect("entropy")) } else { None };
        let key = rsa.as_ref().or(own.as_ref()).expect("one of them");
        let template = Template::new(&host, from, to).hosts(&[&host, &format!("www.{host}")]).server();
        let der = template.sign(key, &root.subject, &authority).expect("entropy");
        let text = pem::encode("CERTIFICATE", &der)
            + &pem::encode("CERTIFICATE", &above)
            + &pem::encode("PRIVATE KEY", key.pkcs8());
        std::fs::write(format!("{directory}/{host}.pem"), text).expect("a file that can be written");
    }
}
