//! Zones that writers need at once, for values of more than one: reclaim goes on until there are as many.

use zonda_rt::atomic::{AtomicU32, Ordering};
use zonda_rt::{Mutex, thread_ordinal};

use crate::reserve::FOREGROUND_FLOOR;

/// Who needs how many zones (or segments, in place). Always: `most` is the greatest of all numbers, 0 if nobody needs any.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Threads and their numbers.
    by_thread: Mutex<Vec<(usize, u32)>>,
    most: AtomicU32,
}

impl Wanted {
    /// Spare zones at which reclaim goes on for them. One load.
    pub(crate) fn low_water(&self) -> u32 {
        FOREGROUND_FLOOR + self.most.load(Ordering::Relaxed)
    }

    /// The current thread needs `pages` pages in zones of `pages_per_zone`, or 0 if it needs no more, and `spare` zones are there. Returns
    /// whether they are enough; one always is, as reclaim keeps that free for everybody.
    pub(crate) fn press(&self, pages: u32, pages_per_zone: u64, spare: u32) -> bool {
        let zones = u32::try_from(u64::from(pages).div_ceil(pages_per_zone.max(1))).unwrap_or(u32::MAX / 2);
        if zones == 1 {
            return true;
        }
        let are_there = spare > FOREGROUND_FLOOR + zones;
        self.note(if are_there { 0 } else { zones });
        are_there
    }

    fn note(&self, zones: u32) {
        let (mut by_thread, thread) = (self.by_thread.lock(), thread_ordinal());
        by_thread.retain(|(other, _)| *other != thread);
        if zones > 0 {
            by_thread.push((thread, zones));
        }
        let most = by_thread.iter().map(|(_, zones)| *zones).max();
        self.most.store(most.unwrap_or(0), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_needs_most_counts_until_he_has_it() {
        let wanted = Wanted::default();
        assert!(wanted.press(10, 10, 0), "one zone is always there");
        assert!(!wanted.press(21, 10, 6));
        assert_eq!(wanted.low_water(), FOREGROUND_FLOOR + 3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(!wanted.press(50, 10, 6));
                assert_eq!(wanted.low_water(), FOREGROUND_FLOOR + 5);
                wanted.press(0, 10, 6);
            });
        });
        assert_eq!(wanted.low_water(), FOREGROUND_FLOOR + 3, "the other is done, this one is not");
        assert!(wanted.press(21, 10, 7));
        assert_eq!(wanted.low_water(), FOREGROUND_FLOOR);
    }
}
