//! Fetches on streams of connections that carry several of them (HTTP/2).

use super::{CLIENT, FetchDef, SERVER_CONNECTION};

use crate::context::Ctx;
use crate::facts::MuxStream;
use crate::value::{Sample, Type};

fn client(cx: &Ctx<'_>) -> Option<MuxStream> {
    Some(cx.stream.as_ref()?.fs)
}

fn server(cx: &Ctx<'_>) -> Option<MuxStream> {
    Some(cx.stream.as_ref()?.bs)
}

pub static TABLE: &[FetchDef] = &[
    FetchDef::new(
        "bs.aborted",
        Type::Bool,
        SERVER_CONNECTION,
        "true when the server reset its stream",
        |_, cx, _| Some(Sample::bool(server(cx)?.reset.is_some())),
    ),
    FetchDef::new("bs.id", Type::Int, SERVER_CONNECTION, "the number of the server's stream", |_, cx, _| {
        Some(Sample::int(server(cx)?.id.into()))
    }),
    FetchDef::new(
        "bs.rst_code",
        Type::Int,
        SERVER_CONNECTION,
        "the code with which the server reset it",
        |_, cx, _| Some(Sample::int(server(cx)?.reset?.into())),
    ),
    FetchDef::new("fs.aborted", Type::Bool, CLIENT, "true when the client reset its stream", |_, cx, _| {
        Some(Sample::bool(client(cx)?.reset.is_some()))
    }),
    FetchDef::new("fs.id", Type::Int, CLIENT, "the number of the client's stream", |_, cx, _| {
        Some(Sample::int(client(cx)?.id.into()))
    }),
    FetchDef::new("fs.rst_code", Type::Int, CLIENT, "the code with which the client reset it", |_, cx, _| {
        Some(Sample::int(client(cx)?.reset?.into()))
    }),
];
