//! Limits of keys, values and batches; tested at +-1.

/// The longest key in bytes, as the tree sees it (a facade's prefix included).
pub const KEY_BYTES_MAX: usize = 1040;

/// The longest value in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// The most bytes of keys, inline values and pointers to others that one batch may hold: it must fit one log chunk.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// What a large value counts in a batch for each of its segments: the most that its pointer takes for the first one, if blocks are below
/// 2^49 and generations below 2^42. Others take 15 bytes.
pub(crate) const SEGMENT_POINTER_BYTES_MAX: usize = 24;

/// The longest circular buffer of mini-pages in bytes.
pub const RING_BYTES_MAX: u64 = 16 << 30;

/// No sequence, checkpoint or chunk number of a sound store reaches this one: a hundred million a second take 1,400 years.
/// A larger one is damage, and refused before anything is added to it.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;
