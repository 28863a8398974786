//! What keys and values of a run look like: drawn once per run, so that runs differ more than steps do.

use std::ops::Bound;

use zonda_rt::Rng;

/// How keys are made of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// 8 bytes, big-endian: what dense pages are for.
    Number,
    /// A common prefix and a decimal number: what prefix compression is for.
    Text,
    /// 0 to 1,000 bytes; short ones are prefixes of others.
    Wild,
}

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape {
    /// All 8 bytes.
    Number,
    /// 0 to 200 bytes.
    Small,
    /// 200 to 400 bytes: some ten to a leaf.
    Some,
    /// Mostly small, some of several pages: these go to the value log.
    Mixed,
    /// Mostly of several pages: what fills a device with values.
    Large,
}

/// The data of a run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// How keys look.
    pub keys: KeyShape,
    /// Keys there are.
    pub key_count: u64,
    /// How values look.
    pub values: ValueShape,
    /// The longest value in bytes.
    pub value_bytes_max: usize,
    /// Of four writes, how many delete; more empties leaves.
    pub deletes: u64,
    /// Of 64 writes, how many wait for the device.
    pub synced: u64,
    /// The most bytes of a batch, as it may lie on the device.
    pub batch_bytes_max: u64,
    /// Of 16 batches, how many are long: these fill leaves and zones.
    pub bulk: u64,
    /// Whether batches are those of a queue: keys come in order and go in order behind them, around and around. What they leave is empty
    /// leaves, one after the other.
    pub passes: bool,
    /// Mean operations from an opening to a cut: short lives hit recovery, long ones reclaim.
    pub life_steps: u64,
    /// Of three stretches of so many operations the last has no writes; 0: there is none such.
    pub quiet_steps: u64,
}

impl Profile {
    /// Draws the data of a run whose live bytes stay below about `room_bytes`.
    #[must_use]
    pub fn draw(rng: &mut Rng, room_bytes: u64, value_bytes_max: usize) -> Self {
        let keys = *pick(rng, &[KeyShape::Number, KeyShape::Number, KeyShape::Text, KeyShape::Wild]);
        let values = *pick(rng, &[ValueShape::Number, ValueShape::Small, ValueShape::Small, ValueShape::Mixed]);
        let (deletes, synced) = (rng.below(3), rng.below(16));
        let (bulk, life_steps) = (*pick(rng, &[1, 6, 14]), *pick(rng, &[30, 80, 300]));
        let mut profile = Self {
            keys,
            key_count: 0,
            values,
            value_bytes_max,
            deletes,
            synced,
            batch_bytes_max: u64::MAX,
            bulk,
            passes: false,
            life_steps,
            quiet_steps: 0,
        };
        let most = profile.fitting(room_bytes);
        profile.key_count = 20 + most - rng.below(most).min(rng.below(most));
        profile
    }

    /// Draws the data of a run that fills `room_bytes` within a thousand operations and overwrites them: long lives, mostly large values.
    #[must_use]
    pub fn draw_filling(rng: &mut Rng, room_bytes: u64, value_bytes_max: usize) -> Self {
        let mut profile = Self::draw(rng, room_bytes, value_bytes_max);
        profile.keys = *pick(rng, &[KeyShape::Number, KeyShape::Text]);
        profile.values = *pick(rng, &[ValueShape::Large, ValueShape::Large, ValueShape::Mixed, ValueShape::Small]);
        profile.deletes = rng.below(2);
        profile.bulk = *pick(rng, &[6, 14]);
        profile.life_steps = *pick(rng, &[80, 300]);
        profile.key_count = profile.fitting(room_bytes);
        profile
    }

    /// The same as a queue of few pairs to a leaf, so that many leaves come and go.
    #[must_use]
    pub fn passing(self, room_bytes: u64) -> Self {
        let mut profile = Self { passes: true, keys: KeyShape::Number, values: ValueShape::Some, ..self };
        profile.key_count = profile.fitting(room_bytes);
        profile
    }

    /// The same of short pairs, so many that a ring of mini-pages has no room for some of each leaf.
    #[must_use]
    pub fn turning(self, room_bytes: u64) -> Self {
        let mut profile = Self { passes: false, keys: KeyShape::Number, values: ValueShape::Small, ..self };
        profile.key_count = profile.fitting(room_bytes);
        profile
    }

    /// The same with some values of up to `bytes_max`, most of them short.
    #[must_use]
    pub fn with_long_values(self, bytes_max: usize, room_bytes: u64) -> Self {
        let mut profile = Self { passes: false, values: ValueShape::Mixed, value_bytes_max: bytes_max, ..self };
        profile.key_count = profile.fitting(room_bytes);
        profile
    }

    /// Whether operation `number` of a run may not write.
    #[must_use]
    pub fn is_quiet(&self, number: u64) -> bool {
        number.checked_div(self.quiet_steps).is_some_and(|stretch| stretch % 3 == 2)
    }

