//! Parts that are a script in the guest: other programs beside ours, a store from end to end, what a lost cache leaves.

use anyhow::{Result, bail, ensure};

use super::{Programs, SuiteArguments};
use crate::vm::{
    cache::Cache,
    devices::Shape,
    machine::{Plan, Show},
    tool,
};

/// A line of a script that says which check has held.
const HOLDS: &str = "holds: ";
/// A request takes 5 ms: several times what fio's jobs take to ask for the next, on an emulated processor beside another.
const REQUESTS_PER_SECOND: u32 = 200;
/// Disks of zones that scsi_debug shows, some of them conventional: host-aware with zones of 4 MiB, host-managed with zones of 1 MiB.
const HOST_AWARE: &str = "scsi_debug zbc=aware zone_size_mb=4 dev_size_mb=96 zone_nr_conv=2 sector_size=4096";
const HOST_MANAGED: &str =
    "scsi_debug zbc=managed zone_size_mb=1 dev_size_mb=48 zone_nr_conv=3 zone_max_open=8 sector_size=4096";
/// A disk without zones, with a partition.
const PARTITIONED: &str = "scsi_debug dev_size_mb=8 num_parts=1";

/// `zonda device report` says what `blkzone report` says, whatever states zones are in, on four kinds of device; fio
/// writes where ours has stopped, and finds its data; ours finds the states that fio leaves.
///
/// # Errors
/// When a check does not hold.
pub(super) fn cross_check(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let shapes = ["size=4M,capacity=3M,zones=24,open=6,active=8", "size=4M,zones=24,open=6,active=8"];
    let mut plan = plan(programs, &shapes)?;
    plan.null_blk.push("size=4M,capacity=3M,zones=24,open=6,active=8,conventional=2".parse::<Shape>()?);
    plan.modules.extend(["sd_mod".to_owned(), HOST_AWARE.to_owned()]);
    plan.tools.extend([tool(cache, "blkzone")?, tool(cache, "fio")?]);
    run(&plan, cache, include_str!("cross-check.sh"))
}

/// What `zonda device bench` gives the drive is what fio gives it when asked for the same: as many requests, as long, as
/// many in flight, by the kernel's trace.
///
/// # Errors
/// When they differ.
pub(super) fn requests(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let mut plan = plan(programs, &["size=4M,capacity=3M,zones=24,open=6,active=8"])?;
    plan.requests_per_second = REQUESTS_PER_SECOND;
    plan.tools.extend([tool(cache, "blkzone")?, tool(cache, "fio")?]);
    run(&plan, cache, include_str!("requests.sh"))
}

/// Mounted, busy, partitioned, not zoned, no block device, with something else on it: refused, and left as it was.
///
/// # Errors
/// When one is not refused, or was changed.
pub(super) fn refusals(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let mut plan = plan(programs, &["size=4M,zones=8"])?;
    plan.null_blk.push("size=4M,zones=24,open=4,active=6".parse::<Shape>()?);
    plan.modules.extend(["zonefs", "dm-mod", "sd_mod", PARTITIONED].map(str::to_owned));
    plan.tools.extend([tool(cache, "blkzone")?, tool(cache, "dmsetup")?]);
    run(&plan, cache, include_str!("refusals.sh"))
}

/// Load, overwrite with reclaim, reopen, check: the store on NVMe of both geometries, and on null_blk and a host-managed
/// disk, some of whose zones are conventional.
///
/// # Errors
/// When a check does not hold.
pub(super) fn store(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let shapes = ["size=512K,capacity=384K,zones=64,open=8,active=12", "size=512K,zones=64,open=6,active=6"];
    let mut plan = plan(programs, &shapes)?;
    plan.null_blk.push("size=1M,zones=40,open=8,active=8,conventional=3".parse::<Shape>()?);
    plan.modules.extend(["sd_mod".to_owned(), HOST_MANAGED.to_owned()]);
    run(&plan, cache, include_str!("store.sh"))
}

/// Files copied in, overwritten until zones are cleaned, checked, removed, backed up and restored: the file store on the devices of
/// [`store`].
///
/// # Errors
/// When a check does not hold.
pub(super) fn files(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let mut plan =
        plan(programs, &["size=512K,capacity=384K,zones=64,open=8,active=12", "size=512K,zones=64,open=6,active=6"])?;
    plan.null_blk.push("size=1M,zones=40,open=8,active=8,conventional=3".parse::<Shape>()?);
    plan.modules.extend(["sd_mod".to_owned(), HOST_MANAGED.to_owned()]);
    run(&plan, cache, include_str!("files.sh"))
}

/// RocksDB's own `db_bench` and `ldb` through the plugin, on NVMe of both geometries and null_blk. Not run where RocksDB is not there.
///
/// # Errors
/// When a check does not hold.
pub(super) fn rocksdb(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let stock = ["db_bench", "ldb"].map(|name| cache.program(name).map(|path| (name.to_owned(), path)));
    let [Ok(db_bench), Ok(ldb)] = stock else {
        println!("NOT RUN: no db_bench and ldb here; `cargo xtask rocksdb-deps` installs them");
        return Ok(0);
    };
    let mut plan =
        plan(programs, &["size=1M,capacity=768K,zones=96,open=8,active=12", "size=1M,zones=64,open=6,active=6"])?;
    plan.null_blk.push("size=1M,zones=64,open=8,active=8,conventional=3".parse::<Shape>()?);
    plan.tools.extend([db_bench, ldb, ("libzonda_rocksdb.so".to_owned(), programs.plugin.clone())]);
    run(&plan, cache, include_str!("rocksdb.sh"))
}

/// What a drive that loses its cache would have left of a recorded life, replayed.
///
/// # Errors
/// When a cut loses something, or none does although flushes are forgotten.
pub(super) fn volatile_cache(cache: &Cache, programs: &Programs, _: &SuiteArguments) -> Result<u64> {
    let plan = plan(programs, &["size=512K,capacity=384K,zones=64,open=8,active=12"])?;
    run(&plan, cache, include_str!("volatile-cache.sh"))
}

fn plan(programs: &Programs, zns: &[&str]) -> Result<Plan> {
    Ok(Plan {
        zns: zns.iter().map(|shape| shape.parse::<Shape>()).collect::<Result<_>>()?,
        tools: vec![("zonda".to_owned(), programs.zonda.clone()), ("testkit".to_owned(), programs.testkit.clone())],
        memory_mib: 1536,
        timeout_seconds: 1800,
        ..Plan::new()
    })
}

/// Runs a script in the guest; counts the checks that it says hold.
fn run(plan: &Plan, cache: &Cache, script: &str) -> Result<u64> {
    let ended = plan.run(cache, "sh", &["-ec".to_owned(), script.to_owned()], Show::Nothing)?;
    print!("{}", ended.output);
    if ended.status != 0 {
        bail!("the script ended with {} after the lines above", ended.status);
    }
    let held = ended.output.lines().filter(|line| line.starts_with(HOLDS)).count() as u64;
    ensure!(held > 0, "the script checked nothing");
    Ok(held)
}
