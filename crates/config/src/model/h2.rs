//! Settings of HTTP/2 (`tune.h2.*`).

/// Those of one side; what is not set follows from the common ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct H2Side {
    /// Octets that a peer may send on a new stream.
    pub initial_window: Option<u32>,
    /// Streams that may be open at once; 0 is no limit.
    pub max_concurrent_streams: Option<u32>,
    /// Octets that all streams of a connection may have to keep.
    pub rxbuf: Option<usize>,
    /// Glitches after which a connection ends; 0 for none.
    pub glitches_threshold: u32,
    /// Frames that are handled before others get their turn; 0 for no limit.
    pub frames_at_once: u32,
}

/// `tune.h2.log-errors`: which errors of the protocol have a line in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogsErrors {
    /// None.
    None,
    /// Those that end a connection.
    Connection,
    /// Those that end a stream, too.
    #[default]
    Stream,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct H2Tune {
    /// Towards clients.
    pub fe: H2Side,
    /// Towards servers.
    pub be: H2Side,
    /// Octets that a peer may send on a new stream.
    pub initial_window: u32,
    /// Streams that may be open at once on a connection; 0 is no limit.
    pub max_concurrent_streams: u32,
    /// Octets of payload that a frame may have; what buffers have room for if not set.
    pub max_frame_size: Option<u32>,
    /// Octets of each dynamic table.
    pub header_table_size: u32,
    /// Large payload leaves from where it was received, without being copied.
    pub zero_copy_send: bool,
    /// Requests over the life of a client's connection; 0 for no limit.
    pub total_streams: u32,
    /// RST_STREAM frames that are handled before others get their turn; 0 for no limit.
    pub resets_at_once: u32,
    /// What has a line in the log.
    pub logs: LogsErrors,
    /// Tasks that may wait on a thread before its new clients are allowed fewer streams; 0 is `tune.runqueue-depth`.
    pub rq_load: Option<u32>,
    /// Streams that a client is always allowed.
    pub streams_min: u32,
    /// Clients are not told that WebSockets work (`h2-workaround-bogus-websocket-clients`).
    pub hides_websockets: bool,
    /// How busy a thread must be, in percent, before connections end for their glitches.
    pub kill_busy_percent: u32,
}

impl Default for H2Tune {
    fn default() -> H2Tune {
        H2Tune {
            fe: H2Side::default(),
            be: H2Side::default(),
            initial_window: 16_384,
            max_concurrent_streams: 100,
            max_frame_size: None,
            header_table_size: 4096,
            zero_copy_send: true,
            total_streams: 0,
            resets_at_once: 0,
            logs: LogsErrors::Stream,
            rq_load: None,
            streams_min: 1,
            hides_websockets: false,
            kill_busy_percent: 0,
        }
    }
}

impl H2Tune {
    /// Octets that a peer on this side may send on a new stream.
    pub fn window(&self, side: &H2Side) -> u32 {
        side.initial_window.unwrap_or(self.initial_window)
    }

    /// Streams that may be open at once on this side; `None` for no limit.
    pub fn streams(&self, side: &H2Side) -> Option<u32> {
        Some(side.max_concurrent_streams.unwrap_or(self.max_concurrent_streams)).filter(|n| *n > 0)
    }

    /// Octets that the streams of a connection on this side may have to keep together.
    pub fn shared(&self, side: &H2Side, bufsize: usize) -> u32 {
        let octets = side.rxbuf.unwrap_or(100 * bufsize).next_multiple_of(bufsize.max(1));
        u32::try_from(octets).unwrap_or(u32::MAX)
    }
}
