//! Look-ups in stick tables: `table_*` and `in_table`. The input is the key.

use super::shape::entry;
use super::{ConverterDef, Run};
use crate::args::{ArgKind, ArgSpec, Args};
use crate::context::Ctx;
use crate::track::{Ask, with_key};
use crate::value::{Sample, Type, Value};
use thalweg_stick::data::DataType::*;
use thalweg_stick::{Table, Values};

const TABLE_NAME: ArgSpec = ArgSpec::new(1, &[ArgKind::Table]);
const INDEX: ArgSpec = ArgSpec::new(2, &[ArgKind::Int, ArgKind::Table]);
const DEFAULT: ArgSpec = ArgSpec::new(1, &[ArgKind::Table, ArgKind::Int]);

const fn look_up(name: &'static str, args: ArgSpec, run: Run) -> ConverterDef {
    entry(name, (Type::Any, Type::Int), args, None, run, "What a stick table has of a key.")
}

fn run(ask: Ask, args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let (index, at) = match ask.has_index() {
        true => (args.int(0).and_then(|index| u16::try_from(index).ok()).unwrap_or(u16::MAX), 1),
        false => (0, 0),
    };
    let Some(table) = args.table(at).and_then(|id| cx.world.table(id)) else { return false };
    let Some(answer) = ask.of_key(index, *sample, table, cx) else { return false };
    sample.value = Value::Int(answer);
    true
}

/// What `look` says of the entry, or else the default.
fn time(args: &Args, sample: &mut Sample, cx: &mut Ctx, look: fn(&Table, Values, u64) -> u32) -> bool {
    let Some(table) = args.table(0).and_then(|id| cx.world.table(id)) else { return false };
    let now_ms = cx.now_ms();
    let found = with_key(sample, table, cx, |key| {
        table.read(key, now_ms, |values| i64::from(look(table, values, now_ms)))
    });
    let Some(answer) = found.flatten().or(args.int(1)) else { return false };
    sample.value = Value::Int(answer);
    true
}

fn is_in(args: &Args, sample: &mut Sample, cx: &mut Ctx) -> bool {
    let Some(table) = args.table(0).and_then(|id| cx.world.table(id)) else { return false };
    let now_ms = cx.now_ms();
    let found = with_key(sample, table, cx, |key| table.read(key, now_ms, |_| ()).is_some());
    // What cannot be a key is not in it.
    sample.value = Value::Bool(found.unwrap_or(false));
    true
}

macro_rules! table {
    ($($name:literal $args:ident $ask:expr;)+) => {
        &[
            entry("in_table", (Type::Any, Type::Bool), TABLE_NAME, None, is_in, "True when a key has an entry."),
            look_up("table_expire", DEFAULT, |a, s, cx| time(a, s, cx, |_, values, now| values.expires_in(now))),
            look_up("table_idle", DEFAULT, |a, s, cx| {
                time(a, s, cx, |table, values, now| {
                    table.spec().expire_ms.saturating_sub(values.expires_in(now))
                })
            }),
            $(look_up($name, $args, |a, s, cx| run($ask, a, s, cx)),)+
        ]
    };
}

