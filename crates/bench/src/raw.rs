//! Raw reads of a store's file: what the file system and the device below it give when nothing is above. The yardstick of
//! the read experiments.
//!
//! Safe code is not enough for one function: requests that are in flight in the kernel fill buffers after the submitting
//! call has returned.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use zonda_device::AlignedBuf;
use zonda_rt::{Rng, Seed, now, spawn};

use crate::{BenchError, Result};

/// Bytes of one raw read: a leaf.
const BLOCK_BYTES: usize = 4096;

/// Bytes of one read of the survey.
const SURVEY_BYTES: usize = 1 << 20;

/// The blocks of a file that hold something: what lies in holes would be read without the device.
pub(crate) struct RawFile {
    file: Arc<File>,
    /// Offsets in bytes.
    blocks: Arc<Vec<u64>>,
    /// Whether the page cache is passed by.
    pub(crate) direct: bool,
}

impl RawFile {
    /// Looks through the file at `path` once. Not locked: the store may be open.
    ///
    /// # Errors
    /// `Io`; `Usage` for a file that holds nothing.
    pub(crate) fn survey(path: &Path) -> Result<Self> {
        let doing = |source| BenchError::io(format!("read {}", path.display()), source);
        let (file, direct) = open(path).map_err(doing)?;
        let blocks = blocks_with_data(&file).map_err(doing)?;
        if blocks.is_empty() {
            let given = path.display().to_string();
            return Err(BenchError::Usage { option: "raw reads", given, expected: "a file with data".into() });
        }
        Ok(Self { file: Arc::new(file), blocks: Arc::new(blocks), direct })
    }

    /// Reads per second of `threads` threads that each read one random block after the other.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn plain_loops(&self, threads: usize, reads: u64, seed: Seed) -> Result<f64> {
        let start = now();
        let each = reads / threads as u64;
        let threads: Vec<_> = (0..threads)
            .map(|nth| {
                let (file, blocks) = (Arc::clone(&self.file), Arc::clone(&self.blocks));
                let rng = seed.derive(&format!("raw {nth}")).rng();
                spawn(format!("raw-{nth}"), move || plain_loop(&file, &blocks, each, rng))
            })
            .collect();
        let loops = threads.len() as u64;
        for thread in threads {
            thread.join()?.map_err(|source| BenchError::io("read a raw block", source))?;
        }
        Ok((each * loops) as f64 / now().since(start).as_secs_f64())
    }

    /// Reads per second of one thread that keeps `depth` random reads in flight. `None` where there is no `io_uring`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn queue_loop(&self, depth: u32, reads: u64, seed: Seed) -> Result<Option<f64>> {
        let start = now();
        let done = queue_loop(&self.file, &self.blocks, (depth, reads), seed.derive("raw queue").rng());
        let done = done.map_err(|source| BenchError::io("read raw blocks", source))?;
        Ok(done.then(|| reads as f64 / now().since(start).as_secs_f64()))
    }
}

/// Opens a file past the page cache.
#[cfg(target_os = "linux")]
pub(crate) const DIRECT_FLAG: i32 = libc::O_DIRECT;
/// Nothing where there is no such way.
#[cfg(not(target_os = "linux"))]
pub(crate) const DIRECT_FLAG: i32 = 0;

/// Opens a file past the page cache where the file system can.
fn open(path: &Path) -> std::io::Result<(File, bool)> {
    if DIRECT_FLAG != 0
        && let Ok(file) = OpenOptions::new().read(true).custom_flags(DIRECT_FLAG).open(path)
        && file.read_at(&mut AlignedBuf::with_len(BLOCK_BYTES), 0).is_ok()
    {
        return Ok((file, true));
    }
    Ok((File::open(path)?, false))
}

