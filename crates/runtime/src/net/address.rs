//! Socket addresses of every family that is supported.

use crate::driver::socket::ConnectAddress;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes available for a path or an abstract name (`sun_path` less the byte that ends or starts it).
pub const UNIX_NAME_MAX: usize = 107;

/// Where a socket is bound or connected.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SockAddr {
    /// IPv4 address and port.
    V4(SocketAddrV4),
    /// IPv6 address and port.
    V6(SocketAddrV6),
    /// A unix socket in the file system; empty for an unnamed one (the client's end, usually).
    Unix(Box<Path>),
    /// A unix socket in Linux' abstract name space, without the leading zero byte.
    Abstract(Box<[u8]>),
}

impl SockAddr {
    /// The unnamed unix address.
    pub fn unnamed() -> SockAddr {
        SockAddr::Unix(Path::new("").into())
    }

    /// The IP address, for the internet families.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            SockAddr::V4(a) => Some(IpAddr::V4(*a.ip())),
            SockAddr::V6(a) => Some(IpAddr::V6(*a.ip())),
            _ => None,
        }
    }

    /// The port, for the internet families.
    pub fn port(&self) -> Option<u16> {
        match self {
            SockAddr::V4(a) => Some(a.port()),
            SockAddr::V6(a) => Some(a.port()),
            _ => None,
        }
    }

    /// Sets the port; unix addresses are left alone.
    pub fn set_port(&mut self, port: u16) {
        match self {
            SockAddr::V4(a) => a.set_port(port),
            SockAddr::V6(a) => a.set_port(port),
            _ => {}
        }
    }

    /// The standard library's form, for the internet families.
    pub fn to_std(&self) -> Option<SocketAddr> {
        match self {
            SockAddr::V4(a) => Some(SocketAddr::V4(*a)),
            SockAddr::V6(a) => Some(SocketAddr::V6(*a)),
            _ => None,
        }
    }

    /// Whether it is a unix address of either kind.
    pub fn is_unix(&self) -> bool {
        matches!(self, SockAddr::Unix(_) | SockAddr::Abstract(_))
    }

    /// An IPv4-mapped IPv6 address as the IPv4 address it means; anything else unchanged.
    pub fn unmapped(self) -> SockAddr {
        match &self {
            SockAddr::V6(a) => match a.ip().to_ipv4_mapped() {
                Some(v4) => SockAddr::V4(SocketAddrV4::new(v4, a.port())),
                None => self,
            },
            _ => self,
        }
    }

    pub(crate) fn family(&self) -> i32 {
        match self {
            SockAddr::V4(_) => libc::AF_INET,
            SockAddr::V6(_) => libc::AF_INET6,
            _ => libc::AF_UNIX,
        }
    }

    /// The kernel's form.
    ///
    /// # Errors
    /// When a unix name is longer than [`UNIX_NAME_MAX`] bytes.
    pub(crate) fn to_raw(&self) -> std::io::Result<ConnectAddress> {
        // SAFETY: all-zero bytes are valid for these C structures.
        let mut raw: ConnectAddress = unsafe { std::mem::zeroed() };
        match self {
            SockAddr::V4(a) => {
                // SAFETY: `sockaddr_storage` is large enough and aligned for every address structure.
                let sin = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in>() };
                sin.sin_family = libc::AF_INET as u16;
                sin.sin_port = a.port().to_be();
                sin.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                raw.len = size_of::<libc::sockaddr_in>() as u32;
            }
            SockAddr::V6(a) => {
                // SAFETY: as above.
                let sin = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_in6>() };
                sin.sin6_family = libc::AF_INET6 as u16;
                sin.sin6_port = a.port().to_be();
                sin.sin6_addr.s6_addr = a.ip().octets();
                sin.sin6_flowinfo = a.flowinfo();
                sin.sin6_scope_id = a.scope_id();
                raw.len = size_of::<libc::sockaddr_in6>() as u32;
            }
            SockAddr::Unix(path) => fill_unix(&mut raw, path.as_os_str().as_bytes(), false)?,
            SockAddr::Abstract(name) => fill_unix(&mut raw, name, true)?,
        }
        Ok(raw)
    }

    pub(crate) fn from_raw(raw: &ConnectAddress) -> SockAddr {
        match i32::from(raw.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which structure it is, and the storage is large enough for each.
                let sin = unsafe { &*(&raw const raw.storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes());
                SockAddr::V4(SocketAddrV4::new(ip, u16::from_be(sin.sin_port)))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let sin = unsafe { &*(&raw const raw.storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(sin.sin6_addr.s6_addr);
                SockAddr::V6(SocketAddrV6::new(
                    ip,
                    u16::from_be(sin.sin6_port),
                    sin.sin6_flowinfo,
                    sin.sin6_scope_id,
                ))
            }
            _ => {
                // SAFETY: as above.
                let sun = unsafe { &*(&raw const raw.storage).cast::<libc::sockaddr_un>() };
                let len = (raw.len as usize).saturating_sub(size_of::<libc::sa_family_t>()).min(108);
                let name: Vec<u8> = sun.sun_path[..len].iter().map(|c| c.to_ne_bytes()[0]).collect();
                match name.split_first() {
                    None => SockAddr::unnamed(),
                    Some((0, rest)) => SockAddr::Abstract(rest.into()),
                    Some(_) => {
                        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
                        SockAddr::Unix(Path::new(std::ffi::OsStr::from_bytes(&name[..end])).into())
                    }
                }
            }
        }
    }
}

fn fill_unix(raw: &mut ConnectAddress, name: &[u8], is_abstract: bool) -> std::io::Result<()> {
    if name.len() > UNIX_NAME_MAX {
        return Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            format!("a unix socket's name has at most {UNIX_NAME_MAX} bytes, this one has {}", name.len()),
        ));
    }
    // SAFETY: `sockaddr_storage` is large enough and aligned for every address structure.
    let sun = unsafe { &mut *(&raw mut raw.storage).cast::<libc::sockaddr_un>() };
    sun.sun_family = libc::AF_UNIX as u16;
    let skip = usize::from(is_abstract);
    for (to, from) in sun.sun_path[skip..].iter_mut().zip(name) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    // A path is counted with the zero byte that ends it, an abstract name with the one that starts it.
    raw.len =
        (size_of::<libc::sa_family_t>() + name.len() + usize::from(is_abstract || !name.is_empty())) as u32;
    Ok(())
}

