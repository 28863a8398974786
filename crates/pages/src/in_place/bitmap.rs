//! One bit for each block of a segment.

/// A set of block offsets below `len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Box<[u64]>,
    len: u64,
}

const BITS: u64 = u64::BITS as u64;

impl Bitmap {
    /// No offset, or all of them.
    pub(crate) fn new(len: u64, set: bool) -> Self {
        let words = vec![0; crate::number::index(len.div_ceil(BITS))].into_boxed_slice();
        let mut bitmap = Self { words, len };
        if set {
            bitmap.insert(0, len);
        }
        bitmap
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Adds `count` offsets from `at` on.
    pub(crate) fn insert(&mut self, at: u64, count: u64) {
        self.for_words(at, count, |word, mask| *word |= mask);
    }

    /// Takes `count` offsets from `at` on out.
    pub(crate) fn remove(&mut self, at: u64, count: u64) {
        self.for_words(at, count, |word, mask| *word &= !mask);
    }

    /// Whether all of `count` offsets from `at` on are in it.
    pub(crate) fn has_all(&self, at: u64, count: u64) -> bool {
        at + count <= self.len && self.run_at(at) >= count
    }

    /// Whether one of `count` offsets from `at` on is in it.
    pub(crate) fn has_any(&self, at: u64, count: u64) -> bool {
        self.next(at).is_some_and(|next| next < at + count)
    }

    /// The first offset at or behind `from`.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        self.scan(from, 0)
    }

    /// How many offsets follow each other from `at` on.
    pub(crate) fn run_at(&self, at: u64) -> u64 {
        self.scan(at, u64::MAX).unwrap_or(self.len).max(at) - at
    }

    /// The first `count` offsets that follow each other at or behind `from`. Cost: one pass over the words.
    pub(crate) fn find_run(&self, from: u64, count: u64) -> Option<u64> {
        let mut at = self.next(from)?;
        loop {
            let run = self.run_at(at);
            if run >= count {
                return Some(at);
            }
            at = self.next(at + run)?;
        }
    }

    /// The first bit at or behind `from` that is set, in words turned over with `flip`.
    fn scan(&self, from: u64, flip: u64) -> Option<u64> {
        if from >= self.len {
            return None;
        }
        let first = crate::number::index(from / BITS);
        let above = u64::MAX << (from % BITS);
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let word = (word ^ flip) & if index == first { above } else { u64::MAX };
            if word != 0 {
                let at = index as u64 * BITS + u64::from(word.trailing_zeros());
                return (at < self.len).then_some(at);
            }
        }
        None
    }

    fn for_words(&mut self, at: u64, count: u64, mut change: impl FnMut(&mut u64, u64)) {
        assert!(at + count <= self.len, "{count} offsets from {at} in a bitmap of {}", self.len);
        let (mut at, end) = (at, at + count);
        while at < end {
            let bits = (BITS - at % BITS).min(end - at);
            let mask = (u64::MAX >> (BITS - bits)) << (at % BITS);
            change(&mut self.words[crate::number::index(at / BITS)], mask);
            at += bits;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_cross_words_and_end_at_the_end() {
        let mut bitmap = Bitmap::new(130, true);
        assert_eq!((bitmap.run_at(0), bitmap.find_run(0, 130), bitmap.find_run(1, 130)), (130, Some(0), None));
        bitmap.remove(63, 2);
        assert_eq!((bitmap.run_at(0), bitmap.next(63), bitmap.find_run(0, 64)), (63, Some(65), Some(65)));
        assert!(bitmap.has_all(65, 65) && !bitmap.has_all(65, 66) && !bitmap.has_any(63, 2));
    }

    proptest! {
        #[test]
        fn is_a_set_of_offsets(len in 1..200u64, changes in proptest::collection::vec((0..200u64, 1..40u64, any::<bool>()), 0..40)) {
            let (mut bitmap, mut set) = (Bitmap::new(len, false), BTreeSet::new());
            for (at, count, insert) in changes {
                let (at, count) = (at % len, count.min(len - at % len));
                if insert {
                    bitmap.insert(at, count);
                    set.extend(at..at + count);
                } else {
                    bitmap.remove(at, count);
                    set.retain(|offset| !(at..at + count).contains(offset));
                }
            }
            for from in 0..len {
                prop_assert_eq!(bitmap.next(from), set.range(from..).next().copied());
                let run = (from..len).take_while(|offset| set.contains(offset)).count() as u64;
                prop_assert_eq!(bitmap.run_at(from), run);
                for count in [1, 3, 20] {
                    let found = (from..len).find(|&at| (at..at + count).all(|offset| set.contains(&offset)));
                    prop_assert_eq!(bitmap.find_run(from, count), found);
                }
            }
        }
    }
}
