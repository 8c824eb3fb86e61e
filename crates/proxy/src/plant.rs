//! Bugs that tests plant: in builds with debug assertions, `THALWEG_PANIC_AT=exchange:2` makes the second stream that
//! passes the point `exchange` panic. In other builds nothing of this exists. Wrong behaviour is planted with [`bug`], for the
//! simulator.

pub(crate) use thalweg_runtime::plant::bug;

/// A point where a panic may be planted.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn here(_point: &str) {}

/// A point where a panic may be planted.
#[cfg(debug_assertions)]
pub(crate) fn here(point: &str) {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static PLANTED: LazyLock<Option<(String, u32)>> = LazyLock::new(|| {
        let text = std::env::var("THALWEG_PANIC_AT").ok()?;
        let (point, turn) = text.split_once(':').unwrap_or((&text, "1"));
        Some((point.to_owned(), turn.parse().ok()?))
    });
    static PASSED: AtomicU32 = AtomicU32::new(0);
    if let Some((planted, turn)) = &*PLANTED
        && planted == point
        && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *turn
    {
        panic!("planted at {point}");
    }
}
