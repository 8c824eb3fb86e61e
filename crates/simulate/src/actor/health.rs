//! The ports at which servers are checked, their agents, and who compares what the proxy makes of both with what they are.

use std::rc::Rc;
use std::sync::Arc;

use thalweg_proxy::backend::standing::Standing;
use thalweg_proxy::{Stopping, worker};
use thalweg_runtime::timer;

use super::server::Server;
use super::{Got, Line, accept};
use crate::plan::{BEGIN_MS, CheckPlan, Life, Plan, Speaks};
use crate::record::Record;

/// How often a server that says nothing looks whether it is to speak again, in milliseconds.
const DEAF_MS: u64 = 100;

/// When who could not listen tries again, in milliseconds.
const RETRY_MS: u64 = 10;

/// Answers checks for as long as the server is there.
pub async fn be_checked(server: Rc<Server>, check: CheckPlan) {
    loop {
        let server = Rc::clone(&server);
        let listens = accept(check.at, move |line| {
            let server = Rc::clone(&server);
            async move {
                if let Err(what) = answer(&server, check.speaks, &line).await {
                    server.complain(&format!("was sent this as a check ({:?}): {what}", check.speaks));
                }
                line.close();
            }
        });
        // What it listened at before may not be free yet.
        listens.await;
        timer::sleep(RETRY_MS).await;
    }
}

/// One connection of a check. An error is what came and no check of this kind sends.
async fn answer(server: &Server, speaks: Speaks, line: &Line) -> Result<(), String> {
    let mut input = Vec::new();
    if speaks == Speaks::Smtp
        && !say(server, line, b"220-proxy.example\r\n220 ready\r\n", b"554 no\r\n").await
    {
        return Ok(());
    }
    loop {
        while let Some(len) = complete(speaks, &input)? {
            let request: Vec<u8> = input.drain(..len).collect();
            let (good, bad) = reply(speaks, &request)?;
            if !say(server, line, &good, &bad).await {
                return Ok(());
            }
        }
        match line.recv(1 << 16).await {
            Got::Bytes(bytes) => input.extend(bytes),
            Got::Fin | Got::Reset | Got::Gone => return Ok(()),
        }
    }
}

/// Says what a server says that is well, or that is not; false when nothing more is to be said.
async fn say(server: &Server, line: &Line, good: &[u8], bad: &[u8]) -> bool {
    while server.life() == Life::Deaf {
        timer::sleep(DEAF_MS).await;
    }
    match server.life() {
        Life::Up => line.send(good).await,
        Life::Sick => {
            line.send(bad).await;
            false
        }
        Life::Deaf | Life::Down(_) => false,
    }
}

/// Bytes of the first request, when all of it is there.
fn complete(speaks: Speaks, input: &[u8]) -> Result<Option<usize>, String> {
    let line_end = || input.iter().position(|b| *b == b'\n').map(|at| at + 1);
    let (header, length) = match speaks {
        Speaks::Script | Speaks::Smtp => return Ok(line_end()),
        Speaks::Redis => (0, Some(REDIS_PING.len())),
        Speaks::SslHello => (5, input.get(3..5).map(|l| usize::from(l[0]) << 8 | usize::from(l[1]))),
        Speaks::Pgsql => (0, input.get(2..4).map(|l| usize::from(l[0]) << 8 | usize::from(l[1]))),
        Speaks::Ldap => (2, input.get(1).map(|l| usize::from(*l))),
    };
    match length {
        Some(0) => Err(format!("{input:?}")),
        Some(length) => Ok((input.len() >= header + length).then_some(header + length)),
        None => Ok(None),
    }
}

