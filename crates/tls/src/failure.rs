//! Why a connection ended: the alert the peer gets, and the numbers and words that OpenSSL has for it, which logs and
//! `ssl_fc_err` give.

use crate::hello::HelloError;
use crate::verify::Code;

/// Descriptions of alerts (RFC 8446 section 6).
pub mod alert {
    pub const CLOSE_NOTIFY: u8 = 0;
    pub const UNEXPECTED_MESSAGE: u8 = 10;
    pub const BAD_RECORD_MAC: u8 = 20;
    pub const RECORD_OVERFLOW: u8 = 22;
    pub const HANDSHAKE_FAILURE: u8 = 40;
    pub const ILLEGAL_PARAMETER: u8 = 47;
    pub const DECODE_ERROR: u8 = 50;
    pub const PROTOCOL_VERSION: u8 = 70;
    pub const INTERNAL_ERROR: u8 = 80;
    pub const INAPPROPRIATE_FALLBACK: u8 = 86;
    pub const USER_CANCELED: u8 = 90;
    pub const NO_RENEGOTIATION: u8 = 100;
    pub const MISSING_EXTENSION: u8 = 109;
    pub const UNRECOGNIZED_NAME: u8 = 112;
}

/// An extension that a ClientHello of TLS 1.3 must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// `supported_groups`
    Groups,
    /// `key_share`
    Shares,
    /// `signature_algorithms`
    Schemes,
}

/// Why a handshake failed or a connection was cut.
#[derive(Clone, Debug)]
pub enum Failure {
    /// What the client sent is no ClientHello.
    Hello(HelloError),
    /// No certificate has the client's name, and `strict-sni` wants one; or there is no certificate at all.
    NoCertificate,
    /// The peer's certificate was not accepted: the error, and whether it was found in the leaf.
    Certificate { code: Code, leaf: bool },
    /// The peer sent an alert.
    Alert(u8),
    /// The peer broke the protocol, or has nothing in common with us.
    Protocol(rustls::Error),
    /// A client's first message is one of a renegotiation (RFC 5746 section 3.6).
    Renegotiation,
    /// A client tries an old version again although we speak a newer one (RFC 7507): somebody may have spoiled its first attempt.
    Fallback,
    /// A client leaves out what it has to say.
    Missing(Missing),
    /// A record could not be decrypted.
    BadRecord,
    /// A record is larger than records are.
    Overflow,
    /// A message came that has no place here.
    Unexpected,
    /// A message has a value that it must not have.
    Illegal,
    /// A message has not the length that it must have.
    WrongLength,
    /// The peer sends messages that lead nowhere: key updates, empty records, warnings.
    Flood,
    /// More bytes came for the handshake than a handshake has.
    TooMuchInput,
    /// The peer ended its side without saying so, in the middle of the handshake.
    Closed,
    /// The keys were used for as much as they can protect.
    Exhausted,
}

impl Failure {
    /// The alert that tells the peer; None when it is the peer that told us.
    pub fn alert(&self) -> Option<u8> {
        match self {
            Failure::Hello(HelloError::NotTls | HelloError::BadRecord) => Some(alert::PROTOCOL_VERSION),
            Failure::Hello(HelloError::NotClientHello | HelloError::EmptyRecord)
            | Failure::Unexpected
            | Failure::Flood => Some(alert::UNEXPECTED_MESSAGE),
            Failure::Hello(HelloError::LongRecord) => Some(alert::RECORD_OVERFLOW),
            Failure::Illegal | Failure::Hello(HelloError::DuplicateExtension) => {
                Some(alert::ILLEGAL_PARAMETER)
            }
            Failure::Missing(_) => Some(alert::MISSING_EXTENSION),
            Failure::Renegotiation => Some(alert::HANDSHAKE_FAILURE),
            Failure::Fallback => Some(alert::INAPPROPRIATE_FALLBACK),
            Failure::Hello(_) => Some(alert::DECODE_ERROR),
            Failure::NoCertificate => Some(alert::UNRECOGNIZED_NAME),
            // rustls wrote these itself.
            Failure::Certificate { .. } | Failure::Protocol(_) => None,
            Failure::Alert(_) | Failure::Closed => None,
            Failure::BadRecord => Some(alert::BAD_RECORD_MAC),
            Failure::Overflow => Some(alert::RECORD_OVERFLOW),
            Failure::TooMuchInput | Failure::WrongLength => Some(alert::DECODE_ERROR),
            Failure::Exhausted => Some(alert::CLOSE_NOTIFY),
        }
    }

