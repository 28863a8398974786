//! Records what was written of an open file: by its writer when it syncs or closes, or by who moves what the writer has left behind.

use zonda_space::ZoneId;

use crate::Result;
use crate::catalogue::extensions;
use crate::change::Change;
use crate::file::{Content, FileState};
use crate::store::Core;

impl Core {
    /// Queues the record of a change of an open file; of one without a name there is nothing to record.
    ///
    /// # Errors
    /// Why it does not apply.
    pub(crate) fn record(&self, file: &FileState, change: &Change) -> Result<()> {
        let mut names = self.names.lock();
        if !file.is_gone() {
            file.note_queued(names.change(change, &self.ground)?);
        }
        Ok(())
    }

    /// Queues the record of what was written since the last one, if there was anything. `content` is the file's: what is recorded is what
    /// it has all along.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(crate) fn record_written(&self, file: &FileState, content: &mut Content) -> Result<()> {
        let (size_before, modified) = (content.recorded_bytes(), (self.options.clock_seconds)());
        let changes = extensions(file.id(), size_before, modified, content.take_unrecorded());
        changes.iter().try_for_each(|change| self.record(file, change))
    }

    /// Queues the records of what open files have in a zone that nobody writes any more. A MANIFEST has its bytes in no record while it
    /// is written, for months perhaps; after this they can be moved as others can. Its next chunks are still found by walking zones.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    pub(crate) fn record_what_is_in(&self, zone: ZoneId) -> Result<()> {
        let open = self.names.lock().open_files();
        for file in open.iter().filter(|file| file.has_writer()) {
            let is_here = file.content().unrecorded.iter().any(|extent| extent.zone == zone);
            if is_here {
                self.record_written(file, &mut file.content_mut())?;
            }
        }
        Ok(())
    }
}
