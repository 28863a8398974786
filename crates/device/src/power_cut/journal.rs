//! What happened to each zone since the last flush, and which of it survives a cut.
use std::collections::BTreeMap;

use zonda_rt::Rng;

use super::Survival;
use crate::{
    Geometry, ZoneId, ZoneMachine, ZoneState,
    mem::{MemZones, ZoneBytes, index},
};

/// What may be missing after a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrashModel {
    /// I4: of each zone a prefix of its unflushed operations survives, torn at block size.
    #[default]
    Prefix,
    /// As `Prefix`, but unflushed blocks below the write pointer that came back may read as zeros: what a page cache
    /// under a file backend does. An engine that trusts only flushed bytes sees no difference.
    PageCache,
}

/// State and fill of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fill {
    state: ZoneState,
    written: u64,
    /// Blocks from the start that a flush has made durable.
    flushed: u64,
}

/// An unflushed operation on a zone.
#[derive(Debug)]
enum Change {
    Write {
        blocks: u64,
    },
    Finish,
    /// The bytes that were there before are kept until the reset is flushed.
    Reset {
        old: Vec<u8>,
    },
}

impl Change {
    /// Steps at which a cut can fall into it.
    fn steps(&self) -> u64 {
        match self {
            Self::Write { blocks } => *blocks,
            Self::Finish | Self::Reset { .. } => 1,
        }
    }
}

#[derive(Debug)]
struct ZoneJournal {
    /// As of the last flush.
    durable: Fill,
    changes: Vec<Change>,
}

/// The unflushed operations of all zones.
#[derive(Debug, Default)]
pub(super) struct Journal {
    zones: BTreeMap<ZoneId, ZoneJournal>,
}

impl Journal {
    /// Everything is durable.
    pub(super) fn flush(&mut self) {
        self.zones.clear();
    }

    /// Takes note of a write that has been done.
    pub(super) fn written(&mut self, zones: &MemZones, zone: ZoneId, blocks: u64) {
        let written = zones.machine.written_blocks(zone) - blocks;
        let state = if written == 0 { ZoneState::Empty } else { ZoneState::Closed };
        self.push(zone, Fill { state, written, flushed: written }, Change::Write { blocks });
    }

    /// Takes note of a finish that is about to be done.
    pub(super) fn finishing(&mut self, zones: &MemZones, zone: ZoneId) {
        self.push(zone, fill(zones, zone), Change::Finish);
    }

    /// Takes note of a reset that is about to be done.
    pub(super) fn resetting(&mut self, zones: &MemZones, zone: ZoneId) {
        let old = zones.bytes[zone.0 as usize].to_vec();
        self.push(zone, fill(zones, zone), Change::Reset { old });
    }

    fn push(&mut self, zone: ZoneId, before: Fill, change: Change) {
        let journal = self.zones.entry(zone).or_insert(ZoneJournal { durable: before, changes: Vec::new() });
        journal.changes.push(change);
    }

    /// The zones as one legal cut leaves them.
    pub(super) fn survivors(&self, live: &MemZones, model: CrashModel, rng: &mut Rng) -> MemZones {
        let survival = Survival::draw(rng);
        let chosen = self.zones.iter().map(|(&zone, journal)| (zone, journal.choose_steps(survival, rng)));
        let mut steps: BTreeMap<ZoneId, u64> = chosen.collect();
        self.keep_within_limits(live, &mut steps, rng);
        let mut after = MemZones::new(live.machine.geometry().clone());
        for zone in (0..live.machine.geometry().zone_count).map(ZoneId) {
            self.restore(live, &mut after, zone, steps.get(&zone).copied());
        }
        if model == CrashModel::PageCache {
            self.lose_blocks(&mut after, &steps, rng);
        }
        reopen_some(&mut after.machine, rng);
        after
    }

    /// A device never has more active zones than its limit (I2): while there are, another zone keeps all that happened
    /// to it. With all zones so, the limit held.
    fn keep_within_limits(&self, live: &MemZones, steps: &mut BTreeMap<ZoneId, u64>, rng: &mut Rng) {
        let Some(max) = live.machine.geometry().max_active else { return };
        let mut order: Vec<ZoneId> = self.zones.keys().copied().collect();
        rng.shuffle(&mut order);
        for zone in order {
            if self.active_after(live, steps) <= u64::from(max) {
                return;
            }
            steps.insert(zone, u64::MAX);
        }
    }

