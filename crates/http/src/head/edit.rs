//! Editing the fields of a head. Every edit validates what it is given and keeps the head within its bound.

use super::{CANONICAL, FIELDS_END, Field, Head, REMOVED, RewriteError, append_canonical, check_value};
use super::{FieldRef, Span};
use crate::header_id::HeaderId;

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
