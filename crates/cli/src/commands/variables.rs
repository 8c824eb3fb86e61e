//! Variables of the process: `get var` and `set var`.

use std::sync::PoisonError;

use thalweg_config::model::CliLevel::{Admin, Operator};
use thalweg_proxy::Instance;
use thalweg_sample::facts;
use thalweg_sample::logformat::{LogFormat, Usage};
use thalweg_sample::vars::{Scope, VarRef, VarValue};
use thalweg_sample::{CompileEnv, Expr, Names, Point, ProxyScope};

use crate::command::{Command, Mode, Run};
use crate::output::Reply;
use crate::variables::{set_expression, set_format};

/// What this family adds to the table.
pub static COMMANDS: &[Command] = &[
    Command::new("get var", Operator, Run::Now(|call| get(call.instance(), call.args)))
        .help("<name>", "show a variable of the process"),
    Command::new("set var", Admin, Run::Now(|call| set(call.instance(), call.args)))
        .help("<name> [fmt|expr] {<fmt>|<expr>}", "set a variable of the process")
        .only(Mode::Experimental),
];

const NO_NAME: &str = "Missing process-wide variable identifier.";

/// `get var`.
fn get(instance: &Instance, args: &[&str]) -> Reply {
    let Some(name) = args.first() else { return Reply::error(NO_NAME) };
    // No other scope has variables while there is no traffic.
    let var = VarRef::parse(name).ok().filter(|var| var.scope == Scope::Proc);
    let vars = instance.process_vars.read().unwrap_or_else(PoisonError::into_inner);
    match var.and_then(|var| vars.find(var.name)) {
        Some(value) => Reply::info(format!("{name}: {}", describe(value))),
        None => Reply::error("Variable not found."),
    }
}

fn describe(value: &VarValue) -> String {
    match value {
        VarValue::Bool(b) => format!("type=bool value=<{}>", u8::from(*b)),
        VarValue::Int(i) => format!("type=sint value=<{i}>"),
        VarValue::Ip4(ip) => format!("type=ipv4 value=<{ip}>"),
        VarValue::Ip6(ip) => format!("type=ipv6 value=<{ip}>"),
        VarValue::Str(text) => format!("type=str value=<{}>", printable(text)),
        VarValue::Method(text) => format!("type=meth value=<{}>", printable(text)),
        // As in the reference: what is no text is not for a terminal.
        VarValue::Bin(_) => "type=bin value=<...>".into(),
    }
}

/// A text as a terminal may show it.
fn printable(text: &[u8]) -> String {
    text.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' }).collect()
}

/// Names for expressions typed at run time.
struct RunningNames<'c>(&'c Instance);

impl Names for RunningNames<'_> {
    fn frontend(&self, name: &str) -> Option<facts::ProxyId> {
        self.0.config.proxies.iter().find(|p| p.is_fe() && &*p.name == name).map(|p| facts::ProxyId(p.id.0))
    }

    fn backend(&self, name: &str) -> Option<facts::ProxyId> {
        self.0.config.proxies.iter().find(|p| p.is_be() && &*p.name == name).map(|p| facts::ProxyId(p.id.0))
    }

    fn server(&self, backend: facts::ProxyId, name: &str) -> Option<facts::ServerId> {
        let proxy = self.0.config.proxies.get(backend.0 as usize)?;
        let server = self.0.backends[backend.0 as usize].server_by_name(proxy, name)?;
        Some(facts::ServerId { proxy: backend, index: server.id.0 })
    }

    fn userlist(&self, name: &str) -> Option<u32> {
        u32::try_from(self.0.config.userlists.iter().position(|list| &*list.name == name)?).ok()
    }

    fn ring(&self, name: &str) -> bool {
        self.0.config.rings.iter().any(|ring| &*ring.name == name)
    }
}

/// `set var`.
fn set(instance: &Instance, args: &[&str]) -> Reply {
    let Some(name) = args.first() else { return Reply::error(NO_NAME) };
    let var = match VarRef::parse(name) {
        Ok(var) if var.scope == Scope::Proc => var,
        Ok(_) => {
            return Reply::error(format!(
                "'set var': cannot set variable '{name}', only scope 'proc' is permitted here."
            ));
        }
        Err(problem) => return Reply::error(problem),
    };
    let (format, words) = match &args[1..] {
        [] => return Reply::error("Missing either 'expr', 'fmt' or expression."),
        // Alone, it is an expression, whatever it looks like.
        alone @ [_] => (false, alone),
        ["expr", rest @ ..] => (false, rest),
        ["fmt", rest @ ..] => (true, rest),
        [other, ..] => {
            return Reply::error(format!(
                "'set var': arg type must be either 'expr' or 'fmt' but got '{other}'."
            ));
        }
    };
    let text = if format { words.first().copied().unwrap_or("").to_owned() } else { words.join(" ") };
    let Some(worker) = crate::worker() else { return Reply::Done };
    let names = RunningNames(instance);
    let points = Point::Cli.set();
    let registry = &instance.config.registry;
    let mut env = CompileEnv::new("CLI", 0, ProxyScope::default(), points, &names, registry);
    if format {
        match LogFormat::compile(&text, Usage::Raw, &mut env) {
            Ok(format) => set_format(&worker, var, &format),
            Err(problem) => return Reply::error(problem),
        }
    } else {
        let compiled = Expr::compile(&text, &mut env).and_then(|e| e.check_points(&env).map(|()| e));
        match compiled {
            Ok(expr) => set_expression(&worker, var, &expr),
            Err(problem) => return Reply::error(problem),
        }
    }
    Reply::Done
}
