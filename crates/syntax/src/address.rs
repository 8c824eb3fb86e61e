//! Addresses: every family, prefix and port notation of configuration manual section 2.9.
//!
//! An address names a family and a way of talking, whether this program can use them or not: callers refuse by
//! name what they do not support.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::environment::Environment;

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A stream: TCP, or a stream socket of the unix family.
    Stream,
    /// A stream over Multipath TCP.
    Mptcp,
    /// Datagrams: UDP, or a datagram socket of the unix family.
    Datagram,
    /// Streams over datagrams: QUIC.
    Quic,
}

/// Which IP versions an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Either, depending on how it is written or resolved.
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// What follows the last colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PortSpec {
    /// Nothing: a server uses the port the client connected to.
    None,
    /// One port. 0 is possible only where [`AddressOptions::port_mandatory`] is false.
    Fixed(u16),
    /// `first-last`, both included.
    Range(u16, u16),
    /// `+n` or `-n`: relative to the port the client connected to.
    Offset(i32),
}

impl PortSpec {
    /// The ports, in order: one for a fixed port, none for an offset or nothing.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        let (first, last) = match self {
            PortSpec::Fixed(port) => (u32::from(port), u32::from(port)),
            PortSpec::Range(first, last) => (u32::from(first), u32::from(last)),
            PortSpec::None | PortSpec::Offset(_) => (1, 0),
        };
        (first..=last).map(|port| port as u16)
    }
}

/// An address as written in a configuration, its variables replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IP address with its port or ports.
    Ip {
        /// TCP, MPTCP, UDP or QUIC.
        transport: Transport,
        /// The address; `*` and nothing are the unspecified address.
        ip: IpAddr,
        /// The port or ports.
        port: PortSpec,
    },
    /// A host name that was left for the caller to resolve.
    Name {
        /// TCP, MPTCP, UDP or QUIC.
        transport: Transport,
        /// Which IP versions its addresses may have.
        family: Family,
        /// The name.
        name: String,
        /// The port or ports.
        port: PortSpec,
    },
    /// A unix socket in the file system.
    Unix {
        /// Stream or datagram.
        transport: Transport,
        /// The path, which may be relative.
        path: String,
    },
    /// A unix socket in Linux's abstract namespace.
    Abstract {
        /// Stream or datagram.
        transport: Transport,
        /// The name.
        name: String,
        /// `abnsz@`: the address ends with the name and a NUL; otherwise (`abns@`) it is padded with NULs to
        /// the full length of a unix address.
        zero_terminated: bool,
    },
    /// A descriptor inherited from the parent process.
    Descriptor {
        /// Stream or datagram.
        transport: Transport,
        /// The descriptor.
        fd: i32,
    },
    /// A connected unix socket over which connections are passed as descriptors.
    SocketPair {
        /// The descriptor.
        fd: i32,
    },
    /// Connections opened by servers towards us, then used in reverse.
    ReverseHttp {
        /// On a `bind`, `backend/server`; on a server, nothing.
        name: String,
    },
    /// A ring of this process, for logs.
    Ring {
        /// The name of the ring.
        name: String,
    },
    /// A backend of mode `log`, for logs.
    Backend {
        /// The name of the backend.
        name: String,
    },
    /// The standard output, for logs.
    Stdout,
    /// The standard error, for logs.
    Stderr,
}

impl Address {
    /// How bytes travel.
    pub fn transport(&self) -> Transport {
        match self {
            Address::Ip { transport, .. }
            | Address::Name { transport, .. }
            | Address::Unix { transport, .. }
            | Address::Abstract { transport, .. }
            | Address::Descriptor { transport, .. } => *transport,
            Address::SocketPair { .. } | Address::ReverseHttp { .. } => Transport::Stream,
            Address::Ring { .. } | Address::Backend { .. } | Address::Stdout | Address::Stderr => {
                Transport::Datagram
            }
        }
    }

