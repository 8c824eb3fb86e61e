//! What the keywords set.

mod common;

use std::sync::Arc;

use common::{load_text, rendered};
use thalweg_config::model::Sandbox;
use thalweg_config::*;

fn config(text: &str) -> Config {
    let mut loaded = load_text(text);
    loaded.config.take().unwrap_or_else(|| panic!("{text}\n{}", rendered(&loaded)))
}

/// The proxy named `x` of a file made of a `listen x` with these lines.
fn listen(lines: &str) -> Shared<Proxy> {
    let config = config(&format!("listen x\n mode http\n {}\n", lines.replace('|', "\n ")));
    config.proxies.iter().find(|p| &*p.name == "x").expect("proxy x").clone()
}

fn global(lines: &str) -> Shared<Global> {
    config(&format!("global\n {}\n", lines.replace('|', "\n "))).global
}

fn server(options: &str) -> Shared<Server> {
    listen(&format!("server s 192.0.2.1:80 {options}")).servers.remove(0)
}

fn bind(options: &str) -> Bind {
    listen(&format!("bind 192.0.2.1:80 {options}")).binds.remove(0)
}

#[test]
fn process_settings() {
    let check = |lines: &str, holds: fn(&Global) -> bool| assert!(holds(&global(lines)), "{lines}");
    check("nbthread 3", |g| g.nbthread == 3);
    check("", |g| g.nbthread == 2);
    check("maxconn 500", |g| g.maxconn == 500 && g.hard_maxconn == 500 && g.maxconn_set);
    check("maxconnrate 5|maxsessrate 6|maxpipes 7", |g| {
        (g.maxconnrate, g.maxsessrate, g.maxpipes) == (5, 6, 7)
    });
    check("chroot /srv|pidfile /p", |g| {
        g.chroot.as_deref() == Some("/srv".as_ref()) && g.pidfile.as_deref() == Some("/p".as_ref())
    });
    check("user root|group root", |g| g.uid == Some(0) && g.gid == Some(0));
    check("uid 5|gid 6", |g| g.uid == Some(5) && g.gid == Some(6));
    check("daemon|quiet|zero-warning", |g| g.daemon && g.quiet && g.zero_warning);
    check("busy-polling|no busy-polling", |g| !g.busy_polling);
    check("no strict-limits", |g| !g.strict_limits);
    check("strict-limits", |g| g.strict_limits);
    check("hard-stop-after 30s|close-spread-time 1m|grace 10s", |g| {
        (g.hard_stop_after_ms, g.close_spread_time_ms, g.grace_ms) == (Some(30_000), Some(60_000), 10_000)
    });
    check("node a|description b c|localpeer d|log-tag t", |g| {
        g.node.as_deref() == Some("a")
            && g.description.as_deref() == Some("b c")
            && g.localpeer.as_deref() == Some("d")
            && g.log_tag.as_deref() == Some("t")
    });
    check("tune.bufsize 32k|tune.maxrewrite 512", |g| (g.tune.bufsize, g.tune.maxrewrite) == (32768, 512));
    check("", |g| (g.tune.bufsize, g.tune.maxrewrite, g.tune.http_maxhdr) == (16384, 1024, 101));
    check("tune.http.maxhdr 50|tune.maxaccept 5|tune.runqueue-depth 30", |g| {
        (g.tune.http_maxhdr, g.tune.maxaccept, g.tune.runqueue_depth) == (50, 5, 30)
    });
    check("tune.idle-pool.shared off", |g| !g.tune.idle_pool_shared);
    check("tune.pool-low-fd-ratio 7", |g| g.tune.pool_low_fd_percent == 7);
    check("tune.pool-high-fd-ratio 9", |g| g.tune.pool_high_fd_percent == 9);
    check("tune.listener.multi-queue fair", |g| g.tune.listener_multi_queue == MultiQueue::Fair);
    check("tune.listener.default-shards by-thread", |g| g.tune.listener_default_shards == Shards::ByThread);
    check("tune.io.driver epoll", |g| g.io_driver == IoDriver::Epoll);
    check("maxconn 1", |g| g.sandbox == Sandbox::On);
    check("sandbox on|sandbox off", |g| g.sandbox == Sandbox::Off);
    check("sandbox files", |g| g.sandbox == Sandbox::Files);
    check("noepoll|nosplice|noreuseport", |g| g.noepoll && g.nosplice && g.noreuseport);
    check("cpu-map auto:1/1-2 4-5", |g| g.cpu_map == [Some(vec![4]), Some(vec![5])]);
    check("cpu-map 1/2 4-5", |g| g.cpu_map == [None, Some(vec![4, 5])]);
    check("stats timeout 5s|stats maxconn 3", |g| g.stats_timeout_ms == Some(5000) && g.stats_maxconn == 3);
    check("h1-case-adjust a A", |g| g.h1_case_adjust == [(Arc::from("a"), Arc::from("A"))]);
    check("set-var proc.a int(5)", |g| g.set_var.len() == 1 && &*g.set_var[0].name == "proc.a");
}

