//! Making and recovering a tree (decision 0001).
//!
//! Order: newest checkpoint's structure and the address records after it -> index, leaf table, live pages -> where the log's
//! durable prefix ends -> a new session is recorded -> the checkpoint's images are applied -> the log is replayed over them.
//! The old log and checkpoint stay until the next checkpoint, so a crash at any point here is recovered like the first one.

mod imaged;
mod structure;

use std::{cell::Cell, sync::Arc, time::Duration};

use zonda_pages::{
    AreaKind, ChunkAddress, Liveness, PageAddress, PageError, PageId, PageStore, Reclaimed, Relocate, Relocated, Stamp,
};
use zonda_rt::atomic::Ordering;

use crate::{
    RecoveryProgress, TreeError, TreeOptions,
    checkpoint_extra::CheckpointExtra,
    filter::Filter,
    image,
    index::Index,
    leaf_table::{LeafTable, Location},
    log::{self, Log, LogOptions, ReplayVisitor, Session, Stretch},
    metalog::{self, AboveLevel, CheckpointStart, MetaLog, MetaRecord, MetaVisitor, Upsert},
    record::Record,
    tree::{Parts, Result, Tree},
};
use imaged::Imaged;
use structure::{Leaf, Structure};

type Progress<'a> = dyn FnMut(RecoveryProgress) + 'a;

/// The number of the first operation of a store; 0 stands for none.
pub(crate) const FIRST_SEQUENCE: u64 = 1;

fn log_options(options: &TreeOptions) -> LogOptions {
    LogOptions {
        instances: options.log_instances,
        ring_bytes: options.log_ring_bytes as usize,
        interval: Duration::from_millis(options.log_interval_ms),
        enabled: options.log,
    }
}

/// An empty tree in an empty store; durable when this returns.
///
/// # Errors
/// Those of the store.
pub(crate) fn create(store: Arc<dyn PageStore>, options: TreeOptions) -> Result<Tree> {
    let structure = Structure::empty();
    store.adopt(&mut std::iter::empty());
    let session = Session { number: 1, first_sequence: FIRST_SEQUENCE };
    let tree = assemble(store, options, &structure, session, 0)?;
    tree.recovering.store(false, Ordering::Release);
    tree.checkpoint()?;
    Ok(tree)
}

/// Recovers a tree.
///
/// # Errors
/// `Damaged`; those of the store.
pub(crate) fn open(store: Arc<dyn PageStore>, options: TreeOptions, progress: &mut Progress<'_>) -> Result<Tree> {
    let Some(start) = metalog::newest_checkpoint(&*store)? else {
        return recreate(store, options);
    };
    let mut structure = Structure::empty();
    let end = metalog::replay_from(&*store, &start, &mut Building { structure: &mut structure, progress })?;
    structure.check()?;
    store.adopt(&mut structure.leaves.values().filter_map(|leaf| leaf.page));
    store.adopt_values(&std::mem::take(&mut structure.live_values));
    free_unused(&*store)?;
    let mut nothing = Replaying { apply: &mut |_, _| Ok(()), progress };
    let stretch = Stretch {
        from: structure.replay_from,
        durable_before: structure.log_durable_before,
        up_to_damage: options.log_up_to_damage,
    };
    let replayed = log::replay(&*store, &structure.sessions, stretch, &mut nothing)?;
    let session = Session { number: structure.sessions.next_number(), first_sequence: replayed.next_sequence };
    // Not known to the second replay either: it finds what the first one found, whatever the MetaLog says of numbers.
    let mut tree = assemble(Arc::clone(&store), options, &structure, session, end.next_chunk)?;
    tree.log_left_out = replayed.left_out;
    tree.filter.get_or_insert_with(|| Filter::new(SPARE_FILTER_BYTES, tree.options.filter_eviction));
    let leaves = ReplayedLeaves::new(&structure);
    if structure.is_as_checkpointed() && replayed.records == 0 && replayed.left_out.is_none() {
        tree.note_checkpointed()?;
    }
    apply_images(&tree, &start, (&leaves, Imaged::of(structure.leaves)), progress)?;
    let mut apply = |sequence: u64, record: &Record<'_>| {
        if leaves.holds(&tree, record.key, sequence) { Ok(()) } else { tree.apply_recovered(record, sequence) }
    };
    let mut replaying = Replaying { apply: &mut apply, progress };
    log::replay(&*store, &structure.sessions, stretch, &mut replaying)?;
    tree.recovering.store(false, Ordering::Release);
    settle_filter(&mut tree);
    if !tree.options.read_only {
        tidy(&tree, replayed.records > 0)?;
    }
    Ok(tree)
}