    /// The port or ports; [`PortSpec::None`] for what has none.
    pub fn port(&self) -> PortSpec {
        match self {
            Address::Ip { port, .. } | Address::Name { port, .. } => *port,
            _ => PortSpec::None,
        }
    }

    /// The prefix of the family in the manual's spelling, for messages about what is not supported.
    pub fn family_name(&self) -> &'static str {
        match self {
            Address::Ip { transport, ip, .. } => match (transport, ip) {
                (Transport::Stream, IpAddr::V4(_)) => "ipv4@",
                (Transport::Stream, IpAddr::V6(_)) => "ipv6@",
                (Transport::Mptcp, _) => "mptcp@",
                (Transport::Datagram, _) => "udp@",
                (Transport::Quic, IpAddr::V4(_)) => "quic4@",
                (Transport::Quic, IpAddr::V6(_)) => "quic6@",
            },
            Address::Name { transport, .. } => match transport {
                Transport::Stream => "ip@",
                Transport::Mptcp => "mptcp@",
                Transport::Datagram => "udp@",
                Transport::Quic => "quic4@",
            },
            Address::Unix { transport: Transport::Datagram, .. } => "uxdg@",
            Address::Unix { .. } => "unix@",
            Address::Abstract { zero_terminated: true, .. } => "abnsz@",
            Address::Abstract { .. } => "abns@",
            Address::Descriptor { .. } => "fd@",
            Address::SocketPair { .. } => "sockpair@",
            Address::ReverseHttp { .. } => "rhttp@",
            Address::Ring { .. } => "ring@",
            Address::Backend { .. } => "backend@",
            Address::Stdout => "stdout",
            Address::Stderr => "stderr",
        }
    }
}

/// What a statement accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressOptions {
    /// How bytes travel when no prefix says so: [`Transport::Stream`] or [`Transport::Datagram`].
    pub default_transport: Transport,
    /// Whether a port may be given.
    pub port: bool,
    /// Whether a port other than 0 must be given.
    pub port_mandatory: bool,
    /// Whether `+n` and `-n` may be given.
    pub port_offset: bool,
    /// Whether `first-last` may be given.
    pub port_range: bool,
    /// Whether stream addresses are accepted.
    pub stream: bool,
    /// Whether datagram addresses are accepted.
    pub datagram: bool,
    /// Whether QUIC addresses are accepted.
    pub quic: bool,
    /// Whether `fd@` is accepted.
    pub descriptor: bool,
    /// Whether `sockpair@` is accepted.
    pub socket_pair: bool,
    /// Whether `rhttp@` is accepted.
    pub reverse_http: bool,
    /// Whether `ring@`, `backend@`, `stdout` and `stderr` are accepted.
    pub log_targets: bool,
    /// Whether host names are resolved at once; otherwise they give [`Address::Name`].
    pub resolve: bool,
}

impl AddressOptions {
    const NOTHING: AddressOptions = AddressOptions {
        default_transport: Transport::Stream,
        port: true,
        port_mandatory: false,
        port_offset: false,
        port_range: false,
        stream: true,
        datagram: false,
        quic: false,
        descriptor: false,
        socket_pair: false,
        reverse_http: false,
        log_targets: false,
        resolve: true,
    };

    /// For `bind` and `stats socket`.
    pub const BIND: AddressOptions = AddressOptions {
        port_mandatory: true,
        port_range: true,
        descriptor: true,
        socket_pair: true,
        reverse_http: true,
        ..Self::NOTHING
    };

    /// For `dgram-bind`.
    pub const DGRAM_BIND: AddressOptions = AddressOptions {
        default_transport: Transport::Datagram,
        stream: false,
        datagram: true,
        port_mandatory: true,
        port_range: true,
        descriptor: true,
        ..Self::NOTHING
    };

    /// For `server`. Datagram addresses are read, because a backend of mode `log` uses them.
    pub const SERVER: AddressOptions = AddressOptions {
        port_offset: true,
        datagram: true,
        socket_pair: true,
        reverse_http: true,
        resolve: false,
        ..Self::NOTHING
    };

