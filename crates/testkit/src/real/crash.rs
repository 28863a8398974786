//! One life between two resets of the machine: checks what the lives before have left, and writes until the plug is
//! pulled.
//!
//! What was acknowledged is told to the next life through a second device, on which it is durable before more is written.
use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use zonda::Options;

use super::{
    RealError, io,
    script::{Script, check},
};

const KEYS: u64 = 1500;
const MEMORY_BYTES: u64 = 4 << 20;
/// Puts between two syncs.
const SYNC_EVERY: u64 = 25;
/// Where the counter's device holds the number that is acknowledged; the machine itself uses the first block.
const ACKNOWLEDGED_AT: u64 = 4096;
const BLOCK_BYTES: usize = 4096;

/// Lives until the plug is pulled; the last life, after `resets` others, ends by itself.
///
/// # Errors
/// When the store does not open, has lost something or is damaged.
pub fn live(uri: &str, counter: &Path, boot: u64, resets: u64) -> Result<(), RealError> {
    let counter = OpenOptions::new().read(true).write(true).open(counter).map_err(io("open the counter"))?;
    let acknowledged = read(&counter)?;
    let script = Script { keys: KEYS };
    let db = Options::new().memory(MEMORY_BYTES).open(uri)?;
    let mut next = script.verify(&db, acknowledged)?;
    // Every tenth life looks at everything, and the last.
    if boot.is_multiple_of(10) || boot > resets {
        check(&db)?;
    }
    println!("survived {} resets: {acknowledged} puts acknowledged, {next} found", boot - 1);
    if boot > resets {
        return Ok(db.close()?);
    }
    loop {
        for _ in 0..SYNC_EVERY {
            script.put(&db, next)?;
            next += 1;
        }
        db.sync()?;
        write(&counter, next)?;
    }
}

fn read(counter: &File) -> Result<u64, RealError> {
    let mut block = [0; BLOCK_BYTES];
    counter.read_exact_at(&mut block, ACKNOWLEDGED_AT).map_err(io("read the counter"))?;
    Ok(u64::from_le_bytes(block[..8].try_into().expect("eight bytes")))
}

fn write(counter: &File, number: u64) -> Result<(), RealError> {
    let mut block = [0; BLOCK_BYTES];
    block[..8].copy_from_slice(&number.to_le_bytes());
    counter.write_all_at(&block, ACKNOWLEDGED_AT).map_err(io("write the counter"))?;
    counter.sync_data().map_err(io("flush the counter"))
}
