//! The compiled pieces that other crates provide, under the names this crate uses for them.

/// A compiled sample expression.
#[derive(Debug)]
pub struct Expr;
/// A compiled log-format string.
#[derive(Debug)]
pub struct LogFormat;
/// A compiled condition (`if ...` / `unless ...`).
#[derive(Debug)]
pub struct Condition;
/// An ordered list of rules of one point of evaluation.
#[derive(Debug, Default)]
pub struct Ruleset;
/// A complete HTTP response prepared from the configuration.
#[derive(Debug)]
pub struct Reply;
