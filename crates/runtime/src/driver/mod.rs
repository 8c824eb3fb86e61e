//! Placeholder until the drivers land: an eventfd that can be waited on.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Which driver to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// The best the kernel allows.
    #[default]
    Auto,
    /// io_uring.
    Uring,
    /// epoll.
    Epoll,
}

/// Settings of a driver.
#[derive(Clone, Debug, Default)]
pub struct DriverOptions {}

/// How long a poll may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Now,
    /// At most this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

/// What a poll did.
#[derive(Clone, Copy, Debug, Default)]
pub struct PollStats {}

/// A thread's I/O driver.
pub struct Driver {
    event: Arc<std::os::fd::OwnedFd>,
}

impl Driver {
    /// Opens a driver.
    pub fn new(_kind: DriverKind, _opts: &DriverOptions) -> io::Result<Driver> {
        // SAFETY: eventfd takes no pointer; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is open and owned by nobody else.
        Ok(Driver { event: Arc::new(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }) })
    }

    /// The driver's name.
    pub fn kind_name(&self) -> &'static str {
        "placeholder"
    }

    /// Waits at most `wait`.
    pub fn poll(&mut self, wait: Wait) -> io::Result<PollStats> {
        use std::os::fd::AsRawFd;
        let ts;
        let ts_ptr = match wait {
            Wait::Forever => std::ptr::null(),
            Wait::Now => return Ok(PollStats {}),
            Wait::For(d) => {
                ts = libc::timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos() as i64 };
                &ts as *const _
            }
        };
        let mut pfd = libc::pollfd { fd: self.event.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: both pointers are valid for the call.
        let r = unsafe { libc::ppoll(&mut pfd, 1, ts_ptr, std::ptr::null()) };
        if r > 0 {
            let mut v = 0u64;
            // SAFETY: eight writable bytes.
            unsafe { libc::read(pfd.fd, (&mut v as *mut u64).cast(), 8) };
        }
        Ok(PollStats {})
    }

    /// A handle that wakes this thread out of [`Driver::poll`].
    pub fn remote_waker(&self) -> RemoteWaker {
        RemoteWaker { event: self.event.clone() }
    }
}

/// Wakes a thread out of its poll; usable from any thread.
#[derive(Clone)]
pub struct RemoteWaker {
    event: Arc<std::os::fd::OwnedFd>,
}

impl RemoteWaker {
    /// Wakes the thread.
    pub fn wake(&self) {
        use std::os::fd::AsRawFd;
        let v = 1u64;
        // SAFETY: eight readable bytes.
        unsafe { libc::write(self.event.as_raw_fd(), (&v as *const u64).cast(), 8) };
    }
}

thread_local! {
    static DRIVER: RefCell<Option<Driver>> = const { RefCell::new(None) };
}

/// Makes `driver` this thread's driver; returns the previous one.
pub fn install(driver: Driver) -> Option<Driver> {
    DRIVER.with(|d| d.borrow_mut().replace(driver))
}

/// Removes this thread's driver.
pub fn uninstall() -> Option<Driver> {
    DRIVER.with(|d| d.borrow_mut().take())
}

/// Calls `f` with this thread's driver. Panics if none is installed.
pub fn with<R>(f: impl FnOnce(&mut Driver) -> R) -> R {
    DRIVER.with(|d| f(d.borrow_mut().as_mut().expect("no driver is installed on this thread")))
}
