//! Filling a head from received bytes, and normalising it in place. For parsers and the framing rules.

use super::{CANONICAL, Field, Head, Kind, Span};
use crate::header_id::HeaderId;
use crate::method::{Method, Version};

impl Head {
    /// Takes a received head as the store. For parsers: spans given to [`Head::push_parsed`] and
    /// [`Head::finish_parsed_request`] are offsets into `bytes`.
    pub fn load(&mut self, bytes: &[u8]) {
        self.store.clear();
        self.store.extend_from_slice(bytes);
    }

    /// Adds a field found by a parser before the store is loaded. The name's case, and its id if that is not known, are settled by
    /// [`Head::settle_fields`].
    #[inline]
    pub fn push_parsed(&mut self, id: HeaderId, name: Span, value: Span, canonical: bool) {
        let flags = if canonical { CANONICAL } else { 0 };
        self.fields.push(Field { name, value, id, flags });
    }

    /// Names and values of the fields added so far, in what they were read from.
    pub fn parsed(&self) -> impl Iterator<Item = (Span, Span)> {
        self.fields.iter().map(|field| (field.name, field.value))
    }

    /// How many fields were added, removed ones included.
    #[inline]
    pub fn parsed_len(&self) -> usize {
        self.fields.len()
    }

    /// Says that the field about to be added by [`Head::push_parsed`] has a folded value.
    pub fn mark_folded(&mut self) {
        self.folded = true;
    }

    /// Once the store is loaded: puts all names in lower case, resolves their ids and builds the index.
    pub fn settle_fields(&mut self) {
        let mut live = 0;
        for (place, field) in self.fields.iter_mut().enumerate() {
            let Some(name) = self.store.get_mut(field.name.range()) else { continue };
            match field.id {
                HeaderId::Other => field.id = settle_other(name),
                id => id.lower(name),
            }
            live += field.name.len as usize + field.value.len as usize + 4;
            self.index.note(field.id, place);
        }
        self.live = live;
        if std::mem::take(&mut self.folded) {
            self.unfold();
        }
    }

    /// Replaces CR and LF inside values by spaces (RFC 9112 section 5.2).
    fn unfold(&mut self) {
        for field in &self.fields {
            if let Some(value) = self.store.get_mut(field.value.range()) {
                for byte in value {
                    if matches!(byte, b'\r' | b'\n') {
                        *byte = b' ';
                    }
                }
            }
        }
    }

    /// Sets the start line of a request from spans of the loaded store. `line` is where it is in the form that the encoder
    /// gives it, line end included; empty when it was written otherwise.
    pub fn set_parsed_request(&mut self, method: Span, target: Span, version: Version, line: Span) {
        self.kind = Kind::Request;
        self.start = [method, target];
        self.line = line;
        self.version = version;
        self.method = Method::from_bytes(self.bytes(method));
    }

    /// Sets the start line of a response from spans of the loaded store. An empty reason is replaced by
    /// the usual phrase. `line` is as in [`Head::set_parsed_request`].
    pub fn set_parsed_response(&mut self, version: Version, status: u16, reason: Span, line: Span) {
        self.kind = Kind::Response;
        self.line = if reason.is_empty() { Span::default() } else { line };
        let reason =
            if reason.is_empty() { self.append(crate::status::reason(status).as_bytes()) } else { reason };
        self.start = [Span::default(), reason];
        self.version = version;
        self.status = status;
    }

    // ---- normalising in place, without a bound to check because nothing grows ----

    /// Narrows the value of the field at `index` to a part of itself.
    pub fn set_value_span(&mut self, index: usize, span: Span) {
        if let Some(field) = self.fields.get_mut(index) {
            debug_assert!(span.off >= field.value.off && span.end() <= field.value.end());
            self.live -= (field.value.len - span.len) as usize;
            field.value = span;
            field.flags &= !CANONICAL;
        }
    }

    /// Overwrites the value of the field at `index` by one that is not longer. A longer one is cut,
    /// which no caller asks for.
    pub fn shrink_value(&mut self, index: usize, value: &[u8]) {
        let Some(field) = self.fields.get_mut(index) else { return };
        debug_assert!(value.len() <= field.value.len as usize);
        let len = value.len().min(field.value.len as usize);
        let start = field.value.off as usize;
        if let Some(place) = self.store.get_mut(start..start + len) {
            place.copy_from_slice(&value[..len]);
        }
        if len < field.value.len as usize {
            self.live -= field.value.len as usize - len;
            field.value.len = len as u32;
            field.flags &= !CANONICAL;
        }
    }

    /// Overwrites the value of the field at `index` by a part of the store that is not longer.
    pub fn shrink_value_to(&mut self, index: usize, source: Span) {
        let Some(field) = self.fields.get_mut(index) else { return };
        debug_assert!(source.len <= field.value.len);
        if source.len <= field.value.len && (source.end() as usize) <= self.store.len() {
            self.store.copy_within(source.range(), field.value.off as usize);
            self.live -= (field.value.len - source.len) as usize;
            if source.len < field.value.len {
                field.flags &= !CANONICAL;
            }
            field.value.len = source.len;
        }
    }

    /// Keeps the elements of the list in the field at `index` for which `keep` says so, in place. The
    /// text between two kept neighbours stays as it was.
    pub fn retain_elements(&mut self, index: usize, keep: impl Fn(&[u8]) -> bool) {
        let Some(field) = self.fields.get_mut(index) else { return };
        let old = field.value;
        let Some(value) = self.store.get_mut(old.range()) else { return };
        let mut kept = 0;
        let mut start = 0;
        while start <= value.len() {
            let mut rest = crate::values::list_with_empty(&value[start..]);
            let Some((_, element)) = rest.next_at() else { break };
            let keeps = keep(element);
            let end = rest.rest_offset().map_or(value.len(), |after| start + after - 1);
            if keeps {
                // The comma goes with the element that follows it.
                let mut from = start;
                if kept > 0 {
                    value[kept] = b',';
                    kept += 1;
                } else {
                    while from < end && crate::ascii::is_ows(value[from]) {
                        from += 1;
                    }
                }
                value.copy_within(from..end, kept);
                kept += end - from;
            }
            start = end + 1;
        }
        while kept > 0 && crate::ascii::is_ows(value[kept - 1]) {
            kept -= 1;
        }
        self.live -= value.len() - kept;
        field.value.len = kept as u32;
        field.flags &= !CANONICAL;
    }

    /// Removes `dropped` bytes at offset `at` of the target, and appends a slash if `slash` is set; for
    /// the normalisation of an absolute form. The store has room for it: a port is dropped first, or the
    /// version follows the target.
    pub fn edit_target(&mut self, at: usize, dropped: usize, slash: bool) {
        if dropped == 0 && !slash {
            return;
        }
        let old = self.start[1];
        let mut rest = old;
        rest.off += (at + dropped) as u32;
        rest.len -= (at + dropped) as u32;
        let start = self.store.len();
        self.store.extend_from_within(old.off as usize..old.off as usize + at);
        self.store.extend_from_within(rest.range());
        if slash {
            self.store.push(b'/');
        }
        self.start[1] = Span::new(start, self.store.len());
        self.line = Span::default();
    }
}

/// Puts a name whose id is not known in lower case, and resolves it. Not inlined: few names need it, and the loop over them has no
/// registers to spare.
#[inline(never)]
fn settle_other(name: &mut [u8]) -> HeaderId {
    let id = HeaderId::from_name(name);
    id.lower(name);
    id
}