    /// OpenSSL's reason: `ssl_fc_err`.
    pub fn reason(&self) -> u32 {
        use rustls::{Error, PeerIncompatible};
        match self {
            Failure::Hello(HelloError::NotTls) => 156,
            Failure::Hello(HelloError::BadRecord) => 267,
            Failure::Hello(HelloError::NotClientHello | HelloError::EmptyRecord)
            | Failure::Unexpected
            | Failure::Flood => 244,
            Failure::Hello(HelloError::LongRecord) => 198,
            // Only a KeyUpdate is looked at.
            Failure::Illegal | Failure::WrongLength => 122,
            Failure::Renegotiation => 337,
            Failure::Fallback => 373,
            Failure::Missing(Missing::Groups) => 209,
            Failure::Missing(Missing::Shares) => 101,
            Failure::Missing(Missing::Schemes) => 112,
            Failure::Hello(HelloError::TooLarge) | Failure::TooMuchInput => 152,
            Failure::Hello(HelloError::DuplicateExtension) => 110,
            Failure::Hello(HelloError::Malformed) => 159,
            Failure::NoCertificate => 234,
            Failure::Certificate { .. } => 134,
            Failure::Alert(description) => 1000 + u32::from(*description),
            Failure::BadRecord => 281,
            Failure::Overflow => 198,
            Failure::Closed => 294,
            Failure::Exhausted => 68,
            Failure::Protocol(error) => match error {
                Error::NoCertificatesPresented => 199,
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => 193,
                Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon) => 101,
                Error::PeerIncompatible(PeerIncompatible::NoSignatureSchemesInCommon) => 118,
                Error::PeerIncompatible(_) => 258,
                Error::NoApplicationProtocol => 235,
                Error::AlertReceived(description) => 1000 + u32::from(u8::from(*description)),
                Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => 244,
                Error::DecryptError => 281,
                Error::PeerSentOversizedRecord => 198,
                Error::InvalidMessage(_) => 159,
                _ => 110,
            },
        }
    }

    /// OpenSSL's text: `ssl_fc_err_str`.
    pub fn text(&self) -> String {
        let reason = self.reason();
        let words = match reason {
            68 => "internal error".to_owned(),
            101 => "no suitable key share".to_owned(),
            110 => "bad extension".to_owned(),
            112 => "missing sigalgs extension".to_owned(),
            118 => "no suitable signature algorithm".to_owned(),
            122 => "bad key update".to_owned(),
            134 => "certificate verify failed".to_owned(),
            152 => "excessive message size".to_owned(),
            156 => "http request".to_owned(),
            159 => "length mismatch".to_owned(),
            193 => "no shared cipher".to_owned(),
            198 => "packet length too long".to_owned(),
            199 => "peer did not return a certificate".to_owned(),
            209 => "missing supported groups extension".to_owned(),
            234 => "callback failed".to_owned(),
            235 => "no application protocol".to_owned(),
            244 => "unexpected message".to_owned(),
            258 => "unsupported protocol".to_owned(),
            267 => "wrong version number".to_owned(),
            281 => "decryption failed or bad record mac".to_owned(),
            294 => "unexpected eof while reading".to_owned(),
            337 => "renegotiation mismatch".to_owned(),
            373 => "inappropriate fallback".to_owned(),
            alert => alert_text(alert.saturating_sub(1000)),
        };
        format!("error:0A{reason:06X}:SSL routines::{words}")
    }

    /// The failure of rustls, with the error of the verifier where it is one.
    pub(crate) fn of(error: rustls::Error, fatal: Option<(Code, bool)>) -> Failure {
        match (error, fatal) {
            (rustls::Error::AlertReceived(description), _) => Failure::Alert(description.into()),
            (rustls::Error::InvalidCertificate(_), Some((code, leaf))) => Failure::Certificate { code, leaf },
            (error, _) => Failure::Protocol(error),
        }
    }
}

