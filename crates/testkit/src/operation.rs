//! What a client does: one step drawn at random.

use std::{ops::Bound, time::Duration};

use zonda_rt::Rng;

use crate::subject::INLINE_BYTES_MIN;
use crate::{Change, Profile, model};

/// Keys by which the end of a queue moves with each step, and the most that a step puts or deletes there: of five steps one does, and half
/// of these delete, so that nearly all is put and deleted in its turn.
const PASSED_A_STEP: u64 = 60;
/// See [`PASSED_A_STEP`].
const PASSED_MAX: u64 = 800;

/// Of a thousand steps, how many write.
const WRITES: u64 = 550;

/// Keys that are got at once where nobody writes: so many that a turn of the ring is earned before the background looks again.
const QUIET_KEYS_MAX: u64 = 100;

/// A range of keys, owned.
pub type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// One step of a client.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Changes one key, or several at once.
    Write {
        /// The changes.
        changes: Vec<Change>,
        /// Whether to wait until they are durable.
        synced: bool,
    },
    /// Replaces a value if it is the one that the model has (`matching`), or another.
    Replace {
        /// Key.
        key: Vec<u8>,
        /// Whether the expectation is right.
        matching: bool,
        /// The value to put.
        value: Vec<u8>,
        /// Whether to wait until it is durable.
        synced: bool,
    },
    /// Reads one key.
    Get(Vec<u8>),
    /// Reads several keys.
    GetMany(Vec<Vec<u8>>),
    /// Walks a range of now.
    Scan(Span),
    /// Takes a snapshot and keeps it.
    Hold,
    /// Walks a range of a snapshot that is kept.
    Look(Span),
    /// Lets the oldest snapshot go.
    Release,
    /// Makes everything durable.
    Sync,
    /// Takes a checkpoint.
    Checkpoint,
    /// Tidies up.
    Compact,
    /// Lets time pass.
    Pause(Duration),
}

impl Operation {
    /// Draws a step; `number` makes values unique.
    pub fn draw(rng: &mut Rng, profile: &Profile, number: u64) -> Self {
        let is_quiet = profile.is_quiet(number);
        let drawn = if is_quiet { WRITES + rng.below(1_000 - WRITES) } else { rng.below(1_000) };
        match drawn {
            0..320 => Self::write(rng, profile, number, 1),
            320..500 => Self::write_several(rng, profile, number),
            500..WRITES => Self::replace(rng, profile, number),
            WRITES..720 => Self::Get(profile.hot_key(rng)),
            720..770 => Self::get_many(rng, profile, is_quiet),
            770..840 => Self::Scan(profile.range(rng)),
            840..865 => Self::Hold,
            865..900 => Self::Look(profile.range(rng)),
            900..920 => Self::Release,
            920..950 => Self::Sync,
            950..958 => Self::Checkpoint,
            958..961 => Self::Compact,
            _ => Self::Pause(Duration::from_micros(rng.below(3_000))),
        }
    }

    fn write(rng: &mut Rng, profile: &Profile, number: u64, changes: u64) -> Self {
        let changes = (0..changes).map(|nth| change(rng, profile, number << 8 | nth));
        let changes = within(profile.batch_bytes_max, changes);
        Self::Write { changes, synced: rng.below(64) < profile.synced }
    }

    /// A batch. Deletes of neighbours are what empties leaves.
    fn write_several(rng: &mut Rng, profile: &Profile, number: u64) -> Self {
        if profile.passes {
            return Self::pass(rng, profile, number);
        }
        if rng.below(4) < profile.deletes {
            let first = rng.below(profile.key_count);
            let end = (first + 2 + rng.below(60)).min(profile.key_count);
            let changes = (first..end).map(|number| Change::Delete { key: profile.key(number) });
            let changes = within(profile.batch_bytes_max, changes);
            return Self::Write { changes, synced: rng.below(64) < profile.synced };
        }
        let most = if rng.below(16) < profile.bulk { 200 } else { 6 };
        let changes = 2 + rng.below(most);
        Self::write(rng, profile, number, changes)
    }

    /// Puts some keys where the queue ends, or deletes some half of all keys away from there.
    fn pass(rng: &mut Rng, profile: &Profile, number: u64) -> Self {
        let end = number * PASSED_A_STEP;
        let first = if rng.chance(0.5) { end } else { end + profile.key_count / 2 };
        let changes = (0..1 + rng.below(PASSED_MAX)).map(|nth| {
            let key = profile.key((first + nth) % profile.key_count);
            match first == end {
                true => Change::Put { key, value: profile.value(1 << 48 | number << 10 | nth, rng) },
                false => Change::Delete { key },
            }
        });
        let changes = within(profile.batch_bytes_max, changes.collect::<Vec<_>>().into_iter());
        Self::Write { changes, synced: rng.below(64) < profile.synced }
    }

    fn replace(rng: &mut Rng, profile: &Profile, number: u64) -> Self {
        Self::Replace {
            key: profile.hot_key(rng),
            matching: rng.chance(0.75),
            value: profile.value(number << 8, rng),
            synced: rng.below(64) < profile.synced,
        }
    }

    fn get_many(rng: &mut Rng, profile: &Profile, is_quiet: bool) -> Self {
        let count = 1 + rng.below(if is_quiet { QUIET_KEYS_MAX } else { 12 });
        Self::GetMany((0..count).map(|_| profile.hot_key(rng)).collect())
    }
}

/// As many changes as fit; at least one.
fn within(bytes_max: u64, changes: impl Iterator<Item = Change>) -> Vec<Change> {
    let mut bytes = 0;
    let fits = |change: &Change| {
        let first = bytes == 0;
        bytes += model::pair_bytes_max(change.key(), change.value().unwrap_or_default(), INLINE_BYTES_MIN);
        first || bytes <= bytes_max
    };
    changes.take_while(fits).collect()
}

fn change(rng: &mut Rng, profile: &Profile, number: u64) -> Change {
    let key = profile.hot_key(rng);
    if rng.below(4) < profile.deletes {
        return Change::Delete { key };
    }
    Change::Put { key, value: profile.value(number, rng) }
}

/// The bounds as slices.
#[must_use]
pub fn borrowed(span: &Span) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (as_slice(&span.0), as_slice(&span.1))
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}
