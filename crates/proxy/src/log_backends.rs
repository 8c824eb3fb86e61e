//! Backends in `mode log`: which of their servers a line goes to, as for requests, and where that is now.

use std::cell::RefCell;

use thalweg_balance::{NeverFull, PickContext};
use thalweg_config::model::{BalanceAlgo, Proxy, ProxyId, ServerAddr, ServerId};
use thalweg_operate::log::backend::{Backends, Chosen};
use thalweg_runtime::clock;
use thalweg_sample::context::{Ctx, Scratch};
use thalweg_sample::facts::{self, ListenerId, Session};
use thalweg_sample::{Sample, Type};

use crate::backend::algorithm::hasher;
use crate::instance::Live;
use crate::worker::{self, Worker};

thread_local! {
    /// Memory for the converters, made for the first line. That of requests may be in use: a line is written while one is
    /// evaluated (`do-log`).
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl Backends for Live {
    fn choose(&self, backend: ProxyId, line: &[u8]) -> Option<Chosen> {
        let worker = worker::current()?;
        let proxy = worker.instance.config.find_proxy(backend)?;
        // Limits and counters are for requests.
        let cx = PickContext {
            servers: &NeverFull,
            avoid: None,
            random: worker.next_random(),
            now_us: clock::now_us().cast_signed(),
        };
        let key = hash(&worker, proxy, line);
        let picked =
            worker.with_view(backend, |view| worker.backend(backend).balancer.pick(view, key, &cx))?;
        let server = ServerId(picked.0);
        let moves = worker.changed(backend, server).map_or(0, |changed| changed.moves);
        Some(Chosen { server, moves })
    }

    fn address(&self, backend: ProxyId, server: ServerId) -> Option<ServerAddr> {
        let worker = worker::current()?;
        let server = worker.server(worker.instance.config.find_proxy(backend)?, server)?;
        Some(worker.backend(backend).identity(server).addr)
    }
}

/// What a line comes to where lines are hashed (`balance log-hash`): 0 where the converters make nothing of it.
fn hash(worker: &Worker, proxy: &Proxy, line: &[u8]) -> Option<u32> {
    let BalanceAlgo::LogHash(converters) = &proxy.balance.algo else { return None };
    let key = SCRATCH.with(|scratch| {
        let mut scratch = scratch.try_borrow_mut().ok()?;
        let mut session = Session::new(facts::ProxyId(proxy.id.0), ListenerId(0));
        let mut cx = Ctx::new(worker.clock(), worker, &mut session, &mut scratch);
        cx.reset();
        // What does not fit is not looked at.
        let text = cx.store(line)?;
        let mut key = converters.convert(Sample::str(text), &mut cx)?;
        key.cast(Type::Str, &mut cx).then(|| hasher(proxy).bytes(cx.bytes(&key.value)))
    });
    Some(key.unwrap_or(0))
}
