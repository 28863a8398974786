//! Overwrites until reclaim has reset many zones, reopens and reads everything.
use zonda::Options;

use super::{
    RealError,
    script::{Script, check},
};

const KEYS: u64 = 3000;
const MEMORY_BYTES: u64 = 4 << 20;
/// Puts between two looks at the counters.
const ROUND: u64 = 1000;
/// Most puts: a store that does not reclaim by then never does.
const PUTS_MAX: u64 = 2_000_000;

/// Makes a store, overwrites its keys until `resets` zones were reset, closes it, opens it again and reads everything. Says
/// what it did.
///
/// # Errors
/// When the store refuses, has lost something or is damaged.
pub fn run(uri: &str, resets: u64) -> Result<String, RealError> {
    let (script, options) = (Script { keys: KEYS }, Options::new().memory(MEMORY_BYTES));
    let db = options.open(uri)?;
    let mut next = 0;
    while db.stats()?.space.zones_reset < resets {
        for _ in 0..ROUND {
            script.put(&db, next)?;
            next += 1;
        }
        db.sync()?;
        if next >= PUTS_MAX {
            return Err(RealError::Wrong(format!("fewer than {resets} zones were reset after {next} puts")));
        }
    }
    let stats = db.stats()?;
    db.close()?;
    let db = options.open(uri)?;
    script.verify(&db, next)?;
    check(&db)?;
    db.close()?;
    let mib = stats.device.written_bytes >> 20;
    Ok(format!("{next} puts, {mib} MiB written, {} zones reset", stats.space.zones_reset))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_small_device_in_memory_reclaims() {
        let file = std::env::temp_dir().join(format!("zonda-overwrite-{}.zonda", std::process::id()));
        let uri = format!("file:{}?zones=48&zone_size=256KiB&max_active=8", file.display());
        let said = super::run(&uri, 5);
        std::fs::remove_file(&file).unwrap();
        assert!(said.unwrap().contains("zones reset"));
    }
}
