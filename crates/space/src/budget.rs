//! Who may hold how many zones open: a pure function of the device's limit and the streams.
//!
//! A device keeps only so many zones active (14 on a ZN540). The budget divides these tokens once, when a store is
//! opened, so that no stream ever waits for a token that another holds: a rolling log or a relocation can always
//! open its next zone (I2). Where tokens are short, streams of near lifetimes share zones. For the streams of a tree
//! (log, meta and the data streams hot, values, cold, relocated, in ascending lifetime), with up to 16 hot writers:
//!
//! | active | log | meta | hot | values | cold | relocated |
//! |-------:|:---:|:----:|:---:|:------:|:----:|:---------:|
//! | 14     | 1   | 2    | 8   | 1      | 1    | 1         |
//! | 8      | 1   | 2    | 2   | 1      | 1    | 1         |
//! | 6      | 1   | 2    | 1   | 1      | 1 (shared) | with cold |
//! | 5      | 1   | 2    | 1   | 1 (shared) | with values | with values |
//! | 4      | 1   | 2    | 1 (shared) | with hot | with hot | with hot |
//!
//! Below 4 a tree's store is refused with numbers. A unit test keeps this table true.

use crate::stream::{STREAM_ID_MAX, StreamId, StreamSet, StreamSpec};
use crate::{Result, SpaceError};

/// One share of the tokens: the streams that use it and the zones they may hold open together. A client keeps its
/// writers by share, not by stream: streams that share write through the same [`ZoneWriter`](crate::ZoneWriter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The stream after which zones of this share are named: the shortest-lived of its streams.
    pub stream: StreamId,
    /// All streams of the share.
    pub streams: StreamSet,
    /// Zones that they may hold open together.
    pub zones: u32,
    zones_min: u32,
    zones_max: u32,
    may_share: bool,
    lifetime_min: u8,
    lifetime_max: u8,
}

/// How the active tokens are divided. Always: the zones of all shares together are at most `active_max`, every share
/// has at least its minimum, and every stream is in exactly one share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    shares: Vec<Share>,
}

impl Budget {
    /// Divides `active_max` tokens among `streams`. Costs nothing worth naming: at most 32 streams.
    ///
    /// # Errors
    /// `BadOption` for no streams, a number that is too high or used twice, or a minimum of 0 or above the maximum;
    /// `TooFewActive` if even with every sharing stream in one zone the tokens do not suffice.
    pub fn plan(active_max: u32, streams: &[StreamSpec]) -> Result<Self> {
        check(streams)?;
        let mut shares: Vec<Share> = streams.iter().map(Share::alone).collect();
        shares.sort_by_key(|share| (share.lifetime_min, share.stream));
        while needed(&shares) > active_max {
            let Some(longer) = nearest(&shares) else {
                return Err(SpaceError::TooFewActive { active_max, needed: needed(&shares) });
            };
            merge(&mut shares, longer);
        }
        let left = active_max - needed(&shares);
        deal(&mut shares, left);
        Ok(Self { shares })
    }

    /// The shares, shortest lifetime first.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The share of a stream, or `None` for a stream that the budget does not know.
    #[must_use]
    pub fn share_of(&self, stream: StreamId) -> Option<&Share> {
        self.shares.iter().find(|share| share.streams.contains(stream))
    }

    /// Zones that may be open in all.
    #[must_use]
    pub fn zones(&self) -> u32 {
        self.shares.iter().map(|share| share.zones).sum()
    }
}

impl Share {
    fn alone(spec: &StreamSpec) -> Self {
        Self {
            stream: spec.id,
            streams: StreamSet::of(spec.id),
            zones: spec.zones_min,
            zones_min: spec.zones_min,
            zones_max: spec.zones_max,
            may_share: spec.may_share,
            lifetime_min: spec.lifetime,
            lifetime_max: spec.lifetime,
        }
    }

    /// Takes in the streams of a longer-lived share; one of the two minima is given up.
    fn absorb(&mut self, longer: &Self) {
        self.streams = self.streams.union(longer.streams);
        self.zones_min = self.zones_min.max(longer.zones_min);
        self.zones = self.zones_min;
        self.zones_max = self.zones_max.saturating_add(longer.zones_max);
        self.lifetime_max = longer.lifetime_max;
    }
}

fn check(streams: &[StreamSpec]) -> Result<()> {
    let bad = |option, value: u64, rule| Err(SpaceError::BadOption { option, value, rule });
    if streams.is_empty() {
        return bad("the number of streams", 0, "at least one is needed");
    }
    let mut seen = StreamSet::default();
    for spec in streams {
        let id = u64::from(spec.id.0);
        if spec.id.0 > STREAM_ID_MAX {
            return bad("a stream number", id, "the highest is 31");
        }
        if seen.contains(spec.id) {
            return bad("a stream number", id, "it is used twice");
        }
        if spec.zones_min == 0 || spec.zones_min > spec.zones_max {
            return bad("a stream's zones_min", spec.zones_min.into(), "it is 1 to zones_max");
        }
        seen = seen.union(StreamSet::of(spec.id));
    }
    Ok(())
}

fn needed(shares: &[Share]) -> u32 {
    shares.iter().fold(0, |sum: u32, share| sum.saturating_add(share.zones_min))
}

/// The pair of neighbouring sharing shares with the smallest distance in lifetime, as (shorter, longer) indexes. Among
/// equals the longest-lived pair: data that is rewritten soon profits most from zones of its own.
fn nearest(shares: &[Share]) -> Option<(usize, usize)> {
    let sharing: Vec<usize> = (0..shares.len()).filter(|&i| shares[i].may_share).collect();
    let distance = |pair: &(usize, usize)| shares[pair.1].lifetime_min.saturating_sub(shares[pair.0].lifetime_max);
    sharing.windows(2).map(|pair| (pair[0], pair[1])).rev().min_by_key(distance)
}

