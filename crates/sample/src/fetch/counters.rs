//! Stick tables: what is tracked (`sc_*`), what a table has of the client's address (`src_*`), tables themselves.

use super::{CLIENT, FetchDef, INTERNAL};
use crate::args::{ArgKind, Args};
use crate::context::Ctx;
use crate::track::Ask;
use crate::value::{Sample, Type, Value};
use thalweg_stick::data::DataType::*;
use thalweg_stick::{KeyValue, Table};

use ArgKind::{Int, Table as TableName};

fn int(value: impl Into<i64>) -> Option<Sample> {
    Some(Sample::new(Value::Int(value.into())))
}

/// The index that comes first where there is one, and the position of the argument after it.
fn index(ask: Ask, args: &Args) -> Option<(u16, usize)> {
    if !ask.has_index() {
        return Some((0, 0));
    }
    Some((u16::try_from(args.int(0)?).ok()?, 1))
}

/// The number of the counter: the one in the keyword's name, or an argument. And the position of the argument after it.
fn counter(named: Option<usize>, args: &Args, at: usize) -> Option<(usize, usize)> {
    match named {
        Some(slot) => Some((slot, at)),
        None => Some((usize::try_from(args.int(at)?).ok()?, at + 1)),
    }
}

fn of_counter(ask: Ask, named: Option<usize>, args: &Args, cx: &mut Ctx) -> Option<Sample> {
    let (index, at) = index(ask, args)?;
    let (slot, at) = counter(named, args, at)?;
    let now_ms = cx.now_ms();
    let tracked = cx.tracked(slot)?;
    let answer = match args.table(at) {
        // The same key in another table whose keys are the same: its entry is looked for, and never made.
        Some(id) => {
            let table: &Table = cx.world.table(id)?;
            if table.spec().key != tracked.table().spec().key {
                return None;
            }
            match tracked.elsewhere(table, now_ms) {
                Some(entry) => {
                    if ask.changes() {
                        entry.touch(now_ms);
                    }
                    ask.answer(index, Some(entry.values()), now_ms)
                }
                None => ask.answer(index, None, now_ms),
            }
        }
        None => {
            if ask.changes() {
                tracked.touch(now_ms);
            }
            ask.answer(index, Some(tracked.values()), now_ms)
        }
    };
    int(answer?)
}

fn of_source(ask: Ask, args: &Args, cx: &mut Ctx) -> Option<Sample> {
    let (index, at) = index(ask, args)?;
    let table: &Table = cx.world.table(args.table(at)?)?;
    let key = Sample::new(cx.source().ip()?.into());
    int(ask.of_key(index, key, table, cx)?)
}

fn is_tracked(named: Option<usize>, args: &Args, cx: &Ctx) -> Option<Sample> {
    let (slot, _) = counter(named, args, 0)?;
    Some(Sample::new(Value::Bool(cx.tracked(slot).is_some())))
}

fn key(named: Option<usize>, args: &Args, cx: &mut Ctx) -> Option<Sample> {
    let (slot, _) = counter(named, args, 0)?;
    let tracked = cx.tracked(slot)?;
    let kind = tracked.table().spec().key;
    Some(Sample::new(match tracked.values().key_value() {
        KeyValue::Ip4(ip) => Value::Ip4(ip),
        KeyValue::Ip6(ip) => Value::Ip6(ip),
        KeyValue::Integer(n) => Value::Int(i64::from(n)),
        KeyValue::Bytes => {
            let (mut buf, mut long) = ([0; 64], Vec::new());
            let bytes = tracked.values().key_bytes(&mut buf, &mut long);
            let text = cx.store(bytes)?;
            match kind {
                thalweg_stick::KeyType::Binary(_) => Value::Bin(text),
                _ => Value::Str(text),
            }
        }
    }))
}

fn entries(args: &Args, cx: &Ctx, count: fn(&Table) -> u32) -> Option<Sample> {
    int(count(cx.world.table(args.table(0)?)?))
}

const OF_COUNTER: &str = "of what a counter tracks";
const OF_SOURCE: &str = "of the client's address in a table";

const SUM_OF_COUNTER: &str = "of what a counter tracks, summed over all peers of a fleet";
const SUM_OF_SOURCE: &str = "of the client's address in a table, summed over all peers of a fleet";

