//! Many rules of the same shape turned into one lookup.
//!
//! A list of rules such as `use_backend X if { hdr(host) -i name }` is searched for the first one whose condition holds.
//! Evaluated one by one, ten thousand rules cost a thousand times what ten cost. [`Dispatch`] finds in each condition a
//! term that compares a value with constant patterns; terms that look at the same value in the same way form a group with one search
//! structure from pattern to rule. To choose, the value of each group is computed once, the structure names the rules
//! that may hold, and only those are looked at, in their order. What cannot be indexed is evaluated as always.

use crate::acl::{Acl, Condition, Terms, Test, Verdict};
use crate::context::Ctx;
use crate::fetch::{self, Iter};
use crate::pattern::block::{Block, BlockBuilder};
use crate::pattern::index::Structure;
use crate::pattern::{Method, Needle, Registry};
use crate::value::Value;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

use thalweg_shared::{AtomicU64, Ordering};

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The first rule that holds.
    Rule(usize),
    /// None holds.
    None,
    /// The first rule that could hold needs more data.
    Miss,
}

/// Fewer rules than this are evaluated one by one.
const RULES_MIN: usize = 4;

/// Conditions in order, indexed.
#[derive(Debug)]
pub struct Dispatch {
    rules: Vec<Option<Condition>>,
    groups: Vec<Group>,
    /// Rules that are not indexed, ascending.
    plain: Vec<u32>,
    changes: Arc<AtomicU64>,
    built_at: u64,
}

/// Terms that look at the same value in the same way.
#[derive(Debug)]
struct Group {
    /// One of the tests: its expression and method stand for all.
    probe: Arc<Acl>,
    block: Block,
    structure: Structure,
}

