//! `option hedge` (ours).

use thalweg_syntax::{Line, TimeUnit};

use super::OptionHow;
use crate::build::{Building, Cx};
use crate::keyword::{Outcome, at_most, fail};
use crate::model::HedgeDelay;
use crate::numbers::time;

/// `hedge <delay|p50..p99>`
pub(crate) fn hedge(cx: &mut Cx<'_>, b: &mut Building, line: &Line, how: OptionHow) -> Outcome {
    b.needs_backend(cx, line, "option hedge", "");
    if how != OptionHow::On {
        if b.p.rare().hedge.is_some() {
            b.p.rare_mut().hedge = None;
        }
        return Ok(());
    }
    at_most(line, 2, 1)?;
    b.p.rare_mut().hedge = Some(delay(cx, line)?);
    Ok(())
}

fn delay(cx: &mut Cx<'_>, line: &Line) -> Result<HedgeDelay, Box<thalweg_syntax::Diagnostic>> {
    let usage = "'option hedge' expects a delay above 0, or 'p50' to 'p99' for as long as that percentage of the requests take.";
    if let Some(percent) = line.text(2).strip_prefix('p') {
        let percent = percent.parse().ok().filter(|percent| (50..=99).contains(percent));
        return percent.map(HedgeDelay::Percentile).ok_or_else(|| fail(line, 2, usage));
    }
    match line.text(2) {
        "" => Err(fail(line, 2, usage)),
        _ => match time(cx, line, 2, TimeUnit::Milliseconds, "hedge")? {
            0 => Err(fail(line, 2, usage)),
            ms => Ok(HedgeDelay::After(ms)),
        },
    }
}
