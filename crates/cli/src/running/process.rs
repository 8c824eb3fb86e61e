//! What of `global` was changed at run time.

use thalweg_config::written::words;
use thalweg_proxy::Instance;

use super::{Detail, Running, Section, Sections};

impl Running {
    pub(super) fn look_at_process(&mut self, instance: &Instance, sections: &Sections<'_>, anon_key: u32) {
        let global = &instance.config.global;
        let limits = [
            ("maxconn", u32::try_from(global.maxconn).unwrap_or(u32::MAX), instance.process_gate.limit()),
            ("maxconnrate", global.maxconnrate, instance.connection_rate.limit()),
            ("maxsessrate", global.maxsessrate, instance.session_rate.limit()),
            ("maxsslrate", global.maxsslrate, instance.tls_rate.limit()),
            ("anonkey", global.anonkey, anon_key),
        ];
        let mut details = Vec::new();
        for (keyword, file, now) in limits.into_iter().filter(|(_, file, now)| file != now) {
            details.push(match keyword {
                // Whoever has it can tell what hashes stand for.
                "anonkey" => Detail::new(keyword, "", "changed"),
                _ => Detail::new(keyword, file, now),
            });
            self.set_global(sections, keyword, now);
        }
        self.changed("global", "", details);
    }

    /// Has `global` say this: each line with the keyword, for some keywords take the first of them and others the last.
    fn set_global(&mut self, sections: &Sections<'_>, keyword: &str, value: u32) {
        let line = words([keyword, &value.to_string()]);
        let mut globals: Vec<&Section<'_>> =
            sections.values().filter(|section| &*section.lines[0].words[0] == "global").collect();
        globals.sort_unstable_by_key(|section| section.place);
        let mut saying =
            globals.iter().filter(|section| section.lines_with(keyword).next().is_some()).peekable();
        if saying.peek().is_some() {
            return saying.for_each(|section| self.set_line(section, line.clone()));
        }
        match globals.first() {
            Some(section) => self.edits.append(section.place, vec![line]),
            None => self.edits.begin_with_global(line),
        }
    }
}
