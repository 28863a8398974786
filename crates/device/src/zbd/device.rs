//! A zoned block device of Linux.
use std::{fmt, io, path::Path, sync::Arc};

use zonda_rt::{DeviceCall, device_call};

use super::{
    descriptor::Descriptor,
    failure::{Attempt, Failure},
    node::{Claim, Node},
    passthrough::Command,
    queue::UringQueue,
    sys::{self, Manage},
    zones::{After, Ticket, Way, Zones},
};
use crate::{
    DeviceCounters, DeviceError, Geometry, IoQueue, Lba, QueueKind, Result, ZoneId, ZoneMachine, ZoneReport, ZoneState,
    ZonedDevice,
    counters::Counting,
    queue::{SyncQueue, Zoned, check_depth},
};

/// How a zoned block device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZbdOptions {
    /// For reading only: beside other readers, and without changing anything.
    pub read_only: bool,
    /// For reading only, as above, and beside a writer too: see [`OpenMode::ReadBeside`](crate::OpenMode::ReadBeside).
    pub beside: bool,
    /// Kind of queue.
    pub queue: QueueKind,
    /// Write appends through the block layer even if the drive takes them as commands.
    pub no_commands: bool,
}

impl ZbdOptions {
    fn claim(&self) -> Claim {
        match (self.beside, self.read_only) {
            (true, _) => Claim::Nothing,
            (false, true) => Claim::Shared,
            (false, false) => Claim::Alone,
        }
    }
}

/// A zoned block device: an NVMe ZNS namespace, an SMR disk, null_blk. Clones are handles to the same device.
///
/// Zones that cannot be used alike (conventional ones, a last one that is smaller) are offline. An opener that may write
/// is alone with the device, closes the zones that an earlier life left open and resets those of them that hold nothing:
/// so all that is active at first is closed.
///
/// **Costs.** A write is one request for each transfer of the device's longest (`max_sectors_kb`), past the page cache;
/// a flush is one flush; a report is one ioctl for 4,096 zones. Appends are NVMe commands where the drive takes them,
/// many in flight; elsewhere writes, one in flight in each zone.
#[derive(Clone)]
pub struct ZbdDevice {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) geometry: Geometry,
    pub(super) node: Node,
    pub(super) zones: Zones,
    queue_kind: QueueKind,
    counting: Counting,
}

impl ZbdDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// `NotZoned`; `InUse` if it is mounted or somebody else has it; `WriteProtected`; `Geometry` for a shape that
    /// cannot be used; `Io`. What cannot be written again was not touched.
    pub fn open(path: impl AsRef<Path>, options: &ZbdOptions) -> Result<Self> {
        let claim = options.claim();
        let mut node = Node::open(path.as_ref(), claim)?;
        if options.no_commands {
            node.passthrough = None;
        }
        let all = sys::report(node.block(), 0, u32::MAX).map_err(|e| node.error("report the zones of", e))?;
        let geometry = geometry(&node, &all)?;
        let all = if claim == Claim::Alone { settle(&node, &geometry, all)? } else { all };
        let zones = match claim {
            Claim::Nothing => Zones::of_another(&geometry, &all)?,
            Claim::Alone | Claim::Shared => Zones::new(&geometry, &all, node.passthrough.is_some())?,
        };
        let (queue_kind, counting) = (options.queue, Counting::default());
        Ok(Self { shared: Arc::new(Shared { geometry, node, zones, queue_kind, counting }) })
    }

    /// All zones as the kernel describes them, conventional ones included.
    ///
    /// # Errors
    /// `Io`.
    pub fn describe_zones(&self) -> Result<Vec<Descriptor>> {
        let Shared { node, geometry, .. } = &*self.shared;
        device_call(DeviceCall::Report, || node.report(geometry, ZoneId(0), u32::MAX))
    }
}

/// Where a write went, or what went wrong.
pub(super) type Wrote = std::result::Result<Lba, Failure>;

