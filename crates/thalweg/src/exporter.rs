//! The service `prometheus-exporter`: what was counted, for Prometheus.

use std::sync::Arc;

use thalweg_cli::Cli;
use thalweg_http::{Head, Version};
use thalweg_proxy::stream::service::{Body, Request, Service};
use thalweg_statistics::prometheus::{CONTENT_TYPE, Exposition, Notation, Wanted};

/// The service.
pub struct Exporter(pub Arc<Cli>);

impl Service for Exporter {
    fn name(&self) -> &'static str {
        "prometheus-exporter"
    }

    fn title(&self) -> &'static str {
        "<PROMEX>"
    }

    fn answer(&self, request: &Request<'_>, response: &mut Head) -> Result<Option<Box<dyn Body>>, u16> {
        let target = thalweg_http::uri::path_and_query(request.head.target());
        let query = target.iter().position(|b| *b == b'?').map_or(&[][..], |at| &target[at + 1..]);
        let wanted = Wanted::of(query).ok_or(400u16)?;
        response.clear();
        response
            .start_response(Version::HTTP_11, 200, Some(b"OK"))
            .and_then(|()| response.push(b"cache-control", b"no-cache"))
            .and_then(|_| response.push(b"content-type", CONTENT_TYPE.as_bytes()))
            .map_err(|_| 500u16)?;
        let instance = self.0.live.current().ok_or(503u16)?;
        let exposition = Exposition::new(instance, &self.0.around(), wanted, Notation::text());
        Ok(Some(Box::new(Text(exposition))))
    }
}

/// An exposition, as a body.
struct Text(Exposition);

impl Body for Text {
    fn step(&mut self, out: &mut String) -> bool {
        self.0.step(out)
    }
}
