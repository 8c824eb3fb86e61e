//! The options of a server about its agent, and about what traffic says of its health.

use std::sync::Arc;

use thalweg_syntax::{Address, AddressOptions, Line};

use crate::build::{Cx, ServerDraft};
use crate::keyword::fail;
use crate::model::{AgentConfig, ObserveLayer};
use crate::numbers::leading;
use crate::resolve::addresses;
use crate::server_options::{between_checks, rare};
use crate::setter::{Took, value};

pub(crate) fn agent(draft: &mut ServerDraft) -> &mut AgentConfig {
    Arc::make_mut(rare(draft).agent.get_or_insert_with(Arc::default))
}

/// `healthcheck <name>`
pub(crate) fn healthcheck(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'healthcheck' expects a healthcheck name as argument.")?;
    draft.healthcheck = Some((cx.name(text), line.span_at(at + 1)));
    Ok(2)
}

/// `agent-inter`
pub(crate) fn agent_inter(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'agent-inter' expects a delay as argument.")?;
    agent(draft).inter_ms = between_checks(cx, line, at, draft)?;
    Ok(2)
}

/// `agent-port`
pub(crate) fn agent_port(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'agent-port' expects a port number as argument.")?;
    // What is no port is told where an agent that is asked has none.
    agent(draft).port = u16::try_from(leading(text).0).ok().filter(|port| *port != 0);
    Ok(2)
}

/// `agent-send`
pub(crate) fn agent_send(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    value(line, at, "'agent-send' expects a string as argument.")?;
    agent(draft).send = line.word(at + 1).map(|word| word.bytes().into());
    Ok(2)
}

/// `agent-addr`
pub(crate) fn agent_addr(cx: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    let text = value(line, at, "'agent-addr' expects an address as argument.")?;
    match addresses(cx, line, at + 1, &AddressOptions::HOST, "").as_deref() {
        Ok([Address::Ip { ip, .. }]) => {
            agent(draft).addr = Some(*ip);
            Ok(2)
        }
        _ => {
            let message = format!("parsing agent-addr failed. Check if '{text}' is correct address.");
            Err(fail(line, at + 1, message))
        }
    }
}

/// `observe`: health from traffic.
pub(crate) fn observe(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    rare(draft).observe = match line.text(at + 1) {
        "none" => None,
        "layer4" => Some(ObserveLayer::Connections),
        "layer7" => Some(ObserveLayer::Http),
        text => {
            let message = format!("'observe' expects one of 'none', 'layer4', 'layer7' but got '{text}'");
            return Err(fail(line, at + 1, message));
        }
    };
    Ok(2)
}

/// `error-limit`, which only matters with `observe`.
pub(crate) fn error_limit(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    match u32::try_from(leading(line.text(at + 1)).0) {
        Ok(limit @ 1..=0x7fff_ffff) => {
            rare(draft).error_limit = Some(limit);
            Ok(2)
        }
        _ => Err(fail(line, at + 1, "error-limit has to be > 0.")),
    }
}
