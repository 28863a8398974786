//! Power cuts in memory: devices that remember what was flushed and what was not, lose power at any operation, and come
//! back in any state that invariant I4 allows. The heart of the crash tests.
mod block;
mod journal;
mod label;
mod plan;
mod supply;
mod zoned;

pub use block::PowerCutBlock;
pub use journal::CrashModel;
pub use label::{CutLabel, cut_label, cut_label_unless_named};
pub use plan::{CutAt, CutReport};
pub use zoned::PowerCut;

use zonda_rt::Rng;

/// How much of the unflushed work survives one cut: extremes are drawn often, because bugs sit there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Survival {
    Nothing,
    Everything,
    Mixed,
}

impl Survival {
    /// Draws one number.
    fn draw(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::Nothing,
            1 => Self::Everything,
            _ => Self::Mixed,
        }
    }
}
