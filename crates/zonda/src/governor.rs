//! Keeps the whole store within its memory budget (I6): what the index and everything else grow, leaf buffers and the read cache
//! shrink; between these two memory follows the work.
//!
//! The rule: a byte belongs where it saves more device traffic. Over some thousand operations the governor counts what leaf
//! buffers saved a byte (page writes and the reads before them go down as buffers grow; gets that a buffer answers), what the
//! cache of pages saved a byte (its hits, those of scans too) and what the cache of records did (its hits). The best of the three that
//! could use more takes a step from the worst. An insert-only run so ends with nearly everything in buffers, one of gets that has
//! favourites with much of it in the cache of records, one of scans in that of pages; what buffers leave unused saves nothing there. Each
//! keeps a little always, without which it could not show what it is worth. With fixed shares ([`MemoryShares`](crate::MemoryShares))
//! nothing moves. Nor does it in designs whose buffers keep what was read, too: these have all that they may, and the cache of pages has
//! what is [beyond](MemoryPlan::beyond_buffers), on devices that are small for the budget. But mini-pages keep a record for each page that
//! was read: until they have filled their memory, behind an opening or a sorted load, they [lend](MemoryPlan::lent_by_buffers) the rest to
//! the cache of pages, unless somebody writes.
//!
//! While nobody writes, nothing comes that buffers could gather (unless the design keeps what was read in them, too): they save only the
//! gets that they answer. Once nobody has written for as many operations as they may hold changes, they have to show what they are worth:
//! what they hold has to be merged at some time anyway, and a cache gets their memory unless they are clearly better. Before that, as
//! beside writers, only if it is: readers may rest, too, and what is merged for each of them has gathered less.

use std::sync::Arc;

use zonda_rt::Mutex;
use zonda_rt::atomic::{AtomicBool, AtomicU64, Ordering};
use zonda_tree::{Engine, EngineStats};

use crate::backing::Pages;
use crate::memory::{BUFFER_BYTES_MIN, BUFFER_BYTES_OUTGROWN, MemoryPlan};
use crate::{Error, Result};

/// Operations over which the two are compared.
const WINDOW_OPERATIONS: u64 = 4_096;
/// A step moves this part of what may move.
const STEP_SHARE: u64 = 32;
/// Where one saves more than twice what a cache does, time and again, steps from that cache become longer, to this many times: what it
/// gives up is clean. What buffers give up has to be merged into pages. While somebody writes, whose own merges wait for the same device,
/// they give by single steps.
const STEPS_MAX: u64 = 4;
/// Windows without a writer before buffers lend what they have not filled: who writes now and then would take it back each time.
const LENT_AFTER_WINDOWS: u64 = 4;
/// With fewer puts than one for so many operations nobody writes.
const READING_SHARE: u64 = 256;
/// A change takes at least so many bytes in buffers.
const CHANGE_BYTES: u64 = 16;
/// Tenths by which one must be better than another: traffic is noisy.
const BETTER_TENTHS: u128 = 12;
/// Tenths from which one is so much better that a longer step does not go too far.
const MUCH_BETTER_TENTHS: u128 = 20;
/// A cache of pages that is less full than this, in tenths, has no use for more. It does not fill up wholly: there is room for two pages
/// always (`memory.rs`), so one that wants a page more than it holds is full to two thirds at the least.
const FULL_TENTHS: u64 = 6;
/// Nor has a cache of records that displaces less than one for so many that it keeps.
const DISPLACED_SHARE: u64 = 4;
/// Buffers that leave more than this part of what may move unused do not need it: what they saved, they saved with the rest.
const IDLE_SHARE: u64 = 4;
/// The record cache forgets what was in the memory that it gives up, so it does for more than this part of what may move only.
const SLACK_SHARE: u64 = 128;

/// A budget that suffices leaves the index as much to grow, at least.
const GROWTH_BYTES: u64 = 256 << 10;

