//! Host names, through the system's resolver.

use std::net::{IpAddr, ToSocketAddrs};

use thalweg_syntax::address::Family;
use thalweg_syntax::{Address, AddressOptions, AddressParser, Diagnostic, Line};

use crate::build::Cx;
use crate::keyword::NoteBoxed;

/// The first address of a name in a family, as the system answers.
pub fn system_resolver(name: &str, family: Family) -> Option<IpAddr> {
    let addresses = (name, 0).to_socket_addrs().ok()?;
    addresses.map(|a| a.ip()).find(|ip| match family {
        Family::Any => true,
        Family::V4 => ip.is_ipv4(),
        Family::V6 => ip.is_ipv6(),
    })
}

/// What is wrong with a descriptor as a listening socket: nobody opened it, or it is something else.
pub fn inherited_socket(fd: i32) -> Result<(), &'static str> {
    match std::fs::read_link(format!("/proc/self/fd/{fd}")) {
        Ok(target) if target.as_os_str().as_encoded_bytes().starts_with(b"socket:") => Ok(()),
        Ok(_) => Err("Socket operation on non-socket"),
        Err(_) if std::path::Path::new("/proc/self/fd").exists() => Err("Bad file descriptor"),
        // Where descriptors cannot be looked at, the start tells.
        Err(_) => Ok(()),
    }
}

/// Reads one address. `prefix` begins the message, as in `'bind' : `.
pub(crate) fn address(
    cx: &Cx<'_>,
    line: &Line,
    index: usize,
    options: &AddressOptions,
    prefix: &str,
) -> Result<Address, Box<Diagnostic>> {
    let parser = AddressParser::new(&cx.reader.environment, &cx.options.resolver);
    parser.parse(line.text(index), options).map_err(|e| complain(line, index, prefix, e))
}

/// Reads a list of addresses.
pub(crate) fn addresses(
    cx: &Cx<'_>,
    line: &Line,
    index: usize,
    options: &AddressOptions,
    prefix: &str,
) -> Result<Vec<Address>, Box<Diagnostic>> {
    let parser = AddressParser::new(&cx.reader.environment, &cx.options.resolver);
    parser.parse_list(line.text(index), options).map_err(|e| complain(line, index, prefix, e))
}

fn complain(
    line: &Line,
    index: usize,
    prefix: &str,
    error: thalweg_syntax::address::AddressError,
) -> Box<Diagnostic> {
    let span = line.word(index).map_or_else(|| line.span_at(index), |w| w.span_of(error.range.clone()));
    let diagnostic = Box::new(Diagnostic::alert_at(span, format!("{prefix}{}", error.message)));
    match error.help {
        Some(help) => diagnostic.help_boxed(help),
        None => diagnostic,
    }
}
