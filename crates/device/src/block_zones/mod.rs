//! Zones on a part of a block device: write pointers that the device does not have, kept in a table of one block.
mod table;

use std::{fmt, sync::Arc};

use zonda_rt::{Mutex, MutexGuard};

use crate::{
    AlignedBuf, BlockDevice, DeviceCounters, DeviceError, Geometry, IoQueue, Lba, Result, ZoneId, ZoneReport,
    ZoneState, ZonedDevice,
    counters::Counting,
    geometry::within,
    queue::{SyncQueue, Zoned},
    zone_machine::{WriteGrant, ZoneMachine},
};
use table::{TABLE_BYTES, Table, ZONES_MAX};

/// Copies of the table, in front of the zones.
const TABLES: u64 = 2;

/// Zones in the first blocks of a block device, for what is written in order and thrown away as a whole: logs, a journal.
///
/// Blocks 0 and 1 hold the zone table in turns, the zones follow. Clones are handles to the same zones. What is behind
/// [`blocks`](Self::blocks) is the caller's, who also may write nothing before it.
///
/// **Cost**: a flush after writes writes one block more, the table, before it flushes the device; a reset writes the table,
/// flushes, and trims the zone. **Crash**: write pointers come back as of the last flush that returned, or later. A reset is
/// durable when it returns, so that what is written to the zone afterwards is never taken for what was there before.
#[derive(Clone)]
pub struct BlockZones {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<dyn BlockDevice>,
    geometry: Geometry,
    machine: Mutex<ZoneMachine>,
    /// Before `machine`; held over device calls.
    tables: Mutex<Written>,
    counting: Counting,
}

/// The last table that was written.
#[derive(Debug)]
struct Written {
    table: Table,
    block: AlignedBuf,
}

impl BlockZones {
    /// Makes empty zones, whatever the device holds, durably.
    ///
    /// # Errors
    /// `Geometry` for absurd numbers, more than 504 zones, or blocks of another size than 4096 bytes; `OutOfRange` if they
    /// do not fit; those of the device.
    pub fn create(device: Arc<dyn BlockDevice>, geometry: Geometry) -> Result<Self> {
        geometry.validate()?;
        within("zone_count", geometry.zone_count.into(), 1, ZONES_MAX as u64)?;
        within("block_bytes", geometry.block_bytes.into(), TABLE_BYTES as u64, TABLE_BYTES as u64)?;
        let zones = vec![(false, 0); geometry.zone_count as usize];
        let made = Self::over(device, Table { number: 0, geometry, zones })?;
        // Both copies, so that none of an earlier life has a higher number.
        made.write_table(&mut made.shared.tables.lock(), true)?;
        made.shared.device.flush()?;
        made.write_table(&mut made.shared.tables.lock(), true)?;
        made.shared.device.flush()?;
        Ok(made)
    }

    /// Opens the zones of a device, as of the last flush or later.
    ///
    /// # Errors
    /// `Damaged` if there are none, `NewerVersion`, `OutOfRange` if the device became smaller; those of the device.
    pub fn open(device: Arc<dyn BlockDevice>) -> Result<Self> {
        check_block(&*device)?;
        let mut block = AlignedBuf::with_len(TABLE_BYTES);
        let mut found = Vec::new();
        for copy in 0..TABLES {
            device.read(Lba(copy), &mut block)?;
            found.push(Table::decode(&block, copy * TABLE_BYTES as u64));
        }
        let newest = |a: &Table, b: &Table| a.number.cmp(&b.number);
        let whole = found.iter().filter_map(|table| table.as_ref().ok()).max_by(|a, b| newest(a, b)).cloned();
        match (whole, found.into_iter().find_map(Result::err)) {
            // A newer version's table must not be overwritten because an older one stands beside it.
            (_, Some(error @ DeviceError::NewerVersion { .. })) | (None, Some(error)) => Err(error),
            (Some(table), _) => Self::over(device, table),
            (None, None) => unreachable!("two tables were read"),
        }
    }