/// The value and the comparison of a term.
type Shape = (&'static str, String, Method, bool);

/// What an ACL that can be indexed compares, and its patterns.
type Indexable = Option<(Shape, Vec<Vec<u8>>)>;

/// A pattern, the rule it selects, and whether that decides.
type Entry = (Vec<u8>, u32, bool);

/// Converters that do something, or whose result depends on more than their input.
const EFFECTS: &[&str] = &["set-var", "unset-var", "capture-req", "capture-res", "debug", "when", "add_item"];

/// The shape of a test, if it can be indexed.
fn shape(test: &Test) -> Option<Shape> {
    let listed = matches!(
        test.method,
        Method::Str
            | Method::Beg
            | Method::End
            | Method::Dir
            | Method::Dom
            | Method::Sub
            | Method::Ip
            | Method::Bin
    );
    let name = test.expr.fetch.name;
    // Only fetches that give the same value each time they are asked: all but those of the process's own state.
    let stable = fetch::internal::TABLE.iter().all(|def| def.name != name) && name != "http_auth_group";
    let pure = test.expr.steps.iter().all(|step| !EFFECTS.contains(&step.def.name));
    let constant = test.sets.iter().all(|set| set.name().is_none());
    if !(listed && stable && pure && constant) {
        return None;
    }
    let text = test.expr.text();
    let rest = &text[text.find(['(', ',']).unwrap_or(text.len())..];
    Some((name, rest.to_string(), test.method, test.icase))
}

/// The common shape of an ACL's tests and all their patterns.
fn acl_shape(acl: &Acl) -> Indexable {
    let first = shape(acl.tests.first()?)?;
    let mut patterns = Vec::new();
    for test in &acl.tests {
        if shape(test)? != first {
            return None;
        }
        for set in &test.sets {
            patterns.extend(set.keys());
        }
    }
    Some((first, patterns))
}

impl Dispatch {
    /// Indexes `rules`; a rule without a condition always holds.
    pub fn new(rules: Vec<Option<Condition>>, registry: &Registry) -> Dispatch {
        let changes = registry.inline_changes();
        let built_at = changes.load(Ordering::Acquire);
        let mut dispatch = Dispatch { rules, groups: Vec::new(), plain: Vec::new(), changes, built_at };
        dispatch.index();
        dispatch
    }

    fn index(&mut self) {
        if self.rules.len() < RULES_MIN {
            self.plain = (0..self.rules.len() as u32).collect();
            return;
        }
        // How often each pattern of each shape occurs: the rarest term of a rule is the best one to find it by.
        let mut known: HashMap<*const Acl, Indexable> = HashMap::new();
        let mut frequency: HashMap<(&Shape, &[u8]), usize> = HashMap::new();
        for acl in self.rules.iter().flatten().flat_map(|c| &c.alternatives).flatten().map(|(_, acl)| acl) {
            known.entry(Arc::as_ptr(acl)).or_insert_with(|| acl_shape(acl));
        }
        for acl in self.rules.iter().flatten().flat_map(|c| &c.alternatives).flatten().map(|(_, acl)| acl) {
            if let Some(Some((shape, patterns))) = known.get(&Arc::as_ptr(acl)) {
                for pattern in patterns {
                    *frequency.entry((shape, pattern)).or_default() += 1;
                }
            }
        }
        let best_term = |terms: &Terms| -> Option<Arc<Acl>> {
            let usable = terms.iter().filter(|(not, _)| !not).filter_map(|(_, acl)| {
                let (shape, patterns) = known.get(&Arc::as_ptr(acl))?.as_ref()?;
                let worst =
                    patterns.iter().map(|p| frequency.get(&(shape, &p[..])).copied().unwrap_or(0)).max();
                Some((worst.unwrap_or(0), acl))
            });
            usable.min_by_key(|(worst, _)| *worst).map(|(_, acl)| Arc::clone(acl))
        };
        let mut found: Vec<(Shape, Arc<Acl>, Vec<Entry>)> = Vec::new();
        let mut group_of: HashMap<Shape, usize> = HashMap::new();
        for (i, rule) in self.rules.iter().enumerate() {
            let i = i as u32;
            let terms = match rule {
                Some(c) if !c.negated => c.alternatives.iter().map(&best_term).collect::<Option<Vec<_>>>(),
                _ => None,
            };
            let (Some(terms), Some(condition)) = (terms, rule) else {
                self.plain.push(i);
                continue;
            };
            for (acl, all) in terms.iter().zip(&condition.alternatives) {
                let Some(Some((shape, patterns))) = known.get(&Arc::as_ptr(acl)) else { continue };
                let at = *group_of.entry(shape.clone()).or_insert_with(|| {
                    found.push((shape.clone(), Arc::clone(acl), Vec::new()));
                    found.len() - 1
                });
                let decided = all.len() == 1;
                found[at].2.extend(patterns.iter().map(|p| (p.clone(), i, decided)));
            }
        }
        for ((_, _, method, icase), probe, entries) in found {
            let mut builder = BlockBuilder::sequential(0);
            for (pattern, rule, decided) in &entries {
                let mut value = rule.to_le_bytes().to_vec();
                value.push(u8::from(*decided));
                builder.push(pattern, &value, 0);
            }
            let block = builder.build();
            match Structure::build(method, icase, &block) {
                Ok(structure) => self.groups.push(Group { probe, block, structure }),
                Err(_) => {
                    // Too many patterns for one structure: these rules stay as they are.
                    self.plain.extend(entries.iter().map(|(_, rule, _)| *rule));
                }
            }
        }
        self.plain.sort_unstable();
        self.plain.dedup();
    }

    /// The rules.
    pub fn rules(&self) -> &[Option<Condition>] {
        &self.rules
    }

    /// How many rules are found through an index.
    pub fn indexed(&self) -> usize {
        self.rules.len() - self.plain.len()
    }

    /// The first rule from number `from` on that holds.
    pub fn first(&self, cx: &mut Ctx, from: usize) -> Choice {
        if self.groups.is_empty() || self.changes.load(Ordering::Acquire) != self.built_at {
            return self.scan(cx, from);
        }
        let from = from as u32;
        let mut candidates: SmallVec<[(u32, bool); 32]> = SmallVec::new();
        for group in &self.groups {
            if !group.candidates(cx, from, &mut candidates) {
                // More data is needed to tell: the order of answers matters then.
                return self.scan(cx, from as usize);
            }
        }
        // A rule that is decided comes before the same rule that is not.
        candidates.sort_unstable_by_key(|(rule, decided)| (*rule, !*decided));
        candidates.dedup_by_key(|(rule, _)| *rule);
        let mut indexed = candidates.into_iter().peekable();
        let start = self.plain.partition_point(|rule| *rule < from);
        let mut plain = self.plain[start..].iter().copied().peekable();
        loop {
            let (rule, decided) = match (indexed.peek(), plain.peek()) {
                (Some(&(a, decided)), Some(&b)) if a < b => {
                    indexed.next();
                    (a, decided)
                }
                (Some(&(a, decided)), None) => {
                    indexed.next();
                    (a, decided)
                }
                (_, Some(&b)) => {
                    plain.next();
                    (b, false)
                }
                (None, None) => return Choice::None,
            };
            if decided {
                return Choice::Rule(rule as usize);
            }
            match self.holds(rule as usize, cx) {
                Verdict::Pass => return Choice::Rule(rule as usize),
                Verdict::Miss => return Choice::Miss,
                Verdict::Fail => {}
            }
        }
    }

    fn holds(&self, rule: usize, cx: &mut Ctx) -> Verdict {
        match &self.rules[rule] {
            Some(condition) => condition.eval(cx),
            None => Verdict::Pass,
        }
    }

    /// The same answer, one rule after the other.
    pub fn scan(&self, cx: &mut Ctx, from: usize) -> Choice {
        for rule in from..self.rules.len() {
            match self.holds(rule, cx) {
                Verdict::Pass => return Choice::Rule(rule),
                Verdict::Miss => return Choice::Miss,
                Verdict::Fail => {}
            }
        }
        Choice::None
    }
}

impl Group {
    /// Adds the rules that the group's value names; false when the value is not known yet.
    fn candidates(&self, cx: &mut Ctx, from: u32, out: &mut SmallVec<[(u32, bool); 32]>) -> bool {
        let Some(test) = self.probe.tests.first() else { return true };
        let mut iter = Iter { every: true, ..Iter::default() };
        loop {
            let mark = cx.mark();
            cx.may_change = false;
            let Some(mut sample) = test.expr.eval_next(cx, &mut iter) else {
                cx.release(mark);
                return !cx.may_change || cx.last;
            };
            let flags = sample.flags;
            if sample.cast(test.method.input(), cx) {
                let needle = match sample.value {
                    Value::Ip4(ip) => Some(Needle::Ip(ip.into())),
                    Value::Ip6(ip) => Some(Needle::Ip(ip.into())),
                    value => value.text().map(|text| Needle::Bytes(cx.text(text))),
                };
                if let Some(needle) = needle {
                    self.structure.each(&self.block, needle, |record| {
                        if let &[a, b, c, d, decided] = self.block.value_at(record) {
                            let rule = u32::from_le_bytes([a, b, c, d]);
                            if rule >= from {
                                out.push((rule, decided != 0));
                            }
                        }
                        true
                    });
                }
            }
            cx.release(mark);
            if flags.may_change && !cx.last {
                return false;
            }
            if !flags.not_last {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    fn dispatch(rig: &mut Rig, conditions: &[String]) -> Dispatch {
        let rules = conditions
            .iter()
            .map(|text| {
                let words: Vec<&str> = text.split(' ').collect();
                Some(rig.compile(|env| Condition::compile(&words, env)).unwrap())
            })
            .collect();
        Dispatch::new(rules, &rig.registry)
    }

    fn request(host: &str, path: &str) -> Rig {
        Rig::with_request(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nX: a,b\r\n\r\n"))
    }

    /// The index and the plain scan must agree.
    fn agree(rig: &mut Rig, dispatch: &Dispatch) -> Choice {
        let fast = rig.run(|cx| dispatch.first(cx, 0));
        let slow = rig.run(|cx| dispatch.scan(cx, 0));
        assert_eq!(fast, slow);
        fast
    }

    #[test]
    fn many_hosts_are_one_lookup_and_order_is_kept() {
        let mut rig = request("H77.example", "/");
        let mut conditions: Vec<String> =
            (0..1000).map(|i| format!("if {{ hdr(host) -i h{i}.example }}")).collect();
        conditions.push("if { hdr(host) -i h77.example }".into());
        let all = dispatch(&mut rig, &conditions);
        assert_eq!(all.indexed(), 1001);
        assert_eq!(agree(&mut rig, &all), Choice::Rule(77));
        assert_eq!(rig.run(|cx| all.first(cx, 78)), Choice::Rule(1000));
        let mut other = request("none", "/");
        assert_eq!(other.run(|cx| all.first(cx, 0)), Choice::None);
    }

    #[test]
    fn prefixes_take_the_first_rule_not_the_longest() {
        let mut rig = request("h", "/a/b/c");
        let conditions: Vec<String> =
            ["/x", "/a/b", "/a", "/a/b/c", "/"].iter().map(|p| format!("if {{ path_beg {p} }}")).collect();
        let all = dispatch(&mut rig, &conditions);
        assert_eq!(all.indexed(), 5);
        assert_eq!(agree(&mut rig, &all), Choice::Rule(1));
    }

    #[test]
    fn mixed_rules_agree_with_the_scan() {
        let mut rig = request("h1", "/a/b");
        let conditions: Vec<String> = [
            "if { hdr(host) h1 } { path_beg /z }",
            "if { hdr(host) h2 }",
            "unless { hdr(host) h1 }",
            "if { src 10.0.0.0/8 } or { path_end .png }",
            "if !{ hdr(host) h1 } { path_beg /a }",
            "if { hdr(host) h1 } !{ path_beg /a }",
            "if { rand(10) gt 20 }",
            "if { hdr(x) b } { path_reg ^/a }",
            "if { hdr(host) h1 }",
            "if TRUE",
        ]
        .map(String::from)
        .to_vec();
        let all = dispatch(&mut rig, &conditions);
        assert_eq!(agree(&mut rig, &all), Choice::Rule(7));
        for (host, path) in [("h2", "/"), ("h3", "/a"), ("h1", "/z"), ("h1", "/x.png"), ("q", "/")] {
            let mut rig = request(host, path);
            let fast = rig.run(|cx| all.first(cx, 0));
            let slow = rig.run(|cx| all.scan(cx, 0));
            assert_eq!(fast, slow, "{host} {path}");
        }
    }

    #[test]
    fn same_host_different_paths_are_found_by_path() {
        let mut rig = request("h", "/p500/x");
        let conditions: Vec<String> =
            (0..1000).map(|i| format!("if {{ hdr(host) h }} {{ path_beg /p{i}/ }}")).collect();
        let all = dispatch(&mut rig, &conditions);
        assert_eq!(all.groups.len(), 1);
        assert_eq!(all.groups[0].probe.tests[0].method, Method::Beg);
        assert_eq!(agree(&mut rig, &all), Choice::Rule(500));
    }

    #[test]
    fn patterns_changed_at_run_time_are_seen() {
        let mut rig = request("new", "/");
        let conditions: Vec<String> = (0..10).map(|i| format!("if {{ hdr(host) h{i} }}")).collect();
        let all = dispatch(&mut rig, &conditions);
        assert_eq!(rig.run(|cx| all.first(cx, 0)), Choice::None);
        rig.registry.find("#3").unwrap().add(b"new", b"").unwrap();
        assert_eq!(rig.run(|cx| all.first(cx, 0)), Choice::Rule(3));
    }

    #[test]
    fn rules_without_condition_hold() {
        let mut rig = request("h", "/");
        let all = Dispatch::new(vec![None], &rig.registry);
        assert_eq!(rig.run(|cx| all.first(cx, 0)), Choice::Rule(0));
    }
}
