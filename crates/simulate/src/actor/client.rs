//! A client at work.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use thalweg_runtime::net::{ConnectOptions, Stream};
use thalweg_runtime::{clock, current_task, timer};

use super::{Got, Line, PAUSES_MAX, both};
use crate::body;
use crate::message::{Head, Item, Reader};
use crate::plan::{
    ClientPlan, Ending, How, Kind, OF_BACKEND, OF_FRONTEND, Pace, Plan, RequestPlan, Upload, When,
};
use crate::record::{End, Received, Record, Sent};

/// How long a client waits for whatever it waits for, beyond all that the scenario lets happen, in milliseconds.
const PATIENCE_MS: u64 = 400_000;

/// How long a client that asked for a 100 waits for it.
const CONTINUE_MS: u64 = 300;

/// The number that an answer to nobody carries.
const NOBODYS: usize = 999_999;

struct Client {
    plan: Arc<Plan>,
    record: Rc<Record>,
    n: usize,
    line: Line,
    /// Interim responses to the request in progress: it may go on with its body.
    told_to_continue: Cell<bool>,
    /// Bytes of interim responses to the request that is answered next.
    interim: Cell<u64>,
    /// A send failed: the connection is broken.
    broken: Cell<bool>,
    /// The other side sends nothing more.
    over: Cell<bool>,
    /// What was sent last was handed to the network as a whole, even if the client left with that.
    is_whole: Cell<bool>,
}

/// Plays the `n`th client of a plan.
pub async fn play(plan: Arc<Plan>, record: Rc<Record>, n: usize) {
    let me = &plan.clients[n];
    timer::sleep(me.start_ms).await;
    if let Some(stream) = connect(&plan, &record, n).await {
        let client = Client {
            line: Line::new(stream),
            told_to_continue: Cell::new(false),
            interim: Cell::new(0),
            broken: Cell::new(false),
            over: Cell::new(false),
            is_whole: Cell::new(false),
            record: Rc::clone(&record),
            plan: Arc::clone(&plan),
            n,
        };
        let patience = clock::now_ms() + plan.proxy.patience_ms * 8 + PATIENCE_MS;
        let work = both(both(client.write(), client.read()), client.leave_in_time());
        if timer::timeout_at(Some(patience), work).await.is_err() {
            record.client(n, |c| c.lost_patience = true);
            record.complain(format!("client {n} waits for ever"));
        }
        client.line.close();
    }
    record.network.note(|| format!("actor client {n} is done"));
    record.client_done();
}

async fn connect(plan: &Plan, record: &Record, n: usize) -> Option<Stream> {
    let front = plan.entrance(n);
    let source = SocketAddr::from(([10, 1, 0, n as u8 + 1], 0));
    let options = match front.is_unix() {
        true => ConnectOptions::default(),
        false => ConnectOptions { source: Some(source.into()), ..ConnectOptions::default() },
    };
    let deadline = Some(clock::now_ms() + PATIENCE_MS);
    // A fault, or a proxy that is stopping, keeps it out.
    let stream = timer::timeout_at(deadline, Stream::connect(&front, &options)).await.ok()?.ok()?;
    let address = match front.is_unix() {
        true => address_to_say(n).to_string(),
        false => stream.local_addr().ok()?.to_string(),
    };
    record.network.note(|| format!("actor client {n} is connected from {address}"));
    record.client(n, |c| c.address = address);
    Some(stream)
}

/// The address that a client says it has, where it has none.
fn address_to_say(n: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, n as u8 + 1), 50_000 + n as u16)
}

/// What such a client begins with: a PROXY header, of both versions in turn.
fn introduction(n: usize) -> Vec<u8> {
    let (from, to) = (address_to_say(n), SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 80));
    if n.is_multiple_of(2) {
        return format!("PROXY TCP4 {} {} {} {}\r\n", from.ip(), to.ip(), from.port(), to.port())
            .into_bytes();
    }
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend_from_slice(&from.ip().octets());
    header.extend_from_slice(&to.ip().octets());
    header.extend_from_slice(&from.port().to_be_bytes());
    header.extend_from_slice(&to.port().to_be_bytes());
    header
}

impl Client {
    fn plan(&self) -> &ClientPlan {
        &self.plan.clients[self.n]
    }

    fn request(&self, id: usize) -> &RequestPlan {
        &self.plan.requests[id]
    }