    fn over(device: Arc<dyn BlockDevice>, table: Table) -> Result<Self> {
        check_block(&*device)?;
        let geometry = Geometry { ordered_queue: true, volatile_cache: true, ..table.geometry.clone() };
        let blocks = blocks_of(&geometry);
        if blocks > device.capacity_blocks() {
            return Err(DeviceError::OutOfRange { at: Lba(0), blocks, device_blocks: device.capacity_blocks() });
        }
        let mut machine = ZoneMachine::new(geometry.clone());
        for zone in 0..geometry.zone_count {
            let (state, written) = table.state(zone as usize);
            machine.restore(ZoneId(zone), state, written)?;
        }
        let shared = Shared {
            device,
            geometry,
            machine: Mutex::new(machine),
            tables: Mutex::new(Written { table, block: AlignedBuf::with_len(TABLE_BYTES) }),
            counting: Counting::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Blocks of the device that tables and zones take.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        blocks_of(&self.shared.geometry)
    }

    /// Writes the table as it is now if it changed, or in any case; it is durable after a flush of the device.
    fn write_table(&self, written: &mut MutexGuard<'_, Written>, in_any_case: bool) -> Result<()> {
        let zones = {
            let machine = self.shared.machine.lock();
            let zone = |zone| (machine.state(zone) == ZoneState::Full, machine.written_blocks(zone));
            (0..self.shared.geometry.zone_count).map(|id| zone(ZoneId(id))).collect::<Vec<_>>()
        };
        if zones == written.table.zones && !in_any_case {
            return Ok(());
        }
        let Written { table, block } = &mut **written;
        let next = Table { number: table.number + 1, zones, ..table.clone() };
        next.encode_into(block);
        self.shared.device.write(Lba(next.number % TABLES), block)?;
        *table = next;
        Ok(())
    }

    fn lba(&self, zone: ZoneId, offset: u64) -> Lba {
        Lba(TABLES + self.shared.geometry.zone_start(zone).0 + offset)
    }

    fn write_granted(&self, grant: WriteGrant, from: &[u8]) -> Result<()> {
        let written = self.shared.device.write(self.lba(grant.zone(), grant.offset()), from);
        let ended = self.shared.machine.lock().end_write(grant, written.is_ok());
        written.and(ended)?;
        self.shared.counting.written(from.len());
        Ok(())
    }
}

fn blocks_of(geometry: &Geometry) -> u64 {
    TABLES + geometry.zone_size_blocks * u64::from(geometry.zone_count)
}

fn check_block(device: &dyn BlockDevice) -> Result<()> {
    within("block_bytes", device.block_bytes().into(), TABLE_BYTES as u64, TABLE_BYTES as u64)
}

impl fmt::Debug for BlockZones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockZones").field("geometry", &self.shared.geometry).finish_non_exhaustive()
    }
}

impl ZonedDevice for BlockZones {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        self.shared.machine.lock().report(first, count)
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let geometry = &self.shared.geometry;
        let blocks = geometry.check_buffer(into)?;
        let readable = self.shared.machine.lock().readable_blocks(at, blocks)? * u64::from(geometry.block_bytes);
        let (data, beyond) = into.split_at_mut(crate::mem::index(readable));
        if !data.is_empty() {
            self.shared.device.read(self.lba(geometry.zone_of(at), geometry.offset_in_zone(at)), data)?;
        }
        beyond.fill(0);
        self.shared.counting.read(into.len());
        Ok(())
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let blocks = self.shared.geometry.check_buffer(from)?;
        let grant = self.shared.machine.lock().begin_write(at, blocks)?;
        self.write_granted(grant, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let blocks = self.shared.geometry.check_buffer(from)?;
        let grant = self.shared.machine.lock().begin_append(zone, blocks)?;
        let at = self.shared.geometry.zone_start(zone).plus(grant.offset());
        self.write_granted(grant, from)?;
        Ok(at)
    }

    fn flush(&self) -> Result<()> {
        self.write_table(&mut self.shared.tables.lock(), false)?;
        self.shared.device.flush()?;
        self.shared.counting.flushed();
        Ok(())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.shared.machine.lock().open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.shared.machine.lock().close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.shared.machine.lock().finish(zone)?;
        self.shared.counting.finished();
        Ok(())
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        let mut tables = self.shared.tables.lock();
        let (state, written) = {
            let mut machine = self.shared.machine.lock();
            machine.check_idle(zone, "reset")?;
            let before = (machine.state(zone), machine.written_blocks(zone));
            machine.reset(zone)?;
            before
        };
        let recorded = self.write_table(&mut tables, false).and_then(|()| self.shared.device.flush());
        if let Err(error) = recorded {
            // What is written there next would be taken for what the recorded table says.
            self.shared.machine.lock().adopt(zone, state, written)?;
            return Err(error);
        }
        drop(tables);
        if written > 0 {
            self.shared.device.trim(self.lba(zone, 0), written)?;
        }
        self.shared.counting.reset();
        Ok(())
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Zoned(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        format!("zones on {}", self.shared.device.describe())
    }
}
