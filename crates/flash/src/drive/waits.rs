//! What callers waited for, by kind of command.
use crate::core::Nanos;
use crate::model::Command;

/// Commands of one kind that were answered, and the time that their callers waited for them, in the drive's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Commands.
    pub commands: u64,
    /// Sum over them from submission to answer.
    pub total_ns: Nanos,
}

/// [`Wait`]s by kind of command. Commands that are in flight together wait each for itself, so sums may exceed the time that
/// passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Reads.
    pub reads: Wait,
    /// Writes and appends.
    pub writes: Wait,
    /// Flushes.
    pub flushes: Wait,
    /// Resets of zones and subzones.
    pub resets: Wait,
    /// Finishes of zones and subzones.
    pub finishes: Wait,
    /// Everything else: opening, closing, reporting, splitting, trimming.
    pub others: Wait,
}

impl Waits {
    /// Counts an answered command.
    pub(super) fn note(&mut self, command: &Command, ns: Nanos) {
        let wait = match command {
            Command::Read { .. } | Command::ReadTold { .. } => &mut self.reads,
            Command::Write { .. }
            | Command::Append { .. }
            | Command::AppendSubzone { .. }
            | Command::WriteWindow { .. }
            | Command::CommitWindow { .. } => &mut self.writes,
            Command::Flush => &mut self.flushes,
            Command::Reset { .. } | Command::ResetSubzone { .. } => &mut self.resets,
            Command::Finish { .. } | Command::FinishSubzone { .. } | Command::FinishSplit { .. } => &mut self.finishes,
            Command::Open { .. }
            | Command::Close { .. }
            | Command::Trim { .. }
            | Command::Split { .. }
            | Command::Join { .. }
            | Command::Report => &mut self.others,
        };
        wait.commands += 1;
        wait.total_ns += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_summed_by_kind() {
        let mut waits = Waits::default();
        waits.note(&Command::Reset { zone: 3 }, 5);
        waits.note(&Command::ResetSubzone { zone: 3, index: 1 }, 7);
        waits.note(&Command::Append { zone: 3, bytes: 4096 }, 11);
        assert_eq!(waits.resets, Wait { commands: 2, total_ns: 12 });
        assert_eq!(waits.writes, Wait { commands: 1, total_ns: 11 });
        assert_eq!((waits.reads, waits.finishes), (Wait::default(), Wait::default()));
    }
}
