//! A decorator that makes any device fail: by script or by chance, from a seed.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use zonda_rt::{DeviceCall, Mutex, Rng, sleep};

use crate::{
    BlockDevice, DeviceCounters, DeviceError, ErrorKind, Geometry, IoQueue, Lba, Result, ZoneId, ZoneReport, ZoneState,
    ZonedDevice,
    queue::{Block, SyncQueue, Zoned},
};

/// When a fault strikes, among the operations that match it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultWhen {
    /// At the n-th only; 1 is the next.
    Nth(u64),
    /// At the n-th and all later ones.
    From(u64),
    /// At each with this probability.
    Chance(f64),
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The operation is not done and answers this error (kinds that need numbers it cannot have become `Media`).
    Error(ErrorKind),
    /// A write or append does its first blocks, then answers `Media`. Other operations are not done.
    Torn {
        /// Blocks that are written.
        blocks: u64,
    },
    /// The zone becomes read-only or offline; the operation answers so.
    Retire(ZoneState),
    /// The operation is done, later.
    Delay(Duration),
}

/// One rule: which operations, when, what happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// Only this kind of operation; `None` is any.
    pub call: Option<DeviceCall>,
    /// Only this zone; `None` is any.
    pub zone: Option<ZoneId>,
    /// At which of the matching operations.
    pub when: FaultWhen,
    /// What happens.
    pub effect: FaultEffect,
}

/// A device with faults in front of it. Clones are handles to the same device. Without rules it is the device itself,
/// with the plain queue.
///
/// Rules are asked in the order in which they were added; the first that strikes decides, delays add up. A zone that
/// retires is finished in the device below, so that its resources come free as they would.
#[derive(Debug)]
pub struct Faulty<D> {
    shared: Arc<Shared<D>>,
}

#[derive(Debug)]
struct Shared<D> {
    device: D,
    faults: Mutex<Faults>,
}

#[derive(Debug)]
struct Faults {
    rules: Vec<(Fault, u64)>,
    rng: Rng,
    retired: BTreeMap<ZoneId, ZoneState>,
    injected: u64,
}

/// An operation as the rules see it.
#[derive(Clone, Copy)]
struct Operation {
    call: DeviceCall,
    zone: Option<ZoneId>,
    at: Lba,
}

impl Fault {
    fn strikes(&self, hits: &mut u64, operation: Operation, rng: &mut Rng) -> bool {
        let matches =
            self.call.is_none_or(|c| c == operation.call) && (self.zone.is_none() || self.zone == operation.zone);
        if !matches {
            return false;
        }
        *hits += 1;
        match self.when {
            FaultWhen::Nth(n) => *hits == n,
            FaultWhen::From(n) => *hits >= n,
            FaultWhen::Chance(probability) => rng.chance(probability),
        }
    }
}

impl Faults {
    /// Asks all rules: the delay, and the first other effect that strikes.
    fn decide(&mut self, operation: Operation) -> (Duration, Option<FaultEffect>) {
        let (mut delay, mut effect) = (Duration::ZERO, None);
        for (fault, hits) in &mut self.rules {
            if !fault.strikes(hits, operation, &mut self.rng) {
                continue;
            }
            self.injected += 1;
            match fault.effect {
                FaultEffect::Delay(time) => delay += time,
                other => effect = effect.or(Some(other)),
            }
        }
        (delay, effect)
    }
}

impl<D> Clone for Faulty<D> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<D> Faulty<D> {
    /// A device without faults so far; those by chance are drawn from `seed`.
    #[must_use]
    pub fn new(device: D, seed: u64) -> Self {
        let faults = Faults { rules: Vec::new(), rng: Rng::seeded(seed), retired: BTreeMap::new(), injected: 0 };
        Self { shared: Arc::new(Shared { device, faults: Mutex::new(faults) }) }
    }

    /// Adds a rule; it counts operations from now on.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.lock().rules.push((fault, 0));
    }

    /// Removes all rules. Zones that were retired stay so.
    pub fn heal(&self) {
        self.shared.faults.lock().rules.clear();
    }

    /// How often a rule struck.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.shared.faults.lock().injected
    }

    /// The device below.
    #[must_use]
    pub fn inner(&self) -> &D {
        &self.shared.device
    }

    /// Waits as the rules say and returns what else they do to the operation.
    fn strike(&self, operation: Operation) -> Option<FaultEffect> {
        let (delay, effect) = self.shared.faults.lock().decide(operation);
        if delay > Duration::ZERO {
            sleep(delay);
        }
        effect
    }
}

impl<D: ZonedDevice> Faulty<D> {
    fn retired(&self, zone: ZoneId) -> Option<ZoneState> {
        self.shared.faults.lock().retired.get(&zone).copied()
    }