#[test]
fn stats_sockets() {
    let g = global(
        "stats socket \"/run/a.sock\" level admin mode 600|stats socket \"fd@5\" level admin|stats socket ipv4@127.0.0.1:99",
    );
    assert_eq!(g.stats_sockets.len(), 3);
    assert_eq!(g.stats_sockets[0].addr, BindAddr::Unix("/run/a.sock".into()));
    assert_eq!(g.stats_sockets[0].owner.mode, Some(0o600));
    assert_eq!(g.stats_sockets[0].level, CliLevel::Admin);
    assert_eq!(g.stats_sockets[1].addr, BindAddr::Fd(5));
    assert_eq!(g.stats_sockets[2].addr, BindAddr::Tcp("127.0.0.1:99".parse().expect("an address")));
    assert_eq!(g.stats_sockets[2].level, CliLevel::Operator);
}

#[test]
fn the_environment_is_seen_by_the_lines_that_follow() {
    let c = config("global\n setenv N 500\n maxconn \"$N\"\n presetenv N 7\n");
    assert_eq!(c.global.maxconn, 500);
    let loaded = load_text("global\n setenv A 1\n setenv B 2\n unsetenv A\n");
    let environment = loaded.config.expect("a configuration").environment;
    assert_eq!(environment.get("A"), None);
    assert_eq!(environment.get("B"), Some(&b"2"[..]));
    assert_eq!(environment.get("HAPROXY_HTTP_LOG_FMT"), None);
}

#[test]
fn the_sockets_of_the_cli_are_in_the_environment() {
    let c = config("global\n stats socket /run/a.sock\n stats socket ipv4@127.0.0.1:99,:::98\n");
    let expected: &[u8] = b"unix@/run/a.sock;ipv4@127.0.0.1:99;ipv6@[::]:98";
    assert_eq!(c.environment.get("HAPROXY_CLI"), Some(expected));
}

