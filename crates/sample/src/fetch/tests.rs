use super::*;
use crate::acl::Verdict;
use crate::facts::ServerId;
use crate::testing::Rig;
use crate::{Expr, ProxyId};
use std::collections::BTreeSet;

fn check(rig: &mut Rig, tested: &mut BTreeSet<String>, text: &str, expected: &str) {
    let name = &text[..text.find(['(', ',']).unwrap_or(text.len())];
    tested.insert(name.to_string());
    let expected = (expected != "-").then(|| expected.to_string());
    assert_eq!(rig.eval(text), expected, "{text}");
}

/// Runs every line `expression => value`, where `-` means none; returns the fetches seen.
fn table(rig: &mut Rig, lines: &str) -> BTreeSet<String> {
    let mut tested = BTreeSet::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (text, expected) = line.split_once(" => ").unwrap_or((line.trim_end_matches(" =>"), ""));
        check(rig, &mut tested, text, expected);
    }
    tested
}

fn http_rig() -> Rig {
    Rig::with_request(
        "GET /p/a/t/h?q=1&b=2;c=3&Q=5&e=&f HTTP/1.1\r\nHost: Www.Example.com:8080\r\nX: a,,b, c\r\nx: \r\nX: \"d,e\" , f\r\n\
         Cookie: k=v; l=m; k=w; e=; z\r\nCookie: k=last\r\nAuthorization: Basic am9lOnNlY3JldA==\r\n\
         Xff: 1.2.3.4:80, [::1]:90, 5.6.7.8\r\nN: 12, x3\r\nT: 20\r\n\r\n",
    )
}

/// Values that the reference gave for the same request.
const HTTP: &str = r#"
hdr(x) => f
hdr(x,1) => a
hdr(x,2) =>
hdr(x,3) => b
hdr(x,4) => c
hdr(x,-1) => f
hdr(x,-2) => "d,e"
hdr(x,-3) =>
hdr(x,0) => f
hdr(x,8) => -
hdr(x,-8) => -
hdr_cnt(x) => 7
req.fhdr(x) => "d,e" , f
req.fhdr(x,1) => a,,b, c
req.fhdr(x,2) =>
req.fhdr_cnt(x) => 3
hdr(,1) => Www.Example.com:8080
req.fhdr(,2) => a,,b, c
req.hdr_names => host,x,x,x,cookie,cookie,authorization,xff,n,t
req.hdr_names(:) => host:x:x:x:cookie:cookie:authorization:xff:n:t
cook(k) => last
cook => v
cook(e) =>
cook(z) => -
cook_cnt => 5
cook_cnt(k) => 3
req.cook_cnt(k) => 3
req.cook_names => k,l,k,e,k
req.cook_val(l) => 0
cook_val(l) => 0
cookie(k) => last
req.cook(K) => -
req.cook(k) => last
hdr_ip(xff) => 5.6.7.8
hdr_ip(xff,1) => 1.2.3.4
hdr_ip(xff,2) => -
hdr_ip(xff,3) => 5.6.7.8
req.hdr_ip(xff,1) => 1.2.3.4
hdr_val(n) => 0
hdr_val(n,1) => 12
req.hdr_val(n,1) => 12
hdr_val(nope) => -
req.hdr_cnt(nope) => 0
http_auth_type => Basic
http_auth_user => joe
http_auth_pass => secret
http_auth(users) => 1
http_auth_group(users) => joe
http_auth_bearer => -
http_auth_bearer(x) => -
http_first_req => 1
method => GET
path => /p/a/t/h
pathq => /p/a/t/h?q=1&b=2;c=3&Q=5&e=&f
query => q=1&b=2;c=3&Q=5&e=&f
query(with_qm) => ?q=1&b=2;c=3&Q=5&e=&f
url => /p/a/t/h?q=1&b=2;c=3&Q=5&e=&f
url_ip => -
url_port => -
urlp(q) => 1
urlp(c) => 3
urlp(b) => 2
urlp(Q) => 5
urlp(q,,i) => 1
urlp => 1
urlp(e) =>
urlp(f) => -
urlp_val(b) => 2
url_param(b) => 2
urlp(t,/) => -
urlp(q,?) => 1
base => Www.Example.com:8080/p/a/t/h
baseq => Www.Example.com:8080/p/a/t/h?q=1&b=2;c=3&Q=5&e=&f
base32 => 2082162050
base32+src,hex => 7C1B45827F000001
url32 => 1627241663
url32+src,hex => 60FDBCBF7F000001
req.body =>
req.body_len => 0
req.body_size => 0
req.body_param(a) => -
req.ver => 1.1
req_ver => 1.1
capture.req.hdr(0) => -
capture.req.method => GET
capture.req.uri => /p/a/t/h?q=1&b=2;c=3&Q=5&e=&f
capture.req.ver => HTTP/1.1
req.hdr(HOST) => Www.Example.com:8080
req.proto_http => 1
req_proto_http => 1
"#;

