//! Chains at random: certificates of few names and keys that sign each other, mostly rightly, with extensions that fit
//! mostly. What ours says of each has to be what OpenSSL says. `VERIFY_CHAINS` says how
//! many are played, `VERIFY_SEED` where to begin.

use super::*;

const NAMES: [&str; 7] = ["Root", "Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta"];
const HOSTS: [&str; 6] =
    ["a.example.com", "*.example.com", "b.example.org", "example.com", "xn--a.example.com", "w*.example.org"];
const ASKED: [&str; 6] = [
    "a.example.com",
    "b.example.org",
    "www.example.org",
    "a.b.example.com",
    "xn--a.example.com",
    "EXAMPLE.com",
];

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    /// True in so many of a hundred cases.
    fn percent(&mut self, chance: usize) -> bool {
        self.roll(100) < chance
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        let at = self.roll(of.len());
        of[at]
    }
}

/// A certificate of the mixture, and who it is.
struct Member {
    certificate: Arc<Certificate>,
    name: &'static str,
    key: usize,
    self_signed: bool,
}

fn wrap(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    der::write(&mut out, tag, content);
    out
}

/// A name constraint of some kind.
fn some_constraint(dice: &mut Dice) -> Vec<u8> {
    let permitted = dice.percent(60);
    let (kind, base) = match dice.roll(5) {
        0 => (
            der::tag::context(2),
            dice.one(&[&b"example.com"[..], b"a.example.com", b".example.org", b"org"]).to_vec(),
        ),
        1 => (der::tag::context(7), vec![10, 0, 0, 0, 255, 0, 0, 0]),
        2 => (der::tag::explicit(4), common_name(dice.one(&["Alpha", "leaf", "Root"]))),
        3 => (der::tag::context(1), b"example.com".to_vec()),
        _ => (der::tag::context(2), b"example.com".to_vec()),
    };
    constraint(permitted, kind, &base)
}

/// Extensions that may be anybody's.
fn decorate(dice: &mut Dice, mut template: Template, own: usize, signer: usize) -> Template {
    let id = |key: usize| vec![key as u8 + 1; 4];
    if dice.percent(60) {
        let key = if dice.percent(95) { own } else { own + 1 };
        template =
            template.extension(extension::SUBJECT_KEY_ID, false, &wrap(der::tag::OCTET_STRING, &id(key)));
    }
    if dice.percent(60) {
        let key = if dice.percent(93) { signer } else { signer + 1 };
        let value = wrap(der::tag::SEQUENCE, &wrap(der::tag::context(0), &id(key)));
        template = template.extension(extension::AUTHORITY_KEY_ID, false, &value);
    }
    if dice.percent(20) {
        let purposes: &[&[u8]] = match dice.roll(6) {
            0..=2 => &[purpose::SERVER_AUTH],
            3 => &[purpose::CLIENT_AUTH],
            4 => &[purpose::ANY],
            _ => &[purpose::SERVER_AUTH, purpose::CLIENT_AUTH],
        };
        template = template.purposes(purposes);
    }
    if dice.percent(3) {
        template = template.extension(b"\x2a\x03\x04", true, &[5, 0]);
    }
    if dice.percent(2) {
        let value = wrap(der::tag::BIT_STRING, &[0, dice.one(&[0x04u8, 0x40, 0x80])]);
        template = template.extension(extension::NETSCAPE_CERT_TYPE, false, &value);
    }
    match dice.roll(40) {
        0 => template.not_after = NOW as i64 - 5,
        1 => template.not_before = NOW as i64 + 5,
        _ => {}
    }
    template
}

fn key_usage(bits: u8) -> Vec<u8> {
    wrap(der::tag::BIT_STRING, &[0, bits])
}

fn some_ca(dice: &mut Dice, name: &str) -> Template {
    let mut template = template(name);
    let basic = |ca: bool, length: Option<u8>| {
        let mut content = if ca { wrap(der::tag::BOOLEAN, &[0xff]) } else { Vec::new() };
        if let Some(length) = length {
            der::write(&mut content, der::tag::INTEGER, &[length]);
        }
        wrap(der::tag::SEQUENCE, &content)
    };
    match dice.roll(20) {
        0 => {}
        1 => template = template.extension(extension::BASIC_CONSTRAINTS, true, &basic(false, None)),
        2..=4 => {
            let length = dice.roll(3) as u8;
            template = template.extension(extension::BASIC_CONSTRAINTS, true, &basic(true, Some(length)));
        }
        _ => template = template.extension(extension::BASIC_CONSTRAINTS, true, &basic(true, None)),
    }
    match dice.roll(20) {
        0 => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x80)),
        1 => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x04)),
        2..=4 => {}
        _ => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x06)),
    }
    if dice.percent(12) {
        let value = some_constraint(dice);
        template = template.extension(extension::NAME_CONSTRAINTS, true, &value);
    }
    template
}

fn some_leaf(dice: &mut Dice) -> Template {
    let mut template = template(dice.one(&["leaf", "a.example.com", "Alpha"]));
    if dice.percent(80) {
        let mut content = Vec::new();
        for _ in 0..1 + dice.roll(2) {
            match dice.roll(8) {
                0 => der::write(&mut content, der::tag::context(7), &[10, 0, 0, dice.roll(2) as u8]),
                1 => der::write(&mut content, der::tag::context(1), b"a@example.com"),
                _ => der::write(&mut content, der::tag::context(2), dice.one(&HOSTS).as_bytes()),
            }
        }
        let value = wrap(der::tag::SEQUENCE, &content);
        template = template.extension(extension::SUBJECT_ALT_NAME, false, &value);
    }
    match dice.roll(12) {
        0 => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x06)),
        1 => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x20)),
        2 => template = template.extension(extension::KEY_USAGE, true, &key_usage(0x80)),
        _ => {}
    }
    template
}

