//! A model of how f2fs places data on zones, where a section is a zone: one log for each temperature (section 5.2 of the ZNS
//! paper compares with it). It is not f2fs, and shares no code with it.

use super::{Candidate, Choice, Choices, Decision, OpenZoneView, Policy, Rule};
use crate::Lifetime;

/// Hot, warm and cold data, by the expected lifetime: each fills one zone after the other. (The logs of nodes of f2fs are this
/// store's journal and meta zones, which no policy places.)
#[derive(Clone, Copy, Debug, Default)]
pub struct F2fsLike;

/// What f2fs takes RocksDB's hints for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Temperature {
    Hot,
    Warm,
    Cold,
}

fn temperature(lifetime: Lifetime) -> Temperature {
    match lifetime {
        Lifetime::Short => Temperature::Hot,
        Lifetime::NotSet | Lifetime::None | Lifetime::Medium | Lifetime::Long => Temperature::Warm,
        Lifetime::Extreme => Temperature::Cold,
    }
}

impl Policy for F2fsLike {
    fn name(&self) -> &'static str {
        "f2fs-like"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let wanted = temperature(candidate.tags.lifetime);
        let is_of_log = |view: &&OpenZoneView| temperature(view.lifetime) == wanted;
        let log = choices.open.iter().filter(is_of_log).max_by_key(|view| view.opened);
        log.map_or(Choice::New, |view| Choice::Open(view.zone)).by(Rule::Lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, zones};
    use super::*;
    use crate::Lifetime::{Extreme, Long, Medium, Short};
    use crate::ZoneId;

    #[test]
    fn a_temperature_has_one_log() {
        let open = zones(&[Medium, Extreme]);
        assert_eq!(choose(&F2fsLike, Long, &open, true), Choice::Open(ZoneId(0)), "both are warm");
        assert_eq!(choose(&F2fsLike, Extreme, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&F2fsLike, Short, &open, true), Choice::New);
    }

    #[test]
    fn a_log_goes_on_in_the_zone_it_opened_last_whoever_writes_there() {
        let mut open = zones(&[Long, Medium]);
        open[1].writers = 3;
        assert_eq!(choose(&F2fsLike, Medium, &open, true), Choice::Open(ZoneId(1)));
    }
}
