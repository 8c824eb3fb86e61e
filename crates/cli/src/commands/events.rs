//! `show events`: where log lines go, and what rings hold of them.

use std::io;
use std::sync::Arc;
use std::task::Poll;

use thalweg_config::model::CliLevel::User;
use thalweg_operate::log::ring::{Framing, Ring};
use thalweg_proxy::Instance;
use thalweg_syntax::carry::carry;
use thalweg_trace::Sink;

use crate::command::{Call, Command, Run};
use crate::json::{Object, Shape};
use crate::output::Reply;

/// What this family adds to the table.
pub static COMMANDS: &[Command] =
    &[Command::new("show events", User, Run::Waiting(|call| Box::pin(show(call))))
        .help("[<sink>] [-w] [-n] [-0]", "list where events go, or show what a ring holds")
        .json(|args| if args.is_empty() { Shape::Own } else { Shape::Lines })];

/// Bytes read from a ring at once: it is locked for no longer than that takes.
const PAGE: usize = 16 * 1024;

/// See the module's documentation.
async fn show(mut call: Call<'_>) -> io::Result<Reply> {
    let Some((name, options)) = call.args.split_first() else {
        let list = if call.wants_json() { documents } else { list };
        return Ok(Reply::Text(list(call.instance())));
    };
    let (mut wait, mut newest, mut framing) = (false, false, Framing::LineFeed);
    let ring = call.instance().log.ring(name).map(|(_, ring)| Arc::clone(ring));
    if ring.is_none() && !matches!(*name, "stdout" | "stderr") {
        return Ok(Reply::error("No such event sink"));
    }
    let Some(ring) = ring else { return Ok(Reply::notice("Nothing to report for this sink")) };
    for option in options {
        match *option {
            "-w" => wait = true,
            "-n" => newest = true,
            "-wn" | "-nw" => (wait, newest) = (true, true),
            "-0" => framing = Framing::Nul,
            _ => return Ok(Reply::error("unknown option")),
        }
    }
    let (oldest, next) = ring.bounds();
    let mut cursor = if newest { next } else { oldest };
    loop {
        let mut page = Vec::new();
        ring.read(&mut cursor, framing, PAGE, &mut page);
        if !page.is_empty() {
            call.output.text.push_str(&carry(&page));
            call.output.end_row().await?;
        } else if wait {
            call.output.flush().await?;
            if wait_for_lines(&mut call, &ring, cursor).await? {
                return Ok(Reply::Done);
            }
        } else {
            return Ok(Reply::Done);
        }
    }
}

/// Waits for a line, or for the client: true when it said something, which is thrown away, or will say nothing more.
async fn wait_for_lines(call: &mut Call<'_>, ring: &Ring, cursor: u64) -> io::Result<bool> {
    std::future::poll_fn(|_| match call.input.poll_any(call.output) {
        Poll::Ready(said) => Poll::Ready(said.map(|()| true)),
        Poll::Pending => ring.poll_lines(cursor).map(|()| Ok(false)),
    })
    .await
}

fn list(instance: &Instance) -> String {
    let mut text = String::from(
        "Supported events sinks are listed below. Add -0(zero), -w(wait), -n(new). Any key to stop.\n",
    );
    for Sink { name, about, dropped } in sinks(instance) {
        let kind = kind_of(name);
        text.push_str(&format!("    {name:<10} : type={kind}, {dropped} dropped, {about}\n"));
    }
    text
}

/// The same as objects.
fn documents(instance: &Instance) -> String {
    let mut text = String::new();
    for Sink { name, about, dropped } in sinks(instance) {
        let mut object = Object::default();
        object.text("name", name).text("type", kind_of(name)).number("dropped", Some(dropped));
        object.text("description", about).end(&mut text);
    }
    text
}

/// What a sink writes to.
fn kind_of(sink: &str) -> &'static str {
    if matches!(sink, "stdout" | "stderr") { "fd" } else { "buffer" }
}

/// Where events can go.
pub(super) fn sinks(instance: &Instance) -> Vec<Sink<'_>> {
    let mut sinks = instance.config.sinks();
    for sink in &mut sinks {
        sink.dropped = instance.log.ring(sink.name).map_or(0, |(_, ring)| ring.lost());
    }
    sinks
}
