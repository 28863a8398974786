//! The writer of a file.

mod again;
mod blocks;

use std::sync::Arc;

use zonda_device::cut_label;
use zonda_rt::atomic::Ordering;
use zonda_rt::now;
use zonda_space::SpaceError;

use self::again::LastChunk;
use crate::blocks::Run;
use crate::change::Change;
use crate::claim::{Claim, Claimant};
use crate::file::FileState;
use crate::lanes::{Lease, OpenZone};
use crate::lsm::{Table, TableHint};
use crate::options::stream_of;
use crate::policy::{Candidate, SubzoneWish, TableKeys};
use crate::store::{Core, Counters};
use crate::tail::ChunkOf;
use crate::trace::TraceEvent;
use crate::unit;
use crate::{Extent, FileError, FileId, FileKind, FileTags, Lifetime, Result, ZoneId};

/// Appends to one file: its only writer. Created by one thread, it may be used by another.
///
/// Life cycle: 1 bytes collect in memory -> 2 the buffer is full or synced: a policy chooses a zone and they are written to
/// it; tables under a policy that [needs their keys](crate::policy::Policy::needs_keys) collect until they are synced, within
/// [`held_bytes_max`](crate::FileStoreOptions::held_bytes_max) for all of them -> 3 [`sync`](Self::sync) makes them durable -> 4
/// [`close`](Self::close), or drop. Closing writes everything and queues its record, but is no sync.
///
/// Cost: one device write per buffer; a sync of a log: one write, one flush, and a commit where names changed; of any other file: one
/// write and a commit. A commit, two flushes and the records of all changes, is shared with whoever syncs at the same time.
#[derive(Debug)]
pub struct FileWriter {
    core: Arc<Core>,
    file: Arc<FileState>,
    lease: Option<Lease>,
    /// Blocks that it was given and has not written yet.
    run: Option<Run>,
    /// What is known of the table.
    hint: Option<TableHint>,
    /// The first key of the table, where only that is known.
    first_key: Option<Vec<u8>>,
    /// Bytes that count in the store's budget of tables that wait for their keys.
    held_bytes: u64,
    /// Its bytes are written as they come, because the budget was full once.
    is_placed_early: bool,
    /// All its bytes so far are in one subzone.
    in_subzone: bool,
    /// It was longer than its subzone.
    overflows: bool,
    /// Of a meta file, what may be written once more.
    last: Option<Box<LastChunk>>,
    claim: Claim,
    is_closed: bool,
}

/// How much of the tail is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// What ends with a unit of the flash: more will come.
    Unit,
    /// All of it.
    End,
    /// All of it, and a flush will follow.
    Synced,
}

impl FileWriter {
    pub(crate) fn new(core: Arc<Core>, file: Arc<FileState>, made_by: u64) -> Self {
        file.note_queued(made_by);
        Self {
            core,
            file,
            lease: None,
            run: None,
            hint: None,
            first_key: None,
            held_bytes: 0,
            is_placed_early: false,
            in_subzone: false,
            overflows: false,
            last: None,
            claim: Claim::Usual,
            is_closed: false,
        }
    }

