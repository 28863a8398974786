//! Replays what a power cut could have left of a recorded life (I4), on a file, and opens the store there.
//!
//! Durable is what returned before a flush began that returned before the cut. Of everything else that had begun, each
//! zone keeps a random prefix, torn at block size; a reset or finish counts like a write.
use std::{collections::BTreeMap, path::Path, sync::Arc};

use zonda::{Db, Options};
use zonda_device::{FileDevice, FileOptions, Geometry, ZoneId, ZonedDevice};
use zonda_rt::{Rng, Seed};

use super::{
    RealError, io,
    record::{Deed, Entry, Recorder},
    script::{Script, check},
};

const KEYS: u64 = 1000;
const MEMORY_BYTES: u64 = 4 << 20;
const SYNC_EVERY: u64 = 20;

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Replays {
    /// Puts of the recorded life.
    pub puts: u64,
    /// Cuts to replay.
    pub cuts: u64,
    /// Seed of the cuts.
    pub seed: u64,
    /// Take no notice of flushes: then acknowledged puts must be lost, or the replay shows nothing.
    pub forget_flushes: bool,
}

/// Records a life on `device`, which must be empty, and replays cuts of it in the file `path`. Says what it found.
///
/// # Errors
/// When a cut has lost something that was acknowledged, or left a damaged store; says which cut.
pub fn run(device: Arc<dyn ZonedDevice>, path: &Path, replays: &Replays) -> Result<String, RealError> {
    let geometry = device.geometry().clone();
    let mut entries = record(device, replays.puts)?;
    let flushes = entries.iter().filter(|entry| matches!(entry.deed, Deed::Flush)).count();
    if replays.forget_flushes {
        entries.retain(|entry| !matches!(entry.deed, Deed::Flush));
    }
    let mut rng = Seed(replays.seed).derive("replay").rng();
    let end = entries.iter().map(|entry| entry.end).max().unwrap_or(0);
    let first = acknowledged(&entries, end).map_or(0, |_| first_acknowledged(&entries));
    for number in 0..replays.cuts {
        let cut = first + rng.below((end - first).max(1));
        one_cut(&geometry, &entries, cut, path, &mut rng).map_err(|error| {
            RealError::Wrong(format!("seed {} cut {number} at {cut} of {end}: {error}", replays.seed))
        })?;
    }
    Ok(format!("{} device operations, {flushes} of them flushes; {} cuts survived", entries.len(), replays.cuts))
}

/// A life that puts and syncs.
fn record(device: Arc<dyn ZonedDevice>, puts: u64) -> Result<Vec<Entry>, RealError> {
    let (recorder, script) = (Recorder::over(device), Script { keys: KEYS });
    let db = Db::open_device(Arc::new(recorder.clone()), &Options::new().memory(MEMORY_BYTES))?;
    for number in 0..puts {
        script.put(&db, number)?;
        if number % SYNC_EVERY == SYNC_EVERY - 1 {
            db.sync()?;
            recorder.acknowledge(number + 1);
        }
    }
    db.close()?;
    Ok(recorder.entries())
}

fn acknowledged(entries: &[Entry], cut: u64) -> Option<u64> {
    let all = entries.iter().filter(|entry| entry.end <= cut);
    all.filter_map(|entry| if let Deed::Acknowledged(puts) = entry.deed { Some(puts) } else { None }).max()
}

fn first_acknowledged(entries: &[Entry]) -> u64 {
    let mut all = entries.iter().filter(|entry| matches!(entry.deed, Deed::Acknowledged(_)));
    all.next().map_or(0, |entry| entry.end)
}

