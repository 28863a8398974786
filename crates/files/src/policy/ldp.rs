//! Placement by level or lifetime, each in zones of its own: the comparison system of the `SplitZNS` paper (section 5.1.3).

use super::{Candidate, Choice, Choices, Decision, Policy, Rule};

/// A file goes into an open zone of exactly its lifetime, or into an empty one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ldp;

impl Policy for Ldp {
    fn name(&self) -> &'static str {
        "ldp"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let equal = choices.open.iter().filter(|view| view.lifetime == candidate.tags.lifetime);
        let best = equal.min_by_key(|view| (view.writers, view.opened));
        best.map_or(Choice::New, |view| Choice::Open(view.zone)).by(Rule::Lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, zones};
    use super::*;
    use crate::Lifetime::{Extreme, Long, Medium};
    use crate::ZoneId;

    #[test]
    fn only_an_equal_lifetime_is_joined_an_idle_zone_first() {
        let mut open = zones(&[Long, Long, Medium]);
        assert_eq!(choose(&Ldp, Long, &open, true), Choice::Open(ZoneId(0)));
        open[0].writers = 1;
        assert_eq!(choose(&Ldp, Long, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&Ldp, Extreme, &open, true), Choice::New);
    }
}