    fn active_after(&self, live: &MemZones, steps: &BTreeMap<ZoneId, u64>) -> u64 {
        let zones = (0..live.machine.geometry().zone_count).map(ZoneId);
        let capacity = live.machine.geometry().zone_capacity_blocks;
        let active = |zone: &ZoneId| match self.zones.get(zone) {
            Some(journal) => journal.play(steps[zone], capacity).0.state.is_active(),
            None => live.machine.state(*zone).is_active(),
        };
        zones.filter(active).count() as u64
    }

    /// Puts one zone into the state it has after `steps` of its changes; untouched zones are as they were.
    fn restore(&self, live: &MemZones, after: &mut MemZones, zone: ZoneId, steps: Option<u64>) {
        let geometry = live.machine.geometry();
        let now = fill(live, zone);
        let is_retired = matches!(now.state, ZoneState::ReadOnly | ZoneState::Offline);
        let at = zone.0 as usize;
        let (fill, old) = match (self.zones.get(&zone), steps) {
            (Some(journal), Some(steps)) if !is_retired => journal.play(steps, geometry.zone_capacity_blocks),
            _ => (now, None),
        };
        let mut bytes = old.map_or_else(|| live.bytes[at].to_vec(), <[u8]>::to_vec);
        let restored = after.machine.restore(zone, fill.state, fill.written);
        restored.expect("I2 the zones that survive are within the limits");
        bytes.truncate(bytes_of(geometry, after.machine.written_blocks(zone)));
        after.bytes[at] = ZoneBytes::of(bytes);
    }

    /// Zeros some blocks that were never flushed.
    fn lose_blocks(&self, after: &mut MemZones, steps: &BTreeMap<ZoneId, u64>, rng: &mut Rng) {
        let (block, capacity) = {
            let geometry = after.machine.geometry();
            (geometry.block_bytes as usize, geometry.zone_capacity_blocks)
        };
        for (zone, journal) in &self.zones {
            let flushed = journal.play(steps[zone], capacity).0.flushed * block as u64;
            let mut bytes = after.bytes[zone.0 as usize].to_vec();
            let unflushed = bytes.get_mut(index(flushed)..).unwrap_or_default();
            unflushed.chunks_mut(block).filter(|_| rng.chance(0.25)).for_each(|b| b.fill(0));
            after.bytes[zone.0 as usize] = ZoneBytes::of(bytes);
        }
    }
}

impl ZoneJournal {
    fn choose_steps(&self, survival: Survival, rng: &mut Rng) -> u64 {
        let all = self.changes.iter().map(Change::steps).sum::<u64>();
        match survival {
            Survival::Nothing => 0,
            Survival::Everything => all,
            Survival::Mixed => rng.below(all + 1),
        }
    }

    /// State and fill after the first `steps` steps; and the old bytes if a reset comes later.
    fn play(&self, mut steps: u64, capacity: u64) -> (Fill, Option<&[u8]>) {
        let mut fill = self.durable;
        for (i, change) in self.changes.iter().enumerate() {
            if steps == 0 {
                return (fill, self.old_bytes_from(i));
            }
            let done = steps.min(change.steps());
            steps -= done;
            fill.apply(change, done, capacity);
            if done < change.steps() {
                return (fill, self.old_bytes_from(i + 1));
            }
        }
        (fill, None)
    }

    fn old_bytes_from(&self, first: usize) -> Option<&[u8]> {
        self.changes[first..].iter().find_map(|c| match c {
            Change::Reset { old } => Some(old.as_slice()),
            _ => None,
        })
    }
}

impl Fill {
    fn apply(&mut self, change: &Change, steps: u64, capacity: u64) {
        match change {
            Change::Write { .. } => {
                self.written += steps;
                self.state = if self.written == capacity { ZoneState::Full } else { ZoneState::Closed };
            }
            Change::Finish => self.state = ZoneState::Full,
            Change::Reset { .. } => *self = Self { state: ZoneState::Empty, written: 0, flushed: 0 },
        }
    }
}

/// Open zones usually come back closed, but a drive may keep them open.
fn reopen_some(machine: &mut ZoneMachine, rng: &mut Rng) {
    let max = machine.geometry().max_open.unwrap_or(u32::MAX);
    for zone in (0..machine.geometry().zone_count).map(ZoneId) {
        let may_open = machine.state(zone) == ZoneState::Closed && machine.open_count() < max;
        if may_open && rng.chance(0.125) {
            machine.open(zone).expect("I2 a closed zone opens while fewer than the limit are open");
        }
    }
}

fn fill(zones: &MemZones, zone: ZoneId) -> Fill {
    let written = zones.machine.written_blocks(zone);
    Fill { state: zones.machine.state(zone), written, flushed: written }
}

fn bytes_of(geometry: &Geometry, blocks: u64) -> usize {
    index(blocks * u64::from(geometry.block_bytes))
}
