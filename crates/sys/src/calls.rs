//! Calls that a process which serves never makes, and that whoever takes it over would like to: seccomp (Linux 3.17 and later).
//!
//! The filter looks at the number of a call only. The kernel finds out once for each number that it is allowed, and remembers
//! that (since 5.11); a call then costs some 150 instructions more.

use std::io;

/// Refuses these calls to this thread, and to those that it starts, with `EPERM`. False if the kernel has no such filters.
///
/// # Errors
/// The process may still gain privileges (see [`crate::process::refuse_new_privileges`]).
pub fn refuse() -> io::Result<bool> {
    let program = program(REFUSED);
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let filter = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // Without this flag kernels before 5.16 slow down the whole process, against attacks from within it.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the kernel reads the program, as long as it is said to be, and keeps a copy.
    let done =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Not built in, or without that flag.
        Some(libc::ENOSYS | libc::EINVAL) => Ok(false),
        _ => Err(error),
    }
}

/// Tries one of these calls, for tests of the filter: one that changes nothing, and that everybody else may make.
///
/// # Errors
/// What the kernel answers.
pub fn try_one() -> io::Result<()> {
    const ASK: libc::c_ulong = 0xffff_ffff;
    // SAFETY: takes an integer only.
    match unsafe { libc::personality(ASK) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Running programs, looking into other processes, changing what the system is made of, and what kernels were mostly
/// broken with. What changes the process's own user, group and limits is not here, nor what it needs for its files and sockets.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_personality,
    libc::SYS_unshare,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_quotactl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
];

/// `AUDIT_ARCH_*` of the program itself: numbers of other kinds mean other calls.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// From here on the numbers of x86-64 are those of a second kind of calls, which nobody needs.
const SECOND_KIND: u32 = 0x4000_0000;

/// Where the kernel lays what a filter looks at (`seccomp_data`).
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

/// The program of a filter that refuses these calls and those of other kinds.
fn program(refused: &[libc::c_long]) -> Vec<libc::sock_filter> {
    let code = |class: u32| class as u16;
    let load = |at| libc::sock_filter {
        code: code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
        jt: 0,
        jf: 0,
        k: at,
    };
    let end =
        |verdict| libc::sock_filter { code: code(libc::BPF_RET | libc::BPF_K), jt: 0, jf: 0, k: verdict };
    // Goes over one instruction, or not, so that what is refused can be any distance away.
    let if_not =
        |test: u32, k| libc::sock_filter { code: code(libc::BPF_JMP | test | libc::BPF_K), jt: 0, jf: 1, k };
    let if_so =
        |test: u32, k| libc::sock_filter { code: code(libc::BPF_JMP | test | libc::BPF_K), jt: 1, jf: 0, k };
    let no = end(libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs());
    let mut program = vec![load(ARCHITECTURE_AT), if_so(libc::BPF_JEQ, ARCHITECTURE), no, load(NUMBER_AT)];
    program.extend([if_not(libc::BPF_JGE, SECOND_KIND), no]);
    for call in refused {
        program.extend([if_not(libc::BPF_JEQ, *call as u32), no]);
    }
    program.push(end(libc::SECCOMP_RET_ALLOW));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a thread of its own, so that the other tests of this process are not concerned.
    #[test]
    fn what_is_refused_is_refused() {
        let tried = std::thread::spawn(|| {
            crate::process::refuse_new_privileges().unwrap();
            if !refuse().unwrap() {
                eprintln!("skipped: this kernel has no filters of calls");
                return;
            }
            for call in REFUSED {
                // SAFETY: the filter answers before the kernel looks at any argument.
                let answer = unsafe { libc::syscall(*call, 0, 0, 0, 0, 0, 0) };
                let error = io::Error::last_os_error().raw_os_error();
                assert_eq!((answer, error), (-1, Some(libc::EPERM)), "call {call}");
            }
            let program = std::process::Command::new("/bin/true").status();
            assert_eq!(program.map_err(|e| e.kind()).map(drop), Err(io::ErrorKind::PermissionDenied));
            // What a process that serves does goes on.
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            drop(std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            assert!(!std::fs::read("/proc/self/stat").unwrap().is_empty());
            std::thread::spawn(|| ()).join().unwrap();
        });
        tried.join().unwrap();
    }

    /// A number of the second kind would be another name for a call that is refused.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn calls_of_other_kinds_are_refused() {
        let tried = std::thread::spawn(|| {
            crate::process::refuse_new_privileges().unwrap();
            if !refuse().unwrap() {
                return;
            }
            // SAFETY: takes no argument.
            let answer = unsafe { libc::syscall(i64::from(SECOND_KIND) + libc::SYS_getppid) };
            assert_eq!((answer, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
        });
        tried.join().unwrap();
    }
}