#[test]
fn http_requests() {
    let mut rig = http_rig();
    table(&mut rig, HTTP);
    // What is written between the headers, byte for byte.
    assert!(rig.eval("req.hdrs").unwrap().starts_with("host: Www.Example.com:8080\r\nx: a,,b, c\r\nx: \r\n"));
    assert!(rig.eval("req.hdrs").unwrap().ends_with("n: 12, x3\r\nt: 20\r\n\r\n"));
    assert!(
        rig.eval("req.hdrs_bin,hex")
            .unwrap()
            .starts_with("04686F7374145777772E4578616D706C652E636F6D3A3830383001780761")
    );
    assert!(rig.eval("req.hdrs_bin,hex").unwrap().ends_with("01740232300000"));
}

#[test]
fn absolute_targets_and_bodies() {
    let mut rig = Rig::with_request(
        "POST http://1.2.3.4:81/p/x?q=1&a=%20&;z=9?y=3 HTTP/1.1\r\nHost: 1.2.3.4:81\r\nIp: ::1\r\nIp2: [::1]\r\n\
         Ip3: 1.2.3.4x, ::1:80\r\nAuthorization: Bearer  abc.def \r\nPx: Foo tok\r\nContent-Length: 11\r\n\r\na=1&b=2;c=3",
    );
    table(
        &mut rig,
        "
        hdr_ip(ip) => ::1
        hdr_ip(ip2) => ::1
        hdr_ip(ip3,1) => -
        hdr_ip(ip3) => ::0.1.0.128
        http_auth_bearer => abc.def
        http_auth_bearer(px) => -
        http_auth_type => Bearer
        http_auth_user => -
        url => http://1.2.3.4:81/p/x?q=1&a=%20&;z=9?y=3
        url_ip => 1.2.3.4
        url_port => 81
        path => /p/x
        pathq => /p/x?q=1&a=%20&;z=9?y=3
        query => q=1&a=%20&;z=9?y=3
        base => 1.2.3.4:81/p/x
        baseq => 1.2.3.4:81/p/x?q=1&a=%20&;z=9?y=3
        urlp(y) => 3
        urlp(z) => 9
        urlp(a) => %20
        req.body => a=1&b=2;c=3
        req.body_len => 11
        req.body_size => 11
        req.body_param(a) => 1
        req.body_param(c) => 3
        req.body_param(b) => 2
        req.body_param(B,i) => 2
        req.body_param => 1
        capture.req.uri => /p/x?q=1&a=%20&;z=9?y=3
        req.payload(0,4) => -
        payload(0,4) => -
        urlp_val(nope) => -
        urlp(q,;) => -
        urlp(z,;) => 9?y=3
        ",
    );
    let mut rig = Rig::with_request("OPTIONS * HTTP/1.0\r\nHost: h\r\n\r\n");
    table(&mut rig, "url => *\n path => -\n pathq => -\n query => -\n req.ver => 1.0");
    let mut rig = Rig::with_request("GET /x? HTTP/1.0\r\nCookie: a=\r\nCookie: b=1,c=2\r\n\r\n");
    table(
        &mut rig,
        "query =>
         pathq => /x?
         base => /x
         req.cook(a) => -
         req.cook(b) => 1
         req.cook(c) => 2
         req.cook_cnt => 2",
    );
}

