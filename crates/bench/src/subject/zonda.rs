//! A Zonda store under test.

use zonda::{Db, Options};

use super::{Counters, Durability, MAP_DESIGN, MemoryBy, StorePlan, Subject, Visit, WrittenBytes, switches};
use crate::{BenchError, Result};

/// A store of this project. A plan's switches are options of the store by name; [`SWITCHES`](super::SWITCHES) lists them.
#[derive(Debug)]
pub struct ZondaSubject(Db);

impl ZondaSubject {
    /// Why this build cannot make the store that `plan` describes; `None` if it can.
    #[must_use]
    pub fn unavailable(plan: &StorePlan) -> Option<String> {
        options(plan).err().map(|error| error.to_string())
    }

    /// Makes the store that `plan` describes; one that exists is refused.
    ///
    /// # Errors
    /// `Store`.
    pub fn create(plan: &StorePlan) -> Result<Self> {
        let db = options(plan)?.create_new(true).open(&plan.uri).map_err(doing("make the store"))?;
        Ok(Self(db))
    }

    /// Opens the store that `plan` describes.
    ///
    /// # Errors
    /// `Store`.
    pub fn open(plan: &StorePlan) -> Result<Self> {
        let db = options(plan)?.create_if_missing(false).open(&plan.uri).map_err(doing("open the store"))?;
        Ok(Self(db))
    }
}

fn options(plan: &StorePlan) -> Result<Options> {
    let preset = Options::preset(&plan.design).map_err(|_| BenchError::Usage {
        option: "--design",
        given: plan.design.clone(),
        expected: format!("one of {}, {MAP_DESIGN}", Options::PRESETS.join(", ")),
    })?;
    // On a file as on a device of zones: what is measured here is how reclaim does when it has to.
    let mut options = preset.memory(plan.memory_bytes).seed(plan.seed).log(plan.log).garbage(None);
    if let Some(leaf_bytes) = plan.leaf_bytes {
        options = options.leaf_bytes(leaf_bytes);
    }
    options = switches::set(options, &plan.switches, &plan.uri)?;
    if let Some(zone_bytes) = plan.zone_bytes {
        let zones = plan.zones.map_or(StorePlan::ZONES_DEFAULT, u64::from);
        options = options.zone_bytes(zone_bytes).capacity(zone_bytes.saturating_mul(zones));
    }
    Ok(options)
}

/// Says what the store was asked to do when it failed.
fn doing(doing: &'static str) -> impl Fn(zonda::Error) -> BenchError {
    move |source| BenchError::Store { doing, source: Box::new(source) }
}

impl From<Durability> for zonda::Durability {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Buffered => Self::Buffered,
            Durability::Synced => Self::Synced,
        }
    }
}

impl Subject for ZondaSubject {
    fn device(&self) -> String {
        self.0.stats().map_or_else(|error| error.to_string(), |stats| stats.device.description)
    }

    fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        self.0.put_with(key, value, durability.into()).map_err(doing("put"))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.0.delete(key).map_err(doing("delete"))
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.0.get_into(key, into).map_err(doing("get"))
    }

    fn multi_get(&self, keys: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.multi_get(keys).map_err(doing("get several keys"))
    }

    fn scan(&self, from: &[u8], pairs: u64, visit: &mut Visit<'_>) -> Result<u64> {
        let mut seen = 0;
        let mut range = self.0.range(from..).map_err(doing("begin a scan"))?.expect_pairs(pairs);
        while seen < pairs
            && let Some(visited) = range.visit_next(&mut *visit)
        {
            visited.map_err(doing("scan"))??;
            seen += 1;
        }
        Ok(seen)
    }

    fn sync(&self) -> Result<()> {
        self.0.sync().map_err(doing("sync"))
    }

    fn checkpoint(&self) -> Result<()> {
        self.0.checkpoint().map_err(doing("take a checkpoint"))
    }

    fn compact(&self) -> Result<()> {
        self.0.compact(&mut |_, _| {}).map_err(doing("compact"))
    }

    fn check(&self) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        self.0.check(&mut |_, _| {}, &mut |finding| findings.push(finding.to_string())).map_err(doing("check"))?;
        Ok(findings)
    }

    fn counters(&self) -> Result<Counters> {
        self.0.stats().map(|stats| counters(&stats)).map_err(doing("count"))
    }

    fn close(&self) -> Result<()> {
        self.0.clone().close().map_err(doing("close"))
    }
}

fn counters(stats: &zonda::Stats) -> Counters {
    let (space, memory, tree) = (&stats.space, &stats.memory, &stats.tree);
    let devices = || std::iter::once(&stats.device).chain(&stats.log_device);
    Counters {
        device_written_bytes: devices().map(|device| device.written_bytes).sum(),
        device_read_bytes: devices().map(|device| device.read_bytes).sum(),
        written: written(&stats.written),
        zones_reset: space.zones_reset,
        gets: tree.gets,
        leaf_reads: tree.leaf_reads,
        page_hits: tree.page_hits,
        checkpoints: tree.checkpoints,
        memory_bytes: memory.used_bytes,
        memory_peak_bytes: memory.peak_bytes,
        memory_by: Some(memory_by(memory)),
        inner_bytes: memory.inner_bytes,
        leaf_table_bytes: memory.leaf_table_bytes,
        leaf_bytes: space.live_page_bytes,
        value_bytes: space.live_value_bytes,
        log_bytes: space.log_bytes,
        usable_bytes: space.usable_bytes,
    }
}

fn memory_by(memory: &zonda::MemoryStats) -> MemoryBy {
    MemoryBy {
        budget: memory.budget_bytes,
        buffers: memory.buffer_bytes,
        filter: memory.filter_bytes,
        record_cache: memory.record_cache_bytes,
        page_cache: memory.page_bytes,
        index: memory.inner_bytes + memory.leaf_table_bytes,
        log: memory.log_bytes,
        snapshots: memory.snapshot_bytes,
    }
}

fn written(written: &zonda::WrittenStats) -> WrittenBytes {
    WrittenBytes {
        flush: written.flush_bytes,
        relocation: written.relocation_bytes,
        log: written.log_bytes,
        journal: written.journal_bytes,
        image: written.image_bytes,
        values: written.value_bytes,
        headers: written.header_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_log_on_its_own_device_are_counted() {
        let plan = StorePlan::new("mem:".to_owned(), 8 << 20, 1).with("log-on", "mem:");
        let subject = plan.create().unwrap();
        for number in 0..20_000_u64 {
            subject.put(&number.to_be_bytes(), &[7; 100], Durability::Buffered).unwrap();
        }
        subject.sync().unwrap();
        let Counters { device_written_bytes, written, .. } = subject.counters().unwrap();
        let by = [
            written.flush,
            written.relocation,
            written.log,
            written.journal,
            written.image,
            written.values,
            written.headers,
        ];
        assert!(written.log > 2_000_000, "{written:?}");
        assert!(device_written_bytes >= by.iter().sum(), "{device_written_bytes} bytes, of which {written:?}");
    }
}
