//! When a checkpoint is due because log and MetaLog fill the zones that are kept for them: pure functions over numbers.
//!
//! Bytes of log alone do not tell: in small zones the ends that no chunk fits take a good part, and between two checkpoints the
//! MetaLog grows with every merge and every page that reclaim moves. What the reserve (I9) counts on is held here: the log
//! begins a checkpoint at 4/5 of its limit; the MetaLog holds two checkpoints, which the reserve estimates generously, so that
//! records of moves have room until they make up a quarter of one.

use zonda_rt::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::reserve::zones_for;

/// How urgent a checkpoint is for the sake of zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordPressure {
    /// Not at all.
    #[default]
    None,
    /// One should begin.
    Due,
    /// Writers should wait for it.
    Over,
    /// A zone is lost that recovery would read: nothing that is logged from here on is safe before one has ended.
    Lost,
}

/// From how many zones on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    log_due: u32,
    log_over: u32,
    meta_due: u32,
    meta_over: u32,
    /// By how much the MetaLog must have grown since its last checkpoint, however large that was.
    meta_growth: u32,
}

impl Thresholds {
    /// For a log of `log_limit_bytes` and checkpoints of `checkpoint_bytes`.
    pub(crate) fn of(log_limit_bytes: u64, checkpoint_bytes: u64, zone_bytes: u64) -> Self {
        let zones = |bytes| zones_for(bytes, zone_bytes);
        Self {
            log_due: zones(log_limit_bytes / 5 * 4),
            log_over: zones(log_limit_bytes),
            meta_due: zones(checkpoint_bytes + checkpoint_bytes / 4),
            meta_over: zones(2 * checkpoint_bytes),
            meta_growth: zones(checkpoint_bytes / 4),
        }
    }

    fn pressure(self, log_zones: u32, meta_zones: u32, meta_zones_before: u32) -> RecordPressure {
        let grown = meta_zones >= meta_zones_before.saturating_add(self.meta_growth);
        if log_zones > self.log_over || (grown && meta_zones > self.meta_over) {
            RecordPressure::Over
        } else if log_zones > self.log_due || (grown && meta_zones > self.meta_due) {
            RecordPressure::Due
        } else {
            RecordPressure::None
        }
    }
}

/// The zones that recovery would read, and what they ask for.
pub(crate) struct Records {
    thresholds: Thresholds,
    pressure: AtomicU8,
    meta_zones: AtomicU32,
    /// Zones of the MetaLog when a checkpoint last gave some back.
    meta_zones_before: AtomicU32,
}

impl Records {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        let none = AtomicU8::new(RecordPressure::None as u8);
        Self { thresholds, pressure: none, meta_zones: AtomicU32::new(0), meta_zones_before: AtomicU32::new(0) }
    }

    /// Zones of log and MetaLog that are not released, and whether any of them is lost.
    pub(crate) fn note(&self, log_zones: u32, meta_zones: u32, any_lost: bool) {
        let fewer = meta_zones < self.meta_zones.swap(meta_zones, Ordering::Relaxed);
        if fewer {
            self.meta_zones_before.store(meta_zones, Ordering::Relaxed);
        }
        let before = self.meta_zones_before.load(Ordering::Relaxed);
        let pressure = self.thresholds.pressure(log_zones, meta_zones, before);
        let pressure = if any_lost { RecordPressure::Lost } else { pressure };
        self.pressure.store(pressure as u8, Ordering::Relaxed);
    }

    /// As last noted. One load.
    pub(crate) fn pressure(&self) -> RecordPressure {
        match self.pressure.load(Ordering::Relaxed) {
            0 => RecordPressure::None,
            1 => RecordPressure::Due,
            2 => RecordPressure::Over,
            _ => RecordPressure::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of 20 zones, checkpoints of 8.
    fn records() -> Records {
        Records::new(Thresholds::of(20 << 20, 8 << 20, 1 << 20))
    }

    #[test]
    fn the_log_asks_at_four_fifths_and_insists_at_its_limit() {
        let records = records();
        let asked = |log_zones| {
            records.note(log_zones, 0, false);
            records.pressure()
        };
        assert_eq!([17, 18, 21].map(asked), [RecordPressure::None, RecordPressure::Due, RecordPressure::Due]);
        assert_eq!([22, 3].map(asked), [RecordPressure::Over, RecordPressure::None]);
    }

    #[test]
    fn the_metalog_asks_for_a_checkpoint_when_a_quarter_of_one_has_come_on_top() {
        let records = records();
        let asked = |meta_zones| {
            records.note(0, meta_zones, false);
            records.pressure()
        };
        assert_eq!(
            [9, 11, 12, 18].map(asked),
            [RecordPressure::None, RecordPressure::None, RecordPressure::Due, RecordPressure::Over]
        );
    }

    #[test]
    fn a_checkpoint_that_is_large_by_itself_does_not_ask_for_the_next() {
        let records = records();
        records.note(0, 30, false);
        records.note(0, 25, false);
        assert_eq!(records.pressure(), RecordPressure::None, "it has just been taken");
        records.note(0, 28, false);
        assert_eq!(records.pressure(), RecordPressure::Over);
    }

    #[test]
    fn a_zone_that_is_lost_counts_for_more_than_any_number() {
        let records = records();
        records.note(40, 0, true);
        assert_eq!(records.pressure(), RecordPressure::Lost);
        records.note(3, 0, false);
        assert_eq!(records.pressure(), RecordPressure::None);
    }
}