/// Looks at what everybody uses and divides the rest. Clones are handles to the same.
#[derive(Clone)]
pub(crate) struct Governor {
    engine: Engine,
    pages: Pages,
    /// As it was at opening.
    opened: MemoryPlan,
    seen: Arc<Seen>,
}

struct Seen {
    /// What the store may take now. Changes under the lock of the window.
    budget_bytes: AtomicU64,
    /// What the page store used at the last look.
    page_bytes: AtomicU64,
    /// The most that tree and page store used together.
    peak_bytes: AtomicU64,
    /// At the last look the index left less than leaf buffers need.
    is_outgrown: AtomicBool,
    window: Mutex<Window>,
}

/// Counts at the beginning of the window, and what the caches are to have.
struct Window {
    began: Work,
    /// Operations since somebody wrote, as far as windows tell.
    reading: u64,
    caches: Caches,
    pace: Pace,
}

/// How long the next step is.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    /// The last step, if that was much better.
    last: Option<(Place, Place)>,
    /// Its length in steps.
    steps: u64,
}

impl Pace {
    /// Length in steps of `step`: twice that of the one before if both go the same way for much, and not from buffers that are written to;
    /// else one.
    fn next(&mut self, step: Step, is_reading: bool) -> u64 {
        let way = (step.is_much && (is_reading || step.from != Place::Buffers)).then_some((step.from, step.to));
        let goes_on = way.is_some() && way == self.last;
        self.last = way;
        self.steps = if goes_on { (2 * self.steps).min(STEPS_MAX) } else { 1 };
        self.steps
    }
}

/// A move of memory that is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    from: Place,
    to: Place,
    /// By far.
    is_much: bool,
}

/// Bytes of both caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Caches {
    pages: u64,
    records: u64,
}

impl Caches {
    fn bytes(self) -> u64 {
        self.pages + self.records
    }

    fn of_mut(&mut self, place: Place) -> Option<&mut u64> {
        match place {
            Place::Buffers => None,
            Place::Pages => Some(&mut self.pages),
            Place::Records => Some(&mut self.records),
        }
    }

    /// These with `bytes` moved: a cache is given or gives, buffers have what is left.
    fn with_step(mut self, from: Place, to: Place, bytes: u64) -> Self {
        let given = self.of_mut(from).map_or(bytes, |cache| bytes.min(*cache));
        self.of_mut(from).into_iter().for_each(|cache| *cache -= given);
        self.of_mut(to).into_iter().for_each(|cache| *cache += given);
        self
    }

    /// These, each at least what `least` says, together at most `most`: the pages give way first.
    fn within(self, least: Self, most: u64) -> Self {
        let records = self.records.min(most.saturating_sub(least.pages)).max(least.records);
        let pages = self.pages.min(most.saturating_sub(records)).max(least.pages);
        Self { pages, records }
    }
}

/// Counts since opening.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    /// Puts, gets, and leaves that scans went over.
    operations: u64,
    puts: u64,
    buffer_hits: u64,
    merges: u64,
    page_hits: u64,
    record_hits: u64,
    records_kept: u64,
    records_displaced: u64,
}

impl Work {
    fn of(stats: &EngineStats, page_hits: u64) -> Self {
        Self {
            operations: stats.puts + stats.gets + stats.leaves_scanned,
            puts: stats.puts,
            buffer_hits: stats.gets.saturating_sub(stats.leaf_reads + stats.record_hits),
            merges: stats.merges,
            page_hits,
            record_hits: stats.record_hits,
            records_kept: stats.records_kept,
            records_displaced: stats.records_displaced,
        }
    }

    /// What came since `before`. The counts are of many threads and are read one by one: none is taken to be the greater.
    fn since(&self, before: &Self) -> Self {
        Self {
            operations: self.operations.saturating_sub(before.operations),
            puts: self.puts.saturating_sub(before.puts),
            buffer_hits: self.buffer_hits.saturating_sub(before.buffer_hits),
            merges: self.merges.saturating_sub(before.merges),
            page_hits: self.page_hits.saturating_sub(before.page_hits),
            record_hits: self.record_hits.saturating_sub(before.record_hits),
            records_kept: self.records_kept.saturating_sub(before.records_kept),
            records_displaced: self.records_displaced.saturating_sub(before.records_displaced),
        }
    }

