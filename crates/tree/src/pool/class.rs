//! Size classes of leaf buffers.
//!
//! Up to 512 bytes a class every 16, so that a record more is a class more; beyond, sixteen to each doubling, so that at most a
//! sixteenth of a buffer is slack.

/// The smallest class in bytes, and the step of the classes up to [`LINEAR_BYTES`].
const SMALLEST_BYTES: usize = 32;
const STEP_BYTES: usize = 16;
/// Where sixteen classes to a doubling begin.
const LINEAR_BYTES: usize = 512;
const LINEAR_CLASSES: usize = (LINEAR_BYTES - SMALLEST_BYTES) / STEP_BYTES + 1;
const PER_DOUBLING: usize = 16;
const DOUBLINGS: usize = 9;

/// Number of classes.
pub(crate) const CLASSES: usize = LINEAR_CLASSES + DOUBLINGS * PER_DOUBLING;
/// The largest class in bytes: 256 KiB.
pub(crate) const CLASS_BYTES_MAX: usize = LINEAR_BYTES << DOUBLINGS;
/// Classes below this one, to 4,096 bytes, may be cells of slabs (`pool/arena.rs::Size`); the others are allocations of their own.
pub(crate) const SLAB_CLASSES: usize = LINEAR_CLASSES + 3 * PER_DOUBLING;

const _: () = assert!(CLASSES <= 256, "a buffer's header has a byte for its class");

/// How much memory records get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizing {
    /// What they need.
    Exact,
    /// 64 bytes doubled until they fit, to `bytes_max`, which is 256 in the paper (ZKV 3.3); beyond, what they need.
    Paper {
        /// The largest class.
        bytes_max: usize,
    },
    /// Each what a chained record takes: a pointer and a head more.
    Chained,
    /// Mini-pages: sizes from 64 bytes to `bytes_max`; beyond, what they need.
    MiniPages {
        /// The largest mini-page.
        bytes_max: usize,
        /// Sizes to each doubling: 1 in the paper (Bf-Tree 3.1).
        per_doubling: usize,
    },
}

/// The smallest mini-page in bytes.
pub(crate) const MINI_PAGE_BYTES_MIN: usize = 64;

/// Bytes of one set of a mini-page's marks (`buffer/marks.rs`): a bit for each 16 bytes of it.
pub(crate) fn mark_bytes(bytes: usize) -> usize {
    bytes.div_ceil(128)
}

/// Most records that a mini-page of `bytes` has marks for.
pub(crate) fn marked_records_max(bytes: usize) -> usize {
    8 * mark_bytes(bytes)
}

/// Sizes of mini-pages to each doubling. With one, a quarter of a mini-page is slack on average, and the ring holds as many fewer records;
/// with more than four each grows so often that loads pay for it.
pub(crate) const MINI_PAGES_PER_DOUBLING: usize = 4;

/// The class of a mini-page.
fn mini_page_class(needed_bytes: usize, records: usize, (bytes_max, per_doubling): (usize, usize)) -> usize {
    let fits = |bytes: usize| bytes - 2 * mark_bytes(bytes) >= needed_bytes && marked_records_max(bytes) >= records;
    let larger = |bytes: &usize| bytes + (1 << bytes.ilog2()) / per_doubling;
    let sizes = std::iter::successors(Some(MINI_PAGE_BYTES_MIN), |bytes| Some(larger(bytes)));
    let mini_page = sizes.take_while(|&bytes| bytes <= bytes_max).find(|&bytes| fits(bytes));
    let mut class = class_for(mini_page.unwrap_or(needed_bytes.max(MINI_PAGE_BYTES_MIN)));
    while !fits(class_bytes(class)) {
        class += 1;
        assert!(class < CLASSES, "a leaf buffer of {needed_bytes} bytes and {records} records");
    }
    class
}

/// What the link and head of a chained record take.
const CHAINED_BYTES: usize = 16;
/// The paper's smallest class.
const PAPER_BYTES_MIN: usize = 64;

impl Sizing {
    /// The class of a buffer with `head_bytes` before `records` records of `payload_bytes`.
    pub(crate) fn class_for(self, head_bytes: usize, payload_bytes: usize, records: usize) -> usize {
        match self {
            Self::Exact => class_for(head_bytes + payload_bytes),
            Self::Paper { bytes_max } => {
                let doubled = payload_bytes.next_power_of_two().max(PAPER_BYTES_MIN);
                class_for(head_bytes + if doubled <= bytes_max { doubled } else { payload_bytes })
            }
            Self::Chained => class_for(head_bytes + payload_bytes + records * CHAINED_BYTES),
            Self::MiniPages { bytes_max, per_doubling } => {
                mini_page_class(head_bytes + payload_bytes, records, (bytes_max, per_doubling))
            }
        }
    }

    /// What each record takes beside its bytes and slot.
    pub(crate) fn bytes_beside_record(self) -> usize {
        if matches!(self, Self::Chained) { CHAINED_BYTES } else { 0 }
    }

    /// Payload to ask for when a buffer is begun with pairs of `whole_bytes`, of which it stores `payload_bytes` because their prefix is
    /// stored once. In the paper's classes a quarter more than the whole pairs, so that seven of 8 B + 8 B start at 256 bytes as they do
    /// there, whatever they share; but no larger than the largest class that holds them.
    pub(crate) fn at_first(self, payload_bytes: usize, whole_bytes: usize) -> usize {
        match self {
            Self::Paper { bytes_max } => (whole_bytes + whole_bytes / 4).min(bytes_max.max(whole_bytes)),
            _ => payload_bytes,
        }
    }
}

