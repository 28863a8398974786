//! A queue of small numbers in as few bytes as they need: two each, four from the first number on that is 65,536 or more.

use std::collections::VecDeque;

/// The queue. Numbers leave it in the order in which they came.
pub(super) enum Entries {
    /// All numbers so far are below 65,536.
    Short(VecDeque<u16>),
    /// Some is or was not.
    Long(VecDeque<u32>),
}

impl Default for Entries {
    fn default() -> Self {
        Self::Short(VecDeque::new())
    }
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(numbers) => numbers.len(),
            Self::Long(numbers) => numbers.len(),
        }
    }

    /// Memory in bytes, with room that is not used yet.
    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Short(numbers) => numbers.capacity() * size_of::<u16>(),
            Self::Long(numbers) => numbers.capacity() * size_of::<u32>(),
        };
        bytes as u64
    }

    /// Puts a number at the end.
    pub(super) fn push(&mut self, number: u32) {
        match (&mut *self, u16::try_from(number)) {
            (Self::Short(numbers), Ok(number)) => numbers.push_back(number),
            (Self::Short(numbers), Err(_)) => {
                let mut longer = VecDeque::with_capacity(numbers.capacity().max(1));
                longer.extend(numbers.iter().copied().map(u32::from));
                longer.push_back(number);
                *self = Self::Long(longer);
            }
            (Self::Long(numbers), _) => numbers.push_back(number),
        }
    }

    /// Takes the first number.
    pub(super) fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Short(numbers) => numbers.pop_front().map(u32::from),
            Self::Long(numbers) => numbers.pop_front(),
        }
    }

    /// Keeps the last of each number, in order, of those that `holds` says yes to; it is asked about the last ones first. Room is given
    /// back.
    pub(super) fn retain_last(&mut self, holds: impl FnMut(u32) -> bool) {
        match self {
            Self::Short(numbers) => retain_last(numbers, holds),
            Self::Long(numbers) => retain_last(numbers, holds),
        }
    }

    /// Gives itself room for exactly `capacity` numbers, or for those it has.
    pub(super) fn resize(&mut self, capacity: usize) {
        match self {
            Self::Short(numbers) => resize(numbers, capacity),
            Self::Long(numbers) => resize(numbers, capacity),
        }
    }
}

fn retain_last<T: Copy + Into<u32>>(numbers: &mut VecDeque<T>, mut holds: impl FnMut(u32) -> bool) {
    let end = numbers.iter().map(|&number| number.into() as usize + 1).max().unwrap_or(0);
    let mut seen = vec![0_u64; end.div_ceil(64)];
    // From the end, so that what is kept gathers there; then it moves to the front in one go.
    let mut to = numbers.len();
    for from in (0..numbers.len()).rev() {
        let number = numbers[from].into();
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if seen[word] & bit == 0 && holds(number) {
            seen[word] |= bit;
            to -= 1;
            numbers[to] = numbers[from];
        }
    }
    numbers.drain(..to);
}

fn resize<T>(numbers: &mut VecDeque<T>, capacity: usize) {
    numbers.shrink_to(capacity);
    numbers.reserve_exact(capacity.saturating_sub(numbers.len()));
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn all(mut entries: Entries) -> Vec<u32> {
        std::iter::from_fn(|| entries.pop()).collect()
    }

    #[test]
    fn numbers_leave_as_they_came_however_large() {
        let mut entries = Entries::default();
        let numbers = [0, 65_535, 7, 65_536, 3, u32::MAX, 3];
        (0..3).for_each(|number| entries.push(number));
        assert_eq!((entries.pop(), entries.pop()), (Some(0), Some(1)));
        numbers.iter().for_each(|&number| entries.push(number));
        assert_eq!(entries.len(), 8);
        assert_eq!(all(entries), [&[2][..], &numbers].concat());
    }

    #[test]
    fn the_last_of_each_number_is_kept_in_order() {
        for base in [0, 1 << 16] {
            let mut entries = Entries::default();
            [5, 1, 64, 5, 2, 1, 3, 2].into_iter().for_each(|number| entries.push(base + number));
            let mut asked = Vec::new();
            entries.retain_last(|number| {
                asked.push(number - base);
                number != base + 64
            });
            assert_eq!(asked, [2, 3, 1, 5, 64], "each once, the last first");
            assert_eq!(all(entries), [5, 1, 3, 2].map(|number| base + number));
        }
    }

    #[test]
    fn short_numbers_take_two_bytes() {
        let mut entries = Entries::default();
        entries.resize(1_000);
        (0..1_000).for_each(|number| entries.push(number));
        assert_eq!(entries.memory_bytes(), 2_000);
        entries.push(1 << 16);
        assert!((4_000..=8_100).contains(&entries.memory_bytes()), "{}", entries.memory_bytes());
        while entries.len() > 10 {
            entries.pop();
        }
        entries.resize(20);
        assert_eq!(entries.memory_bytes(), 80);
    }
}
