//! Lifetime-based allocation as `ZenFS`, the zone file system of `RocksDB`, does it.

use super::{Candidate, Choice, Choices, Decision, OpenZoneView, Policy, Rule};

/// The open zone with the least strictly greater lifetime is best. One of equal lifetime is taken only when no token is
/// left; an empty zone comes before it. Out of tokens and without either, the fullest zone is finished.
#[derive(Clone, Copy, Debug, Default)]
pub struct LizaZenfs;

impl Policy for LizaZenfs {
    fn name(&self) -> &'static str {
        "liza-zenfs"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let order = |view: &&OpenZoneView| (view.lifetime, view.writers, view.opened);
        let greater = choices.open.iter().filter(|view| view.lifetime > candidate.tags.lifetime).min_by_key(order);
        if let Some(view) = greater {
            return Choice::Open(view.zone).by(Rule::Lifetime);
        }
        if choices.may_open {
            return Choice::New.by(Rule::Lifetime);
        }
        let equal = choices.open.iter().filter(|view| view.lifetime == candidate.tags.lifetime).min_by_key(order);
        equal.map_or_else(|| finish_fullest(choices), |view| Choice::Open(view.zone)).by(Rule::Lifetime)
    }
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
    use crate::Lifetime::{Extreme, Long, Medium, Short};
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
