//! ACLs and conditions (manual sections 7.1, 7.2 and 7.4).

mod flags;

use flags::Flags;

use crate::args::Arg;
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::expr::Expr;
use crate::fetch::{self, Iter, unsupported};
use crate::pattern::{Index, Method, Needle, PatternSet};
use crate::point::Points;
use crate::value::{Sample, Type, Value};
use crate::watch::{Unwatched, Watch};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use thalweg_syntax::carry::restore;
use thalweg_syntax::did_you_mean;

mod keywords;

pub use keywords::{KEYWORDS, Keyword, PREDEFINED};

/// The answer of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// True.
    Pass,
    /// False.
    Fail,
    /// Not known yet: more data is needed. Never given when the context says that no more will come.
    Miss,
}

impl Verdict {
    const fn not(self) -> Verdict {
        match self {
            Verdict::Pass => Verdict::Fail,
            Verdict::Fail => Verdict::Pass,
            Verdict::Miss => Verdict::Miss,
        }
    }

    const fn or(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Pass, _) | (_, Verdict::Pass) => Verdict::Pass,
            (Verdict::Miss, _) | (_, Verdict::Miss) => Verdict::Miss,
            _ => Verdict::Fail,
        }
    }

    const fn and(self, other: Verdict) -> Verdict {
        match (self, other) {
            (Verdict::Fail, _) | (_, Verdict::Fail) => Verdict::Fail,
            (Verdict::Miss, _) | (_, Verdict::Miss) => Verdict::Miss,
            _ => Verdict::Pass,
        }
    }
}

/// One test of an ACL: an expression whose values are compared with patterns.
pub struct Test {
    /// The expression.
    pub expr: Expr,
    /// How values are compared.
    pub method: Method,
    /// True when case does not matter.
    pub icase: bool,
    /// For `http_auth_group`, whose patterns are groups the user must be in: the groups.
    groups: Option<Vec<Box<[u8]>>>,
    /// The patterns.
    pub sets: SmallVec<[Arc<PatternSet>; 1]>,
    indexes: SmallVec<[Arc<Index>; 1]>,
}

/// A named list of tests, any of which makes it true; or an anonymous one.
pub struct Acl {
    /// Its name; none between braces.
    pub name: Option<Box<str>>,
    /// Its tests.
    pub tests: Vec<Test>,
}

impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Acl({})", self.name.as_deref().unwrap_or("{}"))
    }
}

impl Test {
    /// Compiles `<fetch or keyword> [flags] [operator] [patterns]`. `owner` says what it belongs to for `show acl`.
    fn compile(words: &[&str], owner: &str, env: &mut CompileEnv) -> Result<Test, String> {
        let Some(first) = words.first().filter(|w| !w.is_empty()) else {
            return Err("missing fetch method in ACL expression ''".into());
        };
        // Behind a comma that ends a word the converter may stand in the next one.
        let mut head = std::borrow::Cow::Borrowed(*first);
        let mut at = 1;
        while head.ends_with(',')
            && let Some(next) = words.get(at).filter(|next| is_converter(next))
        {
            head.to_mut().push_str(next);
            at += 1;
        }
        let (expr, keyword) = compile_head(&head, env)?;
        let mut method = keyword.map(|k| k.method);
        let natural = Method::default_for(expr.output());
        if method.is_none() || !expr.steps.is_empty() {
            method = natural;
        }
        let mut flags = Flags::default();
        let at = flags.read(words, at, &expr)?;
        let explicit = flags.method.is_some();
        let Flags { mut icase, as_map, no_lookup, files, forced, method: chosen } = flags;
        let Some(method) = chosen.or(method) else {
            return Err(format!(
                "matching method must be specified first (using '-m') when using a sample fetch of this type ('{}')",
                expr.output().name()
            ));
        };
        if keyword.is_some_and(|k| k.suffixed() && k.method != method) {
            env.warnings.push(format!(
                "original matching method '{}' was overwritten and will not be applied as expected",
                &first[..first.find(['(', ',']).unwrap_or(first.len())]
            ));
        }
        if keyword.is_some_and(|k| k.name == "method") && !explicit && expr.steps.is_empty() {
            // The keyword compares methods, and methods have a case.
            icase = false;
        }
        let patterns = parse_words(method, &words[at.min(words.len())..], !no_lookup, env)?;
        let mut test =
            Test { expr, method, icase, groups: None, sets: SmallVec::new(), indexes: SmallVec::new() };
        if patterns.is_empty()
            && files.is_empty()
            && !forced
            && !matches!(method, Method::Found | Method::Bool)
        {
            env.warnings.push(format!(
                "parsing acl keyword '{}' :\n  no pattern to match against were provided, so this ACL will never match.\n  \
                 If this is what you intended, please add '--' to get rid of this warning.\n  If you intended to match \
                 only for existence, please use '-m found'.\n  If you wanted to force an int to match as a bool, please \
                 use '-m bool'.\n",
                first
            ));
        }
        test.take_patterns(&patterns, &files, as_map, owner, env)?;
        if test.expr.fetch.name == "http_auth_group" && test.expr.steps.is_empty() {
            let entries = test.sets.iter().flat_map(|set| set.entries(None, 0, usize::MAX));
            test.groups = Some(entries.map(|e| e.key.into_boxed_slice()).collect());
        }
        Ok(test)
    }

