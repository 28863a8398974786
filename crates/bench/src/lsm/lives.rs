//! How long tables live, by the level that they were written for.
//!
//! A simulated tree has no clock: a life is counted in the bytes that users wrote meanwhile, which is what its logs got.

use std::collections::HashMap;

use zonda_files::trace::{TraceEvent, TraceRecord};
use zonda_files::{FileId, FileKind};

/// Lives of the tables of one level that died after the mark, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    /// User bytes written during each.
    pub lived: Vec<u64>,
    /// Tables of it that are still there.
    pub alive: u64,
}

impl Lives {
    /// The life that this share of them does not exceed, 0 to 1; `None` if none died.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank below their number"
        )]
        let rank = (share.clamp(0.0, 1.0) * self.lived.len().saturating_sub(1) as f64).round() as usize;
        self.lived.get(rank).copied()
    }
}

/// By level of creation, from 0 on. What died before the mark of that name does not count.
#[must_use]
pub fn lives(trace: &[TraceRecord], mark: &str) -> Vec<Lives> {
    let (mut clock, mut is_counted) = (0_u64, false);
    let (mut born, mut names, mut logs) = (HashMap::new(), HashMap::new(), HashMap::<FileId, ()>::new());
    let mut levels: Vec<Lives> = Vec::new();
    for record in trace {
        match &record.event {
            TraceEvent::Mark { name } => is_counted |= name == mark,
            TraceEvent::Create { file, tags, path } => {
                names.insert(path.clone(), *file);
                match (tags.kind, tags.level) {
                    (FileKind::Log, _) => drop(logs.insert(*file, ())),
                    (FileKind::Flushed | FileKind::Data, Some(level)) => {
                        born.insert(*file, (clock, usize::from(level)));
                    }
                    _ => {}
                }
            }
            TraceEvent::Append { file, bytes } if logs.contains_key(file) => clock = clock.saturating_add(*bytes),
            TraceEvent::Unlink { path } => {
                let gone = names.remove(path).and_then(|file| born.remove(&file));
                if let Some((at, level)) = gone
                    && is_counted
                {
                    level_of(&mut levels, level).lived.push(clock - at);
                }
            }
            _ => {}
        }
    }
    born.values().for_each(|(_, level)| level_of(&mut levels, *level).alive += 1);
    levels.iter_mut().for_each(|level| level.lived.sort_unstable());
    levels
}

fn level_of(levels: &mut Vec<Lives>, level: usize) -> &mut Lives {
    if levels.len() <= level {
        levels.resize(level + 1, Lives::default());
    }
    &mut levels[level]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsm::{LOADED, LsmWorkload, trace};

    #[test]
    fn deeper_tables_live_longer() {
        let levels = lives(&trace(LsmWorkload::of_the_caza_paper(1000, 1)), LOADED);
        let medians: Vec<u64> = levels.iter().filter_map(|level| level.quantile(0.5)).collect();
        assert!(medians.len() >= 4 && medians.windows(2).all(|pair| pair[0] <= pair[1]), "{medians:?}");
        let all = levels.iter().map(|level| level.alive + level.lived.len() as u64).sum::<u64>();
        assert!(all > 1000, "{all} tables");
    }
}
