//! A reload without another process: the worker that serves is told to follow the files, over its CLI.
//!
//! It answers when it serves what they say, and then nothing was closed and nothing is forgotten. If it cannot, whatever the reason, another
//! worker is started as ever: that one has the rights of the master, and says what is wrong if something is.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use thalweg_cli::Begin;

use super::processes::Role;
use super::{Event, Master, Outcome, Reply, file_id, link, wait_in_thread};
use crate::reload;

/// A worker that has said nothing for so long may be stuck: another one takes its place.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that was told to follow the files, and has not answered.
pub(super) struct Following {
    pid: u32,
    replies: Vec<Reply>,
}

impl Master<'_> {
    /// The worker that serves, if it may be told to follow the files: it is the program that is on the disk now.
    pub(super) fn may_follow(&self) -> Option<(u32, Arc<OwnedFd>)> {
        let is_same = self.running.is_some() && file_id(&self.file) == self.running;
        let known = self.known();
        let worker = known.in_role(Role::Current).filter(|worker| worker.follows && is_same)?;
        Some((worker.pid, Arc::clone(&worker.link)))
    }

    /// Tells it, and does not wait for the answer.
    pub(super) fn tell_to_follow(&mut self, pid: u32, link: Arc<OwnedFd>, replies: Vec<Reply>) {
        self.following = Some(Following { pid, replies });
        let events = self.shared.events.clone();
        let ask = move || _ = events.send(Event::Followed(pid, ask_to_reload(&link)));
        if let Err(error) = wait_in_thread("reload", ask) {
            self.on_followed(pid, Err(error));
        }
    }

    /// It answered, or will not.
    pub(super) fn on_followed(&mut self, pid: u32, answer: io::Result<String>) {
        let Some(Following { replies, .. }) = self.following.take_if(|following| following.pid == pid) else {
            return;
        };
        if self.stopping.is_some() {
            return;
        }
        let answer = answer.unwrap_or_else(|error| format!("it does not answer : {error}."));
        match reload::succeeded(&answer) {
            Ok(said) => self.followed(pid, said, &replies),
            Err(why) => match &mut self.starting {
                // It died, and its successor reads the same files.
                Some(starting) => starting.replies.extend(replies),
                None => {
                    let said = self.notice(&format!("Worker ({pid}) cannot reload in place: {why}"));
                    self.start_worker(false, replies, said);
                }
            },
        }
    }

    fn followed(&mut self, pid: u32, said: &str, replies: &[Reply]) {
        let mut log = self.notice(&format!("Worker ({pid}) reloads in place"));
        log.push_str(said);
        log += &self.notice("Loading success.");
        {
            let mut known = self.known();
            known.failed = 0;
            known.reloads += 1;
            known.log.clone_from(&log);
        }
        let outcome = Outcome { success: true, log };
        replies.iter().for_each(|reply| _ = reply.to.send(outcome.clone()));
        self.finish_reload();
    }
}

/// What a worker answers to `reload`.
fn ask_to_reload(link: &OwnedFd) -> io::Result<String> {
    let mut session = link::connect(link.as_fd(), Begin::ONE_LINE)?;
    session.set_read_timeout(Some(PATIENCE))?;
    session.write_all(b"reload\n")?;
    let mut answer = Vec::new();
    session.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