    /// The sets that it looks in: those of the files, and one of the patterns on its line.
    fn take_patterns(
        &mut self,
        patterns: &[String],
        files: &[&str],
        as_map: bool,
        owner: &str,
        env: &mut CompileEnv,
    ) -> Result<(), String> {
        let place = format!("by {owner} at file '{}' line {}", env.file, env.line);
        for file in files {
            let names = env.names;
            let set = env.registry.open(file, as_map, &place, |path| names.read_file(path))?;
            self.use_set(set)?;
        }
        if !patterns.is_empty() || self.sets.is_empty() {
            let texts: Vec<Cow<[u8]>> = patterns.iter().map(|p| restore(p.as_bytes())).collect();
            let texts: Vec<&[u8]> = texts.iter().map(|text| &**text).collect();
            for text in &texts {
                crate::pattern::parse::validate(self.method, self.icase, text)?;
            }
            let set = env.registry.inline(&texts, &place)?;
            self.use_set(set)?;
        }
        Ok(())
    }

    fn use_set(&mut self, set: Arc<PatternSet>) -> Result<(), String> {
        let index = set.index(self.method, self.icase)?;
        self.sets.push(set);
        self.indexes.push(index);
        Ok(())
    }

    /// Evaluates it over every value of its expression.
    pub fn eval(&self, cx: &mut Ctx) -> Verdict {
        self.eval_with(cx, &mut Unwatched)
    }

    fn eval_with<W: Watch + ?Sized>(&self, cx: &mut Ctx, watch: &mut W) -> Verdict {
        let mut iter = Iter { every: true, ..Iter::default() };
        let mut miss = false;
        let mut seen = false;
        loop {
            let mark = cx.mark();
            cx.may_change = false;
            let Some(sample) = self.expr.eval_next(cx, &mut iter) else {
                miss |= cx.may_change;
                cx.release(mark);
                if watch.is_on() && !seen {
                    watch.value(self.expr.text(), None, false);
                }
                break;
            };
            let flags = sample.flags;
            let matched = self.matches(sample, cx);
            if watch.is_on() {
                seen = true;
                let mut shown = sample;
                let text = shown.cast(Type::Str, cx).then(|| cx.bytes(&shown.value));
                watch.value(self.expr.text(), text, matched);
            }
            cx.release(mark);
            if matched {
                return Verdict::Pass;
            }
            miss |= flags.may_change;
            if !flags.not_last {
                break;
            }
        }
        if miss && !cx.last { Verdict::Miss } else { Verdict::Fail }
    }

