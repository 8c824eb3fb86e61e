//! What a process does to itself: become a daemon, give up privileges, change its limits.

use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Turns the return value of a C function into a result.
pub(crate) fn check(value: libc::c_int) -> io::Result<()> {
    if value == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A child process was made by [`fork_daemon`], or this is the child.
#[derive(Debug)]
pub enum Forked {
    /// This is the original process.
    Parent(Child),
    /// This is the child, in a session of its own.
    Child(Ready),
}

/// The child, as its parent knows it.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    ready: PipeReader,
}

impl Child {
    /// Waits until the child [serves](Ready::tell), which is true, or has ended before, which is false.
    pub fn wait(mut self) -> bool {
        self.ready.read_exact(&mut [0]).is_ok()
    }
}

/// The child's way to tell its parent that all went well.
#[derive(Debug)]
pub struct Ready(PipeWriter);

impl Ready {
    /// Lets the parent exit with success. A parent that was killed meanwhile does not need to know.
    pub fn tell(mut self) {
        let _ = self.0.write_all(&[1]);
    }
}

/// Makes a child process that belongs to no terminal. Once the parent has [seen](Child::wait) what became of it, it should
/// exit at once without running destructors.
///
/// Fails, without forking, when this process has more than one thread: the child would have only the calling one,
/// and any lock held by another would stay locked for ever.
pub fn fork_daemon() -> io::Result<Forked> {
    if thread_count()? > 1 {
        return Err(io::Error::other("a process with several threads cannot become a daemon"));
    }
    let (reader, writer) = io::pipe()?;
    // SAFETY: the process has a single thread, as checked above, so that the child is an exact copy of it and may do
    // anything the parent could.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: no pointer is involved. It fails only in a process group leader, which a new child is not.
            check(unsafe { libc::setsid() })?;
            Ok(Forked::Child(Ready(writer)))
        }
        // The writer is closed here: its other copy tells when the child ends.
        pid => Ok(Forked::Parent(Child { pid: pid.unsigned_abs(), ready: reader })),
    }
}

/// How many threads this process has.
pub fn thread_count() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")?.count())
}

