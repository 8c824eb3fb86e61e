//! The environment variables a configuration sees and may change (`setenv`, `presetenv`, `unsetenv`, `resetenv`).

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStringExt;

/// A private copy of the environment: reading a configuration never changes the process's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Environment {
    /// No variable at all.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The variables this process was started with.
    pub fn from_process() -> Self {
        let variables =
            std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
        Self { variables }
    }

    /// The value of a variable, `None` when it does not exist (which differs from being empty).
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        self.variables.get(name.as_ref()).map(Vec::as_slice)
    }

    /// Gives a variable a value, replacing the previous one.
    pub fn set(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Gives a variable a value unless it already has one (`presetenv`).
    pub fn preset(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.variables.entry(name.into()).or_insert_with(|| value.into());
    }

    /// Removes a variable.
    pub fn unset(&mut self, name: impl AsRef<[u8]>) {
        self.variables.remove(name.as_ref());
    }

    /// Removes every variable for which `keep` says no (`resetenv` keeps those it names).
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8]) -> bool) {
        self.variables.retain(|name, _| keep(name));
    }

    /// The variables in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}
