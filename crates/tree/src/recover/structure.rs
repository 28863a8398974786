//! What the MetaLog says of the tree, record by record.

use std::collections::HashMap;

use zonda_pages::{LiveValues, PageAddress, PageId};

use super::{
    FIRST_SEQUENCE, Result,
    imaged::{self, ImagedFrom},
};
use crate::{
    TreeError,
    checkpoint_extra::CheckpointExtra,
    index::LeafEntry,
    log::{Session, SessionTable},
    metalog::{self, MetaRecord, Upsert},
};

/// Leaf ids for each block of a store at the most, by which absurd ones are known.
const IDS_PER_BLOCK: u64 = 16;
/// Leaf ids beyond these: those that wait for reuse, in a store of a few blocks.
const SPARE_IDS: u64 = 1024;
/// Lives that end without a checkpoint, one after the other, as nothing was written: each leaves a block of MetaLog.
const LIVES_MAX: u32 = 64;

/// A leaf as the MetaLog tells it.
pub(super) struct Leaf {
    pub(super) low: Box<[u8]>,
    pub(super) page: Option<PageAddress>,
    /// Since the checkpoint came to it: every operation below is in the page.
    pub(super) merged_to: u64,
    /// What an image says that is older is in the page too, or was when it had another one: pages only gain. At least `merged_to`.
    pub(super) image_to: u64,
    /// The same from keys on within it, at which leaves began that are a part of it now.
    pub(super) joined: ImagedFrom,
    /// It is as the checkpoint found it. That it has the same page does not say so: its id may be another leaf's now, or its page another
    /// one at the same address.
    pub(super) is_untouched: bool,
    /// About how many bytes its page uses; 0: nothing is known.
    pub(super) used_bytes: u32,
}

impl Leaf {
    /// One that is made or has changed, of which nothing is known but its page.
    fn new(low: &[u8], page: Option<PageAddress>) -> Self {
        let joined = ImagedFrom::new();
        Self { low: low.into(), page, merged_to: 0, image_to: 0, joined, is_untouched: false, used_bytes: 0 }
    }

    /// Whatever an image says that is older than `image_to` is in its page.
    fn raise(&mut self, image_to: u64) {
        if image_to > 0 {
            self.image_to = self.image_to.max(image_to);
            self.joined.values_mut().for_each(|known| *known = (*known).max(image_to));
            let mut before = self.image_to;
            self.joined.retain(|_, known| std::mem::replace(&mut before, *known) != *known);
        }
    }

    /// See [`ImagedFrom`].
    pub(super) fn into_imaged(self) -> impl Iterator<Item = (Box<[u8]>, u64)> {
        std::iter::once((self.low, self.image_to)).chain(self.joined)
    }
}

/// What the MetaLog says of the tree, record by record.
pub(super) struct Structure {
    pub(super) leaves: HashMap<u32, Leaf>,
    pub(super) sessions: SessionTable,
    pub(super) checkpoint: u64,
    /// The end of that checkpoint was read.
    ended: bool,
    /// Lives that began since it ended, and whether anything else was recorded.
    lives: u32,
    is_followed: bool,
    pub(super) replay_from: u64,
    /// Every operation below was durable in the log: a checkpoint that had begun says so.
    pub(super) log_durable_before: u64,
    /// What the checkpoint says of the value log.
    pub(super) live_values: Vec<LiveValues>,
}

impl Structure {
    /// A tree of one leaf without records.
    pub(super) fn empty() -> Self {
        Self {
            leaves: HashMap::from([(0, Leaf::new(&[], None))]),
            sessions: SessionTable::default(),
            checkpoint: 0,
            ended: false,
            lives: 0,
            is_followed: false,
            replay_from: FIRST_SEQUENCE,
            log_durable_before: 0,
            live_values: Vec::new(),
        }
    }

    /// The checkpoint comes to a leaf: it is as the entry says, and the entry's image is newer than its page. An entry of a
    /// checkpoint without end has no image that counts, so what was merged before it still is.
    fn reach(&mut self, found: &Upsert<'_>) {
        let known = self.leaves.remove(&found.id.0).filter(|leaf| self.ended && leaf.page == found.address);
        let leaf = Leaf::new(found.low_key, found.address);
        let leaf = match known {
            Some(Leaf { merged_to, image_to, joined, is_untouched, .. }) => {
                Leaf { merged_to, image_to, joined, is_untouched, ..leaf }
            }
            None => Leaf { is_untouched: !self.ended, ..leaf },
        };
        self.leaves.insert(found.id.0, leaf);
    }

    /// What a record's `merged_to` says of images. A merge by a later life than the checkpoint's put in all that its recovery had applied
    /// to the leaf, unless some of that was above the leaf still: this is the oldest then, whatever it is.
    fn said_of_images(&self, merged_to: u64) -> u64 {
        match merged_to {
            _ if self.lives == 0 => merged_to,
            0..=FIRST_SEQUENCE => 0,
            _ => u64::MAX,
        }
    }