    /// Its number.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.file.id()
    }

    /// Bytes in all.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.file.content().size()
    }

    /// What it is.
    #[must_use]
    pub fn tags(&self) -> FileTags {
        self.file.tags()
    }

    /// Bytes that were handed to the device.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.file.content().extents.bytes()
    }

    /// What it may have of the last room, from now on.
    pub fn claim(&mut self, claim: Claim) {
        self.claim = claim;
    }

    fn claimant(&self) -> Claimant {
        (self.file.tags().kind, self.claim)
    }

    /// Says how long its data will live, or its level; what is placed already stays.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn retag(&mut self, lifetime: Lifetime, level: Option<u8>) -> Result<()> {
        let tags = FileTags { lifetime, level, ..self.file.tags() };
        self.file.set_tags(tags);
        let file = self.file.id();
        self.core.trace(|| TraceEvent::Retag { file, lifetime, level });
        self.core.record(&self.file, &Change::Retag { file, lifetime, level })
    }

    /// Says which table of which tree it is. To be called again when more is known; see [`crate::lsm`].
    ///
    /// # Errors
    /// `Stopped`.
    pub fn describe(&mut self, hint: TableHint) -> Result<()> {
        let tags = self.file.tags();
        if tags.level != Some(hint.level) {
            self.retag(tags.lifetime, Some(hint.level))?;
        }
        let (file, TableHint { tree, job, level, range }) = (self.file.id(), hint.clone());
        self.core.trace(|| TraceEvent::Describe { file, tree, job, level, range });
        self.hint = Some(hint);
        Ok(())
    }

    /// Says which key the table begins with. It counts while the range of keys is not [described](Self::describe): for a table that is
    /// placed before it is complete.
    pub fn begins_with(&mut self, key: &[u8]) {
        self.first_key = Some(key.to_owned());
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// `NoSpace`: some of the bytes may have been taken, see [`size_bytes`](Self::size_bytes). `Stopped`, `Space`.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.core.stop.check()?;
        let buffer_bytes = self.buffer_bytes();
        while !bytes.is_empty() {
            let taken = self.file.content_mut().fill(bytes, buffer_bytes);
            bytes = &bytes[taken..];
            if taken == 0 && self.may_hold(buffer_bytes as u64) {
                self.file.content_mut().hold();
            } else if taken == 0 {
                self.write_out(Until::Unit)?;
            } else {
                self.trace(|file| TraceEvent::Append { file, bytes: taken as u64 });
            }
        }
        Ok(())
    }

    /// Writes at `offset`, at most the size: what was there and behind is replaced. For writers that write whole blocks and
    /// come back to the last one.
    ///
    /// # Errors
    /// `NotAtEnd`, and those of [`append`](Self::append).
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let size = self.size_bytes();
        if offset > size {
            return Err(FileError::NotAtEnd { offset, size });
        }
        if offset < size {
            self.truncate(offset)?;
        }
        self.append(bytes)
    }

    /// Cuts the file to `size` bytes.
    ///
    /// # Errors
    /// `Longer` if it is shorter; those of [`append`](Self::append).
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        let (on_device, before) = {
            let content = self.file.content();
            (content.extents.bytes(), content.size())
        };
        if size > before {
            return Err(FileError::Longer { size: before, asked: size });
        }
        self.trace(|file| TraceEvent::Truncate { file, size });
        if size < on_device {
            return self.truncate_written(size);
        }
        self.file.content_mut().truncate_waiting(size - on_device);
        Ok(())
    }

    /// Cuts what is on the device: everything is recorded first, so that the record of the cut has something to cut.
    fn truncate_written(&mut self, size: u64) -> Result<()> {
        self.file.content_mut().truncate_waiting(0);
        self.record_written(true)?;
        let mut content = self.file.content_mut();
        let change = Change::Truncate { file: self.file.id(), size };
        self.core.record(&self.file, &change)?;
        let before: Vec<Extent> = content.extents.iter().copied().collect();
        content.extents.truncate(size);
        let kept = content.extents.iter().count();
        self.core.ground.bury(&before[kept..]);
        let shortened = content.extents.iter().last().zip(before[..kept].last());
        let cut_off = shortened.and_then(|(after, before)| before.behind(after.blocks()));
        self.core.ground.bury(cut_off.as_ref());
        Ok(())
    }

    /// Hands everything to the device, but for tables that wait for their keys; it is durable after a sync. A log or meta file that
    /// no walk of zones would find is told to the journal too: a log's bytes are there when the process dies, a meta file's when
    /// something was synced since.
    ///
    /// # Errors
    /// As [`append`](Self::append); none if nothing waits.
    pub fn flush(&mut self) -> Result<()> {
        if self.file.content().waiting() == 0 {
            return Ok(());
        }
        if self.waits_for_keys() {
            return self.core.stop.check();
        }
        self.write_all(Until::End)?;
        match self.file.tags().kind {
            // Chunks are found by walking their zone once it is durable that the file exists: seen to before the first.
            kind if !kind.is_chunked() || self.file.content().is_chunked => Ok(()),
            FileKind::Log => self.make_durable(),
            _ => self.record_written(false),
        }
    }

    fn write_all(&mut self, until: Until) -> Result<()> {
        self.core.stop.check()?;
        while self.file.content().waiting() > 0 {
            self.write_out(until)?;
        }
        self.release_held();
        Ok(())
    }

    /// Whether its bytes stay in memory until it is synced.
    fn waits_for_keys(&self) -> bool {
        let is_table = matches!(self.file.tags().kind, FileKind::Flushed | FileKind::Data);
        is_table && !self.is_placed_early && self.core.options.policy.needs_keys()
    }

    /// Whether another buffer of it may stay in memory.
    fn may_hold(&mut self, buffer_bytes: u64) -> bool {
        if !self.waits_for_keys() {
            return false;
        }
        let before = self.core.held_bytes.fetch_add(buffer_bytes, Ordering::AcqRel);
        self.held_bytes += buffer_bytes;
        if before + buffer_bytes > self.core.options.held_bytes_max {
            self.is_placed_early = true;
            self.release_held();
        }
        !self.is_placed_early
    }

    fn release_held(&mut self) {
        self.core.held_bytes.fetch_sub(std::mem::take(&mut self.held_bytes), Ordering::AcqRel);
    }

    /// Makes the file durable as it is now: its name, its bytes.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn sync(&mut self) -> Result<()> {
        self.make_durable()?;
        self.trace(|file| TraceEvent::Sync { file });
        Ok(())
    }

    fn make_durable(&mut self) -> Result<()> {
        if self.file.tags().kind == FileKind::Meta {
            // Names that a MANIFEST relies on, of a table linked or renamed for it, must not be gone where its bytes are there.
            self.core.commit_names()?;
        }
        self.write_all(Until::Synced)?;
        if self.file.is_gone() {
            // Nothing of it is recorded; but after a crash it must not have its name again and lack its bytes.
            self.core.commit_to(self.core.names.last())?;
            // Then no mount asks for them any more.
            self.bury_superseded();
            return Ok(());
        }
        if self.file.content().is_chunked {
            return self.sync_chunks();
        }
        // Names that changed before are durable with it, even where it has nothing new.
        let last = self.core.names.last();
        self.record_written(false)?;
        self.commit_queued()?;
        self.core.commit_unless_durable(last)
    }

    fn size_bytes_on_device(&self) -> u64 {
        self.file.content().extents.bytes()
    }

    fn commit_queued(&mut self) -> Result<()> {
        if let Some(number) = self.file.queued() {
            self.core.commit_to(number)?;
            self.file.note_durable(number);
        }
        Ok(())
    }

    /// Chunks are found by walking their zone, once the file exists. Changes of names become durable with them.
    fn sync_chunks(&mut self) -> Result<()> {
        self.commit_queued()?;
        self.core.commit_names()?;
        let _label = cut_label("log");
        self.core.space().flush().map_err(|error| self.core.write_failed(error))?;
        self.bury_superseded();
        Ok(())
    }

    /// Writes everything and gives up writing. Durable after [`FileStore::sync_names`](crate::FileStore::sync_names) at
    /// the latest.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) {
            return Ok(());
        }
        // What is on the device stays part of the file, even if the rest found no room.
        let flushed = self.write_rest().inspect_err(|_| self.drop_waiting());
        self.release_held();
        self.give_back_blocks();
        let recorded = self.record_written(true);
        if recorded.is_ok() {
            // What stands for them is in a record now, and who resets a zone makes records durable first.
            self.bury_superseded();
        }
        let done = flushed.and(recorded);
        self.file.end_writing();
        self.trace(|file| TraceEvent::Close { file });
        if let Some(lease) = self.lease.take() {
            self.core.release(lease, stream_of(self.file.tags().kind));
        }
        done
    }

    fn drop_waiting(&self) {
        let (waiting, size) = {
            let mut content = self.file.content_mut();
            let waiting = content.waiting();
            content.truncate_waiting(0);
            (waiting, content.size())
        };
        if waiting > 0 {
            self.trace(|file| TraceEvent::Truncate { file, size });
        }
    }

    /// Writes what waits, of a meta file once the names are durable: as for a sync.
    fn write_rest(&mut self) -> Result<()> {
        if self.file.tags().kind == FileKind::Meta && self.file.content().waiting() > 0 {
            self.core.commit_names()?;
        }
        self.write_all(Until::End)
    }

    fn trace(&self, event: impl FnOnce(FileId) -> TraceEvent) {
        self.core.trace(|| event(self.file.id()));
    }

    fn buffer_bytes(&self) -> usize {
        let options = &self.core.options;
        let is_log = self.file.tags().kind.is_chunked();
        (if is_log { options.log_buffer_bytes } else { options.write_buffer_bytes }) as usize
    }

    /// Queues the record of what was written since the last one, if there was anything. With `seal`, no chunk behind it will
    /// count.
    fn record_written(&self, seal: bool) -> Result<()> {
        let mut content = self.file.content_mut();
        self.core.record_written(&self.file, &mut content)?;
        if seal && content.is_chunked {
            content.end_chunks();
            let size = content.extents.bytes();
            self.core.record(&self.file, &Change::Seal { file: self.file.id(), size })?;
        }
        Ok(())
    }

    /// Writes the tail, or as much of it as is asked for and the zone or the run of blocks holds.
    fn write_out(&mut self, until: Until) -> Result<()> {
        self.core.check_claim(self.claim)?;
        match self.file.tags().kind {
            // As for a sync. An info log is flushed line by line, and nothing in it relies on names.
            FileKind::Meta if matches!(until, Until::Unit) => self.core.commit_names()?,
            // Chunks of a file that is in no journal are nobody's: what is acknowledged would be gone when the process dies.
            _ if self.file.content().is_chunked && self.size_bytes_on_device() == 0 => self.commit_queued()?,
            _ => {}
        }
        if self.is_in_blocks() {
            return self.write_to_blocks();
        }
        let claimant = self.claimant();
        let lease = match self.lease.take().filter(|lease| self.core.may_go_on(lease, claimant)) {
            Some(lease) => lease,
            None => match self.place()? {
                Some(lease) => lease,
                None => return self.go_on_in_blocks(),
            },
        };
        let has_room = self.write_to(lease.zone(), until);
        match has_room {
            // A split zone may be full with it, and then has a token to give back.
            Ok(false) => self.core.release(lease, stream_of(self.file.tags().kind)),
            _ => self.lease = Some(lease),
        }
        has_room?;
        self.note_zones();
        Ok(())
    }

    /// A zone; `None` if it is a log in front of blocks and must go on there.
    fn place(&mut self) -> Result<Option<Lease>> {
        let (tags, keys) = (self.file.tags(), self.keys());
        let (bytes, is_first) = {
            let content = self.file.content();
            (content.waiting(), content.extents.bytes() == 0)
        };
        let hint = self.hint.as_ref();
        let (tree, range) = (hint.map(|hint| hint.tree), keys.as_ref().map(|keys| &keys.range));
        // A table has one subzone; its tail goes into a wide zone.
        let wish = is_first.then_some(SubzoneWish { level: tags.level, tree, range });
        let candidate = Candidate { file: self.file.id(), tags: &tags, bytes, table: keys.as_ref() };
        if self.core.ground.blocks().is_some() {
            return self.core.place_in_front(&candidate);
        }
        let lease = self.core.place(&candidate, self.claim, wish.as_ref())?;
        let is_subzone = self.core.space().is_subzone(lease.zone().zone());
        if is_first {
            self.in_subzone = is_subzone;
        } else if std::mem::take(&mut self.in_subzone) {
            self.core.subzones.note_overflowing();
            self.overflows = true;
        }
        Ok(Some(lease))
    }

    /// The keys that it has, or may have.
    fn keys(&self) -> Option<TableKeys> {
        let TableHint { tree, job, level, range } = self.hint.as_ref()?;
        let expected = || self.core.follow.lock().shape.expected_range(*tree, *job, self.first_key.as_deref());
        let range = range.clone().or_else(expected)?;
        Some(TableKeys { tree: *tree, level: *level, range })
    }

    /// Counts as a table of its tree from its first byte in a zone on, not only when the MANIFEST has it.
    fn note_zones(&self) {
        let Some(TableKeys { tree, level, range }) = self.keys() else { return };
        let mut zones: Vec<ZoneId> = self.file.content().extents.iter().map(|extent| extent.zone).collect();
        zones.dedup();
        // While the names are locked it cannot go meanwhile.
        let _names = self.core.names.lock();
        if !self.file.is_gone() {
            let table = Table { level, range, zones };
            self.core.follow.lock().shape.put(tree, self.file.id(), table);
        }
    }

    /// Writes to a zone; returns whether it may have room for more.
    fn write_to(&mut self, zone: &OpenZone, until: Until) -> Result<bool> {
        let asked = now();
        let mut guard = zone.writer();
        let waited = u64::try_from(now().since(asked).as_nanos()).unwrap_or(u64::MAX);
        Counters::add(&self.core.counters.zone_wait, waited);
        let Some(writer) = guard.as_mut() else { return Ok(false) };
        let remaining = writer.remaining_blocks();
        if remaining == 0 {
            return Ok(false);
        }
        let file = Arc::clone(&self.file);
        let mut content = file.content_mut();
        let mut again = if until == Until::Synced { self.again(&content, zone) } else { None };
        let of = ChunkOf {
            store: self.core.space().identity().store,
            file: file.id(),
            offset: content.extents.bytes() - again.as_ref().map_or(0, |(last, _)| last.bytes),
            generation: zone.generation(),
        };
        let is_chunked = content.is_chunked;
        let _label = cut_label(if is_chunked { "log" } else { "table" });
        let first = content.first_waiting();
        let blocks_max = match until {
            Until::Unit => remaining.min(unit::blocks_to_end_of_unit(writer.written_blocks(), first.blocks())),
            Until::End | Until::Synced => remaining,
        };
        let image = match &mut again {
            Some((_, both)) => both.as_chunk(of, 1),
            None if is_chunked => first.as_chunk(of, blocks_max),
            None => first.as_data(blocks_max),
        };
        let device_bytes = image.blocks.len() as u64;
        // Counted before it is written: a zone that fills up may be cleaned at once.
        self.core.space().add_live(zone.zone(), device_bytes);
        let written = writer.write(image.blocks);
        zone.note_remaining(writer.remaining_blocks());
        let block = match written {
            Ok(block) => block,
            Err(error) => {
                self.core.space().sub_live(zone.zone(), device_bytes);
                drop(guard);
                if again.take().is_some() {
                    // It may be there all the same, and reach into what comes next: behind what is recorded it counts for nothing.
                    self.last = None;
                    self.core.record_written(&file, &mut content)?;
                }
                return self.failed(error);
            }
        };
        let (skip, bytes, crc) = (image.skip, image.bytes as u64, Some(image.crc));
        let extent = Extent { zone: zone.zone(), generation: zone.generation(), block, skip, bytes, crc };
        let last = self.last_of(extent, &image);
        match again.take() {
            Some((last, _)) => {
                content.wrote_again(extent);
                self.file.supersede(last);
            }
            None => content.wrote(extent),
        }
        self.last = last;
        self.note_written(extent, is_chunked);
        Ok(writer.remaining_blocks() > 0)
    }

    fn note_written(&self, extent: Extent, is_chunked: bool) {
        let (device_bytes, kind) = (extent.device_bytes(), self.file.tags().kind);
        Counters::add(&self.core.counters.written, device_bytes);
        Counters::add(&self.core.counters.writes[kind as usize], 1);
        if matches!(kind, FileKind::Flushed | FileKind::Data) {
            self.core.follow.lock().shape.wrote(extent.bytes);
        }
        if !is_chunked {
            self.core.subzones.note_table_bytes(device_bytes, self.in_subzone);
        }
        if self.overflows {
            self.core.subzones.note_overflow(device_bytes);
        }
    }

    /// A zone that fails costs nothing but the zone: the bytes are still in the tail.
    fn failed(&self, error: SpaceError) -> Result<bool> {
        match error {
            SpaceError::ZoneFailed { .. } => Ok(false),
            error => Err(self.core.write_failed(error)),
        }
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        // Whoever wants to know closes: an error here is remembered by the store if it stops it, and the bytes of a
        // file that was never synced are promised to nobody.
        let _unheard = self.finish();
    }
}
