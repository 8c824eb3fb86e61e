//! Servers: of HTTP/2, which answer many requests at once, and of HTTP/1.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_h2::connection::{Event, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_http::{Head, Version};

use super::client::chunk;
use super::framed::Framed;
use super::{PART_MAX, number};
use crate::actor::{Got, Line, accept, add, both};
use crate::body;
use crate::message::{Item, Reader};
use crate::plan::{Break, Plan, StreamPlan, StreamsPlan};
use crate::record::Record;

/// Serves the connections of one of the servers for ever.
pub async fn serve(plan: Arc<Plan>, record: Rc<Record>, server: usize) {
    let Some(streams) = &plan.streams else { return };
    let listens = accept(streams.servers[server], |line| {
        let (plan, record) = (Arc::clone(&plan), Rc::clone(&record));
        async move {
            let Some(streams) = &plan.streams else { return };
            let server = Server { plan: streams, record: &record };
            match streams.servers_framed {
                true => server.many(line).await,
                false => server.one_by_one(line).await,
            }
        }
    });
    if !listens.await {
        record.complain("a server of streams could not listen");
    }
}

struct Server<'a> {
    plan: &'a StreamsPlan,
    record: &'a Record,
}

/// A request on its way, and its response.
#[derive(Default)]
struct Job {
    id: usize,
    got_all: bool,
    answering: bool,
    sent: usize,
    /// Nothing more is said of it.
    stalled: bool,
}

