//! Log formats: text made of aliases, expressions and literals.

/// A compiled log format.
#[derive(Debug, Default)]
pub struct LogFormat {}
