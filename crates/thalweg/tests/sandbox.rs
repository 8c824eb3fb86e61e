//! What a process that serves may no longer do with files (`sandbox`).

mod support;

use support::{Directory, Proxy, Server, Setup, each_driver};

/// What became of the escape that builds with assertions plant; `None` where there is no sandbox in the kernel.
fn escape(io: &'static str, global: &str) -> Option<(String, Proxy)> {
    let directory = Directory::new();
    let proxy = Setup::http(
        "frontend f\nbind <@fe>\nbind unix@<@dir>/fe\ndefault_backend b\nbackend b\nserver s <@s>\n",
    )
    .global(global)
    .env("THALWEG_PLANTED_ESCAPE", directory.0.to_str().unwrap())
    .start(io);
    let said = proxy.output();
    let line = said.lines().find_map(|line| line.strip_prefix("planted: ")).map(str::to_owned);
    let planted = directory.0.join("planted").exists();
    assert_eq!(planted, line.as_deref().is_none_or(|line| line.starts_with("open Ok")) && line.is_some());
    Some((line?, proxy))
}

#[test]
fn whoever_takes_it_over_writes_and_runs_nothing() {
    each_driver(|io| {
        // The plant is there in builds with assertions only.
        let Some((line, proxy)) = escape(io, "") else { return };
        if line.starts_with("open Ok(()), exec Ok(())") {
            eprintln!("skipped: this kernel has no Landlock");
            return;
        }
        assert_eq!(
            line,
            "open Err(PermissionDenied), exec Err(PermissionDenied), look Err(PermissionDenied)"
        );
        // It serves, reads what it needs to, and lets go of its socket's path.
        let server = Server::listen(std::net::TcpListener::bind(proxy.addr("s")).unwrap(), |mut conn, _| {
            while conn.next_request().is_some() {
                conn.send(support::ok("served"));
            }
        });
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").text(), "served");
        proxy.finish(server);
    });
}

#[test]
fn what_is_asked_for_is_allowed() {
    for (global, expected) in [
        ("sandbox off", "open Ok(()), exec Ok(()), look Ok(())"),
        ("sandbox files", "open Err(PermissionDenied), exec Err(PermissionDenied), look Ok(())"),
        // Programs of checks inherit it.
        ("external-check\ninsecure-fork-wanted", "open Ok(()), exec Ok(()), look Ok(())"),
        ("insecure-fork-wanted", "open Ok(()), exec Ok(()), look Ok(())"),
        // The kernel writes core files with the rights of the process.
        ("set-dumpable", "open Ok(()), exec Err(PermissionDenied), look Err(PermissionDenied)"),
    ] {
        let Some((line, _proxy)) = escape("epoll", global) else { return };
        if expected.starts_with("open Err") && line.starts_with("open Ok") {
            eprintln!("skipped: this kernel has no Landlock");
            continue;
        }
        assert_eq!(line, expected, "{global}");
    }
}

/// What a process's threads may do as root would, by the kernel's word (`CapEff`), and the user that it is.
fn privileges(proxy: &Proxy) -> Vec<(String, String)> {
    let field = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the kernel's");
        line.split_whitespace().next().unwrap_or("").to_owned()
    };
    let threads = std::fs::read_dir(format!("/proc/{}/task", proxy.id())).expect("the process is there");
    let statuses =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    statuses.map(|status| (field(&status, "Uid:"), field(&status, "CapEff:"))).collect()
}

/// Another user than root keeps the privileges that are named, on all threads, and no others.
#[test]
fn named_privileges_outlive_the_change_of_user() {
    if !is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    for (global, expected) in [
        ("", "0000000000000000"),
        ("setcap cap_net_raw,cap_net_bind_service\n", "0000000000002400"),
        ("setcap cap_net_raw\nsetcap cap_net_admin\n", "0000000000003000"),
    ] {
        let text = "frontend f\nbind <@fe>\nhttp-request return status 200\n";
        let proxy =
            Setup::http(text).global(&format!("nbthread 2\nuid 65534\ngid 65534\n{global}")).start("epoll");
        assert_eq!(proxy.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
        let found = privileges(&proxy);
        assert!(found.len() >= 2, "{found:?}");
        assert_eq!(found, vec![("65534".to_owned(), expected.to_owned()); found.len()], "{global}");
    }
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells of this process");
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}
