//! Reads a file.

use std::sync::Arc;

use zonda_space::{AlignedBuf, BLOCK_BYTES, ReadOrigin, Space, SpaceError, ZoneHeader, ZoneId};

use crate::extent::Piece;
use crate::file::FileState;
use crate::store::Core;
use crate::trace::TraceEvent;
use crate::{FileError, FileId, Result};

/// Bytes that one device read asks for at most.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Reads one file, what is appended meanwhile included. As long as it lives, so do the file's bytes, with or without a name.
#[derive(Clone, Debug)]
pub struct FileReader {
    pub(crate) core: Arc<Core>,
    pub(crate) file: Arc<FileState>,
}

impl FileReader {
    /// # Errors
    /// `Stale`.
    pub(crate) fn open(core: &Arc<Core>, file: Arc<FileState>) -> Result<Self> {
        let reader = Self { core: Arc::clone(core), file };
        let content = reader.file.content();
        content.extents.iter().try_for_each(|extent| reader.check_generation(extent))?;
        drop(content);
        Ok(reader)
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

    /// Reads from `offset` until `into` is full or the file ends; returns how many bytes. Cost: one device read per MiB
    /// and extent. Cleaning of the zones it reads waits for it.
    ///
    /// # Errors
    /// `Stale`, `Space`.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.read_told(offset, into, None)
    }

    /// The same, by somebody who may say for what: drives that guess it count how often they are right.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_told(&self, offset: u64, into: &mut [u8], origin: Option<ReadOrigin>) -> Result<usize> {
        self.read(offset, into, origin, true)
    }

    /// The same, by the file's writer, which looks at what it wrote: no trace has it.
    ///
    /// # Errors
    /// As [`read_at`](Self::read_at).
    pub fn read_own(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        self.read(offset, into, None, false)
    }

    fn read(&self, offset: u64, into: &mut [u8], origin: Option<ReadOrigin>, is_traced: bool) -> Result<usize> {
        let content = self.file.content();
        let end = offset.saturating_add(into.len() as u64);
        let mut done = 0;
        for piece in content.extents.pieces(offset..end) {
            let bytes = usize::try_from(piece.bytes).expect("no more than the buffer");
            self.read_piece(&piece, &mut into[done..done + bytes], origin)?;
            done += bytes;
        }
        if offset + done as u64 >= content.extents.bytes() {
            let at = offset + done as u64 - content.extents.bytes();
            done += content.read_waiting(at, &mut into[done..]);
        }
        if is_traced {
            self.core.trace(|| TraceEvent::Read { file: self.file.id(), offset, bytes: done as u64 });
        }
        Ok(done)
    }

    fn read_piece(&self, piece: &Piece, into: &mut [u8], origin: Option<ReadOrigin>) -> Result<()> {
        if self.core.stop.is_read_only() {
            let read = self.read_bytes(piece, into, origin);
            // First: drives may fail reads of a zone that was reset. A zone that holds the bytes' life afterwards held it meanwhile.
            check_on_device(self.core.space(), piece.extent.zone, piece.extent.generation)?;
            return read;
        }
        self.check_generation(&piece.extent)?;
        self.read_bytes(piece, into, origin)
    }

    fn read_bytes(&self, piece: &Piece, into: &mut [u8], origin: Option<ReadOrigin>) -> Result<()> {
        let mut rest = into;
        for DeviceRead { block, lead, bytes } in piece.device_reads() {
            let (now, later) = rest.split_at_mut(bytes);
            self.read_blocks((block, lead), now, origin)?;
            rest = later;
        }
        Ok(())
    }

    /// Reads bytes that begin `lead` bytes into a block; straight into the caller's buffer if that will do.
    fn read_blocks(&self, (block, lead): (u64, usize), into: &mut [u8], origin: Option<ReadOrigin>) -> Result<()> {
        let is_aligned = into.as_ptr().addr().is_multiple_of(BLOCK_BYTES) && into.len().is_multiple_of(BLOCK_BYTES);
        if lead == 0 && is_aligned {
            return Ok(self.core.ground.read_told(block, into, origin)?);
        }
        let mut blocks = AlignedBuf::with_len((lead + into.len()).next_multiple_of(BLOCK_BYTES));
        self.core.ground.read_told(block, &mut blocks, origin)?;
        into.copy_from_slice(&blocks[lead..lead + into.len()]);
        Ok(())
    }

    pub(crate) fn check_generation(&self, extent: &crate::Extent) -> Result<()> {
        let found = self.core.ground.generation_of(extent.zone);
        if found == Some(extent.generation) {
            return Ok(());
        }
        if self.core.stop.is_read_only() {
            // A zone that the live store opened while it was looked at is not known here.
            return check_on_device(self.core.space(), extent.zone, extent.generation);
        }
        Err(FileError::Stale { zone: extent.zone.0, found, expected: extent.generation })
    }
}

/// What one device read brings of a piece: `bytes` bytes from the byte `lead` of a block on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceRead {
    pub(crate) block: u64,
    pub(crate) lead: usize,
    pub(crate) bytes: usize,
}

impl Piece {
    /// The device reads that bring it, in order.
    pub(crate) fn device_reads(&self) -> impl Iterator<Item = DeviceRead> + use<> {
        let (first, block) = (u64::from(self.extent.skip) + self.from, self.extent.block);
        let (mut at, end) = (first, first + self.bytes);
        std::iter::from_fn(move || {
            let lead = at % BLOCK_BYTES as u64;
            let bytes = (end - at).min(READ_BYTES_MAX - lead);
            let read = DeviceRead {
                block: block + at / BLOCK_BYTES as u64,
                lead: usize::try_from(lead).expect("within a block"),
                bytes: usize::try_from(bytes).expect("at most 1 MiB"),
            };
            at += bytes;
            (bytes > 0).then_some(read)
        })
    }
}

/// Times that a header is read that cannot be, of a zone that has something in it.
const LOOKS: usize = 3;

/// Whether the header of a zone on the device still has this generation: somebody else may have reset it.
///
/// # Errors
/// `Stale`; `Space` if the header cannot be read although there is something in the zone.
pub(crate) fn check_on_device(space: &Space, zone: ZoneId, generation: u64) -> Result<()> {
    let found = generation_on_device(space, zone)?;
    if found == Some(generation) {
        return Ok(());
    }
    Err(FileError::Stale { zone: zone.0, found, expected: generation })
}

fn generation_on_device(space: &Space, zone: ZoneId) -> Result<Option<u64>> {
    let mut block = AlignedBuf::with_len(BLOCK_BYTES);
    let mut looks = 1;
    loop {
        match space.read(space.first_block(zone), &mut block) {
            Ok(()) => return Ok(ZoneHeader::decode(&block).ok().map(|header| header.generation)),
            // An empty zone has nothing to read.
            Err(SpaceError::Device(_)) if space.written_on_device(zone)? == 0 => return Ok(None),
            // It may have been empty then, and have been written since.
            Err(SpaceError::Device(_)) if looks < LOOKS => looks += 1,
            Err(error) => return Err(error.into()),
        }
    }
}
