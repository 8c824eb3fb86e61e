//! Families of addresses.

/// Which addresses are asked for, and in which order: the second only when there are none of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Families {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// IPv4 before IPv6.
    V4First,
    /// IPv6 before IPv4.
    V6First,
}

impl Families {
    /// All of them.
    pub const ALL: [Families; 4] = [Families::V4, Families::V6, Families::V4First, Families::V6First];

    /// A preference, as far as both are accepted (`resolve-prefer`, `dns-accept-family`). Who accepts none gets both.
    pub fn new(v6_first: bool, accept_v4: bool, accept_v6: bool) -> Families {
        match (accept_v4, accept_v6, v6_first) {
            (true, false, _) => Families::V4,
            (false, true, _) => Families::V6,
            (_, _, false) => Families::V4First,
            (_, _, true) => Families::V6First,
        }
    }

    /// Whether IPv6 comes first.
    pub fn prefers_v6(self) -> bool {
        matches!(self, Families::V6 | Families::V6First)
    }
}
