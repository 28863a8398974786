//! What a writer says of its file: the input of every placement policy.

/// Expected lifetime of a file's data, as RocksDB's write lifetime hints. The numbers stand on disk: never renumber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lifetime {
    /// Nobody said.
    #[default]
    NotSet = 0,
    /// It has no expected lifetime.
    None = 1,
    /// Shortest: logs.
    Short = 2,
    /// Levels 0 and 1 of an LSM-tree.
    Medium = 3,
    /// Level 2.
    Long = 4,
    /// Deeper levels.
    Extreme = 5,
}

impl Lifetime {
    pub(crate) const ALL: [Self; 6] = [Self::NotSet, Self::None, Self::Short, Self::Medium, Self::Long, Self::Extreme];

    /// The word for it in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NotSet => "not set",
            Self::None => "none",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::Extreme => "extreme",
        }
    }
}

/// What a file is, which decides its stream, its share of a nearly full device and how its syncs are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// A write-ahead log: small synced appends. Its chunks carry headers, and a sync needs no record in the journal.
    Log = 0,
    /// A MANIFEST, CURRENT, OPTIONS: small, synced, few.
    Meta = 1,
    /// A table written by a flush: may draw on the reserve.
    Flushed = 2,
    /// A table written by a compaction, or anything else that is large and written once: refused first.
    Data = 3,
}

impl FileKind {
    pub(crate) const ALL: [Self; 4] = [Self::Log, Self::Meta, Self::Flushed, Self::Data];

    /// Whether its blocks are chunks that describe themselves.
    #[must_use]
    pub fn is_chunked(self) -> bool {
        matches!(self, Self::Log | Self::Meta)
    }

    /// The word for it in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Meta => "meta",
            Self::Flushed => "flushed table",
            Self::Data => "data",
        }
    }
}

/// What is known of a file when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTags {
    /// What it is.
    pub kind: FileKind,
    /// Expected lifetime; a hint may also arrive later, before the first byte is placed.
    pub lifetime: Lifetime,
    /// Level of the LSM-tree, if it is a table and the level is known.
    pub level: Option<u8>,
}

impl FileTags {
    /// Of a kind, with the lifetime that is usual for it.
    #[must_use]
    pub fn of(kind: FileKind) -> Self {
        let lifetime = match kind {
            FileKind::Log | FileKind::Meta => Lifetime::Short,
            FileKind::Flushed => Lifetime::Medium,
            FileKind::Data => Lifetime::NotSet,
        };
        Self { kind, lifetime, level: None }
    }

    /// The same with another lifetime.
    #[must_use]
    pub fn with_lifetime(self, lifetime: Lifetime) -> Self {
        Self { lifetime, ..self }
    }

    /// The same with a level.
    #[must_use]
    pub fn with_level(self, level: u8) -> Self {
        Self { level: Some(level), ..self }
    }
}
