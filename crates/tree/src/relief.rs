//! Space that a full store still owes (I9): before a write is refused, what deletes and overwrites in filter and buffers is merged,
//! and neighbours that together fit fewer pages are joined: loosely first, as tightly as it goes if that does not do.
//!
//! A search is worth its reads only if something was written since one found nothing: a full store that is asked again and again
//! refuses at once. Joining looks at every leaf, if only at what the leaf table knows of it, hence waits for as many writes as it
//! takes for a share of the leaves to have changed.

use std::ops::ControlFlow;

use zonda_pages::{BLOCK_BYTES, PageId};
use zonda_rt::{Mutex, atomic::Ordering};

use crate::{
    Design, KEY_BYTES_MAX,
    compact::{Fill, seem_to_join},
    flush::Flushed,
    log::can_go_on,
    record::Kind,
    relocate::{can_wait, is_damage},
    room::PAUSE,
    tree::{Result, Tree, is_no_space},
};

/// Buffers that are merged, and groups that are looked at, before the store is asked again.
const STRIDE: u32 = 32;
/// How often a write of values that finds no zone is tried again.
const VALUE_TRIES: u32 = 4;
/// The same where zones are not short, with a pause between: a second or more.
const VALUE_TRIES_PATIENT: u32 = 500;
/// Neighbours are joined once as many records were written as this part of the leaves.
const JOIN_SHARE: u64 = 16;

/// What the last search left.
#[derive(Default)]
pub(crate) struct Relief {
    /// One searches; the others wait for what it finds.
    state: Mutex<State>,
    /// What searches found dirty, in buffers that hold clean pages too.
    dirty: Mutex<Option<Dirty>>,
}

/// Bytes of dirty records in buffers, and the records that had been written by then.
#[derive(Clone, Copy)]
struct Dirty {
    bytes: u64,
    written: u64,
}

#[derive(Default)]
struct State {
    /// Records written when a search last found too little.
    searched_at: Option<u64>,
    /// Records written when all neighbours were last looked at.
    joined_at: Option<u64>,
}

impl Tree {
    /// As [`admit`](Self::admit) for a write of `pages`, and for what filter and buffers hold: that needs pages too, some time. Looks
    /// for space before it refuses. No latch and no stripe may be held.
    ///
    /// # Errors
    /// As `admit`.
    pub(crate) fn admit_pressing(&self, pages: u32) -> Result<()> {
        match self.admit_buffered(pages) {
            Err(error) if is_no_space(&error) => {}
            outcome => return outcome,
        }
        let mut state = self.relief.state.lock();
        // Somebody else may have found what this one needs.
        match self.admit_buffered(pages) {
            Err(error) if is_no_space(&error) => {
                let found = self.search(&mut state, pages);
                match found {
                    Ok(true) => Ok(()),
                    // What was merged meanwhile is live now: the refusal says so.
                    Ok(false) => self.admit_buffered(pages),
                    Err(other) if is_no_space(&other) => Err(other),
                    Err(other) if can_go_on(&other) => Err(error),
                    Err(other) => Err(other),
                }
            }
            outcome => outcome,
        }
    }

    /// The same for a write that found too few zones for all its pages although it was admitted: reclaims first until there are as many, or
    /// nothing is left to be gained.
    ///
    /// # Errors
    /// As `admit`.
    pub(crate) fn admit_at_once(&self, pages: u32) -> Result<()> {
        self.reclaim_for(pages)?;
        self.admit_pressing(pages)
    }

    /// The same for a write of values that was tried so often; `false` if that is enough. Where zones are not short, another thread has the
    /// one that their stream may hold, for as long as it takes to seal it.
    ///
    /// # Errors
    /// As `admit`.
    pub(crate) fn admit_again(&self, pages: u32, tries: u32) -> Result<bool> {
        if tries >= VALUE_TRIES && (tries >= VALUE_TRIES_PATIENT || self.store.is_short()) {
            return Ok(false);
        }
        self.admit_at_once(pages)?;
        if tries >= VALUE_TRIES {
            zonda_rt::sleep(PAUSE);
        }
        Ok(true)
    }

