//! Converters: functions from one value to another, by name. One file per family; each exports one table.

use crate::args::{ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::value::{Sample, Type};

/// Validates the arguments of a converter once, and may replace them by something faster to use.
pub type Check = fn(&mut Args, &mut CompileEnv) -> Result<(), String>;

/// Everything about one converter.
pub struct ConverterDef {
    /// Its name in configurations.
    pub name: &'static str,
    /// The type it takes; the value is cast to it before the call.
    pub input: Type,
    /// The type it gives.
    pub output: Type,
    /// Its arguments.
    pub args: ArgSpec,
    /// What it does, in a line.
    pub doc: &'static str,
    /// Validates the arguments.
    pub check: Option<Check>,
    /// Replaces the sample; false when there is no result.
    pub run: fn(&Args, &mut Sample, &mut Ctx) -> bool,
}

/// Every family's table.
static TABLES: &[&[ConverterDef]] = &[];

/// All converters, in no particular order.
pub fn all() -> impl Iterator<Item = &'static ConverterDef> {
    TABLES.iter().copied().flatten()
}

/// The converter with this name.
pub fn find(name: &str) -> Option<&'static ConverterDef> {
    all().find(|def| def.name == name)
}
