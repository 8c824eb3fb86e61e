//! Lines of proxies and of `defaults`.

use thalweg_syntax::layout::WrittenLine;

use crate::quote::{quoted, rest};
use crate::section::Section;
use crate::{Decision, Kind, Work, global, headers, health};

/// Translates a line of a proxy or of a `defaults` section.
pub fn line(work: &mut Work, line: &WrittenLine<'_>, section: &Section) -> Decision {
    let (first, second) = (line.word(0), line.word(1));
    let decision = match &*first {
        "clitimeout" => timeout("client", &rest(line, 1), &first),
        "srvtimeout" => timeout("server", &rest(line, 1), &first),
        "contimeout" => timeout("connect", &rest(line, 1), &first),
        "timeout" => match &*second {
            "clitimeout" => timeout("client", &rest(line, 2), &second),
            "srvtimeout" => timeout("server", &rest(line, 2), &second),
            "contimeout" => timeout("connect", &rest(line, 2), &second),
            _ => Decision::Keep,
        },
        "redispatch" => Decision::same("option redispatch", "'redispatch' is an option now"),
        "block" => Decision::same(
            format!("http-request deny {}", rest(line, 1)),
            "'block' was removed in 2.1: 'http-request deny' takes the same conditions",
        ),
        "monitor-net" => monitor_net(line, section),
        "mode" if second == "health" => Decision::near(
            vec![
                "mode http".into(),
                "http-request return status 200 content-type text/plain string OK".into(),
            ],
            "'mode health' was removed: a rule answers now, to HTTP requests only",
        ),
        "grace" => {
            Decision::gone("'grace' was removed in 2.5: listeners close at once when the process stops")
        }
        "bind-process" => Decision::gone("'bind-process' was removed: there is one process since 2.5"),
        "appsession" => appsession(work, line, section),
        "dispatch" => Decision::near(
            vec![format!("server dispatch {}", rest(line, 1))],
            "'dispatch' was removed in 3.5: it is a server now",
        ),
        "transparent" => transparent(),
        "cliexp" | "srvexp" => Decision::leave(format!("'{first}' was removed in 2.1 and has no successor")),
        "bind" => global::process_option(line).unwrap_or(Decision::Keep),
        "hash-type" if second == "avalanche" => Decision::same(
            "hash-type map-based sdbm avalanche",
            "'hash-type avalanche' was an experiment; these words stand for it",
        ),
        "tcp-request" if matches!(&*second, "accept" | "reject") => Decision::same(
            format!("tcp-request content {}", rest(line, 1)),
            "rules on contents are called 'tcp-request content' since 1.5",
        ),
        "tcp-request" | "tcp-response" | "http-request" | "http-response" | "http-after-response" => {
            marks(line)
        }
        "log-format" | "unique-id-format" | "log-format-sd" | "error-log-format" => aliases(line),
        "option" => option(line, 1, section),
        "no" | "default" if second == "option" => match &*line.word(2) {
            "http-use-htx" | "forceclose" | "http-tunnel" | "http_proxy" | "transparent" => {
                Decision::gone(format!("'option {}' was removed, so there is nothing to undo", line.word(2)))
            }
            "independant-streams" => Decision::same(
                format!("{first} option independent-streams"),
                "the option is spelled 'independent-streams'",
            ),
            _ => Decision::Keep,
        },
        "no" if second == "redispatch" => {
            Decision::same("no option redispatch", "'redispatch' is an option now")
        }
        "server" => server(work, line, section),
        "stats" if second == "scope" => match work.names.frontend(&line.word(2)) {
            Some(new) => Decision::Become(
                vec![format!("stats scope {}", rest(line, 2)), format!("stats scope {new}")],
                Kind::Same,
                "both proxies of that name were shown; they have two names now".into(),
            ),
            None => Decision::Keep,
        },
        _ => headers::line(line).unwrap_or(Decision::Keep),
    };
    match decision {
        Decision::Keep => renamed(work, line),
        decided => decided,
    }
}

