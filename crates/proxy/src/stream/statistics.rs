//! The statistics page of a proxy (`stats` keywords): whether a request is for it, and who may see it.
//!
//! The page is a [service](super::service) like others, but that it is looked for after the `http-request` rules of each
//! proxy and before its `redirect` rules, that it has access rules of its own, and that rules on responses do not see it.

use thalweg_config::model::{Proxy, StatsPage};
use thalweg_http::Method;
use thalweg_rules::Kind;
use thalweg_sample::acl::Verdict;

use super::answer::Answer;
use super::ending::Cause;
use super::service::{self, Page};
use super::{Stop, Stream};

/// The name of the service.
pub const SERVICE: &str = "stats";

/// Answers if the request is for the page of this proxy: then the stream is over.
pub async fn serve<'a>(http: &mut Stream<'a>, proxy: &'a Proxy, page: &'a StatsPage) -> Result<(), Stop<'a>> {
    let request = &http.state.request;
    let known = matches!(request.method(), Method::Get | Method::Head | Method::Post);
    if !known || !thalweg_http::uri::path_and_query(request.target()).starts_with(&page.uri) {
        return Ok(());
    }
    let Some(service) = http.worker.instance.service(SERVICE) else {
        return Err(Stop::Answer(Answer::Error(503)));
    };
    http.note_decision();
    service::begin(http, service);
    if !page.rules.is_empty() {
        http.request_rules(proxy, &page.rules, Kind::HttpRequest).await?;
    }
    http.end(Cause::AnsweredByService);
    if is_another_look(http, page) {
        http.state.facts.log_level = Some(NOT_LOGGED);
    }
    let admin =
        page.admin.iter().any(|condition| http.evaluate(true, |cx, _| condition.eval(cx) == Verdict::Pass));
    let page = Page { proxy, page, admin };
    Err(Stop::Ended(service::answer(http, service, Some(page), false).await?))
}

/// The log level of what is not logged.
const NOT_LOGGED: u8 = 255;

/// Whether the page's script looks for figures again on the connection that brought the page: it does so about once a second,
/// and one line says enough about who looks.
fn is_another_look(stream: &Stream<'_>, page: &StatsPage) -> bool {
    let request = &stream.state.request;
    let rest = thalweg_http::uri::path_and_query(request.target()).get(page.uri.len()..).unwrap_or(b"");
    !stream.first && request.method() == Method::Get && rest.starts_with(b";live")
}