#[test]
fn proxy_settings() {
    let check = |lines: &str, holds: fn(&Proxy) -> bool| assert!(holds(&listen(lines)), "{lines}");
    check("timeout client 5s|timeout server 6s|timeout connect 7", |p| {
        (p.timeouts.client, p.timeouts.server, p.timeouts.connect) == (Some(5000), Some(6000), Some(7))
    });
    check("timeout tunnel 1h|timeout queue 0|timeout check 2s", |p| {
        (p.timeouts.tunnel, p.timeouts.queue, p.timeouts.check) == (Some(3_600_000), None, Some(2000))
    });
    check("timeout http-request 1s|timeout http-keep-alive 2s|timeout tarpit 3s", |p| {
        (p.timeouts.http_request, p.timeouts.http_keep_alive, p.timeouts.tarpit)
            == (Some(1000), Some(2000), Some(3000))
    });
    check("timeout client-fin 1s|timeout server-fin 2s|timeout client-hs 3s", |p| {
        (p.timeouts.client_fin, p.timeouts.server_fin, p.timeouts.client_hs)
            == (Some(1000), Some(2000), Some(3000))
    });
    check("maxconn 5|backlog 6|fullconn 7|retries 8", |p| {
        (p.maxconn, p.backlog, p.fullconn, p.retries) == (5, 6, 7, 8)
    });
    check("rate-limit sessions 9", |p| p.fe_sps_limit == 9);
    check("", |p| p.retries == 3 && p.http_reuse == Reuse::Safe && p.retry_on == RetryOn::default());
    check("http-reuse always", |p| p.http_reuse == Reuse::Always);
    check("retry-on 503 empty-response", |p| {
        p.retry_on.has_status(503) && p.retry_on.empty_response && !p.retry_on.conn_failure
    });
    check("retry-on none", |p| p.retry_on == RetryOn::NONE);
    check("balance leastconn", |p| matches!(p.balance.algo, BalanceAlgo::Servers(Algorithm::LeastConn)));
    check("", |p| matches!(p.balance.algo, BalanceAlgo::Servers(Algorithm::Random { draws: 2 })));
    check("balance random(3)", |p| {
        matches!(p.balance.algo, BalanceAlgo::Servers(Algorithm::Random { draws: 3 }))
    });
    check("balance uri len 5 depth 2 whole", |p| {
        format!("{:?}", p.balance.algo)
            == "Key(UriKey { len: Some(5), depth: Some(2), whole: true, path_only: false })"
    });
    check("balance hash src", |p| matches!(p.balance.algo, BalanceAlgo::Hash(_)));
    check("hash-type consistent", |p| {
        p.balance.hash
            == HashType { method: HashMethod::Consistent, function: HashFunction::Sdbm, avalanche: true }
    });
    check("hash-type map-based djb2", |p| {
        p.balance.hash
            == HashType { method: HashMethod::MapBased, function: HashFunction::Djb2, avalanche: false }
    });
    check("hash-balance-factor 150|hash-preserve-affinity maxqueue", |p| {
        p.balance.hash_balance_factor == 150 && p.balance.preserve_affinity == PreserveAffinity::MaxQueue
    });
    check("option httpclose", |p| p.opts.httpclose && !p.opts.http_server_close);
    check("option httpclose|option http-server-close", |p| !p.opts.httpclose && p.opts.http_server_close);
    check("option http-server-close|no option http-server-close", |p| !p.opts.http_server_close);
    check("", |p| p.opts.abortonclose);
    check("no option abortonclose", |p| !p.opts.abortonclose);
    check("mode tcp", |p| !p.opts.abortonclose && p.mode == Mode::Tcp);
    check("", |p| p.opts.tcp_smart_accept);
    check("no option tcp-smart-accept", |p| !p.opts.tcp_smart_accept);
    check("no option tcp-smart-accept|default option tcp-smart-accept", |p| p.opts.tcp_smart_accept);
    check("mode tcp", |p| !p.opts.tcp_smart_accept);
    check("mode tcp|option tcp-smart-accept", |p| p.opts.tcp_smart_accept);
    check("option tcpka", |p| p.opts.tcpka_cli && p.opts.tcpka_srv);
    check("option redispatch", |p| p.opts.redispatch == Some(-1));
    check("option redispatch 3", |p| p.opts.redispatch == Some(3));
    check("option redispatch|no option redispatch", |p| p.opts.redispatch.is_none());
    check("option forwardfor except 10.0.0.0/8 header X-C if-none", |p| {
        p.forwardfor.as_ref().is_some_and(|f| {
            &*f.header == b"X-C" && f.if_none && f.except.is_some_and(|n| n.contains([10, 1, 1, 1].into()))
        })
    });
    check("option originalto", |p| p.originalto.as_ref().is_some_and(|f| &*f.header == b"X-Original-To"));
    check("option forwarded proto for-expr src", |p| {
        p.forwarded
            .as_ref()
            .is_some_and(|f| f.proto && matches!(f.for_, Some(ForwardedField::Expr(_))) && f.by.is_none())
    });
    check("clitcpka-cnt 3|clitcpka-idle 5|srvtcpka-intvl 7s", |p| {
        (p.cli_keepalive.cnt, p.cli_keepalive.idle_s, p.srv_keepalive.intvl_s) == (3, 5, 7)
    });
    check("cookie S insert indirect nocache domain a.b maxidle 5m", |p| {
        p.cookie.as_ref().is_some_and(|c| {
            c.mode == CookieMode::Insert
                && c.indirect
                && c.nocache
                && c.maxidle_s == 300
                && &*c.domains[0] == "a.b"
        })
    });
    check("source 192.0.2.9:1000 interface lo", |p| {
        p.source
            .as_ref()
            .is_some_and(|s| s.ports == Some((1000, 1000)) && s.interface.as_deref() == Some("lo"))
    });
    check("capture request header Host len 9|declare capture request len 8|capture cookie C= len 7", |p| {
        p.request_captures.iter().map(|c| c.len).eq([9, 8])
            && p.cookie_capture.as_ref().is_some_and(|c| c.len == 7)
    });
    check("log 127.0.0.1:514 len 200 format raw local3 info err", |p| {
        let t = &p.log_targets[0];
        t.dest == LogDest::Udp(([127, 0, 0, 1], 514).into())
            && (t.len, t.format, t.facility, t.level, t.minlevel)
                == (200, LogFormatKind::Raw, Facility(19), LogLevel::Info, LogLevel::Err)
    });
    check("log stdout format raw daemon|log stderr local0|log /dev/log local0|log fd@1 local0", |p| {
        p.log_targets.iter().map(|t| t.dest.clone()).eq([
            LogDest::Stdout,
            LogDest::Stderr,
            LogDest::Unix("/dev/log".into()),
            LogDest::Fd(1),
        ])
    });
    check("log 127.0.0.1 sample 1-2,4:5 local0", |p| {
        p.log_targets[0].sample.as_ref().is_some_and(|s| s.ranges == [(1, 2), (4, 4)] && s.size == 5)
    });
    check("log 127.0.0.1 local0|no log", |p| p.log_targets.is_empty());
    check("log 127.0.0.1 local0|option httplog", |p| p.formats.log.is_some() && p.formats.is_http);
    check("errorfile 400 page.http", |p| {
        p.errors.as_ref().is_some_and(|e| e.find(400).is_some() && e.find(403).is_none())
    });
    check("monitor-uri /up|monitor fail if FALSE", |p| p.monitor_uri.is_some() && p.monitor_fail.len() == 1);
    check("force-persist if TRUE|ignore-persist if TRUE", |p| {
        p.persist_rules.iter().map(|r| r.force).eq([true, false])
    });
    check("http-request deny|redirect location /", |p| {
        (p.rules.http_request.len(), p.rules.redirect.len()) == (1, 1)
    });
    check("tcp-request inspect-delay 5s|tcp-request content accept", |p| {
        p.inspect_delay_req_ms == Some(5000) && p.rules.tcp_content_req.len() == 1
    });
    check("unique-id-format %ci|unique-id-header X-Id", |p| {
        p.unique_id_format.is_some() && p.unique_id_header.is_some()
    });
    check("log-steps accept,close", |p| *p.log_steps == [LogStep::Accept, LogStep::Close]);
    check("http-send-name-header X|max-keep-alive-queue 4|dynamic-cookie-key k", |p| {
        p.http_send_name_header.is_some() && p.max_keep_alive_queue == 4 && p.dynamic_cookie_key.is_some()
    });
}