#[test]
fn http_responses() {
    let mut rig = Rig::with_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n").with_response(
        "HTTP/1.1 302 Found\r\nX: a, b\r\nSet-Cookie: k=v; Path=/\r\nSet-Cookie: l=m\r\nN: 7\r\nIp: 9.9.9.9\r\n\r\nbody",
    );
    rig.stream.timers.connect_us = 1000;
    rig.stream.timers.response_us = 5000;
    table(
        &mut rig,
        "
        status => 302
        txn.status => 302
        server_status => 302
        res.ver => 1.1
        resp_ver => 1.1
        capture.res.ver => HTTP/1.1
        hdr(x) => b
        res.hdr(x,1) => a
        shdr(x) => b
        res.hdr_cnt(x) => 2
        shdr_cnt(x) => 2
        res.fhdr(x) => a, b
        res.fhdr_cnt(x) => 1
        res.hdr_val(n) => 7
        shdr_val(n) => 7
        res.hdr_ip(ip) => 9.9.9.9
        shdr_ip(ip) => 9.9.9.9
        res.cook(k) => v
        scook(l) => m
        res.cook => v
        cookie(k) => v
        res.cook_cnt => 2
        scook_cnt(k) => 1
        res.cook_val(k) => 0
        scook_val(k) => 0
        res.cook_names => k,l
        res.hdr_names => x,set-cookie,set-cookie,n,ip
        res.body => body
        res.body_len => 4
        res.body_size => 4
        res.timer.hdr => 4
        capture.res.hdr(0) => -
        ",
    );
    assert!(rig.eval("res.hdrs").unwrap().starts_with("x: a, b\r\nset-cookie: k=v; Path=/\r\n"));
    assert!(rig.eval("res.hdrs_bin,length").is_some());
}

