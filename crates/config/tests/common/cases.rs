//! Texts for tests that change them or write them down again.

/// Texts of every kind of section, a line each.
pub const CASES: [&str; 6] = [
    include_str!("../data/global.cases"),
    include_str!("../data/frontend.cases"),
    include_str!("../data/backend.cases"),
    include_str!("../data/tcp.cases"),
    include_str!("../data/sections.cases"),
    include_str!("../data/rules.cases"),
];
