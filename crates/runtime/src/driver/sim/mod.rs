//! The simulated network (under construction: it refuses to be used).

use super::socket::Socket;
use super::{PollStats, Wait};
use crate::buffer::Buf;
use crate::net::{ConnectOptions, ListenOptions, Received, SockAddr};
use std::io;
use std::os::fd::OwnedFd;
use std::task::Poll;

/// An in-memory network in virtual time.
#[derive(Clone, Debug)]
pub struct Network {}

pub(crate) struct SimDriver {}

#[allow(clippy::unused_self, dead_code)]
impl SimDriver {
    pub fn new(_: Network) -> SimDriver {
        SimDriver {}
    }
    pub fn register(&mut self, _: &mut Socket) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn unregister(&mut self, _: &mut Socket) {}
    pub fn close(&mut self, _: &mut Socket) {}
    pub fn poll_recv(&mut self, _: &mut Socket, _: usize) -> Poll<io::Result<Buf>> {
        Poll::Pending
    }
    pub fn poll_readable(&mut self, _: &mut Socket) -> Poll<io::Result<()>> {
        Poll::Pending
    }
    pub fn has_input(&mut self, _: &mut Socket) -> bool {
        false
    }
    pub fn arm_input(&mut self, _: &mut Socket) {}
    pub fn want_input(&mut self, _: &mut Socket) {}
    pub fn want_output(&mut self, _: &mut Socket) {}
    pub fn start_send(&mut self, _: &mut Socket) {}
    pub fn shutdown_write(&mut self, _: &mut Socket) -> io::Result<()> {
        Ok(())
    }
    pub fn start_connect(&mut self, _: &mut Socket) -> io::Result<()> {
        Ok(())
    }
    pub fn recv(&mut self, _: &mut Socket, _: &mut [u8], _: i32) -> Result<usize, i32> {
        Err(libc::ENOSYS)
    }
    pub fn send(&mut self, _: &mut Socket, _: &[u8]) -> Result<usize, i32> {
        Err(libc::ENOSYS)
    }
    pub fn accept(&mut self, _: &mut Socket) -> Result<(OwnedFd, SockAddr), i32> {
        Err(libc::ENOSYS)
    }
    pub fn set_reset(&mut self, _: &Socket) {}
    pub fn addresses(&mut self, _: &Socket) -> (SockAddr, SockAddr) {
        (SockAddr::unnamed(), SockAddr::unnamed())
    }
    pub fn open_stream(&mut self, _: &SockAddr, _: &ConnectOptions) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn open_listener(&mut self, _: &SockAddr, _: &ListenOptions) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn open_datagram(&mut self, _: Option<&SockAddr>, _: Option<&SockAddr>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
    pub fn recv_datagram(&mut self, _: &mut Socket) -> Result<Received, i32> {
        Err(libc::ENOSYS)
    }
    pub fn send_datagram(&mut self, _: &Socket, _: &[u8], _: Option<SockAddr>, _: u16) {}
    pub fn poll(&mut self, _: Wait) -> io::Result<PollStats> {
        Ok(PollStats::default())
    }
}