    /// Nobody writes to speak of.
    fn is_reading(&self) -> bool {
        self.puts * READING_SHARE < self.operations
    }

    /// Leaves that buffers save the device: a merge reads and writes one, and half the buffers would mean twice the merges. While nobody
    /// writes, what is merged is what buffers give up.
    fn saved_by_buffers(&self, is_reading: bool) -> u64 {
        if is_reading { self.buffer_hits } else { 2 * self.merges + self.buffer_hits }
    }
}

/// Where memory may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Buffers,
    Pages,
    Records,
}

/// What a place did with its memory.
#[derive(Clone, Copy, Debug)]
struct Claim {
    place: Place,
    /// Leaves that it saved the device.
    saved: u64,
    /// What it used.
    bytes: u64,
    /// It could use more.
    wants_more: bool,
    /// It has more than it keeps always.
    can_give: bool,
}

impl Claim {
    /// The same with what it saved less what may be chance, twice the root: a small cache that hits a few times in a window is not worth
    /// the changes that buffers would have to merge for it.
    fn beyond_chance(self) -> Self {
        Self { saved: self.saved.saturating_sub(2 * self.saved.isqrt()), ..self }
    }

    /// Whether a byte saves more here than with `other`, by `tenths` tenths.
    fn is_better(&self, other: &Self, tenths: u128) -> bool {
        let [ours, theirs] = [(self, other), (other, self)]
            .map(|(claim, beside)| u128::from(claim.saved) * u128::from(beside.bytes.max(1)));
        ours * 10 > theirs * tenths
    }
}

/// From where to where a step goes, if there is one worth it. With `must_show` buffers give unless they are clearly better.
fn step(claims: &[Claim], must_show: bool) -> Option<Step> {
    let better_of = |a: Claim, b: Claim| if b.is_better(&a, 10) { b } else { a };
    let worse_of = |a: Claim, b: Claim| if a.is_better(&b, 10) { b } else { a };
    let best = claims.iter().copied().filter(|claim| claim.wants_more).reduce(better_of)?;
    let sure = best.beyond_chance();
    let from =
        |worse: Claim| Step { from: worse.place, to: best.place, is_much: sure.is_better(&worse, MUCH_BETTER_TENTHS) };
    let givers = claims.iter().copied().filter(|claim| claim.can_give && claim.place != best.place);
    let buffers = givers.clone().find(|claim| must_show && claim.place == Place::Buffers);
    match buffers.filter(|buffers| !buffers.beyond_chance().is_better(&best, BETTER_TENTHS)) {
        Some(buffers) => Some(from(buffers)),
        None => givers.reduce(worse_of).filter(|worst| sure.is_better(worst, BETTER_TENTHS)).map(from),
    }
}

/// Whether somebody writes, as far as the last window and this one tell.
fn look_for_writers(window: &mut Window, stats: &EngineStats) -> bool {
    let now = Work::of(stats, 0);
    let work = now.since(&window.began);
    if work.operations >= WINDOW_OPERATIONS {
        window.began = now;
        window.reading = if work.is_reading() { window.reading + work.operations } else { 0 };
    }
    window.reading < LENT_AFTER_WINDOWS * WINDOW_OPERATIONS
        || work.puts * READING_SHARE >= WINDOW_OPERATIONS.max(work.operations)
}

