//! The whole process.

use std::path::PathBuf;
use std::sync::Arc;

use thalweg_sys::capabilities::Capabilities;

use super::{Bind, GlobalTls, LogTarget};
use crate::compiled::{Expr, LogFormat};

/// `sandbox`: what is refused to a process that serves, as it does not need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    Off,
    /// Running programs, and changing files.
    Files,
    /// That, and calls of the kernel that serving does not need.
    On,
}

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct Global {
    /// Statuses of servers that count as errors, in tables that keep them.
    pub http_err_codes: StatusCodes,
    /// Those that count as failures.
    pub http_fail_codes: StatusCodes,
    pub nbthread: usize,
    pub thread_groups: usize,
    /// Per thread, the CPUs it may run on; missing or `None` is no restriction.
    pub cpu_map: Vec<Option<Vec<usize>>>,
    pub numa_cpu_mapping: bool,
    /// Most concurrent connections: as given, or computed from the file limit when the configuration is finished.
    pub maxconn: usize,
    /// The highest value `maxconn` may be given at run time.
    pub hard_maxconn: usize,
    /// `maxconn` was given.
    pub maxconn_set: bool,
    /// Files the process needs (given by `ulimit-n`, or computed from `maxconn`).
    pub ulimit_n: u64,
    pub fd_hard_limit: Option<u64>,
    /// New connections per second, 0 for no limit.
    pub maxconnrate: u32,
    pub maxsessrate: u32,
    /// `maxsslconn`: connections on which TLS is spoken, of both sides; 0 for no limit.
    pub maxsslconn: u32,
    /// `maxsslrate`: new ones per second; 0 for no limit.
    pub maxsslrate: u32,
    pub maxpipes: u32,
    pub strict_limits: StrictLimits,
    pub user: Option<Arc<str>>,
    pub group: Option<Arc<str>>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub chroot: Option<PathBuf>,
    pub set_dumpable: bool,
    /// `setcap`: what is kept of the privileges of root.
    pub capabilities: Capabilities,
    pub insecure_fork_wanted: bool,
    /// `external-check`: checks may run programs.
    pub external_check: bool,
    /// `preserve-env`: they get the environment of this process.
    pub external_check_environment: bool,
    pub insecure_setuid_wanted: bool,
    pub sandbox: Sandbox,
    pub daemon: bool,
    pub quiet: bool,
    pub zero_warning: bool,
    pub pidfile: Option<PathBuf>,
    pub node: Option<Arc<str>>,
    /// What the statistics file holds that counters go on from.
    pub stats_file: Option<Arc<str>>,
    /// `state-dir`: where states of servers and counters are kept while the process runs.
    pub state_dir: Option<Arc<str>>,
    /// The key of anonymous dumps for sessions of the CLI that name none, 0 for none.
    pub anonkey: u32,
    pub description: Option<Arc<str>>,
    pub localpeer: Option<Arc<str>>,
    pub hard_stop_after_ms: Option<u64>,
    /// `grace`: how long after SIGUSR1 a soft stop begins. Until then only `stopping` tells of it.
    pub grace_ms: u64,
    /// `master-worker no-exit-on-failure`: the master outlives its workers, however they end.
    pub master_stays: bool,
    /// `mworker-max-reloads`: a worker that is still there after more reloads than this is told to leave at once.
    pub max_reloads: u32,
    pub close_spread_time_ms: Option<u64>,
    pub expose_experimental: bool,
    pub expose_deprecated: bool,

    pub log_targets: Arc<[LogTarget]>,
    pub log_tag: Option<Arc<str>>,
    /// `Some("")`: the host's name; `None`: no name.
    pub log_send_hostname: Option<Arc<str>>,
    pub stats_sockets: Vec<Bind>,
    pub stats_timeout_ms: Option<u64>,
    pub stats_maxconn: u32,

    pub busy_polling: bool,
    pub noepoll: bool,
    pub nopoll: bool,
    pub nosplice: bool,
    pub noreuseport: bool,
    pub nogetaddrinfo: bool,
    pub io_driver: IoDriver,
    /// Percent by which health checks are moved.
    pub spread_checks: u32,
    pub max_spread_checks_ms: Option<u64>,
    /// `set-var` and `set-var-fmt`, in order.
    pub set_var: Vec<ProcessVariable>,
    pub h1_accept_payload_with_any_method: bool,
    pub h1_do_not_close_on_insecure_te: bool,
    /// Pairs of a lower-case header name and the spelling to send.
    pub h1_case_adjust: Vec<(Arc<str>, Arc<str>)>,
    pub tune: Tune,
    pub tls: GlobalTls,
    /// `jwt.decrypt_alg_list`, `jwt.decrypt_enc_list`
    pub tokens: thalweg_sample::TokenAlgorithms,
    pub pp2_never_send_local: bool,
    pub reject_privileged_ports_tcp: bool,
    pub prealloc_fd: bool,
    pub no_memory_trimming: bool,
    pub warn_blocked_ms: u32,
    pub profiling_tasks: Option<bool>,
    pub dns_accept_ipv4: bool,
    pub dns_accept_ipv6: bool,
    /// IPv6 is accepted only if this host can reach it.
    pub dns_accept_auto: bool,
    /// There is a `resolvers` section named `default` without a word about it (`httpclient.resolvers.disabled`).
    pub default_resolvers: bool,
}