    fn at(&self, call: DeviceCall, at: Lba) -> Operation {
        Operation { call, zone: Some(self.shared.device.geometry().zone_of(at)), at }
    }

    fn on(&self, call: DeviceCall, zone: ZoneId) -> Operation {
        Operation { call, zone: Some(zone), at: self.shared.device.geometry().zone_start(zone) }
    }

    /// Retires a zone: the one below is finished for its resources. That it cannot be (it has writes in flight, say)
    /// changes nothing for the caller.
    fn retire(&self, zone: ZoneId, to: ZoneState) {
        let _freed = self.shared.device.finish(zone);
        self.shared.faults.lock().retired.insert(zone, to);
    }

    /// Lets an operation through, or says what becomes of it.
    fn check(&self, operation: Operation) -> Result<()> {
        match self.strike(operation) {
            None | Some(FaultEffect::Delay(_)) => {}
            Some(FaultEffect::Error(kind)) => return Err(injected(kind, operation)),
            Some(FaultEffect::Torn { .. }) => return Err(DeviceError::Media { at: operation.at }),
            Some(FaultEffect::Retire(to)) => self.retire(operation.zone.unwrap_or_default(), to),
        }
        let zone = operation.zone.unwrap_or_default();
        self.retired(zone).map_or(Ok(()), |state| refuse(state, zone, operation.call))
    }

    /// As [`check`](Self::check) for a write, of which a torn part may be done by `write`.
    fn check_write(&self, operation: Operation, from: &[u8], write: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
        let zone = operation.zone.unwrap_or_default();
        if let Some(state) = self.retired(zone) {
            return refuse(state, zone, operation.call);
        }
        match self.strike(operation) {
            None | Some(FaultEffect::Delay(_)) => Ok(()),
            Some(FaultEffect::Error(kind)) => Err(injected(kind, operation)),
            Some(FaultEffect::Torn { blocks }) => {
                let block = u64::from(self.shared.device.geometry().block_bytes);
                tear(from, blocks * block, write)?;
                Err(DeviceError::Media { at: operation.at.plus(blocks) })
            }
            Some(FaultEffect::Retire(to)) => {
                self.retire(zone, to);
                refuse(to, zone, operation.call)
            }
        }
    }

    fn overlay(&self, mut report: ZoneReport) -> ZoneReport {
        if let Some(state) = self.retired(report.zone) {
            report.state = state;
            report.write_pointer = None;
        }
        report
    }
}

/// Does the first part of a write, unless it is empty or all of it.
fn tear(from: &[u8], bytes: u64, write: impl FnOnce(&[u8]) -> Result<()>) -> Result<()> {
    let torn = usize::try_from(bytes).map_or(from.len(), |bytes| bytes.min(from.len()));
    if torn == 0 { Ok(()) } else { write(&from[..torn]) }
}

/// What a read-only or offline zone answers.
fn refuse(state: ZoneState, zone: ZoneId, call: DeviceCall) -> Result<()> {
    let transition = |action| Err(DeviceError::InvalidTransition { zone, from: state, action });
    match call {
        DeviceCall::Open => transition("open"),
        DeviceCall::Close => transition("close"),
        DeviceCall::Finish => transition("finish"),
        DeviceCall::Reset => transition("reset"),
        DeviceCall::Read if state == ZoneState::ReadOnly => Ok(()),
        _ if state == ZoneState::ReadOnly => Err(DeviceError::ReadOnly { zone }),
        _ => Err(DeviceError::Offline { zone }),
    }
}

fn injected(kind: ErrorKind, operation: Operation) -> DeviceError {
    let zone = operation.zone.unwrap_or_default();
    match kind {
        ErrorKind::Full => DeviceError::Full { zone },
        ErrorKind::ReadOnly => DeviceError::ReadOnly { zone },
        ErrorKind::Offline => DeviceError::Offline { zone },
        ErrorKind::SequenceLost => DeviceError::SequenceLost { zone },
        ErrorKind::TooManyActive => DeviceError::TooManyActive { zone, active: 0, max: 0 },
        ErrorKind::TooManyOpen => DeviceError::TooManyOpen { zone, open: 0, max: 0 },
        ErrorKind::Busy => DeviceError::Busy { in_flight: 0, max: 0 },
        ErrorKind::PowerLost => DeviceError::PowerLost,
        ErrorKind::Closed => DeviceError::Closed,
        ErrorKind::NotSupported => DeviceError::NotSupported { what: "an injected fault" },
        ErrorKind::NoSpaceOnHost => DeviceError::NoSpaceOnHost { path: "injected".into(), offset: 0, bytes: 0 },
        ErrorKind::Io => {
            let source = Arc::new(std::io::Error::from_raw_os_error(libc::EIO));
            DeviceError::Io { path: "injected".into(), action: "go on", source }
        }
        _ => DeviceError::Media { at: operation.at },
    }
}

