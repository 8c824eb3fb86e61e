//! What an agent says of its server (manual, `agent-check`): one line of words, each about something else.

/// The administrative state that an agent asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// `ready`
    Ready,
    /// `drain`
    Drain,
    /// `maint`
    Maint,
}

/// One line of an agent. What it does not speak of stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said<'l> {
    /// The last of `ready`, `drain`, `maint`.
    pub admin: Option<Admin>,
    /// The last weight, as commands take it: `10`, `50%`.
    pub weight: Option<&'l str>,
    /// The last limit, as commands take it.
    pub maxconn: Option<&'l str>,
    /// The last of `up`, `down`, `stopped`, `fail`, as it was spelled, and whether it is `up`.
    pub state: Option<(&'l str, bool)>,
    /// The first word that nobody knows, or what follows a `#` before one: why.
    pub description: &'l str,
}

/// Reads a line, which ends with its first CR or LF. Words are separated by blanks and commas, and have no case.
pub fn parse(line: &str) -> Said<'_> {
    let line = line.split(['\r', '\n']).next().unwrap_or_default();
    let mut said = Said::default();
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if let Some(text) = rest.strip_prefix('#') {
            if said.description.is_empty() {
                said.description = text.trim();
            }
            return said;
        }
        let end = rest.find([' ', '\t', ',']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if word.is_empty() {
            return said;
        }
        said.take(word);
        rest = behind;
    }
}

impl<'l> Said<'l> {
    fn take(&mut self, word: &'l str) {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        let after = |prefix: &str| {
            let (start, rest) = word.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        if is("ready") {
            self.admin = Some(Admin::Ready);
        } else if is("drain") {
            self.admin = Some(Admin::Drain);
        } else if is("maint") {
            self.admin = Some(Admin::Maint);
        } else if is("up") {
            self.state = Some((word, true));
        } else if is("down") || is("stopped") || is("fail") {
            self.state = Some((word, false));
        } else if let Some(weight) = after("weight:") {
            self.weight = Some(weight);
        } else if let Some(maxconn) = after("maxconn:") {
            self.maxconn = Some(maxconn);
        } else if word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('%') {
            self.weight = Some(word);
        } else if self.description.is_empty() {
            self.description = word;
        }
    }

    /// What is told of it: `via agent : down (disk full)`. Empty if it says neither up nor down.
    pub fn told(&self, complaint: Option<&str>) -> String {
        let Some((word, _)) = self.state else { return String::new() };
        match complaint.unwrap_or(self.description) {
            "" => format!("via agent : {word}"),
            why => format!("via agent : {word} ({why})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(said: &Said<'_>) -> String {
        let mut out = Vec::new();
        out.extend(said.admin.map(|admin| format!("{admin:?}")));
        out.extend(said.weight.map(|weight| format!("weight {weight}")));
        out.extend(said.maxconn.map(|maxconn| format!("maxconn {maxconn}")));
        out.extend(said.state.map(|(_, up)| if up { "up" } else { "down" }.to_owned()));
        out.extend(Some(said.told(None)).filter(|told| !told.is_empty()));
        out.join("; ")
    }

    #[test]
    fn lines_are_read_as_the_reference_reads_them() {
        for (line, expected) in [
            ("", ""),
            ("up\n", "up; via agent : up"),
            ("UP", "up; via agent : UP"),
            ("  up\n", "up; via agent : up"),
            ("down #x y\n", "down; via agent : down (x y)"),
            ("stopped # because\n", "down; via agent : stopped (because)"),
            ("Fail", "down; via agent : Fail"),
            ("stopped fail", "down; via agent : fail"),
            ("up down", "down; via agent : down"),
            ("up 12 #more, words", "up; via agent : up (12)"),
            ("up frob nicate", "up; via agent : up (frob)"),
            ("ready up,100% #hi there", "Ready; weight 100%; up; via agent : up (hi there)"),
            ("75%,maxconn:30,maint,down\n", "Maint; weight 75%; maxconn 30; down; via agent : down"),
            ("maint drain ready", "Ready"),
            ("weight:5", "weight 5"),
            ("Weight:120%", "weight 120%"),
            ("0.5%", "weight 0.5%"),
            ("up b%", "up; via agent : up (b%)"),
            ("up\r\ndown\n", "up; via agent : up"),
            ("up down#why", "up; via agent : up (down#why)"),
            ("#up", ""),
            ("up #", "up; via agent : up"),
        ] {
            assert_eq!(show(&parse(line)), expected, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read(line in ".{0,300}") {
            let _ = parse(&line).told(None);
        }
    }
}
