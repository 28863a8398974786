//! Cooperative batch insertion (ZKV 3.3): writers that come along each take a batch of the array and move it into the leaves, run
//! by run: one walk, one latch and one look at the buffer for all records of a batch that belong to one leaf.
//!
//! A run of any length goes into the leaf's buffer; one that makes it too large is merged at once, as after a put. The pool
//! merges the fullest buffers first, so a long run is the next to go anyway. A buffer has an end all the same: what has no room in one that
//! cannot be merged stays in the array, and is nothing to whoever writes elsewhere until there are far more such records than the filter
//! may hold. A leaf is asked to be merged once for all batches of an array, however many have something for it.

use std::{ops::Range, sync::Arc};

use zonda_pages::{PageError, PageId};
use zonda_rt::{Spin, atomic::Ordering, spin_wait};

use super::{Around, Batch, Filter};
use crate::{
    TreeError,
    buffer_end::Coming,
    record::Record,
    relocate::is_damage,
    tree::{Result, Tree},
    waits::Cause,
    write::Applied,
};

/// Evictions after which an emptying filter is left to writers that fill it again: each takes about a quarter of what is there, so
/// a filter of any size is empty after fewer.
const EMPTYING_ROUNDS: u32 = 256;

/// What became of a turn at the array.
pub(crate) enum Turn {
    /// There was no batch that nobody had claimed.
    Nothing,
    /// One is in the leaves.
    Inserted,
    /// This kept a leaf from being merged that has no room for all of what is its: that stays in the array.
    Left(TreeError),
}

/// How the insertion of a batch went.
#[derive(Default)]
struct Insertion {
    /// Leaves that grew too large.
    overfull: Vec<PageId>,
    /// Why a page could not be brought in.
    not_brought_in: Option<TreeError>,
    /// Indexes of records that found no room.
    rest: Vec<Range<usize>>,
    /// Why the first of them did not.
    why: Option<TreeError>,
}

impl Insertion {
    /// The records with these indexes found no room.
    fn leave(&mut self, indexes: Range<usize>) {
        match self.rest.last_mut() {
            Some(last) if last.end == indexes.start => last.end = indexes.end,
            _ if indexes.is_empty() => {}
            _ => self.rest.push(indexes),
        }
    }
}

/// What is done for a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// All records of a leaf are put into its buffer, which is merged before if it must be.
    Merge,
    /// One record is, if there is room.
    One,
}

