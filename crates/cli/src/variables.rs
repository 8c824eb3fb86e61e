//! Variables of the process that `global` sets (`set-var`, `set-var-fmt`).

use thalweg_config::model::ProcessValue;
use thalweg_proxy::worker::Worker;
use thalweg_sample::Expr;
use thalweg_sample::context::Ctx;
use thalweg_sample::facts::{self, Session};
use thalweg_sample::logformat::LogFormat;
use thalweg_sample::value::Value;
use thalweg_sample::vars::VarRef;

/// Evaluates without any traffic.
fn evaluate<R>(worker: &Worker, f: impl FnOnce(&mut Ctx<'_>) -> R) -> R {
    let mut session = Session::new(facts::ProxyId(0), facts::ListenerId(0));
    let mut scratch = worker.scratch.borrow_mut();
    let mut cx = Ctx::new(worker.clock(), worker, &mut session, &mut scratch);
    cx.reset();
    f(&mut cx)
}

/// Sets a variable to the value of an expression.
pub(crate) fn set_expression(worker: &Worker, var: VarRef, expr: &Expr) {
    evaluate(worker, |cx| {
        if let Some(sample) = expr.eval(cx) {
            // A limit on the memory of variables may forbid it; then the old value stays, as for rules.
            let _ = cx.set_var(var, sample.value);
        }
    });
}

/// Sets a variable to a text.
pub(crate) fn set_format(worker: &Worker, var: VarRef, format: &LogFormat) {
    evaluate(worker, |cx| {
        if let Some(text) = format.render_text(cx) {
            // As above.
            let _ = cx.set_var(var, Value::Str(text));
        }
    });
}

/// Sets the variables that `global` sets, in order. Done once, before the first request.
pub fn set_configured(worker: &Worker) {
    for variable in &worker.instance.config.global.set_var {
        // The configuration was checked.
        let Ok(var) = VarRef::parse(&variable.name) else { continue };
        match &*variable.value {
            ProcessValue::Expr(expr) => set_expression(worker, var, expr),
            ProcessValue::Format(format) => set_format(worker, var, format),
        }
    }
}

/// [`set_configured`] on the calling thread, one of the runtime's that the data path started on.
pub fn set_configured_here() {
    if let Some(worker) = crate::worker() {
        set_configured(&worker);
    }
}
