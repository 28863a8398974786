//! Copies a live extent out of the zone or group that is emptied.

use zonda_space::{AlignedBuf, BLOCK_BYTES, SpaceError, Urgency, ZoneId};

use crate::blocks::Blocks;
use crate::clean::LiveExtent;
use crate::error::is_lost;
use crate::ground::GENERATION_OF_BLOCKS;
use crate::lanes::{Lease, Request};
use crate::options::RELOCATED;
use crate::policy::Candidate;
use crate::store::Core;
use crate::{Extent, FileError, Result, unit};

/// A copy in progress.
pub(crate) struct Copying<'a> {
    core: &'a Core,
    live: &'a LiveExtent,
    is_paced: bool,
    /// Blocks that one read or write moves at most.
    blocks_max: u64,
    at_block: u64,
    crc: u32,
    copies: Vec<Extent>,
}

impl<'a> Copying<'a> {
    /// One that has not begun.
    pub(crate) fn new(core: &'a Core, live: &'a LiveExtent, is_paced: bool) -> Self {
        let blocks_max = u64::from(core.options.copy_buffer_bytes) / BLOCK_BYTES as u64;
        Self { core, live, is_paced, blocks_max, at_block: 0, crc: 0, copies: Vec::new() }
    }

    /// What was written so far.
    pub(crate) fn copies(&self) -> &[Extent] {
        &self.copies
    }

    /// Copies to zones of relocated bytes, checking the checksum; returns whether somebody still wants the copy.
    pub(crate) fn run(&mut self, lease: &mut Option<Lease>) -> Result<bool> {
        match self.copy(lease) {
            // Blocks whose file is gone are trimmed, and given to others.
            Err(FileError::Damaged { .. } | FileError::Unread { .. }) if !self.is_wanted() => Ok(false),
            copied => copied,
        }
    }

    fn is_wanted(&self) -> bool {
        self.core.names.lock().catalogue.has_extent(self.live.file, self.live.extent.place())
    }

    fn copy(&mut self, lease: &mut Option<Lease>) -> Result<bool> {
        let blocks = self.live.extent.blocks();
        while self.at_block < blocks {
            if self.core.names.lock().catalogue.inode(self.live.file).is_none() {
                return Ok(false);
            }
            let count = self.blocks_of_next_write(blocks - self.at_block, lease.as_ref());
            let mut buffer = AlignedBuf::with_len(usize::try_from(count).expect("a buffer") * BLOCK_BYTES);
            let read = self.core.ground.read(self.live.extent.block + self.at_block, &mut buffer);
            read.map_err(|error| self.unread(error))?;
            self.write(&buffer, lease)?;
            if self.is_paced {
                self.core.pace.after(buffer.len() as u64);
            }
        }
        match self.live.extent.crc {
            Some(crc) if crc != self.crc => Err(self.damaged()),
            _ => Ok(true),
        }
    }

    /// Blocks that are moved next, of those that are left.
    fn blocks_of_next_write(&self, left: u64, lease: Option<&Lease>) -> u64 {
        if left <= self.blocks_max {
            return left;
        }
        let at = lease.and_then(|lease| Some(lease.zone().writer().as_ref()?.written_blocks()));
        unit::blocks_to_end_of_unit(at.unwrap_or(0), self.blocks_max)
    }

    fn unread(&self, cause: SpaceError) -> FileError {
        if is_lost(&cause) {
            return self.damaged();
        }
        let extent = &self.live.extent;
        FileError::Unread { file: self.live.file.0, zone: extent.zone.0, block: extent.block, cause }
    }

    fn damaged(&self) -> FileError {
        let extent = &self.live.extent;
        FileError::Damaged { file: self.live.file.0, zone: extent.zone.0, block: extent.block }
    }

