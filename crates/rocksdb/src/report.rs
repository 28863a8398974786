//! A mount in numbers, as one JSON object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zonda_rt::atomic::{AtomicU64, Ordering};

use crate::devices::Modelled;
use crate::failure::Failure;
use crate::lsm::LevelBytes;
use crate::mount::Mounted;
use crate::options::seconds_since_1970;
use crate::tell::tell;
use zonda_files::LEVELS_COUNTED;
use zonda_files::policy::Rule;
use zonda_flash::zns::SplitCounts;

impl Mounted {
    /// Space, work, and what is known of the databases, as one JSON object: which mount it is, the policy that places files and why it
    /// is not the one that was asked for (null if it is), then numbers.
    #[must_use]
    pub fn report(&self) -> String {
        let usage = self.store.usage();
        let read = |who: usize| self.reads[who].load(Ordering::Relaxed);
        let cleaner = self.cleaner.as_ref().map(|cleaner| cleaner.report()).unwrap_or_default();
        let allocations = self.store.allocations();
        let placed_by = |rule: Rule| allocations.iter().filter(|one| one.0 == rule).map(|one| one.2).sum::<u64>();
        let split = self.store.split_usage().unwrap_or_default();
        let flash = self.drive.as_ref().map(|drive| drive.flash().writes).unwrap_or_default();
        let numbers = [
            ("capacity_bytes", usage.capacity_bytes),
            ("usable_bytes", usage.usable_bytes),
            ("live_bytes", usage.live_bytes),
            ("free_bytes", usage.free_bytes),
            ("files", usage.files),
            ("journal_bytes", usage.journal_bytes),
            ("written_bytes", usage.written_bytes),
            ("copied_bytes", usage.copied_bytes),
            ("resets_with_copy", usage.resets_with_copy),
            ("resets_without_copy", usage.resets_without_copy),
            ("finished_unwritten_bytes", usage.finished_unwritten_bytes),
            ("finishing_microseconds", microseconds(usage.finishing_time)),
            ("zone_wait_microseconds", microseconds(usage.zone_wait)),
            ("waiting_for_zones_microseconds", microseconds(usage.waiting_time)),
            ("copying_microseconds", microseconds(usage.copying_time)),
            ("committing_microseconds", microseconds(usage.committing_time)),
            ("spoiled_zones", usage.spoiled_zones),
            ("zones_reset", usage.space.zones_reset),
            ("zones_freed_in_background", cleaner.zones_freed),
            ("cleaning_errors", cleaner.errors),
            ("clean_rate", self.store.clean_rate()),
            ("placed_by_lifetime", placed_by(Rule::Lifetime)),
            ("placed_by_overlap", placed_by(Rule::Overlap)),
            ("placed_for_new_keys", placed_by(Rule::NewKeys)),
            ("placed_for_no_room", placed_by(Rule::NoRoom)),
            ("placed_by_near_keys", placed_by(Rule::NearKeys)),
            ("user_read_bytes", read(0)),
            ("compaction_read_bytes", read(1)),
            ("reads_together", self.reads_together.load(Ordering::Relaxed)),
            ("flash_host_bytes", flash.host_bytes),
            ("flash_rounding_bytes", flash.rounding_bytes),
            ("flash_collection_bytes", flash.collection_bytes),
            ("flash_padding_bytes", flash.padding_bytes),
            ("split_zones", split.split_zones),
            ("subzones_full", split.full_subzones),
            ("subzones_wasted_bytes", split.wasted_bytes),
            ("subzone_tables", split.tables),
            ("subzone_tables_refused", split.refused.total()),
            ("subzone_tables_refused_for_share", split.refused.share),
            ("subzone_tables_refused_for_zones", split.refused.zones),
            ("subzone_tables_refused_for_tokens", split.refused.tokens),
            ("subzone_tables_pressed", split.pressed),
            ("subzone_tables_moved", split.moved),
            ("table_bytes", split.table_bytes),
            ("subzone_bytes", split.subzone_bytes),
            ("subzone_overflow_bytes", split.overflow_bytes),
            ("subzones_merged", split.merges),
        ];
        let mut json = self.identity_json() + &self.placement_json();
        let more = self.of_levels().into_iter().chain(self.of_small_work()).chain(self.of_drive());
        for (name, number) in numbers.into_iter().chain(more).chain(self.of_flash()) {
            write!(json, ", \"{name}\": {number}").expect("a String takes everything");
        }
        self.push_times(&mut json);
        json.push_str(
            &(allocations_json(&allocations) + &levels_json(&self.lsm.level_counts().bytes, &usage.copied_of_levels)),
        );
        json.push('}');
        json
    }

    /// How long commands of a modelled drive that splits zones took.
    fn push_times(&self, json: &mut String) {
        for (work, times) in self.drive.iter().flat_map(Modelled::times) {
            let (name, count, mean) = (work.name(), times.count(), times.mean_ns().round());
            let of = |share: f64| times.quantile_ns(share);
            write!(json, ", \"{name}_count\": {count}, \"{name}_mean_ns\": {mean}").expect("a String takes everything");
            write!(json, ", \"{name}_p50_ns\": {}, \"{name}_p99_ns\": {}", of(0.5), of(0.99)).expect("as before");
        }
    }

