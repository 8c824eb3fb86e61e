//! Differences as lines: `~ server app/s1 weight 10 -> 50`. They are cut into words as lines of a configuration are, and what
//! follows `#` is for people.

use thalweg_config::written::{quoted, sentence};

use super::{Detail, Difference, How};
use crate::anonymous;

impl Difference {
    /// All of it.
    pub fn lines(&self, anon_key: u32) -> Vec<String> {
        let own = (self.how != How::Changed).then(|| self.line(anon_key, None));
        own.into_iter().chain(self.details.iter().map(|detail| self.line(anon_key, Some(detail)))).collect()
    }

    /// That it came or went, or one thing that differs.
    pub fn line(&self, anon_key: u32, detail: Option<&Detail>) -> String {
        let sign = match self.how {
            _ if detail.is_some() => "~",
            How::Added(_) => "+",
            How::Changed => "~",
            How::Removed => "-",
        };
        let mut line = format!("{sign} {}", self.kind);
        if !self.name.is_empty() {
            let parts = self.name.split('/').map(|part| anonymous::text(anon_key, part));
            // Names of files have slashes, too, and are names as a whole.
            let name = match self.kind {
                "server" => parts.collect::<Vec<_>>().join("/"),
                _ => anonymous::text(anon_key, &self.name).into_owned(),
            };
            line.extend([" ", &quoted(&name)]);
        }
        let hidden = |text: &str| match anon_key {
            0 => quoted(text).into_owned(),
            _ if anonymous::is_harmless(text) => text.to_owned(),
            _ => anonymous::text(anon_key, text).into_owned(),
        };
        match (detail, &self.how) {
            (Some(detail), _) => {
                line.extend([" ", detail.field]);
                if !detail.file.is_empty() {
                    line.extend([" ", &hidden(&detail.file)]);
                }
                line.push_str(" ->");
                if !detail.now.is_empty() {
                    line.extend([" ", &hidden(&detail.now)]);
                }
                if let Some(why) = detail.unwritten {
                    line.extend([" # ", why]);
                }
            }
            (None, How::Added(words)) if anon_key == 0 && !words.is_empty() => {
                line.extend([" ", &sentence(words)]);
            }
            (None, _) => {}
        }
        line
    }
}