    /// Writes one buffer, in pieces where a zone ends.
    fn write(&mut self, mut buffer: &[u8], lease: &mut Option<Lease>) -> Result<()> {
        if let Some((blocks, _)) = self.core.ground.group(self.live.extent.zone) {
            return self.write_to_blocks(blocks, buffer);
        }
        while !buffer.is_empty() {
            let open = match lease.take() {
                Some(open) => open,
                None => self.place()?,
            };
            let written = self.write_to(&open, buffer);
            match written {
                Ok(0) => self.core.release(open, RELOCATED),
                // After an error, too: a subzone is of no lane, so that nobody else gives it up.
                _ => *lease = Some(open),
            }
            buffer = &buffer[written?..];
        }
        Ok(())
    }

    /// Writes one buffer, in pieces where a run of free blocks ends.
    fn write_to_blocks(&mut self, blocks: &Blocks, mut buffer: &[u8]) -> Result<()> {
        while !buffer.is_empty() {
            let run = self.core.allocate_for_copy((buffer.len() / BLOCK_BYTES) as u64, self.live.tags.lifetime)?;
            let (now, later) = buffer.split_at(usize::try_from(run.blocks).expect("within the buffer") * BLOCK_BYTES);
            if let Err(error) = blocks.write(run.first, now, self.live.tags.lifetime) {
                blocks.give_back(run);
                return Err(self.core.write_failed(error));
            }
            let (zone, block) = self.core.ground.place_of(blocks, run);
            self.note(zone, GENERATION_OF_BLOCKS, block, now);
            buffer = later;
        }
        Ok(())
    }

    fn place(&self) -> Result<Lease> {
        let LiveExtent { file, tags, extent } = self.live;
        let request = Request {
            stream: RELOCATED,
            file: *file,
            tags,
            urgency: Urgency::Reserve,
            free_zones_kept: self.core.lanes.reserve_now() - 1,
            finish_below_bytes: self.core.finish_below_bytes(),
        };
        let table = self.core.keys_of(*file);
        let candidate = Candidate { file: *file, tags, bytes: extent.bytes, table: table.as_ref() };
        let lease = self.core.place_by_policy(&request, &candidate)?;
        lease.ok_or_else(|| self.core.space().usage().no_space().into())
    }

    /// Writes what the zone holds of `buffer`; returns how many bytes.
    fn write_to(&mut self, lease: &Lease, buffer: &[u8]) -> Result<usize> {
        let zone = lease.zone();
        let mut guard = zone.writer();
        let Some(writer) = guard.as_mut() else { return Ok(0) };
        let blocks = writer.remaining_blocks().min((buffer.len() / BLOCK_BYTES) as u64);
        if blocks == 0 {
            return Ok(0);
        }
        let bytes = usize::try_from(blocks).expect("within the buffer") * BLOCK_BYTES;
        self.core.space().add_live(zone.zone(), bytes as u64);
        let written = writer.write(&buffer[..bytes]);
        zone.note_remaining(writer.remaining_blocks());
        match written {
            Ok(block) => {
                self.note(zone.zone(), zone.generation(), block, &buffer[..bytes]);
                Ok(bytes)
            }
            Err(error) => {
                self.core.space().sub_live(zone.zone(), bytes as u64);
                match error {
                    SpaceError::ZoneFailed { .. } => Ok(0),
                    error => Err(self.core.write_failed(error)),
                }
            }
        }
    }

    /// Adds what was written to the copies.
    fn note(&mut self, zone: ZoneId, generation: u64, block: u64, buffer: &[u8]) {
        let extent = &self.live.extent;
        let skip = if self.at_block == 0 { extent.skip } else { 0 };
        let data_at = (self.at_block * BLOCK_BYTES as u64).saturating_sub(u64::from(extent.skip));
        let bytes = (extent.bytes - data_at).min(buffer.len() as u64 - u64::from(skip));
        let data = &buffer[skip as usize..][..usize::try_from(bytes).expect("within the buffer")];
        let crc = crc32c::crc32c(data);
        self.crc = crate::crc::combine(self.crc, crc, data.len());
        let mut all = crate::extent::Extents::default();
        let next = Extent { zone, generation, block, skip, bytes, crc: Some(crc) };
        self.copies.drain(..).chain([next]).for_each(|extent| all.push(extent));
        self.copies = all.iter().copied().collect();
        self.at_block += (buffer.len() / BLOCK_BYTES) as u64;
    }
}
