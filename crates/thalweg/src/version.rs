//! `-v` and `-vv`: what this program is and what is in it.
//!
//! Scripts read this: the first line must match `HA-?Proxy version` with the version as its third word when started
//! as `haproxy`, exactly one line may have `TARGET`, and `Feature list` is searched for `+NAME`. Under its own name
//! the program says who it is and what it is compatible with.

use thalweg_sys::process::system_description;

use crate::features::{self, FEATURES};
use crate::program::{COMPATIBLE_BRANCH, COMPATIBLE_DATE, COMPATIBLE_VERSION, Program, VERSION};

/// The lines of `-v`.
pub fn version(program: &Program) -> String {
    let system = system_description();
    if program.as_haproxy {
        format!(
            "HAProxy version {COMPATIBLE_VERSION} {COMPATIBLE_DATE} - compatible program: Thalweg {VERSION}\n\
             Status: development branch - not safe for use in production.\nRunning on: {system}\n"
        )
    } else {
        format!(
            "Thalweg version {VERSION} - load balancer and reverse proxy\n\
             Compatible with: configuration, command line, logs and statistics of HAProxy {COMPATIBLE_VERSION}\n\
             Running on: {system}\n"
        )
    }
}

/// What `-vq` shows: nothing but the version.
pub fn version_only(program: &Program) -> String {
    format!("{}\n", program.version())
}

/// What `-vqs` shows: the version without what follows its numbers.
pub fn short_version(program: &Program) -> String {
    format!("{}\n", program.version().split('-').next().unwrap_or_default())
}

/// What `-vqb` shows: the branch.
pub fn branch(program: &Program) -> String {
    if program.as_haproxy {
        return format!("{COMPATIBLE_BRANCH}\n");
    }
    let mut numbers = VERSION.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    format!("{major}.{minor}\n")
}

/// The lines of `-vv`.
pub fn build(program: &Program) -> String {
    let mut text = version(program);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    text.push_str(&format!(
        "Build options : \n  TARGET  = linux-glibc\n  RUST    = {}\n  PROFILE = {profile}\n\nFeature list :",
        env!("CARGO_PKG_RUST_VERSION"),
    ));
    list_features(&mut text, &FEATURES);
    text.push_str("\nDetected feature list :");
    list_features(&mut text, &features::detected());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    text.push_str(&format!(
        "\n\nDefault settings :\n  bufsize = 16384, maxrewrite = 1024, maxpollevents = 200\n\n\
         Built with multi-threading support (MAX_TGROUPS={}, MAX_THREADS={}, default={threads}).\n\
         Built with transparent proxy support using: IP_TRANSPARENT IPV6_TRANSPARENT IP_FREEBIND\n",
        features::THREAD_GROUPS_MAX,
        features::THREADS_MAX,
    ));
    let (major, minor) = pcre2::version();
    text.push_str(&format!("Built with PCRE2 version : {major}.{minor}\nPCRE2 library supports JIT : yes\n"));
    text.push_str(
        "Built with TLS library : rustls 0.23 with the algorithms of AWS-LC\nTLS library supports : TLSv1.2 TLSv1.3, SNI, \
         ALPN\n",
    );
    text.push_str("Encrypted password support via crypt(3): yes\n\n");

    let drivers = features::drivers();
    text.push_str("Available polling systems :\n");
    for (name, preference, usable) in &drivers {
        let result = if *usable { "OK" } else { "FAILED" };
        text.push_str(&format!("{name:>11} : pref={preference},  test result {result}\n"));
    }
    let usable = drivers.iter().filter(|(_, _, usable)| *usable).count();
    let best = drivers.iter().filter(|(_, _, usable)| *usable).max_by_key(|(_, preference, _)| *preference);
    text.push_str(&format!(
        "Total: {} ({usable} usable), will use {}.\n\n",
        drivers.len(),
        best.map_or("none", |(name, _, _)| name)
    ));
    text.push_str(
        "Available multiplexer protocols :\n\
         (protocols marked as <default> cannot be specified using 'proto' keyword)\n",
    );
    for (name, mode, sides, mux) in features::MULTIPLEXERS {
        text.push_str(&format!("{name:>11} : mode={mode:<4}  side={sides:<5}  mux={mux}\n"));
    }
    text.push_str(&format!("\nAvailable services : {}\n", list(features::SERVICES)));
    text.push_str("Available filters :\n");
    for (name, family) in thalweg_config::filters() {
        text.push_str(&format!("\t[{family}] {name}\n"));
    }
    text.push('\n');
    text
}

fn list_features(text: &mut String, features: &[(&str, bool)]) {
    for (name, present) in features {
        text.push_str(if *present { " +" } else { " -" });
        text.push_str(name);
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str) -> Program {
        Program::from_arg0(Some(name.into()))
    }

    #[test]
    fn scripts_find_what_they_look_for() {
        let text = build(&program("/usr/sbin/haproxy"));
        let versions: Vec<&str> = text.lines().filter(|l| l.contains("HAProxy version")).collect();
        assert_eq!(versions.len(), 1);
        assert_eq!(versions[0].split(' ').nth(2), Some("3.5-dev5"));
        let targets: Vec<&str> = text.lines().filter(|l| l.contains("TARGET") && l.contains('=')).collect();
        assert_eq!(targets, ["  TARGET  = linux-glibc"]);
        let features = text.lines().find(|l| l.starts_with("Feature list :")).unwrap();
        assert!(
            features.contains(" +THREAD ") && features.contains(" +OPENSSL ") && features.contains(" -QUIC ")
        );
        assert_eq!(text.lines().filter(|l| l.starts_with("Total: ")).count(), 1);
    }

    #[test]
    fn it_says_what_it_is_under_its_own_name() {
        let text = version(&program("thalweg"));
        assert!(text.starts_with("Thalweg version 0."), "{text}");
        assert!(text.contains("HAProxy 3.5-dev5"));
        assert!(!text.contains("HAProxy version"));
    }

    #[test]
    fn short_forms() {
        let haproxy = program("haproxy");
        assert_eq!(
            (version_only(&haproxy), short_version(&haproxy), branch(&haproxy)),
            ("3.5-dev5\n".into(), "3.5\n".into(), "3.5\n".into())
        );
        let own = program("thalweg");
        assert_eq!(version_only(&own), format!("{VERSION}\n"));
        assert!(VERSION.starts_with(branch(&own).trim()));
    }
}
