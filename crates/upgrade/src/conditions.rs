//! Conditions at the end of rules, and what is added to them.

use thalweg_syntax::layout::WrittenLine;

/// The condition of a rule: its words as they are written, from `if` or `unless` on; empty without.
pub fn of_line(line: &WrittenLine<'_>, from: usize) -> Result<Vec<String>, String> {
    let words: Vec<String> = line.words.iter().skip(from).map(|word| word.raw.to_owned()).collect();
    match words.first().map(String::as_str) {
        None | Some("if" | "unless") => Ok(words),
        Some(other) => Err(format!("'{other}' is neither 'if' nor 'unless'")),
    }
}

/// The condition that holds when all of `terms` and `condition` do; `None` if it takes more than adding words.
pub fn with_terms(terms: &[String], condition: &[String]) -> Option<String> {
    let all = terms.join(" ");
    let Some((keyword, rest)) = condition.split_first() else {
        return Some(if terms.is_empty() { String::new() } else { format!("if {all}") });
    };
    if terms.is_empty() {
        return Some(condition.join(" "));
    }
    let alternatives = alternatives(rest);
    if keyword == "if" {
        let each: Vec<String> =
            alternatives.iter().map(|terms| format!("{all} {}", terms.join(" "))).collect();
        return Some(format!("if {}", each.join(" or ")));
    }
    // None of the alternatives may hold, which takes one term in each.
    let denied: Option<Vec<String>> = alternatives
        .iter()
        .map(|terms| match terms.as_slice() {
            [term] => Some(term.strip_prefix('!').map_or_else(|| format!("!{term}"), str::to_owned)),
            _ => None,
        })
        .collect();
    Some(format!("if {all} {}", denied?.join(" ")))
}

/// The words of a condition as terms, in groups with `or` between them. An anonymous condition is one term.
fn alternatives(words: &[String]) -> Vec<Vec<String>> {
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    let mut open: Option<String> = None;
    let mut negation = "";
    for word in words {
        if let Some(term) = &mut open {
            term.push(' ');
            term.push_str(word);
            if word == "}" {
                group.push(term.clone());
                open = None;
            }
            continue;
        }
        match word.as_str() {
            "!" => negation = "!",
            "{" | "!{" => {
                open = Some(format!("{negation}{word}"));
                negation = "";
            }
            "or" | "||" | "OR" => groups.push(std::mem::take(&mut group)),
            _ => {
                group.push(format!("{negation}{word}"));
                negation = "";
            }
        }
    }
    groups.push(group);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_added_to_every_alternative() {
        let check = |condition: &str, expected: Option<&str>| {
            let words: Vec<String> = condition.split_whitespace().map(str::to_owned).collect();
            assert_eq!(with_terms(&["{ t }".to_owned()], &words).as_deref(), expected, "{condition}");
        };
        check("", Some("if { t }"));
        check("if a", Some("if { t } a"));
        check("if a b or c", Some("if { t } a b or { t } c"));
        check("if ! a || { x or y }", Some("if { t } !a or { t } { x or y }"));
        check("unless a", Some("if { t } !a"));
        check("unless a or !{ b c }", Some("if { t } !a { b c }"));
        check("unless a b", None);
    }
}