    /// For `log`.
    pub const LOG: AddressOptions = AddressOptions {
        default_transport: Transport::Datagram,
        datagram: true,
        descriptor: true,
        log_targets: true,
        ..Self::NOTHING
    };

    /// For `source`, with its optional range of ports.
    pub const SOURCE: AddressOptions = AddressOptions { port_range: true, ..Self::NOTHING };

    /// For `addr`, `agent-addr` and other places that want a host and no port.
    pub const HOST: AddressOptions = AddressOptions { port: false, ..Self::NOTHING };

    /// For `nameserver`.
    pub const NAMESERVER: AddressOptions = AddressOptions {
        default_transport: Transport::Datagram,
        datagram: true,
        port_mandatory: true,
        ..Self::NOTHING
    };
}

/// Why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// The message, in the words of the reference; the caller puts the keyword before it.
    pub message: String,
    /// What to do about it, when there is something to say.
    pub help: Option<String>,
    /// The part of the text it is about.
    pub range: Range<usize>,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The longest path of a unix socket, without its final NUL.
pub const UNIX_PATH_MAX: usize = 107;

/// Finds the first address of a host name in a family.
pub type Resolver<'a> = &'a dyn Fn(&str, Family) -> Option<IpAddr>;

/// Reads addresses.
#[derive(Clone, Copy)]
pub struct AddressParser<'a> {
    environment: &'a Environment,
    resolver: Resolver<'a>,
}

impl<'a> AddressParser<'a> {
    /// A parser that takes variables from `environment` and asks `resolver` for host names.
    pub fn new(environment: &'a Environment, resolver: Resolver<'a>) -> Self {
        Self { environment, resolver }
    }

    /// Reads addresses separated by commas, as `bind` takes them. A comma at the end is ignored.
    pub fn parse_list(&self, text: &str, options: &AddressOptions) -> Result<Vec<Address>, AddressError> {
        let mut addresses = Vec::new();
        let mut start = 0;
        loop {
            let end = text[start..].find(',').map_or(text.len(), |at| start + at);
            match self.parse(&text[start..end], options) {
                Ok(address) => addresses.push(address),
                Err(mut error) => {
                    error.range = start + error.range.start..start + error.range.end;
                    return Err(error);
                }
            }
            if end + 1 >= text.len() {
                return Ok(addresses);
            }
            start = end + 1;
        }
    }

    /// Reads one address.
    pub fn parse(&self, text: &str, options: &AddressOptions) -> Result<Address, AddressError> {
        let expanded = self.expand(text);
        let parse = Parse { given: text, text: &expanded, options, resolver: self.resolver };
        parse.address()
    }

    /// Replaces `$NAME` and `${NAME}`. Unlike in quoted words there is no default value here, and no error: what
    /// does not exist is empty.
    fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let braced = rest.starts_with('{');
            rest = rest.strip_prefix('{').unwrap_or(rest);
            let length = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
            let value = self.environment.get(&rest[..length]).unwrap_or_default();
            out.push_str(&String::from_utf8_lossy(value));
            rest = &rest[length..];
            if braced {
                rest = rest.strip_prefix('}').unwrap_or(rest);
            }
        }
        out.push_str(rest);
        out
    }
}

/// What a family prefix says.
enum Prefix {
    Ip(Family, Option<Transport>),
    Unix(Option<Transport>),
    Abstract { zero_terminated: bool },
    Descriptor,
    SocketPair,
    ReverseHttp,
    Ring,
    Backend,
}

