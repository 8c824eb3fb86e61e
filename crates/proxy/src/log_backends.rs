//! `balance log-hash`: which number a log line comes to, through the converters of its backend.

use std::cell::RefCell;

use thalweg_config::model::{BalanceAlgo, ProxyId};
use thalweg_sample::context::{Ctx, Scratch};
use thalweg_sample::facts::{self, ListenerId, Session};
use thalweg_sample::{Sample, Type};

use crate::backend::algorithm::hasher;
use crate::worker::{self, Worker};

thread_local! {
    /// Memory for the converters, made for the first line. That of requests may be in use: a line is written while one is
    /// evaluated (`do-log`).
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

/// The hash of a line, 0 where the converters make nothing of it.
pub fn hash(backend: ProxyId, line: &[u8]) -> u32 {
    worker::current().and_then(|worker| key(&worker, backend, line)).unwrap_or(0)
}

fn key(worker: &Worker, backend: ProxyId, line: &[u8]) -> Option<u32> {
    let proxy = worker.proxy(backend);
    let BalanceAlgo::LogHash(converters) = &proxy.balance.algo else { return None };
    SCRATCH.with(|scratch| {
        let mut scratch = scratch.try_borrow_mut().ok()?;
        let mut session = Session::new(facts::ProxyId(backend.0), ListenerId(0));
        let mut cx = Ctx::new(worker.clock(), worker, &mut session, &mut scratch);
        cx.reset();
        // What does not fit is not looked at.
        let text = cx.store(line)?;
        let mut key = converters.convert(Sample::str(text), &mut cx)?;
        key.cast(Type::Str, &mut cx).then(|| hasher(proxy).bytes(cx.bytes(&key.value)))
    })
}
