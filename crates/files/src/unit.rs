//! The unit in which flash is programmed.
//!
//! A die programs one page of each of its planes at once. A drive without a write buffer programs what a write ends with as it
//! is, and the rest of that unit again when it comes: two programs on one die where one would do. So a write behind which more
//! is to come ends with a unit. Zones begin with one.

/// Blocks of a unit: 64 KiB, pages of 16 KiB on four planes. Drives with larger units have a buffer that collects them.
const UNIT_BLOCKS: u64 = 16;

/// How many of `blocks` go to block `at` of a zone, for the write to end with a unit; all, if they reach the end of none.
pub(crate) fn blocks_to_end_of_unit(at: u64, blocks: u64) -> u64 {
    let end = (at + blocks) / UNIT_BLOCKS * UNIT_BLOCKS;
    if end > at { end - at } else { blocks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_behind_the_header_of_a_zone_ends_with_a_unit_and_the_next_one_is_whole() {
        assert_eq!(blocks_to_end_of_unit(1, 256), 255);
        assert_eq!(blocks_to_end_of_unit(256, 256), 256);
        assert_eq!(blocks_to_end_of_unit(259, 256), 253);
    }

    #[test]
    fn what_reaches_no_end_goes_whole() {
        assert_eq!(blocks_to_end_of_unit(1, 14), 14);
        assert_eq!(blocks_to_end_of_unit(1, 15), 15);
        assert_eq!(blocks_to_end_of_unit(16, 1), 1);
    }
}