    /// Compares one value with the patterns.
    pub fn matches(&self, mut sample: Sample, cx: &mut Ctx) -> bool {
        if self.method == Method::Found {
            return true;
        }
        if !sample.cast(self.method.input(), cx) {
            return false;
        }
        if let (Some(groups), Some(Arg::Userlist(list))) = (&self.groups, self.expr.args.0.first()) {
            let user = cx.bytes(&sample.value);
            return groups.iter().any(|group| cx.world.user_in_group(*list, user, group));
        }
        // The cache is taken out for the time of the search: the value's text is borrowed from the context.
        let mut cache = std::mem::take(&mut cx.scratch.snapshots);
        let needle = match sample.value {
            Value::Bool(b) => {
                cx.scratch.snapshots = cache;
                return b;
            }
            Value::Int(i) => Needle::Int(i),
            Value::Ip4(ip) => Needle::Ip(ip.into()),
            Value::Ip6(ip) => Needle::Ip(ip.into()),
            Value::Str(t) | Value::Bin(t) | Value::Method(t) if self.method == Method::Len => {
                Needle::Int(t.len() as i64)
            }
            Value::Str(t) | Value::Bin(t) | Value::Method(t) => Needle::Bytes(cx.text(t)),
        };
        let found = self.indexes.iter().any(|index| index.find(&mut cache, needle, true, |_| ()).is_some());
        cx.scratch.snapshots = cache;
        found
    }
}

/// Finds what the first word of an ACL means: a keyword derived from a fetch, or a fetch; with converters.
fn compile_head(word: &str, env: &mut CompileEnv) -> Result<(Expr, Option<&'static Keyword>), String> {
    let name_len = word.find(['(', ',']).unwrap_or(word.len());
    let name = &word[..name_len];
    match KEYWORDS.iter().find(|k| k.name == name) {
        Some(keyword) => {
            let text = format!("{}{}", keyword.fetch, &word[name_len..]);
            let mut expr = Expr::compile(&text, env)
                .map_err(|e| format!("ACL keyword '{name}' : {}", strip_fetch_prefix(&e)))?;
            expr.set_text(word);
            Ok((expr, Some(keyword)))
        }
        None => {
            let expr = Expr::compile(word, env).map_err(|e| {
                if fetch::find(name).is_none() && unsupported::reason(name).is_none() {
                    // The keywords of ACLs are as likely to be meant as the fetches they stand for.
                    let known = KEYWORDS.iter().map(|k| k.name).chain(fetch::all().map(|def| def.name));
                    let hint = did_you_mean(name, known);
                    let hint = hint.map_or(String::new(), |hint| format!("; did you mean '{hint}' maybe ?"));
                    return format!("unknown fetch method '{name}' in ACL expression '{word}'{hint}");
                }
                // Problems of converters are told without the expression, as the reference does.
                if e.contains("converter") && fetch::find(name).is_some() {
                    format!("ACL keyword '{name}' : {e}")
                } else {
                    format!("{e} in ACL expression '{word}'")
                }
            })?;
            Ok((expr, None))
        }
    }
}

/// Whether a word begins with a converter; others are patterns.
fn is_converter(word: &str) -> bool {
    let name = &word[..word.find(['(', ',']).unwrap_or(word.len())];
    crate::converter::find(name).is_some()
}

fn strip_fetch_prefix(error: &str) -> &str {
    match error.strip_prefix("fetch method '") {
        Some(rest) => rest.split_once("' : ").map_or(error, |(_, text)| text),
        None => error,
    }
}

/// A pattern for integers, behind this operator.
fn number_or_range(
    word: &str,
    operator: &str,
    env: &mut CompileEnv,
) -> Result<crate::pattern::parse::Range, String> {
    let why = match crate::pattern::parse::range(word) {
        // Who writes a range from a negative number on says `ge`, as with the reference.
        Ok(range) if word.starts_with('-') && range.min != range.max => {
            return Err(format!("'{word}' is not a valid number range"));
        }
        Ok(range) => return Ok(range),
        Err(why) => why,
    };
    // The reference compares with what is before a point.
    let (value, read) = crate::value::leading_int(word.as_bytes());
    let is_number = word[..read].ends_with(|c: char| c.is_ascii_digit()) && !word.starts_with(['-', '+']);
    if operator == "eq" || !is_number || !word[read..].starts_with('.') {
        return Err(why);
    }
    env.warnings.push(format!("'{word}' is not a number: '{operator} {value}' is what is tested."));
    Ok(crate::pattern::parse::Range { min: value, max: value })
}

