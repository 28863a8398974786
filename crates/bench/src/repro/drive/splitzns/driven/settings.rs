//! How large, how slow, and what of the paper's setting is changed.

use super::super::super::super::Scale;
use super::super::live::options::{COPY_BUFFER, LOG_BUFFER, Line, RocksOptions};
use super::super::live::{LOADED_BYTES, Live, Sizes};
use super::super::{CONVENTIONAL_PROFILE, PROFILE};

/// Bytes of a zone at full size.
const ZONE_BYTES: u64 = 512 << 20;
/// The paper's.
const CHIPS: u64 = 16;
const THREADS: u64 = 4;
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 1024;
const SKEW: &str = "0.99";

/// One setting.
#[derive(Clone, Debug)]
pub(in super::super) struct Setting {
    /// What differs from the usual one; empty for that.
    label: String,
    pub(super) divisor: u64,
    pub(super) k: u64,
    zones: u64,
    base_bytes: u64,
    pub(super) chips: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    /// Of Zipf's law.
    pub(super) skew: &'static str,
    /// Whether as many writes by that law follow on the load.
    pub(super) is_load_skewed: bool,
    /// More options of `RocksDB`.
    pub(super) options: &'static str,
    /// Bytes that are loaded.
    loaded_bytes: u64,
    /// Of each thread.
    pub(super) operations: u64,
    /// Reads of each thread of a step that only reads; a quarter as many scans.
    reads: u64,
}

impl Setting {
    /// The usual one.
    pub(super) fn of(scale: Scale, live: &Live) -> Self {
        let pair = KEY_BYTES + VALUE_BYTES;
        Self {
            label: String::new(),
            divisor: live.divisor,
            k: live.k(),
            zones: live.zones(),
            base_bytes: live.base_bytes(),
            chips: CHIPS,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            skew: SKEW,
            is_load_skewed: false,
            options: "",
            loaded_bytes: scale.pick(3_000 * pair, LOADED_BYTES / live.divisor, LOADED_BYTES / live.divisor),
            operations: live.operations(),
            reads: live.reads(),
        }
    }

    /// The same at another scale of the drive and another dilation; what is loaded and done goes with the drive.
    pub(in super::super) fn at(&self, divisor: u64, k: u64) -> Self {
        let scaled = |bytes: u64| bytes * self.divisor / divisor;
        let (base_bytes, loaded_bytes) = (scaled(self.base_bytes), scaled(self.loaded_bytes));
        let operations = scaled(self.operations);
        Self { divisor, k, base_bytes, loaded_bytes, operations, ..self.clone() }
            .labelled(&format!("1/{divisor}, k = {k}"))
    }

    /// The same with so many times as many operations, and so many bytes loaded at full size (not for tiny runs).
    pub(in super::super) fn longer(&self, scale: Scale, times: u64, loaded_bytes: u64) -> Self {
        let loaded = loaded_bytes / self.divisor;
        let loaded_bytes = scale.pick(self.loaded_bytes, loaded, loaded);
        Self { operations: times * self.operations, loaded_bytes, ..self.clone() }
    }

    /// The same with pairs of other lengths.
    pub(in super::super) fn with_pairs(&self, key_bytes: u64, value_bytes: u64) -> Self {
        let label = format!("{value_bytes} B");
        Self { key_bytes, value_bytes, ..self.clone() }.labelled(&label)
    }

    /// The same with another number of chips.
    pub(in super::super) fn with_chips(&self, chips: u64) -> Self {
        Self { chips, ..self.clone() }.labelled(&format!("{chips} chips"))
    }

    /// The same with another skew, by which it is loaded, too; 0 is uniform.
    pub(in super::super) fn with_skew(&self, skew: &'static str) -> Self {
        let label = if skew == "0" { "uniform".to_owned() } else { format!("skew {skew}") };
        Self { skew, is_load_skewed: skew != "0", ..self.clone() }.labelled(&label)
    }

    /// The same with more options of `RocksDB`.
    pub(in super::super) fn with_options(&self, label: &str, options: &'static str) -> Self {
        Self { options, ..self.clone() }.labelled(label)
    }

    fn labelled(self, label: &str) -> Self {
        Self { label: label.to_owned(), ..self }
    }

    /// A workload's name in this setting.
    pub(in super::super) fn named(&self, work: &str) -> String {
        if self.label.is_empty() { work.to_owned() } else { format!("{work}, {}", self.label) }
    }

    /// Its name; with the scale of the run it says all of it.
    pub(super) fn id(&self) -> String {
        let label = if self.label.is_empty() { String::new() } else { format!("[{}] ", self.label) };
        format!("{label}1/{} k={}", self.divisor, self.k)
    }

    /// What a loaded drive depends on.
    pub(super) fn of_image(&self) -> String {
        let of_k = format!("k = {}", self.k);
        format!("{} 1/{}", self.label.replace(&of_k, ""), self.divisor)
    }

    pub(super) fn keys(&self) -> u64 {
        self.loaded_bytes / (self.key_bytes + self.value_bytes)
    }

    /// Bytes of a subzone, and of a table with its header.
    pub(super) fn subzone_bytes(&self) -> u64 {
        ZONE_BYTES / self.chips / self.divisor
    }

