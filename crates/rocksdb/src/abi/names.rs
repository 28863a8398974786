//! The file system and its names over the border.

use std::ffi::c_void;

use super::{Outcome, Text, catch, guarded};
use crate::system::{Info, System};

/// What a name stands for, for C++.
#[repr(C)]
#[derive(Clone, Copy)]
struct CInfo {
    is_directory: bool,
    file: u64,
    size_bytes: u64,
    links: u64,
    modified_seconds: u64,
}

impl From<Info> for CInfo {
    fn from(info: Info) -> Self {
        Self {
            is_directory: info.is_directory,
            file: info.file,
            size_bytes: info.size_bytes,
            links: info.links.into(),
            modified_seconds: info.modified_seconds,
        }
    }
}

/// Takes one name of a directory; does not throw.
type Each = unsafe extern "C" fn(context: *mut c_void, name: Text, info: *const CInfo);

/// # Safety
/// `uri` is text, `system` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_open(uri: Text, system: *mut *mut System) -> Outcome {
    guarded(|| {
        // SAFETY: as this function's.
        let opened = Box::new(System::open(unsafe { uri.get()? })?);
        // SAFETY: as this function's.
        unsafe { system.write(Box::into_raw(opened)) };
        Ok(())
    })
}

/// # Safety
/// `system` comes from `zonda_bridge_open` and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_close(system: *mut System) {
    // SAFETY: as this function's.
    let _unheard = catch(|| drop(unsafe { Box::from_raw(system) }));
}

/// # Safety
/// `path` is text, `info` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_info(system: &System, path: Text, info: *mut CInfo) -> Outcome {
    guarded(|| {
        // SAFETY: as this function's.
        let found = system.info(unsafe { path.get()? })?;
        // SAFETY: as this function's.
        unsafe { info.write(found.into()) };
        Ok(())
    })
}

/// # Safety
/// `directory` is text; `each` may be called with `context`.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_list(system: &System, directory: Text, each: Each, context: *mut c_void) -> Outcome {
    guarded(|| {
        // SAFETY: as this function's.
        for (name, info) in system.list(unsafe { directory.get()? })? {
            let text = Text { data: name.as_ptr(), length: name.len() };
            // SAFETY: as this function's; the name outlives the call.
            unsafe { each(context, text, &CInfo::from(info)) };
        }
        Ok(())
    })
}

/// # Safety
/// `path` is text. So for the functions below.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_make_directory(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.make_directory(unsafe { path.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_make_directories(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.make_directories(unsafe { path.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_remove_directory(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.remove_directory(unsafe { path.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_remove(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.remove(unsafe { path.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_rename(system: &System, from: Text, to: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.rename(unsafe { from.get()? }, unsafe { to.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_link(system: &System, from: Text, to: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.link(unsafe { from.get()? }, unsafe { to.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_truncate(system: &System, path: Text, size: u64) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.truncate(unsafe { path.get()? }, size))
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_sync_directory(system: &System, names_a_synced_file: bool) -> Outcome {
    guarded(|| system.sync_directory(names_a_synced_file))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_lock(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.lock(unsafe { path.get()? }))
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_unlock(system: &System, path: Text) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| system.unlock(unsafe { path.get()? }))
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_free_bytes(system: &System) -> u64 {
    catch(|| system.free_bytes()).unwrap_or(0)
}
