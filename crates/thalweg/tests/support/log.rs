//! Where the program's log lines come.

use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::{PATIENCE, own_ip};

/// Most bytes of a datagram.
const DATAGRAM_MAX: usize = 65536;

/// A receiver of datagrams that takes all of them as they come: the kernel keeps some hundred only, and a test may ask for
/// its lines late.
pub struct Log {
    socket: UdpSocket,
    lines: Mutex<Receiver<String>>,
    taking: Option<JoinHandle<()>>,
}

impl Log {
    pub fn start() -> Log {
        let socket = UdpSocket::bind((own_ip(), 0)).unwrap();
        let (own, from) = (socket.local_addr().unwrap(), socket.try_clone().unwrap());
        let (sender, lines) = channel();
        let taking = thread::spawn(move || {
            let mut bytes = vec![0; DATAGRAM_MAX];
            while let Ok((len, sent_by)) = from.recv_from(&mut bytes) {
                let line = String::from_utf8_lossy(&bytes[..len]).trim_end().to_string();
                // What it sends itself is the end.
                if sent_by == own || sender.send(line).is_err() {
                    return;
                }
            }
        });
        Log { socket, lines: Mutex::new(lines), taking: Some(taking) }
    }

    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// The next line; an error if none came for long.
    pub fn line(&self) -> Result<String, RecvTimeoutError> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.socket.send_to(&[], self.address()).is_ok() {
            let _ = self.taking.take().map(JoinHandle::join);
        }
    }
}
