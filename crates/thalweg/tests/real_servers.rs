//! Health checks of servers as they are installed, where they are.

mod support;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::{Io, Setup, each_driver, eventually, reference};

/// A Redis of this test's own, which is ended with it.
struct Redis(Child);

impl Redis {
    /// `None` where there is none.
    fn start(at: SocketAddr) -> Option<Redis> {
        let (ip, port) = (at.ip().to_string(), at.port().to_string());
        let words =
            ["--bind", &ip, "--port", &port, "--save", "", "--appendonly", "no", "--protected-mode", "no"];
        let started =
            Command::new("redis-server").args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = started else {
            eprintln!("skipped: there is no redis-server here");
            return None;
        };
        eventually("it listens", || TcpStream::connect(at).ok());
        Some(Redis(child))
    }

    fn signal(&self, name: &str) {
        let number = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &number]).status().is_ok_and(|status| status.success()));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that answers, stalls, answers again, wants a password, and is gone.
#[test]
fn a_redis_is_checked() {
    let play = |io: Io, program: Option<&Path>| {
        let at = support::free_port(support::own_ip());
        let Some(redis) = Redis::start(at.into()) else { return };
        let text = format!(
            "global\nstats socket <@dir>/cli level admin\n\
             defaults\nmode tcp\ntimeout connect 2s\ntimeout client 2s\ntimeout server 2s\ntimeout check 500ms\n\
             frontend fe\nbind <@fe>\ndefault_backend be\n\
             backend be\noption redis-check\nserver a {at} check inter 50ms\n"
        );
        let setup = Setup::file(&text);
        let proxy = match program {
            Some(program) => setup.program(program).start(io),
            None => setup.start(io),
        };
        let is = |status: &str, info: &str| {
            eventually(status, || {
                let is = |column: &str| proxy.stat("be,a", column);
                (is("check_status").trim_start_matches("* ") == status && is("last_chk") == info)
                    .then_some(())
            });
        };
        is("L7OK", "Redis server is ok");
        redis.signal("-STOP");
        is("L7TOUT", "");
        redis.signal("-CONT");
        is("L7OK", "Redis server is ok");
        if program.is_none() {
            let set = [
                "-h",
                &at.ip().to_string(),
                "-p",
                &at.port().to_string(),
                "config",
                "set",
                "requirepass",
                "x",
            ];
            if Command::new("redis-cli")
                .args(set)
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
            {
                is("L7STS", "-NOAUTH Authentication required.");
            }
        }
        drop(redis);
        is("L4CON", "ECONNREFUSED returned by OS (Connection refused)");
    };
    each_driver(|io| play(io, None));
    if let Some(reference) = reference() {
        play("epoll", Some(&reference));
    }
}
