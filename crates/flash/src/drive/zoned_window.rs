//! The commands for random write areas on a modelled drive.
use zonda_device::{Lba, RandomWriteArea, Result, ZoneId};
use zonda_rt::modelled;

use super::{Committed, FlashZoned, WindowData};
use crate::model::Command;

impl FlashZoned {
    /// Writes to a zone, or to its window; what that costs. What failed costs nothing but for the part of a commit that was done.
    pub(super) fn write_data(&self, at: Lba, from: &[u8]) -> (Result<()>, Option<Command>) {
        let bytes = from.len() as u64;
        match self.windows.as_ref().map_or(Ok(None), |windows| windows.write_window(at, from)) {
            Ok(Some(Committed { blocks, outcome: Ok(()) })) => {
                let (zone, committed_bytes) = (self.data.geometry().zone_of(at).0, blocks * self.block_bytes());
                (Ok(()), Some(Command::WriteWindow { zone, bytes, committed_bytes }))
            }
            Ok(Some(committed)) => {
                let command = self.commit_command(self.data.geometry().zone_of(at), committed.blocks);
                (committed.outcome, command)
            }
            Ok(None) => {
                let written = self.data.write(at, from);
                let command = Command::Write { at: self.byte(at), bytes, stream: 0 };
                let command = written.is_ok().then_some(command);
                (written, command)
            }
            Err(error) => (Err(error), None),
        }
    }

    /// A zone that is closed or finished loses its window; what was in it is programmed.
    pub(super) fn take_window_away(&self, zone: ZoneId) -> Result<()> {
        let Some(windows) = &self.windows else { return Ok(()) };
        self.committed(zone, modelled(|| windows.take_away(zone)))
    }

    /// Programs what a commit did, all or a part of it.
    fn committed(&self, zone: ZoneId, committed: Committed) -> Result<()> {
        if let Some(command) = self.commit_command(zone, committed.blocks) {
            self.timing.perform(command);
        }
        committed.outcome
    }

    fn commit_command(&self, zone: ZoneId, blocks: u64) -> Option<Command> {
        (blocks > 0).then(|| Command::CommitWindow { zone: zone.0, bytes: blocks * self.block_bytes() })
    }

    fn block_bytes(&self) -> u64 {
        self.data.geometry().block_bytes.into()
    }

    /// The data, which the caller knows to have windows: this is called through [`RandomWriteArea`] only.
    fn windowed(&self) -> &WindowData {
        self.windows.as_deref().expect("only drives with windows hand out these commands")
    }
}

impl RandomWriteArea for FlashZoned {
    fn window_blocks(&self) -> u64 {
        self.windowed().window_blocks()
    }

    fn granule_blocks(&self) -> u64 {
        self.windowed().granule_blocks()
    }

    fn windows_max(&self) -> u32 {
        self.windowed().windows_max()
    }

    fn open_with_window(&self, zone: ZoneId) -> Result<()> {
        modelled(|| self.windowed().open_with_window(zone))?;
        self.timing.perform(Command::Open { zone: zone.0 });
        Ok(())
    }

    fn commit(&self, zone: ZoneId, end: Lba) -> Result<()> {
        self.committed(zone, modelled(|| self.windowed().commit_window(zone, end))?)
    }
}
