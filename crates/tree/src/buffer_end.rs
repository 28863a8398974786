//! The end of a leaf's buffer: how much a leaf keeps in memory that cannot be merged.
//!
//! Memory for buffers comes in classes, and the largest ends at 256 KiB. Usually a buffer is merged long before. Two things bring it there:
//! a leaf that cannot be merged for long, and a key outside of the buffer's prefix, as every record then gets back what the prefix lacks
//! from there on. A prefix may be far longer than what the leaf's range shares: a mirror has that of its page, and a range grows when a
//! neighbour goes. So what counts is what a buffer takes *with the record that comes*. Where that is past the end the buffer goes first:
//! dropped if it is clean, else merged. If it cannot be, a logged record has nowhere to go and the store stops; one on its way down from
//! the filter stays there, and a value pointer that reclaim would move is not moved.

use zonda_pages::{PageError, PageId};
use zonda_rt::atomic::Ordering;

use crate::{
    TreeError,
    buffer::Buffer,
    flush::{Flushed, Merge},
    leaf_table::Location,
    relocate::{can_wait, is_damage},
    tree::{Result, Tree, is_no_space},
    unmerged::Refusal,
};

/// A batch that grows a buffer past this merges it at once.
pub(crate) const BUFFER_BYTES_LONG: usize = 32 << 10;
/// Tries to merge a leaf within a batch.
const RELIEVE_TRIES: usize = 256;
/// Tries where a logged record has no room without: seconds, as the store stops then.
const LAST_TRIES: usize = 8_192;

/// A buffer that grows past this because its leaf cannot be merged stops the store: another record of any size must fit
/// after it. In bytes, and in records, for which mini-pages have marks: more than 16,384 need more than the largest class.
pub(crate) const BUFFER_END: (usize, usize) = (192 << 10, 12_000);
/// The same for recovery, which has to take whatever was logged when that end was reached.
const RECOVERED_END: (usize, usize) = (240 << 10, 16_000);
/// Where a leaf that cannot be merged takes no puts any more, in bytes and a mini-page's records: whoever is logging has room up to the
/// end.
pub(crate) const PUTS_END: (usize, usize) = (96 << 10, 6_000);
/// Where it takes no deletes either.
pub(crate) const DELETES_END: (usize, usize) = (160 << 10, 10_000);
/// Where it takes no value pointer that reclaim has moved: beyond where none is moved any more, as others write meanwhile. One that comes
/// later still is not logged, and its value stays where it was.
pub(crate) const MOVED_END: (usize, usize) = (224 << 10, 14_000);

/// Keys that come to a buffer, all of one leaf.
#[derive(Clone, Copy)]
pub(crate) struct Coming<'k> {
    pub(crate) least: &'k [u8],
    pub(crate) greatest: &'k [u8],
}

impl<'k> Coming<'k> {
    /// One key.
    pub(crate) fn one(key: &'k [u8]) -> Self {
        Self { least: key, greatest: key }
    }

    /// What the records of a buffer take more once these keys are there.
    fn bytes_more(self, buffer: &Buffer) -> usize {
        let moved = |key| buffer.prefix_bytes_beyond(key);
        buffer.slots().len() * moved(self.least).max(moved(self.greatest))
    }
}

impl Tree {
    /// As [`make_ready`](Self::make_ready) says, where some leaf could not be merged, or may not be.
    #[cold]
    pub(crate) fn check_takes(&self, key: &[u8], bytes: usize, end: (usize, usize)) -> Result<()> {
        let (id, _) = self.leaf_of(key);
        let (coming, end) = (Some(Coming::one(key)), (end.0.saturating_sub(bytes), end.1));
        let has_room = || !self.is_beyond(self.table.lock_shared(id).location(), coming, end);
        if has_room() || self.table.try_lock(id).is_some_and(|mut leaf| self.drop_if_clean(&mut leaf)) {
            return Ok(());
        }
        match self.flush_leaf(id) {
            Err(TreeError::Store(cause)) if matches!(*cause, PageError::Busy) => Ok(()),
            Err(error) if can_wait(&error) && has_room() => Ok(()),
            // Others as they are: nothing is logged.
            Err(error) if can_wait(&error) => Err(error),
            outcome => self.poison.watch(outcome).map(drop),
        }
    }

