//! Converters: functions from one value to another, by name. One file per family; each exports one table.

mod address;
mod aes;
mod arithmetic;
mod date;
mod digest;
mod encoding;
mod fix;
pub mod hash;
#[cfg(test)]
mod hostile;
mod json;
mod json_query;
mod jwe;
mod jwt;
mod map;
mod mqtt;
mod packet;
mod protobuf;
mod regsub;
mod rfc7239;
mod secret;
mod shape;
mod state;
mod text;

use crate::args::{ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type};

/// Validates the arguments of a converter once, and may replace them by something faster to use.
pub type Check = fn(&mut Args, &mut CompileEnv) -> Result<(), String>;

/// Replaces the sample by the result; false when there is none.
pub type Run = fn(&Args, &mut Sample, &mut Ctx) -> bool;

/// Everything about one converter.
pub struct ConverterDef {
    /// Its name in configurations.
    pub name: &'static str,
    /// The type it takes; the value is cast to it before the call.
    pub input: Type,
    /// The type it gives.
    pub output: Type,
    /// Its arguments.
    pub args: ArgSpec,
    /// What it does, in a line.
    pub doc: &'static str,
    /// Validates the arguments.
    pub check: Option<Check>,
    /// Replaces the sample; false when there is no result.
    pub run: Run,
}

/// Every family's table.
static TABLES: &[&[ConverterDef]] = &[
    arithmetic::ARITHMETIC,
    date::DATE,
    encoding::ENCODING,
    fix::FIX,
    hash::HASH,
    json::JSON,
    json_query::JSON_QUERY,
    mqtt::MQTT,
    protobuf::PROTOBUF,
    rfc7239::RFC7239,
    address::ADDRESS,
    map::MAP,
    packet::PACKET,
    regsub::REGSUB,
    state::STATE,
    aes::AES,
    digest::DIGEST,
    jwe::JWE,
    jwt::JWT,
    text::TEXT,
];

/// All converters, in no particular order.
pub fn all() -> impl Iterator<Item = &'static ConverterDef> {
    TABLES.iter().copied().flatten()
}

/// The converter with this name.
pub fn find(name: &str) -> Option<&'static ConverterDef> {
    all().find(|def| def.name == name)
}

/// Why a converter of the reference is not there yet. `None` for names that are no converters at all.
pub fn unsupported(name: &str) -> Option<&'static str> {
    if name.strip_prefix("table_").is_some_and(|rest| TABLE_CONVERTERS.contains(&rest)) || name == "in_table"
    {
        return Some("it needs stick tables");
    }
    TLS_CONVERTERS.contains(&name).then_some("it needs the certificates that TLS loads")
}

const TLS_CONVERTERS: &[&str] = &["jwt_verify_cert", "jwt_decrypt_cert"];

const TABLE_CONVERTERS: &[&str] = &[
    "bytes_in_rate",
    "bytes_out_rate",
    "clr_gpc",
    "clr_gpc0",
    "clr_gpc1",
    "conn_cnt",
    "conn_cur",
    "conn_rate",
    "expire",
    "glitch_cnt",
    "glitch_rate",
    "gpc",
    "gpc0",
    "gpc0_rate",
    "gpc1",
    "gpc1_rate",
    "gpc_rate",
    "gpt",
    "gpt0",
    "http_err_cnt",
    "http_err_rate",
    "http_fail_cnt",
    "http_fail_rate",
    "http_req_cnt",
    "http_req_rate",
    "idle",
    "inc_gpc",
    "inc_gpc0",
    "inc_gpc1",
    "kbytes_in",
    "kbytes_out",
    "server_id",
    "sess_cnt",
    "sess_rate",
    "trackers",
];