impl Server<'_> {
    fn stream(&self, id: usize) -> Option<StreamPlan> {
        self.plan.stream(id).copied()
    }

    /// A request came, which says its number.
    fn asked(&self, says: Option<&[u8]>) -> Option<usize> {
        let id = says.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        let Some(id) = id.filter(|id| self.stream(*id).is_some()) else {
            self.record.complain(format!("a server of streams was asked by {says:?}"));
            return None;
        };
        self.record.stream(id, |s| {
            s.attempts += 1;
            s.got = 0;
        });
        Some(id)
    }

    fn data(&self, id: usize, data: &[u8]) {
        let at = self.record.stream(id, |s| add(&mut s.got, data.len() as u64));
        if let Some(place) = body::first_difference(body::request_key(id), at, data) {
            self.record.complain(format!("byte {place} of request {id} came wrong"));
        }
    }

    fn whole(&self, id: usize) {
        let up = self.stream(id).map_or(0, |plan| plan.up as u64);
        let got = self.record.stream(id, |s| (s.got_all = true, s.got).1);
        if got != up {
            self.record.complain(format!("request {id} ended with {got} of {up} bytes"));
        }
    }

    async fn many(&self, line: Line) {
        let framed = Framed::new(line, Role::Server, self.plan.server_window);
        let jobs: RefCell<BTreeMap<u32, Job>> = RefCell::default();
        let read = async {
            loop {
                match framed.receive(1 << 16, &mut |event| self.event(&event, &mut jobs.borrow_mut())).await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(why) => {
                        self.record.complain(format!("a server of streams: {why}"));
                        framed.over.set(true);
                        framed.stir();
                        return framed.line.close();
                    }
                }
            }
        };
        let write = async {
            while self.answer(&framed, &mut jobs.borrow_mut()) && framed.flush().await && !framed.over.get() {
                framed.stirred(None).await;
            }
            framed.line.close();
        };
        both(read, write).await;
    }

    fn event(&self, event: &Event<'_>, jobs: &mut BTreeMap<u32, Job>) {
        match event {
            Event::Head { stream, head, end, .. } => {
                let Some(id) = self.asked(number(head)) else { return };
                jobs.insert(*stream, Job { id, got_all: *end, ..Job::default() });
                if *end {
                    self.whole(id);
                }
            }
            Event::Data { stream, data, end } => {
                let Some(job) = jobs.get_mut(stream) else { return };
                self.data(job.id, data);
                job.got_all |= *end;
                if *end {
                    self.whole(job.id);
                }
            }
            Event::Trailers { stream, .. } => {
                if let Some(job) = jobs.get_mut(stream) {
                    job.got_all = true;
                }
            }
            Event::Reset { stream, .. } => _ = jobs.remove(stream),
            Event::Refused { stream, why } => {
                self.record.complain(format!("a server of streams was asked for {why:?} on {stream}"));
            }
            Event::Room { .. } | Event::Goaway { .. } | Event::Pong | Event::Ready => {}
        }
    }

    /// Goes on with all responses as far as windows allow. False when the connection ended with that.
    fn answer(&self, framed: &Framed, jobs: &mut BTreeMap<u32, Job>) -> bool {
        let mut done = Vec::new();
        for (stream, job) in jobs.iter_mut() {
            let Some(plan) = self.stream(job.id) else { continue };
            if job.stalled || !(job.got_all || plan.early) {
                continue;
            }
            match self.go_on(framed, *stream, job, &plan) {
                None => {}
                Some(Break::Close) => {
                    framed.line.close();
                    return false;
                }
                Some(Break::Reset) => {
                    framed.line.reset();
                    return false;
                }
                Some(_) => done.push(*stream),
            }
        }
        done.iter().for_each(|stream| _ = jobs.remove(stream));
        true
    }

    /// Goes on with one response. What its end is, if this is it; for one that ends well any that concerns the stream alone.
    fn go_on(&self, framed: &Framed, stream: u32, job: &mut Job, plan: &StreamPlan) -> Option<Break> {
        let mut h2 = framed.h2.borrow_mut();
        let until = plan.fault.map_or(plan.down, |(at, _)| at.min(plan.down));
        if let Some((_, Break::Refuse)) = plan.fault
            && !job.answering
            && self.record.stream(job.id, |s| s.attempts == 1)
        {
            h2.reset(stream, ErrorCode::RefusedStream);
            return Some(Break::Refuse);
        }
        if let (Some((0, Break::ResetStream)), false) = (plan.fault, job.answering) {
            h2.reset(stream, ErrorCode::InternalError);
            return Some(Break::ResetStream);
        }
        if !job.answering {
            job.answering = true;
            let mut head = Head::new();
            head.start_response(Version::HTTP_2, 200, None).expect("a fresh head has room");
            head.push(b"x-id", job.id.to_string().as_bytes()).expect("a fresh head has room");
            if plan.sized {
                head.push(b"content-length", plan.down.to_string().as_bytes())
                    .expect("a fresh head has room");
            }
            h2.respond(stream, &head, plan.down == 0);
        }
        while job.sent < until {
            let len = h2.room(stream).min(until - job.sent).min(PART_MAX);
            if len == 0 {
                return None;
            }
            let part = body::bytes(body::response_key(job.id, 0), job.sent as u64, len);
            job.sent += len;
            h2.send_data(stream, &part, job.sent == plan.down);
            self.record.stream(job.id, |s| s.server_sent += len as u64);
        }
        match plan.fault {
            Some((_, Break::ResetStream)) => h2.reset(stream, ErrorCode::InternalError),
            Some((_, Break::Goaway)) => {
                h2.goaway(ErrorCode::NoError);
                if job.sent < plan.down {
                    h2.reset(stream, ErrorCode::Cancel);
                }
            }
            Some((_, Break::Stall)) if job.sent < plan.down => {
                job.stalled = true;
                return None;
            }
            Some((_, how @ (Break::Close | Break::Reset))) => return Some(how),
            _ => {}
        }
        Some(Break::Stall)
    }

    /// Requests one after the other, on a connection of HTTP/1.
    async fn one_by_one(&self, line: Line) {
        let reader = RefCell::new(Reader::default());
        while let Some(id) = self.next(&line, &reader).await {
            let Some(plan) = self.stream(id) else { break };
            let goes_on = std::cell::Cell::new(false);
            let rest = async {
                if plan.early {
                    self.rest(&line, &reader, id).await;
                }
            };
            let reply = async { goes_on.set(self.reply(&line, id, &plan).await) };
            both(rest, reply).await;
            if !goes_on.get() {
                break;
            }
        }
        line.close();
    }

    /// The next request: whole, or its head if it is answered early.
    async fn next(&self, line: &Line, reader: &RefCell<Reader>) -> Option<usize> {
        let mut current = None;
        loop {
            while let Some(item) = self.item(reader) {
                match item {
                    Item::Head(head) => {
                        let id = self.asked(head.field("x-id").map(str::as_bytes))?;
                        current = Some(id);
                        if self.stream(id).is_some_and(|plan| plan.early) {
                            return Some(id);
                        }
                    }
                    Item::Data(data) => self.data(current?, &data),
                    Item::End => {
                        self.whole(current?);
                        return current;
                    }
                }
            }
            match line.recv(1 << 16).await {
                Got::Bytes(bytes) => reader.borrow_mut().feed(&bytes),
                _ => return None,
            }
        }
    }

    fn item(&self, reader: &RefCell<Reader>) -> Option<Item> {
        match reader.borrow_mut().next(|_| true) {
            Ok(item) => item,
            Err(why) => {
                self.record.complain(format!("a server of streams was sent nonsense: {why}"));
                None
            }
        }
    }

    /// Takes the rest of a request that is answered meanwhile.
    async fn rest(&self, line: &Line, reader: &RefCell<Reader>, id: usize) {
        loop {
            while let Some(item) = self.item(reader) {
                match item {
                    Item::Data(data) => self.data(id, &data),
                    Item::End => return self.whole(id),
                    Item::Head(_) => return,
                }
            }
            match line.recv(1 << 16).await {
                Got::Bytes(bytes) => reader.borrow_mut().feed(&bytes),
                _ => return,
            }
        }
    }

    /// Answers. Whether the connection goes on.
    async fn reply(&self, line: &Line, id: usize, plan: &StreamPlan) -> bool {
        let until = plan.fault.map_or(plan.down, |(at, _)| at.min(plan.down));
        let framing = match plan.sized {
            true => format!("content-length: {}", plan.down),
            false => "transfer-encoding: chunked".into(),
        };
        if !line.send(format!("HTTP/1.1 200 OK\r\nx-id: {id}\r\n{framing}\r\n\r\n").as_bytes()).await {
            return false;
        }
        let mut sent = 0;
        while sent < until {
            let part = body::bytes(body::response_key(id, 0), sent as u64, (until - sent).min(PART_MAX));
            sent += part.len();
            self.record.stream(id, |s| s.server_sent += part.len() as u64);
            if !line.send(&if plan.sized { part } else { chunk(&part) }).await {
                return false;
            }
        }
        match plan.fault {
            Some((_, Break::Reset)) => line.reset(),
            Some((_, Break::Stall)) if sent < plan.down => {
                while let Got::Bytes(_) = line.recv(1 << 16).await {}
            }
            Some(_) => line.close(),
            None if plan.sized => return true,
            None => return line.send(b"0\r\n\r\n").await,
        }
        false
    }
}
