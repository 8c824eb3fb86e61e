//! The whole process.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Bind, LogTarget};
use crate::compiled::{Expr, LogFormat};

/// Settings of the process.
#[derive(Clone, Debug)]
pub struct Global {
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
    pub maxpipes: u32,
    pub strict_limits: StrictLimits,
    pub user: Option<Arc<str>>,
    pub group: Option<Arc<str>>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub chroot: Option<PathBuf>,
    pub set_dumpable: bool,
    pub insecure_fork_wanted: bool,
    pub insecure_setuid_wanted: bool,
    pub daemon: bool,
    pub quiet: bool,
    pub zero_warning: bool,
    pub pidfile: Option<PathBuf>,
    pub node: Option<Arc<str>>,
    pub description: Option<Arc<str>>,
    pub localpeer: Option<Arc<str>>,
    pub hard_stop_after_ms: Option<u64>,
    pub close_spread_time_ms: Option<u64>,
    pub grace_ms: Option<u64>,
    pub mworker_max_reloads: Option<u32>,
    pub expose_experimental: bool,
    pub expose_deprecated: bool,

    pub log_targets: Arc<[LogTarget]>,
    pub log_tag: Option<Arc<str>>,
    /// `Some("")`: the host's name; `None`: no name.
    pub log_send_hostname: Option<Arc<str>>,
    pub stats_sockets: Vec<Bind>,
    pub stats_timeout_ms: Option<u64>,
    pub stats_maxconn: u32,
    pub server_state_base: Option<PathBuf>,
    pub server_state_file: Option<PathBuf>,

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
    /// Statuses counted as errors and failures (`http-err-codes`, `http-fail-codes`), one bit per code from 100.
    pub http_err_codes: [u64; 8],
    pub http_fail_codes: [u64; 8],
    pub h1_accept_payload_with_any_method: bool,
    pub h1_do_not_close_on_insecure_te: bool,
    /// Pairs of a lower-case header name and the spelling to send.
    pub h1_case_adjust: Vec<(Arc<str>, Arc<str>)>,
    pub tune: Tune,
    pub anonkey: Option<u32>,
    pub default_path: DefaultPath,
    pub pp2_never_send_local: bool,
    pub reject_privileged_ports_tcp: bool,
    pub external_check: bool,
    pub cluster_secret: Option<Arc<str>>,
    pub prealloc_fd: bool,
    pub no_memory_trimming: bool,
    pub warn_blocked_ms: u32,
    pub profiling_tasks: Option<bool>,
    pub dns_accept_ipv4: bool,
    pub dns_accept_ipv6: bool,
}