fn timeout(name: &str, value: &str, old: &str) -> Decision {
    Decision::same(format!("timeout {name} {value}"), format!("'{old}' is called 'timeout {name}' since 1.3"))
}

fn transparent() -> Decision {
    Decision::near(
        vec!["server transparent 0.0.0.0".into()],
        "'transparent' was removed in 3.5: a server with the address 0.0.0.0 stands for the address the client meant",
    )
}

fn monitor_net(line: &WrittenLine<'_>, section: &Section) -> Decision {
    let net = rest(line, 1);
    if section.is_tcp {
        return Decision::near(
            vec![format!("tcp-request connection reject if {{ src {net} }}")],
            "'monitor-net' was removed in 2.2: the connections are closed by a rule, and counted",
        );
    }
    Decision::near(
        vec![format!("http-request return status 200 if {{ src {net} }}")],
        "'monitor-net' was removed in 2.2: a rule answers, and its requests are logged and counted",
    )
}

/// `appsession` learnt which server belongs to a cookie of the application; a stick table does.
fn appsession(work: &Work, line: &WrittenLine<'_>, section: &Section) -> Decision {
    if work.facts.line_with(section.number, "stick-table").is_some() {
        return Decision::leave(
            "'appsession' was removed in 1.6; a stick table would do the same, and this section has one already",
        );
    }
    if section.kind == "defaults" {
        return Decision::leave(
            "'appsession' was removed in 1.6; a stick table would do the same, in each backend",
        );
    }
    let words: Vec<_> = (2..line.words.len()).map(|index| line.word(index)).collect();
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let cookie = line.word(1);
    let length = after("len").unwrap_or_else(|| "52".into());
    let expire = after("timeout").unwrap_or_else(|| "3h".into());
    if words.iter().any(|word| matches!(&**word, "prefix" | "mode")) {
        return Decision::leave(
            "'appsession' was removed in 1.6; with 'prefix' or 'mode' it has no equivalent that is sure to do the same",
        );
    }
    let mut lines = vec![
        format!("stick-table type string len {length} size 1m expire {expire}"),
        format!("stick store-response res.cook({cookie})"),
    ];
    // Clients were known by what servers had set, and with `request-learn` by what they sent as well.
    let learns = words.iter().any(|word| word == "request-learn");
    lines.push(format!("stick {} req.cook({cookie})", if learns { "on" } else { "match" }));
    Decision::near(
        lines,
        "'appsession' was removed in 1.6: a stick table remembers the server of each cookie, of a million at most; the \
         session is no longer looked for in the URL",
    )
}

/// Actions with a new name.
fn marks(line: &WrittenLine<'_>) -> Decision {
    let position = (1..line.words.len().min(4)).find(|at| matches!(&*line.word(*at), "set-mark" | "set-tos"));
    let Some(position) = position else { return Decision::Keep };
    let old = line.word(position);
    let new = old.replace("set-", "set-fc-");
    let mut words: Vec<&str> = line.words.iter().map(|word| word.raw).collect();
    words[position] = &new;
    Decision::same(words.join(" "), format!("'{old}' is called '{new}' since 3.0"))
}

/// Aliases of log formats that had other names while 1.5 was developed.
const ALIASES: [(&str, &str); 11] = [
    ("%Bi", "%bi"),
    ("%Bp", "%bp"),
    ("%Ci", "%ci"),
    ("%Cp", "%cp"),
    ("%Fi", "%fi"),
    ("%Fp", "%fp"),
    ("%Si", "%si"),
    ("%Sp", "%sp"),
    ("%cc", "%CC"),
    ("%cs", "%CS"),
    ("%st", "%ST"),
];

