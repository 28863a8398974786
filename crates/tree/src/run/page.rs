//! The page of a leaf range that a scan goes through: its verified body, with what finds a record in it at hand.

use std::ops::Range;

use crate::{
    leaf_page::LeafPage,
    record::Kind,
    slots::{Place, Shape, Slots},
    tree::Result,
};

/// A page's body, verified.
pub(super) struct Page {
    body: Vec<u8>,
    /// Where the slots begin; the prefix ends there.
    slots_at: usize,
    prefix_bytes: usize,
    /// Of its records, if they are dense.
    shape: Option<Shape>,
}

impl Page {
    /// # Errors
    /// `Damaged`.
    pub(super) fn of(body: Vec<u8>) -> Result<Self> {
        let page = LeafPage::decode(&body)?;
        let (slots_at, prefix_bytes) = (body.len() - page.slots().bytes().len(), page.prefix().len());
        let shape = page.slots().dense_shape();
        Ok(Self { body, slots_at, prefix_bytes, shape })
    }

    /// What all its keys begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.body[self.slots_at - self.prefix_bytes..self.slots_at]
    }

    /// Its records, with key suffixes.
    pub(super) fn slots(&self) -> Slots<'_> {
        Slots::new(&self.body[self.slots_at..])
    }

    /// The slot of `key` (`Ok`), or where it belongs (`Err`).
    pub(super) fn search(&self, key: &[u8]) -> std::result::Result<usize, usize> {
        self.slots().search_behind(self.prefix(), key)
    }

    /// What record `slot` is.
    #[inline]
    pub(super) fn kind(&self, slot: usize) -> Kind {
        self.shape.map_or_else(|| self.slots().place(slot).kind, |shape| shape.kind)
    }

    /// Makes `key`, which begins with the page's prefix, that of record `slot`; returns where in the body its value is.
    #[inline]
    pub(super) fn look(&self, slot: usize, key: &mut Vec<u8>) -> Range<usize> {
        let place = match self.shape {
            Some(shape) => Place::dense(slot, shape),
            None => self.slots().place(slot),
        };
        key.truncate(self.prefix_bytes);
        key.extend_from_slice(&self.body[self.slots_at + place.key..self.slots_at + place.value]);
        self.slots_at + place.value..self.slots_at + place.end
    }

    /// What lies there in the body.
    #[inline]
    pub(super) fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.body[at]
    }
}
