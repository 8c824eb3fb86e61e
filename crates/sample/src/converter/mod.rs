//! Converters: functions from one value to another, by name. One file per family; each exports one table.

mod address;
mod aes;
mod arithmetic;
mod date;
mod digest;
pub use digest::sha1;
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
mod table;
mod text;

pub use jwe::TokenAlgorithms;

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
    table::TABLE,
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
