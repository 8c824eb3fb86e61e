//! TLS: the proxy speaks it with itself. Clients come to a door, a proxy in TCP mode that reaches the real one over TLS and says
//! in a PROXY header who they are; and servers are reached through a proxy that takes the TLS off. So both sides of it, with all
//! that the network does to them, lie between parties that know nothing of it and judge as ever.

use std::fmt::Write;
use std::net::SocketAddr;

use super::{ProxyPlan, Trouble};
use crate::random::Random;

/// The certificate and key of all listeners. Signatures of RSA have one length, so that a seed decides all lengths.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tls.pem");

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct TlsPlan {
    /// The doors that there are before frontends, by the number of the frontend.
    pub doors: Vec<Option<SocketAddr>>,
    /// Names and addresses of the proxies that stand before others or before servers.
    pub fronts: Vec<(String, SocketAddr)>,
}

impl TlsPlan {
    /// Changes a configuration so that some of what is in it is reached over TLS.
    pub fn draw(random: &mut Random, trouble: &Trouble, proxy: &mut ProxyPlan) -> TlsPlan {
        let mut plan = TlsPlan { doors: vec![None; proxy.fronts.len()], fronts: Vec::new() };
        let mut more = String::new();
        for n in 0..proxy.fronts.len() {
            if random.chance(70) {
                plan.door(random, n, proxy, &mut more);
            }
        }
        // Between a server that does wrong and its backend, a relay would turn one kind of wrong into another.
        if trouble.server_faults == 0 && !trouble.servers_flap && !trouble.storm {
            for n in 0..proxy.server_count() {
                if random.chance(70) {
                    plan.cover(random, n, proxy, &mut more);
                }
            }
        }
        proxy.text.push_str(&more);
        plan
    }

    /// A door before the `n`th frontend.
    fn door(&mut self, random: &mut Random, n: usize, proxy: &mut ProxyPlan, more: &mut String) {
        let (inner, outer) = (proxy.fronts[n].clone(), SocketAddr::from(([10, 0, 6, n as u8 + 1], 80)));
        let plain = format!(" bind {inner}\n");
        let secure = format!(" bind {inner} ssl crt {CERTIFICATE} accept-proxy{}\n", version(random));
        proxy.text = proxy.text.replace(&plain, &secure);
        let header = random.pick(&["send-proxy", "send-proxy-v2"]);
        let server = format!("{inner} ssl verify none {header}{}", resumption(random));
        self.doors[n] = Some(outer);
        self.relay(&format!("door{n}"), outer, "", &server, more);
    }

    /// A frontend before the `n`th server.
    fn cover(&mut self, random: &mut Random, n: usize, proxy: &mut ProxyPlan, more: &mut String) {
        let (inner, outer) = (proxy.address_of(n), SocketAddr::from(([10, 0, 7, n as u8 + 1], 80)));
        let plain = format!(" server s{n} {inner}");
        let secure = format!(" server s{n} {outer} ssl verify none{}", resumption(random));
        // Who it is that connects is said before TLS is spoken, and again to the server.
        let line = proxy.text.lines().find(|line| line.starts_with(&format!("{plain} ")));
        let (accept, send) = match line.and_then(|line| line.split(' ').find(|w| w.starts_with("send-proxy")))
        {
            Some(header) => ("accept-proxy", format!(" {header}")),
            None => ("", String::new()),
        };
        proxy.text = proxy.text.replace(&plain, &secure);
        let bind = format!("ssl crt {CERTIFICATE} {accept}{}", version(random));
        self.relay(&format!("cover{n}"), outer, &bind, &format!("{inner}{send}"), more);
    }

    /// A proxy that passes on what comes, and waits for as long as it takes.
    fn relay(&mut self, name: &str, at: SocketAddr, bind: &str, server: &str, more: &mut String) {
        let waits = "timeout connect 1h\n timeout client 1h\n timeout server 1h\n timeout queue 1h";
        _ = write!(
            more,
            "listen {name}\n mode tcp\n no log\n log-format \"-\"\n bind {at} {bind}\n {waits}\n server inner {server}\n"
        );
        self.fronts.push((name.to_owned(), at));
    }

    /// Whether a section is one of these, by its name.
    pub fn owns(&self, proxy: &str) -> bool {
        self.fronts.iter().any(|(own, _)| own == proxy)
    }
}

fn version(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["", "", " ssl-max-ver TLSv1.2"])
}

fn resumption(random: &mut Random) -> &'static str {
    random.pick::<&str>(&["", "", " no-ssl-reuse"])
}