/// All the family prefixes, `@` included.
const PREFIXES: [(&str, Prefix); 25] = [
    ("abns@", Prefix::Abstract { zero_terminated: false }),
    ("abnsz@", Prefix::Abstract { zero_terminated: true }),
    ("backend@", Prefix::Backend),
    ("fd@", Prefix::Descriptor),
    ("ip@", Prefix::Ip(Family::Any, None)),
    ("ipv4@", Prefix::Ip(Family::V4, None)),
    ("ipv6@", Prefix::Ip(Family::V6, None)),
    ("mptcp4@", Prefix::Ip(Family::V4, Some(Transport::Mptcp))),
    ("mptcp6@", Prefix::Ip(Family::V6, Some(Transport::Mptcp))),
    ("mptcp@", Prefix::Ip(Family::Any, Some(Transport::Mptcp))),
    ("quic4@", Prefix::Ip(Family::V4, Some(Transport::Quic))),
    ("quic6@", Prefix::Ip(Family::V6, Some(Transport::Quic))),
    ("rev@", Prefix::ReverseHttp),
    ("rhttp@", Prefix::ReverseHttp),
    ("ring@", Prefix::Ring),
    ("sockpair@", Prefix::SocketPair),
    ("tcp4@", Prefix::Ip(Family::V4, Some(Transport::Stream))),
    ("tcp6@", Prefix::Ip(Family::V6, Some(Transport::Stream))),
    ("tcp@", Prefix::Ip(Family::Any, Some(Transport::Stream))),
    ("udp4@", Prefix::Ip(Family::V4, Some(Transport::Datagram))),
    ("udp6@", Prefix::Ip(Family::V6, Some(Transport::Datagram))),
    ("udp@", Prefix::Ip(Family::Any, Some(Transport::Datagram))),
    ("unix@", Prefix::Unix(None)),
    ("uxdg@", Prefix::Unix(Some(Transport::Datagram))),
    ("uxst@", Prefix::Unix(Some(Transport::Stream))),
];

struct Parse<'a> {
    /// As written, for messages.
    given: &'a str,
    /// With variables replaced.
    text: &'a str,
    options: &'a AddressOptions,
    resolver: Resolver<'a>,
}

