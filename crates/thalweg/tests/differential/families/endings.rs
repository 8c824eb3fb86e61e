//! Ends that the other families do not come to: answers and changes that do not fit, a full queue. What the table of endings says
//! (docs/endings.md) is compared with the reference by all families.

use crate::case::{Case, http};
use crate::script::{get, ok, script};

pub fn cases() -> Vec<Case> {
    let long = get(&format!("/{}", "a".repeat(6000)));
    let asks = || script().send(&long).look(150);
    let thrice = "%[var(txn.p)]%[var(txn.p)]%[var(txn.p)]";
    let headers = "hdr a %[var(txn.p)] hdr b %[var(txn.p)] hdr c %[var(txn.p)]";
    let keep = "http-request set-var(txn.p) path";
    let case = |name: &str| http(format!("endings/{name}")).front(keep).client(asks()).plain_server();
    let mut cases = vec![
        case("return-too-large").front(&format!("http-request return status 202 {headers}")),
        case("deny-too-large").front(&format!("http-request deny {headers}")),
        case("return-of-backend-too-large").back(&format!("http-request return status 202 {headers}")),
        case("return-for-server-too-large").back(&format!("http-response return status 202 {headers}")),
        case("response-deny-too-large").back(&format!("http-response deny {headers}")),
        case("rewrite-of-request").front(&format!("http-request set-header a {thrice}")),
        case("rewrite-of-request-in-backend").back(&format!("http-request set-header a {thrice}")),
        case("rewrite-of-response").back(&format!("http-response set-header a {thrice}")),
        case("rewrite-of-response-in-frontend").front(&format!("http-response set-header a {thrice}")),
        case("rewrite-after-response").back(&format!("http-after-response set-header a {thrice}")),
        case("rewrite-after-return")
            .front(&format!("http-request return status 202\nhttp-after-response set-header a {thrice}")),
        case("rewrite-after-deny")
            .front(&format!("http-request deny\nhttp-after-response set-header a {thrice}")),
        case("rewrite-that-may-fail").back(&format!(
            "http-request strict-mode off\nhttp-request set-header a {thrice}\nhttp-response strict-mode off\n\
             http-response set-header a {thrice}\nhttp-after-response strict-mode off\n\
             http-after-response set-header a {thrice}"
        )),
    ];
    cases.push(
        http("endings/backend-of-tcp")
            .front("use_backend %[str(t<n>)]")
            .more("backend t<n> from d<n>\nmode tcp\noption tcplog\nserver s1 <s1>")
            .client(script().send(get("/")).look(150))
            .plain_server(),
    );
    let holds = || script().message().tell("request").hear("done").send(ok("x")).end();
    for (name, line, options) in [
        ("queue-of-a-server-full", "timeout queue 2s", "maxconn 1 maxqueue 1"),
        ("queue-of-a-server-too-long", "timeout queue 200ms", "maxconn 1"),
    ] {
        let mut case = http(format!("endings/{name}"))
            .back(&format!("balance hdr(host)\nhash-type consistent\n{line}"))
            .client(script().send(get("/first")).message())
            .client(script().after("request").send(get("/queued")).tell("queued").look(400))
            .server_with(options, holds());
        if name.ends_with("full") {
            case =
                case.client(script().after("queued").pause(60).send(get("/refused")).look(150).tell("done"));
        } else {
            case.clients[1] = script().after("request").send(get("/queued")).look(400).tell("done");
        }
        cases.push(case);
    }
    cases
}
