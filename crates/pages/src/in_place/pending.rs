//! Pages that wait to be written, by address. A page is found here from `place` until its write has completed; one whose blocks
//! cannot be written stays until nobody can ask for its address any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use zonda_rt::atomic::{AtomicU32, Ordering};

use crate::pool::PooledBuf;
use crate::{Heat, PageAddress, PageId, number};

/// Blocks of one write: 256 KiB, where a write costs little more than its bytes.
pub(crate) const WRITE_BLOCKS_MAX: u64 = 64;

/// A page with its header, complete.
pub(crate) struct PendingPage {
    pub(crate) id: PageId,
    pub(crate) at: PageAddress,
    pub(crate) heat: Heat,
    pub(crate) frame: PooledBuf,
    reads: AtomicU32,
}

impl PendingPage {
    pub(crate) fn new(id: PageId, at: PageAddress, heat: Heat, frame: PooledBuf) -> Self {
        Self { id, at, heat, frame, reads: AtomicU32::new(0) }
    }

    /// Its blocks.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.frame[..number::bytes(self.at.blocks())]
    }

    /// Reads so far, of those that found it here.
    pub(crate) fn reads(&self) -> u32 {
        self.reads.load(Ordering::Relaxed)
    }
}

/// A page whose blocks cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// It waits for another place; `released`: it is superseded meanwhile.
    Waiting { released: bool },
    /// It is there now.
    Moved(PageAddress),
}

/// Pages one behind the other on the device, in one write.
#[derive(Clone)]
pub(crate) struct WriteRun(Vec<Arc<PendingPage>>);

impl WriteRun {
    /// Its first block.
    pub(crate) fn block(&self) -> u64 {
        self.0[0].at.block()
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.0.iter().map(|page| page.at.blocks()).sum()
    }

    pub(crate) fn pages(&self) -> &[Arc<PendingPage>] {
        &self.0
    }

    /// Each page as a run of its own.
    pub(crate) fn single_pages(&self) -> impl Iterator<Item = WriteRun> {
        self.0.iter().map(|page| WriteRun(vec![Arc::clone(page)]))
    }

    /// Puts its blocks one behind the other.
    pub(crate) fn copy_to(&self, into: &mut [u8]) {
        let mut rest = into;
        for page in &self.0 {
            let (here, behind) = rest.split_at_mut(page.bytes().len());
            here.copy_from_slice(page.bytes());
            rest = behind;
        }
    }

    fn end(&self) -> u64 {
        self.block() + self.blocks()
    }
}

/// The pages that wait.
#[derive(Default)]
pub(crate) struct Pending {
    pages: BTreeMap<u64, Arc<PendingPage>>,
    /// First blocks of those that no write has taken.
    waiting: BTreeSet<u64>,
    waiting_blocks: u64,
    failed: HashMap<u64, Failed>,
}

impl Pending {
    /// Blocks that no write has taken.
    pub(crate) fn waiting_blocks(&self) -> u64 {
        self.waiting_blocks
    }

    /// Pages, those that are being written included.
    pub(crate) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(crate) fn insert(&mut self, page: PendingPage) {
        self.waiting_blocks += page.at.blocks();
        self.waiting.insert(page.at.block());
        let before = self.pages.insert(page.at.block(), Arc::new(page));
        assert!(before.is_none(), "I3 a block is not reused while its page waits");
    }