    /// Keys whose pairs fill `room_bytes`.
    fn fitting(&self, room_bytes: u64) -> u64 {
        (room_bytes / self.mean_pair_bytes()).clamp(20, 12_000)
    }

    /// What a pair takes on average, generously.
    fn mean_pair_bytes(&self) -> u64 {
        let key = match self.keys {
            KeyShape::Number => 8,
            KeyShape::Text => 24,
            KeyShape::Wild => 300,
        };
        let value = match self.values {
            ValueShape::Number => 8,
            ValueShape::Small => 100,
            ValueShape::Some => 300,
            ValueShape::Mixed => 2 * BLOCK + self.value_bytes_max as u64 / 16,
            // Half of it, because it is counted twice below; and a block of padding.
            ValueShape::Large => (self.value_bytes_max as u64 / 2 + BLOCK) / 2,
        };
        2 * (key + value) + 16
    }

    /// The key numbered `number`; the order of keys is not that of numbers unless they are `Number`.
    #[must_use]
    pub fn key(&self, number: u64) -> Vec<u8> {
        match self.keys {
            KeyShape::Number => number.to_be_bytes().to_vec(),
            KeyShape::Text => format!("customer/{:04}/{number:06}", number % 7).into_bytes(),
            KeyShape::Wild => wild_key(number),
        }
    }

    /// Any key.
    pub fn any_key(&self, rng: &mut Rng) -> Vec<u8> {
        self.key(rng.below(self.key_count))
    }

    /// A key, often one of a few hot or neighbouring ones.
    pub fn hot_key(&self, rng: &mut Rng) -> Vec<u8> {
        let few = (self.key_count / 8).max(1);
        let number = if rng.chance(0.5) { rng.below(few) } else { rng.below(self.key_count) };
        self.key(number)
    }

    /// The value of write number `number`: unlike any other, as far as its length allows.
    pub fn value(&self, number: u64, rng: &mut Rng) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes(rng)];
        Rng::seeded(number).fill(&mut value);
        let stamp = number.to_le_bytes();
        let head = value.len().min(8);
        value[..head].copy_from_slice(&stamp[..head]);
        value
    }

    fn value_bytes(&self, rng: &mut Rng) -> usize {
        let most = if rng.chance(0.1) { 201 } else { 40 };
        let small = rng.index(most);
        match self.values {
            ValueShape::Number => 8,
            ValueShape::Small => small,
            ValueShape::Some => 200 + rng.index(200),
            ValueShape::Mixed if rng.chance(0.75) => small,
            ValueShape::Mixed if rng.chance(0.75) => rng.index(self.value_bytes_max.min(6_000)),
            ValueShape::Large if rng.chance(0.2) => small,
            ValueShape::Mixed | ValueShape::Large => rng.index(self.value_bytes_max),
        }
    }

    /// A range of keys: half of them open at an end, some empty.
    pub fn range(&self, rng: &mut Rng) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (a, b) = (self.bound(rng), self.bound(rng));
        if key_of(&a) <= key_of(&b) || rng.chance(0.05) { (a, b) } else { (b, a) }
    }

    fn bound(&self, rng: &mut Rng) -> Bound<Vec<u8>> {
        match rng.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.any_key(rng)),
            _ => Bound::Included(self.any_key(rng)),
        }
    }
}

const BLOCK: u64 = 4096;

/// 0 to 1,000 bytes; equal numbers give equal keys, and number 0 the empty one.
fn wild_key(number: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(number % 5);
    let prefix = if number == 0 { 0 } else { rng.index(4) * rng.index(300) };
    let mut key = vec![0; prefix];
    rng.fill(&mut key);
    if number != 0 {
        key.extend_from_slice(&number.to_be_bytes()[Rng::seeded(number).index(6)..]);
        key.extend(std::iter::repeat_n(b'~', (number * 7 % 90) as usize));
    }
    key
}

fn key_of(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}

/// One of several.
pub(crate) fn pick<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.index(of.len())]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_give_different_keys_within_the_limits() {
        for keys in [KeyShape::Number, KeyShape::Text, KeyShape::Wild] {
            let profile = Profile { keys, ..Profile::draw(&mut Rng::seeded(1), 1 << 20, 1 << 14) };
            let all: BTreeSet<_> = (0..4_000).map(|number| profile.key(number)).collect();
            assert_eq!(all.len(), 4_000, "{keys:?}");
            assert!(all.iter().all(|key| key.len() <= 1_000));
        }
    }

    #[test]
    fn values_are_told_apart() {
        let profile = Profile { values: ValueShape::Number, ..Profile::draw(&mut Rng::seeded(1), 1 << 20, 1 << 14) };
        let mut rng = Rng::seeded(2);
        assert_ne!(profile.value(1, &mut rng), profile.value(2, &mut rng));
    }
}
