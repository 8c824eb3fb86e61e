//! Changes of maps and ACL files in a transaction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use thalweg_proxy::Instance;
use thalweg_sample::pattern::PatternSet;
use thalweg_syntax::carry::restore;

use crate::commands::patterns;

/// A change of one set.
enum Edit {
    Clear,
    Add(Vec<u8>, Vec<u8>),
    Set(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

/// What becomes of one set.
pub(super) struct FilePlan {
    set: Arc<PatternSet>,
    edits: Vec<Edit>,
    /// Whether keys are there, as far as the edits say.
    present: HashMap<Vec<u8>, bool>,
    cleared: bool,
}

/// The sets that a transaction changes.
#[derive(Default)]
pub(super) struct Files(Vec<FilePlan>);

impl Files {
    /// Plans a command: its verb, whether it is about a map, and what follows.
    pub fn plan(
        &mut self,
        instance: &Instance,
        verb: &str,
        is_map: bool,
        args: &[&str],
        payload: Option<&str>,
    ) -> Result<(), String> {
        let Some(name) = args.first() else { return Err("The name of the file is missing.".into()) };
        if name.starts_with('@') {
            return Err("A transaction makes a version of its own: leave '@' and its number out.".into());
        }
        let set = patterns::find(instance, is_map, name)
            .ok_or("There is no such file. Please use #<id> or <file>.")?;
        let plan = self.of(set);
        let bytes = |text: &str| -> Vec<u8> { restore(text.as_bytes()).into_owned() };
        match (verb, &args[1..], payload) {
            ("clear", [], None) => {
                (plan.cleared, plan.present) = (true, HashMap::new());
                plan.edits.push(Edit::Clear);
                Ok(())
            }
            ("add", [key], None) if !is_map => plan.add(bytes(key), Vec::new()),
            ("add", [key, value], None) if is_map => plan.add(bytes(key), bytes(value)),
            ("add", [], Some(payload)) if is_map => {
                let entries = patterns::entries(payload)?;
                entries.into_iter().try_for_each(|(key, value)| plan.add(bytes(key), bytes(value)))
            }
            ("set" | "del", [key, ..], None) if key.starts_with('#') => {
                Err("A transaction takes keys, no '#' and numbers of entries.".into())
            }
            ("set", [key, value], None) if is_map => {
                plan.must_have(&bytes(key))?;
                plan.edits.push(Edit::Set(bytes(key), bytes(value)));
                Ok(())
            }
            ("del", [key], None) => {
                plan.must_have(&bytes(key))?;
                plan.present.insert(bytes(key), false);
                plan.edits.push(Edit::Delete(bytes(key)));
                Ok(())
            }
            _ => Err("There are too few words, or too many.".into()),
        }
    }

    fn of(&mut self, set: Arc<PatternSet>) -> &mut FilePlan {
        let at = self.0.iter().position(|plan| Arc::ptr_eq(&plan.set, &set)).unwrap_or_else(|| {
            self.0.push(FilePlan { set, edits: Vec::new(), present: HashMap::new(), cleared: false });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Makes the changes.
    pub fn carry_out(self) {
        self.0.into_iter().for_each(FilePlan::carry_out);
    }
}

impl FilePlan {
    fn add(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<(), String> {
        self.set.check(&key)?;
        self.present.insert(key.clone(), true);
        self.edits.push(Edit::Add(key, value));
        Ok(())
    }

    fn must_have(&self, key: &[u8]) -> Result<(), String> {
        let known = self.present.get(key).copied();
        let is_there = known.unwrap_or_else(|| !self.cleared && self.set.entry(key).is_some());
        if is_there { Ok(()) } else { Err("entry not found.".into()) }
    }

    fn carry_out(self) {
        let Some(cleared) = self.edits.iter().rposition(|edit| matches!(edit, Edit::Clear)) else {
            return self.edit_in_place();
        };
        // Nobody sees it empty.
        let mut entries: Vec<(Vec<u8>, Cow<'_, [u8]>)> = Vec::new();
        for edit in &self.edits[cleared + 1..] {
            match edit {
                Edit::Clear => entries.clear(),
                Edit::Add(key, value) => entries.push((key.clone(), Cow::Borrowed(value))),
                Edit::Set(key, value) => {
                    let same = entries.iter_mut().filter(|(other, _)| other == key);
                    same.for_each(|(_, old)| *old = Cow::Borrowed(value));
                }
                Edit::Delete(key) => entries.retain(|(other, _)| other != key),
            }
        }
        let version = self.set.prepare();
        for (key, value) in &entries {
            // They were looked at before.
            let _ = self.set.add_prepared(version, key, value);
        }
        let _ = self.set.commit(version);
    }

    fn edit_in_place(self) {
        let mut added: Vec<(&[u8], &[u8])> = Vec::new();
        for edit in &self.edits {
            if let Edit::Add(key, value) = edit {
                added.push((key, value));
                continue;
            }
            let _ = self.set.add_all(&std::mem::take(&mut added));
            match edit {
                Edit::Set(key, value) => drop(self.set.set(key, value)),
                Edit::Delete(key) => drop(self.set.delete(key)),
                Edit::Clear | Edit::Add(..) => {}
            }
        }
        if !added.is_empty() {
            let _ = self.set.add_all(&added);
        }
    }
}