#[test]
fn fullconn_is_a_tenth_of_what_frontends_may_bring() {
    let config = config(
        "listen hands-on\n mode http\n maxconn 500\n use_backend chosen if FALSE\n default_backend usual\n\
         listen alone\n mode http\n maxconn 200\nbackend usual\n mode http\nbackend chosen\n mode http\n",
    );
    let found: Vec<_> = config.proxies.iter().map(|p| (&*p.name, p.fullconn)).collect();
    assert_eq!(found, [("hands-on", 1), ("alone", 20), ("usual", 50), ("chosen", 50)]);
}

/// Played to HAProxy 3.5-dev5: `log global` again adds only lines of `global` that the section does not have yet; two equal lines of
/// `global` are two, and a line of the section itself is another one each time.
#[test]
fn what_is_global_is_logged_to_once() {
    let facilities = |between: &str, lines: &str| -> Vec<u8> {
        let text = format!(
            "global\n log 127.0.0.1 local0\n log 127.0.0.1 local0\ndefaults\n mode http\n log global\n{between}listen x\n {}\n",
            lines.replace('|', "\n ")
        );
        let config = config(&text);
        config.proxies[0].log_targets.iter().map(|t| t.facility.0).collect()
    };
    assert_eq!(facilities("", "option httplog"), [16, 16]);
    assert_eq!(facilities("", "log global"), [16, 16]);
    assert_eq!(facilities("global\n log 127.0.0.1 local1\n", "log global"), [16, 16, 17]);
    assert_eq!(facilities("", "no log|log global"), [16, 16]);
    assert_eq!(facilities("", "log 127.0.0.1 local2|log global|log 127.0.0.1 local2"), [16, 16, 18, 18]);
}