/// `default-path`: what relative file names are relative to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum DefaultPath {
    #[default]
    Current,
    /// The directory of the file that names it.
    Config,
    /// The parent of that directory.
    Parent,
    Origin(PathBuf),
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
    pub bufsize: usize,
    pub bufsize_small: usize,
    pub bufsize_large: usize,
    /// Room kept free in a buffer for header rewrites.
    pub maxrewrite: usize,
    pub buffers_limit: usize,
    pub buffers_reserve: usize,
    pub http_maxhdr: usize,
    pub http_logurilen: usize,
    pub http_cookielen: usize,
    /// Connections accepted in a row, -1 for no limit; 0 lets the program choose.
    pub maxaccept: i32,
    pub maxpollevents: u32,
    pub runqueue_depth: u32,
    pub sched_low_latency: bool,
    pub max_events_at_once: u32,
    pub max_checks_per_thread: u32,
    pub max_rules_at_once: u32,
    pub rcvbuf_client: u32,
    pub rcvbuf_server: u32,
    pub rcvbuf_frontend: u32,
    pub rcvbuf_backend: u32,
    pub sndbuf_client: u32,
    pub sndbuf_server: u32,
    pub sndbuf_frontend: u32,
    pub sndbuf_backend: u32,
    pub notsent_lowat_client: u32,
    pub notsent_lowat_server: u32,
    pub pipesize: u32,
    pub recv_enough: u32,
    pub disable_zero_copy: bool,
    pub disable_fast_forward: bool,
    pub h1_zero_copy_recv: bool,
    pub h1_zero_copy_send: bool,
    pub pt_zero_copy: bool,
    pub applet_zero_copy: bool,
    pub idle_pool_shared: bool,
    /// Percent of the file limit above which idle connections are killed rather than pooled.
    pub pool_high_fd_ratio: u32,
    pub pool_low_fd_ratio: u32,
    /// Milliseconds after which an idle stream gives its buffers back.
    pub idletimer_ms: u32,
    pub listener_multi_queue: MultiQueue,
    pub listener_default_shards: super::Shards,
    pub vars_global_max_size: usize,
    pub vars_proc_max_size: usize,
    pub vars_sess_max_size: usize,
    pub vars_txn_max_size: usize,
    pub vars_reqres_max_size: usize,
    pub vars_check_max_size: usize,
    pub pattern_cache_size: usize,
    pub comp_maxlevel: u32,
    pub stick_counters: u32,
    pub cli_max_payload_size: usize,
    pub fail_alloc: u32,
    pub ring_queues: u32,
    pub h1_fe_glitches_threshold: u32,
    pub h1_be_glitches_threshold: u32,
    pub renice_runtime: Option<i32>,
    pub renice_startup: Option<i32>,
    pub takeover_other_tg: TakeoverOtherGroup,
    pub streams_elasticity: u32,
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
            bufsize: 16384,
            bufsize_small: 1024,
            bufsize_large: 0,
            maxrewrite: 1024,
            buffers_limit: 0,
            buffers_reserve: 4,
            http_maxhdr: 101,
            http_logurilen: 1024,
            http_cookielen: 63,
            maxaccept: 0,
            maxpollevents: 0,
            runqueue_depth: 0,
            sched_low_latency: false,
            max_events_at_once: 100,
            max_checks_per_thread: 0,
            max_rules_at_once: 50,
            rcvbuf_client: 0,
            rcvbuf_server: 0,
            rcvbuf_frontend: 0,
            rcvbuf_backend: 0,
            sndbuf_client: 0,
            sndbuf_server: 0,
            sndbuf_frontend: 0,
            sndbuf_backend: 0,
            notsent_lowat_client: 0,
            notsent_lowat_server: 0,
            pipesize: 0,
            recv_enough: 0,
            disable_zero_copy: false,
            disable_fast_forward: false,
            h1_zero_copy_recv: true,
            h1_zero_copy_send: true,
            pt_zero_copy: true,
            applet_zero_copy: true,
            idle_pool_shared: true,
            pool_high_fd_ratio: 25,
            pool_low_fd_ratio: 20,
            idletimer_ms: 1000,
            listener_multi_queue: MultiQueue::On,
            listener_default_shards: super::Shards::ByGroup,
            vars_global_max_size: 0,
            vars_proc_max_size: 0,
            vars_sess_max_size: 0,
            vars_txn_max_size: 0,
            vars_reqres_max_size: 0,
            vars_check_max_size: 0,
            pattern_cache_size: 10000,
            comp_maxlevel: 1,
            stick_counters: 3,
            cli_max_payload_size: 128 * 1024,
            fail_alloc: 0,
            ring_queues: 0,
            h1_fe_glitches_threshold: 0,
            h1_be_glitches_threshold: 0,
            renice_runtime: None,
            renice_startup: None,
            takeover_other_tg: TakeoverOtherGroup::Restricted,
            streams_elasticity: 0,
        }
    }
}

impl Default for Global {
    fn default() -> Global {
        Global {
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
            maxpipes: 0,
            strict_limits: true,
            user: None,
            group: None,
            uid: None,
            gid: None,
            chroot: None,
            set_dumpable: false,
            insecure_fork_wanted: false,
            insecure_setuid_wanted: false,
            daemon: false,
            quiet: false,
            zero_warning: false,
            pidfile: None,
            node: None,
            description: None,
            localpeer: None,
            hard_stop_after_ms: None,
            close_spread_time_ms: None,
            grace_ms: None,
            mworker_max_reloads: None,
            expose_experimental: false,
            expose_deprecated: false,
            log_targets: Arc::from([]),
            log_tag: None,
            log_send_hostname: None,
            stats_sockets: Vec::new(),
            stats_timeout_ms: Some(10_000),
            stats_maxconn: 10,
            server_state_base: None,
            server_state_file: None,
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
            http_err_codes: status_set(400, 499, &[]),
            http_fail_codes: status_set(500, 599, &[501, 505]),
            h1_accept_payload_with_any_method: false,
            h1_do_not_close_on_insecure_te: false,
            h1_case_adjust: Vec::new(),
            tune: Tune::default(),
            anonkey: None,
            default_path: DefaultPath::Current,
            pp2_never_send_local: false,
            reject_privileged_ports_tcp: false,
            external_check: false,
            cluster_secret: None,
            prealloc_fd: false,
            no_memory_trimming: false,
            warn_blocked_ms: 100,
            profiling_tasks: None,
            dns_accept_ipv4: true,
            dns_accept_ipv6: true,
        }
    }
}

/// The set of the statuses from `first` to `last` but for some, one bit each from 100.
const fn status_set(first: u16, last: u16, but: &[u16]) -> [u64; 8] {
    let mut set = [0; 8];
    let mut status = first;
    while status <= last {
        let bit = (status - 100) as usize;
        set[bit / 64] |= 1 << (bit % 64);
        status += 1;
    }
    let mut i = 0;
    while i < but.len() {
        let bit = (but[i] - 100) as usize;
        set[bit / 64] &= !(1 << (bit % 64));
        i += 1;
    }
    set
}
