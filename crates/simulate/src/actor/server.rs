//! A server at work.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use thalweg_runtime::net::{Listener, Stream};
use thalweg_runtime::{TaskId, clock, kill, spawn, timer};

use super::{ACTOR, Got, Line, PAUSES_MAX, add, both, health};
use crate::body;
use crate::message::{Head, Item, Reader};
use crate::plan::{
    Act, Answer, AnswerWhen, Delimited, Drop, Fault, Life, OF_BACKEND, OF_FRONTEND, Plan, RequestPlan,
};
use crate::record::{Attempt, Record};

/// How long a server that stalls does nothing, unless the proxy gives it up before, in milliseconds.
const STALL_MS: u64 = 300_000;

/// How often a deaf server looks whether it hears again.
const DEAF_MS: u64 = 100;

/// Bytes of a head that has no end: more than any buffer takes.
const ENDLESS: usize = 40_000;

/// What some servers say before they close a connection that was idle.
const GOODBYE: &[u8] =
    b"HTTP/1.1 408 Goodbye\r\nX-Id: 999999\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A server of the scenario.
pub struct Server {
    plan: Arc<Plan>,
    record: Rc<Record>,
    /// Its position.
    n: usize,
    life: Cell<Life>,
    accepting: Cell<TaskId>,
    /// The task at the port of its checks, if they have one.
    checked: Cell<TaskId>,
    connections: RefCell<Vec<Rc<Connection>>>,
}

/// A connection that a server has.
struct Connection {
    line: Line,
    task: Cell<TaskId>,
    /// The configuration that was in force when it came.
    made_by: usize,
    /// The attempt in progress.
    attempt: Cell<Option<usize>>,
}

impl Server {
    /// Starts the `n`th server of a plan.
    pub fn start(plan: &Arc<Plan>, record: &Rc<Record>, n: usize) -> Rc<Server> {
        let server = Rc::new(Server {
            plan: Arc::clone(plan),
            record: Rc::clone(record),
            n,
            life: Cell::new(Life::Up),
            accepting: Cell::new(TaskId::NONE),
            checked: Cell::new(TaskId::NONE),
            connections: RefCell::default(),
        });
        server.listen();
        let me = Rc::clone(&server);
        spawn(&ACTOR, async move { me.live().await });
        server
    }

    /// Nobody listens any more, and every connection ends.
    pub fn stop(&self, how: Drop) {
        kill(self.accepting.replace(TaskId::NONE));
        kill(self.checked.replace(TaskId::NONE));
        if how == Drop::Keep {
            return;
        }
        for connection in self.connections.borrow_mut().drain(..) {
            if let Some(attempt) = connection.attempt.get() {
                self.record.attempt(attempt, |a| a.misbehaved |= !a.sent_all);
            }
            match how {
                Drop::Reset => connection.line.reset(),
                _ => connection.line.close(),
            }
            kill(connection.task.get());
        }
    }

    /// What it is at the moment.
    pub fn life(&self) -> Life {
        self.life.get()
    }

    /// Something is wrong with what it was sent.
    pub fn complain(&self, what: &str) {
        self.record.complain(format!("server {} {what}", self.n));
    }

    fn listen(self: &Rc<Server>) {
        if self.accepting.get() != TaskId::NONE {
            return;
        }
        if let Some(check) = self.plan.health.check(self.n) {
            self.checked.set(spawn(&ACTOR, health::be_checked(Rc::clone(self), check)));
        }
        let me = Rc::clone(self);
        self.accepting.set(spawn(&ACTOR, async move {
            let address = &me.plan.servers[me.n].address;
            let mut listener = loop {
                match Listener::bind(address, &Default::default()) {
                    Ok(listener) => break listener,
                    Err(_) => timer::sleep(10).await,
                }
            };
            loop {
                let Ok((fd, _)) = listener.accept().await else {
                    timer::sleep(10).await;
                    continue;
                };
                let Ok(stream) = Stream::from_accepted(fd) else { continue };
                me.serve_in_task(stream);
            }
        }));
    }

    fn serve_in_task(self: &Rc<Server>, stream: Stream) {
        let connection = Rc::new(Connection {
            line: Line::new(stream),
            task: Cell::new(TaskId::NONE),
            made_by: self.record.in_force.get(),
            attempt: Cell::new(None),
        });
        let (me, conn) = (Rc::clone(self), Rc::clone(&connection));
        connection.task.set(spawn(&ACTOR, async move {
            me.serve(&conn).await;
            conn.line.close();
            me.connections.borrow_mut().retain(|c| !Rc::ptr_eq(c, &conn));
        }));
        self.connections.borrow_mut().push(connection);
    }