impl Governor {
    /// Takes over from the plan, once the store is open.
    ///
    /// # Errors
    /// `TooLittleMemory` when everything else leaves too little to open the store.
    pub(crate) fn new(plan: MemoryPlan, engine: Engine, pages: Pages) -> Result<Self> {
        let caches = Caches { pages: plan.read_cache_bytes, records: plan.record_cache_bytes_min };
        let window = Window { began: Work::default(), reading: 0, caches, pace: Pace::default() };
        let seen = Seen {
            budget_bytes: AtomicU64::new(plan.budget_bytes),
            page_bytes: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            is_outgrown: AtomicBool::new(false),
            window: Mutex::new(window),
        };
        let governor = Self { engine, pages, opened: plan, seen: Arc::new(seen) };
        governor.check(BUFFER_BYTES_OUTGROWN)?;
        governor.adjust();
        Ok(governor)
    }

    /// Whether pairs may be written. Costs one relaxed load while they may.
    ///
    /// # Errors
    /// `TooLittleMemory` when the index has outgrown the budget.
    pub(crate) fn admit_pairs(&self) -> Result<()> {
        if self.seen.is_outgrown.load(Ordering::Relaxed) { self.check(BUFFER_BYTES_MIN) } else { Ok(()) }
    }

    /// # Errors
    /// `TooLittleMemory` if less than `least_bytes` is left for leaf buffers.
    fn check(&self, least_bytes: u64) -> Result<()> {
        let (bytes, stats) = (self.budget_bytes(), self.engine.stats());
        let buffer_bytes = self.left_by_index(&stats);
        if buffer_bytes >= least_bytes {
            return Ok(());
        }
        let bytes_needed = self.budget_needed_with(&stats).max(bytes + bytes / 4);
        Err(Error::TooLittleMemory { bytes, buffer_bytes, buffer_bytes_min: BUFFER_BYTES_MIN, bytes_needed })
    }

    /// A budget in bytes that the index as it is now does not outgrow.
    pub(crate) fn budget_needed(&self) -> u64 {
        self.budget_needed_with(&self.engine.stats())
    }

    fn budget_needed_with(&self, stats: &EngineStats) -> u64 {
        self.opened.budget_needed(stats.inner_bytes + stats.leaf_table_bytes + stats.log_bytes)
    }