/// Opens `/dev/null` for [`close_terminal`], which may come when the root directory has none.
pub fn nowhere() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// Connects the standard input, output and error to [`nowhere`], as a daemon has no terminal.
pub fn close_terminal(null: File) -> io::Result<()> {
    for standard in 0..=2 {
        // SAFETY: both are plain integers; `null` is open during the call. The three standard descriptors belong to
        // nobody else by convention: std only borrows them.
        check(unsafe { libc::dup2(null.as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// Makes `directory` the root of the file system for this process, and its current directory.
pub fn enter_root(directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    // SAFETY: `path` is NUL-terminated and outlives the call.
    check(unsafe { libc::chroot(path.as_ptr()) })?;
    std::env::set_current_dir("/")
}

/// Makes an empty directory that has no name the root of the file system for this process: nobody else finds it, and nothing can be
/// made in it.
pub fn enter_empty_root() -> io::Result<()> {
    let template = std::env::temp_dir().join("thalweg.XXXXXX");
    let mut path = CString::new(template.as_os_str().as_bytes())?.into_bytes_with_nul();
    // SAFETY: `path` ends with a NUL, outlives the call, and is as long as what it becomes.
    if unsafe { libc::mkdtemp(path.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    path.pop();
    let path = Path::new(OsStr::from_bytes(&path));
    let entered = std::env::set_current_dir(path);
    std::fs::remove_dir(path)?;
    entered?;
    enter_root(Path::new("."))
}

/// Leaves all supplementary groups.
pub fn drop_groups() -> io::Result<()> {
    // SAFETY: a count of 0 reads nothing from the pointer.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })
}

/// Becomes a member of this group only, for ever when the process is privileged.
pub fn set_group(gid: u32) -> io::Result<()> {
    // SAFETY: no pointer is involved.
    check(unsafe { libc::setgid(gid) })
}

/// Becomes this user, for ever when the process is privileged.
pub fn set_user(uid: u32) -> io::Result<()> {
    // SAFETY: no pointer is involved.
    check(unsafe { libc::setuid(uid) })
}

/// The user this process acts as.
pub fn effective_user() -> u32 {
    // SAFETY: always succeeds.
    unsafe { libc::geteuid() }
}

/// Whether the process may gain privileges by executing a set-uid program; once refused it stays refused.
pub fn refuse_new_privileges() -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// Lets the process leave a core file even though it changed its user.
pub fn set_dumpable() -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })
}

/// A limit of the system: the one in force, and how far the process itself may raise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// In force now.
    pub soft: u64,
    /// May be raised to this without privileges.
    pub hard: u64,
}

fn limit(resource: libc::__rlimit_resource_t) -> io::Result<Limit> {
    let mut value = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `value` is writable for the call.
    check(unsafe { libc::getrlimit(resource, &mut value) })?;
    Ok(Limit { soft: value.rlim_cur, hard: value.rlim_max })
}

fn set_limit(resource: libc::__rlimit_resource_t, limit: Limit) -> io::Result<()> {
    let value = libc::rlimit { rlim_cur: limit.soft, rlim_max: limit.hard };
    // SAFETY: `value` is readable for the call.
    check(unsafe { libc::setrlimit(resource, &value) })
}

/// How many files may be open.
pub fn file_limit() -> io::Result<Limit> {
    limit(libc::RLIMIT_NOFILE)
}

/// Changes how many files may be open.
pub fn set_file_limit(limit: Limit) -> io::Result<()> {
    set_limit(libc::RLIMIT_NOFILE, limit)
}

/// Changes how nice the calling thread is, and those that it begins: -20 to 19, less is served first. Less than now needs a privilege.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes integers only.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// How much later than others a thread is served that gives way to them.
const GIVEN_WAY: i32 = 10;

/// The same of one that somebody waits for: half as much of a processor as a thread that is not nicer.
const GIVEN_A_LITTLE: i32 = 3;

/// Has the calling thread give way to those that serve: what it does takes long, and is urgent to nobody. It is for good, and
/// for threads that it begins, too.
pub fn give_way() {
    become_nicer(GIVEN_WAY);
}

/// The same, but somebody waits for it: where all processors are busy it gets on.
pub fn give_way_a_little() {
    become_nicer(GIVEN_A_LITTLE);
}

fn become_nicer(by: i32) {
    // Without it the thread does as well, in others' time.
    let _ = set_nice((nice() + by).min(19));
}

/// How nice the calling thread is.
fn nice() -> i32 {
    // SAFETY: takes integers only.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Makes the kernel allocate the table of files of this process at once, for `files` of them.
pub fn allocate_file_table(files: u64) -> io::Result<()> {
    let last = i32::try_from(files.saturating_sub(1)).unwrap_or(i32::MAX);
    // SAFETY: copies standard error to a number that is free, `last` or above, and takes integers only.
    let copy = unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, last) };
    check(copy.min(0))?;
    // SAFETY: the descriptor was made just above and nobody else knows its number.
    check(unsafe { libc::close(copy) })
}

/// How many bytes of data the process may have: what it allocates, not what it maps from files.
pub fn set_memory_limit(bytes: u64) -> io::Result<()> {
    set_limit(libc::RLIMIT_DATA, Limit { soft: bytes, hard: bytes })
}

/// Lets core files be as large as they come.
pub fn unlimit_core() -> io::Result<()> {
    set_limit(libc::RLIMIT_CORE, Limit { soft: libc::RLIM_INFINITY, hard: libc::RLIM_INFINITY })
}

/// The system as `uname -srvm` shows it.
pub fn system_description() -> String {
    // SAFETY: all-zero bytes are a valid utsname: arrays of characters.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is writable for the call.
    if unsafe { libc::uname(&mut name) } == -1 {
        return "unknown".into();
    }
    let text = |field: &[libc::c_char]| -> String {
        field.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect()
    };
    [text(&name.sysname), text(&name.release), text(&name.version), text(&name.machine)].join(" ")
}

/// The name of this host, as `hostname` shows it.
pub fn host_name() -> String {
    // SAFETY: all-zero bytes are a valid utsname: arrays of characters.
    let mut name: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is writable for the call.
    if unsafe { libc::uname(&mut name) } == -1 {
        return "localhost".into();
    }
    name.nodename.iter().take_while(|c| **c != 0).map(|c| char::from(*c as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gives_way_and_others_do_not() {
        let before = nice();
        for (give, by) in [(give_way as fn(), GIVEN_WAY), (give_way_a_little, GIVEN_A_LITTLE)] {
            let given = std::thread::spawn(move || {
                give();
                nice()
            });
            assert_eq!((given.join().unwrap(), nice()), ((before + by).min(19), before));
        }
    }

    #[test]
    fn this_process_is_described() {
        assert!(thread_count().unwrap() >= 1);
        let limit = file_limit().unwrap();
        assert!(limit.soft > 0 && limit.soft <= limit.hard);
        set_file_limit(limit).unwrap();
        assert!(system_description().starts_with("Linux "));
        assert!(!host_name().is_empty());
    }

    #[test]
    fn a_process_with_threads_does_not_fork() {
        // The test harness itself runs this in a second thread.
        assert!(fork_daemon().is_err());
    }

    #[test]
    fn a_root_that_does_not_exist_is_an_error() {
        assert!(enter_root(Path::new("/no/such/directory")).is_err());
        assert!(enter_root(Path::new("a\0b")).is_err());
    }
}