    /// The page at `at`; counts a read.
    pub(crate) fn find(&self, at: PageAddress) -> Option<Arc<PendingPage>> {
        let page = self.pages.get(&at.block()).filter(|page| page.at == at)?;
        page.reads.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(page))
    }

    /// Takes everything that waits, in order, in runs of neighbours.
    pub(crate) fn take(&mut self) -> Vec<WriteRun> {
        let mut runs: Vec<WriteRun> = Vec::new();
        for block in std::mem::take(&mut self.waiting) {
            let page = Arc::clone(&self.pages[&block]);
            match runs.last_mut() {
                Some(run) if run.end() == block && run.blocks() + page.at.blocks() <= WRITE_BLOCKS_MAX => {
                    run.0.push(page);
                }
                _ => runs.push(WriteRun(vec![page])),
            }
        }
        self.waiting_blocks = 0;
        runs
    }

    /// A write that was taken did not happen: it waits again.
    pub(crate) fn put_back(&mut self, run: &WriteRun) {
        for page in run.0.iter().filter(|page| !self.failed.contains_key(&page.at.block())) {
            self.waiting_blocks += page.at.blocks();
            self.waiting.insert(page.at.block());
        }
    }

    /// A page is on the device.
    pub(crate) fn written(&mut self, at: PageAddress) {
        if !self.failed.contains_key(&at.block()) {
            self.pages.remove(&at.block());
        }
    }

    /// Whether a page at any of these waits for its write, or its write is under way.
    pub(crate) fn hold_any(&self, pages: &[PageAddress]) -> bool {
        let holds = |block: &u64| self.pages.contains_key(block) && !self.failed.contains_key(block);
        !self.pages.is_empty() && pages.iter().any(|at| holds(&at.block()))
    }

    /// A page's blocks cannot be written.
    pub(crate) fn fail(&mut self, at: PageAddress) {
        if self.waiting.remove(&at.block()) {
            self.waiting_blocks -= at.blocks();
        }
        self.failed.insert(at.block(), Failed::Waiting { released: false });
    }

    /// The pages in a range of blocks.
    pub(crate) fn within(&self, blocks: std::ops::Range<u64>) -> Vec<Arc<PendingPage>> {
        self.pages.range(blocks).map(|(_, page)| Arc::clone(page)).collect()
    }

    /// The pages that need another place.
    pub(crate) fn failed(&self) -> Vec<Arc<PendingPage>> {
        let waits = |(block, failed): (&u64, &Failed)| {
            matches!(failed, Failed::Waiting { .. }).then(|| Arc::clone(&self.pages[block]))
        };
        self.failed.iter().filter_map(waits).collect()
    }

    /// A failed page has another place. Returns whether it was superseded before.
    pub(crate) fn moved(&mut self, from: PageAddress, to: PageAddress) -> bool {
        let before = self.failed.insert(from.block(), Failed::Moved(to));
        before == Some(Failed::Waiting { released: true })
    }

    /// A page is superseded. If it was placed again, returns where: that one is to be released.
    pub(crate) fn release(&mut self, at: PageAddress) -> Option<PageAddress> {
        match self.failed.get_mut(&at.block())? {
            Failed::Moved(to) => Some(*to),
            Failed::Waiting { released } => {
                *released = true;
                None
            }
        }
    }

    /// Nobody asks for `at` any more. Returns whether its blocks can be written.
    pub(crate) fn forget(&mut self, at: PageAddress) -> bool {
        let failed = self.failed.remove(&at.block()).is_some();
        if failed {
            self.pages.remove(&at.block());
        }
        !failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::BufferPool;

    fn page(block: u64, blocks: u64) -> PendingPage {
        PendingPage::new(PageId(1), PageAddress::new(block, blocks), Heat::Hot, BufferPool::new().take(blocks))
    }

    #[test]
    fn neighbours_leave_in_one_write_of_bounded_length() {
        let mut pending = Pending::default();
        for block in (10..14).chain([20]) {
            pending.insert(page(block, 1));
        }
        (100..200).step_by(2).for_each(|block| pending.insert(page(block, 2)));
        assert_eq!(pending.waiting_blocks(), 105);
        let runs: Vec<_> = pending.take().iter().map(|run| (run.block(), run.blocks())).collect();
        assert_eq!(runs, [(10, 4), (20, 1), (100, 64), (164, 36)]);
        assert_eq!((pending.waiting_blocks(), pending.len()), (0, 55));
    }

    #[test]
    fn a_page_is_found_until_it_is_written() {
        let mut pending = Pending::default();
        pending.insert(page(7, 2));
        let run = pending.take().remove(0);
        assert!(pending.find(PageAddress::new(7, 2)).is_some() && pending.find(PageAddress::new(7, 1)).is_none());
        pending.put_back(&run);
        assert_eq!(pending.take().len(), 1);
        pending.written(PageAddress::new(7, 2));
        assert!(pending.find(PageAddress::new(7, 2)).is_none());
    }

    #[test]
    fn a_page_that_cannot_be_written_stays_until_it_is_forgotten() {
        let (mut pending, at, to) = (Pending::default(), PageAddress::new(7, 1), PageAddress::new(9, 1));
        pending.insert(page(7, 1));
        pending.take();
        pending.fail(at);
        assert_eq!((pending.failed().len(), pending.release(at)), (1, None));
        assert!(pending.moved(at, to), "released before it had a new place");
        assert_eq!((pending.failed().len(), pending.release(at)), (0, Some(to)));
        assert!(pending.find(at).is_some());
        assert!(!pending.forget(at) && pending.find(at).is_none() && pending.forget(to));
    }
}
