//! Placement policies: into which open zone the next bytes of a file go. Pure functions of what they are shown.
//!
//! To add one: a file with a type that implements [`Policy`], its unit tests from the examples of its paper, and a line in
//! [`by_name`]. `docs/placement.md` shows one.

mod caza;
mod f2fs_like;
mod lasting;
mod ldp;
mod level_keys;
mod levels;
mod liza_caza;
mod liza_zenfs;
mod liza_zns;
mod splitzns;

use std::fmt::Debug;
use std::sync::Arc;

use zonda_space::{ZoneId, ZoneView};

use crate::lsm::{KeyRange, LsmShape, TreeId};
use crate::{FileError, FileId, FileTags, Lifetime, Result};

pub use caza::Caza;
pub use f2fs_like::F2fsLike;
pub use lasting::Lasting;
pub use ldp::Ldp;
pub use level_keys::LevelKeys;
pub use levels::Levels;
pub use liza_caza::LizaCaza;
pub use liza_zenfs::LizaZenfs;
pub use liza_zns::LizaZns;
pub use splitzns::{
    AfterFinish, Lacking, Refusals, SPLIT_PERCENT_MAX, SplitChoice, SplitChoices, SplitZns, SplitZoneView,
    SubzoneLevels, choose_subzone,
};

/// An open zone with room, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenZoneView {
    /// The zone.
    pub zone: ZoneId,
    /// The first file written to it; after a mount the first that was still there.
    pub first: FileId,
    /// The lifetime of that file.
    pub lifetime: Lifetime,
    /// The level that it was written for, where that was known.
    pub level: Option<u8>,
    /// Bytes that can still be written.
    pub remaining_bytes: u64,
    /// Files that are being written to it now.
    pub writers: u32,
    /// How many zones were opened before it: the smaller, the older its data.
    pub opened: u64,
}

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The file.
    pub file: FileId,
    /// What its writer said of it. Final: a policy is asked at the first append, or when the whole table is there.
    pub tags: &'a FileTags,
    /// Bytes that wait to be placed now; what may follow is unknown.
    pub bytes: u64,
    /// Which table of which tree it is, where that is known.
    pub table: Option<&'a TableKeys>,
}

/// A table on its way to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableKeys {
    /// Of which tree.
    pub tree: TreeId,
    /// For which level.
    pub level: u8,
    /// Its keys.
    pub range: KeyRange,
}

/// A zone that may be emptied, as a policy sees it.
#[derive(Clone, Debug)]
pub struct VictimView {
    /// The zone.
    pub zone: ZoneView,
    /// Bytes that emptying it gains.
    pub gain_bytes: u64,
    /// Its live bytes by file.
    pub live: Vec<(FileId, u64)>,
}

/// What is known of a table that may get a subzone.
#[derive(Clone, Copy, Debug)]
pub struct SubzoneWish<'a> {
    /// The level that it is written for.
    pub level: Option<u8>,
    /// Of which tree.
    pub tree: Option<TreeId>,
    /// Its keys.
    pub range: Option<&'a KeyRange>,
}

/// What a policy may choose from.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    /// Open zones with room; the policy is not asked when there is neither one of these nor a token.
    pub open: &'a [OpenZoneView],
    /// Whether another zone may be opened: a token is left and a zone is empty. Zones in which nothing is live were reset
    /// before the policy is asked, if none was empty.
    pub may_open: bool,
    /// The LSM-trees whose tables are in the store.
    pub shape: &'a LsmShape,
}

impl<'a> Choices<'a> {
    /// The open zone of this number.
    #[must_use]
    pub fn zone(&self, zone: ZoneId) -> Option<&'a OpenZoneView> {
        self.open.iter().find(|view| view.zone == zone)
    }
}

/// Where the bytes go. What does not fit is placed by asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Into this open zone.
    Open(ZoneId),
    /// Into an empty zone. Where none may be opened, into the open zone that suits least badly: waiting for a token
    /// while holding up a flush would be worse.
    New,
    /// This open zone is finished, and an empty one opened with its token; but a zone with more room than the finish threshold
    /// is kept, and the bytes go into the open zone that suits least badly.
    FinishThenNew(ZoneId),
}

/// The rule behind a choice: what allocations are counted by. On disk, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// By lifetime or level; CAZA's fallback 2.
    Lifetime = 0,
    /// A zone that holds tables of the next level with the same keys: CAZA 1 to 4.
    Overlap = 1,
    /// An empty zone for keys that the next level does not have: ZC 1.
    NewKeys = 2,
    /// An empty zone, because those that hold overlapping tables are full: ZC 2.
    NoRoom = 3,
    /// A zone that holds a table of the same level with near keys: fallback 1.
    NearKeys = 4,
    /// By the time at which files will die: the oracle of replays.
    Death = 5,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Lifetime, Self::Overlap, Self::NewKeys, Self::NoRoom, Self::NearKeys, Self::Death];

    /// The word for it in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lifetime => "lifetime",
            Self::Overlap => "overlap",
            Self::NewKeys => "new-keys",
            Self::NoRoom => "no-room",
            Self::NearKeys => "near-keys",
            Self::Death => "death",
        }
    }
}

/// A choice and its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Where the bytes go.
    pub choice: Choice,
    /// Why.
    pub rule: Rule,
}

impl Choice {
    /// The choice with its reason.
    #[must_use]
    pub fn by(self, rule: Rule) -> Decision {
        Decision { choice: self, rule }
    }
}