/// `strict-limits`: whether a limit that cannot be reached stops the start.
pub type StrictLimits = bool;

/// Which kernel interface moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IoDriver {
    /// The best one that works here.
    #[default]
    Auto,
    Uring,
    Epoll,
}

/// A process variable set at start.
#[derive(Clone, Debug)]
pub struct ProcessVariable {
    /// With its scope: `proc.x`.
    pub name: Arc<str>,
    pub value: Arc<ProcessValue>,
}

/// What a process variable is set to.
#[derive(Debug)]
pub enum ProcessValue {
    Expr(Box<Expr>),
    Format(LogFormat),
}

/// `tune.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tune {
    /// `tune.h2.*`
    pub h2: super::H2Tune,
    pub bufsize: usize,
    /// Room kept free in a buffer for header rewrites.
    pub maxrewrite: usize,
    pub buffers_limit: usize,
    pub buffers_reserve: usize,
    pub http_maxhdr: usize,
    /// Entries of stick tables that a session and a stream may track at once.
    pub stick_counters: usize,
    pub http_logurilen: usize,
    pub http_cookielen: usize,
    /// Connections accepted in a row, -1 for no limit; 0 lets the program choose.
    pub maxaccept: i32,
    /// Entries of tables that are sent to a peer in a row at most; 0 stands for 1.
    pub peers_updates: usize,
    pub maxpollevents: u32,
    pub runqueue_depth: u32,
    pub sched_low_latency: bool,
    pub max_checks_per_thread: u32,
    pub rcvbuf_client: u32,
    pub rcvbuf_server: u32,
    pub sndbuf_client: u32,
    pub sndbuf_server: u32,
    pub notsent_lowat_client: u32,
    pub notsent_lowat_server: u32,
    pub pipesize: u32,
    pub disable_zero_copy: bool,
    pub disable_fast_forward: bool,
    pub h1_zero_copy_recv: bool,
    pub h1_zero_copy_send: bool,
    pub pt_zero_copy: bool,
    pub applet_zero_copy: bool,
    pub idle_pool_shared: bool,
    /// Percent of all files above which no more idle connections are kept.
    pub pool_low_fd_percent: u32,
    /// Percent of all files above which idle connections are closed.
    pub pool_high_fd_percent: u32,
    pub listener_multi_queue: MultiQueue,
    pub listener_default_shards: super::Shards,
    pub vars_global_max_size: usize,
    pub vars_proc_max_size: usize,
    pub vars_sess_max_size: usize,
    pub vars_txn_max_size: usize,
    pub vars_reqres_max_size: usize,
    pub vars_check_max_size: usize,
    /// `defaults` sections are forgotten after the start (`tune.defaults.purge`).
    pub purge_defaults: bool,
    /// Presets of servers are.
    pub purge_server_presets: bool,
    pub cli_max_payload_size: usize,
    pub renice_runtime: Option<i32>,
    pub renice_startup: Option<i32>,
    pub takeover_other_tg: TakeoverOtherGroup,
}

/// `tune.listener.multi-queue`: how new connections reach threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiQueue {
    #[default]
    On,
    Fair,
    Off,
}

/// `tune.takeover-other-tg-connections`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TakeoverOtherGroup {
    None,
    #[default]
    Restricted,
    Full,
}

