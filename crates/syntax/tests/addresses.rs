//! Addresses (configuration manual, section 2.9). Verdicts and messages were checked against HAProxy 3.5-dev5.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thalweg_syntax::address::{Family, Transport};
use thalweg_syntax::{Address, AddressOptions, AddressParser, Environment, PortSpec};

fn resolve(name: &str, family: Family) -> Option<IpAddr> {
    match (name, family) {
        ("localhost", Family::V6) => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
        ("localhost", _) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        _ => None,
    }
}

fn with_parser<T>(run: impl FnOnce(&AddressParser<'_>) -> T) -> T {
    let mut environment = Environment::empty();
    environment.set("X", "127.0.0.1");
    environment.set("P", "80");
    environment.set("KIND", "stream");
    run(&AddressParser::new(&environment, &resolve))
}

fn ip(transport: Transport, ip: &str, port: PortSpec) -> Address {
    Address::Ip { transport, ip: ip.parse().unwrap(), port }
}

fn accepted(options: AddressOptions, cases: &[(&str, Address)]) {
    for (text, expected) in cases {
        let found = with_parser(|parser| parser.parse(text, &options));
        assert_eq!(found.as_ref(), Ok(expected), "{text}");
    }
}

fn refused(options: AddressOptions, cases: &[(&str, &str)]) {
    for (text, message) in cases {
        let found = with_parser(|parser| parser.parse_list(text, &options));
        let found = found.map_err(|error| error.message);
        assert_eq!(found, Err(message.to_string()), "{text}");
    }
}

use PortSpec::{Fixed, Offset, Range};
use Transport::{Datagram, Mptcp, Quic, Stream};

#[test]
fn bind_accepts() {
    let unix = |path: &str| Address::Unix { transport: Stream, path: path.into() };
    let name = |name: &str, zero_terminated| Address::Abstract {
        transport: Stream,
        name: name.into(),
        zero_terminated,
    };
    accepted(
        AddressOptions::BIND,
        &[
            (":80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("*:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("127.0.0.1:65535", ip(Stream, "127.0.0.1", Fixed(65535))),
            (":80-90", ip(Stream, "0.0.0.0", Range(80, 90))),
            (":80-80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("::1:80", ip(Stream, "::1", Fixed(80))),
            ("[::1]:80", ip(Stream, "::1", Fixed(80))),
            (":::80", ip(Stream, "::", Fixed(80))),
            ("localhost:80", ip(Stream, "127.0.0.1", Fixed(80))),
            ("ipv6@localhost:80", ip(Stream, "::1", Fixed(80))),
            ("ip@:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("ipv4@:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("ipv6@:80", ip(Stream, "::", Fixed(80))),
            ("tcp@:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("tcp6@*:80", ip(Stream, "::", Fixed(80))),
            ("mptcp@:80", ip(Mptcp, "0.0.0.0", Fixed(80))),
            ("mptcp6@:80", ip(Mptcp, "::", Fixed(80))),
            ("stream+ip@:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("${X}:${P}", ip(Stream, "127.0.0.1", Fixed(80))),
            (":$P", ip(Stream, "0.0.0.0", Fixed(80))),
            ("${UNSET}:80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("/tmp/x.sock", unix("/tmp/x.sock")),
            ("unix@foo", unix("foo")),
            ("unix@", unix("")),
            ("uxst@/tmp/a", unix("/tmp/a")),
            ("abns@foo", name("foo", false)),
            ("abns@", name("", false)),
            ("abnsz@foo", name("foo", true)),
            ("fd@3", Address::Descriptor { transport: Stream, fd: 3 }),
            ("${KIND}+fd@3", Address::Descriptor { transport: Stream, fd: 3 }),
            ("sockpair@4", Address::SocketPair { fd: 4 }),
            ("rhttp@b/s", Address::ReverseHttp { name: "b/s".into() }),
        ],
    );
}

#[test]
fn bind_refuses() {
    refused(
        AddressOptions::BIND,
        &[
            ("127.0.0.1", "missing port specification in '127.0.0.1'"),
            ("[::1]", "missing port specification in '[::1]'"),
            ("::", "missing port specification in '::'"),
            (":", "missing port specification in ':'"),
            ("tcp@", "missing port specification in 'tcp@'"),
            ("stdout", "missing port specification in 'stdout'"),
            ("ring@x", "missing port specification in 'ring@x'"),
            ("127.0.0.1:0", "invalid port '0'"),
            (":70000", "invalid port '70000'"),
            (":99999999999999999999", "invalid port '99999999999999999999'"),
            (":1-65536", "invalid port '65536'"),
            (":80-", "invalid port ''"),
            (":90-80", "invalid port range '90-80'"),
            (":-1", "port offset not permitted here in ':-1'"),
            (":+80", "port offset not permitted here in ':+80'"),
            (":${UNSET-81}", "port offset not permitted here in ':${UNSET-81}'"),
            (":x", "invalid character 'x' in port number 'x' in ':x'"),
            (":80x", "invalid character 'x' in port number '80x' in ':80x'"),
            (":80-90-100", "invalid character '-' in port number '90-100' in ':80-90-100'"),
            ("nosuch.invalid:80", "invalid address: 'nosuch.invalid' in 'nosuch.invalid:80'"),
            ("tcp4@[::1]:80", "invalid address: '[::1]' in 'tcp4@[::1]:80'"),
            ("ipv6@127.0.0.1:80", "invalid address: '127.0.0.1' in 'ipv6@127.0.0.1:80'"),
            ("256.1.1.1:80", "invalid address: '256.1.1.1' in '256.1.1.1:80'"),
            ("[::1:80", "invalid address: '[::1' in '[::1:80'"),
            ("1::2::3:80", "invalid address: '1::2::3' in '1::2::3:80'"),
            ("foo@:80", "invalid address: 'foo@' in 'foo@:80'"),
            ("fd@x", "file descriptor 'x' is not a valid integer in 'fd@x'"),
            ("fd@", "file descriptor '' is not a valid integer in 'fd@'"),
            ("fd@${NONE}", "file descriptor '' is not a valid integer in 'fd@${NONE}'"),
            ("fd@-1", "file descriptor '-1' is not a valid integer in 'fd@-1'"),
            ("fd@99999999999", "file descriptor '99999999999' is not a valid integer in 'fd@99999999999'"),
            ("sockpair@x", "file descriptor 'x' is not a valid integer in 'sockpair@x'"),
            ("udp@:80", "dgram-type address not acceptable in 'udp@:80'"),
            ("uxdg@/tmp/a", "dgram-type address not acceptable in 'uxdg@/tmp/a'"),
            ("dgram+ip@:80", "dgram-type address not acceptable in 'dgram+ip@:80'"),
            (
                "quic4@:443",
                "unsupported stream protocol for datagram family 2 address 'quic4@:443'; QUIC is not compiled in \
                 if this is what you were looking for.",
            ),
            (
                "quic+ipv6@:443",
                "unsupported stream protocol for datagram family 10 address 'quic+ipv6@:443'; QUIC is not \
                 compiled in if this is what you were looking for.",
            ),
            (":80,,:81", "'' resolves to an empty address (environment variable missing?)"),
            ("${UNSET}", "'${UNSET}' resolves to an empty address (environment variable missing?)"),
        ],
    );
    let long = format!("/{}", "x".repeat(107));
    let error = with_parser(|parser| parser.parse(&long, &AddressOptions::BIND)).unwrap_err();
    assert_eq!(error.message, format!("socket path '{long}' too long (max 107)"));
}

#[test]
fn lists_are_cut_at_commas() {
    let list = |text: &str| with_parser(|p| p.parse_list(text, &AddressOptions::BIND));
    assert_eq!(list(":80,:81").unwrap().len(), 2);
    assert_eq!(list("127.0.0.1:80,/tmp/b,fd@3").unwrap().len(), 3);
    assert_eq!(list(":80,").unwrap().len(), 1);
    let error = list(":80,:x").unwrap_err();
    assert_eq!(error.range, 4..6);
}

#[test]
fn server_accepts() {
    let name =
        |family, name: &str, port| Address::Name { transport: Stream, family, name: name.into(), port };
    accepted(
        AddressOptions::SERVER,
        &[
            ("127.0.0.1", ip(Stream, "127.0.0.1", PortSpec::None)),
            ("127.0.0.1:80", ip(Stream, "127.0.0.1", Fixed(80))),
            ("127.0.0.1:0", ip(Stream, "127.0.0.1", Fixed(0))),
            ("127.0.0.1:+10", ip(Stream, "127.0.0.1", Offset(10))),
            ("127.0.0.1:-10", ip(Stream, "127.0.0.1", Offset(-10))),
            ("127.0.0.1:+70000", ip(Stream, "127.0.0.1", Offset(70000))),
            ("127.0.0.1:+", ip(Stream, "127.0.0.1", Offset(0))),
            ("[::1]", ip(Stream, "::1", PortSpec::None)),
            (":80", ip(Stream, "0.0.0.0", Fixed(80))),
            ("example.org", name(Family::Any, "example.org", PortSpec::None)),
            ("tcp6@example.org:80", name(Family::V6, "example.org", Fixed(80))),
            ("tcp6@127.0.0.1:80", name(Family::V6, "127.0.0.1", Fixed(80))),
            ("::1", name(Family::Any, ":", Fixed(1))),
            ("mptcp@127.0.0.1:80", ip(Mptcp, "127.0.0.1", Fixed(80))),
            ("udp@1.1.1.1:53", ip(Datagram, "1.1.1.1", Fixed(53))),
            ("/tmp/s", Address::Unix { transport: Stream, path: "/tmp/s".into() }),
            ("rhttp@", Address::ReverseHttp { name: String::new() }),
        ],
    );
    refused(
        AddressOptions::SERVER,
        &[
            ("127.0.0.1:80-90", "port range not permitted here in '127.0.0.1:80-90'"),
            ("fd@3", "a file descriptor is not acceptable here in 'fd@3'"),
            ("127.0.0.1:99999", "invalid port '99999'"),
            ("127.0.0.1:+99999999999", "invalid port offset '+99999999999'"),
        ],
    );
}

#[test]
fn logs_and_others() {
    accepted(
        AddressOptions::LOG,
        &[
            ("stdout", Address::Stdout),
            ("stderr", Address::Stderr),
            ("ring@r", Address::Ring { name: "r".into() }),
            ("backend@b", Address::Backend { name: "b".into() }),
            ("fd@1", Address::Descriptor { transport: Datagram, fd: 1 }),
            ("127.0.0.1", ip(Datagram, "127.0.0.1", PortSpec::None)),
            ("tcp@127.0.0.1:514", ip(Stream, "127.0.0.1", Fixed(514))),
            ("/dev/log", Address::Unix { transport: Datagram, path: "/dev/log".into() }),
            ("uxst@/l", Address::Unix { transport: Stream, path: "/l".into() }),
        ],
    );
    refused(
        AddressOptions::LOG,
        &[
            ("127.0.0.1:80-81", "port range not permitted here in '127.0.0.1:80-81'"),
            ("stdin", "invalid address: 'stdin' in 'stdin'"),
        ],
    );
    refused(AddressOptions::DGRAM_BIND, &[("tcp@:514", "stream-type address not acceptable in 'tcp@:514'")]);
    accepted(AddressOptions::DGRAM_BIND, &[(":514", ip(Datagram, "0.0.0.0", Fixed(514)))]);
    accepted(AddressOptions::SOURCE, &[("1.2.3.4:1000-2000", ip(Stream, "1.2.3.4", Range(1000, 2000)))]);
    refused(AddressOptions::HOST, &[("1.2.3.4:80", "port specification not permitted here in '1.2.3.4:80'")]);
    let quic = AddressOptions { quic: true, ..AddressOptions::BIND };
    accepted(quic, &[("quic4@:443", ip(Quic, "0.0.0.0", Fixed(443)))]);
}

#[test]
fn a_mistyped_prefix_is_explained() {
    let help = |text: &str| {
        with_parser(|parser| parser.parse(text, &AddressOptions::BIND)).unwrap_err().help.unwrap_or_default()
    };
    assert_eq!(help("ipv5@:80"), "'ipv5@' is not an address prefix; did you mean 'ipv4@' maybe ?");
    assert_eq!(help("[::1]"), "write '[::1]:port'");
    assert_eq!(help("example.org"), "write 'example.org:port'");
}

#[test]
fn families_have_the_names_of_the_manual() {
    let quic = AddressOptions { quic: true, ..AddressOptions::BIND };
    for (text, expected) in [
        ("1.2.3.4:1", "ipv4@"),
        ("[::1]:1", "ipv6@"),
        ("quic6@:1", "quic6@"),
        ("/a", "unix@"),
        ("abnsz@a", "abnsz@"),
        ("fd@1", "fd@"),
        ("sockpair@1", "sockpair@"),
        ("rhttp@x", "rhttp@"),
        ("mptcp@:1", "mptcp@"),
    ] {
        let address = with_parser(|parser| parser.parse(text, &quic)).unwrap();
        assert_eq!(address.family_name(), expected, "{text}");
    }
    assert_eq!(Range(80, 82).ports().collect::<Vec<_>>(), [80, 81, 82]);
    assert_eq!(Range(65534, 65535).ports().count(), 2);
    assert_eq!(Fixed(0).ports().collect::<Vec<_>>(), [0]);
    assert_eq!(Offset(3).ports().count() + PortSpec::None.ports().count(), 0);
}
