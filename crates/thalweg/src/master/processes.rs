//! The processes that a master knows: itself, the worker that serves, the one that is starting, and those that finish.

use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thalweg_sys::child::Exit;

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It reads its configuration, and does not serve yet.
    Starting,
    /// It serves.
    Current,
    /// Another one serves; it finishes what it has.
    Former,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct Worker {
    pub pid: u32,
    pub role: Role,
    /// The master's end of the link.
    pub link: Arc<OwnedFd>,
    /// When it was started.
    pub since: SystemTime,
    /// Reloads since then.
    pub reloads: u32,
    /// It may be told to reload in place. Not known of one that an earlier program of this process started: it is replaced.
    pub follows: bool,
    /// The version of its program.
    pub version: String,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Its end of the link is closed.
    pub silent: bool,
}

/// What a master knows.
#[derive(Clone, Debug)]
pub struct Processes {
    /// When the master was started.
    pub since: SystemTime,
    /// Reloads since then.
    pub reloads: u32,
    /// The last reloads, as far as they failed one after the other.
    pub failed: u32,
    /// All workers, in the order in which they were started.
    pub workers: Vec<Worker>,
    /// What was said in the last start or reload.
    pub log: String,
}

impl Processes {
    /// Of a master that was just started.
    pub fn new() -> Processes {
        Processes { since: SystemTime::now(), reloads: 0, failed: 0, workers: Vec::new(), log: String::new() }
    }

    /// The worker in this role; there is at most one but for [`Role::Former`].
    pub fn in_role(&self, role: Role) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.role == role)
    }

    /// The worker with this process id.
    pub fn by_pid(&self, pid: u32) -> Option<&Worker> {
        self.workers.iter().find(|worker| worker.pid == pid)
    }

    /// A new worker serves: the one that did is a former one, and all have seen a reload.
    pub fn promote(&mut self, pid: u32) {
        for worker in &mut self.workers {
            if worker.pid == pid {
                worker.role = Role::Current;
            } else {
                if worker.role == Role::Current {
                    worker.role = Role::Former;
                }
                worker.reloads += 1;
            }
        }
    }

    /// `show proc`; `debug` adds the number of each link.
    pub fn show(&self, version: &str, debug: bool) -> String {
        let mut table = Table { text: String::new(), debug };
        table.row(["#<PID>", "<type>", "<reloads>", "<uptime>"], &format!("{:<15}", "<version>"), "<ipc_fd>");
        let reloads = format!("{} [failed: {}]", self.reloads, self.failed);
        let pid = std::process::id().to_string();
        table.row([&pid, "master", &reloads, &uptime(self.since)], version, "-1");
        for (title, role) in [("# workers\n", Role::Current), ("# old workers\n", Role::Former)] {
            let workers: Vec<&Worker> = self.workers.iter().filter(|worker| worker.role == role).collect();
            if role == Role::Current || !workers.is_empty() {
                table.text.push_str(title);
            }
            for worker in workers {
                let (pid, reloads) = (worker.pid.to_string(), worker.reloads.to_string());
                let link = worker.link.as_raw_fd().to_string();
                table.row([&pid, "worker", &reloads, &uptime(worker.since)], &worker.version, &link);
            }
        }
        table.text
    }

    /// All of it in a line of text each, for the program that this process becomes. `sockets` are those of the master CLI.
    pub fn encode(&self, sockets: &[i32], daemon: bool) -> String {
        let mut text = format!(
            "master {} {} {} {} {}\n",
            std::process::id(),
            seconds(self.since),
            self.reloads,
            self.failed,
            u8::from(daemon)
        );
        for socket in sockets {
            let _ = writeln!(text, "cli {socket}");
        }
        for worker in &self.workers {
            let role = match worker.role {
                Role::Starting => continue,
                Role::Current => "current",
                Role::Former => "former",
            };
            let Worker { pid, reloads, version, .. } = worker;
            let link = worker.link.as_raw_fd();
            let _ = writeln!(text, "{role} {pid} {link} {} {reloads} {version}", seconds(worker.since));
        }
        text
    }

    /// The reverse, in the program that the same process became. Takes over the descriptors; `None` for what was meant
    /// for another process.
    pub fn decode(text: &str, take: impl Fn(i32) -> Option<OwnedFd>) -> Option<Inherited> {
        let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let ["master", pid, since, reloads, failed, daemon] = *lines.next()? else { return None };
        if pid.parse() != Ok(std::process::id()) {
            return None;
        }
        let mut processes = Processes {
            since: moment(since)?,
            reloads: reloads.parse().ok()?,
            failed: failed.parse().ok()?,
            ..Processes::new()
        };
        let mut sockets = Vec::new();
        for words in lines {
            match *words {
                ["cli", socket] => sockets.push(take(socket.parse().ok()?)?),
                [role @ ("current" | "former"), pid, link, since, reloads, version] => {
                    processes.workers.push(Worker {
                        pid: pid.parse().ok()?,
                        role: if role == "current" { Role::Current } else { Role::Former },
                        link: Arc::new(take(link.parse().ok()?)?),
                        since: moment(since)?,
                        reloads: reloads.parse().ok()?,
                        follows: false,
                        version: version.to_owned(),
                        exit: None,
                        silent: false,
                    });
                }
                _ => return None,
            }
        }
        Some(Inherited { processes, sockets, daemon: daemon == "1" })
    }
}

