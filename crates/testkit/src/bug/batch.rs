//! A subject whose batches are not atomic.

use crate::{Answer, Change, Subject, Tally, View, Work};

/// Does a batch as two writes.
pub struct HalfBatch<S> {
    subject: S,
}

impl<S: Subject> HalfBatch<S> {
    /// Puts the bug before a subject.
    #[must_use]
    pub fn over(subject: S) -> Self {
        Self { subject }
    }
}

impl<S: Subject> Subject for HalfBatch<S> {
    fn write(&self, changes: &[Change], synced: bool) -> Answer<()> {
        let (first, second) = changes.split_at(changes.len() / 2);
        if !first.is_empty() {
            self.subject.write(first, false)?;
        }
        self.subject.write(second, synced)
    }

    fn replace(&self, key: &[u8], expected: Option<&[u8]>, value: &[u8], synced: bool) -> Answer<Option<Vec<u8>>> {
        self.subject.replace(key, expected, value, synced)
    }

    fn get(&self, key: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.subject.get(key)
    }

    fn get_many(&self, keys: &[&[u8]]) -> Answer<Vec<Option<Vec<u8>>>> {
        self.subject.get_many(keys)
    }

    fn snapshot(&self) -> Answer<Box<dyn View>> {
        self.subject.snapshot()
    }

    fn sync(&self) -> Answer<()> {
        self.subject.sync()
    }

    fn checkpoint(&self) -> Answer<()> {
        self.subject.checkpoint()
    }

    fn compact(&self) -> Answer<()> {
        self.subject.compact()
    }

    fn step(&self, work: Work) -> Answer<bool> {
        self.subject.step(work)
    }

    fn check(&self) -> Answer<()> {
        self.subject.check()
    }

    fn close(&self) -> Answer<()> {
        self.subject.close()
    }

    fn usable_bytes(&self) -> u64 {
        self.subject.usable_bytes()
    }

    fn inline_bytes(&self) -> usize {
        self.subject.inline_bytes()
    }

    fn tally(&self) -> Tally {
        self.subject.tally()
    }
}