impl Default for Tune {
    fn default() -> Tune {
        Tune {
            h2: super::H2Tune::default(),
            bufsize: 16384,
            maxrewrite: 1024,
            buffers_limit: 0,
            buffers_reserve: 4,
            http_maxhdr: 101,
            stick_counters: 3,
            http_logurilen: 1024,
            http_cookielen: 63,
            maxaccept: 0,
            peers_updates: 200,
            maxpollevents: 0,
            runqueue_depth: 0,
            sched_low_latency: false,
            max_checks_per_thread: 0,
            rcvbuf_client: 0,
            rcvbuf_server: 0,
            sndbuf_client: 0,
            sndbuf_server: 0,
            notsent_lowat_client: 0,
            notsent_lowat_server: 0,
            pipesize: 0,
            disable_zero_copy: false,
            disable_fast_forward: false,
            h1_zero_copy_recv: true,
            h1_zero_copy_send: true,
            pt_zero_copy: true,
            applet_zero_copy: true,
            idle_pool_shared: true,
            pool_low_fd_percent: 20,
            pool_high_fd_percent: 25,
            listener_multi_queue: MultiQueue::On,
            listener_default_shards: super::Shards::ByGroup,
            vars_global_max_size: 0,
            vars_proc_max_size: 0,
            vars_sess_max_size: 0,
            vars_txn_max_size: 0,
            vars_reqres_max_size: 0,
            vars_check_max_size: 0,
            purge_defaults: false,
            purge_server_presets: false,
            cli_max_payload_size: 128 * 1024,
            renice_runtime: None,
            renice_startup: None,
            takeover_other_tg: TakeoverOtherGroup::Restricted,
        }
    }
}

impl Default for Global {
    // In one piece, as it is one list of fields and their defaults.
    fn default() -> Global {
        Global {
            http_err_codes: StatusCodes::errors(),
            http_fail_codes: StatusCodes::failures(),
            nbthread: 0,
            thread_groups: 0,
            cpu_map: Vec::new(),
            numa_cpu_mapping: true,
            maxconn: 0,
            hard_maxconn: 0,
            maxconn_set: false,
            ulimit_n: 0,
            fd_hard_limit: None,
            maxconnrate: 0,
            maxsessrate: 0,
            maxsslconn: 0,
            maxsslrate: 0,
            maxpipes: 0,
            strict_limits: true,
            user: None,
            group: None,
            uid: None,
            gid: None,
            chroot: None,
            set_dumpable: false,
            capabilities: Capabilities::default(),
            insecure_fork_wanted: false,
            external_check: false,
            external_check_environment: false,
            insecure_setuid_wanted: false,
            sandbox: Sandbox::On,
            daemon: false,
            quiet: false,
            zero_warning: false,
            pidfile: None,
            node: None,
            anonkey: 0,
            stats_file: None,
            state_dir: None,
            description: None,
            localpeer: None,
            hard_stop_after_ms: None,
            grace_ms: 0,
            master_stays: false,
            max_reloads: 50,
            close_spread_time_ms: None,
            expose_experimental: false,
            expose_deprecated: false,
            log_targets: Arc::from([]),
            log_tag: None,
            log_send_hostname: None,
            stats_sockets: Vec::new(),
            stats_timeout_ms: Some(10_000),
            stats_maxconn: 10,
            busy_polling: false,
            noepoll: false,
            nopoll: false,
            nosplice: false,
            noreuseport: false,
            nogetaddrinfo: false,
            io_driver: IoDriver::Auto,
            spread_checks: 0,
            max_spread_checks_ms: None,
            set_var: Vec::new(),
            h1_accept_payload_with_any_method: false,
            h1_do_not_close_on_insecure_te: false,
            h1_case_adjust: Vec::new(),
            tune: Tune::default(),
            tls: GlobalTls::default(),
            tokens: thalweg_sample::TokenAlgorithms::default(),
            pp2_never_send_local: false,
            reject_privileged_ports_tcp: false,
            prealloc_fd: false,
            no_memory_trimming: false,
            warn_blocked_ms: 100,
            profiling_tasks: None,
            dns_accept_ipv4: true,
            dns_accept_ipv6: true,
            dns_accept_auto: true,
            default_resolvers: true,
        }
    }
}

/// A set of statuses of HTTP, 100 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusCodes([u64; 8]);

impl StatusCodes {
    /// None of them.
    pub const NONE: StatusCodes = StatusCodes([0; 8]);

    /// Those of a range, without some.
    fn range(codes: std::ops::Range<u16>, without: &[u16]) -> StatusCodes {
        let mut set = StatusCodes::NONE;
        codes.filter(|code| !without.contains(code)).for_each(|code| set.set(code, true));
        set
    }

    /// 400 to 499: what clients did wrong.
    pub fn errors() -> StatusCodes {
        StatusCodes::range(400..500, &[])
    }

    /// 500 to 599, but for two that say something about the request.
    pub fn failures() -> StatusCodes {
        StatusCodes::range(500..600, &[501, 505])
    }

    /// Adds a status, or takes it away.
    pub fn set(&mut self, code: u16, on: bool) {
        let Some(at) = code.checked_sub(100).map(usize::from) else { return };
        let Some(word) = self.0.get_mut(at / 64) else { return };
        let bit = 1 << (at % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// Whether a status is in the set.
    pub fn has(&self, code: u16) -> bool {
        let at = usize::from(code.wrapping_sub(100));
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}
