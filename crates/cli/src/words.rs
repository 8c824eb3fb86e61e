//! Cutting a line into commands and words (management manual, section 9.3: `;`, `\`, `<<`). Bytes that are not UTF-8 are
//! carried in the text ([`thalweg_syntax::carry`]), as in the words of a configuration.

use thalweg_syntax::carry::restore;

/// The most words of a command.
pub const WORDS_MAX: usize = 64;

/// The most bytes between `<<` and the end of the line.
const MARKER_MAX: usize = 64;

/// Cuts a line at the semicolons that no backslash precedes.
pub fn commands(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b';' => {
                found.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&line[start..]);
    found
}

/// The words of a command. A backslash takes the character after it as it is.
pub fn words(command: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut inside = false;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' | '\t' => {
                if inside {
                    found.push(std::mem::take(&mut word));
                    inside = false;
                }
                continue;
            }
            '\\' => match characters.next() {
                Some(next) => word.push(next),
                None => break,
            },
            other => word.push(other),
        }
        inside = true;
    }
    if inside {
        found.push(word);
    }
    // One more than the most tells that there were more.
    found.truncate(WORDS_MAX + 1);
    found
}

/// Takes `<<marker` off the end of a line: what precedes it, and the marker that will end the payload. The marker is
/// its own word and has no space in it; without one, an empty line ends the payload.
pub fn payload_marker(line: &str) -> Option<(&str, &str)> {
    let at = line.rfind([' ', '\t']).map_or(0, |at| at + 1);
    let (before, last) = line.split_at(at);
    let marker = last.strip_prefix("<<")?;
    (restore(marker.as_bytes()).len() <= MARKER_MAX).then_some((before, marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_commands() {
        for (line, expected) in [
            ("show info", &["show info"][..]),
            ("a;b", &["a", "b"]),
            (r"a\;b;c\d", &[r"a\;b", r"c\d"]),
            ("", &[""]),
            (";;x", &["", "", "x"]),
            (r"x\\;y", &[r"x\\", "y"]),
        ] {
            assert_eq!(commands(line), expected, "{line}");
        }
    }

    #[test]
    fn commands_hold_words() {
        for (command, expected) in [
            ("  show  info ", &["show", "info"][..]),
            (r"del acl f Mon\ Agent\;", &["del", "acl", "f", "Mon Agent;"]),
            (r"a\\b \", &["a\\b"]),
            ("", &[]),
            (" \t", &[]),
            ("a\rb c\0d", &["a\rb", "c\0d"]),
        ] {
            assert_eq!(words(command), expected, "{command}");
        }
        assert_eq!(words(&"w ".repeat(100)).len(), WORDS_MAX + 1);
    }

    #[test]
    fn payloads_are_announced() {
        let long = format!("x <<{}", "y".repeat(65));
        for (line, expected) in [
            ("add map f <<", Some(("add map f ", ""))),
            ("add map f <<%EOF%", Some(("add map f ", "%EOF%"))),
            ("add map f <<<", Some(("add map f ", "<"))),
            ("add map f<<", None),
            ("add map f << x", None),
            ("show info", None),
            (&long, None),
        ] {
            assert_eq!(payload_marker(line), expected, "{line}");
        }
    }
}