    async fn write(&self) {
        if self.plan.introduces_itself(self.n) && !self.line.send(&introduction(self.n)).await {
            return self.broken.set(true);
        }
        let mut asked = 0;
        for group in &self.plan().groups {
            if group.gap_ms > 0 {
                timer::sleep(group.gap_ms).await;
            }
            for id in &group.requests {
                if self.over.get() || !self.line.is_open() || self.has_left() {
                    return;
                }
                asked += 1;
                if !self.send_request(*id).await {
                    return;
                }
                if self.request(*id).kind == Kind::Upgrade {
                    self.wait(|c| c.responses.len() >= asked).await;
                    if self.record.client(self.n, |c| c.responses.last().is_some_and(|r| r.status == 101)) {
                        return self.send_into_tunnel(*id).await;
                    }
                }
            }
            self.wait(|c| c.responses.iter().filter(|r| r.complete).count() >= asked).await;
            if self.record.client(self.n, |c| c.responses.last().is_some_and(|r| r.closes)) {
                break;
            }
        }
        if self.has_left() {
            return;
        }
        match self.plan().ending {
            Ending::Close => self.line.close(),
            Ending::HalfClose => self.line.half_close(),
            Ending::Wait => {}
        }
    }

    fn has_left(&self) -> bool {
        self.record.client(self.n, |c| c.left_ms.is_some())
    }