fn alert_text(description: u32) -> String {
    let (family, name) = match description {
        10 => ("sslv3", "unexpected message"),
        20 => ("sslv3", "bad record mac"),
        40 => ("sslv3", "handshake failure"),
        41 => ("sslv3", "no certificate"),
        42 => ("sslv3", "bad certificate"),
        43 => ("sslv3", "unsupported certificate"),
        44 => ("sslv3", "certificate revoked"),
        45 => ("sslv3", "certificate expired"),
        46 => ("sslv3", "certificate unknown"),
        47 => ("sslv3", "illegal parameter"),
        22 => ("tlsv1", "record overflow"),
        48 => ("tlsv1", "unknown ca"),
        49 => ("tlsv1", "access denied"),
        50 => ("tlsv1", "decode error"),
        51 => ("tlsv1", "decrypt error"),
        70 => ("tlsv1", "protocol version"),
        71 => ("tlsv1", "insufficient security"),
        80 => ("tlsv1", "internal error"),
        86 => ("tlsv1", "inappropriate fallback"),
        90 => ("tlsv1", "user cancelled"),
        100 => ("tlsv1", "no renegotiation"),
        109 => ("tlsv13", "missing extension"),
        110 => ("tlsv1", "unsupported extension"),
        112 => ("tlsv1", "unrecognized name"),
        113 => ("tlsv1", "bad certificate status response"),
        116 => ("tlsv13", "certificate required"),
        120 => ("tlsv1", "no application protocol"),
        _ => return format!("reason({})", description + 1000),
    };
    format!("{family} alert {name}")
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Hello(error) => error.fmt(f),
            Failure::NoCertificate => f.write_str("no certificate has the name that the client asks for"),
            Failure::Certificate { code, leaf } => {
                let whose = if *leaf { "the peer's certificate" } else { "a certificate above the peer's" };
                write!(f, "{whose} is not accepted: {}", code.name().unwrap_or("unknown error"))
            }
            Failure::Alert(description) => {
                write!(f, "the peer refused with the alert '{}'", alert_text((*description).into()))
            }
            Failure::Protocol(error) => error.fmt(f),
            Failure::BadRecord => f.write_str("the peer sent a record that cannot be decrypted"),
            Failure::Overflow => f.write_str("the peer sent a record of more than 16 kB"),
            Failure::Unexpected => f.write_str("the peer sent a message that has no place here"),
            Failure::Illegal => f.write_str("the peer sent a message with a value that it must not have"),
            Failure::WrongLength => f.write_str("the peer sent a message that is too short or too long"),
            Failure::Renegotiation => f.write_str("the client renegotiates where nothing was negotiated"),
            Failure::Fallback => {
                f.write_str("the client falls back to an old version although a newer one is spoken")
            }
            Failure::Missing(_) => f.write_str("the client's ClientHello lacks an extension"),
            Failure::Flood => f.write_str("the peer sends messages that lead nowhere"),
            Failure::TooMuchInput => f.write_str("the peer sent more than a handshake needs"),
            Failure::Closed => f.write_str("the peer closed the connection in the handshake"),
            Failure::Exhausted => f.write_str("the keys of the connection are used up"),
        }
    }
}

impl std::error::Error for Failure {}
