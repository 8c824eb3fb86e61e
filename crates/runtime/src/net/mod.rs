//! Sockets of this thread's driver: streams, listeners, datagrams, and moving bytes between two streams.
//!
//! Everything here belongs to one thread and is used from its tasks: the `poll_*` functions register
//! [`current_task`](crate::current_task) and need no context. Dropping an object closes its descriptor, cancelling what
//! is in flight.

pub mod address;
pub mod datagram;
pub mod descriptor;
pub mod listener;
pub mod options;
pub mod port;
mod socket_id;
pub mod stream;
pub(crate) mod syscall;
pub mod transfer;

pub use address::SockAddr;
pub use datagram::{Datagram, DatagramOptions, Received};
pub use listener::Listener;

pub use options::{ConnectOptions, Keepalive, ListenOptions, Listening, Md5Key, TcpInfo};
pub use port::{LetGo, Port};
pub use socket_id::SocketId;
pub use stream::{Departure, SourceError, Stream};
pub use transfer::{Transfer, TransferMode};
