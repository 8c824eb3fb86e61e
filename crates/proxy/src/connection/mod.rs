//! Connections: [`wire`] is one that carries messages, [`body`] how far one of them was read, [`proxy_header`] what may
//! come before the first.

pub mod body;
pub mod proxy_header;
pub mod wire;