/// What recovery gives a filter that was not asked for, in case something finds no room in its leaf.
const SPARE_FILTER_BYTES: u64 = 64 << 10;

/// Recovery is over: the filter keeps what found no room in its leaf. One that was not asked for goes if that is nothing.
fn settle_filter(tree: &mut Tree) {
    tree.unmerged.begin_round();
    let is_spare = tree.options.filter_bytes == 0;
    tree.filter.take_if(|filter| is_spare && filter.is_empty());
    tree.filter.iter_mut().for_each(Filter::fit_limit);
}

/// Reclaim steps before recovery writes anything.
const FREEING_STEPS_MAX: usize = 256;

/// A full store may have no zone left for the MetaLog of the new life: zones without live pages are reset first. The MetaLog
/// that was read says which those are; making it durable is all it takes (I3).
fn free_unused(store: &dyn PageStore) -> Result<()> {
    let mut steps = 0;
    while store.is_short() && steps < FREEING_STEPS_MAX && store.reclaim_step(&Unread(store))? == Reclaimed::Progress {
        steps += 1;
    }
    Ok(())
}

/// The tree's side of reclaim before there is a tree: nothing moves.
struct Unread<'a>(&'a dyn PageStore);

impl Relocate for Unread<'_> {
    fn relocate_page(&self, _: PageId, _: PageAddress, _: &[u8]) -> std::result::Result<Relocated, PageError> {
        Ok(Relocated::Busy)
    }

    fn relocate_value(&self, _: ChunkAddress, _: &[u8]) -> std::result::Result<Relocated, PageError> {
        Ok(Relocated::Busy)
    }

    fn value_liveness(&self, _: ChunkAddress, _: &[u8]) -> std::result::Result<Liveness, PageError> {
        Ok(Liveness::Unknown)
    }

    fn writes(&self) -> u64 {
        0
    }

    fn knows_values(&self) -> bool {
        false
    }

    fn stamp(&self) -> Stamp {
        Stamp(0)
    }

    fn commit_moves(&self) -> std::result::Result<(), PageError> {
        self.0.area(AreaKind::Meta).flush()
    }

    fn drained(&self, _: Stamp) -> bool {
        true
    }
}

/// Each life takes zones of its own for log and MetaLog: many short lives must not pile them up. And a life without a log needs that of
/// the lives before no more: what it merges is newer, and where a page is moved nothing says up to where it need not be replayed. Without
/// room for it the store opens with the log only.
fn tidy(tree: &Tree, has_replayed: bool) -> Result<()> {
    let segments = |kind| tree.store.area(kind).segments().len();
    let are_few = segments(AreaKind::Log) <= LOG_SEGMENTS_KEPT && segments(AreaKind::Meta) <= META_SEGMENTS_KEPT;
    let must_forget = has_replayed && !tree.options.log;
    if are_few && !must_forget {
        return Ok(());
    }
    match tree.checkpoint() {
        Err(error) if !must_forget && log::can_go_on(&error) => Ok(()),
        outcome => outcome,
    }
}

/// Segments of log and MetaLog that recovery leaves to the next checkpoint.
const LOG_SEGMENTS_KEPT: usize = 2;
/// See [`LOG_SEGMENTS_KEPT`].
const META_SEGMENTS_KEPT: usize = 3;