impl Tree {
    /// What the filter needs to know of the tree.
    pub(crate) fn around(&self) -> Around<'_> {
        Around { epoch: &self.epoch, snapshots: &self.snapshots }
    }

    /// What a writer does for the filter before its record is logged: inserts one batch if there is an array, else evicts if that is
    /// due. While the filter is far over its share it does more of both. No latch, no stripe may be held.
    ///
    /// # Errors
    /// Those of merging, where that is why the filter has no room: what it holds is whole, and the write was not begun.
    pub(crate) fn serve_filter(&self) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let turn = self.insert_batch(filter)?;
        if matches!(turn, Turn::Nothing) && filter.is_due() {
            self.evict_from(filter, Filter::is_due);
        }
        if filter.is_full() { self.waits.during(Cause::Filter, || self.drain(filter)) } else { Ok(()) }
    }

    /// Serves the filter if it is far over its share, for the background: values that reclaim moves come to it although nobody writes.
    /// Returns whether it was. Where damaged leaves keep it full, they are asked less and less often, unless it grows. No latch, no stripe
    /// may be held.
    ///
    /// # Errors
    /// As [`serve_filter`](Self::serve_filter).
    pub(crate) fn relieve_filter(&self) -> Result<bool> {
        let Some(filter) = self.filter.as_ref().filter(|filter| filter.is_full()) else {
            self.unmerged.is_rested();
            return Ok(false);
        };
        if !self.unmerged.ends_rest(filter.held_bytes(), filter.slack_bytes()) {
            return Ok(false);
        }
        let drained = self.drain(filter);
        match &drained {
            Err(error) if is_damage(error) => self.unmerged.rest(filter.held_bytes()),
            _ => self.unmerged.is_rested(),
        }
        drained.map(|()| true)
    }

    /// Serves a filter that is far over its share until it is not, or nothing of what makes it so finds room.
    fn drain(&self, filter: &Filter) -> Result<()> {
        let (mut spin, mut before) = (Spin::new(), (u64::MAX, u64::MAX));
        while filter.is_full() {
            self.poison.check()?;
            if !matches!(self.insert_batch(filter)?, Turn::Nothing) {
                continue;
            }
            let now = (filter.waiting_bytes(), filter.moving_bytes());
            if now.0 >= before.0
                && let Some(why) = filter.why_stuck(before.1, &self.epoch.pin())
            {
                return Err(why);
            }
            if self.evict_from(filter, Filter::is_full) {
                before = now;
            } else {
                // Others have the last batches, or evict: they go on without us.
                spin_wait(&mut spin);
            }
        }
        Ok(())
    }

    fn evict_from(&self, filter: &Filter, wanted: fn(&Filter) -> bool) -> bool {
        let evicted = filter.evict(self.around(), wanted, &mut |old, record| self.note_overwritten(old, record));
        if evicted {
            self.unmerged.begin_round();
            self.hold_memory();
        }
        evicted
    }

    /// Moves everything in filter and array into the leaves, unless writers fill it faster. No latch, no stripe may be held.
    ///
    /// # Errors
    /// Those of merging. What finds no room for it stays; all else is moved.
    pub(crate) fn empty_filter(&self) -> Result<()> {
        let Some(filter) = &self.filter else { return Ok(()) };
        let (mut spin, mut rounds, mut left) = (Spin::new(), 0, None);
        while !filter.is_empty() && rounds < EMPTYING_ROUNDS {
            left = self.insert_all(filter)?;
            // All that is there has been tried.
            if left.is_some() && filter.valid_nodes() == 0 {
                break;
            }
            rounds += 1;
            self.poison.check()?;
            if !self.evict_from(filter, |_| true) && !filter.is_empty() {
                spin_wait(&mut spin);
            }
        }
        let left = self.insert_all(filter)?.or(left).filter(|_| !filter.is_empty());
        left.map_or(Ok(()), Err)
    }

    /// Inserts all batches that nobody has claimed; returns why something of them found no room, or which damage was met.
    ///
    /// # Errors
    /// As [`insert_batch`](Self::insert_batch), but for damage: others go on.
    fn insert_all(&self, filter: &Filter) -> Result<Option<TreeError>> {
        let mut left = None;
        loop {
            match self.insert_batch(filter) {
                Ok(Turn::Nothing) => return Ok(left),
                Ok(Turn::Inserted) => {}
                Ok(Turn::Left(error)) => left = Some(error),
                Err(error) if is_damage(&error) => left = Some(error),
                Err(error) => return Err(error),
            }
        }
    }

    /// Inserts a batch that nobody has claimed.
    ///
    /// # Errors
    /// Those of merging the leaves that grew too large, and of evicting; what found room is in the leaves all the same. `Poisoned` where
    /// the store has stopped.
    fn insert_batch(&self, filter: &Filter) -> Result<Turn> {
        let Some(array) = filter.array.share(&self.epoch.pin()) else { return Ok(Turn::Nothing) };
        let Some((index, batch)) = array.claim() else { return Ok(Turn::Nothing) };
        let Insertion { overfull, not_brought_in, rest, why } = self.insert(batch);
        let turn = why.map_or(Turn::Inserted, Turn::Left);
        match &turn {
            Turn::Left(why) => filter.give_back(&array, index, rest, why.clone()),
            _ if array.finish() => filter.take_array_out(self.around()),
            _ => {}
        }
        drop::<Arc<_>>(array);
        // All of them: who takes the next batch knows nothing of these leaves.
        let relieved = overfull.into_iter().map(|id| self.relieve_in_round(id)).fold(Ok(()), Result::and);
        not_brought_in.map_or(relieved, Err)?;
        self.hold_memory();
        self.poison.check()?;
        self.make_buffer_room()?;
        Ok(turn)
    }

    /// Puts the records of a batch into buffers, run by run.
    fn insert(&self, batch: &Batch) -> Insertion {
        let (mut lower, slots, mut insertion) = (0, batch.records.slots(), Insertion::default());
        while lower < slots.len() {
            if insertion.not_brought_in.is_none() {
                insertion.not_brought_in = self.bring_in(slots.key(lower)).err();
            }
            let (upper, applied) = self.apply_run(batch, lower, Effort::Merge);
            match applied {
                Ok(applied) => self.note_run(upper - lower, applied, &mut insertion),
                Err(why) => {
                    // One of them may be all that has no room.
                    let singles = if self.takes_nothing(slots.key(lower)) { upper..upper } else { lower..upper };
                    insertion.leave(lower..singles.start);
                    for at in singles {
                        match self.apply_run(batch, at, Effort::One).1 {
                            Ok(applied) => self.note_run(1, applied, &mut insertion),
                            Err(_) => insertion.leave(at..at + 1),
                        }
                    }
                    if !insertion.rest.is_empty() {
                        insertion.why.get_or_insert(why);
                    }
                }
            }
            lower = upper;
        }
        insertion
    }

    fn note_run(&self, records: usize, applied: Applied, insertion: &mut Insertion) {
        if let Applied::Overfull(id, _) = applied
            && insertion.overfull.last() != Some(&id)
        {
            insertion.overfull.push(id);
        }
        self.counters.filter_runs.fetch_add(1, Ordering::Relaxed);
        self.counters.filter_pairs.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// Puts the records from `lower` on that belong to one leaf into its buffer, or only the first; returns the index behind them.
    ///
    /// # Errors
    /// With the index: why there is no room for them, `Busy` if nothing was tried.
    fn apply_run(&self, batch: &Batch, lower: usize, effort: Effort) -> (usize, Result<Applied>) {
        let slots = batch.records.slots();
        loop {
            let guard = self.epoch.pin();
            let path = self.index.find(slots.key(lower), &guard);
            let mut leaf = self.table.lock(path.leaf());
            if !path.is_current() {
                continue;
            }
            let upper = match path.high() {
                _ if effort == Effort::One || !self.options.batch_runs => lower + 1,
                None => slots.len(),
                Some(high) => batch.records.at_or_above(&high),
            };
            let coming = Coming { least: slots.key(lower), greatest: slots.key(upper - 1) };
            if self.is_at_end(leaf.location(), coming) && !self.drop_if_clean(&mut leaf) {
                let id = leaf.id();
                drop((leaf, path));
                drop(guard);
                let made = match effort {
                    Effort::Merge => self.makes_room_for_run(id, coming),
                    Effort::One => Err(TreeError::from(PageError::Busy)),
                };
                match made {
                    Ok(()) => continue,
                    Err(why) => return (upper, Err(why)),
                }
            }
            let run = slots.iter().skip(lower).take(upper - lower);
            self.before_change(&leaf, &path);
            return (upper, Ok(self.apply_latched(&mut leaf, &path, run, batch.newest)));
        }
    }

    /// Puts a logged record into the filter; a value pointer that it overwrites there dies (*references*).
    pub(crate) fn filter_record(&self, filter: &Filter, record: &Record<'_>, numbers: &std::ops::RangeInclusive<u64>) {
        if filter.upsert(record, numbers, self.around(), &mut |old| self.note_overwritten(&old, record)) {
            self.hold_memory();
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use zonda_pages::PageStore;

    use super::*;
    use crate::{
        BufferClasses, Design, Durability, Eviction, FilterEviction, TreeOptions, recover,
        slots::DENSE_HEADER_BYTES,
        testing::{MemOptions, MemStore, Survives},
    };

    const KEYS: u64 = 4_000;

    fn key(number: u64) -> [u8; 8] {
        number.to_be_bytes()
    }

    /// A tree of some 30 leaves behind a filter that was never used, hence has one node; even keys are there, on the device.
    fn behind_a_filter(options: TreeOptions) -> (Arc<MemStore>, Tree) {
        let store = MemStore::new(MemOptions::default());
        let tree = recover::create(Arc::clone(&store) as Arc<dyn PageStore>, options.clone()).expect("an empty store");
        for number in 0..KEYS {
            tree.put(&key(2 * number), &[1; 16], Durability::Buffered).expect("room");
        }
        tree.compact(&mut |_, _| {}).expect("room");
        tree.checkpoint().expect("room");
        let store = store.reopen(Survives::Flushed);
        let options = TreeOptions { filter_bytes: 64 << 10, filter_eviction: FilterEviction::Nodes, ..options };
        let tree =
            recover::open(Arc::clone(&store) as Arc<dyn PageStore>, options, &mut |_| ()).expect("a whole store");
        (store, tree)
    }

    /// Records that went from the filter into leaves, and runs of them, while writes spread over all leaves.
    fn pairs_and_runs(batch_runs: bool) -> (u64, u64) {
        let (_, tree) = behind_a_filter(TreeOptions { batch_runs, ..TreeOptions::default() });
        let before = tree.stats();
        for number in 0..KEYS {
            tree.put(&key(2 * (number * 7 % KEYS) + 1), &[2; 16], Durability::Buffered).expect("room");
        }
        tree.empty_filter().expect("room");
        let after = tree.stats();
        (after.filter_pairs - before.filter_pairs, after.filter_runs - before.filter_runs)
    }

    #[test]
    fn records_of_one_leaf_go_there_in_one_run_and_without_that_one_by_one() {
        let (pairs, runs) = pairs_and_runs(true);
        // A batch is a node of the filter, some 80 neighbours of which a leaf has a few hundred.
        assert!(pairs >= KEYS && runs * 20 < pairs, "{pairs} pairs in {runs} runs");
        let (pairs, runs) = pairs_and_runs(false);
        assert!(pairs >= KEYS && runs == pairs, "{pairs} pairs in {runs} runs");
    }

    #[test]
    fn reads_that_the_filter_answers_are_counted_through_snapshots_too() {
        let (_, tree) = behind_a_filter(TreeOptions::default());
        tree.put(&key(1), &[2; 16], Durability::Buffered).expect("room");
        let snapshot = tree.open_snapshot();
        let mut value = Vec::new();
        assert!(tree.get_into(&key(1), &mut value).expect("in memory"));
        assert!(tree.get_as_of(snapshot, &key(1), &mut value).expect("in memory"));
        assert!(tree.contains(Some(snapshot), &key(1)).expect("in memory"));
        let both = tree.multi_get(Some(snapshot), &[&key(1), &key(2)]).expect("readable");
        assert!(both.iter().all(Option::is_some));
        tree.snapshots.close(snapshot);
        assert_eq!((tree.stats().gets, tree.stats().filter_hits), (5, 4), "one asked a page");
    }

    /// ZKV 3.3: a buffer is begun as large as the pairs that come to it ask for. What a leaf's keys share is stored once, and does not
    /// count less for that.
    #[test]
    fn with_the_papers_classes_a_buffer_begins_as_its_pairs_say_whatever_they_share() {
        let options =
            TreeOptions { classes: BufferClasses::Paper, eviction: Eviction::Oldest, ..TreeOptions::default() };
        let (_, tree) = behind_a_filter(options);
        for (pairs, first, size) in [(3, 1_001, 64), (6, 2_001, 128), (7, 3_001, 256), (12, 5_001, 256)] {
            (0..pairs).for_each(|nth| tree.put(&key(first + 2 * nth), &[2; 8], Durability::Buffered).expect("room"));
            tree.empty_filter().expect("room");
            let leaf = tree.table.lock_shared(tree.leaf_of(&key(first)).0);
            let buffer = leaf.location().buffer().expect("just written");
            let shared = buffer.prefix().len();
            assert!(shared >= 6 && buffer.slots().len() as u64 == pairs, "{pairs} pairs share {shared} bytes");
            let room = buffer.bytes() - 24 - shared;
            assert!((size..size + 16).contains(&room), "{pairs} pairs begin with {room} bytes");
        }
    }

    /// The leaf of `key`: how many bytes its keys share, the room of its buffer beside those and the header, and its records; `None`
    /// without a buffer.
    fn buffered(tree: &Tree, key: &[u8]) -> Option<(usize, usize, usize)> {
        let leaf = tree.table.lock_shared(tree.leaf_of(key).0);
        let buffer = leaf.location().buffer()?;
        let shared = buffer.prefix().len();
        Some((shared, buffer.bytes() - 24 - shared, buffer.slots().len()))
    }

    /// Puts `count` new keys of 8 B, with values as long, from `first` on, and hands all to their leaf at once.
    fn arrive(tree: &Tree, first: u64, count: u64) {
        (0..count).for_each(|nth| tree.put(&key(first + 2 * nth), &[2; 8], Durability::Buffered).expect("room"));
        tree.empty_filter().expect("room");
    }

    /// ZKV 3.3: more than 16 pairs of 8 B + 8 B that come to a leaf at once are merged directly. A pair counts as it is stored, here after
    /// nothing that all keys share, below after seven bytes.
    #[test]
    fn with_the_papers_classes_more_than_16_pairs_at_once_merge_directly() {
        let options = TreeOptions {
            classes: BufferClasses::Paper,
            eviction: Eviction::Oldest,
            filter_bytes: 64 << 10,
            ..TreeOptions::default()
        };
        for (pairs, merges) in [(16, 0), (17, 1), (40, 1)] {
            let store = MemStore::new(MemOptions::default());
            let tree = recover::create(store as Arc<dyn PageStore>, options.clone()).expect("an empty store");
            // One leaf of all keys, which share nothing.
            arrive(&tree, 1, pairs);
            assert_eq!(tree.stats().merges, merges, "{pairs} pairs");
            let held = buffered(&tree, &key(1)).map(|(shared, _, records)| (shared, records as u64));
            assert_eq!(held, (merges == 0).then_some((0, pairs)));
        }
        let (_, tree) = behind_a_filter(options);
        arrive(&tree, 1_001, 1);
        let (shared, ..) = buffered(&tree, &key(1_001)).expect("just written");
        let most = (256 / (16 - shared)) as u64;
        assert!((6..8).contains(&shared) && most > 16, "{shared} bytes shared, {most} pairs fit");
        for (first, pairs, merged) in [(3_001, most, 0), (5_001, most + 1, 1)] {
            let leaf = tree.leaf_of(&key(first)).0;
            assert_eq!(leaf, tree.leaf_of(&key(first + 2 * pairs)).0, "all are of one leaf");
            let before = tree.stats().merges;
            arrive(&tree, first, pairs);
            assert_eq!(tree.stats().merges, before + merged, "{pairs} pairs that share {shared} bytes");
        }
    }

    /// ZKV 3.3: the paper's largest buffer holds 15 pairs and their fingerprints, whatever the keys share.
    #[test]
    fn with_the_papers_classes_and_whole_keys_a_buffer_holds_15_pairs_that_share_what_they_may() {
        let options =
            TreeOptions { classes: BufferClasses::PaperWhole, eviction: Eviction::Oldest, ..TreeOptions::default() };
        let (_, tree) = behind_a_filter(options);
        for (first, pairs, merged) in [(1_001, 15, 0), (3_001, 16, 1)] {
            let leaf = tree.leaf_of(&key(first)).0;
            assert_eq!(leaf, tree.leaf_of(&key(first + 2 * pairs)).0, "all are of one leaf");
            let before = tree.stats().merges;
            arrive(&tree, first, pairs);
            assert_eq!(tree.stats().merges, before + merged, "{pairs} pairs");
            let held = buffered(&tree, &key(first)).map(|(shared, room, records)| (shared, room, records as u64));
            assert_eq!(held, (merged == 0).then_some((0, 256 + DENSE_HEADER_BYTES, pairs)));
        }
    }

    /// ZKV 3.3: pairs that come one by one have a buffer of 64, 128, 256 bytes, and then the leaf is merged and begins again.
    #[test]
    fn with_the_papers_classes_a_buffer_grows_64_128_256_and_is_merged() {
        let options =
            TreeOptions { classes: BufferClasses::Paper, eviction: Eviction::Oldest, ..TreeOptions::default() };
        let (_, tree) = behind_a_filter(options);
        let (first, before) = (1_001, tree.stats().merges);
        let mut sizes = Vec::new();
        for nth in 0.. {
            arrive(&tree, first + 2 * nth, 1);
            let Some((_, room, records)) = buffered(&tree, &key(first)) else { break };
            assert_eq!(records as u64, nth + 1, "nothing is merged before it is full");
            sizes.push(room / 64 * 64);
        }
        sizes.dedup();
        assert_eq!(sizes, [64, 128, 256]);
        assert_eq!(tree.stats().merges, before + 1);
        arrive(&tree, first + 100, 1);
        let (_, room, records) = buffered(&tree, &key(first + 100)).expect("just written");
        assert_eq!((room / 64 * 64, records), (64, 1), "it begins again");
    }

    /// The BD-Tree of the papers: at most so many changes are chained to a leaf; then it is merged, and its chain begins again.
    #[test]
    fn a_chain_has_32_deltas_at_most_and_begins_again() {
        let (_, tree) = behind_a_filter(TreeOptions { design: Design::Deltas, ..TreeOptions::default() });
        assert_eq!(tree.options.delta_records_max, 32);
        let (first, before) = (1_001, tree.stats().merges);
        for nth in 0..32 {
            arrive(&tree, first + 2 * nth, 1);
            assert_eq!(buffered(&tree, &key(first)).map(|held| held.2 as u64), Some(nth + 1));
        }
        assert_eq!(tree.stats().merges, before);
        arrive(&tree, first + 2 * 32, 1);
        assert_eq!((buffered(&tree, &key(first)), tree.stats().merges), (None, before + 1));
        arrive(&tree, first + 2 * 33, 1);
        assert_eq!(buffered(&tree, &key(first)).map(|held| held.2), Some(1));
    }

    /// A leaf that cannot be merged and whose buffer is at its end takes nothing; what was on its way to it, and to others with it, stays
    /// where it is found.
    #[test]
    fn an_array_that_finds_no_room_in_a_leaf_stays() {
        let (store, tree) = behind_a_filter(TreeOptions::default());
        let (id, page) = tree.leaf_of(&key(0));
        store.damage(page.expect("it was merged"));
        let puts = [1, 3, 5_001];
        puts.iter().for_each(|&number| tree.put(&key(number), &[2; 16], Durability::Buffered).expect("room"));
        assert!(tree.leaf_of(&key(5_001)).0 != id);
        // Past the filter, as recovery does.
        let fill = |nth: u32| {
            let key = [&key(0)[..], &nth.to_be_bytes()].concat();
            tree.apply_recovered(&Record { key: &key, kind: crate::record::Kind::Inline, value: &[7; 1_000] }, 0)
        };
        let stopped = (0..).map(fill).find_map(Result::err).expect("a buffer has an end");
        assert!(matches!(stopped, crate::TreeError::Poisoned(_)), "{stopped}");
        let filter = tree.filter.as_ref().expect("it was asked for");
        assert!(filter.evict(tree.around(), |_| true, &mut |_, _| ()));
        assert!(tree.insert_batch(filter).is_err(), "the store has stopped");
        let mut value = Vec::new();
        for number in puts {
            assert!(tree.get_into(&key(number), &mut value).expect("in memory") && value == [2; 16], "{number}");
        }
    }

    /// Nor is that anything to whoever writes elsewhere: the filter takes what comes, and gives it on to the other leaves.
    #[test]
    fn what_finds_no_room_in_a_leaf_keeps_nobody_from_writing_elsewhere() {
        let options = TreeOptions { filter_eviction: FilterEviction::Nodes, ..TreeOptions::default() };
        let (store, tree) = behind_a_filter(options.clone());
        let (id, page) = tree.leaf_of(&key(0));
        store.damage(page.expect("it was merged"));
        let store = {
            drop(tree);
            store.reopen(Survives::Written)
        };
        let tree = recover::open(
            Arc::clone(&store) as Arc<dyn PageStore>,
            TreeOptions { filter_bytes: 2 << 20, ..options },
            &mut |_| (),
        )
        .expect("a page that nobody reads");
        let filter = tree.filter.as_ref().expect("it was asked for");
        let long_key = |nth: u32| [&key(0)[..], &nth.to_be_bytes()].concat();
        let put = |key: &[u8], byte| tree.put(key, &[byte; 1_000], Durability::Buffered);
        (0..400).for_each(|nth| put(&long_key(nth), 7).expect("the filter has room"));
        assert_eq!((filter.evictions(), tree.leaf_of(&long_key(399)).0), (0, id));
        let refused = tree.empty_filter().expect_err("its page is damaged");
        assert!(crate::relocate::is_damage(&refused) && !filter.is_empty(), "{refused}");
        tree.poison.check().expect("nothing has failed");
        assert!(put(&long_key(400), 7).is_err(), "its leaf has no room for it");
        let before = filter.evictions();
        for number in 2_000..8_000 {
            put(&key(number), 8).expect("others have room");
        }
        assert!(filter.evictions() > before + 3 && !filter.is_full(), "{} evictions", filter.evictions());
        let mut value = Vec::new();
        for (key, byte) in (0..400).map(|nth| (long_key(nth), 7)).chain((2_000..8_000).map(|n| (key(n).to_vec(), 8))) {
            assert!(tree.get_into(&key, &mut value).expect("in memory") && value == [byte; 1_000], "{key:?}");
        }
    }

    /// A page that cannot be brought in is that leaf's trouble: the others of the batch that grew too large are merged all the same.
    #[test]
    fn leaves_that_a_batch_overfills_are_merged_although_a_page_of_it_could_not_be_read() {
        let (store, tree) = behind_a_filter(TreeOptions { design: Design::BTree, ..TreeOptions::default() });
        // One leaf in memory as a whole, nearly full; the page of the first is not there.
        let (first, full) = (tree.leaf_of(&key(0)).0, tree.leaf_of(&key(800)).0);
        let unbuffered = |id| tree.table.lock_shared(id).location().buffer().is_none();
        assert!(first != full && unbuffered(first) && unbuffered(full));
        let mut value = Vec::new();
        assert!(tree.get_into(&key(800), &mut value).expect("readable") && !unbuffered(full));
        tree.put(&key(1), &[2; 16], Durability::Buffered).expect("room");
        for number in 0..30 {
            tree.put(&key(800 + 2 * number + 1), &[2; 48], Durability::Buffered).expect("room");
        }
        let merges = tree.stats().merges;
        store.wire().fail_next_read();
        let error = tree.empty_filter().expect_err("a read fails");
        assert!(error.to_string().contains("this read fails"), "{error}");
        assert_eq!(tree.stats().merges, merges + 1, "the full leaf is merged");
        // Nothing is lost, and the store goes on.
        tree.empty_filter().expect("room");
        for (number, bytes) in [(1, 16), (801, 48), (859, 48), (800, 16)] {
            assert!(tree.get_into(&key(number), &mut value).expect("readable") && value.len() == bytes, "{number}");
        }
        tree.put(&key(3), &[2; 16], Durability::Synced).expect("not poisoned");
    }
}
