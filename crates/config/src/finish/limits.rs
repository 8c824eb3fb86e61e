//! Limits that follow from others.

use std::collections::BTreeSet;

use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::Cx;
use crate::load::LoadOptions;
use crate::model::{DynamicTarget, Global};

/// Completes threads, `maxconn` and the number of files.
pub(crate) fn compute(cx: &mut Cx<'_>) {
    let options = cx.options;
    let global = &mut cx.config.global;
    if let Some(before) = options.after.map(|after| &after.config.global) {
        // What was computed at the start stays: the process has made itself at home since.
        if global.nbthread == 0 {
            global.nbthread = before.nbthread;
        }
        if global.maxconn == 0 && !before.maxconn_set {
            global.maxconn = before.maxconn;
        }
    }
    if global.nbthread == 0 {
        global.nbthread = options.cpus.max(1);
    }
    if global.thread_groups == 0 {
        global.thread_groups = global.nbthread.div_ceil(64).max(1);
    }
    if let Some(message) = affinity(global, options.cpus) {
        cx.diagnostics.push(Diagnostic::new(Severity::Warning, Lead::Bare, None, message));
    }
    for b in &cx.proxies {
        for bind in &b.p.binds {
            if !bind.threads.0.is_empty() && bind.threads.0.iter().all(|t| usize::from(*t) >= global.nbthread)
            {
                let message = format!(
                    "{}: 'thread' directive only references non-existing threads in 'bind {}' at [{}:{}].",
                    b.title(),
                    bind.shown,
                    bind.file,
                    bind.line
                );
                cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, None, message));
            }
        }
    }
    if let Some(maxconn) = options.maxconn {
        global.maxconn = maxconn;
        global.maxconn_set = true;
    }
    let binds = cx.proxies.iter().flat_map(|b| &b.p.binds).chain(&global.stats_sockets);
    let sockets: u64 = binds.map(|bind| bind.sockets(global) as u64).sum();
    // Two for each listening socket, which all threads share: itself, and with io_uring what tells of its connections. Per
    // thread: the ring or poll descriptor, its wake-up, and what the driver keeps.
    let fixed = 2 * sockets + 4 * global.nbthread as u64 + 32;
    if global.maxconn == 0 {
        global.maxconn = affordable(global, options, fixed);
    }
    global.hard_maxconn = global.maxconn;
    if global.ulimit_n == 0 {
        global.ulimit_n = 2 * global.maxconn as u64 + fixed;
    }
    let usual = options.proxy_maxconn;
    for b in &mut cx.proxies {
        if b.p.is_fe() && b.p.maxconn == 0 {
            b.p.maxconn =
                usual.unwrap_or_else(|| u32::try_from(cx.config.global.maxconn).unwrap_or(u32::MAX));
        }
    }
    let brought = brought(cx);
    for b in &mut cx.proxies {
        if b.p.is_be() && b.p.fullconn == 0 {
            // A tenth of what the frontends that lead here may bring.
            let total = brought.get(b.p.id.0 as usize).copied().unwrap_or(0);
            b.p.fullconn = u32::try_from(total.div_ceil(10)).unwrap_or(u32::MAX).max(1);
        }
    }
    if cx.config.global.tune.maxrewrite >= cx.config.global.tune.bufsize / 2 {
        cx.config.global.tune.maxrewrite = cx.config.global.tune.bufsize / 2;
    }
}

/// How many connections files and memory allow, where `fixed` files serve for something else.
fn affordable(global: &Global, options: &LoadOptions, fixed: u64) -> usize {
    let mut files = options.file_limit.1;
    if let Some(limit) = global.fd_hard_limit {
        files = files.min(limit);
    }
    if global.ulimit_n > 0 {
        files = files.min(global.ulimit_n);
    }
    // Two descriptors per connection.
    let by_files = usize::try_from(files.saturating_sub(fixed) / 2).unwrap_or(usize::MAX).clamp(100, 1 << 20);
    let Some(mb) = options.memory_max_mb else { return by_files };
    // Two buffers and two kilobytes of state per connection, as the reference counts.
    let per_connection = 2 * global.tune.bufsize as u64 + 2048;
    by_files.min(usize::try_from(mb * 1_048_576 / per_connection).unwrap_or(usize::MAX).max(1))
}

/// How many connections the frontends that name a backend may bring to it, by backend. Those that compute the name of
/// their backend are not counted.
fn brought(cx: &Cx<'_>) -> Vec<u64> {
    let mut brought = vec![0; cx.sides.len()];
    for p in cx.proxies.iter().map(|b| &b.p).filter(|p| p.is_fe() && !p.disabled) {
        let named = p.use_backend.iter().filter_map(|rule| match &rule.target {
            DynamicTarget::Static(id) => Some(*id),
            DynamicTarget::Dynamic(_) => None,
        });
        // What a `listen` section hands on to its default backend never comes to its own servers.
        let usual = p.default_backend.or(p.is_be().then_some(p.id));
        let targets: BTreeSet<u32> = named.chain(usual).map(|id| id.0).collect();
        for target in targets {
            if let Some(sum) = brought.get_mut(target as usize) {
                *sum += u64::from(p.maxconn);
            }
        }
    }
    brought
}

/// What is doubtful about the CPUs the threads run on, when the process may use `usable` of them.
fn affinity(global: &Global, usable: usize) -> Option<String> {
    let threads = global.nbthread;
    let cpus_of = |thread: usize| global.cpu_map.get(thread).and_then(Option::as_ref);
    let mapped = (0..threads).filter(|t| cpus_of(*t).is_some()).count();
    let cpus = match mapped {
        0 => usable,
        _ if mapped < threads => {
            let bound = (0..threads).find(|t| cpus_of(*t).is_some())?;
            let unbound = (0..threads).find(|t| cpus_of(*t).is_none())?;
            return Some(format!(
                "Found {mapped} thread(s) mapped to a CPU and {} thread(s) not mapped to any CPU. This will result in \
                 some threads being randomly assigned to the same CPU, which will occasionally cause severe \
                 performance degradation. First thread bound is {bound} and first thread not bound is {unbound}. \
                 Please either bind all threads or none (maybe some cpu-map directives are missing?).",
                threads - mapped
            ));
        }
        _ => {
            let mut all: Vec<usize> = (0..threads).filter_map(cpus_of).flatten().copied().collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        }
    };
    (threads > cpus).then(|| {
        format!(
            "This configuration binds {threads} threads to a total of {cpus} CPUs via cpu-map directives. This means \
             that some threads will compete for the same CPU, which will cause severe performance degradation. Please \
             fix either the 'cpu-map' directives or set the global 'nbthread' value accordingly."
        )
    })
}
