//! The zones of [`LevelKeys`], and victims whose live bytes will last: what would soon be dead anyhow is not copied.

use zonda_space::ZoneId;

use super::{Candidate, Choices, Decision, LevelKeys, Levels, Policy, VictimView};
use crate::lsm::LsmShape;

/// How often tables die at birth, in quarters of the mean of their level.
const YOUNG_QUARTERS: u64 = 1;
/// How often the oldest die, in the same.
const OLD_QUARTERS: u64 = 6;

/// New tables go where [`LevelKeys`] has them; what cleaning moves fills one zone after the other, whatever its level: where little is
/// free, a second zone that is half empty costs more than it gains. The zone that is emptied is that with the most of `gain * gain / live *
/// sqrt(life)`, where `life` is how long its live bytes will last.
///
/// Why: a byte gained costs `live / gain` bytes copied. While tables die that cost falls by itself, in a life by `live / (gain * gain)`
/// for each byte of the zone; so the zone is to be emptied for which waiting helps least, which would be the most of `gain * gain / live *
/// life`. With the root of the life less is copied: lives are guesses. Greedy choice empties zones of all levels at the same dead
/// share; so it copies tables of level 2 that are about to be compacted, and cleans too little where waiting gains nothing.
///
/// A table's life is known from how long those of its level lived ([`LsmShape::age_and_mean_life`]); inputs of running jobs are as
/// good as dead. What is no table counts by the time since something in its zone died.
///
/// The root, the constants and the one zone were chosen on one recorded trace, `caza:1`; `docs/placement.md` has the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lasting;

impl Policy for Lasting {
    fn name(&self) -> &'static str {
        "lasting"
    }

    fn needs_keys(&self) -> bool {
        true
    }

    fn chooses_victims(&self) -> bool {
        true
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        LevelKeys.choose(candidate, choices)
    }

    fn choose_for_moved(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let may_open = choices.may_open && choices.open.is_empty();
        Levels.choose(candidate, &Choices { may_open, ..*choices })
    }

    fn victim(&self, zones: &[VictimView], shape: &LsmShape) -> Option<ZoneId> {
        let ranked = zones.iter().map(|view| (merit(view, shape), view));
        let best = ranked.max_by(|(one, view), (other, than)| {
            let older = || than.zone.generation.cmp(&view.zone.generation);
            one.total_cmp(other).then_with(older)
        });
        best.map(|(_, view)| view.zone.zone)
    }
}

/// Higher is better.
#[expect(clippy::cast_precision_loss, reason = "it only ranks zones")]
fn merit(view: &VictimView, shape: &LsmShape) -> f64 {
    let idle_bytes = view.zone.age_blocks.max(1) as f64 * 4096.0;
    let dying = |&(file, bytes): &(_, u64)| match shape.age_and_mean_life(file) {
        _ if shape.is_input(file) => bytes as f64,
        Some((age, mean)) => bytes as f64 / life_left(age, mean),
        None => bytes as f64 / idle_bytes,
    };
    let dying = view.live.iter().map(dying).sum::<f64>().max(f64::MIN_POSITIVE);
    let (gain, live) = (view.gain_bytes as f64, view.zone.live_bytes as f64);
    gain * gain / live * (live / dying).sqrt()
}

/// What a table has left of its life, in bytes of tables that are written meanwhile: old ones die more often than young ones.
#[expect(clippy::cast_precision_loss, reason = "it only ranks zones")]
fn life_left(age: u64, mean: u64) -> f64 {
    let (young, old) = (YOUNG_QUARTERS as f64 / 4.0, OLD_QUARTERS as f64 / 4.0);
    let mean = mean.max(1) as f64;
    (mean / (young + age as f64 / mean).min(old)).max(1.0)
}

#[cfg(test)]
mod tests;