    fn admit_buffered(&self, pages: u32) -> Result<()> {
        match self.admit(pages.saturating_add(self.buffered_pages())) {
            Err(error) if is_no_space(&error) => match self.dirty_pages_at_most() {
                Some(dirty) => self.admit(pages.saturating_add(dirty)),
                None => Err(error),
            },
            outcome => outcome,
        }
    }

    /// Pages that what is dirty in filter and buffers would fill, at most, where buffers are a page cache too and somebody has looked: what
    /// was dirty then, and what has been written since.
    fn dirty_pages_at_most(&self) -> Option<u32> {
        let dirty = (*self.relief.dirty.lock())?;
        let record_bytes = (KEY_BYTES_MAX as u64).saturating_add(self.options.value_inline_bytes_max.into());
        let since = self.written().saturating_sub(dirty.written).saturating_mul(record_bytes);
        let bytes = dirty.bytes.saturating_add(since).saturating_add(self.filter_bytes());
        u32::try_from(bytes.div_ceil(BLOCK_BYTES as u64)).ok()
    }

    /// Whether buffers are a page cache, too.
    fn has_clean_pages(&self) -> bool {
        matches!(self.options.design, Design::BTree | Design::BfTree)
    }

    /// Looks what is dirty in buffers, where they hold clean pages too. Cost: one look at each buffer.
    fn look_what_is_dirty(&self) {
        if !self.has_clean_pages() {
            return;
        }
        // First, so that what is written meanwhile counts twice rather than not at all.
        let written = self.written();
        let dirty_bytes = |id: PageId| {
            let leaf = self.table.lock_shared(id);
            leaf.location().buffer().filter(|buffer| buffer.is_dirty()).map_or(0, |buffer| buffer.dirty_bytes() as u64)
        };
        let ids = (0..self.table.len()).map(PageId).filter(|id| self.table.seems_buffered(*id));
        *self.relief.dirty.lock() = Some(Dirty { bytes: ids.map(dirty_bytes).sum(), written });
    }

    /// Pages that what filter and buffers hold would fill.
    fn buffered_pages(&self) -> u32 {
        let buffered = (self.pool.used_bytes() + self.filter_bytes()) / BLOCK_BYTES as u64;
        u32::try_from(buffered).unwrap_or(u32::MAX / 4)
    }

    /// Whether the store has room for twice what filter and buffers hold, at the moment, as splits may leave pages half full: for who need
    /// not merge now, or not yet. In a full store that would take what deletes that wait in buffers need to give anything back. A store
    /// that fails has none: whoever merges hears of it.
    pub(crate) fn has_room_to_spare(&self) -> bool {
        !self.store.is_short() && self.store.admit(self.buffered_pages().saturating_mul(2).max(1)).is_ok()
    }

