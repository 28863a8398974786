//! Many point reads at once: one pass through index and buffers in the order of the keys, the pages that are missing in flight together
//! meanwhile, then the large values that they point to, likewise. Keys of one leaf share its read (I8: at most one leaf read per key).

use std::ops::Range;

use zonda_pages::{PageAddress, PageId, PagesWanted};
use zonda_rt::epoch::Guard;

use crate::{
    read::{Found, Seen},
    stats::count,
    tree::{Result, Tree},
    values::ValuePointer,
};

/// What is known of the keys so far, by their index.
struct Answers<'k> {
    keys: &'k [&'k [u8]],
    values: Vec<Vec<u8>>,
    found: Vec<Option<Found>>,
}

/// The pages that must answer what memory does not, found while those before are read: keys are looked up in their order, so that those of
/// one leaf follow each other.
struct Asking<'a, 'k> {
    tree: &'a Tree,
    guard: &'a Guard<'a>,
    snapshot: Option<u64>,
    answers: Answers<'k>,
    /// Keys that are not looked up yet, the greatest first.
    left: Vec<usize>,
    /// Keys that ask a page, in the order of the pages.
    asking: Vec<usize>,
    /// The page that the last of them asks, if it is not in `asked`.
    next: Option<(PageId, PageAddress)>,
    /// Pages that were asked for, with their keys in `asking`.
    asked: Vec<((PageId, PageAddress), Range<usize>)>,
    outcome: Result<()>,
}

impl Asking<'_, '_> {
    /// Looks up keys until one asks a page.
    fn look_on(&mut self) -> Option<(PageId, PageAddress)> {
        while let Some(key) = self.left.pop() {
            count(&self.tree.counters.mine().gets);
            let (keys, value) = (self.answers.keys, &mut self.answers.values[key]);
            match self.tree.look_as_of(self.snapshot, keys[key], value, self.guard) {
                Ok(Seen::Known(known)) => self.answers.found[key] = known,
                Ok(Seen::AskPage(id, page)) => {
                    self.asking.push(key);
                    return Some((id, page));
                }
                Err(error) => {
                    self.outcome = Err(error);
                    self.left.clear();
                }
            }
        }
        None
    }
}

impl PagesWanted for Asking<'_, '_> {
    fn next_page(&mut self) -> Option<(PageId, PageAddress)> {
        let page = self.next.take().or_else(|| self.look_on())?;
        let first = self.asking.len() - 1;
        self.next = self.look_on();
        while self.next == Some(page) {
            self.next = self.look_on();
        }
        let end = self.asking.len() - usize::from(self.next.is_some());
        self.asked.push((page, first..end));
        count(&self.tree.counters.mine().leaf_reads);
        Some(page)
    }

    fn take(&mut self, nth: usize, body: &[u8]) {
        let (page, asking) = self.asked[nth].clone();
        for &key in &self.asking[asking] {
            let value = &mut self.answers.values[key];
            match self.tree.answer_of(page, body, self.answers.keys[key], value) {
                Ok(known) => self.answers.found[key] = known,
                Err(error) => self.outcome = Err(error),
            }
        }
    }
}

impl Tree {
    /// Values of several keys, in their order: each of its own moment, or all as `snapshot` sees them.
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into); `SnapshotTooOld`.
    pub(crate) fn multi_get(&self, snapshot: Option<u64>, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        // Until the values are read: a zone with one that is replaced meanwhile must not be reset.
        let _guard = self.epoch.pin();
        let answers = self.find_all(snapshot, keys);
        // A snapshot that was given up meanwhile holds no zone back: what was read in vain is no damage.
        let answers = answers.or_else(|error| self.verify(snapshot).and(Err(error)))?;
        self.resolve(answers).or_else(|error| self.verify(snapshot).and(Err(error)))
    }

    /// Refuses a snapshot that was given up.
    pub(crate) fn verify(&self, snapshot: Option<u64>) -> Result<()> {
        snapshot.map_or(Ok(()), |number| self.snapshots.verify(number))
    }

    fn find_all<'k>(&self, snapshot: Option<u64>, keys: &'k [&'k [u8]]) -> Result<Answers<'k>> {
        let values = vec![Vec::new(); keys.len()];
        let found = keys.iter().map(|_| None).collect();
        let mut left: Vec<usize> = (0..keys.len()).collect();
        left.sort_unstable_by(|&a, &b| keys[b].cmp(keys[a]));
        let guard = self.epoch.pin();
        let mut asking = Asking {
            tree: self,
            guard: &guard,
            snapshot,
            answers: Answers { keys, values, found },
            asking: Vec::with_capacity(left.len()),
            asked: Vec::with_capacity(left.len()),
            left,
            next: None,
            outcome: Ok(()),
        };
        self.store.read_many(&mut asking)?;
        asking.outcome.map(|()| asking.answers)
    }

    /// Puts large values in the place of their pointers.
    fn resolve(&self, answers: Answers<'_>) -> Result<Vec<Option<Vec<u8>>>> {
        let Answers { keys, mut values, found } = answers;
        let is_pointer = |key: &usize| matches!(found[*key], Some(Found::Pointer));
        let large: Vec<usize> = (0..keys.len()).filter(is_pointer).collect();
        let pointers = large.iter().map(|&key| ValuePointer::decode(&values[key])).collect::<Result<Vec<_>>>()?;
        let wanted: Vec<(&[u8], &ValuePointer)> = large.iter().map(|&key| keys[key]).zip(&pointers).collect();
        for (key, value) in large.iter().zip(self.values.read_many(&wanted)?) {
            values[*key] = value;
        }
        Ok(found.into_iter().zip(values).map(|(found, value)| found.map(|_| value)).collect())
    }
}
