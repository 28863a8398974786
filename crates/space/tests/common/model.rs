//! A model of what a store must hold: random operations run on both, and every difference is a bug.

use std::collections::BTreeMap;
use std::sync::Arc;

use zonda_device::{DeviceError, ZoneId, ZoneState, ZonedDevice};
use zonda_rt::Rng;
use zonda_space::{Recovered, RecoveredZone, Space, SpaceError, StreamId, Urgency, ZoneUse, ZoneWriter};

use super::{DATA_BLOCKS, blocks, byte_at, options};

/// What one allocation of a zone must hold.
#[derive(Clone, Debug)]
struct Zone {
    generation: u64,
    /// The byte that each data block is full of.
    data: Vec<u8>,
    /// Data blocks that are durable, once the header is.
    durable: Option<usize>,
    /// A reset was asked for; after a crash the zone may be back.
    reset: bool,
}

/// A store, its open writers, and the model.
pub(crate) struct Model {
    space: Space,
    writers: Vec<ZoneWriter>,
    /// Allocations of each zone, oldest first: a crash may bring back an older one until its reset is durable.
    zones: BTreeMap<ZoneId, Vec<Zone>>,
    highest_durable: u64,
    /// An opening was cut short: a zone with a header alone may appear.
    opening: bool,
}

impl Model {
    pub(crate) fn format(device: Arc<dyn ZonedDevice>) -> Result<Self, SpaceError> {
        let space = Space::format(device, super::new_store(1), &options())?;
        Ok(Self { space, writers: Vec::new(), zones: BTreeMap::new(), highest_durable: 0, opening: false })
    }

    pub(crate) fn active(&self) -> u32 {
        self.space.usage().active
    }

    /// One random operation, and the check of what it did.
    pub(crate) fn step(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        match rng.below(20) {
            0..6 => self.open(rng),
            6..14 => self.write(rng),
            14..16 => self.give_back(rng),
            16 => self.adopt(rng),
            17 => self.flush(),
            _ => self.reset(rng),
        }
    }