/// Bytes of a class.
pub(crate) fn class_bytes(class: usize) -> usize {
    let Some(beyond) = class.checked_sub(LINEAR_CLASSES) else { return SMALLEST_BYTES + class * STEP_BYTES };
    let (doubling, step) = (beyond / PER_DOUBLING, beyond % PER_DOUBLING + 1);
    (LINEAR_BYTES << doubling) + step * ((LINEAR_BYTES / PER_DOUBLING) << doubling)
}

/// The least class of at least `bytes`.
pub(crate) fn class_for(bytes: usize) -> usize {
    assert!(bytes <= CLASS_BYTES_MAX, "a leaf buffer of {bytes} bytes; they end at {CLASS_BYTES_MAX}");
    if bytes <= LINEAR_BYTES {
        return bytes.saturating_sub(SMALLEST_BYTES).div_ceil(STEP_BYTES);
    }
    let doubling = ((bytes - 1) / LINEAR_BYTES).ilog2() as usize;
    let step = (bytes - (LINEAR_BYTES << doubling)).div_ceil((LINEAR_BYTES / PER_DOUBLING) << doubling);
    LINEAR_CLASSES + doubling * PER_DOUBLING + step - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_and_every_size_has_the_least_that_holds_it() {
        assert!((1..CLASSES).all(|class| class_bytes(class) > class_bytes(class - 1)));
        assert_eq!(class_bytes(CLASSES - 1), CLASS_BYTES_MAX);
        assert_eq!(class_bytes(SLAB_CLASSES - 1), 4096);
        for bytes in (1..5_000).chain((5_000..=CLASS_BYTES_MAX).step_by(61)).chain([CLASS_BYTES_MAX]) {
            let class = class_for(bytes);
            assert!(class_bytes(class) >= bytes, "{bytes}");
            assert!(class == 0 || class_bytes(class - 1) < bytes, "{bytes}");
        }
    }

    const PAPER: Sizing = Sizing::Paper { bytes_max: 256 };

    #[test]
    fn the_papers_sizes() {
        // Pairs of 8 B + 8 B whose keys share this many bytes.
        for shared in 0..=6 {
            let bytes = |pairs: usize| {
                let payload = PAPER.at_first((16 - shared) * pairs, 16 * pairs);
                class_bytes(PAPER.class_for(24 + shared, payload, pairs)) - 24 - shared
            };
            let sizes = [1, 3, 4, 6, 7, 12, 13, 16].map(|pairs| bytes(pairs) / 64 * 64);
            assert_eq!(sizes, [64, 64, 128, 128, 256, 256, 256, 256], "{shared} bytes shared");
        }
        for (bytes_max, sizes) in
            [(256, [256, 257, 600, 1_025]), (512, [256, 512, 600, 1_025]), (1024, [256, 512, 1_024, 1_025])]
        {
            let bytes = |payload| class_bytes(Sizing::Paper { bytes_max }.class_for(0, payload, 1));
            for (payload, least) in [200, 257, 600, 1_025].into_iter().zip(sizes) {
                assert_eq!(bytes(payload), class_bytes(class_for(least)), "{payload} bytes, classes to {bytes_max}");
            }
        }
        assert_eq!(Sizing::Exact.at_first(98, 112), 98);
        assert_eq!(class_bytes(Sizing::Chained.class_for(24, 160, 10)), 24 + 160 + 160 + 8);
    }

    #[test]
    fn mini_pages_of_the_paper_have_64_bytes_doubled_until_they_fit() {
        let sizing = Sizing::MiniPages { bytes_max: 2048, per_doubling: 1 };
        let bytes = |payload: usize| class_bytes(sizing.class_for(24, payload, 1));
        assert_eq!([0, 1, 30].map(bytes), [64; 3]);
        let sizes: Vec<usize> = (0..=2048 - 24 - 2 * mark_bytes(2048)).map(bytes).collect();
        let mut distinct = sizes.clone();
        distinct.dedup();
        assert_eq!(distinct, [64, 128, 256, 512, 1024, 2048]);
        for (payload, bytes) in sizes.into_iter().enumerate() {
            let fits = |bytes: usize| bytes - 2 * mark_bytes(bytes) >= 24 + payload;
            assert!(fits(bytes) && (bytes == MINI_PAGE_BYTES_MIN || !fits(bytes / 2)), "{payload} bytes in {bytes}");
        }
        // Beyond, what they need.
        assert!((2049..2400).contains(&bytes(2048)), "{}", bytes(2048));
        // Many small records need marks for each.
        assert_eq!(class_bytes(sizing.class_for(24, 8, marked_records_max(64) + 1)), 256);
    }

    #[test]
    fn of_four_sizes_to_a_doubling_a_mini_page_has_the_least_that_fits() {
        let sizing = Sizing::MiniPages { bytes_max: 2048, per_doubling: MINI_PAGES_PER_DOUBLING };
        let mut sizes: Vec<usize> = (0..=2048 - 24 - 2 * mark_bytes(2048))
            .map(|payload| class_bytes(sizing.class_for(24, payload, 1)))
            .inspect(|bytes| assert!((64..=2048).contains(bytes)))
            .collect();
        sizes.dedup();
        assert_eq!(sizes[..9], [64, 80, 96, 112, 128, 160, 192, 224, 256]);
        assert_eq!((sizes.len(), sizes[19], sizes[20]), (21, 1792, 2048));
        assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] <= pair[0] / 4));
    }

    #[test]
    fn slack_is_small() {
        for bytes in 512..CLASS_BYTES_MAX {
            assert!(class_bytes(class_for(bytes)) - bytes <= bytes / 16, "{bytes}");
        }
    }
}
