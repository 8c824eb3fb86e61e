//! `limit`: so many requests per period, or at once, for each key, counted in a table made for the rule. Ours.

use super::connection::{Number, missed};
use super::{Action, Step};
use crate::compile;
use crate::effects::Effects;
use crate::errors::is_generated;
use crate::keyword::{ActionDef, RuleEnv, Rulesets, Words};
use crate::reply::{Body, Reply, ReplyUse};
use crate::ruleset::{Outcome, References};
use thalweg_sample::facts::RateLimit;
use thalweg_sample::track::with_key;
use thalweg_sample::{Ctx, Expr, TableId, Type};
use thalweg_stick::bucket::{Bucket, TOKENS_MAX};
use thalweg_stick::{DataType, Event, KeyType, Spec, Stored};

/// A limit for each key.
pub(crate) struct Limit {
    what: What,
    key: Expr,
    table: TableId,
    /// Requests beyond it pass, and are counted and logged.
    is_dry_run: bool,
    reply: Reply,
}

/// What is limited.
enum What {
    /// Requests per period.
    Rate { tokens: Number, period_ms: u32, burst: Option<u32> },
    /// Requests that are there at once.
    Concurrent(Number),
}

pub(crate) static ACTIONS: &[ActionDef] = &[ActionDef::new(
    "limit",
    Rulesets::HTTP_REQUEST,
    "{ rate { <n>/<period> | <expr> per <period> } [burst <n>] | concurrent { <n> | <expr> } } by <key> \
     [size <n>] [len <n>] [dry-run] [<reply>]",
    "refuses requests of a key beyond a rate or a number at once",
    limit,
)];

/// What is answered when nothing else is said.
const STATUS: u16 = 429;
/// Entries of the table when nothing else is said.
const SIZE: u32 = 100_000;
/// The longest text that is a key when nothing else is said, and at most. What is longer is cut.
const KEY_LEN: u16 = 64;
const KEY_LEN_MAX: u16 = 1024;
/// Nobody is counted as absent within this time after the last request at once.
const CONCURRENT_EXPIRE_MS: u32 = 60_000;
/// Periods that an entry is kept without requests: a bucket is full again by then, but for a burst of many periods.
const PERIODS_KEPT: u64 = 2;

/// The words between what is limited and the reply.
struct Options {
    key: Option<Expr>,
    size: u32,
    len: u16,
    burst: Option<u32>,
    is_dry_run: bool,
}

fn limit(words: &mut Words, env: &mut RuleEnv) -> Result<Action, String> {
    if env.compile.proxy.defaults {
        return Err("a limit has a table of its own, which a 'defaults' section cannot have".into());
    }
    let mut what = what(words, env)?;
    let mut options = Options { key: None, size: SIZE, len: KEY_LEN, burst: None, is_dry_run: false };
    options.read(words, env)?;
    let mut reply = Reply::parse(words, env, ReplyUse::Deny(STATUS))?;
    if matches!(reply.body, Body::Empty) && reply.headers.is_empty() && is_generated(reply.status) {
        // 'status' alone means what the proxy says with this status.
        reply.body = Body::ProxyErrors;
    }
    options.read(words, env)?;
    let key = options.key.ok_or("expects 'by <key>': what each limit is for, such as 'by src'")?;
    match &mut what {
        What::Rate { burst, .. } => *burst = options.burst,
        What::Concurrent(_) if options.burst.is_some() => {
            return Err("'burst' belongs to 'rate'".into());
        }
        What::Concurrent(_) => {}
    }
    let kind = key_type(key.output(), options.len);
    let table = env.tables.add(&|number| spec(&what, kind, options.size, env.compile.proxy.name, number));
    Ok(Action::Limit(Box::new(Limit { what, key, table, is_dry_run: options.is_dry_run, reply })))
}

