//! What was counted about name servers: `show stat domain resolvers`, and the figures that the exporter and `show resolvers` take.

use thalweg_config::model::{NameServer, Resolvers};
use thalweg_dns::Tally;
use thalweg_proxy::Instance;

use crate::format::{Value, csv, json_value, typed};
use crate::report::Form;

/// A figure of a name server.
pub struct Figure {
    /// Its name in the header and in typed output.
    pub name: &'static str,
    /// What it counts, for people.
    pub text: &'static str,
    /// Its value.
    pub of: fn(&Tally) -> u64,
}

const fn f(name: &'static str, text: &'static str, of: fn(&Tally) -> u64) -> Figure {
    Figure { name, text, of }
}

/// The figures, in their order.
pub const FIGURES: [Figure; 15] = [
    f("sent", "Queries sent", |t| t.sent),
    f("send_error", "Queries that could not be sent", |t| t.send_error),
    f("valid", "Answers that gave something", |t| t.valid),
    f("update", "Changes of a server's address", |t| t.update),
    f("cname", "Answers through an alias", |t| t.cname),
    f("cname_error", "Answers whose aliases lead nowhere", |t| t.cname_error),
    f("any_err", "Answers without anything that was asked for", |t| t.any_err),
    f("nx", "Names that do not exist", |t| t.nx),
    f("timeout", "Queries not answered in time", |t| t.timeout),
    f("refused", "Queries refused", |t| t.refused),
    f("other", "Other failures", |t| t.other),
    f("invalid", "Messages that were no answer", |t| t.invalid),
    f("too_big", "Answers larger than accepted", |t| t.too_big),
    f("truncated", "Answers that did not fit into a datagram", |t| t.truncated),
    f("outdated", "Answers that came too late", |t| t.outdated),
];

/// Each name server with what was counted about it.
pub fn all(instance: &Instance) -> impl Iterator<Item = (&Resolvers, &NameServer, Tally)> {
    instance.config.resolvers.iter().zip(&instance.resolvers).flat_map(|(section, counts)| {
        let tallies = counts.tallies().into_vec();
        section.name_servers.iter().zip(tallies).map(move |(server, tally)| (&**section, server, tally))
    })
}

/// `show stat domain resolvers`.
pub fn report(instance: &Instance, form: Form, described: bool) -> String {
    let mut out = String::new();
    if form == Form::Csv {
        out.push_str("# id,pid,");
        FIGURES.iter().for_each(|figure| out.push_str(&format!("{},", figure.name)));
        out.push('\n');
    }
    for (row, (section, server, tally)) in all(instance).enumerate() {
        let names = [
            ("id", "CGPV", "Name of the name server", Value::Str(server.name.to_string().into())),
            ("pid", "CGPV", "Name of its section", Value::Str(section.name.to_string().into())),
        ];
        let counts = FIGURES.iter().map(|f| (f.name, "MGPV", f.text, Value::U64((f.of)(&tally))));
        let fields = names.into_iter().chain(counts);
        match form {
            Form::Csv => {
                for (_, _, _, value) in fields {
                    csv(&mut out, &value);
                    out.push(',');
                }
                out.push('\n');
            }
            Form::Typed => {
                for (at, (name, tags, text, value)) in fields.enumerate() {
                    out.push_str(&format!("N.{at}.{name}:{tags}:"));
                    typed(&mut out, &value);
                    if described {
                        out.push_str(&format!(":\"{text}\""));
                    }
                    out.push('\n');
                }
            }
            Form::Json => {
                out.push_str(if row == 0 { "[[" } else { ",[" });
                for (at, (name, tags, _, value)) in fields.enumerate() {
                    out.push_str(if at == 0 { "{" } else { ",{" });
                    out.push_str(&format!("\"field\":{{\"pos\":{at},\"name\":\"{name}\"}},"));
                    json_value(&mut out, tags, &value);
                }
                out.push(']');
            }
        }
    }
    if form == Form::Json {
        out.push_str(if out.is_empty() { "[]\n" } else { "]\n" });
    }
    out
}