    async fn live(self: Rc<Server>) {
        for (at_ms, life) in self.plan.servers[self.n].lives.clone() {
            timer::sleep_until(self.record.began_ms + at_ms).await;
            self.record.network.note(|| format!("actor server {} becomes {life:?}", self.n));
            self.life.set(life);
            match life {
                Life::Down(how) => self.stop(how),
                _ => self.listen(),
            }
        }
    }

    async fn serve(&self, connection: &Connection) {
        let mut reader = Reader::default();
        while !reader.skip_proxy_header() {
            match connection.line.recv(1 << 16).await {
                Got::Bytes(bytes) => reader.feed(&bytes),
                Got::Fin | Got::Reset | Got::Gone => return,
            }
        }
        let mut turn = 0;
        loop {
            let idle = self.plan.servers[self.n].idle_ms.map(|ms| clock::now_ms() + ms);
            let head = timer::timeout_at(idle, self.item(&connection.line, &mut reader)).await;
            if head.is_err() && turn > 0 && self.plan.servers[self.n].says_goodbye {
                self.record.goodbyes_ms.borrow_mut().push(self.record.now_ms());
                connection.line.send(GOODBYE).await;
            }
            let Ok(Some(Item::Head(head))) = head else { return };
            let goes_on = if head.line[1] == crate::plan::CHECK_PATH {
                self.answer_check(&connection.line).await
            } else {
                self.answer(connection, &mut reader, &head, turn).await
            };
            connection.attempt.set(None);
            turn += 1;
            if !goes_on {
                return;
            }
        }
    }

    /// The next part of a request; `None` when there is no more, or what comes is none.
    async fn item(&self, line: &Line, reader: &mut Reader) -> Option<Item> {
        loop {
            match reader.next(|_| true) {
                Ok(Some(Item::End)) if !reader.is_inside() => return Some(Item::End),
                Ok(Some(item)) => return Some(item),
                Ok(None) => {}
                Err(what) => {
                    self.record.complain(format!("server {} was sent nonsense: {what}", self.n));
                    return None;
                }
            }
            match line.recv(1 << 16).await {
                Got::Bytes(bytes) => reader.feed(&bytes),
                Got::Fin | Got::Reset | Got::Gone => return None,
            }
        }
    }

    async fn answer_check(&self, line: &Line) -> bool {
        while self.life.get() == Life::Deaf {
            timer::sleep(DEAF_MS).await;
        }
        let status = if self.life.get() == Life::Sick { "503 Sick" } else { "200 OK" };
        line.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
            .await;
        false
    }

    /// Answers a request. False when the connection ends with it.
    async fn answer(&self, connection: &Connection, reader: &mut Reader, head: &Head, turn: usize) -> bool {
        let Some((id, request)) = self.known(head) else { return false };
        let earlier = self.record.attempts.borrow().iter().filter(|a| a.id == id).count();
        let attempt = self.begin(id, turn, connection, head);
        connection.attempt.set(Some(attempt));
        self.record.network.note(|| {
            format!(
                "actor server {} sees request {id} (attempt {earlier}, turn {turn} of its connection)",
                self.n
            )
        });
        while self.life.get() == Life::Deaf {
            self.record.attempt(attempt, |a| (a.stalled, a.misbehaved) = (true, true));
            timer::sleep(DEAF_MS).await;
        }
        let answer = request.answer(earlier);
        if request.agrees(answer) {
            self.tunnel(connection, reader, attempt, earlier).await;
            return false;
        }
        // The end of a request without a body follows at once.
        let mut ended = false;
        let wanted = match answer.when {
            AnswerWhen::Head => 0,
            AnswerWhen::Bytes(n) => n as u64,
            AnswerWhen::End => u64::MAX,
        };
        if request.expects_continue
            && wanted > 0
            && !connection.line.send(b"HTTP/1.1 100 Continue\r\n\r\n").await
        {
            return false;
        }
        while !ended && self.record.attempt(attempt, |a| a.body) < wanted {
            match self.item(&connection.line, reader).await {
                Some(Item::Data(data)) => self.take_body(attempt, &data),
                Some(Item::End) => {
                    ended = true;
                    self.record.attempt(attempt, |a| a.body_complete = true);
                }
                Some(Item::Head(_)) | None => return false,
            }
        }
        if answer.think_ms > 0 {
            timer::sleep(answer.think_ms).await;
        }
        if !self.respond(connection, attempt, id, earlier, request, answer).await {
            return false;
        }
        let ends = request.ends_connection(answer);
        if ends && (ended || !answer.lingers) {
            // What comes of the rest of the request turns the end into a reset, and the response may be lost.
            self.record.attempt(attempt, |a| a.cut_off |= !ended);
            return false;
        }
        if ends {
            connection.line.half_close();
        }
        while !ended {
            match self.item(&connection.line, reader).await {
                Some(Item::Data(data)) => self.take_body(attempt, &data),
                Some(Item::End) => {
                    ended = true;
                    self.record.attempt(attempt, |a| a.body_complete = true);
                }
                Some(Item::Head(_)) | None => return false,
            }
        }
        !ends
    }

