//! The power fails under each preset as `Options` divides its memory: with fixed shares, and while the governor and `Db::set_memory` move
//! it. The simulator of `zonda-testkit` cuts the engine below, with far smaller budgets and with every switch.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zonda::limits::MEMORY_BYTES_MIN;
use zonda::{Db, Error, Options, StoreKind};
use zonda_device::{CutAt, Geometry, MemBlockDevice, MemDevice, PowerCut, PowerCutBlock};
use zonda_rt::{Rng, Seed};

const MEMORY_BYTES: u64 = 4 << 20;
const ZONE_BYTES: u64 = 1 << 20;
const ZONES: u32 = 80;
const KEYS: u64 = 40_000;
const LIVES: u64 = 4;
/// Changes of a life at the most; most lives end before.
const LIFE_CHANGES: u64 = 20_000;
/// Device writes after which the power goes, at the most.
const CUT_CHANGES: u64 = 400;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A device behind a switch.
enum Device {
    Zones(PowerCut),
    Blocks(PowerCutBlock),
}

impl Device {
    fn of(kind: StoreKind) -> Self {
        if kind == StoreKind::InPlace {
            let blocks = u64::from(ZONES) * ZONE_BYTES / 4096;
            return Self::Blocks(PowerCutBlock::over(MemBlockDevice::new(4096, blocks).unwrap()));
        }
        Self::Zones(PowerCut::over(MemDevice::new(Geometry::new(ZONE_BYTES, ZONES)).unwrap()))
    }

    fn open(&self, options: &Options) -> Db {
        match self {
            Self::Zones(power) => Db::open_device(Arc::new(power.clone()), options).unwrap(),
            Self::Blocks(power) => Db::open_block_devices(Arc::new(power.clone()), None, options).unwrap(),
        }
    }

    fn arm(&self, at: CutAt) {
        match self {
            Self::Zones(power) => power.arm(at),
            Self::Blocks(power) => power.arm(at),
        }
    }

    fn is_cut(&self) -> bool {
        match self {
            Self::Zones(power) => power.cut_report().is_some(),
            Self::Blocks(power) => power.cut_report().is_some(),
        }
    }

    fn cut(&self) {
        match self {
            Self::Zones(power) => power.cut(),
            Self::Blocks(power) => power.cut(),
        }
    }

    /// Cuts the power, if it is on, and turns it on: a legal part of what was not flushed is gone.
    fn restart(&mut self, rng: &mut Rng) {
        self.cut();
        match self {
            Self::Zones(power) => *power = PowerCut::over(power.reopen(rng)),
            Self::Blocks(power) => *power = PowerCutBlock::over(power.reopen(rng)),
        }
    }
}

/// What a store holds, and what of it may be lost.
#[derive(Default)]
struct Model {
    durable: Pairs,
    unsynced: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn apply(pairs: &mut Pairs, key: &[u8], value: Option<&Vec<u8>>) {
    match value {
        Some(value) => drop(pairs.insert(key.to_vec(), value.clone())),
        None => drop(pairs.remove(key)),
    }
}

impl Model {
    fn synced(&mut self) {
        for (key, value) in self.unsynced.drain(..) {
            apply(&mut self.durable, &key, value.as_ref());
        }
    }

