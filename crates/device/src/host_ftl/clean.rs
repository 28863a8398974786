//! Cleaning: what is live in a victim moves, then the victim is empty again.
use super::format::{GROUP_BLOCKS_MAX, GroupHeader};
use super::group::BLOCK;
use super::map::At;
use super::writer::{Stream, Writer, bytes_of};
use super::{Shared, no_zones};
use crate::{AlignedBuf, Completion, DeviceError, ErrorKind, Io, IoQueue, Result, ZoneId};

/// Zones that are free after cleaning.
const FREE_AFTER: usize = 3;
/// Groups of a victim that are read at once.
const GROUPS_AT_ONCE: usize = 32;
/// Memory for them, while a victim is moved.
pub(super) const CLEANING_BYTES: u64 = (GROUPS_AT_ONCE * (1 + GROUP_BLOCKS_MAX) * BLOCK) as u64;

/// Live blocks of one group, at least one, by address: where each is, and which block of the volume.
struct LiveBlocks(Vec<(u32, u64)>);

impl LiveBlocks {
    /// The address of the first, and blocks from there to the last.
    fn span(&self) -> (u32, u32) {
        let (first, last) = (self.0[0].0, self.0[self.0.len() - 1].0);
        (first, last - first + 1)
    }
}

/// Why a victim is not moved.
enum Stuck {
    /// It cannot be read.
    Read(DeviceError),
    /// What moves cannot be written: that is no fault of the victim.
    Write(DeviceError),
}

impl Shared {
    /// Empties zones, those with the least live data first, until enough are free. The host's group must be written:
    /// what it overwrote in a victim is not live there any more.
    pub(super) fn clean(&self, writer: &mut Writer) -> Result<()> {
        assert!(self.groups[Stream::Host as usize].read().is_empty(), "I3 what the host wrote is on the device");
        while writer.free.len() < FREE_AFTER {
            let victim = self.victim(writer).ok_or_else(|| no_zones(writer))?;
            let Err(stuck) = self.move_out(writer, victim) else {
                self.empty(writer, victim)?;
                continue;
            };
            // What was not moved is still where it was.
            self.groups[Stream::Moved as usize].write().clear();
            match stuck {
                Stuck::Read(error) if is_unreadable(&error) => {
                    writer.sealed.remove(&victim);
                    writer.lost += 1;
                }
                Stuck::Read(error) | Stuck::Write(error) => return Err(error),
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

    /// Moves what is live in a victim. Its groups are read many at a time: one after the other, each would wait behind
    /// whatever is being programmed, and the host with it.
    fn move_out(&self, writer: &mut Writer, victim: u32) -> std::result::Result<(), Stuck> {
        self.groups[Stream::Moved as usize].write().moved_from(victim, writer.first_sequence[victim as usize]);
        let starts = writer.group_starts[victim as usize].clone();
        let mut queue = self.device.queue(u32::try_from(GROUPS_AT_ONCE).expect("small")).map_err(Stuck::Read)?;
        for offsets in starts.chunks(GROUPS_AT_ONCE) {
            let bases: Vec<u32> = offsets.iter().map(|offset| victim * self.zone_blocks + offset).collect();
            let spans: Vec<(u32, u32)> = bases.iter().map(|&base| (base, 1)).collect();
            let mut live: Vec<LiveBlocks> = Vec::new();
            let headers = self.read_all(&mut *queue, &spans).map_err(Stuck::Read)?;
            for (base, block) in bases.into_iter().zip(headers) {
                let header = GroupHeader::decode(&block, self.lba(base).0 * BLOCK as u64).map_err(Stuck::Read)?;
                self.keep_trims(writer, victim, &header).map_err(Stuck::Write)?;
                live.extend(self.live_of(base + 1, &header));
            }
            let spans: Vec<(u32, u32)> = live.iter().map(LiveBlocks::span).collect();
            let data = self.read_all(&mut *queue, &spans).map_err(Stuck::Read)?;
            for (live, data) in live.iter().zip(data) {
                self.move_blocks(writer, live, &data).map_err(Stuck::Write)?;
            }
        }
        self.write_group(writer, Stream::Moved).map_err(Stuck::Write)
    }

    /// Reads stretches of so many blocks, all at once; in their order.
    fn read_all(&self, queue: &mut dyn IoQueue, spans: &[(u32, u32)]) -> Result<Vec<AlignedBuf>> {
        self.spent.in_device(|| {
            for (token, &(address, blocks)) in (0..).zip(spans) {
                let into = AlignedBuf::with_len(bytes_of(blocks as usize));
                queue.submit(token, Io::Read { at: self.lba(address), into }).map_err(|rejected| rejected.error)?;
            }
            let mut completions = Vec::new();
            queue.complete(spans.len(), &mut completions)?;
            completions.sort_by_key(|completion| completion.token);
            let data = |completion: Completion| {
                completion.result.map(|_| completion.buffer.expect("a read comes back with its buffer"))
            };
            completions.into_iter().map(data).collect()
        })
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

    /// What is live of a group whose data begins at `base`, if anything is.
    fn live_of(&self, base: u32, header: &GroupHeader) -> Option<LiveBlocks> {
        let map = self.map.lock();
        let named = (base..).zip(&header.data).filter_map(|(address, &(block, _))| Some((address, block?)));
        let blocks: Vec<_> = named.filter(|&(address, block)| map.at(block) == At::Device(address)).collect();
        (!blocks.is_empty()).then_some(LiveBlocks(blocks))
    }

    fn move_blocks(&self, writer: &mut Writer, live: &LiveBlocks, data: &[u8]) -> Result<()> {
        let (first, _) = live.span();
        for &(address, block) in &live.0 {
            self.make_room(writer, Stream::Moved)?;
            let bytes = &data[bytes_of((address - first) as usize)..][..BLOCK];
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
        writer.group_starts[victim as usize].clear();
        writer.stats.cleaned_zones += 1;
        Ok(())
    }
}

/// True if nobody will ever read it.
fn is_unreadable(error: &DeviceError) -> bool {
    matches!(error.kind(), ErrorKind::Media | ErrorKind::Offline | ErrorKind::Damaged)
}
