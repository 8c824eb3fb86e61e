//! Every setting of the model is read by somebody outside this crate: what is accepted has an effect. What is not read
//! stands below with its reason.

use std::fs;
use std::path::Path;

/// Fields that nobody reads, and why that is right.
const UNREAD: &[(&str, &str)] = &[
    ("numa_cpu_mapping", "it only allows cpu-policy to choose, and the policy is always 'none'"),
    ("expose_experimental", "read while the file is read"),
    ("expose_deprecated", "silences warnings that are never given"),
    ("dns_accept_ipv4", "concerns resolvers, which are refused: names are resolved by the system, at start"),
    ("dns_accept_ipv6", "concerns resolvers, which are refused"),
    ("insecure_fork_wanted", "nothing forks: checks by programs are refused"),
    ("nopoll", "there is no driver that uses poll"),
    ("nogetaddrinfo", "the keyword is refused, -dG changes nothing: names are resolved with getaddrinfo"),
    ("no_memory_trimming", "memory is never trimmed at reload"),
    ("pp2_never_send_local", "no header ever says LOCAL"),
    ("takeover_other_tg", "there is one group of threads, so no other one to take from"),
    ("http_no_delay", "small pieces are always sent at once"),
    ("disable_h2_upgrade", "a TCP frontend never becomes HTTP/2"),
    ("localpeer", "names the instance to the configuration's own variables; peers are refused"),
    ("early_data_rejected", "early data needs TLS, which is refused"),
    ("track", "refused"),
    ("pool_conn_name", "refused"),
    ("http_cookielen", "read when the file was read: it limits 'capture cookie'"),
    ("backing_file", "refused; always none"),
    ("applet_zero_copy", "answers of the program itself are always copied"),
    ("dynamic_cookie_key", "read when the file was read: the cookies of servers are made from it"),
    ("dynamic", "read when the file was read: the cookies of servers are made then"),
    ("dgram_binds", "the section 'log-forward' is refused"),
    ("timeout_client_ms", "the section 'log-forward' is refused"),
    ("dont_parse", "the section 'log-forward' is refused"),
    ("assume_rfc6587_ntf", "the section 'log-forward' is refused"),
    ("log_forwards", "the section 'log-forward' is refused"),
    ("realm", "'stats' is refused in proxies"),
    ("auth", "'stats' is refused in proxies"),
    ("refresh_s", "'stats' is refused in proxies"),
    ("hide_version", "'stats' is refused in proxies"),
    ("show_desc", "'stats' is refused in proxies"),
    ("show_node", "'stats' is refused in proxies"),
    ("show_legends", "'stats' is refused in proxies"),
    ("show_modules", "'stats' is refused in proxies"),
    ("admin", "'stats' is refused in proxies"),
    ("ssl", "refused in proxy-v2-options"),
    ("cert_cn", "refused in proxy-v2-options"),
    ("ssl_cipher", "refused in proxy-v2-options"),
    ("cert_sig", "refused in proxy-v2-options"),
    ("cert_key", "refused in proxy-v2-options"),
];

fn sources(directory: &Path, text: &mut String) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|e| e == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap_or_default());
        }
    }
}

/// Whether `.name` occurs as a whole word that is not merely written to.
fn is_read(text: &str, name: &str) -> bool {
    let wanted = format!(".{name}");
    text.match_indices(&wanted).any(|(at, _)| {
        let after = &text[at + wanted.len()..];
        let written = ["|=", "+=", "= "].iter().any(|sign| after.trim_start().starts_with(sign))
            && !after.trim_start().starts_with("==");
        !written && !after.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

#[test]
fn each_setting_is_read_by_somebody() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("crates lie side by side");
    let mut readers = String::new();
    for entry in fs::read_dir(crates).expect("the crates").flatten().filter(|e| e.file_name() != "config") {
        sources(&entry.path().join("src"), &mut readers);
    }
    let mut model = String::new();
    sources(&crates.join("config/src/model"), &mut model);
    let fields = model.lines().filter_map(|line| {
        let name = line.strip_prefix("    pub ")?.split_once(':')?.0;
        name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_').then_some(name)
    });
    let forgotten: Vec<&str> = fields
        .filter(|name| !is_read(&readers, name) && !UNREAD.iter().any(|(known, _)| known == name))
        .collect();
    assert_eq!(forgotten, [""; 0], "accepted, and nobody reads them");
    let read_after_all: Vec<&str> =
        UNREAD.iter().map(|(name, _)| *name).filter(|name| is_read(&readers, name)).collect();
    assert_eq!(read_after_all, [""; 0], "no longer exceptions");
}
