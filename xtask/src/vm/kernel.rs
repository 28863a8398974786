//! Takes the kernel out of its compressed image. QEMU starts the bare ELF file at once; under emulation the kernel's own
//! unpacking costs seconds at every start.

use std::{fs, path::Path};

use anyhow::{Context, Result, bail, ensure};

use super::cache::Cache;

/// Start of the setup header's field that counts its sectors.
const SETUP_SECTORS: usize = 0x1f1;
/// Offset and length of the compressed kernel, from the end of the setup code.
const PAYLOAD: usize = 0x248;
const SECTOR_BYTES: usize = 512;

/// How the kernel is compressed, by its first bytes, and the program that undoes it.
const COMPRESSIONS: [(&[u8], &str); 4] =
    [(b"\xfd7zXZ\0", "xz"), (b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4")];

/// Writes the kernel in `image` to `into`.
///
/// # Errors
/// If it is no kernel image, or its compression or the program for it is not known.
pub(super) fn extract(cache: &Cache, image: &Path, into: &Path) -> Result<()> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let payload = payload(&bytes)?;
    let Some((_, program)) = COMPRESSIONS.iter().find(|(magic, _)| payload.starts_with(magic)) else {
        bail!("the kernel is compressed in an unknown way");
    };
    let compressed = into.with_extension("compressed");
    fs::write(&compressed, payload).context("cannot write the compressed kernel")?;
    let mut command = cache.command(cache.program(program)?);
    let output = command.arg("-dc").arg(&compressed).output().with_context(|| format!("cannot start {program}"))?;
    // Other formats than xz have the length of the kernel behind them, which their programs complain of.
    ensure!(output.stdout.starts_with(b"\x7fELF"), "{program} does not find a kernel");
    fs::remove_file(&compressed).context("cannot remove the compressed kernel")?;
    fs::write(into, output.stdout).with_context(|| format!("cannot write {}", into.display()))
}

/// The compressed kernel inside a bootable image.
fn payload(image: &[u8]) -> Result<&[u8]> {
    let sectors = usize::from(*image.get(SETUP_SECTORS).context("the kernel image is cut off")?).max(4);
    let start = (sectors + 1) * SECTOR_BYTES + number(image, PAYLOAD)?;
    let end = start.checked_add(number(image, PAYLOAD + 4)?).context("the kernel image is damaged")?;
    image.get(start..end).context("the kernel image is cut off")
}

fn number(image: &[u8], at: usize) -> Result<usize> {
    let bytes = image.get(at..at + 4).context("the kernel image is cut off")?;
    Ok(u32::from_le_bytes(bytes.try_into().expect("four bytes were asked for")) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_found_and_a_short_image_refused() {
        let mut image = vec![0; 4096];
        image[SETUP_SECTORS] = 2;
        image[PAYLOAD..PAYLOAD + 4].copy_from_slice(&16u32.to_le_bytes());
        image[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&3u32.to_le_bytes());
        let start = 5 * SECTOR_BYTES + 16;
        image[start..start + 3].copy_from_slice(b"abc");
        assert_eq!(payload(&image).unwrap(), b"abc");
        assert!(payload(&image[..start + 2]).is_err());
        assert!(payload(&image[..20]).is_err());
    }
}