#[test]
fn connections_and_names() {
    let mut rig = Rig::default();
    rig.session.rare_mut().pp_tlvs = vec![
        2, 0, 3, b'a', b'.', b'b', 5, 0, 2, b'i', b'd', 0x20, 0, 10, 0, 0, 0, 0, 0, 0x22, 0, 2, b'c', b'n',
    ];
    rig.session.rare_mut().saved_syn = vec![0x45, 0];
    rig.stream.backend = ProxyId(1);
    rig.stream.server = Some(ServerId { proxy: ProxyId(1), index: 0 });
    rig.stream.bc_src = crate::Endpoint::Inet(([10, 0, 0, 1], 5000).into());
    rig.stream.bc_dst = crate::Endpoint::Inet(([10, 0, 0, 2], 8000).into());
    rig.stream.bc_error = crate::facts::ConnError::EREFUSED;
    rig.stream.bc_socket = 4;
    rig.stream.fs = crate::facts::MuxStream { id: 3, reset: Some(8) };
    rig.stream.bs = crate::facts::MuxStream { id: 5, reset: None };
    rig.stream.retries = 2;
    rig.stream.req_bytes_in = 100;
    rig.stream.res_bytes_in = 200;
    rig.stream.timeouts =
        crate::facts::Timeouts { client: 1, connect: 2, queue: 3, server: 4, tarpit: 5, tunnel: 6 };
    table(
        &mut rig,
        "
        src => 127.0.0.1
        src_port => 1234
        src_is_local => 1
        dst => 127.0.0.1
        dst_port => 80
        dst_is_local => 1
        dst_conn => 8
        fc_src => 127.0.0.1
        fc_src_port => 1234
        fs.aborted => 1
        fs.id => 3
        fs.rst_code => 8
        fc_src_is_local => 1
        fc_dst => 127.0.0.1
        fc_dst_port => 80
        fc_dst_is_local => 1
        fc_err => 0
        fc_err_name => -
        fc_err_str => Success
        fc_http_major => 1
        fc_nb_streams => 1
        fc_settings_streams_limit => 1
        fc_glitches => 0
        fc_rtt => 1
        fc_rtt(us) => 1500
        fc_rttvar(us) => 700
        fc_rttvar(ms) => 0
        fc_lost => 1
        fc_fackets => 0
        fc_reordering => 0
        fc_retrans => 0
        fc_sacked => 0
        fc_unacked => 0
        fc_rcvd_proxy => 0
        fc_pp_authority => a.b
        fc_pp_unique_id => id
        fc_pp_tlv(AUTHORITY) => a.b
        fc_pp_tlv(0x05) => id
        fc_pp_tlv(SSL_CN) => cn
        fc_pp_tlv(1) => -
        fc_saved_syn,hex => 4500
        accept_date => 1700000000
        accept_date(ms) => 1700000000123
        request_date(us) => 1700000000128456
        fc.timer.handshake => 0
        fc.timer.total => 0
        txn.timer.total => 0
        txn.timer.user => 0
        req.timer.idle => -1
        req.timer.hdr => -1
        req.timer.tq => -1
        req.timer.queue => -1
        bc.timer.connect => -1
        res.timer.data => -1
        bc_src => 10.0.0.1
        bc_src_port => 5000
        bs.aborted => 0
        bs.id => 5
        bs.rst_code => -
        bc_dst => 10.0.0.2
        bc_dst_port => 8000
        bc_err => 47
        bc_err_name => EREFUSED
        bc_err_str => ECONNREFUSED returned by OS
        bc_glitches => 0
        bc_http_major => 1
        bc_nb_streams => 0
        bc_reused => 0
        bc_rtt(us) => 1500
        bc_rttvar(us) => 700
        bc_settings_streams_limit => 0
        bc_be_queue => 0
        bc_srv_queue => 0
        be_id => 3
        be_name => be
        be_connect_timeout => 2000
        be_queue_timeout => 3000
        be_server_timeout => 4000
        be_tarpit_timeout => 5000
        be_tunnel_timeout => 6000
        be_max_retries => 3
        fe_id => 2
        fe_name => fe
        fe_defbe => be
        fe_client_timeout => 1000
        fe_tarpit_timeout => 5000
        cur_client_timeout => 1
        cur_connect_timeout => 2
        cur_queue_timeout => 3
        cur_server_timeout => 4
        cur_tarpit_timeout => 5
        cur_tunnel_timeout => 6
        cur_max_retries => 0
        so_id => 1
        so_name => sock-1
        srv_id => 1
        srv_name => s1
        bytes_in => 100
        req.bytes_in => 100
        req.bytes_out => 0
        bytes_out => 200
        res.bytes_in => 200
        res.bytes_out => 0
        txn.conn_retries => 2
        txn.hedged => 0
        txn.redispatched => 0
        txn.status => -
        server_status => -
        ",
    );
}