/// Blocks of MetaLog that creating a tree writes: a session and an empty checkpoint.
const CREATION_BYTES: u64 = 2 * zonda_pages::BLOCK_BYTES as u64;

/// No checkpoint was ever completed: the store's creation was interrupted, nothing was acknowledged.
///
/// # Errors
/// `Damaged` if more was written than a creation writes: then a checkpoint was there and cannot be read.
fn recreate(store: Arc<dyn PageStore>, options: TreeOptions) -> Result<Tree> {
    let wrote = |kind| !store.area(kind).segments().is_empty();
    if !is_only_created(&store)? || wrote(AreaKind::Log) || wrote(AreaKind::Values) {
        let why = "the store holds data, but no whole checkpoint".to_string();
        return Err(TreeError::Damaged { what: "MetaLog", why });
    }
    for kind in [AreaKind::Log, AreaKind::Meta, AreaKind::Values] {
        let area = store.area(kind);
        area.segments().into_iter().try_for_each(|segment| area.release(segment.id))?;
    }
    create(store, options)
}

/// Whether no segment of the MetaLog holds more than a creation writes. A zone that was finished counts as written to its end, so what is
/// in it is looked at: one in which nothing can be read may have held anything.
fn is_only_created(store: &Arc<dyn PageStore>) -> Result<bool> {
    let area = store.area(AreaKind::Meta);
    for segment in area.segments().into_iter().filter(|segment| segment.bytes > CREATION_BYTES) {
        let mut blocks = 0;
        area.read_segment(segment.id, &mut |chunk| {
            blocks += zonda_pages::chunk_blocks(chunk.payload.len());
            Ok(true)
        })?;
        if blocks == 0 || blocks * zonda_pages::BLOCK_BYTES as u64 > CREATION_BYTES {
            return Ok(false);
        }
    }
    Ok(true)
}

fn assemble(
    store: Arc<dyn PageStore>,
    options: TreeOptions,
    structure: &Structure,
    session: Session,
    next_chunk: u64,
) -> Result<Tree> {
    structure.check_ids(store.usage().capacity_bytes / zonda_pages::BLOCK_BYTES as u64)?;
    let table = LeafTable::new();
    for (&id, leaf) in &structure.leaves {
        table.restore(PageId(id), leaf.page)?;
    }
    table.recycle((0..table.len()).filter(|id| !structure.leaves.contains_key(id)).map(PageId));
    // The session's record says how far the logs of earlier lives go: what recovery read of them is durable first, on whatever device.
    store.area(AreaKind::Log).flush()?;
    let meta = MetaLog::start(Arc::clone(&store), session, next_chunk)?;
    let log = Log::start(Arc::clone(&store), log_options(&options), session.number, session.first_sequence)?;
    let leaves = u32::try_from(structure.leaves.len()).expect("ids have 32 bits");
    let index = Index::with_children_max(&structure.entries(), usize::from(options.inner_children_max));
    let parts = Parts { store, options, index, table, leaves, log, meta, session, checkpoint: structure.checkpoint };
    let tree = Tree::new(parts);
    let sparse = structure.leaves.iter().filter(|(_, leaf)| leaf.used_bytes > 0);
    tree.know_sparse(sparse.map(|(&id, leaf)| (PageId(id), leaf.used_bytes)));
    Ok(tree)
}

/// What of a leaf is asked for while images and log are replayed.
#[derive(Clone, Default)]
struct ReplayedLeaf {
    page: Option<PageAddress>,
    merged_to: Cell<u64>,
    is_untouched: bool,
}

/// All leaves; those that were merged since the checkpoint came to them need most of the log not to be replayed onto them.
///
/// Ranges do not grow during replay (empty leaves stay). Only leaves that still have the page the MetaLog says are looked at: when replay
/// itself merges a leaf, everything from there on is applied to it, which is right because it is applied in order to the end.
struct ReplayedLeaves(Vec<ReplayedLeaf>);

