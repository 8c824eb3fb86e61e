//! Changes that are asked for on the page: a form that is posted.
//!
//! **Whose browser it is** is asked first, since a browser sends the password of the page with whatever another site
//! makes it post here. A browser says where a request comes from, in `Sec-Fetch-Site` and `Origin` (older ones in
//! `Referer`); a script that says nothing of the kind is no browser, and is let through.

use thalweg_config::model::{Proxy, Server};
use thalweg_http::Head;
use thalweg_proxy::Instance;
use thalweg_proxy::backend::standing::Said;
use thalweg_proxy::operator::Hand;
use thalweg_proxy::worker::{self, Worker};

use super::options::Code;
use crate::report::Filter;

/// Bytes of the longest value that makes sense.
const VALUE_MAX: usize = 1024;

/// Where the logs say that it was asked for.
const WEB: &str = "Web interface";

/// What is to be done with servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `ready`: ends maintenance and drain.
    Ready,
    /// `drain`: ends maintenance.
    Drain,
    /// `maint`: ends a drain.
    Maint,
    /// `enable` of old: ends maintenance only.
    Enable,
    /// `disable` of old: a drain goes on behind it.
    Disable,
    /// `start` of old: ends a drain only.
    Start,
    /// `stop` of old: maintenance goes on.
    Stop,
    /// `dhlth`
    DisableChecks,
    /// `ehlth`
    EnableChecks,
    /// `hrunn`
    HealthUp,
    /// `hnolb`
    HealthStopping,
    /// `hdown`
    HealthDown,
    /// `dagent`
    DisableAgent,
    /// `eagent`
    EnableAgent,
    /// `arunn`
    AgentUp,
    /// `adown`
    AgentDown,
    /// `shutdown`
    Shutdown,
}

/// Every action that the form offers: its name, and what it does in words.
pub const OFFERED: [(&str, &str); 13] = [
    ("ready", "Set state to READY"),
    ("drain", "Set state to DRAIN"),
    ("maint", "Set state to MAINT"),
    ("dhlth", "Health: disable checks"),
    ("ehlth", "Health: enable checks"),
    ("hrunn", "Health: force UP"),
    ("hnolb", "Health: force NOLB"),
    ("hdown", "Health: force DOWN"),
    ("dagent", "Agent: disable checks"),
    ("eagent", "Agent: enable checks"),
    ("arunn", "Agent: force UP"),
    ("adown", "Agent: force DOWN"),
    ("shutdown", "Kill sessions"),
];

impl Action {
    fn of(name: &str) -> Option<Action> {
        Some(match name {
            "ready" => Action::Ready,
            "drain" => Action::Drain,
            "maint" => Action::Maint,
            "enable" => Action::Enable,
            "disable" => Action::Disable,
            "start" => Action::Start,
            "stop" => Action::Stop,
            "dhlth" => Action::DisableChecks,
            "ehlth" => Action::EnableChecks,
            "hrunn" => Action::HealthUp,
            "hnolb" => Action::HealthStopping,
            "hdown" => Action::HealthDown,
            "dagent" => Action::DisableAgent,
            "eagent" => Action::EnableAgent,
            "arunn" => Action::AgentUp,
            "adown" => Action::AgentDown,
            "shutdown" => Action::Shutdown,
            _ => return None,
        })
    }
}

/// A form that was posted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Form {
    servers: Vec<String>,
    action: Option<String>,
    backend: Option<String>,
}

impl Form {
    /// Reads a form; `None` if no form looks like that. Fields it does not know are passed over.
    fn of(body: &[u8]) -> Option<Form> {
        let mut form = Form::default();
        for field in body.split(|b| *b == b'&').filter(|field| !field.is_empty()) {
            let at = field.iter().position(|b| *b == b'=').unwrap_or(field.len());
            if field.len() > VALUE_MAX {
                return None;
            }
            let value = decoded(field.get(at + 1..).unwrap_or(b""));
            match &*decoded(&field[..at]) {
                "s" => form.servers.push(value),
                // The last one counts.
                "action" => form.action = Some(value),
                "b" => form.backend = Some(value),
                _ => {}
            }
        }
        Some(form)
    }
}

