//! Huge pages for long-lived memory that is read at random: fewer entries of the translation buffer, shorter walks where one misses. And
//! none for memory that is counted by small ones.

use std::ptr::NonNull;

/// Asks the system to put `bytes` of memory at `at` on huge pages, where it has them and the memory is aligned to them. Advice only:
/// nothing that can be seen of the memory changes, and a refusal is no error.
pub fn prefer_huge_pages(at: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    advise(at, bytes, libc::MADV_HUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = (at, bytes);
}

/// Asks the system to keep huge pages away from `bytes` of memory at `at`, also where they are its habit: one that is written to for the
/// first time then holds no more than it seems to. Advice only, as above.
pub(crate) fn prefer_small_pages(at: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    advise(at, bytes, libc::MADV_NOHUGEPAGE);
    #[cfg(not(target_os = "linux"))]
    let _ = (at, bytes);
}

#[cfg(target_os = "linux")]
fn advise(at: NonNull<u8>, bytes: usize, advice: libc::c_int) {
    // SAFETY: advice on huge pages changes neither content nor protection of any memory, whoever owns it.
    unsafe {
        libc::madvise(at.as_ptr().cast(), bytes, advice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_nothing() {
        let mut memory = vec![7_u8; 1 << 20];
        let at = NonNull::new(memory.as_mut_ptr()).expect("a vector");
        prefer_huge_pages(at, memory.len());
        prefer_small_pages(at, memory.len());
        assert!(memory.iter().all(|byte| *byte == 7));
    }
}
