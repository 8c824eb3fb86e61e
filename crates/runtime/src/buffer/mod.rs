//! Placeholder: buffers.
