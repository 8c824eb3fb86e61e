//! Sample fetches: where values come from. One file per layer; each exports one table.

use crate::args::{ArgSpec, Args};
use crate::context::Ctx;
use crate::env::CompileEnv;
use crate::point::Points;
use crate::value::{Sample, Type};
use std::collections::HashMap;
use std::sync::LazyLock;

pub mod unsupported;

/// Where a fetch that gives several values (all headers of one name) stands. Starts at the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Iter {
    /// The fetch's own position, such as the index of the next header field.
    pub field: u32,
    /// A second position inside the first, such as an offset in the field's value.
    pub offset: u32,
}

/// Validates the arguments of a fetch once, and may replace them by something faster to use.
pub type Check = fn(&mut Args, &mut CompileEnv) -> Result<(), String>;

/// Evaluates a fetch: the sample, or none.
pub type Run = fn(&Args, &mut Ctx, &mut Iter) -> Option<Sample>;

/// Everything about one fetch.
pub struct FetchDef {
    /// Its name in configurations.
    pub name: &'static str,
    /// Its arguments.
    pub args: ArgSpec,
    /// The type it gives.
    pub output: Type,
    /// Where it works.
    pub points: Points,
    /// What it reads, as the message about a wrong place says.
    pub needs: &'static str,
    /// What it gives, in a line.
    pub doc: &'static str,
    /// Validates the arguments.
    pub check: Option<Check>,
    /// Evaluates it.
    pub run: Run,
}

impl FetchDef {
    /// A fetch without arguments.
    pub const fn new(
        name: &'static str,
        output: Type,
        (points, needs): (Points, &'static str),
        doc: &'static str,
        run: Run,
    ) -> FetchDef {
        FetchDef { name, args: ArgSpec::NONE, output, points, needs, doc, check: None, run }
    }

    /// The same fetch with arguments.
    #[must_use]
    pub const fn takes(mut self, required: usize, kinds: &'static [crate::args::ArgKind]) -> FetchDef {
        self.args = ArgSpec::new(required, kinds);
        self
    }

    /// The same fetch with a check of its arguments.
    #[must_use]
    pub const fn checked(mut self, check: Check) -> FetchDef {
        self.check = Some(check);
        self
    }
}

/// Every layer's table.
static TABLES: &[&[FetchDef]] = &[];

/// All fetches, in no particular order.
pub fn all() -> impl Iterator<Item = &'static FetchDef> {
    TABLES.iter().copied().flatten()
}

static BY_NAME: LazyLock<HashMap<&'static str, &'static FetchDef>> =
    LazyLock::new(|| all().map(|def| (def.name, def)).collect());

/// The fetch with this name.
pub fn find(name: &str) -> Option<&'static FetchDef> {
    BY_NAME.get(name).copied()
}