    /// Whether `pages` would be admitted now.
    fn has_room(&self, pages: u32) -> Result<bool> {
        match self.admit_buffered(pages) {
            Ok(()) => Ok(true),
            Err(error) if is_no_space(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Merges and joins until `pages` are admitted, or there is nothing left to try. `false`: too little was found.
    fn search(&self, state: &mut State, pages: u32) -> Result<bool> {
        let written = self.written();
        if state.searched_at == Some(written) {
            return Ok(false);
        }
        match self.empty_filter() {
            // Merges may give what that wants.
            Err(error) if !can_wait(&error) => return Err(error),
            _ => {}
        }
        let merged = self.merge_dirty(pages);
        self.look_what_is_dirty();
        match merged {
            Ok(true) => return Ok(true),
            Ok(false) if self.has_clean_pages() && self.has_room(pages)? => return Ok(true),
            // Splits may have taken what there was: leaves that are joined give it back.
            Err(error) if !is_no_space(&error) => return Err(error),
            Ok(false) | Err(_) => {}
        }
        let leaves = u64::from(self.leaves.load(Ordering::Relaxed));
        if state.joined_at.is_none_or(|at| written - at > leaves / JOIN_SHARE) {
            for fill in [Fill::Loose, Fill::Tight] {
                match self.join_all(fill, pages) {
                    Ok(true) => return Ok(true),
                    Err(error) if !is_no_space(&error) => return Err(error),
                    Ok(false) | Err(_) => {}
                }
            }
            state.joined_at = Some(written);
        }
        // What deletes moved aside is free only once its zones are.
        let found = self.has_room(pages)?;
        state.searched_at = (!found).then_some(written);
        Ok(found)
    }

    /// Merges buffers that hold changes; whether `pages` are admitted then. Where live pages alone fill the store, those that may split
    /// their leaf stay: they would take what deletes need to give pages back.
    fn merge_dirty(&self, pages: u32) -> Result<bool> {
        let (mut merged, mut refused) = (0, None);
        for id in (0..self.table.len()).map(PageId) {
            if !self.table.seems_buffered(id) || !self.seems_dirty(id) || self.may_split(id) && self.is_over_full() {
                continue;
            }
            if refused.is_none() {
                match self.flush_leaf(id) {
                    Err(error) if is_damage(&error) => continue,
                    Err(error) if is_no_space(&error) => refused = Some(error),
                    flushed => _ = flushed?,
                }
            }
            // Others wait for the zone that this one may give back.
            if refused.is_some() {
                match self.flush_leaf_for_space(id) {
                    Err(error) if is_damage(&error) => continue,
                    Ok(Flushed::Raced) => return refused.map_or(Ok(false), Err),
                    flushed => _ = flushed?,
                }
            }
            merged += 1;
            if merged % STRIDE == 0 && self.has_room(pages)? {
                return Ok(true);
            }
        }
        self.has_room(pages)
    }

    /// Records written since the tree was opened.
    pub(crate) fn written(&self) -> u64 {
        self.counters.all(|mine| &mine.puts)
    }

    fn is_over_full(&self) -> bool {
        let usage = self.store.usage();
        usage.live_page_bytes + usage.live_value_bytes > usage.usable_bytes
    }

    /// Whether merging leaf `id` may take a page more: what is put into it may be new.
    fn may_split(&self, id: PageId) -> bool {
        let leaf = self.table.lock_shared(id);
        let Some(buffer) = leaf.location().buffer() else { return false };
        let puts = buffer.slots().iter().filter(|record| record.kind != Kind::Tombstone);
        let bytes: usize = puts.map(|record| record.key.len() + record.value.len()).sum();
        bytes > 0 && self.known_bytes(id) + bytes > self.body_bytes()
    }

    fn seems_dirty(&self, id: PageId) -> bool {
        let leaf = self.table.lock_shared(id);
        leaf.location().buffer().is_some_and(|buffer| buffer.is_dirty())
    }

    /// Joins neighbours that seem to fit fewer pages, in key order; whether `pages` are admitted then.
    fn join_all(&self, fill: Fill, pages: u32) -> Result<bool> {
        let mut next = Some(Vec::new());
        let mut joined = 0;
        while let Some(key) = next {
            next = match self.next_joinable(&key, fill) {
                ControlFlow::Break(None) => None,
                ControlFlow::Break(Some(low)) => {
                    joined += 1;
                    let (_, after) = self.compact_group(&low, fill)?;
                    if joined % STRIDE == 0 && self.has_room(pages)? {
                        return Ok(true);
                    }
                    after
                }
                ControlFlow::Continue(high) => Some(high),
            };
        }
        self.has_room(pages)
    }

    /// About how many bytes the page of leaf `id` uses; all of it if that is not known: an earlier life would have said if it were sparse.
    pub(crate) fn known_bytes(&self, id: PageId) -> usize {
        match self.table.fill_bytes(id, self.body_bytes()) {
            0 => self.body_bytes(),
            bytes => bytes,
        }
    }

    /// The low fence of the first leaf under the parent of `key`, from there on, that seems to fit fewer pages with those to its right;
    /// else where the next parent begins. From what the leaf table knows: no page is read.
    fn next_joinable(&self, key: &[u8], fill: Fill) -> ControlFlow<Option<Vec<u8>>, Vec<u8>> {
        let guard = self.epoch.pin();
        let path = self.index.find(key, &guard);
        let (parent, first) = path.parent();
        let bytes = |child| self.known_bytes(parent.leaf(child));
        for child in first..parent.len() {
            if seem_to_join((child..parent.len()).map(bytes), fill, self.body_bytes()) {
                return ControlFlow::Break(Some(path.at_child(child).low()));
            }
        }
        path.at_child(parent.len() - 1).high().map_or(ControlFlow::Break(None), ControlFlow::Continue)
    }
}