fn one_cut(geometry: &Geometry, entries: &[Entry], cut: u64, path: &Path, rng: &mut Rng) -> Result<(), RealError> {
    if path.exists() {
        std::fs::remove_file(path).map_err(io("remove the file of the cut before"))?;
    }
    // Without limits: lost finishes may leave more zones active than the drive allows at a time.
    let shape = Geometry { max_open: None, max_active: None, ..geometry.clone() };
    let device = FileDevice::create(path, shape, &FileOptions::default())?;
    for (zone, deeds) in surviving(geometry, entries, cut, rng) {
        deeds.iter().try_for_each(|(deed, blocks)| redo(&device, zone, deed, *blocks))?;
    }
    device.flush()?;
    let db = Db::open_device(Arc::new(device), &Options::new().memory(MEMORY_BYTES))?;
    Script { keys: KEYS }.verify(&db, acknowledged(entries, cut).unwrap_or(0))?;
    check(&db)?;
    Ok(db.close()?)
}

/// Deeds on one zone, with how many blocks of a write survive.
type Kept<'a> = Vec<(&'a Deed, u64)>;

fn surviving<'a>(geometry: &Geometry, entries: &'a [Entry], cut: u64, rng: &mut Rng) -> BTreeMap<ZoneId, Kept<'a>> {
    let flushed = entries.iter().filter(|entry| matches!(entry.deed, Deed::Flush) && entry.end <= cut);
    let durable_until = flushed.map(|entry| entry.begin).max().unwrap_or(0);
    let mut zones: BTreeMap<ZoneId, Vec<&Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.begin < cut) {
        if let Some(zone) = zone_of(geometry, &entry.deed) {
            zones.entry(zone).or_default().push(entry);
        }
    }
    let blocks = |entry: &Entry| match &entry.deed {
        Deed::Write { data, .. } => data.len() as u64 / u64::from(geometry.block_bytes),
        _ => 1,
    };
    let mut keep = |deeds: Vec<&'a Entry>| {
        let durable = deeds.iter().take_while(|entry| entry.end <= durable_until).count();
        let kept = durable + usize::try_from(rng.below((deeds.len() - durable) as u64 + 1)).unwrap_or(0);
        let mut kept: Kept<'a> = deeds[..kept].iter().map(|entry| (&entry.deed, blocks(entry))).collect();
        if kept.len() > durable
            && let Some((_, last)) = kept.last_mut()
        {
            *last -= rng.below(*last);
        }
        kept
    };
    zones.into_iter().map(|(zone, deeds)| (zone, keep(deeds))).collect()
}

fn zone_of(geometry: &Geometry, deed: &Deed) -> Option<ZoneId> {
    match deed {
        Deed::Write { at, .. } => Some(geometry.zone_of(*at)),
        Deed::Finish(zone) | Deed::Reset(zone) => Some(*zone),
        Deed::Flush | Deed::Acknowledged(_) => None,
    }
}

fn redo(device: &FileDevice, zone: ZoneId, deed: &Deed, blocks: u64) -> Result<(), RealError> {
    match deed {
        Deed::Write { at, data } => {
            let bytes = usize::try_from(blocks * u64::from(device.geometry().block_bytes)).unwrap_or(data.len());
            device.write(*at, &data[..bytes])?;
        }
        Deed::Finish(_) => device.finish(zone)?,
        Deed::Reset(_) => device.reset(zone)?,
        Deed::Flush | Deed::Acknowledged(_) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zonda_device::MemDevice;

    use super::*;

    fn replayed(forget_flushes: bool) -> Result<String, RealError> {
        let device = MemDevice::new(Geometry::new(256 << 10, 48).with_limits(8, 8)).unwrap();
        let name = format!("zonda-replay-{}-{forget_flushes}.zonda", std::process::id());
        let path = std::env::temp_dir().join(name);
        let replays = Replays { puts: 2500, cuts: 6, seed: 1, forget_flushes };
        let said = run(Arc::new(device), &path, &replays);
        std::fs::remove_file(&path).unwrap();
        said
    }

    #[test]
    fn cuts_with_flushes_lose_nothing_and_without_them_something() {
        assert!(replayed(false).unwrap().contains("6 cuts survived"));
        let lost = replayed(true).unwrap_err().to_string();
        assert!(lost.contains("seed 1 cut "), "{lost}");
    }
}
