//! What a service manager is told (`-Ws`): datagrams to the socket that NOTIFY_SOCKET names, as sd_notify(3) has them.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Tells the service manager, or nobody.
#[derive(Default)]
pub struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often the service manager wants to hear that all is well, at least.
    pub watchdog: Option<Duration>,
}

impl Notify {
    /// The service manager that started this process, if one did.
    pub fn from_environment() -> Notify {
        let Some(to) = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address(&name)) else {
            return Notify::default();
        };
        let microseconds = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse::<u64>().ok());
        let watchdog = microseconds.filter(|us| *us > 0).map(|us| Duration::from_micros(us) / 2);
        let to = UnixDatagram::unbound().ok().map(|socket| (socket, to));
        Notify { to, watchdog }
    }

    fn tell(&self, text: &str) {
        if let Some((socket, to)) = &self.to {
            // A service manager that does not listen does not want to know.
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }

    /// The service serves.
    pub fn ready(&self) {
        self.tell(&format!("READY=1\nMAINPID={}\nSTATUS=Ready.\n", std::process::id()));
    }

    /// A new configuration is being read.
    pub fn reloading(&self) {
        let now = thalweg_sys::time::monotonic_us();
        self.tell(&format!("RELOADING=1\nSTATUS=Reloading Configuration.\nMONOTONIC_USEC={now}\n"));
    }

    /// The new configuration is not used.
    pub fn reload_failed(&self) {
        self.tell("READY=1\nSTATUS=Reload failed!\n");
    }

    /// The service is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// All is well.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }
}

/// A path, or a name of its own kind behind `@`.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest).ok(),
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        _ => None,
    }
}
