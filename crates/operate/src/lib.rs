#![forbid(unsafe_code)]
//! What an operator sees and drives: logs, and the numbers behind them.

pub mod log;