    /// Merges a leaf whose buffer is at its end for what comes, or finds that another did; `false`: the store has stopped.
    pub(crate) fn makes_room_in(&self, id: PageId, coming: Coming<'_>) -> bool {
        // The merge may be done although what follows it failed.
        self.relieve_at_once(id, Some(coming)).is_ok() || !self.is_at_end(self.table.lock_shared(id).location(), coming)
    }

    /// Merges a leaf whose buffer is at its end for a run that comes down from the filter, or finds that another did. Waits for zones: no
    /// stripe may be held.
    ///
    /// # Errors
    /// Why it could not be merged: the run is to stay above. From now on writers of that leaf look before they log.
    pub(crate) fn makes_room_for_run(&self, id: PageId, coming: Coming<'_>) -> Result<()> {
        let why = match self.flush_in_round(id, true) {
            Ok(Flushed::Raced) => TreeError::from(PageError::Busy),
            Err(error) if can_wait(&error) => error,
            outcome => return self.poison.watch(outcome).map(drop),
        };
        let leaf = self.table.lock_shared(id);
        if !self.is_at_end(leaf.location(), coming) {
            return Ok(());
        }
        self.unmerged.add(id);
        Err(why)
    }

    /// Merges a leaf for what comes down to it or is recovered, with what reclaim has in reserve if there must be room for it. Does not ask
    /// again in this round where space or a page was in the way and still is: for others on their way to the same leaf that would be for
    /// nothing, and each time a wait or a read.
    fn flush_in_round(&self, id: PageId, must: bool) -> Result<Flushed> {
        if let Some(refusal) = self.unmerged.refusal(id).filter(|refusal| self.still_refuses(refusal, must)) {
            return Err(refusal.why);
        }
        let first = self.flush_leaf(id);
        let is_in_vain = first.as_ref().map_or_else(is_no_space, |flushed| *flushed == Flushed::Raced);
        let flushed = match if must && is_in_vain { self.flush_leaf_for_space(id) } else { Ok(Flushed::Raced) } {
            Ok(Flushed::Raced) => first,
            second => second,
        };
        flushed.inspect_err(|error| {
            if is_damage(error) || is_no_space(error) {
                self.unmerged.refuse(id, Refusal { why: error.clone(), must, steps: self.reclaim_steps() });
            }
        })
    }

    fn still_refuses(&self, refusal: &Refusal, must: bool) -> bool {
        // Recovery is one round: it asks again once reclaim has gained something.
        let may_have_room = self.recovering.load(Ordering::Acquire) && refusal.steps != self.reclaim_steps();
        is_damage(&refusal.why) || self.store.is_short() && (refusal.must || !must) && !may_have_room
    }

    /// Whether the leaf of `key` has room for no record, whatever its key.
    pub(crate) fn takes_nothing(&self, key: &[u8]) -> bool {
        let (id, _) = self.leaf_of(key);
        self.is_past(self.table.lock_shared(id).location(), None)
    }