    /// Whether a prefix of the unsynced changes explains what was found; that is what is there from now on.
    fn explains(&mut self, found: Pairs) -> bool {
        let differs = |state: &Pairs, key: &[u8]| state.get(key) != found.get(key);
        let keys: BTreeSet<&[u8]> = self.durable.keys().chain(found.keys()).map(Vec::as_slice).collect();
        let mut apart: BTreeSet<&[u8]> = keys.into_iter().filter(|key| differs(&self.durable, key)).collect();
        let (mut state, mut is_explained) = (self.durable.clone(), apart.is_empty());
        for (key, value) in &self.unsynced {
            apply(&mut state, key, value.as_ref());
            if differs(&state, key) {
                apart.insert(key)
            } else {
                apart.remove(key.as_slice())
            };
            is_explained |= apart.is_empty();
        }
        drop(apart);
        self.unsynced.clear();
        self.durable = found;
        is_explained
    }
}

struct Run {
    device: Device,
    options: Options,
    model: Model,
    rng: Rng,
    written: u64,
}

impl Run {
    /// One put or delete and what goes with it; an error ends the life, and is the power's.
    fn change(&mut self, db: &Db) -> Result<(), Error> {
        let key = (self.rng.below(KEYS)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        self.written += 1;
        let value = (self.rng.below(8) > 0).then(|| self.written.to_be_bytes().to_vec());
        // A change that was cut short may have happened.
        self.model.unsynced.push((key.to_vec(), value.clone()));
        match value {
            Some(value) => db.put(key, value)?,
            None => db.delete(key)?,
        }
        if self.written.is_multiple_of(20) {
            db.step()?;
            db.get(key)?;
        }
        match self.rng.below(2_000) {
            0 => {
                db.sync()?;
                self.model.synced();
            }
            1 => db.checkpoint()?,
            2..8 => {
                let bytes = MEMORY_BYTES_MIN + self.rng.below(MEMORY_BYTES - MEMORY_BYTES_MIN + 1);
                match db.set_memory(bytes) {
                    Err(Error::TooLittleMemory { .. }) => {}
                    answer => answer?,
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes until the power goes, and what is there afterwards; answers whether the power went before it was cut at the end.
    fn life(&mut self, changes: u64, cut: Option<CutAt>) -> bool {
        let db = self.device.open(&self.options);
        cut.into_iter().for_each(|at| self.device.arm(at));
        for _ in 0..changes {
            if let Err(error) = self.change(&db) {
                assert!(self.device.is_cut(), "with the power on: {error}");
                break;
            }
        }
        drop(db);
        let was_cut = self.device.is_cut();
        self.device.restart(&mut self.rng);
        let db = self.device.open(&self.options);
        let found: Pairs = db.iter().unwrap().map(Result::unwrap).collect();
        assert!(self.model.explains(found), "I4 no prefix of the unsynced changes is what was found");
        let mut findings = Vec::new();
        db.check(&mut |_, _| {}, &mut |finding| findings.push(finding)).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
        // What recovery found is there after another cut too: the handle that looked at it does not get to close the store.
        self.device.cut();
        drop(db);
        self.device.restart(&mut self.rng);
        was_cut
    }
}

/// Lives of one store; answers how many the power ended.
fn lives((preset, store): (&str, StoreKind), leaf_bytes: u32, seed: u64) -> u64 {
    let options = Options::preset(preset).unwrap().memory(MEMORY_BYTES).leaf_bytes(leaf_bytes).zone_bytes(ZONE_BYTES);
    let options = options.store(store).seed(seed).log_instances(2).background(false);
    let (device, rng) = (Device::of(store), Seed(seed).derive(preset).rng());
    let mut run = Run { device, options, model: Model::default(), rng, written: 0 };
    run.life(2 * KEYS, None);
    let mut cuts = 0;
    for _ in 0..LIVES {
        let at = CutAt::Change(1 + run.rng.below(CUT_CHANGES));
        cuts += u64::from(run.life(LIFE_CHANGES, Some(at)));
    }
    cuts
}

#[test]
fn presets_survive_power_cuts_while_their_memory_moves() {
    let (zones, blocks) = (StoreKind::Zoned, StoreKind::InPlace);
    let presets = [
        (("zonda", zones), 4 << 10),
        (("zkv", zones), 16 << 10),
        (("zkv-block", blocks), 32 << 10),
        (("btree", zones), 4 << 10),
        (("bdtree", zones), 16 << 10),
        (("bftree", zones), 32 << 10),
        (("bftree", blocks), 4 << 10),
    ];
    for (seed, (preset, leaf_bytes)) in (1..).zip(presets) {
        println!("preset {preset:?}, leaves of {leaf_bytes}, seed {seed}");
        assert!(lives(preset, leaf_bytes, seed) > 0, "the power never went");
    }
}