fn what(words: &mut Words, env: &mut RuleEnv) -> Result<What, String> {
    const EXPECTS: &str = "expects 'rate <n>/<period>' or 'concurrent <n>'";
    match words.next() {
        Some("rate") => {}
        Some("concurrent") => {
            let word = words.next().ok_or(EXPECTS)?;
            return match word.parse::<u32>() {
                Ok(0) => Err("'concurrent 0' would refuse everything; use 'deny'".into()),
                Ok(n) => Ok(What::Concurrent(Number::Known(n.into()))),
                Err(_) => Ok(What::Concurrent(expression(word, env)?)),
            };
        }
        _ => return Err(EXPECTS.into()),
    }
    let word = words.next().ok_or(EXPECTS)?;
    let (tokens, period) = match word.split_once('/') {
        Some((n, period)) if n.bytes().all(|b| b.is_ascii_digit()) => {
            let tokens = n.parse().ok().filter(|n| (1..=TOKENS_MAX).contains(n));
            let tokens = tokens.ok_or_else(|| format!("'rate {word}': 1 to {TOKENS_MAX} per period"))?;
            (Number::Known(tokens.into()), period)
        }
        _ => {
            let tokens = expression(word, env)?;
            if !words.take("per") {
                return Err(format!(
                    "'rate {word}': expects <n>/<period>, or 'per <period>' after an expression"
                ));
            }
            (tokens, words.next().unwrap_or(""))
        }
    };
    if period.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("'rate {word}': the period needs a unit, such as 10s"));
    }
    let period_ms = compile::time_ms(period, env.compile).map_err(|e| e.plain())?;
    let period_ms = u32::try_from(period_ms).ok().filter(|ms| *ms > 0);
    let period_ms = period_ms.ok_or_else(|| format!("'rate {word}': the period is at least 1ms"))?;
    Ok(What::Rate { tokens, period_ms, burst: None })
}

fn expression(word: &str, env: &mut RuleEnv) -> Result<Number, String> {
    Ok(Number::Expr(Box::new(compile::expression(Some(word), env.compile)?)))
}

impl Options {
    fn read(&mut self, words: &mut Words, env: &mut RuleEnv) -> Result<(), String> {
        loop {
            if words.take("by") {
                if self.key.is_some() {
                    return Err("'by' is there twice".into());
                }
                self.key = Some(compile::expression(words.next(), env.compile)?);
            } else if words.take("burst") {
                self.burst = Some(number(words, "burst", TOKENS_MAX)?);
            } else if words.take("size") {
                self.size = number(words, "size", i32::MAX as u32)?;
            } else if words.take("len") {
                self.len = number(words, "len", KEY_LEN_MAX.into())? as u16;
            } else if words.take("dry-run") {
                self.is_dry_run = true;
            } else {
                return Ok(());
            }
        }
    }
}

/// A number from 1 to `most`.
fn number(words: &mut Words, name: &str, most: u32) -> Result<u32, String> {
    let word = words.next().unwrap_or("");
    let size = compile::size(word).ok().and_then(|n| u32::try_from(n).ok());
    size.filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("'{name} {word}': expects 1 to {most}"))
}

/// The keys of a table that takes all values of a type: an address may be of either family.
const fn key_type(output: Type, len: u16) -> KeyType {
    match output {
        Type::Ip4 => KeyType::Ip4,
        Type::Ip6 | Type::Addr => KeyType::Ip6,
        Type::Int | Type::Bool => KeyType::Integer,
        Type::Bin => KeyType::Binary(len),
        _ => KeyType::String(len),
    }
}

/// The table of a limit: how often each key came, and how often it was refused.
fn spec(what: &What, key: KeyType, size: u32, proxy: &str, number: usize) -> Spec {
    let (used, expire_ms) = match what {
        What::Rate { tokens, period_ms, burst } => {
            let fills = match tokens {
                Number::Known(tokens) => {
                    let tokens = *tokens as u32;
                    Bucket { tokens, period_ms: *period_ms, burst: burst.unwrap_or(tokens) }.fills_in_ms()
                }
                // Who is allowed less than the burst per period waits longer for a full one; that is not known here.
                Number::Expr(_) => u64::from(*period_ms) * PERIODS_KEPT,
            };
            let kept = fills.max(u64::from(*period_ms) * PERIODS_KEPT).min(i32::MAX as u64);
            (Stored { kind: DataType::HttpReqRate, count: 1, period_ms: *period_ms }, kept as u32)
        }
        What::Concurrent(_) => (Stored::one(DataType::ConnCur), CONCURRENT_EXPIRE_MS),
    };
    Spec {
        expire_ms,
        bucket: matches!(what, What::Rate { .. }),
        data: vec![Stored::one(DataType::Gpc0), used],
        ..Spec::new(format!("{PREFIX}{proxy}/{number}"), key, size)
    }
}

