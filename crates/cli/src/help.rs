//! `help`, and what is shown for a command that does not exist.

use crate::command::{Command, Mode, all};

/// The most commands suggested for one that does not exist.
const SUGGESTIONS_MAX: usize = 5;

/// A command as a list shows it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    /// The words that select it.
    pub words: &'static str,
    /// What may follow them.
    pub arguments: &'static str,
    /// What it does.
    pub text: &'static str,
    /// Every list ends with it.
    pub always: bool,
}

impl From<&Command> for Listed {
    fn from(command: &Command) -> Listed {
        let &Command { words, arguments, text, always, .. } = command;
        Listed { words, arguments, text, always }
    }
}

/// The list that `help` and an unknown command show: all commands of a session in which `allowed` modes are on, or
/// those that look like `words`.
pub fn list(title: &str, words: &[&str], allowed: impl Fn(Mode) -> bool) -> String {
    let shown = all().iter().filter(|c| !c.text.is_empty() && (c.always || allowed(c.mode)));
    list_of(&shown.map(|c| Listed::from(*c)).collect::<Vec<_>>(), title, words)
}

/// The same of the given commands, which are in the order of their words.
pub fn list_of(commands: &[Listed], title: &str, words: &[&str]) -> String {
    let mut text = format!("{title}\n");
    let shown = commands.iter().filter(|c| !c.always);
    let mut chosen: Vec<&Listed> = if words.is_empty() { shown.collect() } else { similar(shown, words) };
    chosen.extend(commands.iter().filter(|c| c.always));
    for command in chosen {
        let usage = match command.arguments {
            "" => command.words.to_owned(),
            arguments => format!("{} {arguments}", command.words),
        };
        let space = if usage.len() > 40 { " " } else { "" };
        text.push_str(&format!("  {usage:<40}{space}: {}\n", command.text));
    }
    text
}

/// Commands that begin with all the words; else those that begin with the first ones; else those that look like them.
fn similar<'c>(commands: impl Iterator<Item = &'c Listed>, words: &[&str]) -> Vec<&'c Listed> {
    let commands: Vec<&Listed> = commands.collect();
    for taken in (1..=words.len()).rev() {
        let begins: Vec<&Listed> = commands
            .iter()
            .copied()
            .filter(|c| c.words.split(' ').take(taken).eq(words.iter().copied().take(taken)))
            .collect();
        // Some words lead somewhere, the next one does not: among those places, the ones it could have meant.
        if !begins.is_empty() && taken < words.len() {
            let near = nearest(&begins, words);
            return if near.is_empty() { begins } else { near };
        }
        if !begins.is_empty() {
            return begins;
        }
    }
    nearest(&commands, words)
}

/// The few commands whose words need the fewest changes.
fn nearest<'c>(commands: &[&'c Listed], words: &[&str]) -> Vec<&'c Listed> {
    let distance = |c: &Listed| {
        let count = c.words.split(' ').count();
        let typed: Vec<&str> = words.iter().copied().take(count).collect();
        edits(&typed.join(" "), c.words)
    };
    let mut ranked: Vec<(usize, usize)> = commands
        .iter()
        .enumerate()
        .map(|(i, c)| (distance(c), i))
        .filter(|(d, i)| *d * 2 <= commands[*i].words.len())
        .collect();
    ranked.sort_unstable();
    // Something much further away than the best is not what was meant.
    let best = ranked.first().map_or(0, |(d, _)| *d);
    ranked.retain(|(d, _)| *d <= best + 1);
    ranked.truncate(SUGGESTIONS_MAX);
    ranked.sort_unstable_by_key(|(_, i)| *i);
    ranked.into_iter().map(|(_, i)| commands[i]).collect()
}

/// The longest text that is compared: a command and a little more.
const COMPARED_MAX: usize = 48;

/// Insertions, removals, replacements and swaps of neighbours that turn `a` into `b`.
fn edits(a: &str, b: &str) -> usize {
    let a = &a.as_bytes()[..a.len().min(COMPARED_MAX)];
    let b = b.as_bytes();
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i.max(j)
            } else {
                let changed = usize::from(a[i - 1] != b[j - 1]);
                let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + changed);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_suggested() {
        for (text, expected, absent) in [
            ("shwo stat", "show stat ", "set weight"),
            ("show stats", "show stat ", "set weight"),
            ("show servers", "show servers state", "show stat "),
            ("set maxcon global", "set maxconn global", "show map"),
            ("qqqqqqqq", "quit", "show"),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            let list = list("x", &words, |_| true);
            assert!(list.contains(expected) && !list.contains(absent), "{text}: {list}");
        }
        let all = list("title", &[], |mode| mode == Mode::Any);
        assert!(all.starts_with("title\n") && all.lines().count() > 50, "{all}");
        assert!(all.lines().skip(1).all(|l| l.len() > 42 && l.contains(": ")));
    }
}
