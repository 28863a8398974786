//! What a store should hold: now, and after a power cut.

use std::collections::BTreeMap;

use crate::Change;

/// The pairs of a store.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The truth that one client knows of its store: what it holds now, and what may be lost.
///
/// Always: `now` is `durable` with all of `unsynced` applied, in order.
///
/// Of a store without a log only what a checkpoint or closing wrote is durable; a sync is not. What came later may survive leaf by leaf, as
/// leaves were merged, so that each key has its durable value or any later one, and neither the order of changes nor batches are kept.
#[derive(Clone, Debug, Default)]
pub struct Model {
    unlogged: bool,
    now: Pairs,
    durable: Pairs,
    /// Atomic units that returned, or were cut short, after the last sync. Only the last can have been cut short: there is one client.
    unsynced: Vec<Vec<Change>>,
}

impl Model {
    /// The model of an empty store without a log.
    #[must_use]
    pub fn without_log() -> Self {
        Self { unlogged: true, ..Self::default() }
    }

    /// Whether the store has no log.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.unlogged
    }

    /// What the store holds.
    #[must_use]
    pub fn now(&self) -> &Pairs {
        &self.now
    }

    /// Changes that may be lost.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.now.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    /// Bytes that the store may need for all this, generously: values of more than `inline_bytes` in blocks of their own, leaves half full,
    /// and as much again as one atomic unit changes.
    #[must_use]
    pub fn device_bytes_max(&self, unit: &[Change], inline_bytes: usize) -> u64 {
        let bytes_max = |key: &[u8], value: &[u8]| pair_bytes_max(key, value, inline_bytes);
        let now = self.now.iter().map(|(key, value)| bytes_max(key, value));
        let changes = unit.iter().map(|change| bytes_max(change.key(), change.value().unwrap_or_default()));
        now.chain(changes).sum()
    }

    /// One atomic unit was done.
    pub fn apply(&mut self, unit: Vec<Change>) {
        unit.iter().for_each(|change| apply(&mut self.now, change));
        self.unsynced.push(unit);
    }

    /// A sync, or a synced write, returned: everything done so far is durable, if there is a log.
    pub fn synced(&mut self) {
        if !self.unlogged {
            self.settle();
        }
    }

    /// A checkpoint that began after everything so far was done has returned. With a log nothing is asked of it.
    pub fn checkpointed(&mut self) {
        if self.unlogged {
            self.settle();
        }
    }

    /// The store was closed: everything is durable.
    pub fn closed(&mut self) {
        self.settle();
    }

    fn settle(&mut self) {
        for unit in self.unsynced.drain(..) {
            unit.iter().for_each(|change| apply(&mut self.durable, change));
        }
    }

    /// Takes over what a store holds after a power cut, if it may: the durable pairs and a prefix of the unsynced units; without a log the
    /// durable pairs and any later values. Answers how many units survived for certain, without a log none.
    ///
    /// # Errors
    /// What is wrong with `found`: the first key that differs from the prefix that fits best.
    pub fn recover(&mut self, found: &Pairs) -> Result<usize, String> {
        let survivors = if self.unlogged { self.values_survive(found).map(|()| 0)? } else { self.survivors(found)? };
        self.now.clone_from(found);
        self.durable.clone_from(found);
        self.unsynced.clear();
        Ok(survivors)
    }

    /// The longest prefix of unsynced units that explains `found` (I4).
    fn survivors(&self, found: &Pairs) -> Result<usize, String> {
        let mut state = self.durable.clone();
        let mut longest = (state == *found).then_some(0);
        let mut closest = (distance(&state, found), 0, difference(&state, found));
        for (before, unit) in self.unsynced.iter().enumerate() {
            unit.iter().for_each(|change| apply(&mut state, change));
            if state == *found {
                longest = Some(before + 1);
            }
            let away = distance(&state, found);
            if away < closest.0 {
                closest = (away, before + 1, difference(&state, found));
            }
        }
        longest.ok_or_else(|| self.explain(closest))
    }

    /// Each key has its durable value or one that it was given since.
    fn values_survive(&self, found: &Pairs) -> Result<(), String> {
        let mut legal: BTreeMap<&[u8], Vec<Option<&[u8]>>> = BTreeMap::new();
        for (key, value) in &self.durable {
            legal.insert(key, vec![Some(value)]);
        }
        for change in self.unsynced.iter().flatten() {
            legal.entry(change.key()).or_insert_with(|| vec![None]).push(change.value());
        }
        let found_value = |key: &[u8]| found.get(key).map(Vec::as_slice);
        let wrong = legal.iter().find(|(key, values)| !values.contains(&found_value(key))).map(|(key, _)| *key);
        let unknown = || found.keys().map(Vec::as_slice).find(|key| !legal.contains_key(key));
        let Some(key) = wrong.or_else(unknown) else { return Ok(()) };
        let (now, durable) = (show_value(found.get(key)), show_value(self.durable.get(key)));
        Err(format!("I4 without a log {} holds {now}, neither the durable {durable} nor a later value", show(key)))
    }

    fn explain(&self, (away, units, difference): (usize, usize, Option<String>)) -> String {
        let difference = difference.expect("a state that differs has a first difference");
        format!(
            "I4 no prefix of the {} unsynced changes explains what was found; with {units} of them {away} keys differ, first {difference}",
            self.unsynced.len()
        )
    }
}