#[test]
fn constants_and_internal_states() {
    let mut rig = Rig::default();
    rig.stream.backend = ProxyId(1);
    rig.stream.last_rule = Some(("t.cfg", 30));
    rig.stream.last_entity = Some("rule");
    rig.stream.waiting_entity = Some("filter");
    let tested = table(
        &mut rig,
        r#"
        always_true => 1
        always_false => 0
        bool(true) => 1
        bool(0) => 0
        int(-5) => -5
        str("a b") => a b
        str => 
        bin(4142) => AB
        ipv4(1.2.3.4) => 1.2.3.4
        ipv6(::1) => ::1
        meth(GET) => GET
        env(SET) => value
        env(UNSET) => -
        hostname => host
        nbproc => 1
        proc => 1
        pid => 1234
        thread => 0
        tgroup => 0
        uptime => 99
        stopping => 0
        quic_enabled => 0
        date => 1700000000
        date(3600) => 1700003600
        date(-1,ms) => 1700000000122
        date_us => 123456
        rand(10) => 0
        rand => 19088743
        uuid => efcdab89-6745-4301-afcd-ab8967452301
        uuid(7),length => 36
        var(txn.nothing,def) => def
        var(txn.nothing) => -
        dump_all_vars =>
        act_conn => 42
        be_conn(be) => 11
        be_conn => 11
        be_conn_free => 90
        be_sess_rate => 3
        connslots => 190
        nbsrv => 1
        queue => 6
        avg_queue => 6
        fe_conn(fe) => 10
        fe_req_rate(fe) => 5
        fe_sess_rate(fe) => 3
        srv_conn(be/s1) => 7
        srv_conn(s1) => 7
        srv_conn_free(s1) => 93
        srv_is_up(s1) => 1
        srv_is_up(be/s2) => 0
        srv_iweight(s1) => 1
        srv_uweight(s1) => 50
        srv_weight(s1) => 100
        srv_queue(s1) => 2
        srv_sess_rate(s1) => 1
        cpu_calls => 4
        cpu_ns_avg => 250
        cpu_ns_tot => 1002
        cpu_usage_thr => 25
        cpu_usage_grp => 20
        cpu_usage_proc => 20
        lat_ns_avg => 50
        lat_ns_tot => 203
        prio_class => 0
        prio_offset => 0
        txn.id32 => 0
        txn.sess_term_state => --
        last_rule_file => t.cfg
        last_rule_line => 30
        last_entity => rule
        waiting_entity => filter
        term_events => -
        wait_end => 1
        unique-id => -
        acl(TRUE) => 1
        acl(!TRUE) => 0
        acl(TRUE,!FALSE) => 1
        "#
        .replace("term_events => -", "term_events,length => 1")
        .as_str(),
    );
    assert!(tested.len() > 60);
}

#[test]
fn variables_are_listed() {
    let mut rig = Rig::default();
    rig.eval("str(\"a\"),set-var(txn.listed_a)");
    rig.eval("int(5),set-var(sess.listed_b)");
    rig.eval("bin(00ff),set-var(txn.listed_c)");
    assert_eq!(rig.eval("var(txn.listed_a)").as_deref(), Some("a"));
    assert_eq!(rig.eval("dump_all_vars(txn)").as_deref(), Some("txn.listed_a=\"a\", txn.listed_c=x00ff"));
    assert_eq!(rig.eval("dump_all_vars(,listed_b)").as_deref(), Some("sess.listed_b=5"));
    assert_eq!(
        rig.eval("dump_all_vars(,,;)").as_deref(),
        Some("sess.listed_b=5;txn.listed_a=\"a\";txn.listed_c=x00ff")
    );
}

