//! Devices of just the right size: live leaves and values as a given share of the usable bytes.

use std::sync::Arc;

use crate::contest::{ContestPlan, DataShape};
use crate::phase::{DataSet, Phase};
use crate::place::Place;
use crate::progress::Progress;
use crate::subject::{StorePlan, Subject};
use crate::workload::Workload;
use crate::{BenchError, Result};

/// Probes for the right number of zones; each corrects by what the one before measured, so two or three do.
const PROBES_MAX: u32 = 12;

/// A device has at least so many zones.
const ZONES_MIN: i64 = 4;

/// The plan's store on a device of which the loaded leaves and values are `live_percent` percent.
///
/// # Errors
/// Those of the store; `Usage` when the data would take more zones than a device has, or fewer than the plan wants.
pub(crate) fn fitted(plan: &ContestPlan, live_percent: u32) -> Result<StorePlan> {
    let live_bytes = live_bytes(&plan.store, &plan.data, plan.records)?;
    let usable_bytes = live_bytes / u64::from(live_percent.clamp(1, 100)) * 100;
    let mut store = plan.store.clone();
    let zones = zones_for(&store, usable_bytes)?;
    check_zones(zones, plan)?;
    store.zones = Some(zones);
    Ok(store)
}

fn check_zones(zones: u32, plan: &ContestPlan) -> Result<()> {
    let Some(zones_min) = plan.zones_min.filter(|zones_min| zones < *zones_min) else { return Ok(()) };
    let expected = format!("more data or smaller zones: the device has {zones} zones and should have {zones_min}");
    Err(BenchError::Usage { option: "--records", given: plan.records.to_string(), expected })
}

/// Loads a store with plenty of room beside the real one, to learn how much is live. Half the data is
/// overwritten once, so that what the load left in buffers has reached its leaves: they split no more.
fn live_bytes(store: &StorePlan, data: &DataShape, records: u64) -> Result<u64> {
    let place = Place::beside(&store.uri)?;
    let mut store = StorePlan { zones: None, ..store.clone() };
    place.uri().clone_into(&mut store.uri);
    let mut data = data.data(store.seed)?;
    let subject = store.create()?;
    settle(&subject, &mut data, records)?;
    let counters = subject.counters()?;
    subject.close()?;
    Ok(counters.leaf_bytes + counters.value_bytes)
}

/// Loads `records` records and overwrites half of them.
///
/// # Errors
/// Those of the store.
pub(crate) fn settle(subject: &Arc<dyn Subject>, data: &mut DataSet, records: u64) -> Result<()> {
    const THREADS: usize = 2;
    Phase::new(Workload::load(), records, THREADS).measure(subject, data, &Progress::hidden())?;
    Phase::new(Workload::named("update")?, records / 2, THREADS).measure(subject, data, &Progress::hidden())?;
    Ok(())
}

/// Zones that leave `usable_bytes` usable: asks empty stores in memory what they would offer.
///
/// # Errors
/// Those of the store; `Usage` when no device has so many zones.
///
/// # Panics
/// Never: a plan without a size of zones takes the store's default.
pub(crate) fn zones_for(store: &StorePlan, usable_bytes: u64) -> Result<u32> {
    let wanted = i64::try_from(usable_bytes).unwrap_or(i64::MAX / 2);
    let zone_bytes = i64::try_from(store.zone_bytes.unwrap_or(ZONE_BYTES_DEFAULT)).unwrap_or(i64::MAX);
    // Far above any reserve, which depends on the memory: corrections from above always meet a store that can be.
    let memory_bytes = i64::try_from(store.memory_bytes).unwrap_or(i64::MAX / 64);
    let mut zones = (4 * wanted + 16 * memory_bytes) / zone_bytes;
    for _ in 0..PROBES_MAX {
        let offered = i64::try_from(offered(store, zones)?).unwrap_or(i64::MAX);
        let missing = (wanted - offered).div_euclid(zone_bytes);
        let missing = missing + i64::from((wanted - offered).rem_euclid(zone_bytes) > 0);
        if missing == 0 {
            break;
        }
        zones = (zones + missing).max(ZONES_MIN);
    }
    u32::try_from(zones).map_err(|_| BenchError::Usage {
        option: "--records",
        given: usable_bytes.to_string(),
        expected: format!("less data: it would take {zones} zones"),
    })
}

/// The store's own size of a zone.
const ZONE_BYTES_DEFAULT: u64 = 16 << 20;

fn offered(store: &StorePlan, zones: i64) -> Result<u64> {
    let zone_bytes = Some(store.zone_bytes.unwrap_or(ZONE_BYTES_DEFAULT));
    let plan = StorePlan { uri: "mem:".into(), zones: u32::try_from(zones).ok(), zone_bytes, ..store.clone() };
    let subject = plan.create()?;
    let usable_bytes = subject.counters()?.usable_bytes;
    subject.close()?;
    Ok(usable_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_too_few_zones_is_refused() {
        let mut store = StorePlan::new("mem:".into(), zonda::limits::MEMORY_BYTES_MIN, 1);
        store.zone_bytes = Some(64 << 10);
        let (data, records) = (DataShape::small(20_000), 10_000);
        let mut plan = ContestPlan { store, data, live_percent: Some(50), zones_min: Some(4), records };
        assert!(fitted(&plan, 50).unwrap().zones.is_some_and(|zones| zones >= 4));
        plan.zones_min = Some(10_000);
        let refused = fitted(&plan, 50).unwrap_err().to_string();
        assert!(refused.contains("10000"), "{refused}");
    }
}
