//! Network namespaces: `namespace` of `bind` and `server`, and the section `namespace_list`.

use thalweg_syntax::{Diagnostic, Line};
use thalweg_sys::namespace::Namespace;

use crate::build::{Cx, ServerDraft};
use crate::keyword::{Outcome, fail, not_supported};
use crate::model::Bind;
use crate::server_options::rare;
use crate::setter::{Took, value};

/// A `namespace_list` section that is being read: namespaces that are to be there, whoever uses them.
#[derive(Default)]
pub(crate) struct NamespacesDraft {
    names: Vec<String>,
}

/// A line of the section.
pub(crate) fn line(draft: &mut NamespacesDraft, line: &Line) -> Outcome {
    match line.text(0) {
        "namespace" => {
            let name = line.text(1);
            if draft.names.iter().any(|other| other == name) {
                return Err(fail(line, 1, format!("Namespace '{name}' is already added.")));
            }
            open(line, 1)?;
            draft.names.push(name.to_owned());
            Ok(())
        }
        other => Err(fail(line, 0, format!("unknown keyword '{other}' in 'namespace_list' section"))),
    }
}

/// `namespace` of a listener.
pub(crate) fn of_bind(_: &mut Cx<'_>, line: &Line, at: usize, bind: &mut Bind) -> Took {
    value(line, at, "'namespace' : missing namespace id")?;
    bind.namespace = Some(open(line, at + 1)?);
    Ok(2)
}

/// `namespace` of a server.
pub(crate) fn of_server(_: &mut Cx<'_>, line: &Line, at: usize, draft: &mut ServerDraft) -> Took {
    if value(line, at, "'namespace' : expects <name> as argument.")? == "*" {
        let why = "the namespace that a PROXY header names is not looked at";
        return Err(not_supported(line, at + 1, "namespace *", why));
    }
    rare(draft).namespace = Some(open(line, at + 1)?);
    Ok(2)
}

/// The namespace that a word names.
pub(crate) fn open(line: &Line, at: usize) -> Result<Namespace, Box<Diagnostic>> {
    let name = line.text(at);
    Namespace::open(name).map_err(|_| fail(line, at, format!("Cannot open namespace '{name}'.")))
}