#[test]
fn raw_bytes() {
    let mut rig = Rig { req_body: hello::tests::sample_hello("www.Example.com"), ..Rig::default() };
    table(
        &mut rig,
        "
        req.ssl_ver => 196611
        req_ssl_ver => 196611
        req.ssl_hello_type => 1
        req_ssl_hello_type => 1
        req.ssl_sni => www.Example.com
        req_ssl_sni => www.Example.com
        req.ssl_alpn => h2
        req.ssl_ec_ext => 1
        req.ssl_st_ext => 1
        req.ssl_cipherlist,hex => 13011302
        req.ssl_supported_groups,hex => 001D0017
        req.ssl_keyshare_groups,hex => 001D0017
        req.ssl_sigalgs,hex => 0403
        req.payload(0,3),hex => 160301
        payload(0,3),hex => 160301
        req.proto_http => 0
        rdp_cookie_cnt => 0
        ",
    );
    assert_eq!(rig.eval("req.len"), Some(rig.req_body.len().to_string()));
    assert_eq!(rig.eval("req_len"), rig.eval("req.len"));
    // A hello that is cut waits; once nothing more comes it is not there.
    rig.req_body.truncate(60);
    rig.complete = false;
    rig.last = false;
    for name in ["req.ssl_ver", "req.ssl_sni", "req.ssl_hello_type", "req.ssl_ec_ext", "req.payload(0,70)"] {
        assert_eq!(rig.verdict(&format!("if {{ {name} -m found }}")), Verdict::Miss, "{name}");
    }
    assert_eq!(rig.verdict("if { req.payload(0,5) -m found }"), Verdict::Pass);
    assert_eq!(rig.verdict("if { req.len gt 100 }"), Verdict::Miss);
    assert_eq!(rig.verdict("if { req.len gt 50 }"), Verdict::Pass);
    assert_eq!(rig.verdict("if WAIT_END"), Verdict::Miss);
    rig.last = true;
    assert_eq!(rig.verdict("if { req.ssl_sni -m found }"), Verdict::Fail);
    assert_eq!(rig.verdict("if WAIT_END"), Verdict::Pass);

    let mut data = vec![3, 0, 0, 0, 0, 0xe0, 0, 0, 0, 0, 0];
    data.extend(b"Cookie: mstshash=joe\r\n");
    data[3] = data.len() as u8;
    data[4] = data.len() as u8 - 5;
    let mut rig = Rig { req_body: data, ..Rig::default() };
    table(
        &mut rig,
        "
        rdp_cookie => joe
        req.rdp_cookie(MSTSHASH) => joe
        rdp_cookie(x) => -
        rdp_cookie_cnt => 1
        req.rdp_cookie_cnt(x) => 0
        req.payload_lv(4,1),hex => E00000000000436F6F6B69653A206D737473686173683D6A6F650D0A
        payload_lv(4,1,-2),hex => 211CE00000000000436F6F6B69653A206D737473686173683D6A6F65
        req.payload_lv(2,2,0),length => 1
        ",
    );
    let mut server_hello = vec![0x16, 3, 3, 0, 4, 2, 0, 0, 0];
    server_hello.push(0);
    let mut rig = Rig { res_body: server_hello, response_side: true, ..Rig::default() };
    table(
        &mut rig,
        "
        res.ssl_hello_type => 2
        rep_ssl_hello_type => 2
        res.len => 10
        res.payload(0,1),hex => 16
        res.payload_lv(3,2),length => 1
        ",
    );
}

#[test]
fn acls_see_every_value() {
    let mut rig = http_rig();
    for (condition, expected) in [
        ("if { hdr(x) b }", true),
        ("if { hdr(x) a,b }", false),
        ("if { hdr(x) f }", true),
        ("if { req.fhdr(x) b }", false),
        ("if { cook(k) w }", true),
        ("if { cook(k) last }", true),
        ("if { cook(l) m }", true),
        ("if { cook(e) -m len 0 }", true),
        ("if { urlp(q) 1 }", true),
        ("if { urlp 2 }", true),
        ("if { urlp 5 }", true),
        ("if { hdr_ip(xff) 1.2.3.4 }", true),
        ("if { hdr_ip(xff) 5.6.7.0/24 }", true),
        ("if { hdr_ip(xff) ::1 }", false),
        ("if { hdr_val(n) 12 }", true),
        ("if { hdr_cnt(x) 7 }", true),
        ("if { http_auth_group(users) admins }", true),
        ("if { http_auth_group(users) others }", false),
        ("if { req.hdr(nope) -m len 0 }", false),
    ] {
        assert_eq!(rig.verdict(condition) == Verdict::Pass, expected, "{condition}");
    }
    let mut rig = Rig::with_request("GET / HTTP/1.1\r\n\r\n")
        .with_response("HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\n\r\n");
    assert_eq!(rig.verdict("if { res.cook(b) 2 }"), Verdict::Pass);
    assert_eq!(rig.verdict("if { res.cook 2 }"), Verdict::Pass);
    assert_eq!(rig.verdict("if { res.cook / }"), Verdict::Fail);
}