    fn open(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        let stream = StreamId(u8::try_from(rng.below(6)).unwrap());
        let urgency = if rng.chance(0.5) { Urgency::Foreground } else { Urgency::Reserve };
        let free_before = self.space.usage().free_zones;
        self.opening = true;
        let opened = self.space.open_zone(stream, urgency);
        self.opening = opened.as_ref().is_err_and(|error| matches!(error, SpaceError::Device(_)));
        let writer = match opened {
            Ok(writer) => writer,
            Err(SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. }) => return Ok(()),
            Err(SpaceError::NoSpace { .. }) => {
                assert!(free_before <= if urgency == Urgency::Foreground { 3 } else { 0 });
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        assert!(urgency == Urgency::Reserve || free_before > 3, "the reserve was touched");
        assert!(writer.holds().contains(stream));
        assert!(writer.generation() > self.highest_durable, "generation {} used again", writer.generation());
        let zone = Zone { generation: writer.generation(), data: Vec::new(), durable: None, reset: false };
        let allocations = self.zones.entry(writer.zone()).or_default();
        assert!(allocations.iter().all(|zone| zone.reset), "a zone that was not reset was given away");
        allocations.push(zone);
        self.writers.push(writer);
        Ok(())
    }

    fn write(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        let Some(at) = pick(rng, self.writers.len()) else { return Ok(()) };
        let writer = &self.writers[at];
        let count = (1 + rng.below(6)).min(writer.remaining_blocks());
        let byte = 1 + u8::try_from(rng.below(255)).unwrap();
        let (zone, first) = (writer.zone(), writer.next_block());
        // Whatever becomes of the call, the device may hold the blocks.
        self.current(zone).data.extend((0..count).map(|_| byte));
        assert_eq!(self.writers[at].write(&blocks(byte, count))?, first);
        if self.writers[at].is_closed() {
            self.writers.remove(at);
        }
        Ok(())
    }

    fn give_back(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        let Some(at) = pick(rng, self.writers.len()) else { return Ok(()) };
        let writer = self.writers.remove(at);
        if rng.chance(0.5) {
            self.space.seal(writer);
        }
        // Sealing tells nobody that the power is gone.
        self.space.device().report(ZoneId(0), 1)?;
        Ok(())
    }

    fn adopt(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        let Some(zone) = self.random_zone(rng, &[ZoneUse::Partial]) else { return Ok(()) };
        let writer = self.space.adopt_for_writing(zone)?;
        let known = self.current(zone).clone();
        assert_eq!(writer.generation(), known.generation);
        assert_eq!(writer.next_block(), self.space.first_block(zone) + 1 + known.data.len() as u64);
        self.writers.push(writer);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SpaceError> {
        self.space.flush()?;
        for allocations in self.zones.values_mut() {
            allocations.drain(..allocations.len() - 1);
            let zone = &mut allocations[0];
            zone.durable = Some(zone.data.len());
            self.highest_durable = self.highest_durable.max(zone.generation);
        }
        Ok(())
    }

    fn reset(&mut self, rng: &mut Rng) -> Result<(), SpaceError> {
        let Some(zone) = self.random_zone(rng, &[ZoneUse::Sealed, ZoneUse::Partial]) else { return Ok(()) };
        self.current(zone).reset = true;
        self.space.reset(zone).map(|_| ())
    }

    /// The newest allocation of a zone.
    fn current(&mut self, zone: ZoneId) -> &mut Zone {
        self.zones.get_mut(&zone).and_then(|allocations| allocations.last_mut()).expect("a zone that was opened")
    }

    fn random_zone(&self, rng: &mut Rng, states: &[ZoneUse]) -> Option<ZoneId> {
        let zones: Vec<ZoneId> =
            self.space.view().iter().filter(|view| states.contains(&view.state)).map(|view| view.zone).collect();
        pick(rng, zones.len()).map(|at| zones[at])
    }

    /// I2, and that our count of active zones is the device's.
    pub(crate) fn check_tokens(&self) {
        let usage = self.space.usage();
        assert!(usage.active <= usage.active_max, "I2 {} of {}", usage.active, usage.active_max);
        let reports = self.space.device().report(ZoneId(0), usage.zones).unwrap();
        let active = reports.iter().filter(|report| report.state.is_active()).count();
        assert_eq!(u32::try_from(active).unwrap(), usage.active);
    }

    /// Holds on a device whose power was never cut.
    pub(crate) fn check_free_zones(&self) {
        let reports = self.space.device().report(ZoneId(0), self.space.usage().zones).unwrap();
        for view in self.space.view().iter().filter(|view| view.state == ZoneUse::Free) {
            assert_eq!(reports[view.zone.0 as usize].state, ZoneState::Empty, "{}", view.zone);
        }
    }

    /// That every zone holds what was written to it.
    pub(crate) fn check_data(&self) {
        let current = self.zones.iter().filter_map(|(&zone, allocations)| Some((zone, allocations.last()?)));
        for (zone, known) in current.filter(|(_, known)| !known.reset) {
            assert_eq!(self.space.generation_of(zone), Some(known.generation), "{zone}");
            for (block, &byte) in (self.space.first_block(zone) + 1..).zip(&known.data) {
                assert_eq!(byte_at(&self.space, block), byte, "block {block}");
            }
        }
    }

    /// Opens the store again after a crash, and checks that what was flushed is there and nothing else is.
    /// Gives the model back if the power goes meanwhile.
    pub(crate) fn reopen(self, device: Arc<dyn ZonedDevice>) -> Result<Self, Self> {
        match self.try_reopen(device) {
            Ok(reopened) => Ok(reopened),
            Err(SpaceError::Device(DeviceError::PowerLost)) => Err(self),
            Err(error) => panic!("{error}"),
        }
    }

    fn try_reopen(&self, device: Arc<dyn ZonedDevice>) -> Result<Self, SpaceError> {
        let (space, Recovered { zones: found, damaged, .. }) = Space::open(device, &options())?;
        let mut zones = BTreeMap::new();
        for zone in &found {
            let data = read_back(&space, zone);
            let known = self.zones.get(&zone.zone).map_or(&[][..], Vec::as_slice);
            match known.iter().position(|known| known.generation == zone.generation) {
                Some(at) => check_survivor(zone.zone, &known[at..], &data),
                None => assert!(self.opening && data.is_empty(), "{zone:?} was never opened"),
            }
            zones.insert(zone.zone, vec![Zone { generation: zone.generation, data, durable: None, reset: false }]);
        }
        for (zone, known) in self.zones.iter().filter(|(zone, _)| !zones.contains_key(zone)) {
            assert!(known.iter().all(|known| known.reset || known.durable.is_none()), "{zone} is lost: {known:?}");
        }
        assert_eq!(space.clear_damaged()?, u32::try_from(damaged.len()).unwrap());
        Ok(Self { space, writers: Vec::new(), zones, highest_durable: self.highest_durable, opening: false })
    }
}

/// Checks an allocation that came back, the first of `known`, and that no later one was durable. What was not flushed
/// may be missing, or zeros.
fn check_survivor(zone: ZoneId, known: &[Zone], data: &[u8]) {
    let (survivor, later) = known.split_first().expect("the survivor itself");
    let durable = without_zeros(&survivor.data[..survivor.durable.unwrap_or(0)]);
    assert!((durable..=survivor.data.len()).contains(&data.len()), "{zone}: {data:?} is left of {survivor:?}");
    for (at, (&byte, &expected)) in data.iter().zip(&survivor.data).enumerate() {
        assert!(byte == expected || byte == 0 && at >= durable, "{zone}: {data:?} is left of {survivor:?}");
    }
    assert!(later.iter().all(|later| later.durable.is_none()), "{zone}: a durable allocation was undone: {later:?}");
}

/// The bytes of the written data blocks; a finished zone ends where only zeros follow.
fn read_back(space: &Space, zone: &RecoveredZone) -> Vec<u8> {
    let first = space.first_block(zone.zone) + 1;
    let blocks = first..first + (zone.written_blocks - 1).min(DATA_BLOCKS);
    let mut data: Vec<u8> = blocks.map(|block| byte_at(space, block)).collect();
    if zone.state == ZoneUse::Sealed {
        data.truncate(without_zeros(&data));
    }
    data
}

/// The length up to the last byte that is not zero.
fn without_zeros(data: &[u8]) -> usize {
    data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

fn pick(rng: &mut Rng, count: usize) -> Option<usize> {
    (count > 0).then(|| usize::try_from(rng.below(count as u64)).unwrap())
}