fn blocks_with_data(file: &File) -> std::io::Result<Vec<u64>> {
    let mut blocks = Vec::new();
    let mut buffer = AlignedBuf::with_len(SURVEY_BYTES);
    let mut offset = 0;
    loop {
        let bytes = file.read_at(&mut buffer, offset)?;
        for (nth, block) in buffer[..bytes].chunks_exact(BLOCK_BYTES).enumerate() {
            if block.iter().any(|&byte| byte != 0) {
                blocks.push(offset + (nth * BLOCK_BYTES) as u64);
            }
        }
        offset += bytes as u64;
        if bytes < SURVEY_BYTES {
            return Ok(blocks);
        }
    }
}

fn random(blocks: &[u64], rng: &mut Rng) -> u64 {
    let nth = rng.below(blocks.len() as u64);
    usize::try_from(nth).ok().and_then(|nth| blocks.get(nth)).copied().expect("drawn below the number of blocks")
}

fn plain_loop(file: &File, blocks: &[u64], reads: u64, mut rng: Rng) -> std::io::Result<()> {
    let mut buffer = AlignedBuf::with_len(BLOCK_BYTES);
    for _ in 0..reads {
        file.read_exact_at(&mut buffer, random(blocks, &mut rng))?;
    }
    Ok(())
}

/// `false` where there is no `io_uring`.
#[cfg(target_os = "linux")]
fn queue_loop(file: &File, blocks: &[u64], (depth, reads): (u32, u64), mut rng: Rng) -> std::io::Result<bool> {
    use std::os::fd::AsRawFd;

    use io_uring::{IoUring, opcode, types};

    // Before the ring: it is dropped after it, hence when nothing is in flight any more.
    let mut buffers: Vec<AlignedBuf> = (0..depth).map(|_| AlignedBuf::with_len(BLOCK_BYTES)).collect();
    let Ok(mut ring) = IoUring::new(depth.next_power_of_two()) else { return Ok(false) };
    let block_bytes = u32::try_from(BLOCK_BYTES).expect("a block is 4096 bytes");
    let (mut free, mut begun, mut ended): (Vec<u64>, _, _) = ((0..u64::from(depth)).collect(), 0, 0);
    while ended < reads {
        while begun < reads
            && let Some(slot) = free.pop()
        {
            let into = buffers[usize::try_from(slot).expect("a slot is below the depth")].as_mut_ptr();
            let read = opcode::Read::new(types::Fd(file.as_raw_fd()), into, block_bytes);
            let entry = read.offset(random(blocks, &mut rng)).build().user_data(slot);
            // SAFETY: the buffer is one block long, belongs to this slot alone until its completion is seen, and is
            // freed after the ring, which ends what is in flight; so is the file.
            unsafe { ring.submission().push(&entry) }.expect("the ring has an entry for every slot");
            begun += 1;
        }
        ring.submit_and_wait(1)?;
        for completion in ring.completion() {
            if completion.result() < 0 {
                return Err(std::io::Error::from_raw_os_error(-completion.result()));
            }
            free.push(completion.user_data());
            ended += 1;
        }
    }
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn queue_loop(_: &File, _: &[u64], _: (u32, u64), _: Rng) -> std::io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_blocks_with_data_are_read_and_all_loops_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw");
        let mut bytes = vec![0; 64 * BLOCK_BYTES];
        bytes[5 * BLOCK_BYTES] = 1;
        bytes[9 * BLOCK_BYTES + 4095] = 1;
        std::fs::write(&path, bytes).unwrap();
        let raw = RawFile::survey(&path).unwrap();
        assert_eq!(*raw.blocks, [5 * BLOCK_BYTES as u64, 9 * BLOCK_BYTES as u64]);
        assert!(raw.plain_loops(2, 10, Seed(1)).unwrap() > 0.0);
        assert!(raw.queue_loop(4, 10, Seed(1)).unwrap().is_none_or(|rate| rate > 0.0));
    }

    #[test]
    fn an_empty_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("raw");
        std::fs::write(&path, []).unwrap();
        assert!(RawFile::survey(&path).is_err());
    }
}