    /// Waits until something is true of what was seen, or nothing more will be.
    async fn wait(&self, done: impl Fn(&crate::record::ClientRecord) -> bool) {
        std::future::poll_fn(|_| {
            let over = self.over.get() || !self.line.is_open();
            if over || self.record.client(self.n, |c| done(c)) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// False when nothing more can be sent.
    async fn send_request(&self, id: usize) -> bool {
        let request = self.request(id);
        let began_ms = self.record.now_ms();
        let generation = self.record.followed.get();
        let sent = Sent { id, head: false, complete: false, began_ms, generation };
        self.record.client(self.n, |c| c.requests.push(sent));
        let (n, upload) = (self.n, request.upload);
        self.record.network.note(|| {
            format!("actor client {n} sends request {id}: {} {} {upload:?}", request.method, request.path(id))
        });
        self.told_to_continue.set(false);
        let mut pauses = PAUSES_MAX;
        let goes_on = self.send(&request.head(id), &mut pauses).await;
        let is_whole = self.is_whole.get();
        self.record.client(self.n, |c| {
            if let Some(last) = c.requests.last_mut() {
                last.head = is_whole;
            }
        });
        if !goes_on {
            return false;
        }
        if request.expects_continue {
            let answered =
                self.wait(|c| self.told_to_continue.get() || c.responses.len() >= c.requests.len());
            let _ = timer::timeout_at(Some(clock::now_ms() + CONTINUE_MS), answered).await;
        }
        let key = body::request_key(id);
        match upload {
            Upload::None => {}
            Upload::Sized(len) => {
                if len > 0 && !self.send(&body::bytes(key, 0, len), &mut pauses).await {
                    return false;
                }
            }
            Upload::Chunked(len, most) => {
                let mut wire = Vec::new();
                let mut at = 0;
                while at < len {
                    let size = most.max(len / 100).min(len - at);
                    wire.extend_from_slice(format!("{size:x}\r\n").as_bytes());
                    wire.extend(body::bytes(key, at as u64, size));
                    wire.extend_from_slice(b"\r\n");
                    at += size;
                }
                wire.extend_from_slice(if id.is_multiple_of(5) {
                    &b"0\r\nX-Trailer: 1\r\n\r\n"[..]
                } else {
                    b"0\r\n\r\n"
                });
                if !self.send(&wire, &mut pauses).await {
                    return false;
                }
            }
        }
        self.record.client(self.n, |c| {
            if let Some(last) = c.requests.last_mut() {
                last.complete = true;
            }
        });
        true
    }

    /// The tunnel is there: the client says what it has to say, and ends its direction.
    async fn send_into_tunnel(&self, id: usize) {
        let bytes = body::bytes(body::request_key(id), 0, self.request(id).padding);
        if self.send(&bytes, &mut PAUSES_MAX.clone()).await {
            self.line.half_close();
        }
    }

    /// Sends at the client's pace, up to the byte at which it leaves.
    async fn send(&self, bytes: &[u8], pauses: &mut usize) -> bool {
        let Pace { most, pause_ms } = self.plan().write;
        let most = most.max(bytes.len() / 200);
        let limit = match self.plan().leave {
            Some(leave) => match leave.when {
                When::Sent(n) => Some((n, leave.how)),
                _ => None,
            },
            None => None,
        };
        let mut rest = bytes;
        self.is_whole.set(false);
        while !rest.is_empty() {
            let sent = self.record.client(self.n, |c| c.sent);
            let left = limit.map_or(u64::MAX, |(n, _)| n.saturating_sub(sent));
            let n = rest.len().min(most).min(left.min(1 << 30) as usize);
            if n > 0 {
                let ok = self.line.send(&rest[..n]).await;
                if !ok {
                    // The reader may see an orderly end: the error is told once.
                    self.broken.set(true);
                    return false;
                }
                self.record.client(self.n, |c| c.sent += n as u64);
                rest = &rest[n..];
                self.is_whole.set(rest.is_empty());
            }
            if let Some((limit, how)) = limit
                && self.record.client(self.n, |c| c.sent) >= limit
            {
                self.leave(how);
                return false;
            }
            if pause_ms > 0 && *pauses > 0 && !rest.is_empty() {
                *pauses -= 1;
                timer::sleep(pause_ms).await;
            }
            if self.has_left() {
                return false;
            }
        }
        true
    }

    fn leave(&self, how: How) {
        let now = self.record.now_ms();
        self.record.client(self.n, |c| _ = c.left_ms.get_or_insert(now));
        self.record.network.note(|| format!("actor client {} leaves: {how:?}", self.n));
        match how {
            How::Close => self.line.close(),
            How::Reset => self.line.reset(),
            How::HalfClose => self.line.half_close(),
        }
    }

    async fn leave_in_time(&self) {
        let Some(leave) = self.plan().leave else { return };
        let When::At(ms) = leave.when else { return };
        let over = async {
            std::future::poll_fn(|_| match self.over.get() || !self.line.is_open() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
        };
        let task = current_task();
        if timer::timeout_at(Some(clock::now_ms() + ms), over).await.is_err() {
            self.leave(leave.how);
            task.wake(thalweg_runtime::Reason::OTHER);
        }
    }

    async fn read(&self) {
        let mut reader = Reader::default();
        let mut pauses = PAUSES_MAX;
        let pace = self.plan().read;
        let end = loop {
            let got = self.line.recv(pace.most).await;
            match got {
                Got::Gone => break End::Own,
                Got::Fin => break End::Fin,
                Got::Reset => break End::Reset,
                Got::Bytes(bytes) => {
                    self.record.client(self.n, |c| c.received += bytes.len() as u64);
                    reader.feed(&bytes);
                    if let Err(what) = self.understand(&mut reader) {
                        self.record.complain(format!("client {}: {what}", self.n));
                        self.line.close();
                        break End::Own;
                    }
                }
            }
            if let Some(leave) = self.plan().leave
                && let When::Received(n) = leave.when
                && self.record.client(self.n, |c| c.received >= n && c.left_ms.is_none())
            {
                self.leave(leave.how);
            }
            if pace.pause_ms > 0 && pauses > 0 {
                pauses -= 1;
                timer::sleep(pace.pause_ms).await;
            }
        };
        self.ended(&reader, end);
        current_task().wake(thalweg_runtime::Reason::OTHER);
    }

    /// Nothing more comes.
    fn ended(&self, reader: &Reader, end: End) {
        let end = if self.broken.get() && end == End::Fin { End::Reset } else { end };
        self.record.network.note(|| format!("actor client {} sees the end: {end:?}", self.n));
        self.over.set(true);
        let inside = self.record.client(self.n, |c| {
            c.end = Some(end);
            // Without a buffer for its head a HEAD is not known for what it is, and its answer has a body.
            let answered = c.responses.len().checked_sub(1).and_then(|at| c.requests.get(at));
            let may_be_unread = self.plan.proxy.is_short_of_buffers
                && answered.is_some_and(|r| self.request(r.id).method == "HEAD");
            match c.responses.last_mut() {
                Some(last) if !last.complete => {
                    let of_head = last.from_server.is_none() && last.body == 0;
                    last.complete = (reader.is_until_close() || of_head) && end == End::Fin;
                    true
                }
                Some(last) => may_be_unread && last.from_server.is_none() && last.status == 500,
                None => false,
            }
        });
        if !inside && !reader.rest().is_empty() && end == End::Fin {
            let rest = String::from_utf8_lossy(reader.rest()).into_owned();
            self.record.complain(format!("client {}: half a head, then the end: {rest:?}", self.n));
        }
    }

    /// Takes what is complete of what came.
    fn understand(&self, reader: &mut Reader) -> Result<(), String> {
        loop {
            let answered = self.record.client(self.n, |c| c.responses.len());
            // A response in progress was pushed already; a head belongs to the next request.
            let asked = self.record.client(self.n, |c| c.requests.get(answered).copied());
            // Nobody knows the method of a request that is not there yet.
            let method = asked.filter(|r| r.head).map_or("GET", |r| self.request(r.id).method);
            let asked = asked.map(|r| r.id);
            let before = reader.consumed;
            // Nor does anybody who gave up waiting for it.
            let unread = |head: &Head| matches!(head.status(), 400 | 408) && head.field("x-id").is_none();
            let has_body = |head: &Head| {
                (method != "HEAD" || unread(head)) && !matches!(head.status(), 100..200 | 204 | 304)
            };
            let Some(item) = reader.next(has_body)? else { return Ok(()) };
            let wire = reader.consumed - before;
            match item {
                Item::Head(head) if head.status() == 101 => {
                    self.response_begins(&head, asked, wire)?;
                    reader.becomes_tunnel();
                    self.told_to_continue.set(true);
                }
                Item::Head(head) if head.status() / 100 == 1 => {
                    self.told_to_continue.set(true);
                    self.interim.set(self.interim.get() + wire);
                }
                Item::Head(head) => self.response_begins(&head, asked, wire)?,
                Item::Data(data) => self.data(&data, wire)?,
                Item::End => self.record.client(self.n, |c| {
                    let now = clock::now_ms().saturating_sub(self.record.began_ms);
                    if let Some(last) = c.responses.last_mut()
                        && !last.complete
                    {
                        last.complete = true;
                        last.wire += wire;
                        last.at_ms = now;
                    }
                }),
            }
        }
    }

    fn response_begins(&self, head: &Head, asked: Option<usize>, wire: u64) -> Result<(), String> {
        let status = head.status();
        let from_server = head.number("x-id").map(|id| (id, head.number("x-attempt").unwrap_or(0)));
        self.record.network.note(|| {
            format!("actor client {} gets a {status} of {from_server:?} for request {asked:?}", self.n)
        });
        let from_server = from_server.filter(|(id, _)| *id != NOBODYS || !self.may_be_goodbye());
        if let Some((id, _)) = from_server
            && Some(id) != asked
        {
            return Err(format!("the answer of request {id} came for request {asked:?}"));
        }
        let (closed, sent) =
            self.record.client(self.n, |c| (c.responses.last().is_some_and(|r| r.closes), c.requests.len()));
        if closed {
            return Err(format!("a {status} comes after a response that closes"));
        }
        if asked.is_none() && (sent > 0 || !matches!(status, 400 | 408)) {
            return Err(format!("a {status} comes that answers nothing"));
        }
        self.record.client(self.n, |c| {
            c.responses.push(Received {
                status,
                from_server,
                generations: [OF_FRONTEND, OF_BACKEND].map(|name| head.number(name)),
                wire: wire + self.interim.take(),
                closes: head.closes(),
                at_ms: clock::now_ms().saturating_sub(self.record.began_ms),
                ..Received::default()
            });
        });
        Ok(())
    }

    /// Whether a server may have said what nobody asked for when the proxy had just sent it the request that is answered
    /// next: nobody can tell the two.
    fn may_be_goodbye(&self) -> bool {
        let network = &self.plan.network;
        // To the proxy and to the server, and a few rounds.
        let slack_ms = network.latency_us.1 / 1_000 * 3 + 5;
        let began_ms = self.record.client(self.n, |c| c.requests.get(c.responses.len()).map(|r| r.began_ms));
        let Some(began_ms) = began_ms else { return false };
        self.record.goodbyes_ms.borrow().iter().any(|at| at + slack_ms >= began_ms)
    }

    fn data(&self, data: &[u8], wire: u64) -> Result<(), String> {
        let (from_server, at) = self.record.client(self.n, |c| match c.responses.last_mut() {
            Some(last) => {
                let at = last.body;
                last.body += data.len() as u64;
                last.wire += wire;
                (last.from_server, at)
            }
            None => (None, 0),
        });
        if let Some((id, attempt)) = from_server
            && let Some(place) = body::first_difference(body::response_key(id, attempt), at, data)
        {
            return Err(format!("byte {place} of the answer to request {id} (attempt {attempt}) is wrong"));
        }
        Ok(())
    }
}
