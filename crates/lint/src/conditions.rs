//! Conditions that contradict themselves: lines whose `if` is never true, or whose `unless` never is.

use std::collections::{HashMap, HashSet};

use thalweg_syntax::layout::WrittenLine;

use crate::Section;
use crate::lines::condition;

/// Fetches that have one value for a request, which is compared with the words behind them as a whole. What a rule before changes, or
/// what has several values, is not here.
const SINGLE: [&str; 8] = ["dst_port", "fe_id", "fe_name", "method", "path", "src_port", "ssl_fc_sni", "url"];

/// What depends on the moment may differ within a line.
const VARIES: [&str; 4] = ["rand", "gpc", "_rate", "_inc"];

/// One condition of an alternative: the words that say it, negated or not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    negated: bool,
    words: Vec<String>,
    /// It is the name of an ACL, not what one would say.
    named: bool,
}

/// The alternatives of a line's condition, each with the terms that must all hold. Empty without a condition.
fn alternatives(line: &WrittenLine<'_>) -> Vec<Vec<Term>> {
    let Some(at) = condition(line) else { return Vec::new() };
    let mut all: Vec<Vec<Term>> = vec![Vec::new()];
    let (mut negated, mut block): (bool, Option<Vec<String>>) = (false, None);
    for word in line.words.iter().skip(at + 1).map(|word| word.text()) {
        if let Some(words) = &mut block {
            if word == "}" {
                let words = std::mem::take(words);
                block = None;
                push(&mut all, Term { negated: std::mem::take(&mut negated), words, named: false });
            } else {
                words.push(word.into_owned());
            }
            continue;
        }
        if matches!(&*word, "or" | "||") {
            all.push(Vec::new());
            continue;
        }
        let plain = word.trim_start_matches('!');
        negated ^= (word.len() - plain.len()) % 2 == 1;
        match plain {
            "" => {}
            "{" => block = Some(Vec::new()),
            name => {
                let words = vec![name.to_owned()];
                push(&mut all, Term { negated: std::mem::take(&mut negated), words, named: true });
            }
        }
    }
    all
}

fn push(all: &mut [Vec<Term>], term: Term) {
    if let Some(last) = all.last_mut() {
        last.push(term);
    }
}

/// A number as it is written without more zeroes than it needs: others may be the same number.
fn is_number(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|number| number.to_string() == text)
}

/// What names of a section stand for, where one line alone declares each.
pub struct Names(HashMap<String, Vec<String>>);

impl Names {
    /// Those of a section.
    pub fn of(section: &Section<'_>) -> Names {
        let (mut names, mut twice) = (HashMap::new(), HashSet::new());
        for (_, line) in section.with(&["acl"]) {
            let name = line.word(1).into_owned();
            let words = line.words.iter().skip(2).map(|word| word.text().into_owned()).collect();
            if names.insert(name.clone(), words).is_some() {
                twice.insert(name);
            }
        }
        names.retain(|name, _| !twice.contains(name));
        Names(names)
    }

    /// What a term says, its name replaced.
    fn said<'t>(&'t self, term: &'t Term) -> &'t [String] {
        let declared = term.words.first().filter(|_| term.named).and_then(|name| self.0.get(name));
        declared.unwrap_or(&term.words)
    }

    /// Whether two terms can never hold together.
    fn exclude(&self, one: &Term, other: &Term) -> bool {
        let (here, there) = (self.said(one), self.said(other));
        if here == there {
            return one.negated != other.negated && !VARIES.iter().any(|word| here.concat().contains(word));
        }
        let (Some((fetch, values)), Some((same, others))) = (here.split_first(), there.split_first()) else {
            return false;
        };
        // Flags change how values are compared, and ranges are more than one value.
        let is_plain = |values: &[String]| {
            !values.is_empty() && values.iter().all(|value| !value.starts_with('-') && !value.contains(':'))
        };
        !one.negated
            && !other.negated
            && fetch == same
            && SINGLE.contains(&fetch.as_str())
            && is_plain(values)
            && is_plain(others)
            && !values.iter().any(|value| others.contains(value))
            && (!fetch.ends_with("_port") || [values, others].concat().iter().all(|v| is_number(v)))
    }

    /// Whether the condition of a line is never true, whichever of its alternatives.
    pub fn contradict(&self, line: &WrittenLine<'_>) -> bool {
        let all = alternatives(line);
        let impossible = |terms: &Vec<Term>| {
            terms
                .iter()
                .enumerate()
                .any(|(at, one)| terms[at + 1..].iter().any(|other| self.exclude(one, other)))
        };
        !all.is_empty() && all.iter().all(impossible)
    }
}
