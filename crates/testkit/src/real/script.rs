//! What is written, as a function of its number: so whoever knows how many were acknowledged knows all that must be there.
use zonda::Db;
use zonda_rt::{Rng, Seed};

use super::RealError;

/// Every so many values one is long enough for the value log.
const LONG_EVERY: u64 = 40;
const LONG_BYTES: u64 = 6000;
const SHORT_BYTES_MAX: u64 = 400;

/// Numbered puts that go round and round over `keys` keys.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Distinct keys.
    pub keys: u64,
}

impl Script {
    fn key(&self, number: u64) -> String {
        // 7919 is prime: neighbours in time are not neighbours in the tree.
        format!("key{:08}", number % self.keys * 7919 % self.keys)
    }

    fn value(&self, number: u64) -> Vec<u8> {
        let mut rng: Rng = Seed(number).derive("script").rng();
        let long = rng.below(LONG_EVERY) == 0;
        let bytes = if long { LONG_BYTES } else { 8 + rng.below(SHORT_BYTES_MAX) };
        let mut value = number.to_le_bytes().to_vec();
        while (value.len() as u64) < bytes {
            value.extend_from_slice(&rng.next_u64().to_le_bytes());
        }
        value
    }

    /// Does put `number`, buffered.
    ///
    /// # Errors
    /// The store's.
    pub fn put(&self, db: &Db, number: u64) -> Result<(), RealError> {
        Ok(db.put(self.key(number), self.value(number))?)
    }

    /// Reads everything: the store must hold the first `n` puts and nothing else, for some `n` that is not below `acknowledged`.
    /// Returns `n`.
    ///
    /// # Errors
    /// `Wrong` says what does not hold.
    pub fn verify(&self, db: &Db, acknowledged: u64) -> Result<u64, RealError> {
        let mut newest = vec![None; usize::try_from(self.keys).unwrap_or(usize::MAX)];
        for pair in db.iter()? {
            let (key, value) = pair?;
            let number = number_of(&value)?;
            if key != self.key(number).as_bytes() || value != self.value(number) {
                return Err(RealError::Wrong(format!("put {number} is not as it was written")));
            }
            newest[usize::try_from(number % self.keys).unwrap_or(0)] = Some(number);
        }
        let count = newest.iter().flatten().max().map_or(0, |&last| last + 1);
        if count < acknowledged {
            return Err(RealError::Wrong(format!("{acknowledged} puts were acknowledged, {count} are there")));
        }
        for (slot, &found) in (0..self.keys).zip(&newest) {
            if found != self.newest_of(slot, count) {
                let wanted = self.newest_of(slot, count);
                return Err(RealError::Wrong(format!("of {count} puts: {found:?} instead of {wanted:?}")));
            }
        }
        Ok(count)
    }

    /// The last of the first `count` puts that goes to a slot.
    fn newest_of(&self, slot: u64, count: u64) -> Option<u64> {
        let behind = (count.checked_sub(slot + 1)?) % self.keys;
        Some(count - 1 - behind)
    }
}

fn number_of(value: &[u8]) -> Result<u64, RealError> {
    let bytes = value.get(..8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_le_bytes).ok_or_else(|| RealError::Wrong("a value without a number".to_owned()))
}

/// Walks the whole store.
///
/// # Errors
/// `Wrong` with everything that `check` finds.
pub fn check(db: &Db) -> Result<(), RealError> {
    let mut findings = Vec::new();
    db.check(&mut |_, _| {}, &mut |finding| findings.push(finding.to_string()))?;
    if findings.is_empty() { Ok(()) } else { Err(RealError::Wrong(findings.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_told_from_a_gap() {
        let (script, db) = (Script { keys: 5 }, Db::open("mem:?zones=40&zone_size=256KiB").unwrap());
        for number in 0..12 {
            script.put(&db, number).unwrap();
        }
        assert_eq!(script.verify(&db, 12).unwrap(), 12);
        assert!(script.verify(&db, 13).unwrap_err().to_string().contains("13 puts were acknowledged, 12 are there"));
        script.put(&db, 13).unwrap();
        assert!(script.verify(&db, 0).unwrap_err().to_string().contains("of 14 puts"));
    }
}
