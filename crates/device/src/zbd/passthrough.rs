//! NVMe commands past the block layer, through the character device: zone append, which tells where the data went, and
//! the write that goes with it.
//!
//! Why the write: a zone that is appended to by command must not be written through the block layer as well, which
//! keeps its own idea of where the write pointer is.
use std::{
    fs::{File, OpenOptions},
    path::PathBuf,
};

use super::{
    attributes::Attributes,
    failure::Failure,
    sys::{self, NvmeCommand},
};

const WRITE: u8 = 0x01;
const ZONE_APPEND: u8 = 0x7D;

/// The way to give a namespace commands.
#[derive(Debug)]
pub(crate) struct Passthrough {
    character: File,
    namespace: u32,
}

/// What to do with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Write at this block.
    Write(u64),
    /// Append to the zone that begins at this block.
    Append(u64),
}

impl Command {
    /// The same for what comes `blocks` further on. Appends are never split: they keep their zone.
    pub(crate) fn advanced(self, blocks: u64) -> Self {
        match self {
            Self::Write(at) => Self::Write(at + blocks),
            Self::Append(zone) => Self::Append(zone),
        }
    }
}

impl Passthrough {
    /// Opens the character device of an NVMe namespace; `None` if there is none, or it is not for us.
    pub(crate) fn open(attributes: &Attributes) -> Option<Self> {
        let path: PathBuf = attributes.nvme_character_device()?;
        attributes.append_bytes_max?;
        let character = OpenOptions::new().read(true).write(true).open(path).ok()?;
        let namespace = sys::nvme_namespace(&character).ok()?;
        Some(Self { character, namespace })
    }

    /// The character device.
    pub(crate) fn character(&self) -> &File {
        &self.character
    }

    /// The NVMe command; its data is still to be named.
    pub(crate) fn command(&self, command: Command, blocks: u64) -> NvmeCommand {
        let (opcode, at) = match command {
            Command::Write(at) => (WRITE, at),
            Command::Append(zone) => (ZONE_APPEND, zone),
        };
        let low = u32::try_from(at & 0xFFFF_FFFF).expect("32 bits");
        let high = u32::try_from(at >> 32).expect("32 bits");
        let count = u32::try_from(blocks.saturating_sub(1)).unwrap_or(u32::MAX);
        NvmeCommand {
            opcode,
            namespace: self.namespace,
            dwords_10_15: [low, high, count, 0, 0, 0],
            ..Default::default()
        }
    }

    /// Writes or appends; returns the first block written.
    pub(crate) fn write(&self, command: Command, data: &[u8], block_bytes: u32) -> Result<u64, Failure> {
        let blocks = data.len() as u64 / u64::from(block_bytes);
        let outcome = sys::nvme_write(&self.character, self.command(command, blocks), data)?;
        let result = outcome.map_err(Failure::Drive)?;
        Ok(if let Command::Write(at) = command { at } else { result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_lengths_are_in_their_words() {
        let passthrough = Passthrough { character: File::open("/dev/null").unwrap(), namespace: 7 };
        let append = passthrough.command(Command::Append(0x1_2345_6789), 4);
        assert_eq!((append.opcode, append.namespace), (0x7D, 7));
        assert_eq!(append.dwords_10_15, [0x2345_6789, 1, 3, 0, 0, 0]);
        assert_eq!(passthrough.command(Command::Write(9), 1).dwords_10_15, [9, 0, 0, 0, 0, 0]);
    }
}
