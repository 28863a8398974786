//! A queue in a child after a fork: alone in its process, because a fork copies what other tests hold.

use tempfile::TempDir;
use zonda_device::{
    AlignedBuf, DeviceError, FileDevice, FileOptions, Geometry, Io, IoQueue, Lba, QueueKind, ZoneId, ZonedDevice,
};

/// What of it the child was allowed; 0 is nothing.
fn misuse(queue: &mut dyn IoQueue) -> i32 {
    let read = Io::Read { at: Lba(0), into: AlignedBuf::with_len(4096) };
    match queue.submit(2, read) {
        Err(rejected) if matches!(rejected.error, DeviceError::Forked { .. }) => {}
        _ => return 1,
    }
    queue.start();
    if !matches!(queue.complete(1, &mut Vec::new()), Err(DeviceError::Forked { .. })) {
        return 2;
    }
    0
}

#[test]
fn a_forked_child_takes_nothing_from_its_parents_queue() {
    let dir = TempDir::new().unwrap();
    let options = FileOptions { queue: QueueKind::Uring, ..FileOptions::default() };
    let device = FileDevice::create(dir.path().join("device"), Geometry::new(64 << 10, 4), &options).unwrap();
    let Ok(mut queue) = device.queue(4) else { return };
    queue.submit(1, Io::Append { zone: ZoneId(0), from: AlignedBuf::from_slice(&[5; 4096]) }).unwrap();
    queue.start();
    // SAFETY: the child calls only code that takes no lock another thread may hold, then ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let allowed = misuse(&mut *queue);
        if allowed == 0 {
            drop(queue);
        }
        // SAFETY: ends the process without running anything else.
        unsafe { libc::_exit(allowed) }
    }
    let mut status = 0;
    // SAFETY: waits for our child; `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0), "how far the child came");
    let mut done = Vec::new();
    assert_eq!(queue.complete(1, &mut done).unwrap(), 1);
    assert_eq!((done[0].token, done[0].result.clone().unwrap()), (1, Lba(0)));
}
