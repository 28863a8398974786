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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zonda_device::{BlockDevice, Geometry, MemBlockDevice, MemDevice, ZonedDevice};

    use crate::catalogue::Catalogue;
    use crate::{BLOCK_BYTES, FileKind, FilePath, FileStore, FileStoreOptions, FileTags, Placement, StoreId};

    const BYTES: usize = 5 * BLOCK_BYTES;

    /// Closes a file of which the catalogue knows nothing any more: the record of its bytes is refused, as only by a bug of ours.
    fn refuse_record_of(store: &FileStore, path: &FilePath, kind: FileKind) {
        let mut writer = store.create(path, FileTags::of(kind)).unwrap();
        store.sync_names().unwrap();
        writer.append(&[7; BYTES]).unwrap();
        writer.flush().unwrap();
        store.space().flush().unwrap();
        store.core.names.lock().catalogue = Catalogue::default();
        assert!(writer.close().is_err(), "{kind:?}");
    }

    /// What of it is in no record may be what was synced, in chunks that a mount finds: it keeps its space till then, and is given back if
    /// it is not. `mount` mounts what is there, again and again.
    fn check(mount: &dyn Fn() -> FileStore, kind: FileKind, bytes_found: usize) {
        let path = FilePath::parse("/refused").unwrap();
        let before = mount().usage().live_bytes;
        let store = mount();
        refuse_record_of(&store, &path, kind);
        assert!(store.usage().live_bytes >= before + BYTES as u64, "{kind:?}");
        drop(store);
        let store = mount();
        let extents = store.extents(&path).unwrap();
        assert_eq!(extents.iter().map(|extent| extent.bytes).sum::<u64>(), bytes_found as u64, "{kind:?}");
        let own: u64 = extents.iter().map(|extent| extent.device_bytes()).sum();
        assert_eq!(store.usage().live_bytes, before + own, "{kind:?}");
        assert_eq!(store.check().unwrap().findings, [], "{kind:?}");
    }

    #[test]
    fn what_a_refused_record_leaves_is_found_or_given_back_by_the_next_mount() {
        let found = [(FileKind::Data, 0), (FileKind::Flushed, 0), (FileKind::Log, BYTES), (FileKind::Meta, BYTES)];
        for (kind, bytes_found) in found {
            let device: Arc<dyn ZonedDevice> = Arc::new(MemDevice::new(Geometry::new(64 << 10, 24)).unwrap());
            FileStore::format(Arc::clone(&device), StoreId(1), false, FileStoreOptions::default()).unwrap();
            let mount = || FileStore::mount(Arc::clone(&device), FileStoreOptions::default()).unwrap().0;
            check(&mount, kind, bytes_found);
        }
    }

    /// There the journal has all but logs.
    #[test]
    fn so_it_is_on_a_conventional_drive() {
        for (kind, bytes_found) in [(FileKind::Data, 0), (FileKind::Log, BYTES)] {
            for placement in Placement::ALL {
                let device: Arc<dyn BlockDevice> = Arc::new(MemBlockDevice::new(4096, 40 << 8).unwrap());
                let (id, options) = (StoreId(1), FileStoreOptions::default);
                FileStore::format_on_blocks(Arc::clone(&device), placement, id, false, options()).unwrap();
                let mount = || FileStore::mount_on_blocks(Arc::clone(&device), options()).unwrap().0;
                check(&mount, kind, bytes_found);
            }
        }
    }
}