fn merge(shares: &mut Vec<Share>, (shorter, longer): (usize, usize)) {
    let absorbed = shares.remove(longer);
    shares[shorter].absorb(&absorbed);
}

/// Deals the tokens that are left one by one to the share with the fewest zones for its wish, the shortest-lived first.
fn deal(shares: &mut [Share], mut left: u32) {
    while left > 0 {
        let wishing = shares.iter_mut().filter(|share| share.zones < share.zones_max);
        let Some(next) = wishing.min_by_key(|share| share.zones - share.zones_min) else {
            return;
        };
        next.zones += 1;
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: StreamId = StreamId(0);
    const META: StreamId = StreamId(1);
    const HOT: StreamId = StreamId(2);
    const VALUES: StreamId = StreamId(3);
    const COLD: StreamId = StreamId(4);
    const RELOCATED: StreamId = StreamId(5);

    /// What the page store asks for (`stream::specs` of the crate `zonda-pages`), with `longer_max` 1.
    fn tree(hot_max: u32, longer_max: u32) -> Vec<StreamSpec> {
        vec![
            StreamSpec::new(LOG, "log", 0).alone(),
            StreamSpec::new(META, "meta", 1).zones(2, 2).alone(),
            StreamSpec::new(HOT, "hot", 2).zones(1, hot_max),
            StreamSpec::new(VALUES, "values", 4),
            StreamSpec::new(COLD, "cold", 5).zones(1, longer_max),
            StreamSpec::new(RELOCATED, "relocated", 6).zones(1, longer_max),
        ]
    }

    /// (named after, zones, streams) of every share.
    fn table(active_max: u32, specs: &[StreamSpec]) -> Vec<(u8, u32, Vec<u8>)> {
        let budget = Budget::plan(active_max, specs).unwrap();
        let streams = |share: &Share| share.streams.iter().map(|stream| stream.0).collect();
        budget.shares().iter().map(|share| (share.stream.0, share.zones, streams(share))).collect()
    }

    fn alone(zones: [u32; 6]) -> Vec<(u8, u32, Vec<u8>)> {
        (0..6u8).map(|stream| (stream, zones[usize::from(stream)], vec![stream])).collect()
    }

    #[test]
    fn the_table_of_the_module_is_true() {
        let table = |active_max| table(active_max, &tree(16, 1));
        assert_eq!(table(30), alone([1, 2, 16, 1, 1, 1]));
        assert_eq!(table(14), alone([1, 2, 8, 1, 1, 1]));
        assert_eq!(table(8), alone([1, 2, 2, 1, 1, 1]));
        assert_eq!(table(7), alone([1, 2, 1, 1, 1, 1]));
        let log_and_meta = [(0, 1, vec![0]), (1, 2, vec![1])];
        let with_data = |data: &[(u8, u32, Vec<u8>)]| [&log_and_meta[..], data].concat();
        assert_eq!(table(6), with_data(&[(2, 1, vec![2]), (3, 1, vec![3]), (4, 1, vec![4, 5])]));
        assert_eq!(table(5), with_data(&[(2, 1, vec![2]), (3, 1, vec![3, 4, 5])]));
        assert_eq!(table(4), with_data(&[(2, 1, vec![2, 3, 4, 5])]));
    }

    #[test]
    fn what_is_left_goes_to_the_shortest_lived_that_have_least_first() {
        let shares =
            [(14, [1, 2, 4, 1, 2, 2]), (12, [1, 2, 4, 1, 2, 2]), (10, [1, 2, 2, 1, 2, 2]), (8, [1, 2, 2, 1, 1, 1])];
        for (active_max, zones) in shares {
            assert_eq!(table(active_max, &tree(4, 2)), alone(zones), "{active_max}");
        }
    }

    #[test]
    fn below_four_is_refused_with_numbers() {
        for active in 0..4 {
            let error = Budget::plan(active, &tree(16, 1)).unwrap_err();
            assert!(matches!(error, SpaceError::TooFewActive { active_max, needed: 4 } if active_max == active));
        }
    }

    #[test]
    fn bad_specs_are_refused() {
        let twice = vec![StreamSpec::new(LOG, "a", 0), StreamSpec::new(LOG, "b", 0)];
        let none_at_all = vec![StreamSpec::new(LOG, "a", 0).zones(0, 1)];
        let inverted = vec![StreamSpec::new(LOG, "a", 0).zones(2, 1)];
        let too_high = vec![StreamSpec::new(StreamId(32), "a", 0)];
        for specs in [twice, none_at_all, inverted, too_high, Vec::new()] {
            assert!(matches!(Budget::plan(14, &specs), Err(SpaceError::BadOption { .. })), "{specs:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn shares_keep_to_the_limit_and_cover_every_stream(
            active_max in 0u32..40,
            specs in proptest::collection::vec((0u8..8, 1u32..4, 0u32..4, proptest::bool::ANY), 1..10),
        ) {
            let specs: Vec<StreamSpec> = specs.iter().zip(0u8..).map(|(&(lifetime, min, more, may_share), id)| {
                let spec = StreamSpec::new(StreamId(id), "s", lifetime).zones(min, min + more);
                if may_share { spec } else { spec.alone() }
            }).collect();
            if let Ok(budget) = Budget::plan(active_max, &specs) {
                assert!(budget.zones() <= active_max);
                for spec in &specs {
                    let share = budget.share_of(spec.id).unwrap();
                    assert!(share.zones >= spec.zones_min);
                    assert!(spec.may_share || share.streams == StreamSet::of(spec.id));
                }
            }
        }
    }
}
