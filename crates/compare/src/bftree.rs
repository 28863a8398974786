//! The crate `bf-tree`, with its own defaults for pairs of up to 1 KiB, its circular buffer as large as the budget.
//!
//! With the log on a write waits, its leaf latched, until a thread of the crate has handed its group to the system: once in a millisecond
//! by default, or when a segment is full. So as many writes are done in a millisecond as there are threads, whatever the device. The crate
//! never syncs the file of the log; this adapter does where it is asked to.

use std::cell::RefCell;
use std::fs::File;
use std::sync::Arc;

use bf_tree::{BfTree, Config, LeafInsertResult, LeafReadResult, ScanReturnField, StorageBackend, WalConfig};
use zonda_bench::subject::{Counters, Durability, Visit};
use zonda_bench::{Result, StorePlan, Subject};

use crate::peer::{counters, directory, failed};

const NAME: &str = "bf-tree";

/// Room for a key and for a value in one read of a scan.
const PAIR_BYTES_MAX: usize = 8 << 10;

/// Each group of the log is written as a whole segment, by the crate's default 1 GiB; its recovery knows segments of one page only.
const LOG_SEGMENT_BYTES: usize = 4096;

/// Every key is at least this one; the crate refuses empty ones.
const FIRST_KEY: [u8; 1] = [0];

thread_local! {
    /// Where the crate puts what it reads: as large as a pair may be, and not cleared for each.
    static PAIR: RefCell<Vec<u8>> = RefCell::new(vec![0; PAIR_BYTES_MAX]);
}

/// Why it cannot run like this.
pub(crate) fn unfit(plan: &StorePlan) -> Option<String> {
    let odd = !plan.memory_bytes.is_power_of_two();
    odd.then(|| format!("its buffer must be a power of two, not {} bytes", plan.memory_bytes))
}

/// An open tree.
pub(crate) struct BfTreeSubject {
    tree: BfTree,
    /// With the log on.
    log: Option<File>,
}

impl BfTreeSubject {
    /// Makes an empty tree.
    ///
    /// # Errors
    /// `Peer`.
    pub(crate) fn create(plan: &StorePlan) -> Result<Self> {
        let path = directory(NAME, plan)?;
        let mut config = Config::new(path.join("pages"), usize::try_from(plan.memory_bytes).unwrap_or(usize::MAX));
        config.storage_backend(StorageBackend::StdDirect);
        let log_path = path.join("log");
        if plan.log {
            let mut log = WalConfig::new(&log_path);
            log.segment_size(LOG_SEGMENT_BYTES);
            config.enable_write_ahead_log(Arc::new(log));
        }
        let tree = BfTree::with_config(config, None);
        let tree = tree.map_err(|error| failed(NAME, "open")(format!("{error:?}")))?;
        let log = plan.log.then(|| File::open(log_path)).transpose().map_err(failed(NAME, "open its log"))?;
        Ok(Self { tree, log })
    }
}

impl Subject for BfTreeSubject {
    fn device(&self) -> String {
        "bf-tree 0.5 (O_DIRECT)".to_owned()
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success if durability == Durability::Synced => self.sync(),
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(why) => Err(failed(NAME, "put")(why)),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.tree.delete(key);
        Ok(())
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        PAIR.with_borrow_mut(|pair| match self.tree.read(key, pair) {
            LeafReadResult::Found(value_bytes) => {
                into.extend_from_slice(&pair[..value_bytes as usize]);
                Ok(true)
            }
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(false),
            LeafReadResult::InvalidKey => Err(failed(NAME, "get")("the key is invalid")),
        })
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let from = if from.is_empty() { &FIRST_KEY } else { from };
        let limit = usize::try_from(pairs).unwrap_or(usize::MAX);
        let mut iterator = self
            .tree
            .scan_with_count(from, limit, ScanReturnField::KeyAndValue)
            .map_err(|error| failed(NAME, "scan")(format!("{error:?}")))?;
        let mut seen = 0;
        PAIR.with_borrow_mut(|pair| {
            while seen < pairs
                && let Some((key_bytes, value_bytes)) = iterator.next(pair)
            {
                visit(&pair[..key_bytes], &pair[key_bytes..key_bytes + value_bytes])?;
                seen += 1;
            }
            Ok(seen)
        })
    }

    fn sync(&self) -> Result<()> {
        self.log.as_ref().map_or(Ok(()), File::sync_data).map_err(failed(NAME, "sync its log"))
    }

    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn check(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn counters(&self) -> Result<Counters> {
        Ok(counters())
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
