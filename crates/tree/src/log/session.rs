//! The lives of a store.

use std::ops::Range;

/// One life of a store, from opening to closing or crash: its number and the first sequence number it drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Session {
    /// Numbers grow from life to life.
    pub(crate) number: u32,
    /// What `ReplayEnd::next_sequence` of the recovery said that began it.
    pub(crate) first_sequence: u64,
}

/// The sessions that the MetaLog names.
///
/// A session's numbers end where the next session begins: what an earlier life wrote beyond that was lost at its crash
/// (something before it was missing) and must not come back after the numbers were drawn again.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionTable {
    sessions: Vec<Session>,
}

impl SessionTable {
    /// Learns of a session; the newest word about a number counts.
    pub(crate) fn insert(&mut self, session: Session) {
        match self.sessions.binary_search_by_key(&session.number, |known| known.number) {
            Ok(index) => self.sessions[index] = session,
            Err(index) => self.sessions.insert(index, session),
        }
    }

    /// The sequence numbers that belong to session `number`.
    pub(crate) fn range(&self, number: u32) -> Option<Range<u64>> {
        let index = self.sessions.binary_search_by_key(&number, |known| known.number).ok()?;
        let end = self.sessions[index + 1..].iter().map(|later| later.first_sequence).min();
        Some(self.sessions[index].first_sequence..end.unwrap_or(u64::MAX))
    }

    /// Where the newest session begins: recovery had found everything below, and made it durable.
    pub(crate) fn newest_first_sequence(&self) -> u64 {
        self.sessions.iter().map(|session| session.first_sequence).max().unwrap_or(0)
    }

    /// The number for the next life.
    pub(crate) fn next_number(&self) -> u32 {
        self.sessions.last().map_or(1, |last| last.number.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_where_the_next_begins() {
        let mut table = SessionTable::default();
        assert_eq!((table.next_number(), table.range(1)), (1, None));
        for (number, first_sequence) in [(3, 20), (1, 1), (2, 10)] {
            table.insert(Session { number, first_sequence });
        }
        assert_eq!(table.range(1), Some(1..10));
        assert_eq!(table.range(3), Some(20..u64::MAX));
        assert_eq!(table.next_number(), 4);
    }
}
