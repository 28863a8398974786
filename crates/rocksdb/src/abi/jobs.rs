//! What the event listener says, over the border. Nothing here can fail: what is not understood is not known.

use std::ffi::c_int;
use std::sync::{Arc, Weak};

use zonda_files::FilePath;

use super::{Text, catch};
use crate::failure::Failure;
use crate::lsm::{NewTable, Reason, Running, View};
use crate::mount::Mounted;
use crate::system::System;

/// The file system that a listener speaks to, if it is still mounted.
struct Watch(Weak<Mounted>);

impl Watch {
    /// Tells it something; a panic is its own affair.
    fn tell(&self, what: impl FnOnce(&View) -> Result<(), Failure>) {
        if let Some(mount) = self.0.upgrade() {
            let _unheard = catch(|| what(&mount.lsm));
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_watch(system: &System) -> *mut Watch {
    Box::into_raw(Box::new(Watch(Arc::downgrade(system.mount()))))
}

/// # Safety
/// `watch` comes from `zonda_bridge_watch` and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_free_watch(watch: *mut Watch) {
    // SAFETY: as this function's.
    drop(unsafe { Box::from_raw(watch) });
}

/// A level of the tree; what is none is not known.
fn level(level: c_int) -> Option<u8> {
    u8::try_from(level).ok()
}

/// # Safety
/// `database`, `family` and `path` are text.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_table_begun(
    watch: &Watch,
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
    watch.tell(|lsm| {
        // SAFETY: as this function's.
        let (database, family, path) = unsafe { (database.get()?, family.lossy(), path.get()?) };
        let (database, path) = (FilePath::parse(database)?, FilePath::parse(path)?);
        lsm.table_begun(NewTable { database, family: &family, path, job, reason });
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
    watch: &Watch,
    of: JobOf,
    output_level: c_int,
    inputs: *const u64,
    input_count: usize,
) {
    watch.tell(|lsm| {
        let inputs = match input_count {
            0 => Vec::new(),
            // SAFETY: as this function's.
            count => unsafe { std::slice::from_raw_parts(inputs, count) }.to_vec(),
        };
        // SAFETY: as this function's.
        let (database, family) = unsafe { (of.database.get()?, of.family.lossy()) };
        if let Some(output_level) = level(output_level) {
            let running = Running { column_family: of.family_number, output_level, inputs, id: None };
            lsm.job_begun(database, of.number, &family, running);
        }
        Ok(())
    });
}

/// # Safety
/// `of` has two texts.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_job_ended(watch: &Watch, of: JobOf) {
    watch.tell(|lsm| {
        // SAFETY: as this function's.
        let (database, family) = unsafe { (of.database.get()?, of.family.lossy()) };
        lsm.job_ended(database, of.number, &family);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_job_failed(watch: &Watch) {
    watch.tell(|lsm| {
        lsm.job_failed();
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_subcompaction_begun(watch: &Watch, job: c_int, output_level: c_int) {
    watch.tell(|lsm| {
        if let Some(output_level) = level(output_level) {
            lsm.subcompaction_begun(job, output_level);
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_subcompaction_ended(watch: &Watch) {
    watch.tell(|lsm| {
        lsm.subcompaction_ended();
        Ok(())
    });
}
