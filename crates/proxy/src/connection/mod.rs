//! What surrounds the bytes of a stream on a connection.

pub mod proxy_header;
