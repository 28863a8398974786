//! Options of `RocksDB` for a drive that is smaller and slower than the paper's: the paper's, and ours.
//!
//! What is a size is divided by the scale; what is a rate in bytes a second is divided by the dilation, too, because `RocksDB` counts
//! seconds of the host. Triggers, the multiplier, the value's size and the number of jobs stay.

/// Options of one run.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct RocksOptions {
    divisor: u64,
    k: u64,
    base_bytes: u64,
    /// Of a table at full size, with its header and index.
    table_bytes: u64,
    /// Whether writers are not to be held up by a rate.
    is_loading: bool,
}

/// Bytes of a table of the paper, and of a subzone.
const TABLE_BYTES: u64 = 32 << 20;
/// Bytes of a memtable: `RocksDB`'s default, because the paper says nothing. A flushed table is twice a subzone, with every system: where
/// level 0 has subzones (*native*) half of it is its tail in a wide zone. With level 1 of 51 MiB a single one makes level 0 due, by size.
const MEMTABLE_BYTES: u64 = 64 << 20;
/// Bytes of all logs that `RocksDB` bears by default: four times its two write buffers.
const LOGS_BYTES: u64 = 4 * 2 * MEMTABLE_BYTES;

/// Name, the paper's (or `RocksDB`'s default where the paper says nothing), and ours.
pub(in super::super) type Line = (&'static str, String, String);

/// Bytes of the smallest block cache that makes sense.
const SMALLEST: u64 = 16 << 10;
/// Bytes that compactions read ahead at full size: `RocksDB`'s default.
const READAHEAD_BYTES: u64 = 2 << 20;
/// Bytes of the smallest read-ahead of compactions: four pages of all planes, which is what the drive reads ahead at least.
const SMALLEST_READAHEAD: u64 = 256 << 10;
/// Bytes a second that hold up nobody.
const LOADING_RATE: u64 = 1 << 30;
/// Jobs of a load. `RocksDB` keeps each dead table until all jobs that began before it was made are done: sixteen at a time on two
/// processors are so slow that a drive with 55 % live filled up (1/32).
const LOADING_JOBS: &str = "4";
/// Room in a subzone for what a table has besides its pairs: of its size, for the index, and so many bytes for the header of the subzone,
/// the footer and the block that `RocksDB` begins before it sees that the table is full.
const TABLE_ROOM_PERCENT: u64 = 2;
/// See [`TABLE_ROOM_PERCENT`].
const TABLE_ROOM_BYTES: u64 = 16 << 10;
/// Bytes that a log collects in memory before they are written, with every policy: as `ZenFS`. Half would go to half of the chips, and
/// writers would wait as long.
pub(in super::super) const LOG_BUFFER: &str = "1MiB";
/// Bytes that cleaning reads and writes at a time, with every policy: as `ZenFS`.
pub(in super::super) const COPY_BUFFER: &str = "128KiB";

/// What an untimed load has otherwise, behind other options in a string of `RocksDB`'s: `RocksDB` counts seconds of the host, and a rate
/// for dilated time would hold it up.
pub(in super::super) fn of_load() -> String {
    format!(";delayed_write_rate={LOADING_RATE};max_background_jobs={LOADING_JOBS}")
}

impl RocksOptions {
    pub(in super::super) fn scaled(divisor: u64, k: u64, base_bytes: u64) -> Self {
        Self { divisor, k, base_bytes, table_bytes: TABLE_BYTES, is_loading: false }
    }

    /// The same for an untimed load, which is not held up, because `RocksDB` counts seconds of the host, and has fewer jobs.
    pub(in super::super) fn for_loading(self) -> Self {
        Self { is_loading: true, ..self }
    }

    /// The same with tables of another size, for subzones of another size; write buffers stay.
    pub(in super::super) fn with_tables(self, table_bytes: u64) -> Self {
        Self { table_bytes, ..self }
    }

    /// Limit of level 1.
    pub(in super::super) fn base_bytes(&self) -> u64 {
        self.base_bytes
    }

    /// All that differ from the default, with what they stand for.
    pub(in super::super) fn lines(&self) -> Vec<Line> {
        let scaled = |bytes: u64| (bytes / self.divisor).max(SMALLEST).to_string();
        // Room for the header of the subzone, and the table's index, filter and footer.
        let target_of = |bytes: u64| {
            let table = bytes / self.divisor;
            table - table * TABLE_ROOM_PERCENT / 100 - TABLE_ROOM_BYTES.min(table / 16)
        };
        let mib = |count: u64| (count << 20).to_string();
        let plain = |name, value: &str| (name, value.to_owned(), value.to_owned());
        let delayed = if self.is_loading { LOADING_RATE } else { (16 << 20) / self.k.max(1) };
        vec![
            ("max_background_jobs", "16".to_owned(), if self.is_loading { LOADING_JOBS } else { "16" }.to_owned()),
            plain("use_direct_reads", "true"),
            plain("use_direct_io_for_flush_and_compaction", "true"),
            ("delayed_write_rate", mib(16), delayed.to_string()),
            ("write_buffer_size", MEMTABLE_BYTES.to_string(), scaled(MEMTABLE_BYTES)),
            ("max_total_wal_size", LOGS_BYTES.to_string(), scaled(LOGS_BYTES)),
            ("target_file_size_base", mib(32), target_of(self.table_bytes).to_string()),
            plain("level_compaction_dynamic_file_size", "false"),
            ("max_bytes_for_level_base", mib(256), self.base_bytes.to_string()),
            ("soft_pending_compaction_bytes_limit", mib(64 << 10), scaled(64 << 30)),
            ("hard_pending_compaction_bytes_limit", mib(256 << 10), scaled(256 << 30)),
            ("compaction_readahead_size", mib(2), self.readahead_bytes().to_string()),
            ("cache_size", mib(32), scaled(32 << 20)),
            plain("compression", "kNoCompression"),
        ]
    }

    /// A wait for the flash takes as long on a small drive as on a large one, so compactions that waited for an eighth of the bytes would
    /// be bound by waits where the paper's are by bytes. The paper's read-ahead stays, then, as far as tables do: half of one at the most,
    /// else there is nothing ahead to be read.
    fn readahead_bytes(&self) -> u64 {
        READAHEAD_BYTES.min(self.table_bytes / self.divisor / 2).max(SMALLEST_READAHEAD)
    }

    /// As text, in one line.
    pub(in super::super) fn text(&self) -> String {
        let lines = self.lines();
        let lines: Vec<String> = lines.iter().map(|(name, _, ours)| format!("{name}={ours}")).collect();
        lines.join(" ")
    }

    /// As `RocksDB` reads it from a string; the block cache, which such a string cannot say, left out.
    pub(in super::super) fn string(&self) -> String {
        let lines = self.lines();
        let lines = lines.iter().filter(|(name, ..)| *name != "cache_size");
        lines.map(|(name, _, ours)| format!("{name}={ours}")).collect::<Vec<_>>().join(";")
    }

    /// One that is a number; 0 if it is none.
    pub(in super::super) fn number(&self, name: &str) -> u64 {
        let found = self.lines().into_iter().find(|line| line.0 == name);
        found.and_then(|(_, _, ours)| ours.parse().ok()).unwrap_or(0)
    }

    /// The file that `db_bench --options_file` reads.
    pub(in super::super) fn file(&self) -> String {
        const OF_DATABASE: [&str; 6] = [
            "max_background_jobs",
            "use_direct_reads",
            "use_direct_io_for_flush_and_compaction",
            "delayed_write_rate",
            "max_total_wal_size",
            "compaction_readahead_size",
        ];
        let lines = self.lines();
        let is_of = |name: &str| OF_DATABASE.contains(&name);
        let section = |wanted: bool| -> String {
            let chosen = lines.iter().filter(|(name, ..)| is_of(name) == wanted && *name != "cache_size");
            chosen.map(|(name, _, ours)| format!("  {name}={ours}\n")).collect()
        };
        format!(
            "[Version]\n  rocksdb_version=7.8.3\n  options_file_version=1.1\n[DBOptions]\n{}[CFOptions \"default\"]\n{}\
             [TableOptions/BlockBasedTable \"default\"]\n",
            section(true),
            section(false)
        )
    }

    /// Bytes of the block cache, which the file cannot say.
    pub(in super::super) fn cache_bytes(&self) -> String {
        self.lines().into_iter().find(|(name, ..)| *name == "cache_size").map_or_else(String::new, |line| line.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_divided_and_counts_are_not() {
        let options = RocksOptions::scaled(64, 20, 2 << 20);
        let loading = options.for_loading();
        assert_eq!(loading.number("delayed_write_rate"), 1 << 30);
        assert!(options.number("compaction_readahead_size") == 256 << 10, "no less than the drive reads ahead");
        let ours = |name: &str| options.lines().into_iter().find(|line| line.0 == name).map(|line| line.2).unwrap();
        assert_eq!((ours("max_background_jobs"), ours("max_bytes_for_level_base")), ("16".into(), "2097152".into()));
        assert_eq!(ours("soft_pending_compaction_bytes_limit"), (1_u64 << 30).to_string());
        assert_eq!(ours("delayed_write_rate"), "838860");
        let target: u64 = ours("target_file_size_base").parse().unwrap();
        assert!(target < (512 << 10) * 98 / 100 && target > (512 << 10) * 94 / 100, "{target}");
        let sizes = ["write_buffer_size", "max_total_wal_size"].map(|name| options.number(name));
        assert_eq!(sizes, [1 << 20, 8 << 20], "64 MiB and eight times as much");
        assert_eq!(RocksOptions::scaled(16, 10, 2 << 20).number("write_buffer_size"), 4 << 20);
        let file = options.file();
        assert!(file.split_once("[CFOptions").unwrap().0.contains("  max_total_wal_size=8388608\n"), "{file}");
        assert!(file.contains("[CFOptions \"default\"]\n  write_buffer_size=") && !file.contains("cache_size"));
    }
}
