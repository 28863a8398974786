//! Copies a snapshot into a new store.

use zonda_tree::BatchOp;

use crate::chunks::{self, PutChunks};
use crate::key::KeyRange;
use crate::open::Access;
use crate::prefix::Prefix;
use crate::{Db, Durability, Options, Result, Snapshot, catalogue};

/// Copies all trees of `snapshot`, names included, into a new store at `uri` and closes it; returns the number of pairs. `options` say
/// how to make the store; what neither they nor `uri` say is as in the store copied. `progress` hears of the pairs copied so far.
///
/// The new store is marked until all is durable: no opening takes part of a copy, as a killed process leaves it, for a store.
///
/// # Errors
/// `AlreadyExists` and the others of creating a store; those of reading and writing, `TooLittleMemory` among them. A file that was begun is
/// removed then.
pub(crate) fn copy(snapshot: &Snapshot, uri: &str, options: &Options, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let store = snapshot.store();
    let usage = store.pages().usage();
    let live_bytes = usage.live_page_bytes + usage.live_value_bytes;
    let options = store.shape().of_copy(options, live_bytes, store.governor().budget_needed()).create_new(true);
    let (target, made) = Db::open_made(uri, &options, Access::ReadWrite, &mut |_| {})?;
    // After an error `made` goes first and `target`, with its lock, last: else the file that is removed could be somebody else's.
    catalogue::begin_copy(target.store().writer()?)?;
    let pairs = copy_pairs(snapshot, &target, progress)?;
    catalogue::end_copy(target.store().writer()?)?;
    target.store().close()?;
    made.keep();
    Ok(pairs)
}

fn copy_pairs(snapshot: &Snapshot, target: &Db, progress: &mut dyn FnMut(u64)) -> Result<u64> {
    let source = snapshot.store().reader()?;
    let everything = KeyRange::everything();
    let (low, high) = everything.bounds();
    let mut cursor = source.scan(snapshot.engine_snapshot(), low, high)?;
    let mut chunks = PutChunks::new(chunks::chunk_bytes(target.store().writer()?), |batch: &[BatchOp<'_>]| {
        // Nobody else looks after the memory of a copy that has no threads.
        target.store().governor().adjust();
        target.write_chunk(batch, Durability::Buffered)
    });
    let mut pairs = 0;
    while let Some((key, value)) = cursor.next()? {
        chunks.put(&[], key, value)?;
        // Names of trees are records, too, but nobody's pairs.
        if Prefix::CATALOGUE.strip(key).is_none() {
            pairs += 1;
            progress(pairs);
        }
    }
    chunks.flush()?;
    Ok(pairs)
}
