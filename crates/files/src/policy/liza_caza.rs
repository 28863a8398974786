//! Lifetime-based allocation as the CAZA paper describes it (section 3), its baseline.

use super::{Candidate, Choice, Choices, Decision, Policy, Rule};

/// The open zone with the smallest hint equal to or greater than the file's; else an empty one. The first file sets the
/// hint of its zone.
#[derive(Clone, Copy, Debug, Default)]
pub struct LizaCaza;

impl Policy for LizaCaza {
    fn name(&self) -> &'static str {
        "liza-caza"
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let fitting = choices.open.iter().filter(|view| view.lifetime >= candidate.tags.lifetime);
        fitting
            .min_by_key(|view| (view.lifetime, view.writers, view.opened))
            .map_or(Choice::New, |view| Choice::Open(view.zone))
            .by(Rule::Lifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{choose, zones};
    use super::*;
    use crate::Lifetime::{Extreme, Long, Medium};
    use crate::ZoneId;

    #[test]
    fn the_smallest_hint_that_is_at_least_the_files() {
        let open = zones(&[Extreme, Long, Medium]);
        assert_eq!(choose(&LizaCaza, Medium, &open, true), Choice::Open(ZoneId(2)));
        assert_eq!(choose(&LizaCaza, Long, &open, true), Choice::Open(ZoneId(1)));
        assert_eq!(choose(&LizaCaza, Extreme, &zones(&[Long, Medium]), true), Choice::New);
    }
}
