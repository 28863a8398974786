//! How pages reach the device: ZFlusher and its parts, each a switch (ZKV, section 3.4).

use zonda_pages::{CachePolicy, FLUSHERS_ANY, StoreOptions};

/// How leaves are written and cached below the leaf buffers. May differ at every opening.
///
/// In place only `group_pages` has an effect: clean pages are in an LRU pool there, which written pages enter however often they were read,
/// and there are no flushers.
///
/// ```
/// use zonda::{FlusherOptions, Options};
///
/// let flusher = FlusherOptions { group_pages: 8, ..FlusherOptions::default() };
/// let db = Options::new().flusher(flusher).open("mem:")?;
/// # db.put("key", "value")?;
/// # Ok::<(), zonda::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlusherOptions {
    /// Pages of 4 KiB, as the paper's leaves are, that the ring merger writes at once: 1 to 16. Default 4. Of longer leaves it writes as
    /// many as have room in so much, or one: that is a long write by itself.
    pub group_pages: u32,
    /// Reads of a page that waits to be written above which it moves to the read cache when it is, any number. Default 1.
    pub cache_threshold_reads: u32,
    /// Flushers of foreground pages, each with an open zone of its own: at most so many, fewer where the device's limits, its
    /// number of zones or the memory budget allow no more. 1 to 64. Default 16. Pages on their way have a 64th of the budget, and each
    /// flusher, with two beside these for cold and relocated pages, six groups of it: with groups of 16 KiB that is 2 flushers to 16 MiB,
    /// 3 at 32, 4 at 40, 8 at 64, 16 from 128 on, of which a device of 14 active zones allows 7. What leaves that are longer than a group
    /// take beyond that, buffers and caches give up. A zone is opened only when those that are open are busy.
    pub flushers_max: u32,
    /// `false`: a buffer pool in which what was used longest ago goes first takes the place of the read cache (SIEVE), and written
    /// pages enter it. Default `true`.
    pub sieve: bool,
}

impl Default for FlusherOptions {
    fn default() -> Self {
        Self { group_pages: 4, cache_threshold_reads: 1, flushers_max: FLUSHERS, sieve: true }
    }
}

/// Flushers unless somebody says otherwise.
const FLUSHERS: u32 = 16;
/// The most pages of 4 KiB in a group.
const GROUP_PAGES_MAX: u32 = 16;
/// Groups of one flusher that wait, where there is memory for them.
const GROUPS: u64 = 4;
/// Groups of one flusher beside those that wait: one that is being filled, and one that the pages of a split complete
/// when no more may wait.
const GROUPS_BESIDE: u64 = 2;
/// Data streams beside that of foreground pages: cold and relocated ones may each have a full flusher.
const OTHER_FLUSHERS: u64 = 2;
/// With less memory there are still two flushers, with two groups each that wait.
const FLUSHERS_MIN: u64 = 2;
const GROUPS_MIN: u64 = 2;

impl FlusherOptions {
    /// The base that ZFlusher is measured against: page by page, one zone at a time, through a buffer pool (Exp#4 of the paper; Exp#11
    /// has the same pool in place of ZFlusher).
    #[must_use]
    pub fn base() -> Self {
        Self { group_pages: 1, cache_threshold_reads: 0, flushers_max: 1, sieve: false }
    }

    /// What is wrong with them, if anything.
    pub(crate) fn fault(&self) -> Option<(&'static str, String)> {
        if !(1..=GROUP_PAGES_MAX).contains(&self.group_pages) {
            return Some((
                "group_pages",
                format!("{} pages of 4 KiB; 1 to {GROUP_PAGES_MAX} are written at once", self.group_pages),
            ));
        }
        if !(1..=FLUSHERS_ANY).contains(&self.flushers_max) {
            return Some((
                "flushers_max",
                format!("{} flushers; 1 to {FLUSHERS_ANY} write at a time", self.flushers_max),
            ));
        }
        None
    }

    /// Tells the page store, which may use `sequencer_bytes` for pages on their way.
    pub(crate) fn apply(&self, sequencer_bytes: u64, options: &mut StoreOptions) {
        let groups_in_all = sequencer_bytes / (u64::from(self.group_pages) * zonda_pages::BLOCK_BYTES as u64);
        let flushers = (groups_in_all / (GROUPS + GROUPS_BESIDE)).saturating_sub(OTHER_FLUSHERS).max(FLUSHERS_MIN);
        let flushers = flushers.min(self.flushers_max.into());
        let groups = (groups_in_all / (flushers + OTHER_FLUSHERS)).saturating_sub(GROUPS_BESIDE).max(GROUPS_MIN);
        options.group_pages = self.group_pages;
        options.cache_threshold_reads = self.cache_threshold_reads;
        options.hot_writers_max = u32::try_from(flushers).unwrap_or(FLUSHERS_ANY);
        options.sequencer_groups_max = u32::try_from(groups).unwrap_or(u32::MAX);
        options.cache_policy = if self.sieve { CachePolicy::Sieve } else { CachePolicy::Lru };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(flusher: FlusherOptions, sequencer_bytes: u64) -> (u32, u32) {
        let mut options = StoreOptions::default();
        flusher.apply(sequencer_bytes, &mut options);
        (options.hot_writers_max, options.sequencer_groups_max)
    }

    #[test]
    fn flushers_and_groups_fit_their_memory() {
        for kib in [256_u64, 512, 1024, 4096] {
            let (flushers, groups) = applied(FlusherOptions::default(), kib << 10);
            let all = (u64::from(flushers) + OTHER_FLUSHERS) * (u64::from(groups) + GROUPS_BESIDE);
            assert!(all * 16 <= kib, "{kib} KiB: {flushers} x {groups}");
            assert!(flushers >= 2 && groups >= 2);
        }
        // Of budgets of 16, 32, 40, 64, 128 and 256 MiB, as decision 41 has them.
        let at = [(256, (2, 2)), (512, (3, 4)), (640, (4, 4)), (1024, (8, 4)), (2048, (16, 5)), (4096, (16, 12))];
        for (kib, most) in at {
            assert_eq!(applied(FlusherOptions::default(), kib << 10), most, "{kib} KiB");
        }
        assert_eq!(applied(FlusherOptions::base(), 512 << 10).0, 1);
    }

    #[test]
    fn limits_are_told() {
        let fault = |group_pages, flushers_max| {
            FlusherOptions { group_pages, flushers_max, ..FlusherOptions::default() }.fault().map(|fault| fault.0)
        };
        assert_eq!([fault(0, 1), fault(17, 1)], [Some("group_pages"); 2]);
        assert_eq!([fault(1, 0), fault(16, 65)], [Some("flushers_max"); 2]);
        assert_eq!([fault(1, 1), fault(16, 64)], [None; 2]);
    }
}
