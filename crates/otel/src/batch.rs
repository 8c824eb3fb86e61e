//! Spans that wait to be sent. What has no room is dropped and counted: traffic never waits for a collector.

use crate::span::{Span, Value};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Batch {
    /// Spans as they are sent, with commas between.
    spans: Vec<u8>,
    count: u64,
}

impl Batch {
    /// Adds a span unless there are `room` bytes with it. Says whether it was added.
    pub fn push<'a, A, E>(&mut self, span: Span<'a, A, E>, room: usize) -> bool
    where
        A: Iterator<Item = (&'a str, Value<'a>)>,
        E: Iterator<Item = (&'a str, u64)>,
    {
        let before = self.spans.len();
        if before > 0 {
            self.spans.push(b',');
        }
        span.write(&mut self.spans);
        let fits = self.spans.len() <= room;
        if fits {
            self.count += 1;
        } else {
            self.spans.truncate(before);
        }
        fits
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Takes what waits: spans with commas between, and how many they are.
    pub fn take(&mut self) -> (Vec<u8>, u64) {
        (std::mem::take(&mut self.spans), std::mem::take(&mut self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Context, Share};

    #[test]
    fn what_has_no_room_is_dropped() {
        let context = Context::new(None, Share::ALL, |out| out.fill(1));
        let push = |batch: &mut Batch, room: usize| {
            let span = Span {
                context: &context,
                state: b"",
                name: b"GET",
                start_ns: 1,
                end_ns: 2,
                attributes: std::iter::empty(),
                events: std::iter::empty(),
                failed: false,
            };
            batch.push(span, room)
        };
        let mut batch = Batch::default();
        assert!(push(&mut batch, 1000));
        let one = batch.len();
        assert!(push(&mut batch, 2 * one + 1));
        assert!(!push(&mut batch, 3 * one + 1));
        assert_eq!(batch.len(), 2 * one + 1);
        let (spans, count) = batch.take();
        assert_eq!((spans.len(), count, batch.is_empty()), (2 * one + 1, 2, true));
        assert_eq!(&spans[one..=one + 1], b",{");
        assert!(push(&mut batch, one));
    }
}