/// The shape that zones of the first sequential kind have.
fn geometry(node: &Node, zones: &[Descriptor]) -> Result<Geometry> {
    let attributes = &node.attributes;
    let not_zoned = |reason| DeviceError::NotZoned { path: node.path().to_owned(), reason };
    let typical = zones.iter().find(|zone| zone.kind.is_sequential());
    let typical = typical.ok_or_else(|| not_zoned("it has no zone that is written in order"))?;
    let block_bytes = narrow("block_bytes", attributes.block_bytes)?;
    crate::geometry::check_block_bytes(block_bytes)?;
    let blocks = |sectors: u64| sectors.saturating_mul(sys::SECTOR_BYTES) / u64::from(block_bytes);
    if attributes.zone_bytes / u64::from(block_bytes) != blocks(typical.len_sectors) {
        return Err(not_zoned("its zones are not of the size that the system says"));
    }
    let max_active = attributes.max_active.map(|limit| narrow("max_active", limit)).transpose()?;
    let max_open = attributes.max_open.map(|limit| narrow("max_open", limit)).transpose()?;
    let geometry = Geometry {
        block_bytes,
        zone_size_blocks: blocks(typical.len_sectors),
        zone_capacity_blocks: blocks(typical.capacity_sectors),
        zone_count: narrow("zone_count", zones.len() as u64)?,
        // A device may state more open zones than active ones; the lower limit holds.
        max_open: max_open.map(|open| open.min(max_active.unwrap_or(u32::MAX))),
        max_active,
        append_blocks_max: append_blocks_max(node, block_bytes)?,
        ordered_queue: false,
        volatile_cache: attributes.volatile_cache,
    };
    geometry.validate()?;
    Ok(geometry)
}

/// Appends are at most what the device takes at once, also where they are writes: a command is one transfer.
fn append_blocks_max(node: &Node, block_bytes: u32) -> Result<Option<u32>> {
    let transfer = node.passthrough.as_ref().map_or(u64::MAX, |_| node.attributes.transfer_bytes_max);
    let longest = node.attributes.append_bytes_max.map(|bytes| bytes.min(transfer) / u64::from(block_bytes));
    longest.map(|blocks| narrow("append_blocks_max", blocks.max(1))).transpose()
}

fn narrow(field: &'static str, value: u64) -> Result<u32> {
    u32::try_from(value).map_err(|_| DeviceError::Geometry { field, value, min: 1, max: u32::MAX.into() })
}

/// Closes what an earlier life left open, and resets those zones of it that hold nothing: they would keep an active
/// resource for ever. Returns the zones as they are then.
fn settle(node: &Node, geometry: &Geometry, zones: Vec<Descriptor>) -> Result<Vec<Descriptor>> {
    let mut changed = false;
    for (id, zone) in (0..).map(ZoneId).zip(&zones) {
        let report = zone.report(id, geometry);
        let manage = match report.state {
            state if state.is_active() && report.written_blocks() == 0 => Manage::Reset,
            state if state.is_open() => Manage::Close,
            _ => continue,
        };
        node.manage(geometry, manage, id).map_err(|e| node.error("close the zones that were left open on", e))?;
        changed = true;
    }
    if changed { node.report(geometry, ZoneId(0), u32::MAX) } else { Ok(zones) }
}

impl Shared {
    pub(super) fn byte_of(&self, at: Lba) -> u64 {
        at.0 * u64::from(self.geometry.block_bytes)
    }

    fn start_of(&self, ticket: &Ticket) -> Lba {
        self.geometry.zone_start(ticket.grant.zone()).plus(ticket.grant.offset())
    }

    /// What a write by command is to do.
    pub(super) fn command(&self, ticket: &Ticket, append: bool) -> Command {
        match append {
            true => Command::Append(self.geometry.zone_start(ticket.grant.zone()).0),
            false => Command::Write(self.start_of(ticket).0),
        }
    }

    /// Does a write that failed once more, if it failed for want of an open resource and a zone that the device could
    /// have closed by itself was there to close: null_blk does not look for one while all active resources are taken.
    pub(super) fn or_again(&self, ticket: &Ticket, from: &[u8], append: bool, outcome: Wrote) -> Wrote {
        match outcome {
            Err(failure) if failure.errno() == libc::ETOOMANYREFS && self.close_implicit() => {
                self.write_now(ticket, from, append)
            }
            outcome => outcome,
        }
    }

    /// Closes a zone that was opened implicitly. False if there is none.
    fn close_implicit(&self) -> bool {
        let zones = self.node.report(&self.geometry, ZoneId(0), u32::MAX).unwrap_or_default();
        let is_implicit = |zone: &Descriptor| zone.state() == Some(ZoneState::ImplicitOpen);
        let found = (0..).map(ZoneId).zip(&zones).find(|(_, zone)| is_implicit(zone));
        found.is_some_and(|(zone, _)| self.node.manage(&self.geometry, Manage::Close, zone).is_ok())
    }

