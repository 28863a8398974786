//! The commands for random write areas on a modelled drive.
use zonda_device::{Lba, RandomWriteArea, Result, ZoneId};
use zonda_rt::modelled;

use super::{FlashZoned, WindowData};
use crate::model::Command;

impl FlashZoned {
    /// Writes to a zone, or to its window; what that costs.
    pub(super) fn write_data(&self, at: Lba, from: &[u8]) -> Result<Command> {
        let bytes = from.len() as u64;
        let committed = self.windows.as_ref().map_or(Ok(None), |windows| windows.write_window(at, from))?;
        match committed {
            Some(blocks) => {
                let zone = self.data.geometry().zone_of(at).0;
                Ok(Command::WriteWindow { zone, bytes, committed_bytes: blocks * self.block_bytes() })
            }
            None => {
                self.data.write(at, from)?;
                Ok(Command::Write { at: self.byte(at), bytes, stream: 0 })
            }
        }
    }

    /// A zone that is closed or finished loses its window; what was in it is programmed.
    pub(super) fn take_window_away(&self, zone: ZoneId) -> Result<()> {
        let Some(windows) = &self.windows else { return Ok(()) };
        let blocks = modelled(|| windows.take_away(zone))?;
        self.committed(zone, blocks);
        Ok(())
    }

    fn committed(&self, zone: ZoneId, blocks: u64) {
        if blocks > 0 {
            self.timing.perform(Command::CommitWindow { zone: zone.0, bytes: blocks * self.block_bytes() });
        }
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
        let blocks = modelled(|| self.windowed().commit_window(zone, end))?;
        self.committed(zone, blocks);
        Ok(())
    }
}