#[test]
fn missing_messages_wait_or_fail() {
    let mut rig = Rig { last: false, complete: false, ..Rig::default() };
    assert_eq!(rig.verdict("if { path / }"), Verdict::Miss);
    assert_eq!(rig.verdict("if ! { path / }"), Verdict::Miss);
    rig.last = true;
    assert_eq!(rig.verdict("if { path / }"), Verdict::Fail);
    assert_eq!(rig.verdict("if ! { path / }"), Verdict::Pass);
}

#[test]
fn every_fetch_of_the_reference_is_there_or_refused() {
    let known: BTreeSet<_> = all().map(|def| def.name.to_string()).chain(unsupported::names()).collect();
    assert_eq!(
        all().count(),
        all().map(|def| def.name).collect::<BTreeSet<_>>().len(),
        "a name is there twice"
    );
    for name in unsupported::names() {
        assert!(find(&name).is_none(), "{name} is both supported and refused");
        assert!(unsupported::reason(&name).is_some(), "{name}");
    }
    // The reference registers 562 names, none of which ends as those of sums do.
    let ours = ["span_id", "trace_id", "txn.hedged"];
    let theirs = known.iter().filter(|name| !name.ends_with("_all") && !ours.contains(&name.as_str()));
    assert_eq!(theirs.count(), 562);
}