/// The five forms of what takes no index, and the two of what does; two of sums of either, which are ours.
macro_rules! table {
    (
        plain { $($name:literal $need:ident $ask:expr;)+ }
        summed { $($sum:literal $sum_ask:expr;)+ }
        indexed { $($at:literal $at_ask:expr;)+ }
        indexed_sums { $($at_sum:literal $at_sum_ask:expr;)+ }
    ) => {
        &[
            $(
                FetchDef::new(concat!("sc_", $name), Type::Int, $need, OF_COUNTER, |a, cx, _| {
                    of_counter($ask, None, a, cx)
                })
                .takes(1, &[Int, TableName]),
                FetchDef::new(concat!("sc0_", $name), Type::Int, $need, OF_COUNTER, |a, cx, _| {
                    of_counter($ask, Some(0), a, cx)
                })
                .takes(0, &[TableName]),
                FetchDef::new(concat!("sc1_", $name), Type::Int, $need, OF_COUNTER, |a, cx, _| {
                    of_counter($ask, Some(1), a, cx)
                })
                .takes(0, &[TableName]),
                FetchDef::new(concat!("sc2_", $name), Type::Int, $need, OF_COUNTER, |a, cx, _| {
                    of_counter($ask, Some(2), a, cx)
                })
                .takes(0, &[TableName]),
                FetchDef::new(concat!("src_", $name), Type::Int, CLIENT, OF_SOURCE, |a, cx, _| {
                    of_source($ask, a, cx)
                })
                .takes(1, &[TableName]),
            )+
            $(
                FetchDef::new(concat!("sc_", $sum, "_all"), Type::Int, INTERNAL, SUM_OF_COUNTER, |a, cx, _| {
                    of_counter($sum_ask, None, a, cx)
                })
                .takes(1, &[Int, TableName]),
                FetchDef::new(concat!("src_", $sum, "_all"), Type::Int, CLIENT, SUM_OF_SOURCE, |a, cx, _| {
                    of_source($sum_ask, a, cx)
                })
                .takes(1, &[TableName]),
            )+
            $(
                FetchDef::new(concat!("sc_", $at), Type::Int, INTERNAL, OF_COUNTER, |a, cx, _| {
                    of_counter($at_ask, None, a, cx)
                })
                .takes(2, &[Int, Int, TableName]),
                FetchDef::new(concat!("src_", $at), Type::Int, CLIENT, OF_SOURCE, |a, cx, _| {
                    of_source($at_ask, a, cx)
                })
                .takes(2, &[Int, TableName]),
            )+
            $(
                FetchDef::new(concat!("sc_", $at_sum, "_all"), Type::Int, INTERNAL, SUM_OF_COUNTER, |a, cx, _| {
                    of_counter($at_sum_ask, None, a, cx)
                })
                .takes(2, &[Int, Int, TableName]),
                FetchDef::new(concat!("src_", $at_sum, "_all"), Type::Int, CLIENT, SUM_OF_SOURCE, |a, cx, _| {
                    of_source($at_sum_ask, a, cx)
                })
                .takes(2, &[Int, TableName]),
            )+
            FetchDef::new("sc1_clr_gpc", Type::Int, INTERNAL, OF_COUNTER, |a, cx, _| {
                of_counter(Ask::ClearElement, Some(1), a, cx)
            })
            .takes(1, &[Int, TableName]),
            FetchDef::new("sc_trackers", Type::Int, INTERNAL, "how many track the same key", |a, cx, _| {
                of_counter(Ask::Trackers, None, a, cx)
            })
            .takes(1, &[Int, TableName]),
            FetchDef::new("sc0_trackers", Type::Int, INTERNAL, "how many track the same key", |a, cx, _| {
                of_counter(Ask::Trackers, Some(0), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc1_trackers", Type::Int, INTERNAL, "how many track the same key", |a, cx, _| {
                of_counter(Ask::Trackers, Some(1), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc2_trackers", Type::Int, INTERNAL, "how many track the same key", |a, cx, _| {
                of_counter(Ask::Trackers, Some(2), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc_tracked", Type::Bool, INTERNAL, "true when a counter tracks something", |a, cx, _| {
                is_tracked(None, a, cx)
            })
            .takes(1, &[Int, TableName]),
            FetchDef::new("sc0_tracked", Type::Bool, INTERNAL, "true when it tracks something", |a, cx, _| {
                is_tracked(Some(0), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc1_tracked", Type::Bool, INTERNAL, "true when it tracks something", |a, cx, _| {
                is_tracked(Some(1), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc2_tracked", Type::Bool, INTERNAL, "true when it tracks something", |a, cx, _| {
                is_tracked(Some(2), a, cx)
            })
            .takes(0, &[TableName]),
            FetchDef::new("sc_key", Type::Any, INTERNAL, "the key that a counter tracks", |a, cx, _| {
                key(None, a, cx)
            })
            .takes(1, &[Int]),
            FetchDef::new("sc0_key", Type::Any, INTERNAL, "the key that it tracks", |a, cx, _| key(Some(0), a, cx)),
            FetchDef::new("sc1_key", Type::Any, INTERNAL, "the key that it tracks", |a, cx, _| key(Some(1), a, cx)),
            FetchDef::new("sc2_key", Type::Any, INTERNAL, "the key that it tracks", |a, cx, _| key(Some(2), a, cx)),
            FetchDef::new(
                "src_updt_conn_cnt",
                Type::Int,
                CLIENT,
                "counts a connection of the client's address",
                |a, cx, _| of_source(Ask::CountConnection, a, cx),
            )
            .takes(1, &[TableName]),
            FetchDef::new("table_cnt", Type::Int, INTERNAL, "entries of a stick table", |a, cx, _| {
                entries(a, cx, Table::used)
            })
            .takes(1, &[TableName]),
            FetchDef::new("table_avl", Type::Int, INTERNAL, "free entries of a stick table", |a, cx, _| {
                entries(a, cx, |table| table.spec().size.saturating_sub(table.used()))
            })
            .takes(1, &[TableName]),
        ]
    };
}

/// The fetches of this family.
pub static TABLE: &[FetchDef] = table! {
    plain {
        "bytes_in_rate" INTERNAL Ask::Value(BytesInRate);
        "bytes_out_rate" INTERNAL Ask::Value(BytesOutRate);
        "clr_gpc0" INTERNAL Ask::Clear(Gpc0);
        "clr_gpc1" INTERNAL Ask::Clear(Gpc1);
        "conn_cnt" INTERNAL Ask::Value(ConnCnt);
        "conn_cur" INTERNAL Ask::Value(ConnCur);
        "conn_rate" INTERNAL Ask::Value(ConnRate);
        "get_gpc0" INTERNAL Ask::Value(Gpc0);
        "get_gpc1" INTERNAL Ask::Value(Gpc1);
        "get_gpt0" INTERNAL Ask::Value(Gpt0);
        "glitch_cnt" INTERNAL Ask::Value(GlitchCnt);
        "glitch_rate" INTERNAL Ask::Value(GlitchRate);
        "gpc0_rate" INTERNAL Ask::Value(Gpc0Rate);
        "gpc1_rate" INTERNAL Ask::Value(Gpc1Rate);
        "http_err_cnt" INTERNAL Ask::Value(HttpErrCnt);
        "http_err_rate" INTERNAL Ask::Value(HttpErrRate);
        "http_fail_cnt" INTERNAL Ask::Value(HttpFailCnt);
        "http_fail_rate" INTERNAL Ask::Value(HttpFailRate);
        "http_req_cnt" INTERNAL Ask::Value(HttpReqCnt);
        "http_req_rate" INTERNAL Ask::Value(HttpReqRate);
        "inc_gpc0" INTERNAL Ask::Count(Gpc0, Gpc0Rate);
        "inc_gpc1" INTERNAL Ask::Count(Gpc1, Gpc1Rate);
        "kbytes_in" CLIENT Ask::Kilobytes(BytesInCnt);
        "kbytes_out" CLIENT Ask::Kilobytes(BytesOutCnt);
        "sess_cnt" INTERNAL Ask::Value(SessCnt);
        "sess_rate" INTERNAL Ask::Value(SessRate);
    }
    summed {
        "bytes_in_rate" Ask::Sum(BytesInRate);
        "bytes_out_rate" Ask::Sum(BytesOutRate);
        "conn_cnt" Ask::Sum(ConnCnt);
        "conn_cur" Ask::Sum(ConnCur);
        "conn_rate" Ask::Sum(ConnRate);
        "get_gpc0" Ask::Sum(Gpc0);
        "get_gpc1" Ask::Sum(Gpc1);
        "glitch_cnt" Ask::Sum(GlitchCnt);
        "glitch_rate" Ask::Sum(GlitchRate);
        "gpc0_rate" Ask::Sum(Gpc0Rate);
        "gpc1_rate" Ask::Sum(Gpc1Rate);
        "http_err_cnt" Ask::Sum(HttpErrCnt);
        "http_err_rate" Ask::Sum(HttpErrRate);
        "http_fail_cnt" Ask::Sum(HttpFailCnt);
        "http_fail_rate" Ask::Sum(HttpFailRate);
        "http_req_cnt" Ask::Sum(HttpReqCnt);
        "http_req_rate" Ask::Sum(HttpReqRate);
        "kbytes_in" Ask::SumOfKilobytes(BytesInCnt);
        "kbytes_out" Ask::SumOfKilobytes(BytesOutCnt);
        "sess_cnt" Ask::Sum(SessCnt);
        "sess_rate" Ask::Sum(SessRate);
    }
    indexed {
        "clr_gpc" Ask::ClearElement;
        "get_gpc" Ask::Element(Gpc);
        "get_gpt" Ask::Element(Gpt);
        "gpc_rate" Ask::Element(GpcRate);
        "inc_gpc" Ask::CountElement;
    }
    indexed_sums {
        "get_gpc" Ask::SumOfElement(Gpc);
        "gpc_rate" Ask::SumOfElement(GpcRate);
    }
};
