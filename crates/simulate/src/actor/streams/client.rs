//! Clients: of HTTP/2, with many requests at once, and of HTTP/1, with one after the other.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use thalweg_h2::connection::{Event, Role};
use thalweg_h2::error::ErrorCode;
use thalweg_http::{Head, Version};
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::{clock, timer};

use super::framed::Framed;
use super::{PART_MAX, PATIENCE_MS, number};
use crate::actor::{Got, Line, PAUSES_MAX, add, both};
use crate::body;
use crate::message::{Item, Reader};
use crate::plan::{How, Plan, StreamPlan, StreamsSession};
use crate::record::{Record, StreamEnd};

/// Plays the client of the `n`th session.
pub async fn play(plan: Arc<Plan>, record: Rc<Record>, n: usize) {
    let Some(streams) = &plan.streams else { return };
    let session = &streams.sessions[n];
    timer::sleep(session.start_ms).await;
    let source = SockAddr::from(std::net::SocketAddr::from(([10, 3, 0, n as u8 + 1], 0)));
    let options = ConnectOptions { source: Some(source), ..ConnectOptions::default() };
    let connecting = Stream::connect(&SockAddr::from(streams.front), &options);
    let patience = Some(clock::now_ms() + PATIENCE_MS);
    if let Ok(Ok(stream)) = timer::timeout_at(patience, connecting).await {
        let line = Line::new(stream);
        let client = Client { plan: &plan, session, record: &record, n };
        let work = async {
            match streams.clients_framed {
                true => client.many(line).await,
                false => client.one_by_one(line).await,
            }
        };
        if timer::timeout_at(patience, work).await.is_err() {
            record.complain(format!("client {n} of streams waits for ever"));
        }
    }
    record.network.note(|| format!("actor client {n} of streams is done"));
    record.client_done();
}

struct Client<'a> {
    plan: &'a Plan,
    session: &'a StreamsSession,
    record: &'a Record,
    n: usize,
}

/// A request on its way.
struct Open {
    /// Its number in the plan, and how much of its body was sent.
    id: usize,
    sent: usize,
}