const REDIS_PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// What a server says to a request that is well, and what one says that is not.
fn reply(speaks: Speaks, request: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let text = String::from_utf8_lossy(request);
    let fine = match speaks {
        Speaks::Script => matches!(&*text, "first\r\n" | "second\r\n" | "third\r\n"),
        Speaks::Smtp => matches!(&*text, "EHLO proxy.example\r\n" | "QUIT\r\n"),
        Speaks::Redis => request == REDIS_PING,
        Speaks::SslHello => request[0] == 0x16 && request[5] == 1,
        Speaks::Pgsql => request.ends_with(b"user\0check\0\0"),
        Speaks::Ldap => request[0] == 0x30 && request.ends_with(b"\x80\0"),
    };
    if !fine {
        return Err(format!("{text:?}"));
    }
    let (good, bad): (Vec<u8>, &[u8]) = match speaks {
        Speaks::Script => (format!("ok-{text}").into_bytes(), b"Never\r\n"),
        Speaks::Smtp => (b"250-one\r\n250 two\r\n".to_vec(), b"421 no\r\n"),
        Speaks::Redis => (b"+PONG\r\n".to_vec(), b"-LOADING\r\n"),
        Speaks::SslHello => (b"\x15\x03\0\0\x02\x02\x28".to_vec(), b"no"),
        Speaks::Pgsql => (b"R\0\0\0\x08\0\0\0\0".to_vec(), b"E\0\0\0\x0aSFATAL\0\0"),
        Speaks::Ldap => {
            (b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0".to_vec(), b"\x30\x03\x02\x01\x02")
        }
    };
    Ok((good, bad.to_vec()))
}

/// The agent of a server, for ever.
pub async fn be_asked(plan: Arc<Plan>, record: Rc<Record>, n: usize) {
    let Some(agent) = plan.health.agent(n) else { return };
    loop {
        let listens = accept(agent.at, |line| {
            let word = agent.word(record.now_ms());
            async move {
                line.send(format!("{word}\n").as_bytes()).await;
                line.close();
            }
        });
        // There may be no descriptor for it.
        listens.await;
        timer::sleep(RETRY_MS).await;
    }
}

/// Looks, before a server becomes something else, whether the proxy knows by then what it is.
pub async fn watch_checks(plan: Arc<Plan>, record: Rc<Record>, n: usize, check: CheckPlan) {
    let mut since_ms = BEGIN_MS;
    let mut life = Life::Up;
    for (until_ms, next) in plan.servers[n].lives.iter().copied() {
        timer::sleep_until(record.began_ms + until_ms.saturating_sub(1)).await;
        if until_ms > since_ms + check.delay_ms() {
            judge(&plan, &record, n, &format!("{life:?} since {since_ms} ms"), |now| {
                now.health.is_up() == (life == Life::Up)
            });
        }
        (since_ms, life) = (until_ms.max(BEGIN_MS), next);
    }
}

/// The same of what its agent says.
pub async fn watch_agent(plan: Arc<Plan>, record: Rc<Record>, n: usize) {
    let Some(agent) = plan.health.agent(n) else { return };
    let mut since_ms = BEGIN_MS;
    let mut word = "";
    for (until_ms, next) in agent.words.iter().copied() {
        timer::sleep_until(record.began_ms + until_ms.saturating_sub(1)).await;
        if until_ms > since_ms + agent.delay_ms() {
            judge(&plan, &record, n, &format!("{word:?} since {since_ms} ms"), |now| {
                let says = |what: &str| word.split(' ').any(|said| said == what);
                let is_down = says("down") || says("stopped") || says("fail");
                (!is_down || !now.agent_up)
                    && (!says("up") || now.agent_up)
                    && (!says("drain") || now.drain)
                    && (!says("maint") || now.maintenance)
                    && (!says("ready") || !now.drain && !now.maintenance)
            });
        }
        (since_ms, word) = (until_ms.max(BEGIN_MS), next);
    }
}

/// Complains when a server does not stand as it should.
fn judge(plan: &Plan, record: &Record, n: usize, what: &str, is_right: impl Fn(&Standing) -> bool) {
    let Some(worker) = worker::current().filter(|worker| worker.live.stopping() == Stopping::No) else {
        return;
    };
    let backend = plan.proxy.backend_of(n);
    let Some(proxy) = worker.instance.backend_by_name(backend.name.as_bytes()) else { return };
    let Some(server) = proxy.server_by_name(&format!("s{n}")) else { return };
    let standing = worker.backend(proxy.id).standing(server.id);
    if !is_right(&standing) {
        record.complain(format!("server {n} is {what}, and the proxy has it as {standing:?}"));
    }
}

/// Once everything is as it should be again, the proxy must find that out of every server.
pub async fn recover(plan: &Plan, record: &Record) {
    let servers = || (0..plan.proxy.server_count()).filter(|n| plan.deeds.iter().all(|(_, of, _)| of != n));
    let mut known_ms = 0;
    for n in servers() {
        let lives_end = plan.servers[n].lives.last().map_or(0, |(at_ms, _)| *at_ms);
        let reloads_end = plan.change.as_ref().and_then(|c| c.reloads_ms.last()).copied().unwrap_or(0);
        let begin = lives_end.max(reloads_end).max(record.now_ms());
        if let Some(check) = plan.health.check(n) {
            known_ms = known_ms.max(begin + BEGIN_MS + check.delay_ms());
        }
        if let Some(agent) = plan.health.agent(n) {
            let words_end = agent.words.last().map_or(0, |(at_ms, _)| *at_ms);
            known_ms = known_ms.max(begin.max(words_end) + BEGIN_MS + agent.delay_ms());
        }
    }
    if known_ms == 0 {
        return;
    }
    timer::sleep_until(record.began_ms + known_ms).await;
    for n in servers() {
        if plan.health.check(n).is_some() {
            judge(plan, record, n, "well, as its checks say", |now| now.health.is_up());
        }
        if plan.health.agent(n).is_some() {
            judge(plan, record, n, "well, as its agent says", |now| {
                now.agent_up && !now.drain && !now.maintenance
            });
        }
    }
}
