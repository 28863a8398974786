//! Several writers and a cleaner on one store, under the simulator: writers wait for cleaning, nothing gets stuck, and
//! what is live is always where it was put.
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::{COLD, DATA_BLOCKS, HOT, RELOCATED, blocks, byte_at, device, format};
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{JoinHandle, Mutex, Rng, spawn};
use zonda_space::{Space, SpaceError, StreamId, Urgency, VictimPolicy, ZoneUse, ZoneWriter};

const BLOCK: u64 = 4096;
const KEYS: u64 = 60;
const OVERWRITES: u64 = 120;

/// Where each key's block is; the lock is held over the write, as a latch would be.
type Places = Arc<Mutex<BTreeMap<u64, u64>>>;

/// Writes one block in a zone of the stream, opening the next when it is full.
fn put(
    space: &Space,
    writer: &mut Option<ZoneWriter>,
    stream: StreamId,
    urgency: Urgency,
    byte: u8,
) -> Result<u64, SpaceError> {
    if writer.as_ref().is_none_or(ZoneWriter::is_closed) {
        *writer = Some(space.open_zone(stream, urgency)?);
    }
    let writer = writer.as_mut().expect("opened above");
    let block = writer.write(&blocks(byte, 1))?;
    space.add_live(writer.zone(), BLOCK);
    Ok(block)
}

fn byte_of(key: u64) -> u8 {
    u8::try_from(key % 250).unwrap() + 1
}

fn overwrite(space: &Space, places: &Places, stream: StreamId, seed: u64) {
    let mut rng = Rng::seeded(seed);
    let mut writer = None;
    for _ in 0..OVERWRITES {
        let key = rng.below(KEYS);
        loop {
            let mut places = places.lock();
            match put(space, &mut writer, stream, Urgency::Foreground, byte_of(key)) {
                Ok(block) => {
                    if let Some(old) = places.insert(key, block) {
                        space.sub_live(space.zone_of(old), BLOCK);
                    }
                    break;
                }
                Err(SpaceError::NoSpace { .. }) => {
                    drop(places);
                    space.wait_for_free(Duration::from_secs(600), &|usage| usage.live_bytes > KEYS * BLOCK).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Moves what is live in victims and resets them, until told to stop.
fn clean(space: &Space, places: &Places, stop: &AtomicBool) {
    let mut writer = None;
    while !stop.load(Ordering::Relaxed) {
        let short = space.usage().free_zones <= 4;
        match short.then(|| space.victim(VictimPolicy::Greedy, &|_| true)).flatten() {
            Some(victim) => relocate(space, places, victim.zone, &mut writer),
            None => zonda_rt::sleep(Duration::from_micros(50)),
        }
    }
}

fn relocate(space: &Space, places: &Places, zone: zonda_device::ZoneId, writer: &mut Option<ZoneWriter>) {
    assert!(space.begin_relocation(zone));
    for (key, place) in places.lock().iter_mut().filter(|(_, place)| space.zone_of(**place) == zone) {
        *place = put(space, writer, RELOCATED, Urgency::Reserve, byte_of(*key)).unwrap();
        space.sub_live(zone, BLOCK);
    }
    space.flush().unwrap();
    space.reset(zone).unwrap();
}

fn threads(space: &Space, places: &Places, seed: u64) -> Vec<JoinHandle<()>> {
    let one = |stream, seed| {
        let (space, places) = (space.clone(), Arc::clone(places));
        spawn("writer", move || overwrite(&space, &places, stream, seed))
    };
    vec![one(HOT, seed), one(COLD, seed + 1000)]
}

#[test]
fn writers_and_a_cleaner_overwrite_for_ever() {
    for seed in 0..12 {
        zonda_rt::sim::run(seed, || {
            let space = format(&device([8, 14][usize::try_from(seed % 2).unwrap()]));
            let places = Places::default();
            let stop = Arc::new(AtomicBool::new(false));
            let cleaner = {
                let (space, places, stop) = (space.clone(), Arc::clone(&places), Arc::clone(&stop));
                spawn("cleaner", move || clean(&space, &places, &stop))
            };
            threads(&space, &places, seed).into_iter().for_each(|thread| thread.join().unwrap());
            stop.store(true, Ordering::Relaxed);
            cleaner.join().unwrap();
            let places = places.lock();
            assert!(places.iter().all(|(&key, &block)| byte_at(&space, block) == byte_of(key)));
            let live: u64 = space.view().iter().map(|view| view.live_bytes).sum();
            assert_eq!(live, places.len() as u64 * BLOCK);
            assert!(space.view().iter().all(|view| view.live_bytes <= DATA_BLOCKS * BLOCK));
            assert!(space.view().iter().all(|view| view.state != ZoneUse::Changing));
        });
    }
}

/// A cleaner that looks for zones with nothing live in them must not find one that is being sealed: it would reset it, and the
/// seal would fail for want of a zone.
#[test]
fn a_zone_is_never_partly_written_while_it_is_sealed() {
    for seed in 0..20 {
        zonda_rt::sim::run(seed, || {
            let space = format(&device(14));
            let stop = Arc::new(AtomicBool::new(false));
            let watcher = {
                let (space, stop) = (space.clone(), Arc::clone(&stop));
                spawn("watcher", move || {
                    while !stop.load(Ordering::Relaxed) {
                        let is_partial = |view: &zonda_space::ZoneView| view.state == ZoneUse::Partial;
                        assert!(!space.view().iter().any(is_partial), "seed {seed}");
                        zonda_rt::sleep(Duration::from_micros(1));
                    }
                })
            };
            for _ in 0..50 {
                let mut writer = space.open_zone(HOT, Urgency::Foreground).unwrap();
                writer.write(&blocks(1, 1)).unwrap();
                let zone = writer.zone();
                space.seal(writer);
                space.reset(zone).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            watcher.join().unwrap();
        });
    }
}
