//! Connections: a [`port`] is one that carries messages, [`transport`] how its bytes are carried, [`body`] how far one message
//! was read, [`proxy_header`] what may come before the first.

pub mod body;
pub mod port;
pub mod proxy_header;
pub mod transport;
