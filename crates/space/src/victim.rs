//! Which zone to clean: a pure function over a view of the zones.

use crate::{ZoneUse, ZoneView};

/// How a victim is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// The fewest live bytes.
    #[default]
    Greedy,
    /// The most freed bytes times age per byte moved (LFS, Rosenblum and Ousterhout 1992, 3.6): `(1 - u) * age / (1 + u)`.
    CostBenefit,
}

/// The zone to clean, or `None` if cleaning any of them would gain nothing. Candidates are sealed zones with something
/// dead in them; a read-only zone with live bytes goes before all, because it must be rescued. Among equals the oldest
/// generation wins. Cost: one pass.
#[must_use]
pub fn choose<'a>(policy: VictimPolicy, zones: impl IntoIterator<Item = &'a ZoneView>) -> Option<&'a ZoneView> {
    let candidates = zones.into_iter().filter(|view| !view.relocating);
    candidates.filter_map(|view| rank(policy, view).map(|rank| (rank, view))).min_by(order).map(|best| best.1)
}

fn order(a: &(f64, &ZoneView), b: &(f64, &ZoneView)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.generation.cmp(&b.1.generation))
}

/// Lower is better.
fn rank(policy: VictimPolicy, view: &ZoneView) -> Option<f64> {
    match view.state {
        ZoneUse::ReadOnly => (view.live_bytes > 0).then_some(f64::NEG_INFINITY),
        ZoneUse::Sealed if view.live_bytes < view.capacity_bytes => Some(match policy {
            VictimPolicy::Greedy => live_share(view),
            VictimPolicy::CostBenefit => -benefit(view),
        }),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a zone is far below 2^53 bytes")]
fn live_share(view: &ZoneView) -> f64 {
    view.live_bytes as f64 / view.capacity_bytes as f64
}

#[expect(clippy::cast_precision_loss, reason = "an age only ranks zones")]
fn benefit(view: &ZoneView) -> f64 {
    let live = live_share(view);
    (1.0 - live) * (view.age_blocks as f64 + 1.0) / (1.0 + live)
}

#[cfg(test)]
mod tests {
    use zonda_device::ZoneId;

    use super::*;
    use crate::{StreamId, StreamSet};

    fn zone(zone: u32, live_bytes: u64, age_blocks: u64) -> ZoneView {
        ZoneView {
            zone: ZoneId(zone),
            state: ZoneUse::Sealed,
            stream: Some(StreamId(0)),
            holds: StreamSet::of(StreamId(0)),
            generation: u64::from(zone) + 1,
            written_bytes: 100,
            capacity_bytes: 100,
            live_bytes,
            age_blocks,
            relocating: false,
        }
    }

    fn chosen(policy: VictimPolicy, zones: &[ZoneView]) -> Option<u32> {
        choose(policy, zones).map(|view| view.zone.0)
    }

    #[test]
    fn greedy_takes_the_fewest_live_bytes_then_the_oldest() {
        let zones = [zone(0, 50, 9), zone(1, 20, 0), zone(2, 20, 9)];
        assert_eq!(chosen(VictimPolicy::Greedy, &zones), Some(1));
    }

    #[test]
    fn cost_benefit_prefers_old_zones_over_slightly_emptier_young_ones() {
        let zones = [zone(0, 60, 10_000), zone(1, 50, 10)];
        assert_eq!(chosen(VictimPolicy::CostBenefit, &zones), Some(0));
        assert_eq!(chosen(VictimPolicy::Greedy, &zones), Some(1));
    }

    #[test]
    fn nothing_is_chosen_where_nothing_is_gained() {
        let open = ZoneView { state: ZoneUse::Open, ..zone(1, 0, 0) };
        let moving = ZoneView { relocating: true, ..zone(2, 0, 0) };
        for policy in [VictimPolicy::Greedy, VictimPolicy::CostBenefit] {
            assert_eq!(chosen(policy, &[zone(0, 100, 5), open, moving]), None);
        }
    }

    #[test]
    fn a_read_only_zone_is_rescued_first() {
        let worn = ZoneView { state: ZoneUse::ReadOnly, ..zone(1, 100, 0) };
        assert_eq!(chosen(VictimPolicy::CostBenefit, &[zone(0, 0, 5), worn]), Some(1));
        let drained = ZoneView { live_bytes: 0, ..worn };
        assert_eq!(chosen(VictimPolicy::Greedy, &[zone(0, 0, 5), drained]), Some(0));
    }
}