#[test]
fn mistakes_are_explained() {
    let check = |text: &str, expected: &str| {
        let mut rig = Rig::default();
        let result = rig.compile(|env| Expr::compile(text, env));
        let text_of = result.map(|_| rig.late.join("|")).unwrap_or_else(|e| e);
        assert_eq!(text_of, expected, "{text}");
    };
    check("hdrr(host)", "unknown fetch method 'hdrr'; did you mean 'hdr' maybe ?");
    check("qqqqqqqqq", "unknown fetch method 'qqqqqqqqq'");
    check(
        "ssl_fc_unique_id",
        "fetch method 'ssl_fc_unique_id' is known but not supported yet (the TLS library does not tell it)",
    );
    check("hdr(a,b,c)", "fetch method 'hdr' : failed to parse 'b' as type 'integer' at position 2");
    check("hdr(a", "fetch method 'hdr' : expected ')'");
    check("int(1,2)", "fetch method 'int' : expected ')' before ',2)'");
    check("method(GET)", "fetch method 'method' : expected ')' before 'GET)'");
    check("int", "fetch method 'int' : expected type 'integer' at position 1, but got nothing");
    check(
        "req.payload(1)",
        "fetch method 'req.payload' : missing arguments (got 1/2), type 'integer' expected",
    );
    check("src,foo", "unknown converter 'foo'");
    check("src, lower", "unknown converter ''");
    check(
        "src,ipmask",
        "invalid arg 1 in converter 'ipmask' : expected type 'IPv4 mask' at position 1, but got nothing",
    );
    check(
        "src,ipmask(33)",
        "invalid arg 1 in converter 'ipmask' : failed to parse '33' as type 'IPv4 mask' at position 1",
    );
    check("src,lower(1)", "invalid arg 1 in converter 'lower' : expected ')' before '1)'");
    check("bin(41),neg", "converter 'neg' cannot be applied");
    check("bool(2)", "invalid args in fetch method 'bool' : Expects 'true', 'false', '0' or '1'");
    check("bin(4)", "invalid args in fetch method 'bin' : an even number of hex digit is expected");
    check("date(1,xx)", "invalid args in fetch method 'date' : expects 's', 'ms' or 'us', got 'xx'");
    check("uuid(3)", "invalid args in fetch method 'uuid' : Unsupported UUID version: '3'");
    check("query(zz)", "invalid args in fetch method 'query' : supported options are: 'with_qm'");
    check("hdr(a,-11)", "invalid args in fetch method 'hdr' : header occurrence must be >= -10");
    check(
        "capture.req.hdr(-1)",
        "invalid args in fetch method 'capture.req.hdr' : capture identifier must be >= 0",
    );
    check("fc_rtt(zz)", "invalid args in fetch method 'fc_rtt' : expects 'us' or 'ms', got 'zz'");
    check("fc_pp_tlv(zz)", "invalid args in fetch method 'fc_pp_tlv' : Could not convert type 'zz'");
    check("fc_pp_tlv(0x300)", "invalid args in fetch method 'fc_pp_tlv' : Invalid TLV Type '0x300'");
    check("acl(x)", "invalid args in fetch method 'acl' : ACL 'x' not found");
    check(
        "dump_all_vars(zz)",
        "invalid args in fetch method 'dump_all_vars' : invalid scope 'zz', must be one of: sess, txn, req, res, proc",
    );
    check("var", "invalid args in fetch method 'var' : Empty variable name cannot be accepted");
    check("var(txn.a b)", "invalid args in fetch method 'var' : invalid syntax at char ' b'");
    check(
        "be_conn(nope)",
        "unable to find backend 'nope' referenced in arg 1 of sample fetch keyword 'be_conn' in proxy 'be'",
    );
    check(
        "srv_conn(nope)",
        "unable to find server 'nope' in proxy 'be', referenced in arg 1 of sample fetch keyword 'srv_conn' in proxy 'be'",
    );
    check(
        "srv_conn(a/b)",
        "unable to find proxy 'a' referenced in arg 1 of sample fetch keyword 'srv_conn' in proxy 'be'",
    );
    check("srv_conn", "missing server name in arg 1 of sample fetch keyword 'srv_conn' in proxy 'be'");
    check(
        "http_auth(nope)",
        "unable to find userlist 'nope' referenced in arg 1 of sample fetch keyword 'http_auth' in proxy 'be'",
    );
    check("src,,lower", "");
    check("hdr(,1)", "");
}

/// Variables of the request can be used until the response is looked at, those of the response from then on; a default
/// is for a variable that is not set, not for one that cannot be.
#[test]
fn each_side_has_its_variables() {
    let mut rig = Rig::with_request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let check = |rig: &mut Rig, text: &str, expected: Option<&str>| {
        assert_eq!(rig.eval(text).as_deref(), expected, "{text}")
    };
    check(&mut rig, "str(a),set-var(req.x),set-var(txn.x)", Some("a"));
    check(&mut rig, "var(req.x)", Some("a"));
    check(&mut rig, "var(req.y,d)", Some("d"));
    check(&mut rig, "var(res.x,d)", None);
    check(&mut rig, "var(ptxn.x,d)", None);
    check(&mut rig, "var(check.x,d)", None);
    rig.stream.in_response = true;
    check(&mut rig, "var(req.x,d)", None);
    check(&mut rig, "var(res.x,d)", Some("d"));
    check(&mut rig, "var(txn.x,d)", Some("a"));
}

/// A captured URI is a path: `*` has none.
#[test]
fn captured_uris_are_paths() {
    let mut rig = Rig::with_request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(rig.eval("capture.req.uri"), None);
}

#[test]
fn counters_of_the_kernel_have_no_unit() {
    let mut rig = http_rig();
    for (text, warned) in [("fc_lost", false), ("fc_lost(us)", true), ("fc_rtt(us)", false)] {
        rig.compile(|env| Expr::compile(text, env).map(|_| ())).unwrap();
        assert_eq!(!rig.warnings.is_empty(), warned, "{text}: {:?}", rig.warnings);
    }
}
