//! Cleaning: what is live in a victim moves, then the victim is empty again.
use super::format::{GROUP_BLOCKS_MAX, GroupHeader};
use super::group::BLOCK;
use super::map::At;
use super::writer::{Stream, Writer, bytes_of};
use super::{Shared, no_zones};
use crate::{AlignedBuf, ErrorKind, Result, ZoneId};

/// Zones that are free after cleaning.
const FREE_AFTER: usize = 3;

impl Shared {
    /// Empties zones, those with the least live data first, until enough are free. The host's group must be written:
    /// what it overwrote in a victim is not live there any more.
    pub(super) fn clean(&self, writer: &mut Writer) -> Result<()> {
        assert!(self.groups[Stream::Host as usize].read().is_empty(), "I3 what the host wrote is on the device");
        while writer.free.len() < FREE_AFTER {
            let victim = self.victim(writer).ok_or_else(|| no_zones(writer))?;
            let moved = self.move_out(writer, victim);
            if let Err(error) = moved {
                // What was not moved is still where it was.
                self.groups[Stream::Moved as usize].write().clear();
                if !matches!(error.kind(), ErrorKind::Media | ErrorKind::Offline) {
                    return Err(error);
                }
                writer.sealed.remove(&victim);
                writer.lost += 1;
            } else {
                self.empty(writer, victim)?;
            }
        }
        Ok(())
    }

    /// The sealed zone with the least live data, if moving it gains anything.
    fn victim(&self, writer: &Writer) -> Option<u32> {
        let map = self.map.lock();
        let zone = writer.sealed.iter().copied().min_by_key(|&zone| map.live(zone))?;
        let live = map.live(zone);
        let headers = live.div_ceil(u32::try_from(GROUP_BLOCKS_MAX).expect("small"));
        (live + headers < self.zone_blocks - 1).then_some(zone)
    }

    fn move_out(&self, writer: &mut Writer, victim: u32) -> Result<()> {
        self.groups[Stream::Moved as usize].write().moved_from(victim, writer.first_sequence[victim as usize]);
        let mut offset = 0;
        let mut scratch = AlignedBuf::with_len(bytes_of(GROUP_BLOCKS_MAX));
        while let Some(header) = self.read_header(victim, offset)? {
            self.keep_trims(writer, victim, &header)?;
            self.move_group(writer, victim * self.zone_blocks + offset + 1, &header, &mut scratch)?;
            offset += 1 + u32::try_from(header.data.len()).expect("a group is small");
        }
        self.write_group(writer, Stream::Moved)
    }

    /// The header at an offset in a zone; `None` where no group begins.
    pub(super) fn read_header(&self, zone: u32, offset: u32) -> Result<Option<GroupHeader>> {
        if offset >= self.zone_blocks {
            return Ok(None);
        }
        let at = self.lba(zone * self.zone_blocks + offset);
        let mut block = AlignedBuf::with_len(BLOCK);
        self.spent.in_device(|| self.device.read(at, &mut block))?;
        match GroupHeader::decode(&block, at.0 * BLOCK as u64) {
            Ok(header) if header.data.len() < (self.zone_blocks - offset) as usize => Ok(Some(header)),
            _ => Ok(None),
        }
    }

    /// Trims of the victim that may still hide something older are written again, as far as they still hold.
    fn keep_trims(&self, writer: &mut Writer, victim: u32, header: &GroupHeader) -> Result<()> {
        if header.trims.is_empty() || !writer.has_older(header.sequence, victim) {
            return Ok(());
        }
        for &(first, blocks) in &header.trims {
            for (first, blocks) in self.unmapped(first, blocks) {
                self.make_room_for_trim(writer, Stream::Moved)?;
                self.groups[Stream::Moved as usize].write().trim(first, blocks);
            }
        }
        Ok(())
    }

    /// The parts of a range that are nowhere.
    fn unmapped(&self, first: u64, blocks: u64) -> Vec<(u64, u64)> {
        let map = self.map.lock();
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for block in (first..first + blocks).filter(|&block| map.at(block) == At::Nowhere) {
            match parts.last_mut() {
                Some((first, blocks)) if *first + *blocks == block => *blocks += 1,
                _ => parts.push((block, 1)),
            }
        }
        parts
    }

    /// Moves what is live of a group whose data begins at `base`: one read from the first to the last of it.
    fn move_group(&self, writer: &mut Writer, base: u32, header: &GroupHeader, scratch: &mut AlignedBuf) -> Result<()> {
        let live: Vec<(u32, u64)> = {
            let map = self.map.lock();
            let named = (0..).zip(&header.data).filter_map(|(index, &(block, _))| Some((index, block?)));
            named.filter(|&(index, block)| map.at(block) == At::Device(base + index)).collect()
        };
        let (Some(&(first, _)), Some(&(last, _))) = (live.first(), live.last()) else { return Ok(()) };
        let read = &mut scratch[..bytes_of((last - first + 1) as usize)];
        self.spent.in_device(|| self.device.read(self.lba(base + first), read))?;
        for (index, block) in live {
            self.make_room(writer, Stream::Moved)?;
            let bytes = &scratch[bytes_of((index - first) as usize)..][..BLOCK];
            self.groups[Stream::Moved as usize].write().push(block, bytes);
        }
        Ok(())
    }

    /// Resets a victim in which nothing is live, once that is durable and nobody reads it (I3).
    fn empty(&self, writer: &mut Writer, victim: u32) -> Result<()> {
        self.spent.in_device(|| self.device.flush())?;
        if !writer.recovering {
            writer.durable_before = writer.sequence;
        }
        let mut map = self.map.lock();
        assert_eq!(map.live(victim), 0, "I3 zone {victim} is reset with live blocks");
        while map.is_read(victim) {
            map = self.drained.wait(map);
        }
        drop(map);
        match self.spent.in_device(|| self.device.reset(ZoneId(victim))) {
            Ok(()) => writer.free.push_back(victim),
            // Read-only or offline: nothing is lost, it is only no zone to write to any more.
            Err(error) if error.kind() == ErrorKind::InvalidTransition => writer.lost += 1,
            Err(error) => return Err(error),
        }
        writer.sealed.remove(&victim);
        writer.first_sequence[victim as usize] = u64::MAX;
        writer.stats.cleaned_zones += 1;
        Ok(())
    }
}
