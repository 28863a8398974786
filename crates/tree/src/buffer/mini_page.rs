//! What only mini-pages do: clean records, mirrors, copies without cold records.

use super::{Buffer, Demand, Marks, Place};
use crate::{
    leaf_page::LeafPage,
    pool::{arena::Owner, class::Sizing, memory::Memory},
    record::Record,
    slots::Slots,
};

/// What became of a record that was to be cached.
pub(crate) enum Cached {
    /// It was there, or something newer was.
    Known,
    /// It is there now.
    Kept,
    /// The mini-page must be replaced by this larger one.
    Grown(Buffer),
    /// The mini-page would exceed the limit.
    TooLarge,
    /// There is no memory to spare.
    NoRoom,
}

impl Buffer {
    /// Marks all records as dirty; they are those of an image.
    pub(crate) fn mark_all_dirty(&mut self) {
        let len = self.slots().len();
        if let Some(marks) = self.marks() {
            (0..len).for_each(|index| marks.set_dirty(index, true));
        }
    }

    /// Keeps a clean record of the page, or says that the page has none: `record` is a tombstone then. Nothing changes if the key is
    /// known already.
    pub(crate) fn cache(&mut self, memory: &Memory, owner: Owner, record: &Record<'_>, bytes_max: usize) -> Cached {
        if self.find(record.key).is_some() {
            return Cached::Known;
        }
        if self.put(record, false) {
            return Cached::Kept;
        }
        if self.payload_bytes_with(record) > bytes_max {
            return Cached::TooLarge;
        }
        match self.grown_in(Place { memory, owner, demand: Demand::Spare }, record, false) {
            None => Cached::NoRoom,
            Some(grown) if grown.bytes() > bytes_max => Cached::TooLarge,
            Some(grown) => Cached::Grown(grown),
        }
    }

    /// Bytes of keys and values once `record` is there, whose key is not: it takes no fewer then, and may take more than there can be.
    fn payload_bytes_with(&self, record: &Record<'_>) -> usize {
        let (slots, moved) = (self.slots(), self.prefix_bytes_beyond(record.key));
        let suffix_bytes = record.key.len() + moved - self.prefix().len();
        slots.payload_bytes() + slots.len() * moved + suffix_bytes + record.value.len()
    }

    /// A copy at the tail of the ring for another round of it, if there is room. Clean records that nobody used stay behind, the marks of
    /// use are gone. A mirror stays one if a scan or most of its records were used, or it is dirty: a dirty one that lost records could not
    /// tell any more whose values died.
    pub(crate) fn copied_to_tail(&self, memory: &Memory, owner: Owner) -> Option<Self> {
        let slots = self.slots();
        let was_used = self.is_referenced() || 2 * self.used_records().count() >= slots.len();
        let keeps_all = self.is_complete() && (self.is_dirty() || was_used);
        let marks = self.marks()?;
        let kept = |index: &usize| keeps_all || marks.is_dirty(*index) || marks.is_used(*index);
        let place = Place { memory, owner, demand: Demand::Spare };
        let records = (0..slots.len()).filter(kept).map(|index| slots.record(index));
        let mut copy = Self::of_records(place, self.page(), self.prefix(), records)?;
        copy.set_sequence(self.sequence());
        let lost = copy.slots().len() < slots.len();
        copy.header_mut().word |= self.header().word & if lost { super::DIRTY } else { super::DIRTY | super::COMPLETE };
        let copied = copy.marks()?;
        for (to, from) in (0..slots.len()).filter(kept).enumerate() {
            copied.set_dirty(to, marks.is_dirty(from));
        }
        Some(copy)
    }

    /// A copy of all of it in other memory, which must be there; as large as it is in the paper's classes, else as large as it needs to be.
    pub(crate) fn copied(&self, memory: &Memory, owner: Owner, demand: Demand) -> Self {
        self.try_copied(Place { memory, owner, demand }).expect(super::MUST)
    }

    /// A copy of all of it at the tail of the ring, if there is room.
    pub(crate) fn moved_to_tail(&self, memory: &Memory, owner: Owner) -> Option<Self> {
        self.try_copied(Place { memory, owner, demand: Demand::Spare })
    }

    fn try_copied(&self, place: Place<'_>) -> Option<Self> {
        let mut copy = if matches!(place.memory.sizing(), Sizing::Paper { .. }) {
            let mut copy = Self::of_class(place, self.page(), self.prefix(), self.class())?;
            assert!(copy.fill_from(self, &[]), "a copy of its class holds as much");
            copy
        } else {
            Self::of_records(place, self.page(), self.prefix(), self.slots().iter())?
        };
        copy.inherit(self);
        copy.copy_marks(self);
        Some(copy)
    }

    /// Whether [`copied_to_tail`](Self::copied_to_tail) would keep any record.
    pub(crate) fn is_worth_a_copy(&self) -> bool {
        self.is_dirty() || self.is_complete() && self.is_referenced() || self.used_records().next().is_some()
    }

    /// A mirror of `page` under the dirty records of this mini-page, if there is room. `merged` are all records that a reader of both sees,
    /// with full keys and tombstones; this one's `dirty_records` stay dirty.
    pub(crate) fn mirror_over(
        &self,
        memory: &Memory,
        owner: Owner,
        page: &LeafPage<'_>,
        merged: &[Record<'_>],
    ) -> Option<Self> {
        let prefix_bytes = crate::key::common_prefix_bytes(page.prefix(), self.prefix());
        let prefix = &page.prefix()[..prefix_bytes];
        let suffixes = merged.iter().map(|record| Record { key: &record.key[prefix_bytes..], ..*record });
        let mut mirror = Self::cache_of(memory, owner, self.page(), prefix, suffixes)?;
        mirror.inherit(self);
        mirror.set_complete();
        mirror.mark_dirty_as(self);
        Some(mirror)
    }

    fn mark_dirty_as(&mut self, other: &Buffer) {
        let moved = &other.prefix()[self.prefix().len()..];
        let (Some(marks), slots) = (self.marks(), self.slots()) else { return };
        for record in other.dirty_records() {
            mark_dirty(marks, slots, &[moved, record.key].concat());
        }
    }
}

fn mark_dirty(marks: Marks<'_>, slots: Slots<'_>, suffix: &[u8]) {
    let index = slots.search(suffix).expect("a mirror holds all records");
    marks.set_dirty(index, true);
}
