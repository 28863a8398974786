//! Counts of what passed and what failed.

use std::fmt;

/// Tests and checks that passed and failed.
///
/// A step that runs tests adds what they report; a step without tests counts as one check (see [`crate::step`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests and checks that passed.
    pub(crate) passed: u64,
    /// Tests and checks that failed.
    pub(crate) failed: u64,
    /// Checks that there was nothing to run for: neither passed nor failed.
    pub(crate) not_run: u64,
}

impl Tally {
    /// Nothing was counted.
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.not_run += other.not_run;
    }

    /// Counts what one line of output says, if it is a summary of cargo's test harness
    /// (`test result: ok. 3 passed; 1 failed; ...`).
    pub(crate) fn count_line(&mut self, line: &str) {
        let Some(summary) = line.trim().strip_prefix("test result: ") else {
            return;
        };
        self.passed += number_before(summary, " passed").unwrap_or(0);
        self.failed += number_before(summary, " failed").unwrap_or(0);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.not_run {
            0 => Ok(()),
            count => write!(f, ", {count} not run"),
        }
    }
}

/// The number that stands directly before the first `word` in `text`.
fn number_before(text: &str, word: &str) -> Option<u64> {
    let before = &text[..text.find(word)?];
    let digits = before.rfind(|c: char| !c.is_ascii_digit()).map_or(before, |at| &before[at + 1..]);
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(line: &str) -> (u64, u64) {
        let mut tally = Tally::default();
        tally.count_line(line);
        (tally.passed, tally.failed)
    }

    #[test]
    fn counts_summaries_of_the_test_harness_only() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s";
        assert_eq!(counted(ok), (12, 0));
        assert_eq!(counted("test result: FAILED. 3 passed; 2 failed; 0 ignored"), (3, 2));
        assert_eq!(counted("12 passed by here, 3 failed to stop"), (0, 0));
        assert_eq!(counted("test result: what?"), (0, 0));
    }
}