/// What the names of the tables of limits begin with, before that of their proxy.
const PREFIX: &str = "limit/";

impl Limit {
    pub fn resolve(&self, references: &References) -> Result<(), String> {
        self.reply.resolve(references)
    }

    pub fn run<'r>(&'r self, cx: &mut Ctx, fx: &mut Effects) -> Step<'r> {
        let sample = match self.key.eval(cx) {
            Some(sample) if sample.flags.may_change && !cx.last => return Step::Wait,
            Some(sample) => sample,
            // What has no key is not limited.
            None => return missed(cx),
        };
        let (What::Rate { tokens: most, .. } | What::Concurrent(most)) = &self.what;
        // Who has no limit in a map is not limited either.
        let Some(most) = most.eval(cx) else { return missed(cx) };
        let most = u32::try_from(most.max(0)).unwrap_or(u32::MAX);
        let allowed = match self.what {
            What::Rate { period_ms, burst, .. } => {
                let tokens = most.min(TOKENS_MAX);
                self.take(sample, Bucket { tokens, period_ms, burst: burst.unwrap_or(tokens).max(1) }, cx)
            }
            What::Concurrent(_) => self.enter(sample, most, cx),
        };
        if allowed {
            return Step::Next;
        }
        if self.is_dry_run {
            fx.would_refuse = Some(self.table);
            return Step::Next;
        }
        Step::Stop(Outcome::Deny(&self.reply))
    }

    /// Takes a token of the key's bucket. A table without room limits nobody.
    fn take(&self, mut sample: thalweg_sample::Sample, bucket: Bucket, cx: &mut Ctx) -> bool {
        let (now_ms, now_us, world) = (cx.now_ms(), cx.clock.mono_us, cx.world);
        let Some(table) = world.table(self.table) else { return true };
        let taken = with_key(&mut sample, table, cx, |key| {
            let entry = table.entry(key, now_ms).ok()?;
            let values = entry.values();
            values.count(Event::Request, 1, now_ms);
            values.touch(now_ms);
            let taken = values.take(bucket, now_us)?;
            if !taken.is_allowed {
                values.add(DataType::Gpc0, 1, now_ms);
            }
            Some(taken)
        });
        let Some(Some(taken)) = taken else { return true };
        if let Some(stream) = cx.stream.as_deref_mut() {
            // What a dry run would have refused is nothing that a client has to know.
            if !self.is_dry_run && stream.limit.is_none_or(|said| taken.left <= said.taken.left) {
                stream.limit = Some(RateLimit { bucket, taken });
            }
        }
        taken.is_allowed
    }

    /// Counts the request among those of its key for as long as it lasts.
    fn enter(&self, mut sample: thalweg_sample::Sample, most: u32, cx: &mut Ctx) -> bool {
        let (now_ms, world) = (cx.now_ms(), cx.world);
        let Some(table) = world.table(self.table) else { return true };
        let entered = with_key(&mut sample, table, cx, |key| table.track(key, Event::Tracked, now_ms));
        let Some(Ok(entered)) = entered else { return true };
        let there = entered.values().get(DataType::ConnCur, now_ms).unwrap_or(0);
        if there > u64::from(most) {
            entered.values().add(DataType::Gpc0, 1, now_ms);
            if !self.is_dry_run {
                return false;
            }
        }
        if let Some(stream) = cx.stream.as_deref_mut() {
            stream.tracking.keep(entered);
        }
        there <= u64::from(most)
    }
}