    /// The beginning of the report: what tells it from those of other mounts in one file.
    fn identity_json(&self) -> String {
        format!(
            "{{\"device\": \"{}\", \"read_only\": {}, \"process_id\": {}, \"version\": \"{}\", \"seconds_since_1970\": {}",
            escaped(&self.uri.device_in_order()),
            self.uri.is_read_only,
            std::process::id(),
            env!("CARGO_PKG_VERSION"),
            seconds_since_1970()
        ) + &built_json()
    }

    /// Neither text has a character that JSON would have escaped.
    fn placement_json(&self) -> String {
        let (placement, reason) = self.store.placement();
        let reason = reason.map_or("null".to_owned(), |reason| format!("\"{reason}\""));
        format!(", \"placement\": \"{placement}\", \"placement_reason\": {reason}")
    }

    /// How well levels of tables were known before the MANIFEST named them.
    fn of_levels(&self) -> [(&'static str, u64); 6] {
        let levels = self.lsm.level_counts();
        [
            ("levels_right", levels.right),
            ("levels_wrong", levels.wrong),
            ("levels_unknown", levels.unknown),
            ("levels_unheard", levels.unheard),
            ("tables_moved", levels.moved),
            ("manifests_not_followed", self.lsm.manifests_not_followed()),
        ]
    }

    /// Device writes by what they were for, what was asked for and cost none, and what came before all that.
    fn of_small_work(&self) -> [(&'static str, u64); 10] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (work, writes) = (&self.small_work, self.store.usage().writes);
        [
            ("writes_of_logs", writes.logs),
            ("writes_of_meta_files", writes.meta_files),
            ("writes_of_flushed_tables", writes.flushed_tables),
            ("writes_of_tables", writes.tables),
            ("commits", writes.commits),
            ("directory_syncs", count(&work.directory_syncs)),
            ("directory_syncs_spared", count(&work.directory_syncs_spared)),
            ("info_log_flushes", count(&work.info_log_flushes)),
            ("info_log_flushes_put_off", count(&work.info_log_flushes_put_off)),
            ("mounting_cpu_microseconds", microseconds(self.mounting_cpu_time)),
        ]
    }

    /// What a modelled drive's flash, ring, prefetcher and scheduler did; zeroes for any other.
    fn of_drive(&self) -> [(&'static str, u64); 22] {
        let flash = self.drive.as_ref().map(|drive| drive.flash().writes).unwrap_or_default();
        let parts = self.drive.as_ref().map(Modelled::parts).unwrap_or_default();
        let (SplitCounts { reads, .. }, memory) = (parts.counts, parts.memory);
        let dies = self.drive.as_ref().map(Modelled::dies).unwrap_or_default();
        [
            ("dies_reading_ns", dies.read_ns),
            ("dies_programming_ns", dies.program_ns),
            ("dies_erasing_ns", dies.erase_ns),
            ("flash_erases", flash.erases),
            ("flash_wear_min", parts.wear.least),
            ("flash_wear_max", parts.wear.most),
            ("flash_wear_total", parts.wear.total),
            ("flash_blocks", parts.wear.blocks),
            ("ring_steps", parts.counts.ring_steps),
            ("ring_pages", parts.counts.ring_pages),
            ("ring_waits", parts.counts.ring_waits),
            ("ring_read_bytes", reads.ring_bytes),
            ("reads_in_order", reads.in_order),
            ("reads_as_queries", reads.queries),
            ("reads_told_right", reads.told_right),
            ("reads_told_wrong", reads.told_wrong),
            ("prereads", reads.prereads),
            ("preread_hits", reads.preread_hits),
            ("preread_hit_bytes", reads.preread_hit_bytes),
            ("ring_memory_bytes", memory.ring_bytes),
            ("preread_memory_bytes", memory.preread_bytes),
            ("split_table_memory_bytes", memory.table_bytes),
        ]
    }
}

impl Mounted {
    /// What callers waited for of a modelled drive, in its time; zeroes for any other.
    fn of_flash(&self) -> [(&'static str, u64); 10] {
        let waits = self.drive.as_ref().map(|drive| drive.flash().waits).unwrap_or_default();
        [
            ("drive_reads", waits.reads.commands),
            ("drive_reads_waited_microseconds", waits.reads.total_ns / 1000),
            ("drive_writes", waits.writes.commands),
            ("drive_writes_waited_microseconds", waits.writes.total_ns / 1000),
            ("drive_flushes", waits.flushes.commands),
            ("drive_flushes_waited_microseconds", waits.flushes.total_ns / 1000),
            ("drive_resets", waits.resets.commands),
            ("drive_resets_waited_microseconds", waits.resets.total_ns / 1000),
            ("drive_finishes", waits.finishes.commands),
            ("drive_finishes_waited_microseconds", waits.finishes.total_ns / 1000),
        ]
    }
}

/// What this library was built from. Whoever measures with it finds the same in its file.
fn built_json() -> String {
    let mark = std::hint::black_box(zonda_built::MARK).trim_end_matches('\u{1}');
    format!(", \"built\": \"{mark}\"")
}

/// How often a zone was chosen, by rule and level: the level is null where it is not known, or there is none.
fn allocations_json(allocations: &[(Rule, Option<u8>, u64)]) -> String {
    let one = |(rule, level, count): &(Rule, Option<u8>, u64)| {
        let level = level.map_or("null".to_owned(), |level| level.to_string());
        format!("{{\"rule\": \"{}\", \"level\": {level}, \"count\": {count}}}", rule.name())
    };
    let all: Vec<String> = allocations.iter().map(one).collect();
    format!(", \"allocations\": [{}]", all.join(", "))
}

/// By level, bytes of tables that were written into it since the mount, that an edit moved into it, and that cleaning copied.
fn levels_json(levels: &BTreeMap<u8, LevelBytes>, copied: &[u64; LEVELS_COUNTED]) -> String {
    let is_copied = copied.iter().zip(0_u8..).filter(|(bytes, _)| **bytes > 0).map(|(_, level)| level);
    let all: BTreeSet<u8> = levels.keys().copied().chain(is_copied).collect();
    let one = |level: u8| {
        let LevelBytes { created, moved } = levels.get(&level).copied().unwrap_or_default();
        let copied = copied.get(usize::from(level)).copied().unwrap_or(0);
        format!(
            "{{\"level\": {level}, \"created_bytes\": {created}, \"moved_bytes\": {moved}, \"copied_bytes\": {copied}}}"
        )
    };
    let all: Vec<String> = all.into_iter().map(one).collect();
    format!(", \"levels\": [{}]", all.join(", "))
}

/// Text within the quotes of JSON.
fn escaped(text: &str) -> String {
    let one = |character: char| match character {
        '"' | '\\' => format!("\\{character}"),
        control if control < ' ' => format!("\\u{:04x}", u32::from(control)),
        other => other.to_string(),
    };
    text.chars().map(one).collect()
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Drop for Mounted {
    /// Makes changes of names durable that nothing was synced behind, as after `DestroyDB`, and ends the trace. Unmodified programs have no
    /// call for a report: `ZONDA_REPORT=FILE`, looked at when it is mounted, adds one line to FILE when a file system is unmounted. In a
    /// child of the process that mounted it there is nothing to do.
    fn drop(&mut self) {
        if self.is_inherited() {
            return self.leave_to_parent();
        }
        if let Some(Err(error)) = self.trace.as_ref().map(|trace| trace.finish()) {
            tell(format_args!("the trace is not complete: {error}"));
        }
        if !self.uri.is_read_only
            && let Err(error) = self.store.sync_names()
        {
            tell(format_args!("{}: the last changes of names may not be durable: {error}", self.uri));
        }
        let Some(path) = &self.reported_in else { return };
        let line = format!("{}\n", self.report());
        if let Err(error) = open(path).and_then(|mut file| file.write_all(line.as_bytes())) {
            tell(format_args!("no report in {}: {error}", path.display()));
        }
    }
}

/// The file that `ZONDA_REPORT=FILE` names, made if it is not there: wherever the program is when it unmounts, and before work is done
/// whose report would be lost.
///
/// # Errors
/// `InvalidArgument` if nothing can be appended to it.
pub(crate) fn file() -> Result<Option<PathBuf>, Failure> {
    let Some(name) = std::env::var_os("ZONDA_REPORT") else { return Ok(None) };
    let path = std::path::absolute(&name).and_then(|path| open(&path).map(|_| path));
    path.map(Some).map_err(|error| Failure::invalid(format!("ZONDA_REPORT={}: {error}", name.display())))
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mount::mounted;

    #[test]
    fn a_report_says_of_which_mount_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let name = format!("file:{}/zo\"nes", directory.path().display());
        let device = format!("\"device\": \"{}\"", name.replace('"', "\\\""));
        let process = format!("\"process_id\": {}, \"version\": \"{}\"", std::process::id(), env!("CARGO_PKG_VERSION"));
        let before = seconds_since_1970();
        for (keys, is_read_only) in [("create=64MiB&policy=ldp", false), ("read_only=on", true)] {
            let report = mounted(&format!("zonda://{name}?{keys}")).unwrap().report();
            let begin = format!("{{{device}, \"read_only\": {is_read_only}, {process}, \"seconds_since_1970\": ");
            let rest = report.strip_prefix(&begin).unwrap_or_else(|| panic!("{report}"));
            let seconds: u64 = rest.split(',').next().unwrap().parse().unwrap();
            assert!(
                rest.contains(&format!("\"built\": \"zonda built from {}, drives ", zonda_built::COMMIT)),
                "{report}"
            );
            assert!((before..=seconds_since_1970()).contains(&seconds), "{report}");
        }
        assert_eq!(escaped("a\\b\nc\u{e9}"), "a\\\\b\\u000ac\u{e9}");
    }
}
