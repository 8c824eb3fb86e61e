//! Stick tables that rules make for themselves (`http-request limit`). They come behind those that lines declare, while rules are
//! read: expressions that are read later can name them.

use std::sync::Arc;

use thalweg_rules::NewTables;
use thalweg_sample::TableId;
use thalweg_stick::Spec;
use thalweg_syntax::Span;

use crate::build::{Building, Cx};
use crate::follow;
use crate::proxy::TableDraft;

/// The tables, while a rule is read that may add some.
pub(crate) struct MadeTables {
    all: Vec<TableDraft>,
    /// Those of this rule.
    made: Vec<TableId>,
    proxy: Arc<str>,
    /// How many rules of the proxy made before.
    before: usize,
    section: String,
    span: Span,
}

impl MadeTables {
    /// Takes the tables there are for as long as a rule of a section is read.
    pub fn begin(cx: &mut Cx<'_>, b: &Building, span: Span) -> MadeTables {
        MadeTables {
            all: std::mem::take(&mut cx.tables),
            made: Vec::new(),
            before: cx.made_tables.get(&b.p.name).copied().unwrap_or(0),
            proxy: Arc::clone(&b.p.name),
            section: b.title(),
            span,
        }
    }

    /// Gives them back: what comes later can name the new ones.
    pub fn end(self, cx: &mut Cx<'_>) {
        for id in &self.made {
            cx.name_table.add_table(&self.all[id.0 as usize].spec, *id);
        }
        if !self.made.is_empty() {
            cx.made_tables.insert(self.proxy, self.before + self.made.len());
        }
        cx.tables = self.all;
    }
}

impl NewTables for MadeTables {
    fn add(&mut self, spec: &dyn Fn(usize) -> Spec) -> TableId {
        let spec = spec(self.before + self.made.len());
        let at = follow::table_before(&self.all, &spec).unwrap_or(self.all.len());
        let draft = TableDraft { spec, section: self.section.clone(), span: self.span, write_to: None };
        match self.all.get_mut(at) {
            Some(gone) => *gone = draft,
            None => self.all.push(draft),
        }
        let id = TableId(at as u32);
        self.made.push(id);
        id
    }
}