/// The patterns written on the line. For integers, operators change what follows them.
fn parse_words(
    method: Method,
    words: &[&str],
    resolve: bool,
    env: &mut CompileEnv,
) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    match method {
        Method::Int | Method::Len | Method::Version => {
            let mut operator = "eq";
            for word in words {
                match *word {
                    "eq" | "ge" | "gt" | "le" | "lt" => {
                        operator = word;
                        continue;
                    }
                    _ => {}
                }
                let range = match method {
                    Method::Version => crate::pattern::parse::version_range(word)?,
                    _ => number_or_range(word, operator, env)?,
                };
                if operator != "eq" && range.min != range.max {
                    env.warnings
                        .push(format!("operator '{operator}' changes nothing about the range '{word}'"));
                    out.push((*word).to_string());
                    continue;
                }
                if operator == "gt" && range.min == i64::MAX || operator == "lt" && range.min == i64::MIN {
                    return Err(format!("'{word}' has no number beyond it for operator '{operator}'"));
                }
                let step = |by: i64| -> String {
                    let value = range.min.saturating_add(by);
                    if method == Method::Version {
                        format!("{}.{}", value >> 16, value & 0xffff)
                    } else {
                        value.to_string()
                    }
                };
                out.push(match operator {
                    "ge" => format!("{}:", step(0)),
                    "gt" => format!("{}:", step(1)),
                    "le" => format!(":{}", step(0)),
                    "lt" => format!(":{}", step(-1)),
                    _ => (*word).to_string(),
                });
            }
        }
        Method::Ip => {
            for word in words {
                match crate::pattern::parse::net(word) {
                    Ok(_) => out.push((*word).to_string()),
                    Err(why) => {
                        let found = if resolve { env.names.resolve(word) } else { Vec::new() };
                        if found.is_empty() {
                            return Err(why);
                        }
                        out.extend(found.iter().map(ToString::to_string));
                    }
                }
            }
        }
        _ => out.extend(words.iter().map(|w| (*w).to_string())),
    }
    Ok(out)
}

impl Acl {
    /// True when one of its tests is.
    pub fn eval(&self, cx: &mut Ctx) -> Verdict {
        self.eval_with(cx, &mut Unwatched)
    }

    fn eval_with<W: Watch + ?Sized>(&self, cx: &mut Ctx, watch: &mut W) -> Verdict {
        let mut verdict = Verdict::Fail;
        for test in &self.tests {
            verdict = verdict.or(test.eval_with(cx, watch));
            if verdict == Verdict::Pass {
                break;
            }
        }
        verdict
    }

    /// Warns when some or all tests cannot work at `points`.
    fn check_points(&self, points: Points, warnings: &mut Vec<String>) {
        let Some(place) = points.first() else { return };
        let bad: Vec<&Test> = self.tests.iter().filter(|t| !t.expr.fetch.points.meets(points)).collect();
        let Some(first) = bad.first() else { return };
        let keyword = first.expr.text();
        let keyword = &keyword[..keyword.find(['(', ',']).unwrap_or(keyword.len())];
        warnings.push(match &self.name {
            None => format!(
                "'anonymous acl will never match because it uses keyword '{keyword}' which is incompatible with '{}'",
                place.name()
            ),
            Some(name) if bad.len() == self.tests.len() => format!(
                "'acl '{name}' will never match because it only involves keywords that are incompatible with '{}'",
                place.name()
            ),
            Some(name) => format!(
                "'acl '{name}' involves keywords '{keyword}' which is incompatible with '{}'",
                place.name()
            ),
        });
    }
}

/// The named ACLs of a proxy, in order.
#[derive(Clone, Debug, Default)]
pub struct AclSet {
    acls: Vec<Arc<Acl>>,
    /// Names of lines that could not be read: what uses them has been explained once.
    broken: HashSet<Box<str>>,
}

