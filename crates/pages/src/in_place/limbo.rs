//! Superseded pages whose blocks may not be reused yet (I3).
//!
//! Life of a batch: 1 pages are released -> 2 *stamped*: all that were released before -> 3 *committed*: the records of their moves are
//! durable -> 4 *drained*: no reader and no snapshot from before the stamp is left -> their blocks are free. Values whose segment holds
//! nothing live go the same way.

use super::layout::SegmentIndex;
use crate::{PageAddress, Stamp};

/// What becomes free together.
#[derive(Debug)]
pub(crate) struct Batch {
    stamp: Stamp,
    committed: bool,
    pub(crate) pages: Vec<PageAddress>,
    pub(crate) segments: Vec<SegmentIndex>,
}

impl Batch {
    /// What is left of it once its pages are free, and all segments but these are.
    pub(crate) fn without_pages(self, segments: Vec<SegmentIndex>) -> Self {
        Self { pages: Vec::new(), segments, ..self }
    }
}

/// What was released up to some moment.
#[derive(Debug)]
pub(crate) struct Released {
    pages: Vec<PageAddress>,
    segments: Vec<SegmentIndex>,
}

impl Released {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.segments.is_empty()
    }
}

/// Everything that is superseded and not free.
#[derive(Debug, Default)]
pub(crate) struct Limbo {
    released: Vec<PageAddress>,
    condemned: Vec<SegmentIndex>,
    released_blocks: u64,
    batches: Vec<Batch>,
}

impl Limbo {
    /// A page was released.
    pub(crate) fn add(&mut self, at: PageAddress) {
        self.released_blocks += at.blocks();
        self.released.push(at);
    }

    /// A segment of values holds nothing live.
    pub(crate) fn condemn(&mut self, segment: SegmentIndex) {
        self.condemned.push(segment);
    }

    /// Blocks that no batch has taken.
    pub(crate) fn released_blocks(&self) -> u64 {
        self.released_blocks
    }

    /// Condemned segments that no batch has taken.
    pub(crate) fn condemned(&self) -> usize {
        self.condemned.len()
    }

    /// Segments that will be free without any more work on them.
    pub(crate) fn coming_segments(&self) -> u32 {
        let batched: usize = self.batches.iter().map(|batch| batch.segments.len()).sum();
        u32::try_from(self.condemned.len() + batched).unwrap_or(u32::MAX)
    }

    /// Takes what was released up to now out, for [`put`](Self::put).
    pub(crate) fn take_released(&mut self) -> Released {
        self.released_blocks = 0;
        Released { pages: std::mem::take(&mut self.released), segments: std::mem::take(&mut self.condemned) }
    }

    /// Makes a batch of what was taken before `stamp` was: a page that is released after the stamp may have readers from after it,
    /// whom nobody would wait for.
    pub(crate) fn put(&mut self, released: Released, stamp: Stamp) {
        let Released { pages, segments } = released;
        self.batches.push(Batch { stamp, committed: false, pages, segments });
    }

    /// The records of everything that was stamped with at most `stamp` are durable.
    pub(crate) fn commit(&mut self, stamp: Stamp) {
        self.batches.iter_mut().filter(|batch| batch.stamp <= stamp).for_each(|batch| batch.committed = true);
    }

    /// Whether there is a batch whose records are not known to be durable.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.batches.iter().any(|batch| !batch.committed)
    }

    /// The newest stamp of those.
    pub(crate) fn newest_uncommitted(&self) -> Option<Stamp> {
        self.batches.iter().filter(|batch| !batch.committed).map(|batch| batch.stamp).max()
    }

    /// Stamps of batches that wait for readers alone.
    pub(crate) fn committed(&self) -> Vec<Stamp> {
        self.batches.iter().filter(|batch| batch.committed).map(|batch| batch.stamp).collect()
    }

    /// Takes the batch with this stamp out.
    pub(crate) fn take(&mut self, stamp: Stamp) -> Option<Batch> {
        let index = self.batches.iter().position(|batch| batch.stamp == stamp)?;
        Some(self.batches.swap_remove(index))
    }

    /// A batch that was taken out could not be freed, or only in part.
    pub(crate) fn put_back(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.released.is_empty() && self.condemned.is_empty() && self.batches.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let (pages, segments) = self.batches.iter().fold((0, 0), |(pages, segments), batch| {
            (pages + batch.pages.capacity(), segments + batch.segments.capacity())
        });
        let pages = (self.released.capacity() + pages) * size_of::<PageAddress>();
        let segments = (self.condemned.capacity() + segments) * size_of::<SegmentIndex>();
        (pages + segments + self.batches.capacity() * size_of::<Batch>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_was_released_before_its_stamp() {
        let mut limbo = Limbo::default();
        let at = |block| PageAddress::new(block, 2);
        limbo.add(at(10));
        limbo.condemn(SegmentIndex(3));
        assert_eq!((limbo.released_blocks(), limbo.condemned(), limbo.coming_segments()), (2, 1, 1));
        let released = limbo.take_released();
        limbo.add(at(20));
        limbo.put(released, Stamp(1));
        let released = limbo.take_released();
        limbo.put(released, Stamp(2));
        assert!(limbo.has_uncommitted() && limbo.committed().is_empty());
        assert!(limbo.bytes() >= 2 * size_of::<Batch>() as u64, "an empty one is memory too");
        assert_eq!(limbo.newest_uncommitted(), Some(Stamp(2)));
        limbo.commit(Stamp(1));
        assert_eq!(limbo.committed(), [Stamp(1)]);
        let batch = limbo.take(Stamp(1)).unwrap();
        assert_eq!((batch.pages, batch.segments), (vec![at(10)], vec![SegmentIndex(3)]));
        assert!(limbo.take(Stamp(1)).is_none() && limbo.has_uncommitted() && !limbo.is_empty());
    }
}