/// The converters of this family.
pub static TABLE: &[ConverterDef] = table! {
    "table_bytes_in_rate" TABLE_NAME Ask::Value(BytesInRate);
    "table_bytes_in_rate_all" TABLE_NAME Ask::Sum(BytesInRate);
    "table_bytes_out_rate" TABLE_NAME Ask::Value(BytesOutRate);
    "table_bytes_out_rate_all" TABLE_NAME Ask::Sum(BytesOutRate);
    "table_clr_gpc" INDEX Ask::ClearElement;
    "table_clr_gpc0" TABLE_NAME Ask::Clear(Gpc0);
    "table_clr_gpc1" TABLE_NAME Ask::Clear(Gpc1);
    "table_conn_cnt" TABLE_NAME Ask::Value(ConnCnt);
    "table_conn_cnt_all" TABLE_NAME Ask::Sum(ConnCnt);
    "table_conn_cur" TABLE_NAME Ask::Value(ConnCur);
    "table_conn_cur_all" TABLE_NAME Ask::Sum(ConnCur);
    "table_conn_rate" TABLE_NAME Ask::Value(ConnRate);
    "table_conn_rate_all" TABLE_NAME Ask::Sum(ConnRate);
    "table_glitch_cnt" TABLE_NAME Ask::Value(GlitchCnt);
    "table_glitch_cnt_all" TABLE_NAME Ask::Sum(GlitchCnt);
    "table_glitch_rate" TABLE_NAME Ask::Value(GlitchRate);
    "table_glitch_rate_all" TABLE_NAME Ask::Sum(GlitchRate);
    "table_gpc" INDEX Ask::Element(Gpc);
    "table_gpc0" TABLE_NAME Ask::Value(Gpc0);
    "table_gpc0_all" TABLE_NAME Ask::Sum(Gpc0);
    "table_gpc0_rate" TABLE_NAME Ask::Value(Gpc0Rate);
    "table_gpc0_rate_all" TABLE_NAME Ask::Sum(Gpc0Rate);
    "table_gpc1" TABLE_NAME Ask::Value(Gpc1);
    "table_gpc1_all" TABLE_NAME Ask::Sum(Gpc1);
    "table_gpc1_rate" TABLE_NAME Ask::Value(Gpc1Rate);
    "table_gpc1_rate_all" TABLE_NAME Ask::Sum(Gpc1Rate);
    "table_gpc_all" INDEX Ask::SumOfElement(Gpc);
    "table_gpc_rate" INDEX Ask::Element(GpcRate);
    "table_gpc_rate_all" INDEX Ask::SumOfElement(GpcRate);
    "table_gpt" INDEX Ask::Element(Gpt);
    "table_gpt0" TABLE_NAME Ask::Value(Gpt0);
    "table_http_err_cnt" TABLE_NAME Ask::Value(HttpErrCnt);
    "table_http_err_cnt_all" TABLE_NAME Ask::Sum(HttpErrCnt);
    "table_http_err_rate" TABLE_NAME Ask::Value(HttpErrRate);
    "table_http_err_rate_all" TABLE_NAME Ask::Sum(HttpErrRate);
    "table_http_fail_cnt" TABLE_NAME Ask::Value(HttpFailCnt);
    "table_http_fail_cnt_all" TABLE_NAME Ask::Sum(HttpFailCnt);
    "table_http_fail_rate" TABLE_NAME Ask::Value(HttpFailRate);
    "table_http_fail_rate_all" TABLE_NAME Ask::Sum(HttpFailRate);
    "table_http_req_cnt" TABLE_NAME Ask::Value(HttpReqCnt);
    "table_http_req_cnt_all" TABLE_NAME Ask::Sum(HttpReqCnt);
    "table_http_req_rate" TABLE_NAME Ask::Value(HttpReqRate);
    "table_http_req_rate_all" TABLE_NAME Ask::Sum(HttpReqRate);
    "table_inc_gpc" INDEX Ask::CountElement;
    "table_inc_gpc0" TABLE_NAME Ask::Count(Gpc0, Gpc0Rate);
    "table_inc_gpc1" TABLE_NAME Ask::Count(Gpc1, Gpc1Rate);
    "table_kbytes_in" TABLE_NAME Ask::Kilobytes(BytesInCnt);
    "table_kbytes_in_all" TABLE_NAME Ask::SumOfKilobytes(BytesInCnt);
    "table_kbytes_out" TABLE_NAME Ask::Kilobytes(BytesOutCnt);
    "table_kbytes_out_all" TABLE_NAME Ask::SumOfKilobytes(BytesOutCnt);
    "table_server_id" TABLE_NAME Ask::Value(ServerId);
    "table_sess_cnt" TABLE_NAME Ask::Value(SessCnt);
    "table_sess_cnt_all" TABLE_NAME Ask::Sum(SessCnt);
    "table_sess_rate" TABLE_NAME Ask::Value(SessRate);
    "table_sess_rate_all" TABLE_NAME Ask::Sum(SessRate);
    "table_trackers" TABLE_NAME Ask::Trackers;
};
