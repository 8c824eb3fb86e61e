//! Connections, and what takes their place: a [`port`] carries messages, a [`line`](mod@line) is what it is connected to, [`transport`] how
//! the bytes of a connection are carried, [`local`] an answer that is made here, [`body`] how far one message was read,
//! [`proxy_header`] and [`netscaler`] what may come before the first, [`forerunner`] waiting for that, [`socks`] what a proxy on the way is asked.

pub mod body;
pub mod forerunner;
pub mod handshake;
pub mod line;
pub mod local;
pub mod mux;
mod netscaler;
pub mod port;
pub mod proxy_header;
pub mod socks;
pub mod tls;
pub mod transport;