    /// The budget in bytes.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.seen.budget_bytes.load(Ordering::Relaxed)
    }

    /// What the store was opened with, in bytes: the most that it can have.
    pub(crate) fn budget_bytes_max(&self) -> u64 {
        self.opened.budget_bytes
    }

    /// Whether what was only read is in leaf buffers too.
    pub(crate) fn buffers_are_caches(&self) -> bool {
        self.opened.buffers_are_caches()
    }

    /// Changes the budget, to what it was at opening at the most. Caches follow at once, leaf buffers as they are merged; with
    /// `keeps_changes` these stay as they are.
    ///
    /// # Errors
    /// `TooLittleMemory` with a budget that suffices for now, and nothing is changed.
    pub(crate) fn set_budget_bytes(&self, bytes: u64, keeps_changes: bool) -> Result<()> {
        {
            let _window = self.seen.window.lock();
            let stats = self.engine.stats();
            let taken_bytes = self.bytes_but_buffers(&stats);
            let kept_bytes = if keeps_changes { stats.buffer_bytes } else { 0 };
            let (buffer_bytes, buffer_bytes_min) =
                (bytes.saturating_sub(taken_bytes), kept_bytes.max(BUFFER_BYTES_MIN));
            if buffer_bytes < buffer_bytes_min {
                let needed = taken_bytes + buffer_bytes_min + GROWTH_BYTES;
                let bytes_needed = needed.next_multiple_of(1 << 20).min(self.budget_bytes_max());
                return Err(Error::TooLittleMemory { bytes, buffer_bytes, buffer_bytes_min, bytes_needed });
            }
            self.seen.budget_bytes.store(bytes, Ordering::Relaxed);
            self.engine.set_snapshot_bytes(self.plan().snapshot_bytes);
        }
        self.adjust();
        Ok(())
    }

    fn plan(&self) -> MemoryPlan {
        self.opened.with_budget(self.budget_bytes())
    }

    /// The most that tree and page store used together, in bytes: between two looks the most of each counts.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.seen.peak_bytes.load(Ordering::Relaxed)
    }

    /// Divides what the others leave between leaf buffers and read cache; never less for buffers than they need to work. Cheap:
    /// call it every few milliseconds.
    pub(crate) fn adjust(&self) {
        // The maintenance thread and whoever calls the steps himself take turns: what one counted is never older than the window that
        // another began, and none hands out memory that the other has just given elsewhere. Nothing below takes a latch or waits for a
        // device.
        let mut window = self.seen.window.lock();
        let plan = self.plan();
        let stats = self.engine.stats();
        let page_bytes = self.pages.memory_bytes();
        let page_bytes_most = page_bytes.max(self.seen.page_bytes.swap(page_bytes, Ordering::Relaxed));
        self.seen.peak_bytes.fetch_max(self.engine.take_memory_peak() + page_bytes_most, Ordering::Relaxed);
        let movable = self.movable_bytes(&stats);
        let is_outgrown = self.left_by_index(&stats) < BUFFER_BYTES_MIN;
        self.seen.is_outgrown.store(is_outgrown, Ordering::Relaxed);
        let buffer_bytes_min = if is_outgrown { BUFFER_BYTES_OUTGROWN } else { BUFFER_BYTES_MIN };
        let caches = match plan.shares {
            Some(_) => {
                let pages = plan.read_cache_bytes.min(movable.saturating_sub(BUFFER_BYTES_MIN));
                Caches { pages, records: 0 }
            }
            // Buffers cache better what they may hold: records, or pages without a copy.
            None if plan.buffers_are_caches() => {
                let lent = if look_for_writers(&mut window, &stats) {
                    0
                } else {
                    plan.lent_by_buffers(movable, stats.buffer_bytes)
                };
                Caches { pages: plan.beyond_buffers(movable).max(lent), records: 0 }
            }
            None => self.follow_work(&mut window, &stats, movable),
        };
        let buffer_bytes = (movable - caches.bytes().min(movable)).min(plan.buffer_bytes_max).max(buffer_bytes_min);
        // Buffers give memory up only as they are merged: until then the caches wait.
        let free = movable.saturating_sub(stats.buffer_bytes.max(buffer_bytes_min));
        let caches = caches.within(self.caches_min(), free);
        // Whoever gives memory up does so before another may take it.
        let caches = if caches.pages < self.pages.cache_usage().bytes {
            let given = self.give(caches, &stats, movable);
            self.engine.set_buffer_bytes(buffer_bytes);
            given
        } else {
            self.engine.set_buffer_bytes(buffer_bytes);
            self.give(caches, &stats, movable)
        };
        // What the cache gave up is not there when the tree's next peak is.
        self.seen.page_bytes.store(self.pages.memory_bytes(), Ordering::Relaxed);
        // Half the margin is for what the tree does before the next look, however late it comes; half for the page store.
        let page_bytes_promised = caches.pages + self.page_bytes_but_cache();
        let others = page_bytes_promised + plan.margin_bytes / 2;
        self.engine.set_memory_bytes_max(plan.budget_bytes.saturating_sub(others));
    }

    /// Gives both caches their sizes. What the record cache would lose by a little less memory for a moment, the pages bear, as far as they
    /// can.
    fn give(&self, wanted: Caches, stats: &EngineStats, movable: u64) -> Caches {
        let slack = (movable / SLACK_SHARE).min(wanted.pages - wanted.pages.min(self.caches_min().pages));
        let has = stats.record_cache_room_bytes;
        let more = if (wanted.records..=wanted.records + slack).contains(&has) { has - wanted.records } else { 0 };
        let caches = Caches { pages: wanted.pages - more, records: wanted.records + more };
        if self.opened.record_cache_bytes_max > 0 {
            self.engine.set_record_cache_bytes(caches.records);
        }
        self.pages.set_read_cache_bytes(caches.pages);
        caches
    }

    /// What the caches are to have of `movable` bytes: a step more or less at the end of each window.
    fn follow_work(&self, window: &mut Window, stats: &EngineStats, movable: u64) -> Caches {
        let cache = self.pages.cache_usage();
        let now = Work::of(stats, cache.hits);
        let (least, most) = (self.caches_min(), movable.saturating_sub(BUFFER_BYTES_MIN));
        let work = now.since(&window.began);
        if work.operations >= WINDOW_OPERATIONS {
            window.began = now;
            let for_buffers = movable.saturating_sub(window.caches.bytes());
            let is_idle = for_buffers.saturating_sub(stats.buffer_bytes) > movable / IDLE_SHARE;
            let is_reading = work.is_reading() && !self.opened.buffers_are_caches();
            window.reading = if is_reading { window.reading + work.operations } else { 0 };
            let must_show = window.reading * CHANGE_BYTES > stats.buffer_bytes;
            let claims = [
                Claim {
                    place: Place::Buffers,
                    saved: if is_idle { 0 } else { work.saved_by_buffers(is_reading) },
                    bytes: stats.buffer_bytes,
                    wants_more: !is_idle && !is_reading,
                    can_give: window.caches.bytes() < most,
                },
                Claim {
                    place: Place::Pages,
                    saved: work.page_hits,
                    bytes: cache.bytes,
                    wants_more: cache.bytes * 10 >= cache.bytes_max * FULL_TENTHS,
                    can_give: window.caches.pages > least.pages,
                },
                Claim {
                    place: Place::Records,
                    saved: work.record_hits,
                    bytes: stats.record_cache_room_bytes,
                    wants_more: work.records_displaced * DISPLACED_SHARE > work.records_kept,
                    can_give: window.caches.records > least.records,
                },
            ];
            match step(&claims, must_show) {
                Some(step) => {
                    let steps = window.pace.next(step, is_reading);
                    window.caches = window.caches.with_step(step.from, step.to, steps * (movable / STEP_SHARE));
                }
                None => window.pace = Pace::default(),
            }
        }
        window.caches = window.caches.within(least, most);
        window.caches
    }

    /// What leaf buffers can have at the most in the long run: what comes and goes, as snapshots, reads in flight and removed nodes do,
    /// does not count.
    fn left_by_index(&self, stats: &EngineStats) -> u64 {
        self.budget_bytes().saturating_sub(self.bytes_but_buffers(stats))
    }

    /// What the rest takes: it is the same with every budget.
    fn bytes_but_buffers(&self, stats: &EngineStats) -> u64 {
        let plan = &self.opened;
        let index_bytes = (stats.inner_bytes + stats.leaf_table_bytes).saturating_sub(stats.garbage_bytes);
        let others = plan.sequencer_bytes + plan.filter_bytes + plan.margin_bytes + self.caches_min().bytes();
        index_bytes + stats.log_bytes + others
    }

    fn caches_min(&self) -> Caches {
        Caches { pages: self.opened.read_cache_bytes_min, records: self.opened.record_cache_bytes_min }
    }

    /// What leaf buffers and the read cache may take together. What is promised to others counts as used: sequencers fill up; a
    /// snapshot that is open may keep states, and where none is, the margin bears the first ones.
    fn movable_bytes(&self, stats: &EngineStats) -> u64 {
        let plan = self.plan();
        let records_bytes = stats.record_cache_bytes.saturating_sub(stats.record_cache_room_bytes);
        let tree_bytes = stats.inner_bytes + stats.leaf_table_bytes + stats.log_bytes + records_bytes;
        let page_bytes = self.page_bytes_but_cache();
        let snapshot_bytes = if stats.snapshot_bytes == 0 { 0 } else { plan.snapshot_bytes.max(stats.snapshot_bytes) };
        let others =
            tree_bytes + page_bytes + snapshot_bytes + plan.filter_bytes.max(stats.filter_bytes) + plan.margin_bytes;
        plan.budget_bytes.saturating_sub(others)
    }

    /// What the page store takes beside its cache: what was promised to sequencers, or what is taken if that is more.
    fn page_bytes_but_cache(&self) -> u64 {
        let cache_bytes = self.pages.cache_usage().bytes;
        self.pages.memory_bytes().saturating_sub(cache_bytes).max(self.opened.sequencer_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [Place; 3] = [Place::Buffers, Place::Pages, Place::Records];

    /// What is moved when each place saved so much with so many MiB, all of them full, beside writers or long after them.
    fn moved_if(must_show: bool, saved: [u64; 3], mib: [u64; 3]) -> Option<(Place, Place)> {
        let claim = |nth: usize| Claim {
            place: PLACES[nth],
            saved: saved[nth],
            bytes: mib[nth] << 20,
            wants_more: nth != 0 || !must_show,
            can_give: true,
        };
        step(&[claim(0), claim(1), claim(2)], must_show).map(|step| (step.from, step.to))
    }

    fn moved(saved: [u64; 3], mib: [u64; 3]) -> Option<(Place, Place)> {
        moved_if(false, saved, mib)
    }

    #[test]
    fn a_step_goes_to_who_saves_most_from_who_saves_least() {
        // Inserts: 200 merges.
        assert_eq!(moved([400, 0, 0], [30, 1, 1]), Some((Place::Pages, Place::Buffers)));
        // Gets with favourites.
        assert_eq!(moved([100, 20, 2_000], [30, 1, 10]), Some((Place::Buffers, Place::Records)));
        // Scans.
        assert_eq!(moved([0, 2_000, 3], [30, 10, 1]), Some((Place::Buffers, Place::Pages)));
        // Uniform gets: caches hold a pair in more bytes than buffers do.
        assert_eq!(moved([400, 9, 10], [30, 2, 1]), Some((Place::Pages, Place::Buffers)));
        assert_eq!(moved([105, 100, 110], [1, 1, 1]), None);
        // A few hits of a cache that is a two hundredth of the buffers: chance, where a hundred are none.
        assert_eq!(moved([400, 2, 4], [220, 1, 1]), None);
        assert_eq!(moved([400, 2, 100], [220, 1, 1]), Some((Place::Buffers, Place::Records)));
    }

    #[test]
    fn long_after_the_last_write_buffers_keep_only_what_they_clearly_earn() {
        // Too few hits of the caches to be told from chance.
        assert_eq!(moved([80, 5, 1], [20, 1, 1]), None);
        assert_eq!(moved_if(true, [80, 5, 1], [20, 1, 1]), Some((Place::Buffers, Place::Pages)));
        assert_eq!(moved_if(true, [80, 5, 6], [20, 1, 1]), Some((Place::Buffers, Place::Records)));
        // A cache that is a little worse, and one that is much worse.
        assert_eq!(moved_if(true, [100, 95, 99], [1, 1, 1]), Some((Place::Buffers, Place::Records)));
        assert_eq!(moved_if(true, [2_000, 400, 400], [1, 1, 1]), None);
        let work = |puts| Work { operations: 4_096, puts, merges: 100, buffer_hits: 7, ..Work::default() };
        assert_eq!([0, 15, 16, 200].map(|puts| work(puts).is_reading()), [true, true, false, false]);
        assert_eq!([true, false].map(|is_reading| work(0).saved_by_buffers(is_reading)), [7, 207]);
    }

    #[test]
    fn steps_become_longer_while_they_go_one_way_for_much() {
        let there = Step { from: Place::Buffers, to: Place::Pages, is_much: true };
        let back = Step { from: Place::Pages, to: Place::Buffers, is_much: true };
        let little = Step { is_much: false, ..back };
        let mut pace = Pace::default();
        assert_eq!([back, back, back, back].map(|step| pace.next(step, false)), [1, 2, 4, 4]);
        assert_eq!([little, little, back, back].map(|step| pace.next(step, false)), [1, 1, 1, 2]);
        assert_eq!(
            [there, there, back].map(|step| pace.next(step, false)),
            [1, 1, 1],
            "merges of writers would wait for theirs"
        );
        assert_eq!([there, there, there].map(|step| pace.next(step, true)), [1, 2, 4]);
    }

    /// Windows until one of two places has nearly all of 320 MiB, and then the other, when what they save goes by what they have and a
    /// byte of one saves ten times as much.
    #[test]
    fn a_change_back_to_writes_is_followed_in_few_windows() {
        const MOVABLE: u64 = 320 << 20;
        let mut caches = Caches { pages: 0, records: 0 };
        let mut pace = Pace::default();
        let mut windows_until = |worth: [u64; 2], enough: &dyn Fn(u64) -> bool| {
            (0..100).find(|_| {
                let claim = |place, bytes: u64, worth| Claim {
                    place,
                    saved: (bytes >> 10) * worth,
                    bytes,
                    wants_more: true,
                    can_give: bytes > MOVABLE / 32,
                };
                let buffers = claim(Place::Buffers, (MOVABLE - caches.pages).max(1 << 20), worth[0]);
                match step(&[buffers, claim(Place::Pages, caches.pages.max(1 << 20), worth[1])], false) {
                    Some(step) => {
                        let bytes = pace.next(step, false) * (MOVABLE / STEP_SHARE);
                        caches = caches.with_step(step.from, step.to, bytes.min(MOVABLE - caches.pages));
                    }
                    None => pace = Pace::default(),
                }
                enough(caches.pages)
            })
        };
        let to_pages = windows_until([1, 10], &|pages| pages > MOVABLE * 9 / 10);
        let to_buffers = windows_until([10, 1], &|pages| pages < MOVABLE / 10);
        assert!(to_pages.is_some_and(|windows| (25..=30).contains(&windows)), "{to_pages:?}");
        assert!(to_buffers.is_some_and(|windows| windows <= 10), "{to_buffers:?}");
    }

    #[test]
    fn counts_that_were_read_before_the_window_began_are_no_work() {
        let count = |nth: u64| Work {
            operations: nth,
            puts: nth,
            buffer_hits: nth,
            merges: nth,
            page_hits: nth,
            record_hits: nth,
            records_kept: nth,
            records_displaced: nth,
        };
        let none = count(3).since(&count(5));
        assert_eq!((none.operations, none.saved_by_buffers(false), none.page_hits, none.record_hits), (0, 0, 0, 0));
        assert_eq!((none.records_kept, none.records_displaced), (0, 0));
        assert_eq!(count(5).since(&count(3)).saved_by_buffers(false), 6);
    }

    #[test]
    fn a_cache_that_is_not_full_gets_nothing_and_none_gives_its_last() {
        let claim = |place, saved, wants_more, can_give| Claim { place, saved, bytes: 1, wants_more, can_give };
        let full = claim(Place::Buffers, 1, true, true);
        let hungry = claim(Place::Records, 100, false, true);
        assert_eq!(step(&[full, hungry], false), None);
        let stepped = step(&[full, claim(Place::Pages, 0, true, false), Claim { wants_more: true, ..hungry }], false);
        assert_eq!(stepped, Some(Step { from: Place::Buffers, to: Place::Records, is_much: true }));
        let caches = Caches { pages: 5, records: 7 };
        assert_eq!(caches.with_step(Place::Pages, Place::Records, 9), Caches { pages: 0, records: 12 });
        assert_eq!(caches.with_step(Place::Buffers, Place::Pages, 9), Caches { pages: 14, records: 7 });
        let least = Caches { pages: 2, records: 1 };
        assert_eq!(caches.within(least, 10), Caches { pages: 3, records: 7 });
        assert_eq!(caches.within(least, 6), Caches { pages: 2, records: 4 });
        assert_eq!(caches.within(least, 0), least);
    }
}
