//! Placeholder: sockets.
