//! Unix sockets in the place of addresses: clients that are on the machine of the proxy, and servers that are.
//!
//! Whoever comes to such a socket has no address. So clients say who they are in a PROXY header, and log lines name them as ever.

use std::path::Path;

use thalweg_runtime::net::SockAddr;

use super::{ProxyPlan, ServerPlan, TlsPlan};
use crate::random::Random;

/// Moves some of the frontends and servers of a scenario to unix sockets.
pub fn move_in(random: &mut Random, proxy: &mut ProxyPlan, tls: &TlsPlan, servers: &mut [ServerPlan]) {
    for n in 0..proxy.fronts.len() {
        if random.chance(60) {
            let here = name(random, &format!("fe{n}"));
            let there = std::mem::replace(&mut proxy.fronts[n], here.clone());
            // Who comes through a door is introduced by it.
            let introduces_itself = tls.doors.get(n).copied().flatten().is_none();
            let accepts = if introduces_itself { " accept-proxy" } else { "" };
            replace(&mut proxy.text, &there, &format!("{}{accepts}", written(&here)));
        }
    }
    for (n, server) in servers.iter_mut().enumerate() {
        if random.chance(50) {
            let here = name(random, &format!("s{n}"));
            let there = std::mem::replace(&mut server.address, here.clone());
            replace(&mut proxy.text, &there, &written(&here));
        }
    }
}

/// In the file system, or beside it.
fn name(random: &mut Random, of: &str) -> SockAddr {
    match random.chance(70) {
        true => SockAddr::Unix(Path::new(&format!("/run/{of}.sock")).into()),
        false => SockAddr::Abstract(of.as_bytes().into()),
    }
}

/// As configurations write it: after `abns@` a name is filled up with zeros, after `abnsz@` it is not.
fn written(address: &SockAddr) -> String {
    address.to_string().replace("abns@", "abnsz@")
}

/// Replaces an address, where it is a word of its own.
fn replace(text: &mut String, there: &SockAddr, here: &str) {
    let there = there.to_string();
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| {
            let words = line.split(' ').map(|word| if *word == there { here } else { word });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    *text = lines.join("\n");
}