/// Text of a form without its encoding.
fn decoded(text: &[u8]) -> String {
    let plain: Vec<u8> = text.iter().map(|b| if *b == b'+' { b' ' } else { *b }).collect();
    crate::prometheus::decoded(&plain)
}

/// Whether a browser was made to send this request by another site than the one of the page.
pub fn is_foreign(request: &Head) -> bool {
    let value = |name: &'static [u8]| request.find_all(name).last().map(|field| field.value);
    // Typed into the address bar, or a bookmark: "none".
    if let Some(site) = value(b"sec-fetch-site")
        && !matches!(site, b"same-origin" | b"none")
    {
        return true;
    }
    let host = value(b"host").unwrap_or(b"");
    let is_here = |from: &[u8], more: bool| {
        let rest = [&b"https://"[..], b"http://"].iter().find_map(|scheme| from.strip_prefix(*scheme));
        let rest = rest.and_then(|rest| {
            let (name, rest) = rest.split_at_checked(host.len())?;
            name.eq_ignore_ascii_case(host).then_some(rest)
        });
        rest.is_some_and(|rest| rest.is_empty() || more && rest[0] == b'/')
    };
    match (value(b"origin"), value(b"referer")) {
        (Some(origin), _) => !is_here(origin, false),
        (None, Some(referer)) => !is_here(referer, true),
        (None, None) => false,
    }
}

/// Does what a form asks for, as far as the filter shows its backend.
pub fn act(instance: &Instance, filter: &Filter, body: &[u8]) -> Code {
    let Some(form) = Form::of(body) else { return Code::Errp };
    let action = match form.action.as_deref().map(Action::of) {
        None => return Code::None,
        Some(None) => return Code::Errp,
        Some(Some(action)) => action,
    };
    let Some(backend) = form.backend else { return Code::None };
    let Some(proxy) = find_backend(instance, &backend) else { return Code::Errp };
    // A text that is looked for chooses what is shown, not what may be changed.
    let allowed = Filter { part: String::new(), ..filter.clone() };
    if !allowed.wants_proxy(proxy) {
        return Code::Deny;
    }
    let Some(worker) = worker::current() else { return Code::Unkn };
    let mut found = 0;
    let mut changed = 0;
    for name in &form.servers {
        let Some(server) = worker.backend(proxy.id).server_by_name(proxy, name) else { continue };
        found += 1;
        changed += u32::from(apply(&worker, proxy, server, action));
    }
    match (form.servers.len(), found, changed) {
        (0, ..) => Code::None,
        (_, 0, _) => Code::Errp,
        (asked, found, _) if found < asked => Code::Part,
        (_, _, 0) => Code::None,
        _ => Code::Done,
    }
}

/// The backend of that name, or of that number behind a `#`.
fn find_backend<'i>(instance: &'i Instance, text: &str) -> Option<&'i Proxy> {
    let mut backends = instance.config.proxies.iter().map(|proxy| &**proxy).filter(|proxy| proxy.is_be());
    match text.strip_prefix('#') {
        Some(number) => {
            let number: u32 = number.parse().ok()?;
            backends.find(|proxy| proxy.uid == number)
        }
        None => backends.find(|proxy| *proxy.name == *text),
    }
}

