//! What servers start with: `default-server`, with a name and without, and `from`.

mod common;

use common::{load_text, rendered};

const LINES: &str = "listen first
 mode http
 default-server weight 10 inter 7s
 server plain 192.0.2.1:80
 server reset 192.0.2.1:80 from none
 default-server name other from be: maxconn 9
 server named 192.0.2.1:80 from srv:other
 default-server name other weight 11
 server later 192.0.2.1:80 from srv:other check
 default-server from none
 server nothing 192.0.2.1:80
 server whole 192.0.2.1:80 id 7 weight 5 cookie c check inter 3s fall 9 pool-conn-name src set-proxy-v2-tlv-fmt(1) x
 server copy 192.0.2.2:80 from srv:whole
 server tracks 192.0.2.1:80 track copy
 server tracks2 192.0.2.1:80 from srv:tracks
 server-template t 2 192.0.2.1:80 from srv:copy weight 6
backend second
 server a 192.0.2.1:80 from srv:first/other
 server b 192.0.2.1:80 from be:first
 server c 192.0.2.1:80 from srv:first/whole
";

#[test]
fn settings_come_from_where_the_line_says() {
    let loaded = load_text(LINES);
    let config = loaded.config.as_ref().unwrap_or_else(|| panic!("{}", rendered(&loaded)));
    let of = |name: &str| {
        let mut servers = config.proxies.iter().flat_map(|proxy| &proxy.servers);
        servers.find(|server| &*server.name == name).unwrap_or_else(|| panic!("server {name}"))
    };
    let weights = [
        ("plain", 10),
        ("reset", 1),
        ("named", 10),
        ("later", 11),
        ("nothing", 1),
        ("copy", 5),
        ("t1", 6),
        ("t2", 6),
        ("a", 11),
        ("b", 1),
        ("c", 5),
    ];
    for (name, weight) in weights {
        assert_eq!(of(name).weight, weight, "{name}");
    }
    assert_eq!((of("named").maxconn, of("plain").maxconn), (9, 0));
    assert_eq!(of("later").check.as_ref().map(|check| check.inter_ms), Some(7000));
    let copy = of("copy");
    assert_eq!(copy.check.as_ref().map(|check| (check.inter_ms, check.fall)), Some((3000, 9)));
    assert_eq!((copy.uid_given, copy.cookie.as_deref()), (false, Some("c")));
    assert_ne!(copy.addr, of("whole").addr);
    for name in ["whole", "copy", "c", "t2"] {
        let rare = of(name).rare();
        assert!(rare.pool_conn_name.is_some() && rare.proxy_fields.len() == 1, "{name}");
    }
    assert_eq!(of("tracks2").rare().track, of("tracks").rare().track);
    assert!(of("tracks2").rare().track.is_some());
}

/// What is wrong with a line of a backend whose server `s` and preset `p` are known; these are the reference's words.
#[test]
fn origins_that_are_not_there_are_refused() {
    let cases = [
        ("server x 192.0.2.1:80 from", "'server b/x' : from: missing value."),
        ("server x 192.0.2.1:80 weight 3 from none", "'server b/x' : unknown keyword 'from'."),
        (
            "server x 192.0.2.1:80 from srv:p from none",
            "'server b/x' : 'from' keyword can only be specified once.",
        ),
        ("server x 192.0.2.1:80 from p", "'server b/x' : invalid 'p' value for 'from' keyword."),
        ("server x 192.0.2.1:80 from srv:q", "'server b/x' : from: unknown server 'q' in backend 'b'."),
        ("server x 192.0.2.1:80 from srv:z/p", "'server b/x' : from: unknown backend 'z'."),
        ("server x 192.0.2.1:80 from be:z", "'server b/x' : from: unknown backend instance 'z'."),
        ("server p 192.0.2.1:80", "'server b/p' : another server named 'p' was already defined at line 3"),
        ("server x 192.0.2.1:80 name y", "'server b/x' : unknown keyword 'name'."),
        ("default-server name", "default-server name: missing value."),
        (
            "default-server name s weight 3",
            "default-server name 's' conflicts with server defined at line 2.",
        ),
        ("default-server name q from x:", "invalid 'x:' value for 'from' keyword."),
        ("default-server weight 3 from none", "unknown keyword 'from'. Hint: no address was expected"),
    ];
    for (line, complaint) in cases {
        let loaded = load_text(&format!(
            "backend b\n server s 192.0.2.1:80\n default-server name p weight 3\n {line}\n"
        ));
        let shown = rendered(&loaded);
        assert!(loaded.config.is_none() && shown.contains(complaint), "{line}: {shown}");
    }
}
