//! `resolvers` of servers: which section each of them asks.

use std::sync::Arc;

use thalweg_syntax::{Diagnostic, Lead, Severity};

use crate::build::Cx;
use crate::model::{Mode, Resolution};

/// Finds the sections that servers name.
pub(super) fn resolve(cx: &mut Cx<'_>) {
    let sections = &cx.config.resolvers;
    for b in &mut cx.proxies {
        for wanted in std::mem::take(&mut b.resolutions) {
            let is_log = b.p.mode == Mode::Log;
            let server = &mut b.p.servers[wanted.server];
            let complaint = match sections.iter().position(|section| section.name == wanted.section) {
                None => Some(format!(
                    "backend '{}', server '{}': unable to find required resolvers '{}'",
                    b.p.name, server.name, wanted.section
                )),
                Some(_) if is_log => Some(format!(
                    "backend '{}', server '{}': 'resolvers' is not supported yet: servers of logs stay with the address of the start",
                    b.p.name, server.name
                )),
                Some(section) => {
                    let extra = Arc::make_mut(server.extra.get_or_insert_default());
                    extra.resolution = Some(Arc::new(Resolution { section, preference: wanted.preference }));
                    None
                }
            };
            if let Some(message) = complaint {
                cx.diagnostics.push(Diagnostic::new(Severity::Alert, Lead::Bare, Some(wanted.span), message));
            }
        }
    }
}
