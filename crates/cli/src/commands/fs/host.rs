//! Bytes between a store and the host's files.

use std::io::{Read, Write};

use anyhow::Context;
use zonda_files::{FileKind, FilePath, FileStore, FileTags};

/// Bytes moved at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// For modification times.
#[expect(clippy::disallowed_types, reason = "a file's modification time is the world's time")]
pub(super) fn seconds_since_1970() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Copies a file out of the store; returns its bytes.
///
/// # Errors
/// Those of reading and writing.
pub(super) fn copy_out(store: &FileStore, path: &FilePath, to: &mut dyn Write) -> anyhow::Result<u64> {
    let reader = store.open(path)?;
    let (size, mut at) = (reader.size_bytes(), 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    while at < size {
        let count = reader.read_at(at, &mut buffer).with_context(|| format!("cannot read {path}"))?;
        anyhow::ensure!(count > 0, "{path} ends at {at} of {size} bytes");
        to.write_all(&buffer[..count])?;
        at += count as u64;
    }
    Ok(at)
}

/// Copies a file into the store and makes it durable; returns its bytes.
///
/// # Errors
/// Those of reading and writing.
pub(super) fn copy_in(store: &FileStore, path: &FilePath, tags: FileTags, from: &mut dyn Read) -> anyhow::Result<u64> {
    let mut writer = store.create(path, tags)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        writer.append(&buffer[..count]).with_context(|| format!("cannot write {path}"))?;
    }
    let size = writer.size_bytes();
    writer.sync()?;
    writer.close()?;
    Ok(size)
}

/// What a file is, by the name that RocksDB gives it; anything unknown is data.
pub(super) fn tags_of(name: &str) -> FileTags {
    let is_meta = ["CURRENT", "IDENTITY", "LOCK"].contains(&name)
        || ["MANIFEST-", "OPTIONS-", "LOG"].iter().any(|start| name.starts_with(start));
    let kind = match name.rsplit_once('.') {
        _ if is_meta => FileKind::Meta,
        Some((_, "log")) => FileKind::Log,
        _ => FileKind::Data,
    };
    FileTags::of(kind)
}
