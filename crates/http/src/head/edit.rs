//! Editing the fields of a head. Every edit validates what it is given and keeps the head within its bound.

use super::{CANONICAL, FIELDS_END, Field, Head, REMOVED, RewriteError, append_canonical, check_value};
use super::{FieldRef, Span};
use crate::digits::short;
use crate::header_id::{BEGINNING_MAX, HeaderId};
use crate::semantics::decimal;

/// The longest line of a number that is written with others.
const LINE_MAX: usize = BEGINNING_MAX + 8 + 2;
/// Numbers that are written together at most.
const TOGETHER_MAX: usize = 4;

impl Head {
    /// Appends a field. The name is stored in lower case.
    ///
    /// # Errors
    /// [`RewriteError::Invalid`] for a name that is not a token or a value with NUL, CR or LF,
    /// [`RewriteError::TooLarge`] when it does not fit.
    pub fn push(&mut self, name: &[u8], value: &[u8]) -> Result<usize, RewriteError> {
        let index = self.fields.len();
        self.insert(index, name, value)?;
        Ok(index)
    }

    /// Appends a field with a well-known name, which needs no look at its bytes.
    ///
    /// # Errors
    /// As [`Head::push`], and [`RewriteError::Invalid`] for [`HeaderId::Other`].
    pub fn push_id(&mut self, id: HeaderId, value: &[u8]) -> Result<(), RewriteError> {
        if id == HeaderId::Other {
            return Err(RewriteError::Invalid);
        }
        check_value(value)?;
        let name = id.name().as_bytes();
        self.room_for_field(name, value)?;
        let start = self.store.len();
        self.store.extend_from_slice(name);
        self.store.extend_from_slice(b": ");
        let name = Span::new(start, self.store.len() - 2);
        let value = self.append(value);
        self.store.extend_from_slice(b"\r\n");
        self.add(Field { name, value, id, flags: CANONICAL });
        Ok(())
    }

    /// Sets fields with well-known names to numbers, in the place of all that have these names. They are written in one piece, which
    /// needs no look at its bytes.
    ///
    /// # Errors
    /// As [`Head::push_id`].
    pub fn set_numbers<const N: usize>(&mut self, numbers: [(HeaderId, u64); N]) -> Result<(), RewriteError> {
        const { assert!(N <= TOGETHER_MAX) };
        let mut lines = [0; TOGETHER_MAX * LINE_MAX];
        let (mut end, mut written) = (0, [(0, 0); N]);
        for ((id, number), (start, value)) in numbers.into_iter().zip(&mut written) {
            self.remove_id(id);
            *start = end;
            let (beginning, len) = id.beginning();
            let digits = short(number).filter(|_| len > 0);
            let room = lines.get_mut(end..).and_then(|rest| rest.first_chunk_mut::<LINE_MAX>());
            let (Some((digits, digits_len)), Some(line)) = (digits, room) else {
                return self.set_each(numbers);
            };
            line[..BEGINNING_MAX].copy_from_slice(beginning);
            for (at, piece) in [(len, &digits[..]), (len + digits_len, &b"\r\n"[..])] {
                if let Some(place) = line.get_mut(at..at + piece.len()) {
                    place.copy_from_slice(piece);
                }
            }
            (*value, end) = (end + len, end + len + digits_len + 2);
        }
        if self.fields.len() + N >= FIELDS_END {
            return Err(RewriteError::TooLarge);
        }
        self.room(end, 0)?;
        let base = self.store.len();
        self.store.extend_from_slice(&lines[..end]);
        self.fields.reserve(N);
        let ends = written.iter().skip(1).map(|(start, _)| *start).chain([end]);
        for (((id, _), (start, value)), end) in numbers.into_iter().zip(written).zip(ends) {
            let name = Span::new(base + start, base + value - 2);
            let value = Span::new(base + value, base + end - 2);
            self.add(Field { name, value, id, flags: CANONICAL });
        }
        Ok(())
    }

    /// The same, one by one.
    #[cold]
    fn set_each<const N: usize>(&mut self, numbers: [(HeaderId, u64); N]) -> Result<(), RewriteError> {
        numbers.into_iter().try_for_each(|(id, number)| {
            self.remove_id(id);
            self.push_id(id, decimal(number, &mut [0; 20]))
        })
    }

