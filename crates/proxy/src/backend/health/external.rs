//! Checks by a program (manual, `external-check`): it ends with 0 where the server works.
//!
//! The program is asked about from time to time rather than waited for: a thread that serves traffic waits for nobody, and a
//! program takes longer than the pauses.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use thalweg_check::{External, Status, Verdict};
use thalweg_config::model::{BindAddr, Mode, Proxy, Server, ServerAddr};
use thalweg_runtime::{clock, timer};
use thalweg_sys::child;

use super::checker::Checker;

/// Programs that one thread runs at once: those beyond it wait for their turn, which their time does not wait for.
const PROGRAMS_MAX: u32 = 64;

/// The first and the longest pause between two looks at a program, in milliseconds.
const PAUSES_MS: (u64, u64) = (1, 20);

/// How long a killed program is waited for, in milliseconds: a device may hold it.
const DEATH_MS: u64 = 1000;

/// What stands for an address or a port where there is none.
const NOT_USED: &str = "NOT_USED";

thread_local! {
    /// Programs that this thread runs.
    static PROGRAMS: Cell<u32> = const { Cell::new(0) };
}

/// A program that runs. Whoever lets it go ends it, and all that it started.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> std::io::Result<Running> {
        let child = command.spawn()?;
        PROGRAMS.set(PROGRAMS.get() + 1);
        Ok(Running(child))
    }
}

impl Running {
    /// Kills it, and waits until it is gone: its number is taken as long as nobody asked how it ended.
    async fn end(&mut self) {
        let _ = child::kill_group(self.0.id());
        let deadline_ms = clock::now_ms() + DEATH_MS;
        while let Ok(None) = self.0.try_wait()
            && clock::now_ms() < deadline_ms
        {
            timer::sleep(PAUSES_MS.0).await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        PROGRAMS.set(PROGRAMS.get() - 1);
        // One that ended was waited for, and its number may be another's by now.
        if let Ok(None) = self.0.try_wait() {
            let _ = child::kill_group(self.0.id());
        }
    }
}

/// Addresses as programs get them: as arguments, and in variables, where nothing is empty.
struct Place {
    address: String,
    port: String,
}

impl Place {
    fn argument(text: &str) -> &str {
        if text.is_empty() { NOT_USED } else { text }
    }
}

/// Where the first listener of a proxy is.
fn proxy_place(proxy: &Proxy) -> Place {
    let found = proxy.binds.iter().find_map(|bind| match &bind.addr {
        BindAddr::Tcp(addr) => Some((addr.ip().to_string(), addr.port().to_string())),
        BindAddr::Unix(path) => Some((path.display().to_string(), String::new())),
        _ => None,
    });
    let (address, port) = found.unwrap_or_default();
    Place { address, port }
}

impl Checker {
    /// Runs the program, and judges the server by how it ends.
    pub(super) async fn run_program(&self, external: &External, begun_ms: u64) -> Verdict {
        let verdict = |status, code, info: &str| Verdict { status, code, info: info.into() };
        let Some((proxy, server)) = self.config() else { return Verdict::default() };
        if !self.worker.instance.config.global.insecure_fork_wanted {
            return verdict(Status::ProgramError, 255, "'insecure-fork-wanted' is not set");
        }
        let inter_ms = self.inter_ms();
        let limit_ms = proxy.timeouts.check.and(proxy.timeouts.connect).map_or(inter_ms, |c| c.min(inter_ms));
        let deadline_ms = begun_ms + limit_ms;
        let mut pause_ms = PAUSES_MS.0;
        while PROGRAMS.get() >= PROGRAMS_MAX {
            timer::sleep(PAUSES_MS.1).await;
        }
        // As a shell says it of a program that cannot be run.
        let Ok(mut running) = Running::start(&mut self.command(external, proxy, server)) else {
            return verdict(Status::ProgramError, 255, "");
        };
        loop {
            match running.0.try_wait() {
                Ok(Some(exit)) if exit.success() => return verdict(Status::ProgramOk, 0, ""),
                Ok(Some(exit)) => {
                    let code = exit.code().filter(|_| exit.signal().is_none()).map_or(-1, i64::from);
                    return verdict(Status::ProgramError, code, "");
                }
                Ok(None) => {}
                Err(_) => return verdict(Status::SocketError, 0, ""),
            }
            if clock::now_ms() >= deadline_ms {
                running.end().await;
                return verdict(Status::ProgramTimeout, 0, "");
            }
            timer::sleep(pause_ms).await;
            pause_ms = (pause_ms * 2).min(PAUSES_MS.1);
        }
    }

    fn command(&self, external: &External, proxy: &Proxy, server: &Server) -> Command {
        let backend = self.backend();
        let now = backend.identity(server);
        let of_proxy = proxy_place(proxy);
        let (address, port) = match &now.addr {
            ServerAddr::Tcp(addr) => (addr.ip().to_string(), addr.port().to_string()),
            ServerAddr::Unix(path) => (path.display().to_string(), String::new()),
            _ => Default::default(),
        };
        let of_server = Place { address, port };
        let instance = &self.worker.instance;
        let protocol = match proxy.mode {
            Mode::Http if server.rare().proto.as_deref() == Some("h2") => "h2",
            Mode::Http => "h1",
            Mode::Log => "syslog",
            _ => "tcp",
        };
        let mut command = Command::new(&*external.command);
        command.args(
            [&of_proxy.address, &of_proxy.port, &of_server.address, &of_server.port]
                .map(|text| Place::argument(text)),
        );
        command.env_clear();
        if instance.config.global.external_check_environment {
            let own = instance.config.environment.iter();
            command.envs(own.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
        }
        command.env("PATH", &*external.path).envs([
            ("HAPROXY_PROXY_ADDR", of_proxy.address),
            ("HAPROXY_PROXY_PORT", of_proxy.port),
            ("HAPROXY_PROXY_ID", proxy.uid.to_string()),
            ("HAPROXY_PROXY_NAME", proxy.name.to_string()),
            ("HAPROXY_SERVER_ADDR", of_server.address),
            ("HAPROXY_SERVER_PORT", of_server.port),
            ("HAPROXY_SERVER_ID", server.uid.to_string()),
            ("HAPROXY_SERVER_NAME", now.name.to_string()),
            ("HAPROXY_SERVER_MAXCONN", backend.maxconn(self.server).to_string()),
            ("HAPROXY_SERVER_CURCONN", instance.server_streams(self.proxy, self.server).to_string()),
            ("HAPROXY_SERVER_SSL", u32::from(server.traffic_tls().is_some()).to_string()),
            ("HAPROXY_SERVER_PROTO", protocol.to_owned()),
        ]);
        // A group of its own, so that what it started ends with it.
        command.stdin(Stdio::null()).process_group(0);
        // Threads that serve traffic block what a program may want to be told.
        child::unblock_signals(&mut command);
        command
    }
}