impl<D: ZonedDevice + 'static> ZonedDevice for Faulty<D> {
    fn geometry(&self) -> &Geometry {
        self.shared.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> Result<Vec<ZoneReport>> {
        match self.strike(Operation { call: DeviceCall::Report, zone: None, at: Lba(0) }) {
            Some(FaultEffect::Error(kind)) => Err(injected(kind, self.on(DeviceCall::Report, first))),
            _ => Ok(self.shared.device.report(first, count)?.into_iter().map(|r| self.overlay(r)).collect()),
        }
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.check(self.at(DeviceCall::Read, at))?;
        self.shared.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let operation = self.at(DeviceCall::Write, at);
        self.check_write(operation, from, |part| self.shared.device.write(at, part))?;
        self.shared.device.write(at, from)
    }

    fn append(&self, zone: ZoneId, from: &[u8]) -> Result<Lba> {
        let operation = self.on(DeviceCall::Append, zone);
        self.check_write(operation, from, |part| self.shared.device.append(zone, part).map(|_| ()))?;
        self.shared.device.append(zone, from)
    }

    fn flush(&self) -> Result<()> {
        let operation = Operation { call: DeviceCall::Flush, zone: None, at: Lba(0) };
        match self.strike(operation) {
            Some(FaultEffect::Error(kind)) => Err(injected(kind, operation)),
            _ => self.shared.device.flush(),
        }
    }

    fn open(&self, zone: ZoneId) -> Result<()> {
        self.check(self.on(DeviceCall::Open, zone))?;
        self.shared.device.open(zone)
    }

    fn close(&self, zone: ZoneId) -> Result<()> {
        self.check(self.on(DeviceCall::Close, zone))?;
        self.shared.device.close(zone)
    }

    fn finish(&self, zone: ZoneId) -> Result<()> {
        self.check(self.on(DeviceCall::Finish, zone))?;
        self.shared.device.finish(zone)
    }

    fn reset(&self, zone: ZoneId) -> Result<()> {
        self.check(self.on(DeviceCall::Reset, zone))?;
        self.shared.device.reset(zone)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Zoned(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.device.counters()
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.shared.device.describe())
    }
}

impl<D: BlockDevice> Faulty<D> {
    fn check_block(&self, call: DeviceCall, at: Lba) -> Result<()> {
        let operation = Operation { call, zone: None, at };
        match self.strike(operation) {
            None | Some(FaultEffect::Delay(_)) => Ok(()),
            Some(FaultEffect::Error(kind)) => Err(injected(kind, operation)),
            Some(FaultEffect::Torn { .. } | FaultEffect::Retire(_)) => Err(DeviceError::Media { at }),
        }
    }

    fn check_block_write(&self, at: Lba, from: &[u8]) -> Result<()> {
        let operation = Operation { call: DeviceCall::Write, zone: None, at };
        match self.strike(operation) {
            None | Some(FaultEffect::Delay(_)) => Ok(()),
            Some(FaultEffect::Error(kind)) => Err(injected(kind, operation)),
            Some(FaultEffect::Torn { blocks }) => {
                let bytes = blocks * u64::from(self.shared.device.block_bytes());
                tear(from, bytes, |part| self.shared.device.write(at, part))?;
                Err(DeviceError::Media { at: at.plus(blocks) })
            }
            Some(FaultEffect::Retire(_)) => Err(DeviceError::Media { at }),
        }
    }
}

impl<D: BlockDevice + 'static> BlockDevice for Faulty<D> {
    fn block_bytes(&self) -> u32 {
        self.shared.device.block_bytes()
    }

    fn capacity_blocks(&self) -> u64 {
        self.shared.device.capacity_blocks()
    }

    fn read(&self, at: Lba, into: &mut [u8]) -> Result<()> {
        self.check_block(DeviceCall::Read, at)?;
        self.shared.device.read(at, into)
    }

    fn write(&self, at: Lba, from: &[u8]) -> Result<()> {
        self.check_block_write(at, from)?;
        self.shared.device.write(at, from)
    }

    fn write_stream(&self, at: Lba, from: &[u8], stream: u32) -> Result<()> {
        self.check_block_write(at, from)?;
        self.shared.device.write_stream(at, from, stream)
    }

    fn flush(&self) -> Result<()> {
        self.check_block(DeviceCall::Flush, Lba(0))?;
        self.shared.device.flush()
    }

    fn trim(&self, at: Lba, blocks: u64) -> Result<()> {
        self.check_block(DeviceCall::Trim, at)?;
        self.shared.device.trim(at, blocks)
    }

    fn queue(&self, depth: u32) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(SyncQueue::new(Block(self.clone()), depth)?))
    }

    fn counters(&self) -> DeviceCounters {
        self.shared.device.counters()
    }

    fn describe(&self) -> String {
        format!("{} with faults", self.shared.device.describe())
    }
}