    /// Agrees to a tunnel, says what there is to say, and takes what comes.
    async fn tunnel(&self, connection: &Connection, reader: &mut Reader, attempt: usize, earlier: usize) {
        let id = self.record.attempt(attempt, |a| a.id);
        let len = self.plan.requests[id].answer(earlier).len;
        let mut wire = format!(
            "HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: sim\r\nX-Id: {id}\r\nX-Attempt: {earlier}\r\n\r\n"
        )
        .into_bytes();
        wire.extend(body::bytes(body::response_key(id, earlier), 0, len));
        let download = async {
            if connection.line.send(&wire).await {
                self.record.attempt(attempt, |a| (a.sent, a.sent_all) = (wire.len() as u64, true));
                connection.line.half_close();
            }
        };
        let upload = async {
            let mut first = reader.rest().to_vec();
            loop {
                let at = self.record.attempt(attempt, |a| add(&mut a.body, first.len() as u64));
                if let Some(place) = body::first_difference(body::request_key(id), at, &first) {
                    self.record.complain(format!("byte {place} of the tunnel of request {id} came wrong"));
                }
                match connection.line.recv(1 << 16).await {
                    Got::Bytes(bytes) => first = bytes,
                    Got::Fin | Got::Reset | Got::Gone => return,
                }
            }
        };
        both(download, upload).await;
    }

    /// The request that a head belongs to, when it is as the client sent it.
    fn known(&self, head: &Head) -> Option<(usize, &RequestPlan)> {
        let Some((id, request)) = head.number("x-id").and_then(|id| Some((id, self.plan.requests.get(id)?)))
        else {
            self.record.complain(format!("server {} was sent a request of nobody: {head:?}", self.n));
            return None;
        };
        let padding = head.field("x-padding").map_or(0, str::len);
        if head.line[0] != request.method || head.line[1] != request.path(id) || padding != request.padding {
            self.record.complain(format!("request {id} came to server {} as {head:?}", self.n));
        }
        Some((id, request))
    }

    fn begin(&self, id: usize, turn: usize, connection: &Connection, head: &Head) -> usize {
        let mut attempts = self.record.attempts.borrow_mut();
        attempts.push(Attempt {
            id,
            server: self.n,
            generations: [OF_FRONTEND, OF_BACKEND].map(|name| head.number(name)),
            connected_by: connection.made_by,
            turn,
            at_ms: self.record.now_ms(),
            body: 0,
            body_complete: false,
            sent: 0,
            interim: 0,
            sent_all: false,
            misbehaved: false,
            stalled: false,
            cut_off: false,
        });
        attempts.len() - 1
    }

    fn take_body(&self, attempt: usize, data: &[u8]) {
        let (id, at) = self.record.attempt(attempt, |a| {
            let at = a.body;
            a.body += data.len() as u64;
            (a.id, at)
        });
        if let Some(place) = body::first_difference(body::request_key(id), at, data) {
            self.record.complain(format!("byte {place} of request {id} came wrong to server {}", self.n));
        }
        if at + data.len() as u64 > self.plan.requests[id].upload.payload() as u64 {
            self.record.complain(format!("request {id} came to server {} with too many bytes", self.n));
        }
    }