#[test]
fn filters_run_in_the_order_that_is_said() {
    let declared = "filter trace|filter bwlim-out a default-limit 1k default-period 1s|filter trace name B";
    let order = |lines: &str, requests: bool| {
        let proxy = listen(&format!("{declared}{lines}"));
        let filters = proxy.filters.clone().expect("filters");
        let names = |filter: &Filter| match filter {
            Filter::Bandwidth(filter) => filter.name.to_string(),
            Filter::Trace(filter) => filter.name.to_string(),
        };
        filters.of(requests).map(names).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order("", true), "TRACE a B");
    assert_eq!(order("|filter-sequence response bwlim-out,trace", false), "a TRACE");
    assert_eq!(order("|filter-sequence response bwlim-out,trace", true), "TRACE a B");
    assert_eq!(order("|filter-sequence request trace,trace", true), "TRACE");
    assert_eq!(
        order("|filter-sequence request bwlim-out|filter-sequence request trace", true),
        "a TRACE",
        "a second line goes on with the list"
    );
}

#[test]
fn server_settings() {
    let check = |options: &str, holds: fn(&Server) -> bool| assert!(holds(&server(options)), "{options}");
    check("", |s| s.weight == 1 && s.uid == 1 && s.pool == PoolConfig::default() && s.extra.is_none());
    check("weight 7 backup disabled", |s| s.weight == 7 && s.backup && s.disabled);
    check("backup no-backup", |s| !s.backup);
    check("maxconn 5 minconn 2 maxqueue 9", |s| (s.maxconn, s.minconn, s.maxqueue) == (5, 2, 9));
    check("minconn 9 maxconn 5", |s| s.maxconn == 9);
    check("maxconn 5 minconn 2", |s| s.follows_load());
    check("maxconn 5", |s| !s.follows_load());
    check("maxconn 5 adaptive-maxconn", |s| (s.maxconn, s.minconn, s.follows_load()) == (5, 1, false));
    check("adaptive-maxconn minconn 3 maxconn 2", |s| (s.maxconn, s.minconn) == (3, 3));
    check("maxconn 5 adaptive-maxconn no-adaptive-maxconn", |s| s.minconn == 0);
    check("cookie abc id 8", |s| s.cookie.as_deref() == Some("abc") && s.uid == 8);
    check("send-proxy", |s| s.send_proxy == ProxyHeader::V1);
    check(
        "proxy-v2-options crc32c send-proxy-v2",
        |s| matches!(s.send_proxy, ProxyHeader::V2(v) if v.crc32c),
    );
    check("send-proxy no-send-proxy", |s| s.send_proxy == ProxyHeader::None);
    check("pool-max-conn 5 pool-low-conn 2 pool-purge-delay 1s max-reuse 9", |s| {
        s.pool == PoolConfig { low_conn: 2, max_conn: 5, purge_delay_ms: 1000, max_reuse: 9 }
    });
    check("idle-ping 5s", |s| s.rare().idle_ping_ms == 5000);
    check("log-bufsize 4096", |s| s.rare().log_bufsize == Some(4096));
    check("strict-maxconn", |s| s.rare().strict_maxconn);
    check("check check-reuse-pool check-pool-conn-name x", |s| {
        s.check.as_ref().is_some_and(|c| c.reuse_pool && c.pool_conn_name.as_deref() == Some("x"))
    });
    check("check check-reuse-pool no-check-reuse-pool", |s| s.check.as_ref().is_some_and(|c| !c.reuse_pool));
    check("redir http://x tcp-ut 5s tfo", |s| {
        s.rare().redir.as_deref() == Some("http://x") && s.rare().tcp_ut_ms == 5000 && s.rare().tfo
    });
    check("source 192.0.2.7", |s| s.rare().source.as_ref().is_some_and(|a| a.addr.is_some()));
    check("hash-key addr", |s| s.hash_key == HashKey::Addr);
    check("init-state down", |s| s.rare().init_state == InitState::Down);
    check("inter 1s rise 3", |s| s.check.is_none());
    let p = listen(
        "default-server weight 5 maxconn 6|server a 192.0.2.1|server b 192.0.2.2:+3 weight 9|server c /run/s|server d abns@x",
    );
    assert_eq!(p.servers[0].weight, 5);
    assert_eq!(p.servers[0].port_mode, PortMode::SameAsClient);
    assert_eq!(
        (p.servers[1].weight, p.servers[1].maxconn, p.servers[1].port_mode),
        (9, 6, PortMode::Offset(3))
    );
    assert_eq!(p.servers[2].addr, ServerAddr::Unix(Arc::new("/run/s".into())));
    assert_eq!(p.servers[3].addr, ServerAddr::Abstract(b"x"[..].into()));
    let p = listen("server-template web 2-4 192.0.2.1:80 weight 3");
    assert!(p.servers.iter().map(|s| &*s.name).eq(["web2", "web3", "web4"]));
    assert!(p.servers.iter().map(|s| s.uid).eq([1, 2, 3]));
}