impl Client<'_> {
    fn stream(&self, id: usize) -> &StreamPlan {
        &self.session.streams[id - self.session.first]
    }

    /// All requests, as their gaps say, on a connection of HTTP/2.
    async fn many(&self, line: Line) {
        let framed = Framed::new(line, Role::Client, self.session.window);
        let open: RefCell<BTreeMap<u32, Open>> = RefCell::default();
        both(self.write(&framed, &open), self.read(&framed, &open)).await;
        framed.line.close();
        for open in open.borrow().values() {
            self.record.stream(open.id, |s| _ = s.end.get_or_insert(StreamEnd::Gone));
        }
    }

    async fn write(&self, framed: &Framed, open: &RefCell<BTreeMap<u32, Open>>) {
        let mut next = 0;
        let mut due_ms = clock::now_ms();
        loop {
            while let Some(plan) = self.session.streams.get(next)
                && clock::now_ms() >= due_ms + plan.gap_ms
                && framed.h2.borrow().openable() > 0
                && !framed.over.get()
            {
                self.begin(framed, open, self.session.first + next);
                due_ms = clock::now_ms();
                next += 1;
            }
            self.upload(framed, open);
            if !framed.flush().await || framed.over.get() {
                return;
            }
            let all = next == self.session.streams.len() || framed.h2.borrow().is_closing();
            if all && open.borrow().is_empty() {
                return framed.line.close();
            }
            let due = self.session.streams.get(next).map(|plan| due_ms + plan.gap_ms);
            let is_due = due.is_some_and(|at| at <= clock::now_ms());
            if is_due && framed.h2.borrow().openable() > 0 {
                // Its time came while something else was sent.
                continue;
            }
            framed.stirred(due.filter(|_| !is_due)).await;
        }
    }

    fn begin(&self, framed: &Framed, open: &RefCell<BTreeMap<u32, Open>>, id: usize) {
        let plan = self.stream(id);
        let mut head = Head::new();
        let method: &[u8] = if plan.up > 0 { b"POST" } else { b"GET" };
        head.start_request(method, b"/s", Version::HTTP_2).expect("a fresh head has room");
        for (name, value) in fields(id, plan) {
            head.push(name.as_bytes(), value.as_bytes()).expect("a fresh head has room");
        }
        let opened = framed.h2.borrow_mut().open(&head, b"http", plan.up == 0);
        if let Ok(stream) = opened {
            self.record
                .network
                .note(|| format!("actor stream {stream} of client {} is request {id}", self.n));
            self.record.stream(id, |s| (s.asked, s.sent_all) = (true, plan.up == 0));
            open.borrow_mut().insert(stream, Open { id, sent: 0 });
        }
    }

    /// Sends of all bodies what the windows allow.
    fn upload(&self, framed: &Framed, open: &RefCell<BTreeMap<u32, Open>>) {
        let mut h2 = framed.h2.borrow_mut();
        for (stream, open) in open.borrow_mut().iter_mut() {
            let up = self.stream(open.id).up;
            while open.sent < up {
                let len = h2.room(*stream).min(up - open.sent).min(PART_MAX).min(self.session.piece);
                if len == 0 {
                    break;
                }
                let part = body::bytes(body::request_key(open.id), open.sent as u64, len);
                open.sent += len;
                h2.send_data(*stream, &part, open.sent == up);
                let (sent, all) = (open.sent as u64, open.sent == up);
                self.record.stream(open.id, |s| (s.sent, s.sent_all) = (sent, all));
            }
        }
    }

    async fn read(&self, framed: &Framed, open: &RefCell<BTreeMap<u32, Open>>) {
        let mut pauses = PAUSES_MAX;
        let mut received = 0;
        loop {
            let mut given_up = Vec::new();
            let came = framed
                .receive(self.session.piece, &mut |event| {
                    if let Event::Data { data, .. } = &event {
                        received += data.len() as u64;
                    }
                    self.event(&event, &mut open.borrow_mut(), &mut given_up);
                })
                .await;
            for stream in given_up {
                framed.h2.borrow_mut().reset(stream, ErrorCode::Cancel);
            }
            match came {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => {
                    // Where its first bytes wait for a buffer, nobody knows what it speaks, and the answer is one of HTTP/1.
                    if !self.plan.proxy.is_short_of_buffers {
                        self.record.complain(format!("client {} of streams: {why}", self.n));
                    }
                    framed.over.set(true);
                    framed.stir();
                    return framed.line.close();
                }
            }
            if let Some((limit, how)) = self.session.leave
                && received >= limit
            {
                self.record.network.note(|| format!("actor client {} of streams leaves: {how:?}", self.n));
                open.borrow().values().for_each(|open| self.record.stream(open.id, |s| s.left = true));
                framed.over.set(true);
                framed.stir();
                return if how == How::Reset { framed.line.reset() } else { framed.line.close() };
            }
            if self.session.pause_ms > 0 && pauses > 0 {
                pauses -= 1;
                timer::sleep(self.session.pause_ms).await;
            }
        }
    }

    fn event(&self, event: &Event<'_>, open: &mut BTreeMap<u32, Open>, given_up: &mut Vec<u32>) {
        let (stream, ended) = match event {
            Event::Head { stream, head, end, .. } => {
                let Some(at) = open.get(stream) else { return };
                if head.status() >= 200 {
                    self.head(at.id, head.status(), number(head));
                }
                (*stream, end.then_some(StreamEnd::Whole))
            }
            Event::Data { stream, data, end } => {
                let Some(at) = open.get(stream) else { return };
                self.data(at.id, data);
                (*stream, end.then_some(StreamEnd::Whole))
            }
            Event::Trailers { stream, .. } => (*stream, Some(StreamEnd::Whole)),
            Event::Reset { stream, .. } => (*stream, Some(StreamEnd::Reset)),
            Event::Refused { stream, why } => {
                self.record.complain(format!("client {} of streams: stream {stream} is {why:?}", self.n));
                return;
            }
            Event::Room { .. } | Event::Goaway { .. } | Event::Pong | Event::Ready => return,
        };
        let Some(at) = open.get(&stream) else { return };
        let (id, enough) = (at.id, self.stream(at.id).gives_up);
        let gives_up = ended.is_none()
            && enough
                .is_some_and(|most| self.record.stream(id, |s| s.status != 0 && s.received >= most as u64));
        if gives_up {
            self.record.stream(id, |s| s.left = true);
            given_up.push(stream);
        }
        if let Some(end) = ended.or(gives_up.then_some(StreamEnd::Reset)) {
            self.record.stream(id, |s| s.end = Some(end));
            open.remove(&stream);
        }
    }

    /// The head of a response came, with the number that its server says.
    fn head(&self, id: usize, status: u16, says: Option<&[u8]>) {
        self.record.network.note(|| format!("actor client {} of streams gets a {status} for {id}", self.n));
        if says.is_some_and(|says| says != id.to_string().as_bytes()) {
            self.record.complain(format!("request {id} got the answer of {says:?}"));
        }
        if self.record.stream(id, |s| (add(&mut s.answers, 1), s.status = status).0) > 0 {
            self.record.complain(format!("request {id} got two answers"));
        }
        self.record.stream(id, |s| s.of_server = says.is_some());
    }

    fn data(&self, id: usize, data: &[u8]) {
        let (at, of_server) =
            self.record.stream(id, |s| (add(&mut s.received, data.len() as u64), s.of_server));
        if of_server && let Some(place) = body::first_difference(body::response_key(id, 0), at, data) {
            self.record.complain(format!("byte {place} of the answer to request {id} is wrong"));
        }
    }

    /// One request after the other, on a connection of HTTP/1.
    async fn one_by_one(&self, line: Line) {
        for id in self.session.first..self.session.first + self.session.streams.len() {
            timer::sleep(self.stream(id).gap_ms).await;
            let reader = RefCell::new(Reader::default());
            both(self.ask(&line, id), self.hear(&line, id, &reader)).await;
            if self.record.stream(id, |s| s.end != Some(StreamEnd::Whole) || s.closes) {
                break;
            }
        }
        line.close();
    }

    async fn ask(&self, line: &Line, id: usize) {
        let plan = self.stream(id);
        let method = if plan.up > 0 { "POST" } else { "GET" };
        let mut text = format!("{method} /s HTTP/1.1\r\nhost: h\r\n");
        for (name, value) in fields(id, plan) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if plan.up > 0 && !plan.sized {
            text.push_str("transfer-encoding: chunked\r\n");
        }
        text.push_str("\r\n");
        self.record.stream(id, |s| s.asked = true);
        if !line.send(text.as_bytes()).await {
            return;
        }
        let mut sent = 0;
        while sent < plan.up {
            let len = (plan.up - sent).min(PART_MAX);
            let part = body::bytes(body::request_key(id), sent as u64, len);
            let part = if plan.sized { part } else { chunk(&part) };
            if !line.send(&part).await {
                return;
            }
            sent += len;
            self.record.stream(id, |s| s.sent = sent as u64);
        }
        if plan.up > 0 && !plan.sized && !line.send(b"0\r\n\r\n").await {
            return;
        }
        self.record.stream(id, |s| s.sent_all = true);
    }

    async fn hear(&self, line: &Line, id: usize, reader: &RefCell<Reader>) {
        let mut received = 0;
        let end = loop {
            match self.understand(id, &mut reader.borrow_mut()) {
                Ok(true) => break StreamEnd::Whole,
                Ok(false) => {}
                Err(why) => {
                    self.record.complain(format!("request {id}: {why}"));
                    line.close();
                    break StreamEnd::Gone;
                }
            }
            match line.recv(self.session.piece).await {
                Got::Bytes(bytes) => {
                    received += bytes.len() as u64;
                    reader.borrow_mut().feed(&bytes);
                }
                Got::Fin if reader.borrow().is_until_close() => break StreamEnd::Whole,
                _ => break StreamEnd::Gone,
            }
            if let Some((limit, how)) = self.session.leave
                && received >= limit
            {
                self.record.stream(id, |s| s.left = true);
                if how == How::Reset {
                    line.reset()
                } else {
                    line.close()
                }
                break StreamEnd::Gone;
            }
        };
        // A response that came early, and is whole, is all that is wanted.
        if self.record.stream(id, |s| (s.end = Some(end), !s.sent_all).1) {
            line.close();
        }
    }

    /// Whether the response is whole.
    fn understand(&self, id: usize, reader: &mut Reader) -> Result<bool, String> {
        while let Some(item) = reader.next(|head| !matches!(head.status(), 100..200 | 204 | 304))? {
            match item {
                Item::Head(head) if head.status() < 200 => {}
                Item::Head(head) => {
                    self.head(id, head.status(), head.field("x-id").map(str::as_bytes));
                    self.record.stream(id, |s| s.closes = head.closes());
                }
                Item::Data(data) => self.data(id, &data),
                Item::End if self.record.stream(id, |s| s.status != 0) => return Ok(true),
                Item::End => {}
            }
        }
        Ok(false)
    }
}

/// What a request says of itself.
fn fields(id: usize, plan: &StreamPlan) -> Vec<(&'static str, String)> {
    let mut fields = vec![("x-id", id.to_string())];
    if plan.up > 0 && plan.sized {
        fields.push(("content-length", plan.up.to_string()));
    }
    fields
}

/// A chunk of HTTP/1.
pub fn chunk(part: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
}