fn aliases(line: &WrittenLine<'_>) -> Decision {
    let old = rest(line, 1);
    let mut new = String::with_capacity(old.len());
    let mut at = 0;
    while let Some(c) = old[at..].chars().next() {
        let here = &old[at..];
        let alias = ALIASES.iter().find(|(name, _)| {
            here.starts_with(name) && !here[name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        });
        let piece = match alias {
            Some((name, now)) => {
                new.push_str(now);
                at += name.len();
                continue;
            }
            None if here.starts_with("%%") => "%%",
            None => &here[..c.len_utf8()],
        };
        new.push_str(piece);
        at += piece.len();
    }
    if new == old {
        return Decision::Keep;
    }
    Decision::same(format!("{} {new}", line.word(0)), "names of log fields from before 1.5 have successors")
}

fn option(line: &WrittenLine<'_>, at: usize, section: &Section) -> Decision {
    let name = line.word(at);
    match &*name {
        "forceclose" => Decision::same(
            "option httpclose",
            "'option forceclose' was removed in 2.0; 'option httpclose' closes both sides as well",
        ),
        "http-tunnel" => Decision::near(
            Vec::new(),
            "'option http-tunnel' was removed in 2.1: every request is looked at, not only the first of a connection",
        ),
        "http-use-htx" => {
            Decision::gone("'option http-use-htx' was removed in 2.1: there is no other way since")
        }
        "http_proxy" => Decision::leave(
            "'option http_proxy' was removed in 2.5; see 'http-request do-resolve', 'set-dst' and 'set-uri'",
        ),
        "transparent" if section.kind == "defaults" => Decision::leave(
            "'option transparent' was removed in 3.5: give each backend a 'server ... 0.0.0.0'",
        ),
        "transparent" => transparent(),
        "independant-streams" => {
            Decision::same("option independent-streams", "the option is spelled 'independent-streams'")
        }
        "tcpsplice" => {
            Decision::same("option splice-auto", "'option tcpsplice' is called 'option splice-auto'")
        }
        "accept-invalid-http-request" | "accept-invalid-http-response" => {
            let new = name.replace("accept-invalid", "accept-unsafe-violations-in");
            Decision::same(
                format!("option {new}"),
                format!("'option {name}' is called 'option {new}' since 3.0"),
            )
        }
        "httpchk" => health::option_httpchk(line),
        _ => Decision::Keep,
    }
}

fn server(work: &Work, line: &WrittenLine<'_>, section: &Section) -> Decision {
    let mut words: Vec<&str> = line.words.iter().map(|word| word.raw).collect();
    let mut why = Vec::new();
    let mut kind = Kind::Same;
    let renamed = work.names.server(line.number);
    if let (Some((new, first)), true) = (renamed, words.len() > 1) {
        words[1] = new;
        why.push(format!("line {first} has a server of that name; this one is called '{new}' now"));
    }
    if work.facts.dispatching[section.number] && !words.contains(&"weight") {
        words.extend(["weight", "0"]);
        kind = Kind::Near;
        why.push("beside 'dispatch', only cookies lead to this server: its weight is 0 now".into());
    }
    if why.is_empty() {
        return Decision::Keep;
    }
    Decision::Become(vec![words.join(" ")], kind, why.join("; "))
}

/// References to frontends that have another name now.
fn renamed(work: &Work, line: &WrittenLine<'_>) -> Decision {
    let mut changed = false;
    let mut words = Vec::with_capacity(line.words.len());
    for (index, word) in line.words.iter().enumerate() {
        let after_table = index > 0 && line.word(index - 1) == "table";
        let new = if after_table {
            work.names.table(&word.text()).map(|name| quoted(name).into_owned())
        } else {
            work.names.in_word(word.raw)
        };
        changed |= new.is_some();
        words.push(new.unwrap_or_else(|| word.raw.to_owned()));
    }
    if !changed {
        return Decision::Keep;
    }
    Decision::same(words.join(" "), "the frontend that it names has another name now")
}
