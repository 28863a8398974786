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

/// A job of one column family, as `zonda_job` of `shim/bridge.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct JobOf {
    database: Text,
    family: Text,
    family_number: u32,
    number: c_int,
}

/// # Safety
/// `of` has two texts, and `inputs` points to `input_count` numbers, or there are none.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_job_begun(
    system: &System,
    of: JobOf,
    output_level: c_int,
    inputs: *const u64,
    input_count: usize,
) {
    let _unheard = catch(|| -> Result<(), Failure> {
        let inputs = match input_count {
            0 => Vec::new(),
            // SAFETY: as this function's.
            count => unsafe { std::slice::from_raw_parts(inputs, count) }.to_vec(),
        };
        // SAFETY: as this function's.
        let (database, family) = unsafe { (of.database.get()?, of.family.get()?) };
        if let Some(output_level) = level(output_level) {
            let running = Running { column_family: of.family_number, output_level, inputs, id: None };
            system.mount().lsm.job_begun(database, of.number, family, running);
        }
        Ok(())
    });
}

/// # Safety
/// `of` has two texts.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_job_ended(system: &System, of: JobOf) {
    let _unheard = catch(|| -> Result<(), Failure> {
        // SAFETY: as this function's.
        let (database, family) = unsafe { (of.database.get()?, of.family.get()?) };
        system.mount().lsm.job_ended(database, of.number, family);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_job_failed(system: &System) {
    let _unheard = catch(|| system.mount().lsm.job_failed());
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
