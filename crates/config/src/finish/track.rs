//! `track` of servers: whose state each of them has. That one may track another one in its turn; the last one has checks.

use std::collections::HashMap;
use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::{Building, Cx};

/// Finds the servers that are tracked, and says what is wrong with them.
pub(super) fn resolve(cx: &mut Cx<'_>) {
    let mut all = Vec::new();
    for (at, b) in cx.proxies.iter_mut().enumerate() {
        all.extend(
            std::mem::take(&mut b.tracks)
                .into_iter()
                .map(|(server, wanted, span)| ((at, server), wanted, span)),
        );
    }
    if all.is_empty() {
        return;
    }
    let by_name: HashMap<(usize, Arc<str>), usize> = cx
        .proxies
        .iter()
        .enumerate()
        .flat_map(|(proxy, b)| {
            b.p.servers.iter().enumerate().map(move |(at, s)| ((proxy, Arc::clone(&s.name)), at))
        })
        .collect();
    // First all of them, so that chains can be followed.
    let mut sound = Vec::new();
    for (tracker, wanted, span) in all {
        match find(&cx.proxies, &by_name, tracker.0, &wanted) {
            Ok(found) => {
                let tracked = &cx.proxies[found.0].p;
                let id = (tracked.id, tracked.servers[found.1].id);
                let extra = cx.proxies[tracker.0].p.servers[tracker.1].extra.get_or_insert_default();
                Arc::make_mut(extra).track = Some(id);
                cx.proxies[found.0].p.servers[found.1].is_referenced = true;
                sound.push((tracker, found, span));
            }
            Err(what) => complain(cx, tracker, span, &what),
        }
    }
    let next: HashMap<Place, Place> = sound.iter().map(|(tracker, found, _)| (*tracker, *found)).collect();
    for (tracker, tracked, span) in sound {
        if let Err(what) = follow(&cx.proxies, &next, tracker, tracked) {
            complain(cx, tracker, span, &what);
        }
    }
}

/// A server by the positions of its proxy and of itself.
type Place = (usize, usize);

fn find(
    proxies: &[Building],
    by_name: &HashMap<(usize, Arc<str>), usize>,
    own: usize,
    wanted: &str,
) -> Result<Place, String> {
    let (proxy, server) = match wanted.split_once('/') {
        None => (own, wanted),
        Some((name, server)) => {
            let proxy = proxies.iter().position(|b| b.p.is_be() && &*b.p.name == name);
            let unknown = || format!("unable to find required proxy '{name}' for tracking.");
            (proxy.ok_or_else(unknown)?, server)
        }
    };
    let found = by_name.get(&(proxy, Arc::from(server)));
    found
        .map(|at| (proxy, *at))
        .ok_or_else(|| format!("unable to find required server '{server}' for tracking."))
}

/// Follows the chain from `tracked` on: it must end at a server with checks.
fn follow(
    proxies: &[Building],
    next: &HashMap<Place, Place>,
    tracker: Place,
    tracked: Place,
) -> Result<(), String> {
    let name = |at: Place| format!("{}/{}", proxies[at.0].p.name, proxies[at.0].p.servers[at.1].name);
    let servers = proxies.iter().map(|b| b.p.servers.len()).sum::<usize>();
    let mut last = tracked;
    // A chain with more steps than there are servers goes round.
    for _ in 0..=servers {
        if last == tracker {
            break;
        }
        let server = &proxies[last.0].p.servers[last.1];
        let Some(next) = next.get(&last) else {
            if server.check.is_none() && !server.rare().agent.as_ref().is_some_and(|agent| agent.asked) {
                return Err(format!(
                    "unable to use {} for tracking as it does not have any check nor agent enabled.",
                    name(last)
                ));
            }
            let on_404 = |at: usize| proxies[at].p.check.as_ref().is_some_and(|check| check.disable_on_404);
            if on_404(tracker.0) != on_404(tracked.0) {
                return Err(format!(
                    "unable to use {} for tracking: disable-on-404 option inconsistency.",
                    name(tracked)
                ));
            }
            return Ok(());
        };
        last = *next;
    }
    Err(format!(
        "unable to track {} as it belongs to a tracking chain looping back to {}.",
        name(tracked),
        name(last)
    ))
}

fn complain(cx: &mut Cx<'_>, tracker: Place, span: thalweg_syntax::Span, what: &str) {
    let p = &cx.proxies[tracker.0].p;
    let server = &p.servers[tracker.1];
    let message = format!("[{}:{}] : 'server {}/{}' : {what}", server.file, server.line, p.name, server.name);
    cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(span), message));
}