    /// Leaves become others, which have what was in the pages of those. Of a split the first is the one that was there before. Of a leaf
    /// that the checkpoint has not come to nothing is known.
    fn restructure(&mut self, removed: &[PageId], upserts: &[Upsert<'_>], merged_to: u64) {
        let said = self.said_of_images(merged_to);
        let first = upserts.first().map(|upsert| upsert.id);
        let are_known = removed.iter().chain(&first).all(|id| self.leaves.contains_key(&id.0));
        let before = removed.iter().chain(&first).filter_map(|id| self.leaves.remove(&id.0)).collect();
        let mut imaged = if are_known { imaged::joined(before) } else { ImagedFrom::new() };
        for &Upsert { id, low_key, address } in upserts.iter().rev() {
            let (image_to, joined) = imaged::split_off(&mut imaged, low_key);
            let mut leaf = Leaf { merged_to, image_to, joined, ..Leaf::new(low_key, address) };
            leaf.raise(said);
            self.leaves.insert(id.0, leaf);
        }
    }

    /// Whether the checkpoint has all, but for lives that wrote nothing, so few that reading of them costs no more than another one.
    pub(super) fn is_as_checkpointed(&self) -> bool {
        !self.is_followed && self.lives < LIVES_MAX
    }

    pub(super) fn apply(&mut self, record: &MetaRecord<'_>) {
        self.is_followed |= self.ended && !matches!(record, MetaRecord::Session(_));
        match record {
            MetaRecord::Begin(begin) => self.begin(begin),
            MetaRecord::Leaf { id, low_key, address, .. } => {
                self.reach(&Upsert { id: *id, low_key, address: *address });
            }
            MetaRecord::End { checkpoint } => self.ended |= *checkpoint == self.checkpoint,
            // A leaf that the checkpoint has not come to yet: its own entry follows and is newer.
            MetaRecord::Move { id, address, merged_to } => {
                let said = self.said_of_images(*merged_to);
                if let Some(leaf) = self.leaves.get_mut(&id.0) {
                    leaf.page = Some(*address);
                    leaf.is_untouched = false;
                    leaf.used_bytes = 0;
                    // 0, nothing is known: a recovery that did not end may have put older operations over what was merged before.
                    leaf.merged_to = *merged_to;
                    leaf.raise(said);
                }
            }
            MetaRecord::Restructure { removed, upserts, merged_to } => self.restructure(removed, upserts, *merged_to),
            MetaRecord::Session(session) => self.begin_session(*session),
            MetaRecord::Above { .. } => {}
            MetaRecord::Sparse { id, bytes } => {
                if let Some(leaf) = self.leaves.get_mut(&id.0) {
                    leaf.used_bytes = *bytes;
                }
            }
        }
    }

    /// A life begins: numbers from its first on are drawn anew, so what an earlier life said of them is void. Not of images: these are of
    /// before.
    fn begin_session(&mut self, session: Session) {
        self.lives += u32::from(self.ended);
        self.sessions.insert(session);
        self.leaves.values_mut().for_each(|leaf| leaf.merged_to = leaf.merged_to.min(session.first_sequence));
    }

    /// The first `Begin` is that of the checkpoint to start from; one after it has no `End` and changes nothing.
    fn begin(&mut self, begin: &metalog::Begin<'_>) {
        self.sessions.insert(begin.session);
        if self.checkpoint == 0 {
            self.leaves.clear();
            self.replay_from = begin.replay_from;
        }
        self.checkpoint = self.checkpoint.max(begin.checkpoint);
    }

    /// What a `Begin` says besides, which is to be applied next.
    pub(super) fn note(&mut self, extra: CheckpointExtra, replay_from: u64) {
        if extra.log_is_durable {
            self.log_durable_before = self.log_durable_before.max(replay_from);
        }
        if self.checkpoint == 0 {
            self.live_values = extra.live_values;
        }
    }

    pub(super) fn entries(&self) -> Vec<LeafEntry> {
        let mut entries: Vec<LeafEntry> =
            self.leaves.iter().map(|(&id, leaf)| (leaf.low.to_vec(), PageId(id))).collect();
        entries.sort_unstable();
        entries
    }

    /// Ids are reused, so a store never gives out many times more than it has blocks: a leaf takes one, unless it is empty. Those leave the
    /// tree, but the last one.
    pub(super) fn check_ids(&self, blocks: u64) -> Result<()> {
        let greatest = self.leaves.keys().max().copied().unwrap_or(0);
        if u64::from(greatest) <= IDS_PER_BLOCK * blocks + SPARE_IDS {
            return Ok(());
        }
        let why = format!("leaf {greatest} in a store of {blocks} blocks");
        Err(TreeError::Damaged { what: "MetaLog", why })
    }

    /// The leaves cover all keys, each once.
    pub(super) fn check(&self) -> Result<()> {
        let entries = self.entries();
        let damaged = |why: &str| Err(TreeError::Damaged { what: "MetaLog", why: why.to_string() });
        match entries.first() {
            Some((low, _)) if low.is_empty() => {}
            _ => return damaged("no leaf holds the least keys"),
        }
        let twice = entries.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if twice { damaged("two leaves begin at the same key") } else { Ok(()) }
    }
}