    /// Sees to it that the leaf of `key` has room for the pointer of a value that reclaim is about to move. Waits for nobody: the key's
    /// stripe is held.
    ///
    /// # Errors
    /// What keeps the leaf from being merged, `Busy` if that is others.
    pub(crate) fn makes_room_for_move(&self, key: &[u8]) -> Result<()> {
        if self.filter.is_some() {
            return Ok(());
        }
        let (id, _) = self.leaf_of(key);
        let has_room = || !self.is_at_end(self.table.lock_shared(id).location(), Coming::one(key));
        if has_room() || self.table.try_lock(id).is_some_and(|mut leaf| self.drop_if_clean(&mut leaf)) {
            return Ok(());
        }
        match self.flush_leaf_for_space(id) {
            Ok(Flushed::Raced) if !has_room() => Err(TreeError::from(PageError::Busy)),
            Err(error) if can_wait(&error) => {
                if has_room() {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            outcome => self.poison.watch(outcome).map(drop),
        }
    }

    /// Merges a leaf whose buffer is too large. A full store is no error here, nor is a page that cannot be read: the record is safe in the
    /// log and the buffer, and the next writer is refused, or whoever reads the page. But a buffer has an end: then the store stops
    /// writing.
    pub(crate) fn relieve(&self, id: PageId) -> Result<()> {
        self.relieved(id, self.flush_leaf(id))
    }

    /// The same behind records that came down to the leaf or were recovered: once in a round, if it is refused.
    ///
    /// # Errors
    /// As [`relieve`](Self::relieve).
    pub(crate) fn relieve_in_round(&self, id: PageId) -> Result<()> {
        self.relieved(id, self.flush_in_round(id, false))
    }

    fn relieved(&self, id: PageId, flushed: Result<Flushed>) -> Result<()> {
        match flushed {
            Ok(Flushed::Raced) => self.check_end(id, None, TreeError::from(PageError::Busy)),
            Err(error) if can_wait(&error) => self.check_end(id, None, error),
            outcome => self.poison.watch(outcome).map(|_| ()),
        }
    }

    /// As [`relieve`](Self::relieve) while stripes are held: waits for nobody.
    pub(crate) fn relieve_now(&self, id: PageId) -> Result<()> {
        self.relieve_at_once(id, None)
    }

    fn relieve_at_once(&self, id: PageId, coming: Option<Coming<'_>>) -> Result<()> {
        let mut spin = zonda_rt::Spin::new();
        let mut cause = TreeError::from(PageError::Busy);
        for _ in 0..if coming.is_some() { LAST_TRIES } else { RELIEVE_TRIES } {
            match self.try_flush_now(id, Merge::HOT) {
                Ok(Flushed::Raced) => zonda_rt::spin_wait(&mut spin),
                Err(error) if can_wait(&error) => {
                    cause = error;
                    break;
                }
                outcome => return self.poison.watch(outcome).map(|_| ()),
            }
        }
        // Before the store stops.
        match if coming.is_some() { self.flush_leaf_for_space(id) } else { Ok(Flushed::Raced) } {
            Ok(Flushed::Raced) => self.check_end(id, coming, cause),
            Err(error) if can_wait(&error) => self.check_end(id, coming, cause),
            outcome => self.poison.watch(outcome).map(|_| ()),
        }
    }

    /// Stops the store for `cause`, which kept a leaf from being merged, if its buffer could not take what comes, or one more record of any
    /// size whose key begins with its prefix; but not where nothing comes that could not stay in the filter.
    fn check_end(&self, id: PageId, coming: Option<Coming<'_>>, cause: TreeError) -> Result<()> {
        let is_at_end = {
            let leaf = self.table.lock_shared(id);
            let location = leaf.location();
            self.note_if_long(id, location);
            self.is_past(location, coming)
        };
        if !is_at_end || coming.is_none() && self.filter.is_some() {
            return Ok(());
        }
        // Not the cause itself: the record is logged, and of `NoSpace` one would think that it is not.
        self.poison.set(cause);
        self.poison.check()
    }

    /// The latched leaf `id` could not be merged, or its buffer is one of an earlier life: what was not merged then may not be merged now.
    pub(crate) fn note_if_long(&self, id: PageId, location: &Location) {
        if self.is_beyond(location, None, (BUFFER_BYTES_LONG, PUTS_END.1)) {
            self.unmerged.add(id);
        }
    }

    /// Whether a leaf's buffer has no room for what comes, of whatever size.
    pub(crate) fn is_at_end(&self, location: &Location, coming: Coming<'_>) -> bool {
        self.is_past(location, Some(coming))
    }

    /// The same for a value pointer that reclaim moved.
    pub(crate) fn is_at_end_for_moved(&self, location: &Location, coming: Coming<'_>) -> bool {
        self.is_beyond(location, Some(coming), MOVED_END)
    }

    fn is_past(&self, location: &Location, coming: Option<Coming<'_>>) -> bool {
        self.is_beyond(location, coming, BUFFER_END)
            && (!self.recovering.load(Ordering::Acquire) || self.is_beyond(location, coming, RECOVERED_END))
    }

    /// Whether a leaf's buffer has more than so many bytes with a slot for each record, as the next one may ask for, and with what outside
    /// of its prefix comes; or as a mini-page more than so many records.
    fn is_beyond(&self, location: &Location, coming: Option<Coming<'_>>, (bytes, records): (usize, usize)) -> bool {
        location.buffer().is_some_and(|buffer| {
            let len = buffer.slots().len();
            let now = buffer.slotted_bytes() + len * self.pool.memory().sizing().bytes_beside_record();
            // Few buffers hold so much that it matters which key comes, so few puts look.
            let is_near = || now + len * buffer.prefix().len() > bytes;
            let with = |coming: Coming<'_>| is_near() && now + coming.bytes_more(buffer) > bytes;
            now > bytes || buffer.is_mini_page() && len > records || coming.is_some_and(with)
        })
    }
}