impl AclSet {
    /// Adds the tests of an `acl` line, whose words follow the word `acl`. `warnings` and late errors go to `env`.
    ///
    /// # Errors
    /// The text of the problem, without its location.
    pub fn add(&mut self, words: &[&str], env: &mut CompileEnv) -> Result<(), String> {
        let name = words.first().copied().unwrap_or("");
        if name.is_empty() {
            return Err("missing ACL name".into());
        }
        if let Some(bad) =
            name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.' | ':'))
        {
            return Err(format!("character '{bad}' is not permitted in acl name '{name}'"));
        }
        if name.eq_ignore_ascii_case("or") {
            return Err(format!(
                "acl name '{name}' will never match. 'or' is used to express a logical disjunction within a condition"
            ));
        }
        let owner = format!("acl '{name}'");
        let test = Test::compile(&words[1..], &owner, env).map_err(|e| {
            self.broken.insert(name.into());
            format!("error detected while parsing ACL '{name}' : {e}")
        })?;
        match self.acls.iter_mut().find(|acl| acl.name.as_deref() == Some(name)) {
            // Conditions that were compiled before keep the tests known then, as they should.
            Some(acl) => match Arc::get_mut(acl) {
                Some(acl) => acl.tests.push(test),
                None => {
                    let mut tests: Vec<Test> = acl.tests.iter().map(Test::share).collect();
                    tests.push(test);
                    *acl = Arc::new(Acl { name: acl.name.clone(), tests });
                }
            },
            None => self.acls.push(Arc::new(Acl { name: Some(name.into()), tests: vec![test] })),
        }
        Ok(())
    }

    /// The ACL named `name`.
    pub fn find(&self, name: &str) -> Option<&Arc<Acl>> {
        self.acls.iter().find(|acl| acl.name.as_deref() == Some(name))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Acl>> {
        self.acls.iter()
    }
}

impl Test {
    fn share(&self) -> Test {
        Test {
            expr: self.expr.clone(),
            method: self.method,
            icase: self.icase,
            groups: self.groups.clone(),
            sets: self.sets.clone(),
            indexes: self.indexes.clone(),
        }
    }
}

/// An ACL by its name: a named one of the section, or a predefined one.
pub(crate) fn named(name: &str, env: &mut CompileEnv) -> Result<Arc<Acl>, String> {
    if let Some(acl) = env.acls.and_then(|acls| acls.find(name)) {
        return Ok(Arc::clone(acl));
    }
    if env.acls.is_some_and(|acls| acls.broken.contains(name)) {
        return Ok(Arc::new(Acl { name: Some(name.into()), tests: Vec::new() }));
    }
    let Some((_, words)) = PREDEFINED.iter().find(|(known, _)| *known == name) else {
        if name.eq_ignore_ascii_case("and") {
            return Err(format!(
                "no such ACL : '{name}'; terms that follow each other must all hold, 'and' is not written"
            ));
        }
        let ours = env.acls.iter().flat_map(|acls| acls.iter()).filter_map(|acl| acl.name.as_deref());
        let hint = did_you_mean(name, ours.chain(PREDEFINED.iter().map(|(known, _)| *known)));
        let hint = hint.map_or(String::new(), |hint| format!("; did you mean '{hint}' maybe ?"));
        return Err(format!("no such ACL : '{name}'{hint}"));
    };
    let test = Test::compile(words, &format!("acl '{name}'"), env)?;
    Ok(Arc::new(Acl { name: Some(name.into()), tests: vec![test] }))
}

/// Terms that must all hold, each with its `!`.
pub type Terms = SmallVec<[(bool, Arc<Acl>); 2]>;

/// A condition: alternatives of terms that must all hold.
pub struct Condition {
    /// True for `unless`.
    pub negated: bool,
    /// Alternatives; each is a list of terms with their `!`.
    pub alternatives: Vec<Terms>,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({}{:?})", if self.negated { "unless " } else { "" }, self.alternatives)
    }
}

