//! Telling whoever watches (`thalweg explain`) what decides where a stream goes.

use super::Stream;

/// Whether somebody wants to know which rules are evaluated (`thalweg explain`).
pub(super) fn is_watched(stream: &Stream<'_>) -> bool {
    stream.worker.scratch.borrow().watch.is_some()
}

/// Tells whoever watches of something that decides where the stream goes.
#[cold]
pub(super) fn announce(stream: &Stream<'_>, ruleset: &'static str, target: &str, file: &str, line: u32) {
    if let Some(watch) = &mut stream.worker.scratch.borrow_mut().watch {
        watch.rule(ruleset, target, file, line);
    }
}
