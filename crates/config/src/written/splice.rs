//! Putting other words into a line as somebody wrote it: what stays keeps its quotes, its variables and the blanks around it.

use thalweg_syntax::layout::WrittenLine;

use super::{INDENT, NewLines, Words, quoted, sentence};

/// A line of its own.
pub(super) fn line(out: &mut String, indent: &str, words: &Words, end: &str) {
    out.extend([indent, &sentence(words), end]);
}

/// A section, behind an empty line.
pub(super) fn section(out: &mut String, lines: &NewLines) {
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    if !out.is_empty() && !out.ends_with("\n\n") {
        out.push('\n');
    }
    for (at, words) in lines.iter().enumerate() {
        line(out, if at == 0 { "" } else { INDENT }, words, "\n");
    }
}

/// Lets a line that was written end, if it does not; gives what its next one has to end with.
pub(super) fn end_line<'t>(out: &mut String, line: &WrittenLine<'t>) -> &'t str {
    if line.end.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        return "\n";
    }
    line.end
}

/// These lines in place of one that says `old`. The first has what was around its words.
pub(super) fn replace(out: &mut String, raw: &WrittenLine<'_>, old: &Words, new: &NewLines) {
    let Some((first, rest)) = new.split_first() else {
        if !raw.comment.is_empty() {
            out.extend([raw.indent(), raw.comment, raw.end]);
        }
        return;
    };
    out.push_str(raw.indent());
    // A variable may be several words, or none: then nobody knows which is which.
    let kept = if raw.words.len() == old.len() { common(old, first) } else { vec![None; first.len()] };
    // The word that the one before stands for.
    let mut before: Option<usize> = None;
    for (at, word) in first.iter().enumerate() {
        let next = before.map_or(0, |before| before + 1);
        // One that only changed stands where the former one stood.
        let is_gone = next < raw.words.len() && raw.words.len() == old.len() && !kept.contains(&Some(next));
        let stands_for = kept[at].or(is_gone.then_some(next));
        if at > 0 {
            match stands_for.filter(|stands| *stands == next && next > 0) {
                Some(next) => out.push_str(&raw.text[raw.words[next - 1].end()..raw.words[next].start]),
                None => out.push(' '),
            }
        }
        match kept[at] {
            Some(from) => out.push_str(raw.words[from].raw),
            None => out.push_str(&quoted(word)),
        }
        before = stands_for.or(before);
    }
    if !raw.comment.is_empty() {
        out.extend([raw.gap(), raw.comment]);
    }
    out.push_str(raw.end);
    rest.iter()
        .for_each(|words| line(out, raw.indent(), words, if raw.end.is_empty() { "\n" } else { raw.end }));
}

/// For each of the new words, which of the old ones it is: the longest row of words that both have.
fn common(old: &Words, new: &Words) -> Vec<Option<usize>> {
    let (rows, columns) = (old.len(), new.len());
    // How many are common behind these positions. Lines have at most 64 words.
    let mut lengths = vec![vec![0u16; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            lengths[row][column] = match old[row] == new[column] {
                true => lengths[row + 1][column + 1] + 1,
                false => lengths[row + 1][column].max(lengths[row][column + 1]),
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    let mut kept = vec![None; columns];
    while row < rows && column < columns {
        if old[row] == new[column] {
            kept[column] = Some(row);
            (row, column) = (row + 1, column + 1);
        } else if lengths[row + 1][column] >= lengths[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use thalweg_syntax::layout;

    use super::*;
    use crate::written::words;

    #[test]
    fn what_stays_looks_as_before() {
        let check = |text: &str, old: &str, new: &[&str], expected: &str| {
            let split = |text: &str| words(text.split(' '));
            let mut out = String::new();
            replace(
                &mut out,
                &layout::lines(text)[0],
                &split(old),
                &new.iter().map(|line| split(line)).collect(),
            );
            assert_eq!(out, expected, "{text:?}");
        };
        check(
            "\tserver  s1   \"${A}\":80  weight 1   # one\n",
            "server s1 192.0.2.1:80 weight 1",
            &["server s1 192.0.2.1:80 weight 5 disabled"],
            "\tserver  s1   \"${A}\":80  weight 5 disabled   # one\n",
        );
        // Several words in one variable: which of them stays cannot be told.
        check(
            "server s1 \"${A[*]}\"\r\n",
            "server s1 :80 check",
            &["server s1 :81 check"],
            "server s1 :81 check\r\n",
        );
        check("  maxconn 5#x\n", "maxconn 5", &["maxconn 6"], "  maxconn 6#x\n");
        check("  maxconn 5 # x\n", "maxconn 5", &[], "  # x\n");
        check("  maxconn 5\n", "maxconn 5", &[], "");
        check(" a b # c\n", "a b", &["a 1", "a 2"], " a 1 # c\n a 2\n");
        check("a  b  c\n", "a b c", &["a b x"], "a  b  x\n");
        check("a  b  c\n", "a b c", &["a c"], "a c\n");
    }
}
