//! Streams: data of one expected lifetime, kept in zones of their own where the device allows.

use std::fmt;

/// The highest number a stream may have.
pub const STREAM_ID_MAX: u8 = 31;

/// What a client calls one of its streams: 0..=[`STREAM_ID_MAX`]. Written in zone headers, so a client never
/// renumbers its streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u8);

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What a client says of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// Its number.
    pub id: StreamId,
    /// Its name, for reports.
    pub name: &'static str,
    /// Rank of the expected lifetime, short to long. Where tokens are short, the sharing streams nearest in lifetime
    /// are put together, the longest-lived pair first.
    pub lifetime: u8,
    /// Zones that the stream must be able to hold open at once (at least 1; 2 for a log that rolls by writing the new
    /// zone before it gives up the old).
    pub zones_min: u32,
    /// Zones that it can make use of.
    pub zones_max: u32,
    /// Whether its data may lie in one zone with that of other sharing streams. The client must then be able to tell
    /// them apart when it reads the zone.
    pub may_share: bool,
}

impl StreamSpec {
    /// A stream with one zone that may share it.
    #[must_use]
    pub fn new(id: StreamId, name: &'static str, lifetime: u8) -> Self {
        Self { id, name, lifetime, zones_min: 1, zones_max: 1, may_share: true }
    }

    /// The same stream with `min..=max` zones.
    #[must_use]
    pub fn zones(self, min: u32, max: u32) -> Self {
        Self { zones_min: min, zones_max: max, ..self }
    }

    /// The same stream with zones that hold nothing else.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { may_share: false, ..self }
    }
}

/// A set of streams: what a zone may hold. 32 bits, bit `n` is stream `n`; the zone header stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamSet(pub(crate) u32);

impl StreamSet {
    pub(crate) const EMPTY: Self = Self(0);

    /// The set of one stream.
    ///
    /// # Panics
    /// If the number is above [`STREAM_ID_MAX`]; options with such a stream are refused before.
    #[must_use]
    pub fn of(stream: StreamId) -> Self {
        assert!(stream.0 <= STREAM_ID_MAX, "stream {stream} is above {STREAM_ID_MAX}");
        Self(1 << stream.0)
    }

    /// Both sets together.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `stream` is in the set.
    #[must_use]
    pub fn contains(self, stream: StreamId) -> bool {
        stream.0 <= STREAM_ID_MAX && self.0 >> stream.0 & 1 == 1
    }

    /// The streams, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = StreamId> {
        (0..=STREAM_ID_MAX).map(StreamId).filter(move |&stream| self.contains(stream))
    }
}