impl From<SocketAddr> for SockAddr {
    fn from(a: SocketAddr) -> Self {
        match a {
            SocketAddr::V4(a) => SockAddr::V4(a),
            SocketAddr::V6(a) => SockAddr::V6(a),
        }
    }
}

impl From<SocketAddrV4> for SockAddr {
    fn from(a: SocketAddrV4) -> Self {
        SockAddr::V4(a)
    }
}

impl From<SocketAddrV6> for SockAddr {
    fn from(a: SocketAddrV6) -> Self {
        SockAddr::V6(a)
    }
}

impl fmt::Display for SockAddr {
    /// `192.0.2.1:80`, `[2001:db8::1]:80`, `unix@/path`, `abns@name`; an unnamed unix address is `unix@`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SockAddr::V4(a) => a.fmt(f),
            SockAddr::V6(a) => write!(f, "[{}]:{}", a.ip(), a.port()),
            SockAddr::Unix(path) => write!(f, "unix@{}", path.display()),
            SockAddr::Abstract(name) => write!(f, "abns@{}", String::from_utf8_lossy(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_survives_the_kernels_form() {
        let all = [
            (SockAddr::from("192.0.2.1:80".parse::<SocketAddr>().unwrap()), "192.0.2.1:80"),
            (SockAddr::from("[2001:db8::1]:443".parse::<SocketAddr>().unwrap()), "[2001:db8::1]:443"),
            (SockAddr::Unix(Path::new("/run/x.sock").into()), "unix@/run/x.sock"),
            (SockAddr::Abstract((*b"name").into()), "abns@name"),
            (SockAddr::unnamed(), "unix@"),
        ];
        for (address, text) in all {
            let raw = address.to_raw().unwrap();
            assert_eq!(SockAddr::from_raw(&raw), address);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn long_unix_names_are_refused() {
        let name = vec![b'x'; UNIX_NAME_MAX + 1];
        assert!(SockAddr::Abstract(name.clone().into()).to_raw().is_err());
        assert!(SockAddr::Abstract(name[..UNIX_NAME_MAX].into()).to_raw().is_ok());
    }

    #[test]
    fn mapped_addresses_are_unmapped() {
        let mapped = SockAddr::from("[::ffff:192.0.2.7]:80".parse::<SocketAddr>().unwrap());
        assert_eq!(mapped.unmapped().to_string(), "192.0.2.7:80");
    }
}