impl ReplayedLeaves {
    fn new(structure: &Structure) -> Self {
        let len = structure.leaves.keys().max().map_or(0, |id| *id as usize + 1);
        let mut leaves = vec![ReplayedLeaf::default(); len];
        for (&id, &Leaf { page, merged_to, is_untouched, .. }) in &structure.leaves {
            leaves[id as usize] = ReplayedLeaf { page, merged_to: Cell::new(merged_to), is_untouched };
        }
        Self(leaves)
    }

    /// Whether leaf `id` is as the checkpoint found it.
    fn is_untouched(&self, id: PageId) -> bool {
        self.0.get(id.0 as usize).is_some_and(|leaf| leaf.is_untouched)
    }

    /// Whether the page of `key`'s leaf holds the effect of operation `sequence`.
    fn holds(&self, tree: &Tree, key: &[u8], sequence: u64) -> bool {
        let (id, page) = tree.leaf_of(key);
        let Some(leaf) = self.0.get(id.0 as usize) else { return false };
        if leaf.page != page {
            // For good: the leaf may come back to the same address with another content.
            leaf.merged_to.set(0);
        }
        sequence < leaf.merged_to.get()
    }
}

struct Building<'a> {
    structure: &'a mut Structure,
    progress: &'a mut Progress<'a>,
}

impl MetaVisitor for Building<'_> {
    fn record(&mut self, record: MetaRecord<'_>) -> Result<()> {
        if let MetaRecord::Begin(begin) = &record {
            self.structure.note(CheckpointExtra::decode(begin.extra)?, begin.replay_from);
        }
        self.structure.apply(&record);
        Ok(())
    }

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        (self.progress)(RecoveryProgress { phase: "metalog", done_bytes, total_bytes });
    }
}

/// Applies the records that the checkpoint found in memory, all to leaves that have room: what buffers held, then the batch array, then the
/// filter, so that the newest wins.
fn apply_images(
    tree: &Tree,
    start: &CheckpointStart,
    (leaves, imaged): (&ReplayedLeaves, Imaged),
    progress: &mut Progress<'_>,
) -> Result<()> {
    let checkpoint = start.checkpoint;
    let mut images = Images { tree, leaves, imaged, checkpoint, inside: false, level: None, seen: 0, progress };
    metalog::replay_from(&*tree.store, start, &mut images)?;
    for level in AboveLevel::ALL.into_iter().filter(|level| images.seen & 1 << *level as u8 != 0).collect::<Vec<_>>() {
        images.level = Some(level);
        metalog::replay_from(&*tree.store, start, &mut images)?;
    }
    Ok(())
}

struct Images<'a> {
    tree: &'a Tree,
    leaves: &'a ReplayedLeaves,
    imaged: Imaged,
    checkpoint: u64,
    /// Between the `Begin` and the `End` of the checkpoint.
    inside: bool,
    /// What is applied in this pass; `None`: leaves.
    level: Option<AboveLevel>,
    /// A bit for each level that has records.
    seen: u8,
    progress: &'a mut Progress<'a>,
}

impl Images<'_> {
    /// Applies the records of an image, none older than `oldest`, unless their pages hold them (0: if merged at all since the
    /// checkpoint came to them).
    fn apply(&self, image: &[u8], oldest: u64) -> Result<()> {
        image::decode(image, &mut |record| match self.imaged.holds(record.key, oldest) {
            true => Ok(()),
            false => self.tree.apply_recovered(record, 0),
        })
    }

    fn take_leaf(&self, found: &Upsert<'_>, image: &[u8]) -> Result<()> {
        if image.is_empty() || self.put_back(found, image)? { Ok(()) } else { self.apply(image, 0) }
    }

    /// Gives a leaf that is as the checkpoint found it its buffer back, as a whole. `false` if it is not: the checkpoint may have come to
    /// two leaves with one id, each in its time, and that begins elsewhere is the other one.
    fn put_back(&self, found: &Upsert<'_>, image: &[u8]) -> Result<bool> {
        let Upsert { id, low_key, address: page } = *found;
        if !self.leaves.is_untouched(id) || self.tree.pool.is_over() || !self.begins_at(id, low_key) {
            return Ok(false);
        }
        let mut leaf = self.tree.table.lock(id);
        if leaf.location().page() != page || leaf.location().buffer().is_some() {
            return Ok(false);
        }
        let buffer = image::buffer(self.tree.pool.memory(), id, page, image)?;
        self.tree.relocate_leaf(&mut leaf, Location::Buffered(buffer));
        self.tree.note_if_long(id, leaf.location());
        Ok(true)
    }

    fn begins_at(&self, id: PageId, low_key: &[u8]) -> bool {
        let guard = self.tree.epoch.pin();
        let path = self.tree.index.find(low_key, &guard);
        path.leaf() == id && path.low() == low_key
    }
}