    /// Checks that one more field fits, and makes room for it.
    fn room_for_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), RewriteError> {
        if self.fields.len() >= FIELDS_END {
            return Err(RewriteError::TooLarge);
        }
        self.room(name.len() + value.len() + 4, 0)
    }

    /// Adds a field behind the others, whose bytes are in the store.
    fn add(&mut self, field: Field) {
        self.fields.push(field);
        self.live += field.name.len as usize + field.value.len as usize + 4;
        self.index.note(field.id, self.fields.len() - 1);
    }

    /// Inserts a field before the first one.
    ///
    /// # Errors
    /// As [`Head::push`].
    pub fn prepend(&mut self, name: &[u8], value: &[u8]) -> Result<(), RewriteError> {
        self.insert(0, name, value)
    }

    /// Inserts a field at `index`; those from there on move by one.
    ///
    /// # Errors
    /// As [`Head::push`].
    pub fn insert(&mut self, index: usize, name: &[u8], value: &[u8]) -> Result<(), RewriteError> {
        if !crate::ascii::is_token(name) {
            return Err(RewriteError::Invalid);
        }
        check_value(value)?;
        self.room_for_field(name, value)?;
        let (name, value) = append_canonical(&mut self.store, name, value);
        let id = HeaderId::from_lower(self.bytes(name));
        let field = Field { name, value, id, flags: CANONICAL };
        if index >= self.fields.len() {
            self.add(field);
        } else {
            self.live += field.name.len as usize + field.value.len as usize + 4;
            self.fields.insert(index, field);
            self.index_again();
        }
        Ok(())
    }

    fn index_again(&mut self) {
        self.index.clear();
        for (at, field) in self.fields.iter().enumerate().filter(|(_, field)| !field.is_removed()) {
            self.index.note(field.id, at);
        }
    }

    /// Replaces the value of the field at `index`. Nothing happens if there is none.
    ///
    /// # Errors
    /// As [`Head::push`].
    pub fn replace_value(&mut self, index: usize, value: &[u8]) -> Result<(), RewriteError> {
        check_value(value)?;
        let Some(field) = self.fields.get(index).copied().filter(|field| !field.is_removed()) else {
            return Ok(());
        };
        let (old, name_len) = (field.value.len as usize, field.name.len as usize);
        self.room(value.len() + name_len + 4, old + name_len + 4)?;
        // `room` may have moved everything.
        let field = &mut self.fields[index];
        let name = field.name;
        let start = self.store.len();
        self.store.extend_from_within(name.range());
        let name = Span::new(start, self.store.len());
        self.store.extend_from_slice(b": ");
        let start = self.store.len();
        self.store.extend_from_slice(value);
        field.name = name;
        field.value = Span::new(start, self.store.len());
        field.flags |= CANONICAL;
        self.store.extend_from_slice(b"\r\n");
        self.live = self.live - old + value.len();
        Ok(())
    }

    /// Renames the field at `index`. Nothing happens if there is none.
    ///
    /// # Errors
    /// As [`Head::push`].
    pub fn rename(&mut self, index: usize, name: &[u8]) -> Result<(), RewriteError> {
        if !crate::ascii::is_token(name) {
            return Err(RewriteError::Invalid);
        }
        let Some(field) = self.fields.get(index).copied().filter(|field| !field.is_removed()) else {
            return Ok(());
        };
        let old = field.name.len as usize;
        self.room(name.len(), old)?;
        let span = self.append(name);
        self.store[span.range()].make_ascii_lowercase();
        let id = HeaderId::from_lower(self.bytes(span));
        let field = &mut self.fields[index];
        field.name = span;
        field.id = id;
        field.flags &= !CANONICAL;
        self.live = self.live - old + name.len();
        self.index_again();
        Ok(())
    }

    /// Removes the field at `index`. The indexes of the others stay the same.
    pub fn remove(&mut self, index: usize) {
        self.take_out(index);
    }

    /// The same; whether there was one.
    #[inline]
    fn take_out(&mut self, index: usize) -> bool {
        let Some(field) = self.fields.get_mut(index).filter(|field| !field.is_removed()) else {
            return false;
        };
        field.flags |= REMOVED;
        self.live -= field.name.len as usize + field.value.len as usize + 4;
        true
    }

    /// Removes all fields with this name, in any case, and says how many there were.
    pub fn remove_all(&mut self, name: &[u8]) -> usize {
        self.remove_from(name, 0)
    }

    fn remove_from(&mut self, name: &[u8], from: usize) -> usize {
        let mut removed = 0;
        let mut next = from;
        while let Some(index) = self.find_from(name, next).map(|field| field.index) {
            self.remove(index);
            removed += 1;
            next = index + 1;
        }
        removed
    }

    /// Removes all fields with a well-known name.
    #[inline]
    pub fn remove_id(&mut self, id: HeaderId) -> usize {
        match self.index.only(id) {
            Some(only) => usize::from(self.take_out(only)),
            None if !self.index.has(id) => 0,
            None => self.remove_each(id),
        }
    }

    fn remove_each(&mut self, id: HeaderId) -> usize {
        let mut removed = 0;
        let mut next = 0;
        while let Some(index) = self.get_from(id, next).map(|field| field.index) {
            self.remove(index);
            removed += 1;
            next = index + 1;
        }
        removed
    }

    /// Keeps the fields for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(FieldRef<'_>) -> bool) {
        for index in 0..self.fields.len() {
            if self.field(index).is_some_and(|field| !keep(field)) {
                self.remove(index);
            }
        }
    }

    /// Removes all fields with this name and appends one with this value, as `set-header` does.
    ///
    /// # Errors
    /// As [`Head::push`]; the fields that were there are kept then.
    pub fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), RewriteError> {
        if !crate::ascii::is_token(name) {
            return Err(RewriteError::Invalid);
        }
        check_value(value)?;
        let freed: usize = self.find_all(name).map(|field| field.name.len() + field.value.len() + 4).sum();
        self.room(name.len() + value.len() + 4, freed)?;
        self.remove_all(name);
        self.push(name, value)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    fn head(limit: usize) -> Head {
        let mut head = Head::new();
        head.set_limit(limit);
        head.start_request(b"GET", b"/", Version::HTTP_11).unwrap();
        for (name, value) in [("age", "7"), ("host", "here"), ("Age", "8"), ("retry-after", "soon")] {
            head.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    fn text(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
        head.fields().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
    }

    /// Numbers that are set are fields that were taken out and appended one by one, with names and values of any length.
    #[test]
    fn numbers_are_set_as_fields_are() {
        use HeaderId::*;
        let numbers = [0, 9, 10, 99_999_999, 100_000_000, u64::MAX];
        let ids =
            [Age, RetryAfter, ContentLength, AccessControlRequestHeaders, AccessControlAllowCredentials];
        for (at, number) in numbers.into_iter().enumerate() {
            for (other, id) in ids.into_iter().enumerate() {
                let three = [(id, number), (ids[(at + other) % 5], 1234), (RateLimitReset, 60)];
                let (mut one, mut two) = (head(4096), head(4096));
                assert_eq!(one.set_numbers(three), Ok(()));
                for (id, number) in three {
                    two.remove_id(id);
                    two.push_id(id, number.to_string().as_bytes()).unwrap();
                }
                // Of a name that is there twice, the last one stays where all are set one by one.
                if three[0].0 != three[1].0 {
                    assert_eq!(text(&one), text(&two), "{three:?}");
                    assert_eq!(one.encoded_len(), two.encoded_len());
                    assert_eq!(
                        one.get(id).map(|field| field.value.to_vec()),
                        Some(number.to_string().into_bytes())
                    );
                }
            }
        }
    }

    #[test]
    fn numbers_need_names_and_room() {
        let mut small = head(70);
        assert_eq!(
            small.set_numbers([(HeaderId::RateLimitRemaining, 12_345_678)]),
            Err(RewriteError::TooLarge)
        );
        assert_eq!(head(4096).set_numbers([(HeaderId::Other, 1)]), Err(RewriteError::Invalid));
        let longest = [HeaderId::AccessControlRequestHeaders; TOGETHER_MAX].map(|id| (id, 12_345_678));
        assert_eq!(head(4096).set_numbers(longest), Ok(()));
    }
}
