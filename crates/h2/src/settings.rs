//! Settings (RFC 9113 section 6.5, RFC 8441 section 3).

use crate::error::ErrorCode;

/// The largest payload that a peer must take before settings say otherwise.
pub const PAYLOAD_MIN: usize = 16_384;
/// The largest payload that settings can allow.
pub const PAYLOAD_MAX: usize = (1 << 24) - 1;

/// The largest window (RFC 9113 section 6.9.1).
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// One setting with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Octets of the header table that the sender's peer may use.
    HeaderTableSize(u32),
    /// Whether the sender takes pushed streams.
    EnablePush(u32),
    /// Streams the sender's peer may have open.
    MaxConcurrentStreams(u32),
    /// Octets that may be sent on a new stream.
    InitialWindow(u32),
    /// Octets of payload the sender takes in a frame.
    MaxFrameSize(u32),
    /// Octets of header list the sender takes; a hint.
    MaxHeaderListSize(u32),
    /// Whether the sender takes CONNECT requests with a `:protocol`.
    EnableConnectProtocol(u32),
}

impl Change {
    /// The setting of an identifier; `None` for unknown ones, which are ignored.
    pub fn of(id: u16, value: u32) -> Option<Change> {
        Some(match id {
            1 => Change::HeaderTableSize(value),
            2 => Change::EnablePush(value),
            3 => Change::MaxConcurrentStreams(value),
            4 => Change::InitialWindow(value),
            5 => Change::MaxFrameSize(value),
            6 => Change::MaxHeaderListSize(value),
            8 => Change::EnableConnectProtocol(value),
            _ => return None,
        })
    }

    /// Identifier and value.
    pub fn wire(self) -> (u16, u32) {
        match self {
            Change::HeaderTableSize(value) => (1, value),
            Change::EnablePush(value) => (2, value),
            Change::MaxConcurrentStreams(value) => (3, value),
            Change::InitialWindow(value) => (4, value),
            Change::MaxFrameSize(value) => (5, value),
            Change::MaxHeaderListSize(value) => (6, value),
            Change::EnableConnectProtocol(value) => (8, value),
        }
    }
}

/// What one end told the other, or the RFC's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// See [`Change::HeaderTableSize`].
    pub header_table_size: u32,
    /// See [`Change::EnablePush`].
    pub enable_push: bool,
    /// See [`Change::MaxConcurrentStreams`]; `None` for no limit.
    pub max_concurrent_streams: Option<u32>,
    /// See [`Change::InitialWindow`].
    pub initial_window: u32,
    /// See [`Change::MaxFrameSize`].
    pub max_frame_size: u32,
    /// See [`Change::MaxHeaderListSize`]; `None` for no limit.
    pub max_header_list_size: Option<u32>,
    /// See [`Change::EnableConnectProtocol`].
    pub enable_connect_protocol: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: None,
            initial_window: 65_535,
            max_frame_size: PAYLOAD_MIN as u32,
            max_header_list_size: None,
            enable_connect_protocol: false,
        }
    }
}

impl Settings {
    /// Applies one change of a peer. `from_server` says that the peer is a server, which must not enable push.
    ///
    /// # Errors
    /// The code that the connection ends with when a value is out of bounds.
    pub fn apply(&mut self, change: Change, from_server: bool) -> Result<(), ErrorCode> {
        match change {
            Change::HeaderTableSize(value) => self.header_table_size = value,
            Change::EnablePush(value) => {
                if value > 1 || (from_server && value == 1) {
                    return Err(ErrorCode::ProtocolError);
                }
                self.enable_push = value == 1;
            }
            Change::MaxConcurrentStreams(value) => self.max_concurrent_streams = Some(value),
            Change::InitialWindow(value) => {
                if value > WINDOW_MAX {
                    return Err(ErrorCode::FlowControlError);
                }
                self.initial_window = value;
            }
            Change::MaxFrameSize(value) => {
                if !(PAYLOAD_MIN as u32..=PAYLOAD_MAX as u32).contains(&value) {
                    return Err(ErrorCode::ProtocolError);
                }
                self.max_frame_size = value;
            }
            Change::MaxHeaderListSize(value) => self.max_header_list_size = Some(value),
            Change::EnableConnectProtocol(value) => {
                // Once given it must not be taken back (RFC 8441 section 3).
                if value > 1 || (self.enable_connect_protocol && value == 0) {
                    return Err(ErrorCode::ProtocolError);
                }
                self.enable_connect_protocol = value == 1;
            }
        }
        Ok(())
    }

    /// The changes that make a peer, which assumes the RFC's values, know these.
    pub fn changes(&self) -> impl Iterator<Item = Change> + use<> {
        let base = Settings::default();
        let differs = |differs: bool, change: Change| differs.then_some(change);
        [
            differs(
                self.header_table_size != base.header_table_size,
                Change::HeaderTableSize(self.header_table_size),
            ),
            differs(!self.enable_push, Change::EnablePush(0)),
            self.max_concurrent_streams.map(Change::MaxConcurrentStreams),
            differs(self.initial_window != base.initial_window, Change::InitialWindow(self.initial_window)),
            differs(self.max_frame_size != base.max_frame_size, Change::MaxFrameSize(self.max_frame_size)),
            self.max_header_list_size.map(Change::MaxHeaderListSize),
            differs(self.enable_connect_protocol, Change::EnableConnectProtocol(1)),
        ]
        .into_iter()
        .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_bounds_end_the_connection() {
        let apply = |change| Settings::default().apply(change, false);
        assert_eq!(apply(Change::EnablePush(2)), Err(ErrorCode::ProtocolError));
        assert_eq!(apply(Change::InitialWindow(1 << 31)), Err(ErrorCode::FlowControlError));
        assert_eq!(apply(Change::MaxFrameSize(16_383)), Err(ErrorCode::ProtocolError));
        assert_eq!(apply(Change::MaxFrameSize(1 << 24)), Err(ErrorCode::ProtocolError));
        assert_eq!(apply(Change::EnableConnectProtocol(2)), Err(ErrorCode::ProtocolError));
        assert_eq!(Settings::default().apply(Change::EnablePush(1), true), Err(ErrorCode::ProtocolError));
        assert_eq!(apply(Change::EnablePush(1)), Ok(()));
    }

    #[test]
    fn told_settings_are_understood() {
        let ours = Settings {
            header_table_size: 0,
            enable_push: false,
            max_concurrent_streams: Some(100),
            initial_window: 1 << 20,
            max_frame_size: 1 << 15,
            max_header_list_size: Some(16_384),
            enable_connect_protocol: true,
        };
        let mut theirs = Settings::default();
        for change in ours.changes() {
            let (id, value) = change.wire();
            theirs.apply(Change::of(id, value).unwrap(), true).unwrap();
        }
        assert_eq!(theirs, ours);
        assert_eq!(Settings::default().changes().count(), 0);
    }
}