fn some_case(seed: u64, keys: &[MadeKey]) -> (Case, bool) {
    let dice = &mut Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        dice.roll(2);
    }
    let mut members: Vec<Member> = Vec::new();
    // Half of them have no two authorities of one name: then the errors have to be the same, too.
    let unique = seed.is_multiple_of(2);
    let count = 2 + dice.roll(5);
    for (number, own_name) in NAMES.into_iter().enumerate().take(count + 1) {
        let is_leaf = number == count;
        let name = if unique { own_name } else { dice.one(&NAMES[..4]) };
        let own = if unique { number % keys.len() } else { dice.roll(keys.len()) };
        let self_signed = number == 0 || (!is_leaf && dice.percent(12)) || (is_leaf && dice.percent(4));
        let (issuer, signer) = match members.last() {
            Some(last) if !self_signed => {
                let above = if dice.percent(70) { last } else { &members[dice.roll(members.len())] };
                let signer = if dice.percent(95) { above.key } else { dice.roll(keys.len()) };
                (above.name, signer)
            }
            _ => (name, own),
        };
        let template = if is_leaf { some_leaf(dice) } else { some_ca(dice, name) };
        let template = decorate(dice, template, own, signer);
        let issuer = if is_leaf && self_signed { template.subject.clone() } else { common_name(issuer) };
        let der = template.sign(&keys[own], &issuer, &keys[signer]).unwrap();
        members.push(Member { certificate: parsed(&der), name, key: own, self_signed });
    }
    let leaf = members.pop().unwrap();
    let mut sent = vec![leaf.certificate];
    for member in &members {
        if dice.percent(85) {
            let at = 1 + dice.roll(sent.len());
            sent.insert(at, member.certificate.clone());
        }
    }
    let trusted: Vec<Arc<Certificate>> = members
        .iter()
        .enumerate()
        .filter(|(number, member)| match (number, member.self_signed) {
            (0, _) => dice.percent(90),
            (_, true) => dice.percent(30),
            (_, false) => dice.percent(10),
        })
        .map(|(_, member)| member.certificate.clone())
        .collect();
    let crls = dice.percent(15).then(|| {
        let lists = members.iter().filter(|_| !dice.0.is_multiple_of(11));
        let entries = |at: usize| if at % 5 == 4 { vec![sent[0].serial()] } else { Vec::new() };
        let of = |(at, member): (usize, &Member)| {
            let times = (NOW as i64 - 10, NOW as i64 + 10);
            let name = common_name(member.name);
            thalweg_tls::x509::make::revocations(
                &name,
                &keys[member.key],
                times,
                &entries(at + seed as usize),
            )
            .unwrap()
        };
        lists.enumerate().map(of).collect::<Vec<_>>()
    });
    let crls = crls.filter(|lists| !lists.is_empty());
    let case = Case {
        name: "at random",
        trusted,
        crls,
        purpose: if dice.percent(80) { Purpose::Server } else { Purpose::Client },
        host: dice.percent(50).then(|| dice.one(&ASKED)),
        stricter: false,
        expected: Code::OK,
        depth: 0,
        sent,
    };
    (case, unique)
}

#[test]
fn random_chains_are_judged_as_openssl_judges_them() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: there is no openssl");
        return;
    }
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (count, first) = (number("VERIFY_CHAINS", 100), number("VERIFY_SEED", 1));
    let keys: Vec<MadeKey> = (0..4).map(|_| MadeKey::generate(NewKey::P256).unwrap()).collect();
    let directory = std::env::temp_dir().join(format!("thalweg-tls-random-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (mut good, mut wrong) = (0, Vec::new());
    for seed in first..first + count {
        let (case, unique) = some_case(seed, &keys);
        if case.trusted.is_empty() {
            continue;
        }
        let ((ours, path), theirs) = (case.ours_by(), case.openssl(&directory));
        good += u64::from(theirs.0 == Code::OK);
        let alike = match (ours.0 == Code::OK, theirs.0 == Code::OK) {
            // Where several have one name, OpenSSL takes the first and we take the one that signed: the path that we found
            // has to be good when there is no other.
            (true, false) => {
                let (root, sent) = path.split_last().unwrap();
                let sent = if sent.is_empty() { path.clone() } else { sent.to_vec() };
                // Of two lists of one name it takes the first as well.
                let only = Case { sent, trusted: vec![root.clone()], crls: None, ..case.clone() };
                only.openssl(&directory).0 == Code::OK
            }
            (true, true) => true,
            (false, true) => false,
            (false, false) => !unique || ours == theirs,
        };
        if !alike {
            wrong.push(format!(
                "VERIFY_SEED={seed}: ours {ours:?}, openssl's {theirs:?}, host {:?}",
                case.host
            ));
        }
    }
    if std::env::var_os("VERIFY_KEEP").is_none() {
        std::fs::remove_dir_all(&directory).unwrap();
    }
    assert!(wrong.is_empty(), "{} of {count} ({good} good):\n{}", wrong.len(), wrong.join("\n"));
    assert!(good > 0 || count < 50, "none of {count} chains is good");
}