/// What a master had when it became another program.
pub struct Inherited {
    /// What it knew.
    pub processes: Processes,
    /// The sockets of the master CLI.
    pub sockets: Vec<OwnedFd>,
    /// It is a daemon.
    pub daemon: bool,
}

/// The table of `show proc`.
struct Table {
    text: String,
    debug: bool,
}

impl Table {
    fn row(&mut self, [pid, kind, reloads, uptime]: [&str; 4], version: &str, link: &str) {
        let _ = write!(self.text, "{pid:<15} {kind:<15} {reloads:<15} {uptime:<15} {version}");
        if self.debug {
            let _ = write!(self.text, "\t\t {link:<15}");
        }
        self.text.push('\n');
    }
}

/// The time since a moment, as `0d00h02m07s`.
fn uptime(since: SystemTime) -> String {
    let seconds = since.elapsed().unwrap_or_default().as_secs();
    let (days, hours) = (seconds / 86400, seconds / 3600 % 24);
    format!("{days}d{hours:02}h{:02}m{:02}s", seconds / 60 % 60, seconds % 60)
}

fn seconds(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn moment(seconds: &str) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::child::packet_pair;

    fn worker(pid: u32, role: Role) -> Worker {
        Worker {
            pid,
            role,
            link: Arc::new(packet_pair().unwrap().0),
            since: SystemTime::now(),
            reloads: 0,
            follows: false,
            version: "1.0".into(),
            exit: None,
            silent: false,
        }
    }

    #[test]
    fn a_new_worker_makes_the_others_former_ones() {
        let mut processes = Processes::new();
        processes.workers =
            vec![worker(5, Role::Former), worker(6, Role::Current), worker(7, Role::Starting)];
        processes.promote(7);
        let seen: Vec<_> = processes.workers.iter().map(|w| (w.pid, w.role, w.reloads)).collect();
        assert_eq!(seen, [(5, Role::Former, 1), (6, Role::Former, 1), (7, Role::Current, 0)]);
        let shown = processes.show("1.0", false);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(
            lines[0],
            format!(
                "{:<15} {:<15} {:<15} {:<15} {:<15}",
                "#<PID>", "<type>", "<reloads>", "<uptime>", "<version>"
            )
        );
        assert!(lines[1].contains(" master          0 [failed: 0]   0d00h00m0"), "{shown}");
        assert_eq!(lines[2], "# workers");
        assert!(lines[3].starts_with("7               worker          0               0d00h00m0"), "{shown}");
        assert_eq!(lines[4], "# old workers");
        assert_eq!(lines.len(), 7);
    }

    #[test]
    fn what_a_master_knows_survives_another_program() {
        let mut processes = Processes::new();
        processes.reloads = 3;
        processes.workers =
            vec![worker(5, Role::Former), worker(7, Role::Current), worker(8, Role::Starting)];
        let text = processes.encode(&[40], true);
        let inherited = Processes::decode(&text, |_| Some(packet_pair().unwrap().0)).unwrap();
        assert!(inherited.daemon && inherited.sockets.len() == 1);
        let seen: Vec<_> = inherited.processes.workers.iter().map(|w| (w.pid, w.role)).collect();
        assert_eq!((inherited.processes.reloads, seen), (3, vec![(5, Role::Former), (7, Role::Current)]));
        // A child of the master has the same environment.
        let other = text.replacen(&format!("master {} ", std::process::id()), "master 1 ", 1);
        assert!(Processes::decode(&other, |_| None).is_none());
    }
}
