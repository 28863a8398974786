//! Bytes between a store and the host's files.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
        let count = from.read(&mut buffer).context("cannot read what is copied")?;
        if count == 0 {
            break;
        }
        writer.append(&buffer[..count])?;
    }
    let size = writer.size_bytes();
    writer.sync()?;
    writer.close()?;
    Ok(size)
}

/// Replaces a file of the host with what `fill` writes, once that is whole and durable; until then, and after an error, it stays. What is
/// no ordinary file, a pipe for instance, is written to.
///
/// # Errors
/// Those of `fill`, and of the host.
pub(super) fn replace(path: &Path, fill: &mut dyn FnMut(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    let there = match OpenOptions::new().write(true).open(path) {
        Ok(there) => Some(there),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(cannot),
    };
    let permissions = match &there {
        Some(there) if !there.metadata()?.is_file() => {
            let mut out = BufWriter::new(there);
            fill(&mut out)?;
            return out.flush().with_context(cannot);
        }
        Some(there) => Some(there.metadata()?.permissions()),
        None => None,
    };
    // A link stays one: what it leads to is replaced.
    let path = if there.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(directory);
    let mut out = BufWriter::new(unfinished.with_context(cannot)?);
    fill(&mut out)?;
    out.flush().with_context(cannot)?;
    let file = out.get_ref().as_file();
    permissions.map(|permissions| file.set_permissions(permissions)).transpose()?;
    file.sync_all().with_context(cannot)?;
    out.into_inner()?.persist(&path).with_context(cannot)?;
    Ok(())
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