    pub(super) fn ring_bytes(&self) -> u64 {
        2 * ZONE_BYTES / self.divisor
    }

    /// Of `RocksDB`'s default, 256 MiB.
    pub(super) fn blob_bytes(&self) -> u64 {
        (256 << 20) / self.divisor
    }

    fn options(&self) -> RocksOptions {
        RocksOptions::scaled(self.divisor, self.k, self.base_bytes).with_tables(ZONE_BYTES / self.chips)
    }

    /// All that a run is told: name, the paper's or the default, ours.
    pub(in super::super) fn lines(&self) -> Vec<Line> {
        let number = |name, paper: u64, ours: u64| (name, paper.to_string(), ours.to_string());
        let pair = self.key_bytes + self.value_bytes;
        let sizes = Sizes { keys: self.keys(), pair, operations: self.operations, reads: self.reads };
        let mut lines = sizes.lines(self.divisor, self.k);
        lines.push(number("key_size", KEY_BYTES, self.key_bytes));
        lines.push(number("value_size", VALUE_BYTES, self.value_bytes));
        lines.push(number("chips", CHIPS, self.chips));
        lines.push(("skew", SKEW.to_owned(), self.skew.to_owned()));
        let loading = if self.is_load_skewed { "every key, then as many writes by skew" } else { "every key" };
        lines.push(("loading", "by skew for YCSB".to_owned(), loading.to_owned()));
        lines.extend(self.options().lines());
        lines
    }

    /// What differs from the usual one; empty for that.
    pub(in super::super) fn label(&self) -> &str {
        &self.label
    }

    pub(super) fn memtable_bytes(&self) -> u64 {
        self.options().number("write_buffer_size")
    }

    pub(super) fn cache_bytes(&self) -> u64 {
        self.options().number("cache_size")
    }

    /// As `--options` has them.
    pub(super) fn rocksdb_options(&self) -> String {
        self.options().string()
    }

    /// The drive's name, with the keys of a file system.
    pub(super) fn uri(&self, split: Option<&str>, keys: &str, path: &std::path::Path, is_timed: bool) -> String {
        let Self { divisor, k, zones, chips, .. } = self;
        let time = if is_timed { format!("k={k}") } else { "time=untimed".to_owned() };
        let data = path.display();
        let has_copies = keys.split('&').any(|key| key.starts_with("copy_buffer="));
        let copies = if has_copies { String::new() } else { format!("&copy_buffer={COPY_BUFFER}") };
        match split {
            Some(split) => format!(
                "zonda://flash:{PROFILE}?scale=1/{divisor}&zones={zones}&chips={chips}&{time}&split={split}&data={data}&create=on&log_buffer={LOG_BUFFER}{copies}&{keys}"
            ),
            None => format!(
                "zonda://conv:{CONVENTIONAL_PROFILE}?scale=1/{divisor}&{time}&data={data}&create=on&log_buffer={LOG_BUFFER}{copies}&{keys}"
            ),
        }
    }

    /// Steps with the numbers of those that only read.
    pub(super) fn steps(&self, steps: &str) -> String {
        steps.replace("READS", &self.reads.to_string()).replace("SCANS", &(self.reads / 4).max(1).to_string())
    }

    /// Words of `zonda-db-bench` that say how much.
    pub(super) fn words(&self) -> Vec<String> {
        let Self { key_bytes, value_bytes, skew, .. } = self;
        vec![
            format!("--num={}", self.keys()),
            format!("--threads={THREADS}"),
            format!("--key_size={key_bytes}"),
            format!("--value_size={value_bytes}"),
            format!("--skew={skew}"),
            format!("--cache_size={}", self.cache_bytes()),
        ]
    }

    /// Operations of each thread that write as many pairs as are loaded.
    pub(super) fn operations_of_load(&self) -> u64 {
        self.keys() / THREADS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_subzones_follow_the_chips() {
        let usual = super::super::usual(Scale::Laptop);
        let eight = usual.with_chips(8);
        assert_eq!((usual.subzone_bytes(), eight.subzone_bytes()), (2 << 20, 4 << 20));
        let table = |setting: &Setting| setting.options().number("target_file_size_base");
        assert!(table(&eight) > table(&usual) && table(&eight) < eight.subzone_bytes());
        assert_eq!(usual.memtable_bytes(), eight.memtable_bytes(), "write buffers stay");
    }

    #[test]
    fn steps_that_only_read_have_numbers_of_their_own() {
        let usual = super::super::usual(Scale::Laptop);
        assert_eq!(usual.steps("overwrite,readrandom:READS,ycsbe:SCANS"), "overwrite,readrandom:4000,ycsbe:1000");
    }

    #[test]
    fn settings_have_names_of_their_own_and_images_forget_the_dilation() {
        let usual = super::super::usual(Scale::Laptop);
        let (slow, fast) = (usual.at(8, 20), usual.at(8, 5));
        assert_eq!((slow.of_image(), slow.keys() / 2), (fast.of_image(), usual.keys()));
        assert_eq!(slow.operations, 2 * usual.operations, "the tree is turned over as often");
        assert!(slow.id() != fast.id() && usual.named("x") == "x" && slow.named("x") == "x, 1/8, k = 20");
        assert!(usual.with_skew("0.9").is_load_skewed && !usual.with_skew("0").is_load_skewed);
    }
}
