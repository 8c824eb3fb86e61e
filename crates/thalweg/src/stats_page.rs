//! The statistics page as a service of the data path: `stats` keywords. What it shows is in [`thalweg_statistics::page`].

use std::sync::Arc;

use thalweg_cli::Cli;
use thalweg_http::{Head, Method, RewriteError, Version};
use thalweg_proxy::Instance;
use thalweg_proxy::stream::service::{Body, Page, Request, Service};
use thalweg_proxy::stream::statistics::SERVICE;
use thalweg_statistics::page::html::Html;
use thalweg_statistics::page::live::Live;
use thalweg_statistics::page::options::{Code, Options, View};
use thalweg_statistics::page::past::Past;
use thalweg_statistics::page::{self, Context, act, row};
use thalweg_statistics::report::{Form, Report};
use thalweg_statistics::stat::SCHEMA;

const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

/// The service.
pub struct StatsPage {
    cli: Arc<Cli>,
    past: Arc<Past>,
}

impl StatsPage {
    /// For a process with this CLI.
    pub fn new(cli: &Arc<Cli>) -> StatsPage {
        StatsPage { cli: Arc::clone(cli), past: Arc::default() }
    }
}

impl Service for StatsPage {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn title(&self) -> &'static str {
        "<STATS>"
    }

    fn wants_body(&self, request: &Head) -> bool {
        request.method() == Method::Post
    }

    fn answer(&self, request: &Request<'_>, response: &mut Head) -> Result<Option<Box<dyn Body>>, u16> {
        let page = request.page.ok_or(503u16)?;
        let target = thalweg_http::uri::path_and_query(request.head.target());
        let options = Options::of(target.get(page.page.uri.len()..).unwrap_or(b""));
        response.clear();
        let instance = self.cli.live.current().ok_or(503u16)?;
        let made = match request.head.method() {
            Method::Post => self.change(&instance, request, &page, &options, response),
            _ => self.show(instance, &page, options, response),
        };
        let body = made.map_err(|_| 500u16)?.ok_or(404u16)?;
        Ok((request.head.method() != Method::Head).then_some(body))
    }
}

type Made = Result<Option<Box<dyn Body>>, RewriteError>;

impl StatsPage {
    /// Shows what is asked for; nothing if there is no such thing.
    fn show(&self, instance: Arc<Instance>, page: &Page<'_>, options: Options, response: &mut Head) -> Made {
        let filter = options.filter(&page.proxy.name, page.page);
        let legends = page.page.show_legends;
        let refresh = if options.norefresh { 0 } else { page.page.refresh_s };
        let view = options.view.clone();
        let report = |form| {
            let mut report = Report::new(Arc::clone(&instance), filter.clone(), form, legends);
            text(move |out| report.step(out))
        };
        let context = |options| {
            Context::new(
                Arc::clone(&instance),
                &self.cli.around(),
                page.proxy,
                page.page,
                page.admin,
                options,
            )
        };
        let (kind, body) = match view {
            View::Csv => (TEXT, report(Form::Csv)),
            View::Typed => (TEXT, report(Form::Typed)),
            View::Json => (JSON, report(Form::Json)),
            View::Schema => (JSON, whole(SCHEMA.to_owned())),
            View::Live => {
                self.past.keep(&self.cli.live);
                let mut live = Live::new(context(options), &self.past);
                (JSON, text(move |out| live.step(out)))
            }
            View::Page => {
                self.past.keep(&self.cli.live);
                let mut html = Html::new(context(options));
                (HTML, text(move |out| html.step(out)))
            }
            View::Row(id) => {
                let mut out = String::new();
                if !row::write(&mut out, &context(options), id) {
                    return Ok(None);
                }
                (HTML, whole(out))
            }
        };
        begin(response, 200, b"OK", kind)?;
        if kind == HTML {
            response.push(b"content-security-policy", page::policy().as_bytes())?;
            response.push(b"referrer-policy", b"same-origin")?;
        }
        response.push(b"x-content-type-options", b"nosniff")?;
        // Not what a script asks for: it comes again by itself.
        if refresh != 0 && view != View::Live && !matches!(view, View::Row(_)) {
            response.push(b"refresh", refresh.to_string().as_bytes())?;
        }
        Ok(Some(body))
    }

    /// Does what a form asks for, and leads back to the page, or tells the page's script what became of it.
    fn change(
        &self,
        instance: &Arc<Instance>,
        request: &Request<'_>,
        page: &Page<'_>,
        options: &Options,
        response: &mut Head,
    ) -> Made {
        let code = if !page.admin || act::is_foreign(request.head) {
            Code::Deny
        } else if !request.body_is_complete {
            Code::Excd
        } else {
            act::act(instance, &options.filter(&page.proxy.name, page.page), request.body)
        };
        if options.view == View::Live {
            begin(response, 200, b"OK", JSON)?;
            return Ok(Some(whole(format!("{{\"st\":\"{}\",\"text\":\"{}\"}}\n", code.name(), code.text()))));
        }
        begin(response, 303, b"See Other", TEXT)?;
        response.push(b"content-length", b"0")?;
        let mut location = page.page.uri.to_vec();
        location.extend_from_slice(options.suffix(page.page, &format!(";st={}", code.name())).as_bytes());
        response.push(b"location", &location)?;
        Ok(Some(whole(String::new())))
    }
}

fn begin(response: &mut Head, status: u16, reason: &[u8], kind: &str) -> Result<(), RewriteError> {
    response.start_response(Version::HTTP_11, status, Some(reason))?;
    response.push(b"cache-control", b"no-cache")?;
    response.push(b"content-type", kind.as_bytes())?;
    Ok(())
}

/// A body that is written in steps.
struct Text<F>(F);

impl<F: FnMut(&mut String) -> bool> Body for Text<F> {
    fn step(&mut self, out: &mut String) -> bool {
        (self.0)(out)
    }
}

fn text(step: impl FnMut(&mut String) -> bool + 'static) -> Box<dyn Body> {
    Box::new(Text(step))
}

fn whole(content: String) -> Box<dyn Body> {
    text(move |out| {
        out.push_str(&content);
        false
    })
}