#[test]
fn listener_settings() {
    let check = |options: &str, holds: fn(&Bind) -> bool| assert!(holds(&bind(options)), "{options}");
    check("name n maxconn 5 backlog 6 nice -7", |b| {
        b.name.as_deref() == Some("n") && (b.maxconn, b.backlog, b.nice) == (5, 6, -7)
    });
    check("accept-proxy defer-accept tfo transparent v6only", |b| {
        b.accept_proxy && b.defer_accept && b.tfo && b.transparent && b.v4v6 == Some(false)
    });
    check("label l tcp-ss 2", |b| b.label.as_deref() == Some("l") && b.save_syn == 2);
    check("accept-netscaler-cip 195939070", |b| b.netscaler_magic == 0x0bad_cafe);
    check("accept-netscaler-cip -1", |b| b.netscaler_magic == u32::MAX);
    check("idle-ping 5s", |b| b.idle_ping_ms == 5000);
    check("mss 1400 interface lo tcp-ut 5s cc cubic", |b| {
        b.mss == 1400 && b.interface.is_some() && b.tcp_ut_ms == 5000 && b.cc.is_some()
    });
    check("shards by-thread", |b| b.shards == Shards::ByThread);
    check("shards 3 thread 1/1-2", |b| b.shards == Shards::Count(3) && b.threads.0 == [0, 1]);
    check("uid 5 mode 640", |b| b.owner.uid == Some(5) && b.owner.mode == Some(0o640));
    let p = listen("bind 192.0.2.1:80-82,[2001:db8::1]:90 name n");
    assert!(p.binds.iter().map(|b| b.uid).eq([1, 2, 3, 4]));
    assert_eq!(p.binds[2].addr, BindAddr::Tcp("192.0.2.1:82".parse().expect("an address")));
    assert_eq!(p.binds[3].addr, BindAddr::Tcp("[2001:db8::1]:90".parse().expect("an address")));
    assert!(p.binds.iter().all(|b| b.name.as_deref() == Some("n")));
    let p = listen("bind fd@7|bind unix@/run/x|bind abns@y");
    assert!(p.binds.iter().map(|b| b.addr.clone()).eq([
        BindAddr::Fd(7),
        BindAddr::Unix("/run/x".into()),
        BindAddr::Abstract(b"y".to_vec()),
    ]));
}

#[test]
fn numbers_are_given_in_order_around_explicit_ones() {
    let c = config("frontend a\n bind :1\nbackend b\n id 3\nbackend c\nbackend d\n id 1\nbackend e\n");
    assert!(c.proxies.iter().map(|p| p.uid).eq([2, 3, 4, 1, 5]));
    let p = listen("server a 192.0.2.1 id 2|server b 192.0.2.1|server c 192.0.2.1|server d 192.0.2.1 id 9");
    assert!(p.servers.iter().map(|s| s.uid).eq([2, 3, 4, 9]));
}

#[test]
fn presets_reach_the_proxies_that_inherit_them() {
    let text = "defaults\n mode http\n timeout client 1s\n option httpclose\n default-server weight 4\n\
                defaults named\n mode tcp\n retries 9\n\
                listen a\n bind :1\n\
                listen b from named\n bind :2\n server s 192.0.2.1\n\
                defaults\n timeout client 2s\n\
                listen c\n bind :3\n";
    let c = config(text);
    let p = |name: &str| c.proxies.iter().find(|p| &*p.name == name).expect("a proxy");
    // A proxy without `from` takes the last presets, named or not.
    assert_eq!((p("a").mode, p("a").retries, p("a").timeouts.client), (Mode::Tcp, 9, None));
    assert_eq!((p("b").mode, p("b").retries, p("b").servers[0].weight), (Mode::Tcp, 9, 1));
    assert_eq!((p("c").mode, p("c").timeouts.client, p("c").opts.httpclose), (Mode::Tcp, Some(2000), false));
}

