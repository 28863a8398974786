//! Lifetime-based allocation as `ZenFS`, the zone file system of `RocksDB`, does it.

use super::{Candidate, Choice, Choices, Decision, OpenZoneView, Policy, Rule};
use crate::Lifetime;

/// The open zone with the least strictly greater lifetime is best. One of equal lifetime is taken only when no token is
/// left; an empty zone comes before it. Out of tokens and without either, the fullest zone is finished. Of a file of which
/// nobody knows how long it lives, only a zone of such files is taken, and before an empty one.
#[derive(Clone, Copy, Debug, Default)]
pub struct LizaZenfs;

impl Policy for LizaZenfs {
    fn name(&self) -> &'static str {
        "liza-zenfs"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let lifetime = candidate.tags.lifetime;
        let order = |view: &&OpenZoneView| (view.lifetime, view.writers, view.opened);
        let best_of =
            |fits: &dyn Fn(&OpenZoneView) -> bool| choices.open.iter().filter(|view| fits(view)).min_by_key(order);
        let equal = best_of(&|view| view.lifetime == lifetime);
        let best = if is_known(lifetime) { best_of(&|view| view.lifetime > lifetime) } else { equal };
        let choice = match (best, equal) {
            (Some(best), _) => Choice::Open(best.zone),
            (None, _) if choices.may_open => Choice::New,
            (None, Some(equal)) => Choice::Open(equal.zone),
            (None, None) => finish_fullest(choices),
        };
        choice.by(Rule::Lifetime)
    }
}

fn is_known(lifetime: Lifetime) -> bool {
    !matches!(lifetime, Lifetime::NotSet | Lifetime::None)
}

/// A zone that is being written cannot be finished under its writer.
fn finish_fullest(choices: &Choices<'_>) -> Choice {
    let idle = choices.open.iter().filter(|view| view.writers == 0);
    idle.min_by_key(|view| view.remaining_bytes).map_or(Choice::New, |view| Choice::FinishThenNew(view.zone))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, zones};
    use super::*;
    use crate::Lifetime::{Extreme, Long, Medium, None, NotSet, Short};
    use crate::ZoneId;

    #[test]
    fn the_nearest_greater_lifetime_wins() {
        let open = zones(&[Extreme, Long, Medium]);
        assert_eq!(choose(&LizaZenfs, Medium, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&LizaZenfs, Short, &open, false), Choice::Open(ZoneId(2)));
    }

    #[test]
    fn an_equal_lifetime_only_without_a_token() {
        let open = zones(&[Medium, Short]);
        assert_eq!(choose(&LizaZenfs, Medium, &open, true), Choice::New);
        assert_eq!(choose(&LizaZenfs, Medium, &open, false), Choice::Open(ZoneId(0)));
    }

    #[test]
    fn files_of_unknown_lifetime_share_zones_and_fill_nobody_elses() {
        let open = zones(&[Medium, NotSet, None]);
        assert_eq!(choose(&LizaZenfs, NotSet, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&LizaZenfs, None, &open, true), Choice::Open(ZoneId(2)));
        assert_eq!(choose(&LizaZenfs, NotSet, &open[..1], true), Choice::New);
        assert_eq!(choose(&LizaZenfs, NotSet, &open[..1], false), Choice::FinishThenNew(ZoneId(0)));
    }

    #[test]
    fn without_a_token_or_a_match_the_fullest_idle_zone_is_finished() {
        let mut open = zones(&[Short, Short, Short]);
        open[2].remaining_bytes = 10;
        open[1].remaining_bytes = 20;
        open[2].writers = 1;
        assert_eq!(choose(&LizaZenfs, Extreme, &open, false), Choice::FinishThenNew(ZoneId(1)));
        open.iter_mut().for_each(|view| view.writers = 1);
        assert_eq!(choose(&LizaZenfs, Extreme, &open, false), Choice::New);
    }
}
