//! The configuration, read with what the command line says about it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thalweg_config::model::{Global, Sandbox};
use thalweg_config::{After, Config, Input, LoadOptions, ProcessSettings};
use thalweg_syntax::source::expand_paths;
use thalweg_syntax::{Diagnostic, Diagnostics, DiskLoader, Environment, SourceMap};
use thalweg_sys::process::{self, host_name};
use thalweg_sys::sandbox::Refused;

use crate::cli::{MasterMode, Options};
use crate::features::{self, Enabled};
use crate::limits::{self, Demand};
use crate::process::{Confinement, Privileges};
use crate::program::{COMPATIBLE_BRANCH, COMPATIBLE_VERSION};
use crate::signals::StopDelays;

/// What came out of reading the configuration.
pub struct Loaded {
    /// Absent when there were errors.
    pub config: Option<Config>,
    /// All that was said.
    pub diagnostics: Diagnostics,
    /// What it was said about.
    pub sources: SourceMap,
}

/// What the start needs to know of a configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    pub daemon: bool,
    pub quiet: bool,
    pub zero_warning: bool,
    pub strict_limits: bool,
    /// `state-dir`
    pub state_dir: Option<Arc<str>>,
    pub pid_file: Option<PathBuf>,
    pub stop_delays: StopDelays,
    pub privileges: Privileges,
    pub demand: Demand,
    /// Sockets to listen on.
    pub listeners: usize,
}

/// The environment that the process was started with, with what the manual lists for masters and workers (configuration
/// manual, section 2.3).
fn environment(files: &[String], has_master: bool) -> Environment {
    let mut environment = Environment::from_process();
    environment.set("HAPROXY_STARTUP_VERSION", COMPATIBLE_VERSION);
    environment.set("HAPROXY_BRANCH", COMPATIBLE_BRANCH);
    environment.set("HAPROXY_CFGFILES", files.join(";"));
    // They are this process's own, whatever the one that started it had.
    for name in ["HAPROXY_MWORKER", "HAPROXY_CLI", "HAPROXY_MASTER_CLI"] {
        environment.unset(name);
    }
    if has_master {
        environment.set("HAPROXY_MWORKER", "1");
    }
    environment
}

/// The environment of a master, whose CLI has the sockets called so.
pub fn master_environment<'a>(options: &Options, sockets: impl Iterator<Item = &'a str>) -> Environment {
    // A worker says what is wrong with them.
    let mut environment = environment(&files(options).unwrap_or_default(), true);
    let sockets = sockets.collect::<Vec<_>>().join(";");
    if !sockets.is_empty() {
        environment.set("HAPROXY_MASTER_CLI", sockets);
    }
    environment
}

/// The environment that a configuration sees.
fn environment_of_files(files: &[String], local_peer: Option<&str>, has_master: bool) -> Environment {
    let mut environment = environment(files, has_master);
    environment.set("HAPROXY_LOCALPEER", local_peer.map_or_else(host_name, str::to_string));
    environment
}

/// The files of the command line; `None` with what to say when they cannot be told.
fn files(options: &Options) -> Result<Vec<String>, Diagnostic> {
    let files = expand_paths(&DiskLoader, &options.files)?;
    if files.is_empty() && !options.quickstart {
        return Err(Diagnostic::alert(format!(
            "No configuration file in {} : only names that end in '.cfg' and do not begin with a dot are read.",
            options.files.join(", ")
        )));
    }
    Ok(files)
}

/// How the configuration in these files is read.
fn load_options(options: &Options, files: Vec<String>) -> LoadOptions<'static> {
    let current = process::file_limit().unwrap_or(process::Limit { soft: 1024, hard: 1024 });
    let has_master = options.master != MasterMode::None;
    LoadOptions {
        environment: environment_of_files(&files, options.local_peer.as_deref(), has_master),
        files: files.into_iter().map(Input::Path).chain(options.quickstart.then(quickstart)).collect(),
        facts: features::facts(&Enabled::from(options)),
        local_peer: options.local_peer.clone(),
        maxconn: options.maxconn.filter(|n| *n > 0),
        proxy_maxconn: options.proxy_maxconn.filter(|n| *n > 0),
        memory_max_mb: options.memory_limit_mb.filter(|mb| *mb > 0),
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
        file_limit: (current.soft, limits::usable_hard(current)),
        ignore_resolution: options.ignore_resolution_failures,
        verify_servers: !options.no_server_verify,
        services: features::SERVICES,
        opentelemetry: cfg!(feature = "opentelemetry"),
        ..LoadOptions::default()
    }
}

/// What a master must know of the configuration. What is wrong with it is for the worker to say.
pub fn process_settings(options: &Options) -> ProcessSettings {
    let files = files(options).unwrap_or_default();
    thalweg_config::process_settings(&load_options(options, files))
}

/// Reads the files of the command line.
pub fn load(options: &Options) -> Loaded {
    read(files(options), options, None)
}