    /// The plain way to do a write. Returns where it went.
    fn write_now(&self, ticket: &Ticket, from: &[u8], append: bool) -> Wrote {
        let at = self.start_of(ticket);
        match (ticket.way, &self.node.passthrough) {
            (Way::Command, Some(passthrough)) if append => {
                passthrough.write(self.command(ticket, true), from, self.geometry.block_bytes).map(Lba)
            }
            (Way::Command, Some(passthrough)) => {
                let block = u64::from(self.geometry.block_bytes);
                let mut next = at.0;
                for part in from.chunks(self.node.transfer_bytes_max()) {
                    passthrough.write(Command::Write(next), part, self.geometry.block_bytes)?;
                    next += part.len() as u64 / block;
                }
                Ok(at)
            }
            _ => self.node.write(self.byte_of(at), from).map(|()| at),
        }
    }

    /// Ends a write: takes note of it, asks the device how the zone is after a failure, and says what went wrong.
    pub(super) fn end_write(&self, ticket: Ticket, bytes: usize, append: bool, outcome: Wrote) -> Result<Lba> {
        let (zone, at, way) = (ticket.grant.zone(), self.start_of(&ticket), ticket.way);
        let blocks = ticket.grant.blocks();
        let after = self.zones.end(ticket, outcome.is_ok());
        let now = if after == After::Ask || outcome.is_err() { self.describe_zone(zone) } else { None };
        if after == After::Ask {
            self.zones.resume(zone, now.as_ref())?;
        }
        let went = outcome.map_err(|failure| {
            let action = if append { "append" } else { "write" };
            self.attempt(zone, action, Some((at, blocks))).error(failure, now.as_ref())
        })?;
        // What was appended by command is where the drive says, whatever happened to others.
        if after == After::Lost && !(append && way == Way::Command) {
            return Err(DeviceError::SequenceLost { zone });
        }
        self.counting.written(bytes);
        Ok(went)
    }

    pub(super) fn end_read(&self, at: Lba, bytes: usize, outcome: io::Result<()>) -> Result<()> {
        outcome.map_err(|error| {
            let zone = self.geometry.zone_of(at);
            self.attempt(zone, "read", Some((at, 0))).error(error.into(), self.describe_zone(zone).as_ref())
        })?;
        self.counting.read(bytes);
        Ok(())
    }

    pub(super) fn end_flush(&self, outcome: Result<()>) -> Result<Lba> {
        outcome?;
        self.counting.flushed();
        Ok(Lba(0))
    }

    fn attempt(&self, zone: ZoneId, action: &'static str, at: Option<(Lba, u64)>) -> Attempt<'_> {
        let held = self.zones.held_resources();
        Attempt { path: self.node.path(), geometry: &self.geometry, zone, action, at, held }
    }

    /// How a zone is by now; `None` if the device does not even answer that.
    fn describe_zone(&self, zone: ZoneId) -> Option<Descriptor> {
        self.node.report(&self.geometry, zone, 1).ok()?.into_iter().next()
    }

    /// Changes a zone's state. What takes resources is noted before the device does it, what gives them back after.
    fn manage(
        &self,
        manage: Manage,
        zone: ZoneId,
        before: impl FnOnce(&mut ZoneMachine) -> Result<()>,
        after: impl FnOnce(&mut ZoneMachine) -> Result<()>,
    ) -> Result<()> {
        self.node.check_writable()?;
        self.zones.hold(zone, before)?;
        let mut managed = self.node.manage(&self.geometry, manage, zone);
        if matches!(&managed, Err(e) if e.raw_os_error() == Some(libc::ETOOMANYREFS)) && self.close_implicit() {
            managed = self.node.manage(&self.geometry, manage, zone);
        }
        match managed {
            Ok(()) => self.zones.release(zone, after),
            Err(error) => {
                let now = self.describe_zone(zone);
                let told = self.attempt(zone, manage.verb(), None).error(error.into(), now.as_ref());
                self.zones.resume(zone, now.as_ref()).and(Err(told))
            }
        }
    }

    fn close_zone(&self, zone: ZoneId) -> Result<()> {
        // Devices that call a closed zone without data empty refuse to close it again.
        if self.zones.is_closed(zone)? {
            return self.node.check_writable();
        }
        let check = |machine: &mut ZoneMachine| match machine.state(zone) {
            state if state.is_active() => Ok(()),
            from => Err(DeviceError::InvalidTransition { zone, from, action: "close" }),
        };
        self.manage(Manage::Close, zone, check, |machine| machine.close(zone))
    }

    fn finish_zone(&self, zone: ZoneId) -> Result<()> {
        let check = |machine: &mut ZoneMachine| machine.check_idle(zone, "finish");
        self.manage(Manage::Finish, zone, check, |machine| machine.finish(zone))?;
        self.counting.finished();
        Ok(())
    }

    fn reset_zone(&self, zone: ZoneId) -> Result<()> {
        let check = |machine: &mut ZoneMachine| machine.check_idle(zone, "reset");
        self.manage(Manage::Reset, zone, check, |machine| machine.reset(zone))?;
        self.counting.reset();
        Ok(())
    }

    /// Bytes of a read that the device is asked for; the rest is zeros. Beside a writer the device is asked how far the zone is
    /// written once a read goes further than was known.
    pub(super) fn readable_bytes(&self, at: Lba, buffer: &[u8]) -> Result<usize> {
        let blocks = self.geometry.check_buffer(buffer)?;
        let mut readable = self.zones.readable_blocks(at, blocks)?;
        if readable < blocks && self.zones.are_anothers() {
            let zone = self.geometry.zone_of(at);
            self.zones.believe(zone, &self.node.report(&self.geometry, zone, 1)?)?;
            readable = self.zones.readable_blocks(at, blocks)?;
        }
        Ok(usize::try_from(readable * u64::from(self.geometry.block_bytes)).expect("at most the buffer's length"))
    }
}

impl fmt::Debug for ZbdDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZbdDevice").field("node", &self.shared.node).finish_non_exhaustive()
    }
}

