//! Point reads: at most one leaf read each (I8).

use zonda_pages::{PageAddress, PageId};
use zonda_rt::epoch::Guard;

use crate::{
    filter::AsOf,
    leaf_page::LeafBody,
    leaf_table::Shared,
    options::Design,
    record::{Kind, Record},
    snapshot::{Kept, Level},
    stats::count,
    tree::{Result, Tree},
    values::ValuePointer,
};

/// What memory says of a key.
pub(crate) enum Seen {
    /// It has this value, or none.
    Known(Option<Found>),
    /// The leaf's page must be asked.
    AskPage(PageId, PageAddress),
}

/// A value as a record holds it.
pub(crate) enum Found {
    /// The bytes were copied to the caller's vector.
    Copied,
    /// The value is in the value log; the encoded pointer was copied instead.
    Pointer,
}

impl Tree {
    /// Reads the value of `key` into `into` (cleared first); `false` if there is none.
    ///
    /// The value is right as of the moment the leaf was latched: a linearizable read.
    ///
    /// # Errors
    /// `Damaged`, those of the store.
    pub(crate) fn get_into(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        count(&self.counters.mine().gets);
        into.clear();
        let guard = self.epoch.pin();
        let found = match self.look(key, into, &guard) {
            Seen::Known(found) => found,
            Seen::AskPage(id, page) => self.ask_page(key, id, page, into)?,
        };
        match found {
            None => Ok(false),
            Some(Found::Copied) => Ok(true),
            Some(Found::Pointer) => self.fetch_value(key, into).map(|()| true),
        }
    }

