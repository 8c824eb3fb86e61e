//! Alerts by e-mail (manual: `email-alert`, `mailers`): the lines about servers that change, handed to mailers by SMTP.
//!
//! Each mail to each mailer is a task of the thread on which the server changed. A mailer that does not take one in time
//! loses it, and that is said on the standard error.

mod dialog;

use std::rc::Rc;
use std::sync::Arc;

use thalweg_config::model::{EmailAlert, LogLevel, Mailer, ProxyId};
use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::{ConnectOptions, SockAddr, Stream};
use thalweg_runtime::timer::{self, timeout_at};
use thalweg_runtime::{Kind, clock, spawn};

use crate::backend::health::say;
use crate::worker::{Thread, Worker};
use dialog::Dialog;

static MAIL: Kind = Kind::new("mail");

/// Mails that a thread has on their way at once; what comes on top of that is lost. A farm that goes down as a whole must
/// not fill the memory with what waits for a mailer that is down, too.
const ON_THEIR_WAY_MAX: u32 = 256;

/// The most bytes of a subject.
const SUBJECT_MAX: usize = 200;

/// The most bytes of a line of a mail's text: below the 998 of RFC 5322 2.1.1.
const LINE_MAX: usize = 900;

/// The most bytes that are received of a reply at once.
const PIECE: usize = 1024;

/// A mail about one line.
pub struct Mail {
    host: String,
    from: Arc<str>,
    to: Arc<str>,
    /// What happened.
    line: String,
    /// As RFC 5322 3.3 has it.
    date: String,
    /// What no other mail has.
    id: String,
}

impl Mail {
    fn new(worker: &Worker, alert: &EmailAlert, line: &str) -> Mail {
        let hostname = &worker.instance.hostname;
        let host = alert.hostname.as_deref().unwrap_or(hostname).to_owned();
        let (wall_us, number) = (clock::wall_us(), worker.next_random());
        Mail {
            id: format!("{wall_us:x}.{number:x}@{host}"),
            date: date((wall_us / 1_000_000).cast_signed()),
            host,
            from: Arc::clone(&alert.from),
            to: Arc::clone(&alert.to),
            line: line.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect(),
        }
    }

    /// What follows `DATA`: header, text and the dot that ends it.
    fn text(&self) -> String {
        let subject = &self.line[..self.line.len().min(SUBJECT_MAX)];
        let mut out = format!(
            "From: <{}>\r\nTo: <{}>\r\nDate: {}\r\nSubject: [thalweg alert] {subject}\r\nMessage-ID: <{}>\r\n\
             Auto-Submitted: auto-generated\r\n\r\n",
            self.from, self.to, self.date, self.id
        );
        for line in self.line.as_bytes().chunks(LINE_MAX) {
            // A dot in front would be taken away, or end the mail (RFC 5321 4.5.2).
            if line.starts_with(b".") {
                out.push('.');
            }
            out.push_str(&String::from_utf8_lossy(line));
            out.push_str("\r\n");
        }
        out + ".\r\n"
    }
}

/// A moment in seconds since 1970, as mails have it (RFC 5322 3.3): as HTTP has it, but for the name of the zone.
fn date(unix_s: i64) -> String {
    String::from_utf8_lossy(&thalweg_http::date::format(unix_s)).replace("GMT", "+0000")
}

/// Tells the mailers of a proxy that something of this level happened, if they want to hear of it.
pub fn alert(worker: &Worker, proxy: ProxyId, level: LogLevel, line: &str) {
    let Some(alert) = &worker.proxy(proxy).rare().email else { return };
    if level > alert.level {
        return;
    }
    let mail = Rc::new(Mail::new(worker, alert, line));
    for at in 0..alert.mailers.servers.len() {
        let Some(place) = Place::take(worker.own()) else {
            say(worker, "WARNING", "too many mails are on their way: one is not sent.");
            return;
        };
        let (mail, mailers) = (Rc::clone(&mail), Arc::clone(&alert.mailers));
        spawn(&MAIL, async move {
            let mailer = &mailers.servers[at];
            let deadline = Some(timer::deadline_in(mailers.timeout_ms));
            let why = match timeout_at(deadline, hand_over(mailer, &mail)).await {
                Ok(Ok(())) => return,
                Ok(Err(why)) => why,
                Err(_elapsed) => "it took too long".into(),
            };
            if let Some(worker) = place.0.pin() {
                let name = format!("{}/{}", mailers.name, mailer.name);
                say(&worker, "WARNING", &format!("mailer {name} did not take a mail : {why}."));
            }
        });
    }
}

/// One of the mails that a thread has on their way.
struct Place(Rc<Thread>);

impl Place {
    fn take(thread: &Rc<Thread>) -> Option<Place> {
        let mails = thread.mails.get();
        (mails < ON_THEIR_WAY_MAX).then(|| {
            thread.mails.set(mails + 1);
            Place(Rc::clone(thread))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.mails.set(self.0.mails.get() - 1);
    }
}

async fn hand_over(mailer: &Mailer, mail: &Mail) -> Result<(), String> {
    let broken = |error: std::io::Error| error.to_string();
    let options = ConnectOptions::default();
    let mut stream = Stream::connect(&SockAddr::from(mailer.addr), &options).await.map_err(broken)?;
    let mut dialog = Dialog::new(mail);
    loop {
        let received = stream.recv(PIECE).await.map_err(broken)?;
        if received.is_empty() {
            return Err("it ended the connection".into());
        }
        let next = dialog.hear(&received).map_err(|refused| refused.to_string())?;
        let text = next.as_deref().unwrap_or(b"QUIT\r\n");
        if !text.is_empty() {
            stream.start_send(Buf::copy_of(text));
            stream.send_ready().await.map_err(broken)?;
        }
        if next.is_none() {
            return Ok(());
        }
    }
}
