//! What the process does to itself on its way to serving: limits, pid file, daemon, root directory, user.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use thalweg_syntax::source::os_message;
use thalweg_sys::calls;
use thalweg_sys::capabilities::Capabilities;
use thalweg_sys::directory::Directory;
use thalweg_sys::process::{self as sys, Limit};
use thalweg_sys::sandbox::{Refused, enter};

use crate::limits::{Demand, advisable_maxconn, wanted};
use crate::program::Program;
use crate::report::Reporter;

/// `chroot auto`: an empty directory that nobody else finds.
const EMPTY_ROOT: &str = "auto";

/// What the configuration says about the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// `chroot`; [`EMPTY_ROOT`] is none that has a name.
    pub root: Option<PathBuf>,
    /// `user` or `uid`.
    pub user: Option<u32>,
    /// `group` or `gid`.
    pub group: Option<u32>,
    /// `set-dumpable`.
    pub dumpable: bool,
    /// `setcap`.
    pub kept: Capabilities,
    /// `insecure-setuid-wanted`.
    pub may_gain_privileges: bool,
    /// What is refused to the process from its start on, whoever it is (`sandbox`).
    pub sandbox: Option<Confinement>,
}

/// Raises the limit of open files to what is needed. `strict` (`strict-limits`) makes failure fatal.
pub fn raise_file_limit(
    demand: &Demand,
    strict: bool,
    program: &Program,
    reporter: &mut Reporter,
) -> Result<(), ()> {
    let Ok(current) = sys::file_limit() else { return Ok(()) };
    let limit = wanted(demand, current);
    if limit.soft <= current.soft || sys::set_file_limit(limit).is_ok() {
        return Ok(());
    }
    // Not allowed to go that far: as far as possible.
    let _ = sys::set_file_limit(Limit { soft: current.hard, hard: current.hard });
    if current.hard >= demand.descriptors {
        return Ok(());
    }
    let message = format!(
        "[{}.main()] Cannot raise FD limit to {}, current limit is {} and hard limit is {}. Without 'maxconn' and \
         'ulimit-n' in the global section, the limit is adjusted automatically ('fd-hard-limit' bounds it); \
         otherwise about {} connections fit here.",
        program.name,
        limit.soft,
        current.soft,
        current.hard,
        advisable_maxconn(current.hard),
    );
    if strict {
        reporter.alert(&message);
        return Err(());
    }
    reporter.warning(&message);
    reporter.alert(&format!(
        "[{}.main()] FD limit ({}) too low for maxconn={}/maxsock={}. Please raise 'ulimit-n' to {} or more to avoid \
         any trouble.",
        program.name, current.hard, demand.maxconn, demand.descriptors, demand.descriptors
    ));
    Ok(())
}

/// A pid file that was opened while that was still possible.
#[derive(Debug)]
pub struct PidFile(File);

impl PidFile {
    /// Creates it, empty, before privileges and the root directory change.
    pub fn create(path: &Path) -> Result<PidFile, String> {
        // Opened for both directions, a pipe in its place does not make this wait for a reader.
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map(PidFile)
            .map_err(|error| format!("Cannot create pidfile {} : {}", path.display(), os_message(&error)))
    }

    /// Writes the id of this process, on a line of its own.
    pub fn write(mut self) -> io::Result<()> {
        writeln!(self.0, "{}", std::process::id())
    }
}

/// What is refused to a process that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// Of its files.
    pub files: Refused,
    /// And the calls that it never makes.
    pub calls: bool,
}

/// Makes sure that the root directory can be entered, while a failure still leaves the old process in charge.
pub fn check_root(privileges: &Privileges, program: &Program) -> Result<(), String> {
    let Some(root) = privileges.root.as_deref().filter(|root| *root != Path::new(EMPTY_ROOT)) else {
        return Ok(());
    };
    let problem = match std::fs::metadata(root) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "Not a directory".to_string(),
        Err(error) => os_message(&error),
    };
    Err(format!("[{}.main()] Cannot chroot({}) : {problem}.", program.path, root.display()))
}

