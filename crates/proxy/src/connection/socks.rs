//! SOCKS4 as a client: asking a proxy for a connection to a server (Ying-Da Lee, "SOCKS: A protocol for TCP proxy across
//! firewalls"). It knows addresses of IPv4 only.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};

use thalweg_runtime::buffer::Buf;
use thalweg_runtime::net::Stream;
use thalweg_runtime::timer::timeout_at;

/// The bytes of a proxy's answer: a version, a code, and six that say nothing.
const ANSWER: usize = 8;
/// The code of an answer that grants what was asked for.
const GRANTED: u8 = 90;

/// Why a proxy gave no connection.
#[derive(Debug)]
pub enum SocksError {
    /// Its time was over.
    Timeout,
    /// The connection to it broke.
    Io(io::Error),
    /// It ended the connection in place of an answer.
    Ended,
    /// It said no.
    Denied,
    /// The server has no address of IPv4.
    Address,
}

/// Asks for a connection to a server, and waits for the answer. What the server says is left in the stream.
pub async fn connect(
    stream: &mut Stream,
    to: SocketAddr,
    deadline_ms: Option<u64>,
) -> Result<(), SocksError> {
    let SocketAddr::V4(to) = to else { return Err(SocksError::Address) };
    stream.start_send(Buf::copy_of(&request(to)));
    let mut answer = Vec::with_capacity(ANSWER);
    while answer.len() < ANSWER {
        let received = timeout_at(deadline_ms, stream.recv(ANSWER - answer.len())).await;
        let received = received.map_err(|_elapsed| SocksError::Timeout)?.map_err(SocksError::Io)?;
        if received.is_empty() {
            return Err(SocksError::Ended);
        }
        answer.extend_from_slice(&received);
    }
    if answer[1] != GRANTED {
        return Err(SocksError::Denied);
    }
    // Whoever sends next finds the request gone.
    stream.send_ready().await.map_err(SocksError::Io)
}

/// CONNECT, from the user that the reference says it is.
fn request(to: SocketAddrV4) -> [u8; 16] {
    let mut request = [0; 16];
    request[..2].copy_from_slice(&[4, 1]);
    request[2..4].copy_from_slice(&to.port().to_be_bytes());
    request[4..8].copy_from_slice(&to.ip().octets());
    request[8..].copy_from_slice(b"HAProxy\0");
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_references() {
        let to = SocketAddrV4::new([127, 0, 0, 1].into(), 4242);
        assert_eq!(request(to), *b"\x04\x01\x10\x92\x7f\x00\x00\x01HAProxy\x00");
    }
}