    /// Sends the response, as far as its fault lets it. False when the connection is over.
    async fn respond(
        &self,
        connection: &Connection,
        attempt: usize,
        id: usize,
        earlier: usize,
        request: &RequestPlan,
        answer: &Answer,
    ) -> bool {
        let line = &connection.line;
        for _ in 0..answer.interim {
            let text = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n";
            if !line.send(text).await {
                return false;
            }
            self.record.attempt(attempt, |a| a.interim += text.len() as u64);
        }
        let mut wire = response(self.n, id, earlier, request, answer, None);
        let whole = wire.len();
        let mut act = None;
        match answer.fault {
            Some(Fault::After(n, _)) if n < whole && breaks_chunks(id, request, answer) => {
                wire = response(self.n, id, earlier, request, answer, Some(n));
                act = Some(Act::Close);
            }
            Some(Fault::After(n, what)) if n < whole => {
                wire.truncate(n);
                act = Some(what);
            }
            Some(Fault::Junk) => {
                wire = junk(id);
                act = Some(Act::Close);
            }
            // Where the end of the connection is the end of the body, they would be a part of it. Where they may come late,
            // nobody can tell them from the next response.
            Some(Fault::Extra) if request.ends_connection(answer) || !self.plan.is_prompt(whole) => {}
            Some(Fault::Extra) => {
                wire.extend_from_slice(b"HTTP/1.1 200 OK\r\nX-Id: 999999\r\nContent-Length: 3\r\n\r\nbad")
            }
            _ => {}
        }
        if act.is_some() || answer.fault == Some(Fault::Extra) {
            self.record.attempt(attempt, |a| a.misbehaved = true);
        }
        let mut pauses = PAUSES_MAX;
        let piece = match answer.fault {
            Some(Fault::Extra) => wire.len(),
            _ => answer.piece.max(wire.len() / 200).max(1),
        };
        for part in wire.chunks(piece) {
            if !line.send(part).await {
                return false;
            }
            self.record.attempt(attempt, |a| {
                a.sent += part.len() as u64;
                a.sent_all = act.is_none() && a.sent >= whole as u64;
            });
            if answer.pause_ms > 0 && pauses > 0 {
                pauses -= 1;
                timer::sleep(answer.pause_ms).await;
            }
        }
        match act {
            None => return true,
            Some(Act::Close) => line.close(),
            Some(Act::Reset) => line.reset(),
            Some(Act::Stall) => {
                self.record.attempt(attempt, |a| a.stalled = true);
                let until = Some(clock::now_ms() + STALL_MS);
                while let Ok(Got::Bytes(_)) = timer::timeout_at(until, line.recv(1 << 16)).await {}
            }
        }
        false
    }
}

/// What a server says that sends no response where one is due.
fn junk(id: usize) -> Vec<u8> {
    let heads = [
        "this is no response",
        "HTTP/1.1 20 Short",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
        "HTTP/1.1 200 OK\r\nContent-Length: -1",
        "HTTP/1.1 200 OK\r\nX-Zero: \0",
        "HTTP/1.1 200 OK\r\n: nameless",
    ];
    match heads.get(id % (heads.len() + 1)) {
        Some(head) => format!("{head}\r\n\r\n123456").into_bytes(),
        None => format!("HTTP/1.1 200 OK\r\nX-Endless: {}", "x".repeat(ENDLESS)).into_bytes(),
    }
}

/// Whether an answer that ends early does so with something that is no chunk, rather than with the end of the connection.
fn breaks_chunks(id: usize, request: &RequestPlan, answer: &Answer) -> bool {
    let has_chunks =
        answer.delimited == Delimited::Chunked && request.is_11 && answer.has_body(request.method);
    has_chunks && id.is_multiple_of(3)
}

/// The bytes of a response. Where chunks are sent, no more of them begin once there are so many bytes; what follows is none.
fn response(
    server: usize,
    id: usize,
    attempt: usize,
    request: &RequestPlan,
    answer: &Answer,
    until: Option<usize>,
) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {} Status\r\nX-Id: {id}\r\nX-Attempt: {attempt}\r\nX-Server: s{server}\r\n",
        answer.status
    );
    let may_have_body = !matches!(answer.status, 204 | 304);
    match answer.delimited {
        _ if !may_have_body => {}
        Delimited::Sized => head.push_str(&format!("Content-Length: {}\r\n", answer.len)),
        // A 1.0 client gets what its version has.
        Delimited::Chunked if request.is_11 => head.push_str("Transfer-Encoding: chunked\r\n"),
        Delimited::Chunked | Delimited::Close => {}
    }
    if request.ends_connection(answer) {
        head.push_str("Connection: close\r\n");
    } else if !request.is_11 {
        head.push_str("Connection: keep-alive\r\n");
    }
    head.push_str("\r\n");
    let mut wire = head.into_bytes();
    if !answer.has_body(request.method) {
        return wire;
    }
    let body = body::bytes(body::response_key(id, attempt), 0, answer.len);
    if answer.delimited == Delimited::Chunked && request.is_11 {
        for chunk in body.chunks(answer.piece.clamp(7, 30_000).max(answer.len / 100)) {
            if until.is_some_and(|until| wire.len() >= until) {
                break;
            }
            wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        if until.is_some() {
            wire.extend_from_slice(b"no size\r\n");
            return wire;
        }
        wire.extend_from_slice(if id.is_multiple_of(5) {
            &b"0\r\nX-Trailer: 1\r\n\r\n"[..]
        } else {
            b"0\r\n\r\n"
        });
    } else {
        wire.extend_from_slice(&body);
    }
    wire
}
