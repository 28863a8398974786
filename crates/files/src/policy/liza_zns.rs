//! Lifetime-based allocation as the ZNS paper describes it (section 4.2).

use super::{Candidate, Choice, Choices, Decision, Policy, Rule};

/// A file goes into an open zone only if its expected lifetime is strictly shorter than that of the zone's oldest data, so
/// that it never outlives what is there; the nearest such zone is best. Else into an empty zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LizaZns;

impl Policy for LizaZns {
    fn name(&self) -> &'static str {
        "liza-zns"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let longer = choices.open.iter().filter(|view| candidate.tags.lifetime < view.lifetime);
        longer
            .min_by_key(|view| (view.lifetime, view.writers, view.opened))
            .map_or(Choice::New, |view| Choice::Open(view.zone))
            .by(Rule::Lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, zones};
    use super::*;
    use crate::Lifetime::{Extreme, Long, Medium, Short};
    use crate::ZoneId;

    #[test]
    fn only_zones_of_strictly_longer_lifetime_are_joined() {
        let open = zones(&[Short, Medium, Extreme, Long]);
        assert_eq!(choose(&LizaZns, Medium, &open, true), Choice::Open(ZoneId(3)));
        assert_eq!(choose(&LizaZns, Short, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&LizaZns, Extreme, &open, true), Choice::New, "an equal lifetime is not longer");
        assert_eq!(choose(&LizaZns, Extreme, &open, false), Choice::New);
    }
}