impl MetaVisitor for Images<'_> {
    fn record(&mut self, record: MetaRecord<'_>) -> Result<()> {
        match record {
            MetaRecord::Begin(begin) => self.inside = begin.checkpoint == self.checkpoint,
            MetaRecord::End { .. } => self.inside = false,
            MetaRecord::Leaf { id, low_key, address, image } if self.inside && self.level.is_none() => {
                self.take_leaf(&Upsert { id, low_key, address }, image)?;
            }
            MetaRecord::Above { level, oldest, image } if self.inside => {
                self.seen |= 1 << level as u8;
                if self.level == Some(level) {
                    self.apply(image, oldest)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        (self.progress)(RecoveryProgress { phase: "image", done_bytes, total_bytes });
    }
}

struct Replaying<'a, 'p> {
    apply: &'a mut dyn FnMut(u64, &Record<'_>) -> Result<()>,
    progress: &'a mut Progress<'p>,
}

impl ReplayVisitor for Replaying<'_, '_> {
    fn record(&mut self, sequence: u64, record: Record<'_>) -> Result<()> {
        (self.apply)(sequence, &record)
    }

    fn progress(&mut self, done_bytes: u64, total_bytes: u64) {
        (self.progress)(RecoveryProgress { phase: "log", done_bytes, total_bytes });
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::{
        Durability,
        flush::Flushed,
        metalog::Begin,
        record::Kind,
        testing::{MemOptions, MemStore, Survives},
        tree::is_no_space,
    };

    const LEAF: PageId = PageId(19);

    fn at(block: u64) -> PageAddress {
        PageAddress::new(block, 1)
    }

    fn told(records: &[MetaRecord<'_>]) -> ReplayedLeaves {
        ReplayedLeaves::new(&structure_of(records))
    }

    fn structure_of(records: &[MetaRecord<'_>]) -> Structure {
        let mut structure = Structure::empty();
        let session = Session { number: 1, first_sequence: FIRST_SEQUENCE };
        let begin = Begin { checkpoint: 1, replay_from: 7, session, next_page_id: 30, extra: &[] };
        structure.apply(&MetaRecord::Begin(begin));
        structure.apply(&MetaRecord::Leaf { id: LEAF, low_key: b"a", address: Some(at(145)), image: b"records" });
        structure.apply(&MetaRecord::End { checkpoint: 1 });
        records.iter().for_each(|record| structure.apply(record));
        structure
    }

    #[test]
    fn a_leaf_is_untouched_until_it_moves() {
        assert!(told(&[]).is_untouched(LEAF));
        let moved = MetaRecord::Move { id: LEAF, address: at(146), merged_to: 0 };
        assert!(!told(&[moved]).is_untouched(LEAF));
        assert!(!told(&[]).is_untouched(PageId(20)));
    }

    /// What the checkpoint found in the buffer of one leaf is not to come into that of another, which has its id now and by chance a page
    /// at the same address (`sim --seed 143001 --steps 800 --design bdtree` found it).
    #[test]
    fn another_leaf_with_the_same_id_at_the_same_address_is_touched() {
        let upserts = [Upsert { id: LEAF, low_key: b"x", address: Some(at(85)) }];
        let records = [
            MetaRecord::Restructure { removed: [LEAF].as_slice().into(), upserts: [].as_slice().into(), merged_to: 0 },
            MetaRecord::Restructure { removed: [].as_slice().into(), upserts: upserts.as_slice().into(), merged_to: 0 },
            MetaRecord::Move { id: LEAF, address: at(145), merged_to: 0 },
        ];
        assert!(!told(&records).is_untouched(LEAF));
    }

    /// The same where the checkpoint comes to both, each in its time: the second entry says again that the leaf is untouched.
    #[test]
    fn what_was_found_in_a_leaf_that_began_elsewhere_is_put_where_its_keys_are() {
        let store = MemStore::new(MemOptions::default());
        let tree = create(store, TreeOptions::default()).expect("an empty store");
        for number in 0..1_000_u32 {
            tree.put(&number.to_be_bytes(), &[7; 60], Durability::Buffered).expect("room");
        }
        (0..tree.table.len()).for_each(|leaf| _ = tree.flush_leaf(PageId(leaf)).expect("room"));
        let (id, page) = tree.leaf_of(&999_u32.to_be_bytes());
        let gone = Record { key: &5_u32.to_be_bytes(), kind: Kind::Inline, value: b"of another" };
        assert_ne!(tree.leaf_of(gone.key).0, id);

        let untouched = ReplayedLeaf { page, merged_to: Cell::new(0), is_untouched: true };
        let leaves = ReplayedLeaves(vec![untouched; tree.table.len() as usize]);
        let (mut shown, tree) = (|_| (), &tree);
        let (leaves, imaged, progress) = (&leaves, Imaged::default(), &mut shown);
        let images = Images { tree, leaves, imaged, checkpoint: 1, inside: true, level: None, seen: 0, progress };
        let found = Upsert { id, low_key: b"", address: page };
        images.take_leaf(&found, &image::encode_records(b"", [gone].into_iter())).expect("room");
        let mut value = Vec::new();
        assert!(tree.get_into(gone.key, &mut value).expect("readable") && value == b"of another");
        assert_eq!(tree.flush_leaf(id).expect("a sound leaf"), Flushed::Nothing);
    }

    /// What that life lost of its log came to other operations: what it said to be in a page up to there was never so.
    #[test]
    fn numbers_that_a_later_life_draws_anew_are_in_no_page_of_an_earlier_one() {
        let moved = |merged_to| MetaRecord::Move { id: LEAF, address: at(146), merged_to };
        let later_life = || MetaRecord::Session(Session { number: 2, first_sequence: 50 });
        let merged_to = |records: &[MetaRecord<'_>]| told(records).0[LEAF.0 as usize].merged_to.get();
        assert_eq!(merged_to(&[moved(100)]), 100);
        assert_eq!(merged_to(&[moved(100), later_life()]), 50);
        assert_eq!(merged_to(&[moved(30), later_life()]), 30);
        assert_eq!(merged_to(&[moved(100), later_life(), moved(60)]), 60, "of the later one");
    }

    /// Up to where the pages have what the images say, of the leaf of key `a` and of that of key `x`.
    fn imaged(records: &[MetaRecord<'_>]) -> [u64; 2] {
        let imaged = Imaged::of(structure_of(records).leaves);
        [b"a", b"x"].map(|key| (0..200).find(|number| !imaged.holds(key, *number)).unwrap_or(u64::MAX))
    }

    fn moved<'a>(block: u64, merged_to: u64) -> MetaRecord<'a> {
        MetaRecord::Move { id: LEAF, address: at(block), merged_to }
    }

    #[test]
    fn what_images_say_stays_in_pages_whatever_a_later_record_does_not_know() {
        let life = |number| MetaRecord::Session(Session { number, first_sequence: 50 });
        assert_eq!(imaged(&[moved(146, 100)])[0], 100);
        assert_eq!(imaged(&[moved(146, 100), moved(147, 0)])[0], 100, "moved");
        assert_eq!(imaged(&[moved(146, 100), moved(147, 60)])[0], 100, "merged beside an operation that lasts");
        assert_eq!(imaged(&[moved(146, 100), life(2)])[0], 100, "numbers drawn anew are not those of images");
        assert_eq!(imaged(&[moved(146, 100), life(2), moved(147, 0)])[0], 100, "moved by another life");
        assert_eq!(imaged(&[moved(146, 0)])[0], 0);
        assert_eq!(imaged(&[life(2), moved(146, 51)])[0], u64::MAX, "with all that its recovery put into it");
        assert_eq!(imaged(&[life(2), moved(146, FIRST_SEQUENCE)])[0], 0, "something of that is above the leaf still");
    }

    #[test]
    fn what_images_say_is_in_the_pages_of_leaves_that_came_of_others() {
        const NEW: PageId = PageId(20);
        let upsert = |id, low_key, block| Upsert { id, low_key, address: Some(at(block)) };
        let (both, one) = ([upsert(LEAF, b"a", 146), upsert(NEW, b"x", 147)], [upsert(LEAF, b"a", 146)]);
        let split = |merged_to| MetaRecord::Restructure {
            removed: [].as_slice().into(),
            upserts: both.as_slice().into(),
            merged_to,
        };
        let joined =
            MetaRecord::Restructure { removed: [NEW].as_slice().into(), upserts: one.as_slice().into(), merged_to: 0 };
        assert_eq!(imaged(&[split(70)]), [70, 70]);
        assert_eq!(imaged(&[moved(145, 100), split(0)]), [100, 100], "split by a recovery");
        assert_eq!(imaged(&[split(70), joined.clone()]), [70, 70]);
        assert_eq!(imaged(&[split(0), moved(146, 90), joined.clone()]), [90, 0], "each by its keys");
        assert_eq!(imaged(&[split(0), moved(146, 90), joined.clone(), moved(148, 80)]), [90, 80], "both, together");
        assert_eq!(imaged(&[split(0), moved(146, 90), joined.clone(), split(0)]), [90, 0], "split again");
        assert_eq!(imaged(&[moved(146, 90), joined]), [0, 0], "of one of them nothing is known");
    }

    /// A log is replayed over pages of which nothing is known: one of earlier lives is older than what a life without a log merged.
    #[test]
    fn a_life_without_a_log_keeps_none_of_the_lives_before() {
        let store = MemStore::new(MemOptions::default());
        let as_pages = |store: &Arc<MemStore>| Arc::clone(store) as Arc<dyn PageStore>;
        let tree = create(as_pages(&store), TreeOptions::default()).expect("an empty store");
        tree.put(b"key", b"logged", Durability::Synced).expect("room");
        let again = |store: &MemStore, value: &[u8]| {
            let store = store.reopen(Survives::Flushed);
            let options = TreeOptions { log: false, merged_relocation: false, ..TreeOptions::default() };
            let tree = open(as_pages(&store), options, &mut |_| ()).expect("a sound store");
            let mut found = Vec::new();
            assert!(tree.get_into(b"key", &mut found).expect("readable"));
            assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(value));
            (store, tree)
        };
        let (store, tree) = again(&store, b"logged");
        tree.put(b"key", b"merged", Durability::Buffered).expect("room");
        let (id, _) = tree.leaf_of(b"key");
        assert_eq!(tree.flush_leaf(id).expect("room"), Flushed::Done);
        tree.flush_meta().expect("room");
        let (store, tree) = again(&store, b"merged");
        tree.put(b"other", b"waits", Durability::Buffered).expect("room");
        let page = tree.leaf_of(b"key").1.expect("it was merged");
        let body = tree.read_body(id, Some(page)).expect("readable").expect("a page");
        assert_eq!(tree.relocate_page(id, page, &body).expect("room"), Relocated::Moved);
        tree.flush_meta().expect("room");
        again(&store, b"merged");
    }

    /// Otherwise an older log would be replayed over what a life without a log has merged.
    #[test]
    fn what_was_logged_opens_without_a_log_only_with_room_for_a_checkpoint() {
        let as_pages = |store: &Arc<MemStore>| Arc::clone(store) as Arc<dyn PageStore>;
        let store = MemStore::new(MemOptions::default());
        let tree = create(as_pages(&store), TreeOptions::default()).expect("an empty store");
        tree.put(b"key", b"logged", Durability::Synced).expect("room");
        let open_full = |store: &Arc<MemStore>, log| {
            let of_the_new_life = 1;
            store.wire().fill_after(of_the_new_life);
            open(as_pages(store), TreeOptions { log, ..TreeOptions::default() }, &mut |_| ())
        };
        let store = store.reopen(Survives::Flushed);
        let refused = open_full(&store, false).map(|_| ()).expect_err("no room for a checkpoint");
        assert!(is_no_space(&refused), "{refused}");
        let store = store.reopen(Survives::Flushed);
        let tree = open_full(&store, true).expect("a sound store");
        let mut found = Vec::new();
        assert!(tree.get_into(b"key", &mut found).expect("readable") && found == b"logged");
        let store = store.reopen(Survives::Flushed);
        open(as_pages(&store), TreeOptions { log: false, ..TreeOptions::default() }, &mut |_| ()).expect("room");
        assert_eq!(store.area(AreaKind::Log).segments().len(), 0, "nothing to be replayed over newer pages");
    }

    #[test]
    fn a_full_store_without_a_log_opens_however_many_lives_it_had() {
        let options = || TreeOptions { log: false, ..TreeOptions::default() };
        let mut store = MemStore::new(MemOptions::default());
        drop(create(Arc::clone(&store) as Arc<dyn PageStore>, options()).expect("an empty store"));
        for _ in 0..2 * META_SEGMENTS_KEPT {
            store = store.reopen(Survives::Flushed);
            let of_the_new_life = 1;
            store.wire().fill_after(of_the_new_life);
            open(Arc::clone(&store) as Arc<dyn PageStore>, options(), &mut |_| ()).expect("nothing was logged");
        }
        assert!(store.area(AreaKind::Meta).segments().len() > META_SEGMENTS_KEPT, "it was too full to be tidied");
    }

    /// A leaf that replay has merged may come to lie where the MetaLog says that it lay, with another content.
    #[test]
    fn what_was_in_a_page_counts_no_more_once_the_leaf_had_another() {
        let store = MemStore::new(MemOptions::default());
        let tree = create(store, TreeOptions::default()).expect("an empty store");
        tree.put(b"key", b"value", Durability::Buffered).expect("room");
        let (id, _) = tree.leaf_of(b"key");
        assert_eq!(tree.flush_leaf(id).expect("room"), Flushed::Done);
        let page = tree.leaf_of(b"key").1;
        let merged = |page| ReplayedLeaf { page, merged_to: Cell::new(100), is_untouched: false };
        let mut leaves = ReplayedLeaves(vec![merged(page); tree.table.len() as usize]);
        assert!(leaves.holds(&tree, b"key", 99) && !leaves.holds(&tree, b"key", 100));
        leaves.0[id.0 as usize].page = Some(at(1 << 20));
        assert!(!leaves.holds(&tree, b"key", 99), "it has another page now");
        leaves.0[id.0 as usize].page = page;
        assert!(!leaves.holds(&tree, b"key", 99), "it has the same address again");
    }

    /// A later checkpoint that did not end has no images that count, nor does it undo what happened to a leaf.
    #[test]
    fn a_checkpoint_without_end_touches_nothing() {
        let found = |block| MetaRecord::Leaf { id: LEAF, low_key: b"a", address: Some(at(block)), image: &[] };
        assert!(told(&[found(145)]).is_untouched(LEAF));
        let moved = MetaRecord::Move { id: LEAF, address: at(145), merged_to: 0 };
        assert!(!told(&[moved, found(145)]).is_untouched(LEAF));
        assert!(!told(&[found(146)]).is_untouched(LEAF));
    }
}
