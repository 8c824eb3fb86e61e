//! All sets of the process: by name, by number, and those that go over to the next configuration.

use super::set::{PatternSet, lock};
use std::sync::Arc;

use thalweg_shared::{AtomicU64, Mutex, Ordering};

/// The name of a set as written: `file@` and `opt@` are not part of it, `virt@` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetName<'n> {
    /// The name that identifies the set.
    pub name: &'n str,
    /// True when no file is read (`virt@`).
    pub is_virtual: bool,
    /// True when the file may be absent (`opt@`).
    pub optional: bool,
}

impl<'n> SetName<'n> {
    /// Reads the prefix of a name.
    pub fn parse(text: &'n str) -> SetName<'n> {
        if let Some(name) = text.strip_prefix("opt@") {
            SetName { name, is_virtual: false, optional: true }
        } else if text.starts_with("virt@") {
            SetName { name: text, is_virtual: true, optional: false }
        } else {
            SetName { name: text.strip_prefix("file@").unwrap_or(text), is_virtual: false, optional: false }
        }
    }
}

/// All sets of patterns of the process.
#[derive(Debug, Default)]
pub struct Registry {
    sets: Mutex<Vec<Arc<PatternSet>>>,
    inline_changes: Arc<AtomicU64>,
    /// Sets of the configuration before that were changed at run time: they are taken over, not read.
    changed: Vec<Arc<PatternSet>>,
}

impl Registry {
    /// The sets of a configuration that follows another one. Sets of `before` that have a name and were changed at run time are
    /// taken over as they are; all others are read.
    pub fn following(before: Option<&Registry>) -> Registry {
        Registry { changed: before.map_or_else(Vec::new, Registry::changed), ..Registry::default() }
    }

    /// The sets with a name that were changed at run time.
    pub fn changed(&self) -> Vec<Arc<PatternSet>> {
        let is_changed = |set: &&Arc<PatternSet>| set.name().is_some() && set.is_changed();
        lock(&self.sets).iter().filter(is_changed).cloned().collect()
    }

    /// Counts the changes at run time of the sets without a name, all together.
    pub fn inline_changes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.inline_changes)
    }

    fn create(
        &self,
        sets: &mut Vec<Arc<PatternSet>>,
        name: Option<&str>,
        display: &str,
        is_map: bool,
    ) -> Arc<PatternSet> {
        let changes = if name.is_none() { Arc::clone(&self.inline_changes) } else { Arc::default() };
        let set = Arc::new(PatternSet::new(self.free_id(sets), name, display, is_map, changes));
        sets.push(Arc::clone(&set));
        set
    }

    /// A number that no set has, neither of those that there are nor of those that may be taken over.
    fn free_id(&self, sets: &[Arc<PatternSet>]) -> u32 {
        let first = sets.len() as u32;
        if self.changed.is_empty() {
            return first;
        }
        let is_free = |id: &u32| sets.iter().chain(&self.changed).all(|set| set.id() != *id);
        (0..).find(is_free).unwrap_or(first)
    }

    /// A set without a name: the patterns written on one line. `display` tells `show acl` where.
    ///
    /// # Errors
    /// Never for now; kept for the bounds of a set.
    pub fn inline(&self, patterns: &[&[u8]], display: &str) -> Result<Arc<PatternSet>, String> {
        let set = self.create(&mut lock(&self.sets), None, display, false);
        let before = self.inline_changes.load(Ordering::Acquire);
        if !patterns.is_empty() {
            let entries: Vec<_> = patterns.iter().map(|p| (*p, &b""[..])).collect();
            set.add_all(&entries)?;
        }
        // Its first content is no change.
        self.inline_changes.store(before, Ordering::Release);
        Ok(set)
    }

    /// The set named `text` (with an optional `file@`, `opt@` or `virt@`), read through `read` the first time.
    ///
    /// # Errors
    /// The text of the problem, worded as in the reference.
    pub fn open(
        &self,
        text: &str,
        is_map: bool,
        display: &str,
        read: impl FnOnce(&str) -> std::io::Result<Vec<u8>>,
    ) -> Result<Arc<PatternSet>, String> {
        let spec = SetName::parse(text);
        let mut sets = lock(&self.sets);
        if let Some(set) = sets.iter().find(|set| set.name() == Some(spec.name)) {
            let set = Arc::clone(set);
            drop(sets);
            if is_map && !set.is_map() {
                return Err(format!(
                    "The file \"{}\" is already used as pattern file, and it does not contain values",
                    spec.name
                ));
            }
            if !is_map {
                set.mark_acl();
            }
            set.add_use(display);
            return Ok(set);
        }
        let kept = self.changed.iter().find(|set| set.name() == Some(spec.name));
        if let Some(set) = kept.filter(|set| set.is_map() || !is_map) {
            set.use_first(display);
            sets.push(Arc::clone(set));
            return Ok(Arc::clone(set));
        }
        let content = match spec.is_virtual {
            true => Vec::new(),
            false => match read(spec.name) {
                Ok(content) => content,
                Err(e) if spec.optional && e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
                Err(_) => return Err(format!("failed to open pattern file <{}>", spec.name)),
            },
        };
        let set = self.create(&mut sets, Some(spec.name), display, is_map);
        drop(sets);
        set.load(&content)?;
        Ok(set)
    }

    /// Every set, by number.
    pub fn sets(&self) -> Vec<Arc<PatternSet>> {
        let mut sets = lock(&self.sets).clone();
        sets.sort_by_key(|set| set.id());
        sets
    }

    /// The set that `#id` or a name selects.
    pub fn find(&self, text: &str) -> Option<Arc<PatternSet>> {
        let sets = lock(&self.sets);
        match text.strip_prefix('#') {
            Some(id) => {
                let id = id.parse::<u32>().ok()?;
                sets.iter().find(|set| set.id() == id).cloned()
            }
            None => {
                let name = SetName::parse(text).name;
                sets.iter().find(|set| set.name() == Some(name)).cloned()
            }
        }
    }
}