/// Bytes that a pair may take on the device, generously, where values of more than `inline_bytes` have blocks of their own.
pub(crate) fn pair_bytes_max(key: &[u8], value: &[u8], inline_bytes: usize) -> u64 {
    const BLOCK: usize = 4096;
    let inline = 2 * (key.len() + value.len().min(64) + 32);
    let blocks =
        if value.len() > inline_bytes { (value.len() + key.len() + 200).next_multiple_of(BLOCK) + BLOCK } else { 0 };
    (inline + blocks) as u64
}

/// Changes one key.
pub(crate) fn apply(pairs: &mut Pairs, change: &Change) {
    match change {
        Change::Put { key, value } => drop(pairs.insert(key.clone(), value.clone())),
        Change::Delete { key } => drop(pairs.remove(key)),
    }
}

/// The first key in which `found` differs from `expected`, in words.
#[must_use]
pub fn difference(expected: &Pairs, found: &Pairs) -> Option<String> {
    let keys = expected.keys().chain(found.keys());
    let key = keys.filter(|key| expected.get(*key) != found.get(*key)).min()?;
    let (expected, found) = (expected.get(key), found.get(key));
    Some(format!("{}: expected {}, found {}", show(key), show_value(expected), show_value(found)))
}

fn distance(a: &Pairs, b: &Pairs) -> usize {
    let missing = a.iter().filter(|(key, value)| b.get(*key) != Some(value)).count();
    missing + b.keys().filter(|key| !a.contains_key(*key)).count()
}

/// Bytes for people: the first 16 in hexadecimal, and how many there are.
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    let head: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let rest = if bytes.len() > 16 { ".." } else { "" };
    format!("{head}{rest} ({} bytes)", bytes.len())
}

/// A value, or that there is none.
#[must_use]
pub fn show_value(value: Option<&Vec<u8>>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| show(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: u8, value: u8) -> Change {
        Change::Put { key: vec![key], value: vec![value] }
    }

    fn pairs(of: &[(u8, u8)]) -> Pairs {
        of.iter().map(|&(key, value)| (vec![key], vec![value])).collect()
    }

    fn model() -> Model {
        let mut model = Model::default();
        model.apply(vec![put(1, 1)]);
        model.synced();
        model.apply(vec![put(1, 2), put(2, 2)]);
        model.apply(vec![Change::Delete { key: vec![1] }]);
        model
    }

    #[test]
    fn every_prefix_may_survive() {
        for (survivors, found) in [(0, pairs(&[(1, 1)])), (1, pairs(&[(1, 2), (2, 2)])), (2, pairs(&[(2, 2)]))] {
            assert_eq!(model().recover(&found), Ok(survivors));
        }
    }

    #[test]
    fn nothing_else_may() {
        for found in [pairs(&[]), pairs(&[(1, 2)]), pairs(&[(1, 1), (2, 2)]), pairs(&[(1, 1), (3, 3)])] {
            assert!(model().recover(&found).unwrap_err().contains("I4"));
        }
    }

    #[test]
    fn without_a_log_each_key_has_its_checkpointed_value_or_a_later_one() {
        let model = || {
            let mut model = Model::without_log();
            model.apply(vec![put(1, 1), put(3, 3)]);
            model.checkpointed();
            model.apply(vec![put(1, 2), put(2, 2)]);
            model.synced();
            model.apply(vec![Change::Delete { key: vec![1] }]);
            model
        };
        for found in [&[(1, 1), (3, 3)][..], &[(3, 3)], &[(1, 2), (3, 3)], &[(2, 2), (3, 3)], &[(1, 1), (2, 2), (3, 3)]]
        {
            assert_eq!(model().recover(&pairs(found)), Ok(0), "{found:?}");
        }
        for found in [&[(1, 1)][..], &[], &[(1, 3), (3, 3)], &[(1, 1), (3, 3), (4, 4)], &[(1, 1), (2, 1), (3, 3)]] {
            assert!(model().recover(&pairs(found)).unwrap_err().contains("I4"), "{found:?}");
        }
        let mut closed = model();
        closed.closed();
        assert!(
            closed.clone().recover(&pairs(&[(2, 2), (3, 3)])).is_ok() && closed.recover(&pairs(&[(3, 3)])).is_err()
        );
    }

    #[test]
    fn the_recovered_state_is_durable() {
        let mut model = model();
        model.recover(&pairs(&[(1, 1)])).unwrap();
        assert!(model.recover(&pairs(&[])).is_err());
        assert_eq!((model.now().len(), model.unsynced(), model.bytes()), (1, 0, 2));
    }
}
