//! Huge pages for long-lived memory that is read at random: fewer entries of the translation buffer, shorter walks where one misses.

use std::ptr::NonNull;

/// Asks the system to put `bytes` of memory at `at` on huge pages, where it has them and the memory is aligned to them. Advice only: nothing
/// that can be seen of the memory changes, and a refusal is no error.
pub fn prefer_huge_pages(at: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: this advice changes neither content nor protection of any memory, whoever owns it.
    unsafe {
        libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (at, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_nothing() {
        let mut memory = vec![7_u8; 1 << 20];
        prefer_huge_pages(NonNull::new(memory.as_mut_ptr()).expect("a vector"), memory.len());
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}
