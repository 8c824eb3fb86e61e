//! All that is known of one row: `;row=`. The page's script shows its `main` in a dialog.

use super::Context;
use super::html::begin;
use super::options::RowId;
use super::words::{duration, escaped, time, written};
use crate::latency;
use crate::report::{Filter, Part, Place, Walk};
use crate::rows;
use crate::stat;
use thalweg_proxy::latency::Phase;
use thalweg_runtime::clock;

/// Writes the document; false if there is no such row to be shown.
pub fn write(out: &mut String, context: &Context, id: RowId) -> bool {
    let (proxy, kind, number) = id;
    if kind > 3 {
        return false;
    }
    let filter = Filter {
        iid: i64::from(proxy),
        kinds: 1 << kind,
        sid: i64::from(number),
        up: false,
        no_maint: false,
        ..context.filter.clone()
    };
    let Some(place) = Walk::new(filter).next(&context.instance) else { return false };
    let mut row = place.row(&context.instance);
    if !context.legends {
        row.withhold();
    }
    let of = &context.instance.config.proxies[place.proxy];
    let name = match &row.values[const { crate::columns::at("svname") }] {
        Some(name) => format!("{}/{name}", of.name),
        None => of.name.to_string(),
    };
    begin(out, context, &name);
    out.push_str("<body>\n<main class=\"row\">\n<h1>");
    escaped(out, &name);
    out.push_str("</h1>\n<p><a href=\"");
    escaped(out, &context.link(&context.suffix));
    out.push_str("\">All rows</a></p>\n");
    past(out, context, place);
    times(out, context, place);
    out.push_str(
        "<div class=\"table\"><table><caption>Figures</caption><thead><tr><th scope=\"col\">Figure</th>\
         <th scope=\"col\">Value</th><th scope=\"col\">What it is</th></tr></thead><tbody>\n",
    );
    for (name, value, text) in stat::described(&row) {
        out.push_str(&format!("<tr><th scope=\"row\">{name}</th><td>"));
        escaped(out, &value);
        out.push_str(&format!("</td><td>{text}</td></tr>\n"));
    }
    out.push_str("</tbody></table></div>\n</main>\n</body>\n</html>\n");
    true
}

/// How long streams took, if there were any.
fn times(out: &mut String, context: &Context, place: Place) {
    let sums = Phase::ALL.map(|phase| (phase, latency::of(&context.instance, place, phase)));
    if sums.iter().all(|(_, sum)| sum.count == 0) {
        return;
    }
    out.push_str(
        "<div class=\"table\"><table class=\"times\"><caption>How long streams took</caption><thead><tr>\
         <th scope=\"col\">Phase</th><th scope=\"col\">Streams</th><th scope=\"col\">Average</th>",
    );
    for (_, name) in latency::SHARES {
        out.push_str(&format!("<th scope=\"col\">{name}</th>"));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (phase, sum) in sums.into_iter().filter(|(_, sum)| sum.count > 0) {
        let (phase, streams, average) = (phase.name(), sum.count, written(time, sum.average_us()));
        out.push_str(&format!("<tr><th scope=\"row\">{phase}</th><td>{streams}</td><td>{average}</td>"));
        for (share, _) in latency::SHARES {
            out.push_str(&format!("<td>{}</td>", written(time, sum.per_mille(share).unwrap_or(0))));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

/// What became of a server, the latest first, as far as it is remembered.
fn past(out: &mut String, context: &Context, place: Place) {
    let Part::Server(at) = place.part else { return };
    let proxy = &context.instance.config.proxies[place.proxy];
    let backend = &context.instance.backends[place.proxy];
    let server = proxy.servers[at].id;
    let past = backend.past(server);
    if past.is_empty() {
        return;
    }
    out.push_str(
        "<div class=\"table\"><table class=\"times\"><caption>What became of it</caption><thead><tr>\
         <th scope=\"col\">Before</th><th scope=\"col\">It became</th></tr></thead><tbody>\n",
    );
    let now_ms = clock::now_ms();
    let mut became = rows::status(&backend.standing(server));
    for before in past.iter().rev() {
        let ago = written(duration, now_ms.saturating_sub(before.until_ms) / 1000);
        let was = std::mem::replace(&mut became, rows::status(&before.standing));
        out.push_str(&format!("<tr><th scope=\"row\">{ago}</th><td>"));
        escaped(out, &was);
        out.push_str("</td></tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}
