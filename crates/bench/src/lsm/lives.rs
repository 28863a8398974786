//! How long tables live, by the level that they were written for.
//!
//! A simulated tree has no clock: a life is counted in the bytes that users wrote meanwhile, which is what its logs got.

use std::collections::HashMap;

use zonda_files::trace::{TraceEvent, TraceRecord};
use zonda_files::{FileId, FileKind};

/// A table, in user bytes written since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    /// When it began to be watched: at the mark, if it was there before.
    watched_from: u64,
    /// When it died, or the trace ended.
    until: u64,
    died: bool,
}

/// Lives of the tables of one level that were there after the mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives(Vec<Life>);

impl Lives {
    /// Tables that died.
    #[must_use]
    pub fn died(&self) -> u64 {
        self.0.iter().filter(|life| life.died).count() as u64
    }

    /// Tables that are still there.
    #[must_use]
    pub fn alive(&self) -> u64 {
        self.0.len() as u64 - self.died()
    }

    /// The life, in user bytes, that this share of the tables does not exceed, 0 to 1; `None` if none died. By the estimate of Kaplan and
    /// Meier: who is still alive counts until then, who was there before the mark from his age at it on. Where more than the rest are
    /// alive, the longest life that was seen, which is less than what was asked for.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let mut begins: Vec<u64> = self.0.iter().map(|life| life.watched_from).collect();
        begins.sort_unstable();
        let mut lives = self.0.clone();
        lives.sort_unstable_by_key(|life| (life.until, !life.died));
        let mut surviving = 1.0;
        for (ended, life) in lives.iter().enumerate().filter(|(_, life)| life.died) {
            let watched = begins.partition_point(|&from| from <= life.until) - ended;
            surviving *= 1.0 - 1.0 / watched as f64;
            if surviving <= 1.0 - share {
                return Some(life.until);
            }
        }
        lives.last().filter(|_| self.died() > 0).map(|life| life.until)
    }
}

/// By level of creation, from 0 on. What died before the mark of that name is not seen.
#[must_use]
pub fn lives(trace: &[TraceRecord], mark: &str) -> Vec<Lives> {
    let (mut clock, mut mark_at) = (0_u64, None);
    let (mut born, mut names, mut logs) = (HashMap::new(), HashMap::new(), HashMap::<FileId, ()>::new());
    let mut levels: Vec<Lives> = Vec::new();
    for record in trace {
        match &record.event {
            TraceEvent::Mark { name } if name == mark => mark_at = mark_at.or(Some(clock)),
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
                if let Some((born_at, level)) = gone
                    && let Some(mark_at) = mark_at
                {
                    level_of(&mut levels, level).0.push(life(born_at, mark_at, (clock, true)));
                }
            }
            _ => {}
        }
    }
    for (born_at, level) in born.into_values() {
        let alive = life(born_at, mark_at.unwrap_or(clock), (clock, false));
        level_of(&mut levels, level).0.push(alive);
    }
    levels
}

fn life(born_at: u64, mark_at: u64, (now, died): (u64, bool)) -> Life {
    Life { watched_from: mark_at.saturating_sub(born_at), until: now - born_at, died }
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
        let all = levels.iter().map(|level| level.alive() + level.died()).sum::<u64>();
        assert!(all > 1000, "{all} tables");
    }

    #[test]
    fn who_is_alive_counts_for_as_long_as_was_seen() {
        let of = |lives: &[(u64, u64, bool)]| {
            Lives(lives.iter().map(|&(watched_from, until, died)| Life { watched_from, until, died }).collect())
        };
        let all_died = of(&[(0, 1, true), (0, 2, true), (0, 3, true), (0, 4, true)]);
        assert_eq!([0.25, 0.5, 1.0].map(|share| all_died.quantile(share)), [Some(1), Some(2), Some(4)]);
        // The survivor of 2 says nothing of those who lived longer: half of these die at 4.
        let one_left = of(&[(0, 1, true), (0, 2, false), (0, 4, true), (0, 6, false)]);
        assert_eq!([0.25, 0.6, 0.9].map(|share| one_left.quantile(share)), [Some(1), Some(4), Some(6)]);
        // Of an old one nobody knows how many of its age died before it was watched.
        let old = of(&[(5, 8, true), (0, 1, true), (0, 1, true)]);
        assert_eq!([0.5, 1.0].map(|share| old.quantile(share)), [Some(1), Some(1)]);
        assert_eq!(of(&[(0, 7, false)]).quantile(0.5), None);
    }
}
