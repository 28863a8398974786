//! What the event listener says, over the border. Nothing here can fail: what is not understood is not known.

use std::ffi::c_int;

use zonda_files::FilePath;

use super::{Text, catch};
use crate::failure::Failure;
use crate::lsm::{NewTable, Reason, Running};
use crate::system::System;

/// A level of the tree; what is none is not known.
fn level(level: c_int) -> Option<u8> {
    u8::try_from(level).ok()
}

/// # Safety
/// `database`, `family` and `path` are text.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_table_begun(
    system: &System,
    database: Text,
    family: Text,
    path: Text,
    job: c_int,
    reason: u8,
) {
    let reason = match reason {
        0 => Reason::Flush,
        1 => Reason::Compaction,
        2 => Reason::Recovery,
        _ => Reason::Other,
    };
    let _unheard = catch(|| -> Result<(), Failure> {
        // SAFETY: as this function's.
        let (database, family, path) = unsafe { (database.get()?, family.get()?, path.get()?) };
        let (database, path) = (FilePath::parse(database)?, FilePath::parse(path)?);
        system.mount().lsm.table_begun(NewTable { database, family, path, job, reason });
        Ok(())
    });
}

/// # Safety
/// `database` is text, and `inputs` points to `input_count` numbers, or there are none.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_job_begun(
    system: &System,
    database: Text,
    job: c_int,
    column_family: u32,
    output_level: c_int,
    inputs: *const u64,
    input_count: usize,
) {
    let _unheard = catch(|| {
        let inputs = match input_count {
            0 => Vec::new(),
            // SAFETY: as this function's.
            count => unsafe { std::slice::from_raw_parts(inputs, count) }.to_vec(),
        };
        // SAFETY: as this function's.
        if let (Ok(database), Some(output_level)) = (unsafe { database.get() }, level(output_level)) {
            system.mount().lsm.job_begun(database, job, Running { column_family, output_level, inputs, id: None });
        }
    });
}

/// # Safety
/// `database` is text.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_job_ended(system: &System, database: Text, job: c_int) {
    let _unheard = catch(|| {
        // SAFETY: as this function's.
        if let Ok(database) = unsafe { database.get() } {
            system.mount().lsm.job_ended(database, job);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_subcompaction_begun(system: &System, job: c_int, output_level: c_int) {
    let _unheard = catch(|| {
        if let Some(output_level) = level(output_level) {
            system.mount().lsm.subcompaction_begun(job, output_level);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_subcompaction_ended(system: &System) {
    let _unheard = catch(|| system.mount().lsm.subcompaction_ended());
}
