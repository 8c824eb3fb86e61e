//! Error codes (RFC 9113 section 7), and what went wrong by name.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal,)+) => {
        /// An error code of RST_STREAM and GOAWAY (RFC 9113 section 7).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)+
            /// A code that the RFC does not know; treated as INTERNAL_ERROR.
            Unknown(u32),
        }

        impl ErrorCode {
            /// The code of a number.
            pub fn of(number: u32) -> ErrorCode {
                match number {
                    $($value => ErrorCode::$name,)+
                    other => ErrorCode::Unknown(other),
                }
            }

            /// As it is sent.
            pub fn number(self) -> u32 {
                match self {
                    $(ErrorCode::$name => $value,)+
                    ErrorCode::Unknown(number) => number,
                }
            }
        }

        impl fmt::Display for ErrorCode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(ErrorCode::$name => f.write_str($text),)+
                    ErrorCode::Unknown(number) => write!(f, "error {number:#x}"),
                }
            }
        }
    };
}

codes! {
    /// An end in order.
    NoError = 0x0 "NO_ERROR",
    /// The peer broke a rule that has no code of its own.
    ProtocolError = 0x1 "PROTOCOL_ERROR",
    /// We failed.
    InternalError = 0x2 "INTERNAL_ERROR",
    /// More was sent than the window allowed.
    FlowControlError = 0x3 "FLOW_CONTROL_ERROR",
    /// Settings were not acknowledged in time.
    SettingsTimeout = 0x4 "SETTINGS_TIMEOUT",
    /// A frame for a stream that the peer had ended.
    StreamClosed = 0x5 "STREAM_CLOSED",
    /// A frame of a length that it cannot have.
    FrameSizeError = 0x6 "FRAME_SIZE_ERROR",
    /// The stream was not processed at all; its request may be sent again.
    RefusedStream = 0x7 "REFUSED_STREAM",
    /// The stream is no longer wanted.
    Cancel = 0x8 "CANCEL",
    /// A header block cannot be decoded.
    CompressionError = 0x9 "COMPRESSION_ERROR",
    /// The tunnel's other end failed.
    ConnectError = 0xa "CONNECT_ERROR",
    /// The peer does what costs us more than it costs the peer.
    EnhanceYourCalm = 0xb "ENHANCE_YOUR_CALM",
    /// The transport is not safe enough.
    InadequateSecurity = 0xc "INADEQUATE_SECURITY",
    /// HTTP/1.1 must be used.
    Http11Required = 0xd "HTTP_1_1_REQUIRED",
}
