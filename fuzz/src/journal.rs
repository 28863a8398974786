//! Decoders of the journal of `zonda-space`: its chunks, and reading it back from a damaged zone.

use std::sync::{Arc, OnceLock};

use zonda_device::{AlignedBuf, ZoneId, ZonedDevice};
use zonda_space::{ChunkHeader, Journal, JournalFound, NewStore, Space, StoreId, items, read_journal};

use crate::space::{JOURNAL, device, options, read_block};

const BLOCK_BYTES: usize = 4096;

/// A chunk header, with its checksum in the last 4 bytes; the checksum covers the payload too.
const CHUNK_HEADER_BYTES: usize = 32;

/// One chunk: what decodes lies within the input, and so do its items.
pub fn space_chunk(input: &[u8]) {
    let Some((header, payload)) = ChunkHeader::decode(input) else { return };
    assert_eq!(header.payload_bytes as usize, payload.len());
    let item_bytes: usize = items(payload).map(|item| item.len() + 4).sum();
    assert!(item_bytes <= payload.len(), "{item_bytes} bytes of items in {}", payload.len());
}

/// A journal zone that holds the input behind a good header: it is read up to the damage, without an error.
pub fn space_journal(input: &[u8]) {
    let (found, entries) = read_back(input);
    assert!(found.has_snapshot || entries == 0, "{entries} entries without a snapshot");
}

/// What a journal of these blocks says: what was found, and how many entries were delivered.
fn read_back(input: &[u8]) -> (JournalFound, u64) {
    let device = device();
    for (zone, header) in &template().headers {
        device.append(*zone, &AlignedBuf::from_slice(header)).expect("an empty zone takes a block");
    }
    let zone = template().journal_zone;
    let blocks_max = usize::try_from(device.geometry().zone_capacity_blocks).expect("a small device") - 1;
    for block in input.chunks_exact(BLOCK_BYTES).take(blocks_max) {
        device.append(zone, &AlignedBuf::from_slice(block)).expect("the zone is not full");
    }
    let (space, recovered) = Space::open(device, &options()).expect("the headers are good");
    let mut entries = 0_u64;
    let count = &mut |_: zonda_space::JournalEntry<'_>| {
        entries += 1;
        Ok(())
    };
    let found = read_journal(&space, JOURNAL, &recovered.zones, count).expect("a bad chunk is no error");
    (found, entries)
}

pub(crate) fn space_journal_valid() -> Vec<Vec<u8>> {
    vec![template().journal.clone()]
}

/// Makes the checksum of every whole chunk right. Chunks begin at blocks.
pub(crate) fn space_journal_seal(input: &mut [u8]) {
    for start in (0..input.len()).step_by(BLOCK_BYTES) {
        let Some(header) = ChunkHeader::peek(&input[start..]) else { continue };
        let end = start + CHUNK_HEADER_BYTES + header.payload_bytes as usize;
        if let Some(chunk) = input.get_mut(start..end) {
            header.encode(chunk);
        }
    }
}

/// A store with a journal, as bytes.
struct Template {
    /// The first block of each zone that is written.
    headers: Vec<(ZoneId, Vec<u8>)>,
    journal_zone: ZoneId,
    /// The journal's blocks behind the header.
    journal: Vec<u8>,
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| read_template(write_journal(device()).expect("an empty device takes a store").as_ref()))
}

fn write_journal(device: Arc<dyn ZonedDevice>) -> zonda_space::Result<Arc<dyn ZonedDevice>> {
    let new = NewStore { id: StoreId(7), features: 0, superblock: Vec::new(), overwrite: false };
    let space = Space::format(Arc::clone(&device), new, &options())?;
    let mut journal = Journal::start(&space, JOURNAL, JournalFound::default(), &mut |snapshot| {
        snapshot.put(b"first")?;
        snapshot.put(&[7; 5000])
    })?;
    for record in [&b"record"[..], b"", &[9; 300]] {
        journal.append(record)?;
        journal.sync()?;
    }
    Ok(device)
}

/// Takes the store apart. The journal's zone is the one with the most blocks: the others have a header only.
fn read_template(device: &dyn ZonedDevice) -> Template {
    let geometry = device.geometry();
    let mut reports = device.report(ZoneId(0), geometry.zone_count).expect("a memory device reports");
    reports.retain(|report| report.written_blocks() > 0);
    let journal = reports.iter().max_by_key(|report| report.written_blocks()).expect("a store has written zones");
    let blocks = (1..journal.written_blocks()).map(|offset| read_block(device, journal.start.plus(offset)));
    Template {
        headers: reports.iter().map(|report| (report.zone, read_block(device, report.start))).collect(),
        journal_zone: journal.zone,
        journal: blocks.collect::<Vec<_>>().concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_valid_journal_delivers_two_items_and_three_records() {
        let (found, entries) = read_back(&template().journal);
        assert!(found.has_snapshot);
        assert_eq!((entries, found.ignored_chunks), (5, 0));
    }
}