/// Enters the root directory and becomes the user and group of the configuration. Of files, only those of `state_dir` can be written
/// in the sandbox. The message is for an alert, or for a warning where the process can do without.
pub fn drop_privileges(
    privileges: &Privileges,
    program: &Program,
    state_dir: Option<&Directory>,
) -> Result<Option<String>, String> {
    let failed = |what: String, error: io::Error| {
        format!("[{}.main()] Cannot {what} : {}.", program.path, os_message(&error))
    };
    if let Some(root) = &privileges.root {
        thalweg_sys::time::learn_zone();
        let entered =
            if root == Path::new(EMPTY_ROOT) { sys::enter_empty_root() } else { sys::enter_root(root) };
        entered.map_err(|e| failed(format!("chroot({})", root.display()), e))?;
    }
    if let Some(gid) = privileges.group {
        // Supplementary groups of the caller would keep rights the configuration does not mention. Without the
        // privilege to leave them there is nothing to fear from them either.
        if sys::effective_user() == 0 {
            sys::drop_groups().map_err(|e| failed("leave supplementary groups".into(), e))?;
        }
        sys::set_group(gid).map_err(|e| failed(format!("set gid {gid}"), e))?;
    }
    let was_root = sys::effective_user() == 0;
    if !privileges.kept.is_empty() && was_root {
        Capabilities::survive_change_of_user().map_err(|e| failed("keep capabilities".into(), e))?;
    }
    if let Some(uid) = privileges.user {
        sys::set_user(uid).map_err(|e| failed(format!("set uid {uid}"), e))?;
    }
    let mut warning = None;
    // Root that stays root has them all.
    if !privileges.kept.is_empty() && sys::effective_user() != 0 {
        match privileges.kept.keep_only() {
            Ok(()) => {}
            Err(error) if was_root => return Err(failed("keep the capabilities of 'setcap'".into(), error)),
            // Whoever started it did not have them to give.
            Err(error) => warning = Some(failed("get the capabilities of 'setcap'".into(), error)),
        }
    }
    if !privileges.may_gain_privileges {
        sys::refuse_new_privileges().map_err(|e| failed("refuse new privileges".into(), e))?;
    }
    // Nobody who may gain privileges can be kept in it.
    if let Some(sandbox) = privileges.sandbox.filter(|_| !privileges.may_gain_privileges) {
        let entered = enter(sandbox.files, state_dir)
            .and_then(|_| if sandbox.calls { calls::refuse() } else { Ok(false) });
        entered.map_err(|e| failed("enter the sandbox ('sandbox off' does without)".into(), e))?;
        #[cfg(debug_assertions)]
        plant_escape();
    }
    if privileges.dumpable {
        // A core file is a convenience: a system that refuses it must not prevent the service.
        let _ = sys::unlimit_core();
        let _ = sys::set_dumpable();
    }
    Ok(warning)
}

/// For the test of the sandbox, in builds with assertions only: does what an intruder would, and says how that went.
#[cfg(debug_assertions)]
fn plant_escape() {
    let Some(directory) = std::env::var_os("THALWEG_PLANTED_ESCAPE") else { return };
    // From a thread, as traffic would.
    let tried = std::thread::spawn(move || {
        let written = File::create(Path::new(&directory).join("planted")).map(drop);
        let run = std::process::Command::new("/bin/sh").args(["-c", "true"]).status().map(drop);
        let looked = calls::try_one();
        let [written, run, looked] = [written, run, looked].map(|tried| tried.map_err(|e| e.kind()));
        eprintln!("planted: open {written:?}, exec {run:?}, look {looked:?}");
    });
    // It has said what there is to say.
    let _ = tried.join();
}

/// Warns about running with more rights than needed. These warnings come after the configuration was accepted, so
/// that `-dW` does not count them.
pub fn advise(privileges: &Privileges, program: &Program, reporter: &mut Reporter) {
    if sys::effective_user() != 0 {
        return;
    }
    if privileges.root.is_none() {
        reporter.warning(&format!(
            "[{}.main()] started as root without any 'chroot' directive: an intruder would see the whole file system. \
             Point 'chroot' at an empty directory in the global section, or say 'chroot /' if this is intended.",
            program.path
        ));
    }
    if privileges.user.is_none() {
        reporter.warning(&format!(
            "[{}.main()] started as root without 'user' or 'uid' in the global section: the process keeps all its \
             privileges. Name an unprivileged user, or say 'uid 0' if this is intended.",
            program.path
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_holds_the_pid() {
        let path = std::env::temp_dir().join(format!("thalweg-pid-{}", std::process::id()));
        PidFile::create(&path).unwrap().write().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(text, format!("{}\n", std::process::id()));
        let error = PidFile::create(Path::new("/no/such/dir/pid")).unwrap_err();
        assert_eq!(error, "Cannot create pidfile /no/such/dir/pid : No such file or directory");
    }

    #[test]
    fn a_root_that_does_not_exist_is_named() {
        let program = Program::from_arg0(Some("/usr/sbin/haproxy".into()));
        let wanted = Privileges { root: Some("/no/such/root".into()), ..Privileges::default() };
        let expected = "[/usr/sbin/haproxy.main()] Cannot chroot(/no/such/root) : No such file or directory.";
        assert_eq!(check_root(&wanted, &program).unwrap_err(), expected);
        assert_eq!(drop_privileges(&wanted, &program, None).unwrap_err(), expected);
        let file = Privileges { root: Some("/etc/passwd".into()), ..Privileges::default() };
        assert!(
            check_root(&file, &program)
                .unwrap_err()
                .ends_with("Cannot chroot(/etc/passwd) : Not a directory.")
        );
        assert_eq!(check_root(&Privileges::default(), &program), Ok(()));
    }
}
