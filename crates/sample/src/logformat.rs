//! Log formats: text made of aliases, expressions and literals.

use crate::context::Ctx;
use crate::value::Text;

/// A compiled log format.
#[derive(Debug, Default)]
pub struct LogFormat {}

/// The unique identifier of the stream.
pub(crate) fn unique_id(_: &mut Ctx) -> Option<Text> {
    None
}
