//! Open files over the border.

use zonda_files::lsm::KeyRange;
use zonda_files::{FileRead, Lifetime};

use super::{Outcome, Text, catch, guarded, slice};
use crate::failure::Failure;
use crate::system::{Readable, Reader, System};
use crate::writable::Writable;

/// Gives C++ what was opened; it comes back to be freed.
///
/// # Safety
/// `out` may be written.
unsafe fn hand_out<T>(opened: Result<T, Failure>, out: *mut *mut T) -> Result<(), Failure> {
    let opened = Box::into_raw(Box::new(opened?));
    // SAFETY: as the caller promises.
    unsafe { out.write(opened) };
    Ok(())
}

/// # Safety
/// `system` is open; `path` is text; `file` may be written. So for all functions of this file, as far as they have these.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_create(system: &System, path: Text, file: *mut *mut Writable) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| unsafe { hand_out(system.create(path.get()?), file) })
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_append_to(system: &System, path: Text, file: *mut *mut Writable) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| unsafe { hand_out(system.append_to(path.get()?), file) })
}

/// # Safety
/// As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_reuse(system: &System, path: Text, old: Text, file: *mut *mut Writable) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| unsafe { hand_out(system.reuse(path.get()?, old.get()?), file) })
}

/// # Safety
/// `data` points to `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_append(file: &Writable, data: *const u8, length: usize) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| file.append(unsafe { slice(data, length) }))
}

/// # Safety
/// `data` points to `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_write_at(file: &Writable, offset: u64, data: *const u8, length: usize) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| file.write_at(offset, unsafe { slice(data, length) }))
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_truncate_open(file: &Writable, size: u64) -> Outcome {
    guarded(|| file.truncate(size))
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_flush(file: &Writable) -> Outcome {
    guarded(|| file.flush())
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_sync(file: &Writable) -> Outcome {
    guarded(|| file.sync())
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_close_file(file: &Writable) -> Outcome {
    guarded(|| file.close())
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_written(file: &Writable) -> u64 {
    catch(|| file.size_bytes()).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_set_lifetime(file: &Writable, hint: u8) -> Outcome {
    guarded(|| file.set_lifetime(lifetime(hint)))
}

/// RocksDB's numbers of write lifetime hints.
fn lifetime(hint: u8) -> Lifetime {
    match hint {
        1 => Lifetime::None,
        2 => Lifetime::Short,
        3 => Lifetime::Medium,
        4 => Lifetime::Long,
        5 => Lifetime::Extreme,
        _ => Lifetime::NotSet,
    }
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_wants_keys(file: &Writable) -> u8 {
    catch(|| file.wants_keys().map_or(0, |order| order as u8)).unwrap_or(0)
}

/// # Safety
/// `smallest` and `largest` are bytes, of any kind.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_describe_keys(file: &Writable, smallest: Text, largest: Text) -> Outcome {
    guarded(|| {
        // SAFETY: as this function's.
        let (smallest, largest) = unsafe { (smallest.bytes(), largest.bytes()) };
        file.describe_keys(KeyRange::new(smallest, largest))
    })
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_check_levels(system: &System, levels_move: bool) -> Outcome {
    guarded(|| Ok(system.mount().store.check_levels(levels_move)?))
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_places_by_keys(system: &System) -> bool {
    system.mount().places_by_keys
}

/// # Safety
/// `file` comes from one of the functions above and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_free_writable(file: *mut Writable) {
    // A panic while it is closed has nobody to be told: RocksDB closes files whose end it cares about.
    // SAFETY: as this function's.
    let _unheard = catch(|| drop(unsafe { Box::from_raw(file) }));
}

/// # Safety
/// As of `zonda_bridge_create`.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_read_file(system: &System, path: Text, file: *mut *mut Readable) -> Outcome {
    // SAFETY: as this function's.
    guarded(|| unsafe { hand_out(system.read(path.get()?), file) })
}

/// Who reads, by the numbers of `shim/bridge.h`.
fn reader(who: u8) -> Reader {
    match who {
        1 => Reader::Compaction,
        2 => Reader::Keys,
        _ => Reader::User,
    }
}

/// # Safety
/// `into` points to `length` bytes that may be written, and `read` may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_read(
    file: &Readable,
    offset: u64,
    into: *mut u8,
    length: usize,
    who: u8,
    read: *mut usize,
) -> Outcome {
    guarded(|| {
        if length == 0 {
            return Ok(());
        }
        // SAFETY: as this function's. RocksDB's scratch may not have been written yet; it is only written here.
        let into = unsafe { std::slice::from_raw_parts_mut(into, length) };
        let bytes = file.read_at(offset, into, reader(who))?;
        // SAFETY: as this function's.
        unsafe { read.write(bytes) };
        Ok(())
    })
}

/// One of several reads: `read` is how much of `into` was filled.
#[repr(C)]
struct ManyRead {
    offset: u64,
    into: *mut u8,
    length: usize,
    read: usize,
}

impl ManyRead {
    /// # Safety
    /// `into` points to `length` bytes that may be written and that nobody else has; if there are none it is anything.
    unsafe fn file_read<'a>(&self) -> FileRead<'a> {
        let into: &mut [u8] = match self.length {
            0 => &mut [],
            // SAFETY: as this function's. RocksDB's scratch may not have been written yet; it is only written here.
            length => unsafe { std::slice::from_raw_parts_mut(self.into, length) },
        };
        FileRead { offset: self.offset, into, bytes: 0 }
    }
}

/// # Safety
/// `reads` points to `count` reads, whose buffers may be written and do not overlap.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_read_many(file: &Readable, reads: *mut ManyRead, count: usize, who: u8) -> Outcome {
    guarded(|| {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: as this function's.
        let reads = unsafe { std::slice::from_raw_parts_mut(reads, count) };
        // SAFETY: as this function's.
        let mut of_file: Vec<FileRead<'_>> = reads.iter().map(|read| unsafe { read.file_read() }).collect();
        file.read_many(&mut of_file, reader(who))?;
        reads.iter_mut().zip(of_file).for_each(|(read, done)| read.read = done.bytes);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_readable_size(file: &Readable) -> u64 {
    catch(|| file.size_bytes()).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn zonda_bridge_readable_id(file: &Readable) -> u64 {
    file.file()
}

/// # Safety
/// `file` comes from `zonda_bridge_read_file` and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn zonda_bridge_free_readable(file: *mut Readable) {
    // SAFETY: as this function's.
    let _unheard = catch(|| drop(unsafe { Box::from_raw(file) }));
}
