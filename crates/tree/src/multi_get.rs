//! Many point reads at once: one pass through index and buffers, then the pages that are missing, in flight together, then the large values
//! that they point to, likewise. Keys of one leaf share its read (I8: at most one leaf read per key).

use zonda_pages::{PageAddress, PageId};
use zonda_rt::atomic::Ordering;

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

/// A key that its leaf's page must answer.
struct Asked {
    page: (PageId, PageAddress),
    key: usize,
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
        let found = Vec::with_capacity(keys.len());
        let mut answers = Answers { keys, values: vec![Vec::new(); keys.len()], found };
        let guard = self.epoch.pin();
        let mut asked = Vec::new();
        for (key, value) in answers.values.iter_mut().enumerate() {
            count(&self.counters.gets);
            answers.found.push(match self.look_as_of(snapshot, keys[key], value, &guard)? {
                Seen::Known(known) => known,
                Seen::AskPage(id, page) => {
                    asked.push(Asked { page: (id, page), key });
                    None
                }
            });
        }
        self.ask_pages(asked, &mut answers)?;
        Ok(answers)
    }

    /// Reads each page once, for all keys that ask it.
    fn ask_pages(&self, mut asked: Vec<Asked>, answers: &mut Answers<'_>) -> Result<()> {
        asked.sort_unstable_by_key(|asked| (asked.page.1.raw(), asked.page.0.0));
        let groups: Vec<&[Asked]> = asked.chunk_by(|a, b| a.page == b.page).collect();
        let pages: Vec<_> = groups.iter().map(|group| group[0].page).collect();
        self.counters.leaf_reads.fetch_add(pages.len() as u64, Ordering::Relaxed);
        let mut outcome = Ok(());
        self.store.read_many(&pages, &mut |nth, body| {
            for asked in groups[nth] {
                match self.answer_of(pages[nth], body, answers.keys[asked.key], &mut answers.values[asked.key]) {
                    Ok(known) => answers.found[asked.key] = known,
                    Err(error) => outcome = Err(error),
                }
            }
        })?;
        outcome
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