/// A placement policy. Its functions are pure: the same input gives the same choice.
pub trait Policy: Send + Sync + Debug {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Whether it looks at the keys of tables. Their bytes then stay in memory until their keys are known, which is at their
    /// first sync; those of other policies are written as they come.
    fn needs_keys(&self) -> bool {
        false
    }

    /// The most zones, in percent of all, that it wants split on a device that splits zones; `None`: it uses no subzones.
    fn split_percent_max(&self) -> Option<u32> {
        None
    }

    /// Whether a table should have a subzone of its own. Asked once, before its first byte is placed; if none can be had the
    /// table is placed as any file.
    fn wants_subzone(&self, _wish: &SubzoneWish<'_>, _shape: &LsmShape) -> bool {
        false
    }

    /// Whether a table that should have a subzone is worth some cleaning to get one, before it is placed as any file and whenever it is
    /// moved.
    fn insists_on_subzones(&self) -> bool {
        false
    }

    /// Whether cleaning in the background counts as free what is [doomed](LsmShape::doomed), as long as a compaction finds a zone: what
    /// will soon be dead is not copied to make room that will soon be there.
    fn waits_for_doomed(&self) -> bool {
        false
    }

    /// Whether it knows what to do with an LSM-tree whose levels move down as it grows, so that numbers of levels mean nothing.
    fn suits_moving_levels(&self) -> bool {
        true
    }

    /// Whether it chooses the zones that are emptied, instead of the victim rule of the options. A store then goes through its files
    /// for every zone that it empties.
    fn chooses_victims(&self) -> bool {
        false
    }

    /// Chooses the zone to be emptied, of those from which something is gained and that nobody writes to. Read-only zones are
    /// emptied before it is asked.
    fn victim(&self, _zones: &[VictimView], _shape: &LsmShape) -> Option<ZoneId> {
        None
    }

    /// Chooses a zone for bytes that cleaning moves, of the zones that are open for these: by default as for new bytes.
    fn choose_for_moved(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        self.choose(candidate, choices)
    }

    /// Chooses a zone for new bytes of a file.
    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision;
}

/// The names of all policies.
pub const NAMES: [&str; 11] = [
    "liza-zns",
    "liza-zenfs",
    "liza-caza",
    "ldp",
    "f2fs-like",
    "levels",
    "level-keys",
    "lasting",
    "caza",
    "splitzns",
    "splitzns+",
];

/// The policy called `name`. Those of subzones may have options behind commas: `splitzns,from=4,share=60`, or `from-bottom=2` instead
/// of `from`; see [`SplitZns`].
///
/// # Errors
/// `UnknownPolicy`, `BadOption`.
pub fn by_name(name: &str) -> Result<Arc<dyn Policy>> {
    match name {
        "liza-zns" => Ok(Arc::new(LizaZns)),
        "liza-zenfs" => Ok(Arc::new(LizaZenfs)),
        "f2fs-like" => Ok(Arc::new(F2fsLike)),
        "liza-caza" => Ok(Arc::new(LizaCaza)),
        "ldp" => Ok(Arc::new(Ldp)),
        "levels" => Ok(Arc::new(Levels)),
        "level-keys" => Ok(Arc::new(LevelKeys)),
        "lasting" => Ok(Arc::new(Lasting)),
        "caza" => Ok(Arc::new(Caza)),
        split if split.starts_with("splitzns") => Ok(Arc::new(split.parse::<SplitZns>()?)),
        other => Err(FileError::UnknownPolicy { name: other.to_string(), known: NAMES.join(", ") }),
    }
}

/// Refuses a policy that counts levels for an LSM-tree whose levels move.
///
/// # Errors
/// `MovingLevels`.
pub fn check_levels(policy: &dyn Policy, levels_move: bool) -> Result<()> {
    match levels_move && !policy.suits_moving_levels() {
        true => Err(FileError::MovingLevels { policy: policy.name() }),
        false => Ok(()),
    }
}

/// The open zone whose lifetime is nearest, idle ones first: where [`Choice::New`] cannot be had.
pub(crate) fn least_bad(tags: &FileTags, open: &[OpenZoneView]) -> Option<ZoneId> {
    let distance = |view: &&OpenZoneView| {
        let far = (view.lifetime as u8).abs_diff(tags.lifetime as u8);
        (far, view.writers, view.opened)
    };
    open.iter().min_by_key(distance).map(|view| view.zone)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::FileKind;

    /// Open zones numbered from 0, with these lifetimes, oldest first.
    pub(crate) fn zones(lifetimes: &[Lifetime]) -> Vec<OpenZoneView> {
        let view = |(zone, &lifetime): (u32, &Lifetime)| OpenZoneView {
            zone: ZoneId(zone),
            first: FileId(0),
            lifetime,
            level: None,
            remaining_bytes: 1 << 20,
            writers: 0,
            opened: zone.into(),
        };
        (0..).zip(lifetimes).map(view).collect()
    }

    /// What `policy` chooses for a file of `lifetime`.
    pub(crate) fn choose(policy: &dyn Policy, lifetime: Lifetime, open: &[OpenZoneView], may_open: bool) -> Choice {
        let tags = FileTags::of(FileKind::Data).with_lifetime(lifetime);
        let candidate = Candidate { file: FileId(1), tags: &tags, bytes: 1, table: None };
        policy.choose(&candidate, &Choices { open, may_open, shape: &LsmShape::default() }).choice
    }
}