#[test]
fn inherited_rules_come_first_and_are_shared() {
    let text = "defaults d\n mode http\n http-request set-header a b\n http-request capture hdr(x) len 5\n\
                frontend f from d\n bind :1\n declare capture request len 6\n http-request deny if { path /x }\n\
                frontend g from d\n bind :2\n";
    let c = config(text);
    assert_eq!(c.proxies[0].rules.http_request.len(), 3);
    assert_eq!(c.proxies[1].rules.http_request.len(), 2);
    assert!(c.proxies[0].request_captures.iter().map(|s| s.len).eq([5, 6]));
    assert!(Arc::ptr_eq(
        &c.proxies[0].rules.http_request.rules()[0],
        &c.proxies[1].rules.http_request.rules()[0]
    ));
}

#[test]
fn backends_are_found_wherever_they_are() {
    let c = config(
        "frontend f\n mode http\n bind :1\n use_backend b if { path /x }\n use_backend %[hdr(host)]\n default_backend c\nbackend b\n mode http\nbackend c\n mode http\n",
    );
    let f = &c.proxies[0];
    assert_eq!(f.default_backend, Some(ProxyId(2)));
    assert!(matches!(f.use_backend[0].target, DynamicTarget::Static(ProxyId(1))));
    assert!(f.use_backend[0].cond.is_some());
    assert!(matches!(f.use_backend[1].target, DynamicTarget::Dynamic(_)));
}

#[test]
fn userlists_tie_users_and_groups() {
    let c = config(
        "userlist u\n group g users a\n group h\n user a insecure-password x groups h\n user b password y\n",
    );
    let list = &c.userlists[0];
    assert_eq!(list.users[0].groups, [0, 1]);
    assert_eq!(list.users[1].password, Password::Crypt(Arc::from("y")));
}

#[test]
fn messages_come_in_the_order_of_the_lines() {
    let loaded =
        load_text("listen x\n mode http\n http-request deny if nope\n foo\n acl a nope\nglobal\n bar\n");
    let lines: Vec<u32> = loaded.diagnostics.iter().filter_map(|d| d.span).map(|s| s.line).collect();
    assert_eq!(lines, [3, 4, 5, 7]);
}

#[test]
fn proxies_and_servers_stay_small() {
    assert!(size_of::<Proxy>() <= 1040, "{}", size_of::<Proxy>());
    assert!(size_of::<Server>() <= 192, "{}", size_of::<Server>());
}

/// What a message says that `balance` accepts is accepted, and is what statistics call it.
#[test]
fn every_algorithm_that_is_listed_works() {
    let refusal = |lines: &str| {
        let loaded = load_text(lines);
        assert!(loaded.config.is_none(), "{lines}");
        rendered(&loaded)
    };
    let message = refusal("listen x\n mode http\n balance leastcon\n");
    assert!(message.contains("did you mean 'leastconn' maybe ?"), "{message}");
    let list = message.split("balance only supports ").nth(1).and_then(|m| m.split(" options").next());
    let names: Vec<&str> = list.expect("a list").split('\'').skip(1).step_by(2).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        // These two are for log backends.
        if ["sticky", "log-hash"].contains(&name) {
            continue;
        }
        let argument = match name {
            "url_param" => "p",
            "hash" => "src",
            _ => "",
        };
        let proxy = listen(&format!("balance {name} {argument}"));
        assert_eq!(proxy.balance.algo.name(), name.split('(').next().unwrap());
    }
    let message = refusal(
        "backend x\n mode log\n balance leastconn\n server s udp@192.0.2.1:514\nlisten y\n mode tcp\n bind :1\n",
    );
    assert!(message.contains("only supports 'roundrobin', 'random', 'sticky' and 'log-hash'."), "{message}");
    let for_logs = |lines: &str| format!("backend x\n mode log\n{lines} server s udp@192.0.2.1:514\n");
    let loaded = load_text(&for_logs(" balance log-hash field(2,/),lower\n"));
    let algorithm = &loaded.config.expect("valid").proxies[0].balance.algo;
    assert_eq!(algorithm.name(), "log-hash");
    for (lines, expected) in [
        (" balance log-hash foo(2)\n", "unknown converter 'foo'"),
        (" balance log-hash lower\n hash-type consistent\n", "only works with 'hash-type map-based'"),
    ] {
        let message = refusal(&for_logs(lines));
        assert!(message.contains(expected), "{message}");
    }
}