/// Does it to one server; false if there was nothing to do.
fn apply(worker: &Worker, proxy: &Proxy, server: &Server, action: Action) -> bool {
    let hand = Hand { worker, proxy: proxy.id, server: server.id };
    let backend = worker.backend(proxy.id);
    match action {
        Action::Ready => hand.make_ready(),
        Action::Drain => hand.start_drain(),
        Action::Maint => hand.maintain(),
        Action::Enable | Action::Disable => return hand.set_maintenance(action == Action::Disable),
        Action::Start | Action::Stop => return hand.set_drain(action == Action::Stop),
        Action::DisableChecks | Action::EnableChecks => {
            return server.check.is_some()
                && backend.enable_checks(server.id, action == Action::EnableChecks);
        }
        Action::HealthUp => hand.say_health(Said::Up, WEB),
        Action::HealthStopping => hand.say_health(Said::Stopping, WEB),
        Action::HealthDown => hand.say_health(Said::Down, WEB),
        Action::DisableAgent | Action::EnableAgent => {
            let has_agent = server.rare().agent.as_ref().is_some_and(|agent| agent.asked);
            return has_agent && backend.enable_agent(server.id, action == Action::EnableAgent);
        }
        Action::AgentUp => return hand.say_agent(true, WEB),
        Action::AgentDown => return hand.say_agent(false, WEB),
        Action::Shutdown => {
            let (backend, server) = (proxy.id, server.id);
            for thread in 0..thalweg_runtime::thread_count() {
                thalweg_runtime::run_on(thread, move || {
                    if let Some(worker) = worker::current() {
                        worker
                            .streams
                            .kill(|stream| stream.backend == Some(backend) && stream.server == Some(server));
                    }
                });
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_http::Version;

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::default();
        head.start_request(b"POST", b"/stats", Version::HTTP_11).expect("fits");
        for (name, value) in fields {
            head.push(name.as_bytes(), value.as_bytes()).expect("fits");
        }
        head
    }

    #[test]
    fn other_sites_are_known() {
        for (fields, foreign) in [
            (&[("host", "a:80")][..], false),
            (&[("host", "a:80"), ("origin", "http://a:80")], false),
            (&[("host", "a:80"), ("origin", "https://A:80")], false),
            (&[("host", "a:80"), ("origin", "http://a")], true),
            (&[("host", "a"), ("origin", "http://a.evil")], true),
            (&[("host", "a"), ("origin", "null")], true),
            (&[("host", "a"), ("origin", "")], true),
            (&[("host", "a"), ("referer", "http://a/stats")], false),
            (&[("host", "a"), ("referer", "http://a")], false),
            (&[("host", "a"), ("referer", "http://a.evil/stats")], true),
            (&[("host", "a"), ("referer", "http://evil/http://a/")], true),
            (&[("host", "a"), ("origin", "http://a"), ("referer", "http://b/")], false),
            (&[("host", "a"), ("sec-fetch-site", "same-origin")], false),
            (&[("host", "a"), ("sec-fetch-site", "none")], false),
            (&[("host", "a"), ("sec-fetch-site", "cross-site")], true),
            (&[("host", "a"), ("sec-fetch-site", "same-site")], true),
            (&[("host", "a"), ("sec-fetch-site", "cross-site"), ("origin", "http://a")], true),
            (&[("origin", "http://a")], true),
        ] {
            assert_eq!(is_foreign(&head(fields)), foreign, "{fields:?}");
        }
    }

    #[test]
    fn forms_are_read() {
        let form = |text: &str| Form::of(text.as_bytes());
        let read = |servers: &[&str], action: Option<&str>, backend: Option<&str>| {
            let owned = |text: &str| text.to_owned();
            Some(Form {
                servers: servers.iter().map(|s| owned(s)).collect(),
                action: action.map(owned),
                backend: backend.map(owned),
            })
        };
        assert_eq!(form("s=a&s=b%20c&action=ready&b=%232"), read(&["a", "b c"], Some("ready"), Some("#2")));
        assert_eq!(form("&&b=x+y&b=z&action=a&action=&q=1"), read(&[], Some(""), Some("z")));
        assert_eq!(form("s&s=%zz"), read(&["", "%zz"], None, None));
        assert_eq!(form(""), read(&[], None, None));
        assert_eq!(form(&format!("q={}", "x".repeat(VALUE_MAX))), None);
    }

    #[test]
    fn nothing_that_is_posted_or_asked_for_panics() {
        // Bytes that mean something here, in every order that comes up.
        let alphabet = b"&=%;s.b?#+1a\xff\xc3\x28\0-";
        let mut state = 1u64;
        for _ in 0..20_000 {
            let mut text = Vec::new();
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize
            };
            for _ in 0..next() % 40 {
                match next() % 12 {
                    0 => text.extend_from_slice(b"scope="),
                    1 => text.extend_from_slice(b";row="),
                    2 => text.extend_from_slice(b";st="),
                    _ => text.push(alphabet[next() % alphabet.len()]),
                }
            }
            let options = super::super::options::Options::of(&text);
            assert!(options.part.len() <= 20 && !options.part.contains(['<', '"', '\'', '&']));
            let form = Form::of(&text).expect("it is short");
            assert!(form.servers.len() <= text.len());
        }
    }
}