impl Condition {
    /// Compiles the words from `if` or `unless` on.
    ///
    /// # Errors
    /// The text of the problem, such as `no such ACL : 'x'`, without its location.
    pub fn compile(words: &[&str], env: &mut CompileEnv) -> Result<Condition, String> {
        let negated = match words.first().copied() {
            Some("if") => false,
            Some("unless") => true,
            other => {
                return Err(format!(
                    "expects either 'if' or 'unless' followed by a condition but found '{}'",
                    other.unwrap_or("")
                ));
            }
        };
        let mut alternatives = vec![SmallVec::new()];
        let mut not = false;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let mut word = *word;
            at += 1;
            if word.eq_ignore_ascii_case("or") || word == "||" {
                // An alternative without any term is what the reference makes of stray words: never true.
                alternatives.push(SmallVec::new());
                not = false;
                continue;
            }
            while let Some(rest) = word.strip_prefix('!') {
                not = !not;
                word = rest;
            }
            if word.is_empty() {
                continue;
            }
            let acl = if word == "{" {
                let Some(end) = words[at..].iter().position(|w| *w == "}") else {
                    return Err("missing closing '}' in condition".into());
                };
                let test = Test::compile(&words[at..at + end], "an anonymous acl", env)?;
                at += end + 1;
                Arc::new(Acl { name: None, tests: vec![test] })
            } else {
                named(word, env)?
            };
            let points = env.points;
            acl.check_points(points, &mut env.warnings);
            env.raw_bytes |= acl.tests.iter().any(|test| test.expr.fetch.reads_raw_bytes());
            if let Some(last) = alternatives.last_mut() {
                last.push((not, acl));
            }
            not = false;
        }
        Ok(Condition { negated, alternatives })
    }

    /// Evaluates it.
    pub fn eval(&self, cx: &mut Ctx) -> Verdict {
        self.eval_with(cx, &mut Unwatched)
    }

    /// The same, while whoever watches this thread is told.
    pub fn eval_watched(&self, cx: &mut Ctx) -> Verdict {
        match cx.scratch.watch.take() {
            None => self.eval(cx),
            Some(mut watch) => {
                let verdict = self.eval_with(cx, &mut *watch);
                cx.scratch.watch = Some(watch);
                verdict
            }
        }
    }

    /// The same, while `watch` is told.
    pub fn eval_with<W: Watch + ?Sized>(&self, cx: &mut Ctx, watch: &mut W) -> Verdict {
        let mut verdict = Verdict::Fail;
        for terms in &self.alternatives {
            if terms.is_empty() && self.alternatives.len() > 1 {
                continue;
            }
            let mut all = if terms.is_empty() { Verdict::Fail } else { Verdict::Pass };
            for (not, acl) in terms {
                let term = acl.eval_with(cx, watch);
                if watch.is_on() {
                    watch.acl(acl.name.as_deref(), *not, term);
                }
                all = all.and(if *not { term.not() } else { term });
                if all == Verdict::Fail {
                    break;
                }
            }
            verdict = verdict.or(all);
            if verdict == Verdict::Pass {
                break;
            }
        }
        let verdict = if self.negated { verdict.not() } else { verdict };
        if watch.is_on() {
            watch.condition(verdict);
        }
        verdict
    }

    /// Evaluates it when no more data is awaited: true or false.
    pub fn holds(&self, cx: &mut Ctx) -> bool {
        self.eval(cx) == Verdict::Pass
    }

    /// True when some term may have to wait for data.
    pub fn fetch_points(&self) -> Points {
        self.alternatives
            .iter()
            .flatten()
            .flat_map(|(_, acl)| &acl.tests)
            .fold(Points::ALL, |all, test| Points(all.0 & test.expr.fetch.points.0))
    }
}

/// The arguments of the `acl()` fetch, compiled.
pub(crate) struct AclList(pub Vec<(bool, Arc<Acl>)>);

/// Compiles the arguments of the `acl()` fetch: names of ACLs, with an optional `!`.
pub(crate) fn compile_list(args: &mut crate::args::Args, env: &mut CompileEnv) -> Result<(), String> {
    let mut list = Vec::new();
    for i in 0..args.len() {
        let text = String::from_utf8_lossy(args.str(i).unwrap_or(b"")).into_owned();
        let (not, name) = match text.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, &text[..]),
        };
        let acl = named(name.trim(), env).map_err(|_| format!("ACL '{name}' not found"))?;
        list.push((not, acl));
    }
    args.put(0, Arg::Compiled(Arc::new(AclList(list))));
    Ok(())
}

#[cfg(test)]
mod tests;