/// Reads them again, or others in their place, as the configuration that is to follow one in force.
pub fn load_following(options: &Options, others: &[String], after: After<'_>) -> Loaded {
    let found = match others {
        [] => files(options),
        others => expand_paths(&DiskLoader, others),
    };
    read(found, options, Some(after))
}

fn read(found: Result<Vec<String>, Diagnostic>, options: &Options, after: Option<After<'_>>) -> Loaded {
    let files = match found {
        Ok(files) => files,
        Err(diagnostic) => {
            let mut diagnostics = Diagnostics::new();
            diagnostics.push(diagnostic);
            diagnostics.abort();
            return Loaded { config: None, diagnostics, sources: SourceMap::new() };
        }
    };
    let mut settings = load_options(options, files);
    if after.is_some() {
        // Those that the parent left were taken over at the start.
        settings.inherited = |_| Ok(());
    }
    let loaded = thalweg_config::load(&LoadOptions { after, ..settings });
    let mut config = loaded.config;
    let mut diagnostics = loaded.diagnostics;
    if let Some(config) = &mut config {
        override_config(config, options);
        if config.global.daemon && options.master == MasterMode::Notifying {
            let message = "'daemon' is not compatible with -Ws (master-worker mode for systemd), ignoring.";
            diagnostics.push(Diagnostic::warning(message));
        }
    }
    Loaded { config, diagnostics, sources: loaded.sources }
}

/// The command line wins over the configuration.
fn override_config(config: &mut Config, options: &Options) {
    let global = &mut config.global;
    global.noepoll |= options.no_epoll;
    global.nopoll |= options.no_poll;
    global.nosplice |= options.no_splice;
    global.noreuseport |= options.no_reuseport;
    global.nogetaddrinfo |= options.no_getaddrinfo;
    global.tune.disable_fast_forward |= options.no_fast_forward;
    global.tune.disable_zero_copy |= options.no_zero_copy;
    global.insecure_fork_wanted |= options.insecure_fork;
    if options.ipv4_only {
        global.dns_accept_ipv4 = true;
        global.dns_accept_ipv6 = false;
    }
}

/// What the start needs to know.
pub fn settings(config: &Config) -> Settings {
    let global = &config.global;
    Settings {
        daemon: global.daemon,
        quiet: global.quiet,
        zero_warning: global.zero_warning,
        strict_limits: global.strict_limits,
        state_dir: global.state_dir.clone(),
        pid_file: global.pidfile.clone(),
        stop_delays: StopDelays {
            grace: Duration::from_millis(global.grace_ms),
            hard_stop_after: global.hard_stop_after_ms.map(Duration::from_millis),
        },
        privileges: Privileges {
            root: global.chroot.clone(),
            user: global.uid,
            group: global.gid,
            dumpable: global.set_dumpable,
            kept: global.capabilities,
            may_gain_privileges: global.insecure_setuid_wanted,
            sandbox: sandbox(global),
        },
        demand: Demand {
            maxconn: global.maxconn as u64,
            automatic: !global.maxconn_set,
            descriptors: global.ulimit_n,
            ceiling: global.fd_hard_limit,
        },
        listeners: config.global.stats_sockets.len()
            + config.peers.len()
            + config.log_forwards.iter().map(|f| f.binds.len() + f.dgram_binds.len()).sum::<usize>()
            + config
                .proxies
                .iter()
                .filter(|proxy| !proxy.disabled)
                .map(|proxy| proxy.binds.len())
                .sum::<usize>(),
    }
}

/// What the process will not need once it serves. A master is another process, and starts workers from outside.
fn sandbox(global: &Global) -> Option<Confinement> {
    // Programs of checks inherit what is refused, and may well write files.
    if global.sandbox == Sandbox::Off || global.external_check || global.insecure_fork_wanted {
        return None;
    }
    // The kernel writes a core file with the rights of the process.
    let files = if global.set_dumpable { Refused::Programs } else { Refused::ProgramsAndWriting };
    Some(Confinement { files, calls: global.sandbox == Sandbox::On })
}

/// The configuration that `--quickstart` serves: the file of that name in `examples/`.
fn quickstart() -> Input {
    let text = include_bytes!("../../../examples/quickstart.cfg").to_vec();
    Input::Memory { name: "examples/quickstart.cfg".to_owned(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_see_the_variables_of_the_manual() {
        let environment = environment_of_files(&["a.cfg".into(), "b.cfg".into()], Some("peer"), false);
        for (name, expected) in [
            ("HAPROXY_BRANCH", "3.5"),
            ("HAPROXY_STARTUP_VERSION", "3.5-dev5"),
            ("HAPROXY_CFGFILES", "a.cfg;b.cfg"),
            ("HAPROXY_LOCALPEER", "peer"),
        ] {
            assert_eq!(environment.get(name), Some(expected.as_bytes()), "{name}");
        }
        assert_eq!(environment.get("HAPROXY_MWORKER"), None);
    }
}