impl ZonedDevice for ZbdDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        let Shared { node, geometry, zones, .. } = &*self.shared;
        geometry.check_zone(first)?;
        let changes = zones.changes();
        let described = device_call(DeviceCall::Report, || node.report(geometry, first, count))?;
        if zones.are_anothers() {
            zones.believe(first, &described)?;
        }
        let ids = (first.0..).map(ZoneId);
        Ok(ids.zip(&described).map(|(zone, described)| zones.tell(zone, described, changes)).collect())
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        let bytes = self.shared.readable_bytes(at, into)?;
        let (data, beyond) = into.split_at_mut(bytes);
        beyond.fill(0);
        let outcome = device_call(DeviceCall::Read, || self.shared.node.read(self.shared.byte_of(at), data));
        self.shared.end_read(at, into.len(), outcome)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        device_call(DeviceCall::Write, || {
            self.shared.node.check_writable()?;
            let ticket = self.shared.zones.begin_write(at, self.shared.geometry.check_buffer(from)?)?;
            let outcome = self.shared.write_now(&ticket, from, false);
            let outcome = self.shared.or_again(&ticket, from, false, outcome);
            self.shared.end_write(ticket, from.len(), false, outcome).map(|_| ())
        })
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        device_call(DeviceCall::Append, || {
            self.shared.node.check_writable()?;
            let ticket = self.shared.zones.wait_and_append(zone, self.shared.geometry.check_buffer(from)?)?;
            let outcome = self.shared.write_now(&ticket, from, true);
            let outcome = self.shared.or_again(&ticket, from, true, outcome);
            self.shared.end_write(ticket, from.len(), true, outcome)
        })
    }

    fn flush(&self) -> Result<()> {
        self.shared.node.check_writable()?;
        let outcome = device_call(DeviceCall::Flush, || self.shared.node.flush());
        self.shared.end_flush(outcome).map(|_| ())
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        let open = |machine: &mut ZoneMachine| machine.open(zone);
        device_call(DeviceCall::Open, || self.shared.manage(Manage::Open, zone, open, |_| Ok(())))
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Close, || self.shared.close_zone(zone))
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Finish, || self.shared.finish_zone(zone))
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        device_call(DeviceCall::Reset, || self.shared.reset_zone(zone))
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        check_depth(depth)?;
        if self.shared.queue_kind != QueueKind::Sync {
            match UringQueue::new(self.clone(), depth) {
                Ok(queue) => return Ok(Box::new(queue)),
                Err(error) if self.shared.queue_kind == QueueKind::Uring => return Err(error),
                // Not there or not allowed, as in many containers: plain calls do as well.
                Err(_) => {}
            }
        }
        Ok(Box::new(SyncQueue::new(Zoned(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.counting.now()
    }

    fn describe(&self) -> String {
        self.shared.node.describe()
    }
}

/// Zones of the device that hold something.
pub(crate) fn written_zones(device: &ZbdDevice) -> Result<u32> {
    let zones = device.report(ZoneId(0), device.geometry().zone_count)?;
    let written = zones.iter().filter(|zone| !matches!(zone.state, ZoneState::Empty | ZoneState::Offline));
    Ok(u32::try_from(written.count()).expect("no more than there are zones"))
}