    /// The leaf of `key` and its page.
    pub(crate) fn leaf_of(&self, key: &[u8]) -> (PageId, Option<PageAddress>) {
        let guard = self.epoch.pin();
        loop {
            let path = self.index.find(key, &guard);
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                return (leaf.id(), leaf.location().page());
            }
        }
    }

    /// The encoded value pointer of `key`, if that is what it maps to.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    pub(crate) fn get_pointer(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let found = self.find_as_of(None, key, into, &self.epoch.pin())?;
        Ok(matches!(found, Some(Found::Pointer)))
    }

    /// What memory knows of `key`: filter, batch array, buffer, in this order.
    pub(crate) fn look(&self, key: &[u8], into: &mut Vec<u8>, guard: &Guard<'_>) -> Seen {
        if let Some(known) = self.look_above(key, into, guard) {
            count(&self.counters.mine().filter_hits);
            return Seen::Known(known);
        }
        loop {
            let path = self.index.find(key, guard);
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                return self.look_latched(leaf, key, into);
            }
        }
    }

    /// What memory knows of `key`, now or as `snapshot` sees it.
    ///
    /// # Errors
    /// `SnapshotTooOld`.
    pub(crate) fn look_as_of(
        &self,
        snapshot: Option<u64>,
        key: &[u8],
        into: &mut Vec<u8>,
        guard: &Guard<'_>,
    ) -> Result<Seen> {
        let Some(snapshot) = snapshot else { return Ok(self.look(key, into, guard)) };
        if let Some(known) = self.look_above_as_of(snapshot, key, into, guard)? {
            count(&self.counters.mine().filter_hits);
            return Ok(Seen::Known(known));
        }
        loop {
            let path = self.index.find(key, guard);
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                let kept = self.snapshots.kept_at(Level::Leaves, snapshot, key)?;
                return Ok(match kept {
                    Some(kept) => look_in_kept(&kept, key, into),
                    None => self.look_latched(leaf, key, into),
                });
            }
        }
    }

    /// What `key` maps to, now or as `snapshot` sees it: an inline value, or the encoded pointer to a large one, is added to `into`. For
    /// what is not the hot path, which is [`get_into`](Self::get_into).
    ///
    /// # Errors
    /// As there; `SnapshotTooOld`.
    fn find_as_of(
        &self,
        snapshot: Option<u64>,
        key: &[u8],
        into: &mut Vec<u8>,
        guard: &Guard<'_>,
    ) -> Result<Option<Found>> {
        match self.look_as_of(snapshot, key, into, guard)? {
            Seen::Known(found) => Ok(found),
            Seen::AskPage(id, page) => self.ask_page(key, id, page, into),
        }
    }

    /// As [`get_into`](Self::get_into), as snapshot `number` sees it.
    ///
    /// # Errors
    /// As `get_into`; `SnapshotTooOld`.
    pub(crate) fn get_as_of(&self, number: u64, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        count(&self.counters.mine().gets);
        into.clear();
        let guard = self.epoch.pin();
        let value = self.find_as_of(Some(number), key, into, &guard).and_then(|found| match found {
            None => Ok(false),
            Some(Found::Copied) => Ok(true),
            Some(Found::Pointer) => self.fetch_value(key, into).map(|()| true),
        });
        // A snapshot that was given up meanwhile holds no zone back: what was read in vain is no damage.
        value.or_else(|error| self.snapshots.verify(number).and(Err(error)))
    }

    /// Whether `key` exists, now or as `snapshot` sees it. A large value is not read.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into); `SnapshotTooOld`.
    pub(crate) fn contains(&self, snapshot: Option<u64>, key: &[u8]) -> Result<bool> {
        count(&self.counters.mine().gets);
        let mut value = Vec::new();
        let guard = self.epoch.pin();
        let found = self.find_as_of(snapshot, key, &mut value, &guard);
        // A snapshot that was given up meanwhile holds no zone back: what was read in vain is no damage.
        found.map(|found| found.is_some()).or_else(|error| self.verify(snapshot).and(Err(error)))
    }

    /// What a latched leaf's buffer knows of `key`; one near the ring's head is moved afterwards.
    fn look_latched(&self, leaf: Shared<'_>, key: &[u8], into: &mut Vec<u8>) -> Seen {
        let (seen, id) = (self.look_in(&leaf, key, into), leaf.id());
        let is_near_head = self.is_near_head(leaf.location());
        drop(leaf);
        if is_near_head {
            self.give_second_chance(id);
        }
        seen
    }

    /// What the buffer of a latched leaf knows of `key`, then the record cache.
    fn look_in(&self, leaf: &Shared<'_>, key: &[u8], into: &mut Vec<u8>) -> Seen {
        if let Some(buffer) = leaf.location().buffer() {
            if !buffer.is_mini_page() {
                buffer.touch();
            }
            let known = match buffer.read(key) {
                Some(record) => Some(copy_value(&record, into)),
                None if buffer.is_complete() => {
                    // No record is there that could be marked as used: all of it was.
                    buffer.touch();
                    Some(None)
                }
                None => None,
            };
            if let Some(known) = known {
                if buffer.is_mini_page() {
                    let counts = &self.counters.mine().mini_pages;
                    count(if known.is_some() { &counts.hits } else { &counts.hits_of_none });
                }
                return Seen::Known(known);
            }
        }
        let Some(page) = leaf.location().page() else { return Seen::Known(None) };
        let kept = self.records.find(key, |record| copy_value(record, into));
        kept.map_or(Seen::AskPage(leaf.id(), page), Seen::Known)
    }

    /// What filter and batch array know of `key`, if there is a filter and it knows the key.
    pub(crate) fn look_above(&self, key: &[u8], into: &mut Vec<u8>, guard: &Guard<'_>) -> Option<Option<Found>> {
        let mut value = |record: &Record<'_>| copy_value(record, into);
        self.filter.as_ref()?.find(key, guard, &mut value)
    }

    /// As [`look_above`](Self::look_above), as snapshot `number` sees it.
    fn look_above_as_of(
        &self,
        number: u64,
        key: &[u8],
        into: &mut Vec<u8>,
        guard: &Guard<'_>,
    ) -> Result<Option<Option<Found>>> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let mut value = |record: &Record<'_>| copy_value(record, into);
        filter.find_as_of(key, AsOf::Snapshot(&self.snapshots, number), guard, &mut value)
    }

    /// What the leaf's page knows of `key`.
    fn ask_page(&self, key: &[u8], id: PageId, page: PageAddress, into: &mut Vec<u8>) -> Result<Option<Found>> {
        count(&self.counters.mine().leaf_reads);
        let mut found = Ok(None);
        self.store.read(id, page, &mut |body| found = self.answer_of((id, page), body, key, into))?;
        found
    }

    /// What a page that was read knows of `key`: its value, if it has one, is added to `into`, and in the designs whose buffers or caches
    /// keep what is read they may. Called with no latch of a leaf held, under an epoch guard from before the page's address was read.
    ///
    /// # Errors
    /// `Damaged`.
    pub(crate) fn answer_of(
        &self,
        at: (PageId, PageAddress),
        body: &[u8],
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let page = LeafBody::decode(body)?;
        let found = page.find(key)?;
        let (kind, value) = found.map_or((Kind::Tombstone, &[][..]), |record| (record.kind, record.value));
        let answer = Record { key, kind, value };
        match self.options.design {
            Design::BTree => self.mirror(at.0, at.1, body),
            Design::BfTree => self.promote(at, &page, &answer),
            Design::Adb => self.keep_record(at, &answer),
            Design::Deltas => {}
        }
        Ok(copy_value(&answer, into))
    }

    /// Keeps what the page at `page` says in the record cache, if it is the page of leaf `id` still: no other can have its address while
    /// the epoch is pinned.
    fn keep_record(&self, (id, page): (PageId, PageAddress), answer: &Record<'_>) {
        if self.records.is_off() {
            return;
        }
        let Some(leaf) = self.table.try_lock_shared(id) else { return };
        if leaf.location().page() == Some(page) {
            self.records.keep(answer);
        }
    }

    /// Replaces the pointer in `into` by the value that it points to.
    pub(crate) fn fetch_value(&self, key: &[u8], into: &mut Vec<u8>) -> Result<()> {
        let pointer = ValuePointer::decode(into)?;
        *into = self.values.read(key, &pointer)?;
        Ok(())
    }
}

/// What a kept state knows of `key`.
fn look_in_kept(kept: &Kept, key: &[u8], into: &mut Vec<u8>) -> Seen {
    if let Some(record) = kept.records.find(key) {
        return Seen::Known(copy_value(&record, into));
    }
    kept.page.map_or(Seen::Known(None), |page| Seen::AskPage(kept.id, page))
}

/// Copies what a record maps its key to.
pub(crate) fn copy_value(record: &Record<'_>, into: &mut Vec<u8>) -> Option<Found> {
    into.extend_from_slice(record.value);
    match record.kind {
        Kind::Inline => Some(Found::Copied),
        Kind::Pointer => Some(Found::Pointer),
        Kind::Tombstone => None,
    }
}