impl Parse<'_> {
    fn error(&self, message: String) -> AddressError {
        AddressError { message, help: None, range: 0..self.given.len() }
    }

    fn address(&self) -> Result<Address, AddressError> {
        let given = self.given;
        if self.text.is_empty() {
            let message = format!("'{given}' resolves to an empty address (environment variable missing?)");
            return Err(self.error(message));
        }
        let mut rest = self.text;
        let mut forced = None;
        for (word, transport) in
            [("stream+", Transport::Stream), ("dgram+", Transport::Datagram), ("quic+", Transport::Quic)]
        {
            if let Some(after) = rest.strip_prefix(word) {
                rest = after;
                forced = Some(transport);
                break;
            }
        }
        if self.options.log_targets {
            match rest {
                "stdout" => return Ok(Address::Stdout),
                "stderr" => return Ok(Address::Stderr),
                _ => {}
            }
        }
        let known = PREFIXES.iter().find(|(prefix, what)| {
            let meant_here = self.options.log_targets || !matches!(what, Prefix::Ring | Prefix::Backend);
            meant_here && rest.starts_with(prefix)
        });
        let transport = |own: Option<Transport>| {
            // `mptcp@` stays MPTCP behind `stream+`.
            if own == Some(Transport::Mptcp) && forced != Some(Transport::Datagram) {
                return Transport::Mptcp;
            }
            forced.or(own).unwrap_or(self.options.default_transport)
        };
        let address = match known {
            None if rest.starts_with('/') => self.unix(rest, transport(None))?,
            None => self.ip(rest, Family::Any, transport(None))?,
            Some((prefix, what)) => {
                let rest = &rest[prefix.len()..];
                match what {
                    Prefix::Ip(family, own) => self.ip(rest, *family, transport(*own))?,
                    Prefix::Unix(own) => self.unix(rest, transport(*own))?,
                    Prefix::Abstract { zero_terminated } => {
                        self.check_length(rest)?;
                        let (transport, name) = (transport(None), rest.to_string());
                        Address::Abstract { transport, name, zero_terminated: *zero_terminated }
                    }
                    Prefix::Descriptor => {
                        let fd = self.descriptor(rest)?;
                        if !self.options.descriptor {
                            let message = format!("a file descriptor is not acceptable here in '{given}'");
                            return Err(self.error(message));
                        }
                        Address::Descriptor { transport: transport(None), fd }
                    }
                    Prefix::SocketPair => {
                        let fd = self.descriptor(rest)?;
                        if !self.options.socket_pair {
                            let message = format!("a file descriptor is not acceptable here in '{given}'");
                            return Err(self.error(message));
                        }
                        Address::SocketPair { fd }
                    }
                    Prefix::ReverseHttp => {
                        if !self.options.reverse_http {
                            let message = format!("reverse HTTP address not acceptable in '{given}'");
                            return Err(self.error(message));
                        }
                        Address::ReverseHttp { name: rest.to_string() }
                    }
                    Prefix::Ring => Address::Ring { name: rest.to_string() },
                    Prefix::Backend => Address::Backend { name: rest.to_string() },
                }
            }
        };
        self.check_transport(&address)?;
        Ok(address)
    }

    fn check_transport(&self, address: &Address) -> Result<(), AddressError> {
        let given = self.given;
        let options = self.options;
        if matches!(
            address,
            Address::Ring { .. } | Address::Backend { .. } | Address::Stdout | Address::Stderr
        ) {
            return Ok(());
        }
        let message = match address.transport() {
            Transport::Stream | Transport::Mptcp if !options.stream => {
                format!("stream-type address not acceptable in '{given}'")
            }
            Transport::Datagram if !options.datagram => {
                format!("dgram-type address not acceptable in '{given}'")
            }
            Transport::Quic if !options.quic => {
                let family = match address {
                    Address::Ip { ip: IpAddr::V6(_), .. } | Address::Name { family: Family::V6, .. } => 10,
                    Address::Ip { .. } | Address::Name { .. } => 2,
                    _ => 1,
                };
                format!(
                    "unsupported stream protocol for datagram family {family} address '{given}'; QUIC is not \
                     compiled in if this is what you were looking for."
                )
            }
            _ => return Ok(()),
        };
        Err(self.error(message))
    }

    fn descriptor(&self, text: &str) -> Result<i32, AddressError> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| digits).ok_or_else(|| {
            let message = format!("file descriptor '{text}' is not a valid integer in '{}'", self.given);
            let mut error = self.error(message);
            if text.is_empty() {
                error.help = Some("give the number, or check that the variable that holds it exists".into());
            }
            error
        })
    }

    fn check_length(&self, path: &str) -> Result<(), AddressError> {
        if path.len() > UNIX_PATH_MAX {
            let message = format!("socket path '{path}' too long (max {UNIX_PATH_MAX})");
            return Err(self.error(message));
        }
        Ok(())
    }

    fn unix(&self, path: &str, transport: Transport) -> Result<Address, AddressError> {
        self.check_length(path)?;
        Ok(Address::Unix { transport, path: path.to_string() })
    }

    fn ip(&self, text: &str, family: Family, transport: Transport) -> Result<Address, AddressError> {
        // The last colon separates the port, even in an IPv6 address, unless that one ends with a bracket.
        let (host, port_text) = match text.rfind(':') {
            Some(colon) if !text.ends_with(']') => (&text[..colon], Some(&text[colon + 1..])),
            _ => (text, None),
        };
        let host_result = self.host(host, family);
        // The reference looks at the port first.
        let port = self.port(port_text, host, host_result.as_ref().ok().and_then(Option::as_ref))?;
        Ok(match host_result? {
            Some(ip) => Address::Ip { transport, ip, port },
            None => Address::Name { transport, family, name: host.to_string(), port },
        })
    }

    /// `None` is a name to resolve later.
    fn host(&self, host: &str, family: Family) -> Result<Option<IpAddr>, AddressError> {
        if host.is_empty() || host == "*" {
            return Ok(Some(match family {
                Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                Family::Any | Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            }));
        }
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        let literal = match bare {
            Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            None => host.parse().ok(),
        };
        let fits = |ip: &IpAddr| match family {
            Family::Any => true,
            Family::V4 => ip.is_ipv4(),
            Family::V6 => ip.is_ipv6(),
        };
        let invalid = || self.error(format!("invalid address: '{host}' in '{}'", self.given));
        if let Some(ip) = literal {
            return if fits(&ip) {
                Ok(Some(ip))
            } else if self.options.resolve {
                Err(invalid())
            } else {
                Ok(None)
            };
        }
        if !self.options.resolve {
            return Ok(None);
        }
        match (self.resolver)(host, family).filter(fits) {
            Some(ip) => Ok(Some(ip)),
            None => Err(self.unknown_host(host, invalid())),
        }
    }

    fn unknown_host(&self, host: &str, mut error: AddressError) -> AddressError {
        if let Some(at) = host.find('@') {
            let prefix = &host[..=at];
            let near = crate::suggest::did_you_mean(prefix, PREFIXES.iter().map(|(name, _)| *name));
            error.help = Some(match near {
                Some(near) => format!("'{prefix}' is not an address prefix; did you mean '{near}' maybe ?"),
                None => format!("'{prefix}' is not an address prefix"),
            });
        }
        error
    }

    fn port(&self, text: Option<&str>, host: &str, ip: Option<&IpAddr>) -> Result<PortSpec, AddressError> {
        let (given, options) = (self.given, self.options);
        let text = match text {
            None | Some("") => {
                if options.port_mandatory {
                    let mut error = self.error(format!("missing port specification in '{given}'"));
                    error.help = Some(match ip {
                        Some(IpAddr::V6(ip)) if ip.is_unspecified() || host.starts_with('[') => {
                            format!("write '[{ip}]:port'")
                        }
                        _ if host.ends_with(':') => "write ':::port' or '[::]:port'".to_string(),
                        _ => format!("write '{host}:port'"),
                    });
                    return Err(error);
                }
                return Ok(PortSpec::None);
            }
            Some(text) => text,
        };
        if !options.port {
            return Err(self.error(format!("port specification not permitted here in '{given}'")));
        }
        let number = |digits: &str| -> Result<u64, AddressError> {
            match digits.bytes().position(|b| !b.is_ascii_digit()) {
                Some(at) => {
                    let character = digits[at..].chars().next().unwrap_or('?');
                    let message =
                        format!("invalid character '{character}' in port number '{digits}' in '{given}'");
                    Err(self.error(message))
                }
                // Saturates: any number too large is refused below.
                None if digits.is_empty() => Ok(0),
                None => Ok(digits.parse().unwrap_or(u64::MAX)),
            }
        };
        if let Some(sign @ (b'+' | b'-')) = text.bytes().next() {
            if !options.port_offset {
                return Err(self.error(format!("port offset not permitted here in '{given}'")));
            }
            let value = number(&text[1..])?;
            let value =
                i32::try_from(value).map_err(|_| self.error(format!("invalid port offset '{text}'")))?;
            return Ok(PortSpec::Offset(if sign == b'-' { -value } else { value }));
        }
        let port = |digits: &str| -> Result<u16, AddressError> {
            let value = number(digits)?;
            match u16::try_from(value) {
                Ok(0) if options.port_mandatory => Err(self.error(format!("invalid port '{digits}'"))),
                Ok(value) => Ok(value),
                Err(_) => Err(self.error(format!("invalid port '{digits}'"))),
            }
        };
        match text.split_once('-') {
            None => Ok(PortSpec::Fixed(port(text)?)),
            Some((first, last)) => {
                if !options.port_range {
                    return Err(self.error(format!("port range not permitted here in '{given}'")));
                }
                let (low, high) = (port(first)?, port(last)?);
                match low.cmp(&high) {
                    std::cmp::Ordering::Less => Ok(PortSpec::Range(low, high)),
                    std::cmp::Ordering::Equal => Ok(PortSpec::Fixed(low)),
                    std::cmp::Ordering::Greater => {
                        let mut error = self.error(format!("invalid port range '{text}'"));
                        error.help = Some("the first port of a range must not be above the last".into());
                        Err(error)
                    }
                }
            }
        }
    }
}
