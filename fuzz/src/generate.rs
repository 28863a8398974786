//! Seeded inputs: random bytes, and valid inputs with damage.

use zonda_rt::Rng;

use crate::Target;

/// Random inputs have at most this many bytes: two blocks.
const RANDOM_BYTES_MAX: usize = 8192;

/// The blocks of our devices.
const BLOCK_BYTES: usize = 4096;

/// A mutated input grows by at most this many bytes at a time.
const GROWTH_BYTES_MAX: usize = 64;

/// At most this many mutations are applied to one input.
const MUTATIONS_MAX: u64 = 8;

/// Numbers that decoders mishandle: limits of integers and lengths, and their neighbours.
const EDGE_NUMBERS: [u64; 14] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 4095, 4096, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX >> 1, u64::MAX];

/// Makes the inputs of one target: the same seed and index give the same input, in any order.
pub struct Generator {
    target: &'static Target,
    valid: Vec<Vec<u8>>,
    seed: u64,
}

impl Generator {
    /// A generator for `target` from `seed`.
    pub fn new(target: &'static Target, seed: u64) -> Self {
        Self { target, valid: (target.valid)(), seed }
    }

    /// Input number `index`. The valid inputs come first, unchanged; then one in eight is random bytes, the others are
    /// mutations of a valid one, every second of them with its checksums made right.
    pub fn input(&self, index: u64) -> Vec<u8> {
        if let Some(valid) = usize::try_from(index).ok().and_then(|index| self.valid.get(index)) {
            return valid.clone();
        }
        let mut rng = Rng::seeded(self.seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        if self.valid.is_empty() || rng.below(8) == 0 {
            return random_bytes(&mut rng, RANDOM_BYTES_MAX);
        }
        let mut input = self.valid[rng.index(self.valid.len())].clone();
        for _ in 0..=rng.below(MUTATIONS_MAX) {
            mutate(&mut rng, &mut input);
        }
        if rng.below(2) == 0 {
            (self.target.seal)(&mut input);
        }
        input
    }
}

fn random_bytes(rng: &mut Rng, len_max: usize) -> Vec<u8> {
    let len_max = if rng.below(2) == 0 { len_max.min(64) } else { len_max };
    let mut bytes = vec![0; rng.index(len_max + 1)];
    rng.fill(&mut bytes);
    bytes
}

/// Damages `input` in one way.
fn mutate(rng: &mut Rng, input: &mut Vec<u8>) {
    if input.is_empty() {
        return input.extend(random_bytes(rng, GROWTH_BYTES_MAX));
    }
    let at = position(rng, input.len());
    match rng.below(8) {
        0 | 1 => input[at] ^= 1 << rng.below(8),
        2 | 3 => put_edge_number(rng, &mut input[at..]),
        4 => input.truncate(at),
        5 => input.extend(random_bytes(rng, GROWTH_BYTES_MAX)),
        6 => copy_range(rng, input, at),
        _ => fill_range(rng, &mut input[at..]),
    }
}

/// Where to damage. Headers are short and stand first, in the input and in each of its blocks: of three places one is in
/// the first 128 bytes, one in the first 128 bytes of a block, one anywhere.
fn position(rng: &mut Rng, len: usize) -> usize {
    match rng.below(3) {
        0 => rng.index(len.min(128)),
        1 => (rng.index(len.div_ceil(BLOCK_BYTES)) * BLOCK_BYTES + rng.index(128)).min(len - 1),
        _ => rng.index(len),
    }
}

/// Writes an edge number, little-endian in 1, 2, 4 or 8 bytes, or an offset of it by one.
fn put_edge_number(rng: &mut Rng, bytes: &mut [u8]) {
    let edge = EDGE_NUMBERS[rng.index(EDGE_NUMBERS.len())];
    let number = edge.wrapping_add(rng.below(3)).wrapping_sub(1);
    let width = (1 << rng.below(4)).min(bytes.len());
    bytes[..width].copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Inserts a copy of a range of the input at `at`: duplicated records, shifted fields.
fn copy_range(rng: &mut Rng, input: &mut Vec<u8>, at: usize) {
    let from = rng.index(input.len());
    let len = rng.index((input.len() - from).min(GROWTH_BYTES_MAX) + 1);
    let copy = input[from..from + len].to_vec();
    input.splice(at..at, copy);
}

/// Overwrites a range with one byte: zeros of a hole, ones of erased flash.
fn fill_range(rng: &mut Rng, bytes: &mut [u8]) {
    let len = rng.index(bytes.len() + 1);
    bytes[..len].fill(if rng.below(2) == 0 { 0 } else { 0xff });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(seed: u64) -> Vec<Vec<u8>> {
        let generator = Generator::new(&crate::TARGETS[0], seed);
        (0..500).map(|index| generator.input(index)).collect()
    }

    #[test]
    fn a_seed_replays_and_seeds_differ() {
        assert_eq!(inputs(7), inputs(7));
        assert_ne!(inputs(7), inputs(8));
    }

    #[test]
    fn valid_inputs_come_first_and_lengths_are_bounded() {
        let valid = (crate::TARGETS[0].valid)();
        let growth_max = usize::try_from(MUTATIONS_MAX).unwrap() * GROWTH_BYTES_MAX;
        let inputs = inputs(1);
        assert_eq!(inputs[..valid.len()], valid);
        assert!(inputs.iter().all(|input| input.len() <= RANDOM_BYTES_MAX + growth_max));
    }
}
