//! Keys and values of a run with several clients: values name the write that left them, and are checked byte by byte.

use std::collections::BTreeMap;

use zonda_rt::Rng;

use crate::{
    history::Value,
    model::{pair_bytes_max, show},
};

/// Keys that one batch writes together, always all of them to one value.
pub(super) const GROUP: u32 = 3;
/// Keys in groups; they come first.
pub(super) const GROUPS: u32 = 2;

/// Keys of a batch at the most.
pub(super) const BATCH_MAX: u64 = 5;
/// Of values that are not long, what follows the number.
const SHORT_BYTES: usize = 60;

/// The keys of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    /// How many there are.
    pub(super) count: u32,
    /// Bytes of a key: longer keys spread over more leaves.
    key_bytes: usize,
    /// Of 16 values, how many are long.
    long: u64,
    value_bytes_max: usize,
}

impl Registers {
    pub(super) fn draw(rng: &mut Rng, value_bytes_max: usize) -> Self {
        let count = GROUPS * GROUP + 4 + u32::try_from(rng.below(16)).expect("below 16");
        Self { count, key_bytes: [8, 100, 900][rng.index(3)], long: rng.below(4), value_bytes_max }
    }

    /// The key numbered `number`. Neighbouring numbers lie apart, so that groups span leaves.
    pub(super) fn key(self, number: u32) -> Vec<u8> {
        let mut key = format!("{:02}", number * 7 % 100).into_bytes();
        key.resize(self.key_bytes - 4, b'-');
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// The number of a key.
    pub(super) fn number_of(self, key: &[u8]) -> Result<u32, String> {
        let number = key.last_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        number
            .filter(|&number| number < self.count && self.key(number) == key)
            .ok_or_else(|| format!("I5 nobody wrote the key {}", show(key)))
    }

    /// The value numbered `number`: length and bytes follow from it.
    pub(super) fn value(self, number: u64) -> Vec<u8> {
        let mut rng = Rng::seeded(number);
        let long = rng.below(16) < self.long;
        let mut value = vec![0; 8 + rng.index(if long { self.value_bytes_max } else { SHORT_BYTES })];
        rng.fill(&mut value);
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    }

    /// Bytes that all of them may take on the device, generously, each with the longest value, and as much again as one batch puts.
    pub(super) fn device_bytes_max(self, inline_bytes: usize) -> u64 {
        let value = vec![0; 8 + if self.long == 0 { SHORT_BYTES } else { self.value_bytes_max }];
        (u64::from(self.count) + BATCH_MAX) * pair_bytes_max(&self.key(0), &value, inline_bytes)
    }

    /// The keys of a group.
    pub(super) fn group(group: u32) -> impl Iterator<Item = u32> {
        group * GROUP..(group + 1) * GROUP
    }

    /// A batch is all or nothing: the keys of a group hold one value.
    pub(super) fn check_groups(self, found: &BTreeMap<u32, Value>) -> Result<(), String> {
        for group in 0..GROUPS {
            let values: Vec<Value> = Self::group(group).map(|key| found[&key]).collect();
            if values.iter().any(|value| *value != values[0]) {
                return Err(format!("I4 half a batch: the keys of group {group} hold {values:?}"));
            }
        }
        Ok(())
    }
}

/// The number of a value, every byte of which must be right.
pub(super) fn decode(registers: Registers, value: &[u8]) -> Result<u64, String> {
    let number = value.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    number
        .filter(|&number| registers.value(number) == value)
        .ok_or_else(|| format!("I5 nobody wrote the value {}", show(value)))
}
