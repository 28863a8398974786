//! The command line: `--name=value`, as `db_bench` has it.

use super::choose::Policy;
use super::levels::Limits;
use super::stalls::StallLimits;

/// What is shown to who asks, or errs.
pub(crate) const USAGE: &str = "\
zonda-db-bench: workloads on RocksDB, with compactions that RocksDB does not choose itself

  --fs_uri=URI         the file system, zonda://... (default: the host's)
  --db=PATH            the database; made if missing
  --policy=POLICY      native (RocksDB's own compactions), min-overlap, gear or llc
  --options=K=V;K=V    options of RocksDB, as in its own option strings
  --cache_size=BYTES   block cache, in place of one of the options
  --benchmarks=LIST    fillrandom (by one thread), fillshared (the same by all), overwrite, readrandom, ycsbl, ycsba to ycsbf,
                       waitforcompaction, stats; NAME:N for N operations of each thread in this step
  --num=N              keys that are loaded
  --operations=N       of each thread
  --threads=N --key_size=BYTES --value_size=BYTES --skew=0..1 (0: uniform) --seed=N";

/// What compactions and writers go by, where `RocksDB` does not choose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) policy: Policy,
    pub(crate) limits: Limits,
    pub(crate) stalls: StallLimits,
    /// Compactions at a time.
    pub(crate) jobs: usize,
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    pub(crate) uri: String,
    pub(crate) path: String,
    /// `None` is `RocksDB` itself.
    pub(crate) policy: Option<Policy>,
    pub(crate) options: String,
    pub(crate) cache_bytes: u64,
    pub(crate) benchmarks: Vec<String>,
    pub(crate) keys: u64,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) skew: f64,
    pub(crate) seed: u64,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            uri: String::new(),
            path: String::new(),
            policy: None,
            options: String::new(),
            cache_bytes: 8 << 20,
            benchmarks: Vec::new(),
            keys: 10_000,
            operations: 10_000,
            threads: 1,
            key_bytes: 16,
            value_bytes: 1024,
            skew: 0.99,
            seed: 1,
        }
    }
}

/// Keys at most: their order is kept in memory, and the laws by which they are drawn are summed.
const KEYS_MAX: u64 = 1 << 32;

impl Arguments {
    /// Reads the words behind the program's name.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self::default();
        for word in words {
            let (name, value) =
                word.strip_prefix("--").and_then(|word| word.split_once('=')).ok_or_else(|| wrong(&word))?;
            arguments.set(name, value).ok_or_else(|| wrong(&word))?;
        }
        if arguments.path.is_empty() || arguments.benchmarks.is_empty() {
            return Err("--db and --benchmarks are needed".to_owned());
        }
        arguments.rules()?;
        Ok(arguments)
    }

    /// `None` if there is no such thing.
    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u64>().ok();
        let size = |least: u64| usize::try_from(number().filter(|number| (least..=1 << 20).contains(number))?).ok();
        match name {
            "fs_uri" => value.clone_into(&mut self.uri),
            "db" => value.clone_into(&mut self.path),
            "policy" if value == "native" => self.policy = None,
            "policy" => self.policy = Some(Policy::named(value)?),
            "options" => value.clone_into(&mut self.options),
            "cache_size" => self.cache_bytes = number()?,
            "benchmarks" => self.benchmarks = value.split(',').map(str::to_owned).collect(),
            "num" => self.keys = number().filter(|number| (1..=KEYS_MAX).contains(number))?,
            "operations" => self.operations = number()?,
            "threads" => self.threads = number().filter(|number| (1..=1024).contains(number))?,
            "key_size" => self.key_bytes = size(8)?,
            "value_size" => self.value_bytes = size(0)?,
            "skew" => self.skew = value.parse().ok().filter(|skew| (0.0..1.0).contains(skew))?,
            "seed" => self.seed = number()?,
            _ => return None,
        }
        Some(())
    }

    /// What compactions go by, if `RocksDB` does not choose them: its own options, or their defaults.
    pub(crate) fn rules(&self) -> Result<Option<Rules>, String> {
        let Some(policy) = self.policy else { return Ok(None) };
        let pairs = pairs(&self.options);
        let of = |name: &str, default: u64| {
            let found = pairs.iter().rfind(|(key, _)| *key == name);
            found.map_or(Ok(default), |(_, value)| number(value).ok_or_else(|| wrong(&format!("{name}={value}"))))
        };
        let count = |name: &str, default: u64| -> Result<usize, String> {
            Ok(usize::try_from(of(name, default)?).unwrap_or(usize::MAX).max(1))
        };
        let level0_trigger = count("level0_file_num_compaction_trigger", 4)?;
        let limits = Limits {
            level0_trigger,
            base_bytes: of("max_bytes_for_level_base", 256 << 20)?.max(1),
            multiplier: of("max_bytes_for_level_multiplier", 10)?,
            table_bytes: of("target_file_size_base", 64 << 20)?,
            levels: count("num_levels", 7)?,
        };
        let soft_bytes = of("soft_pending_compaction_bytes_limit", 64 << 30)?;
        let stalls = StallLimits {
            level0_trigger,
            level0_slowdown: count("level0_slowdown_writes_trigger", 20)?,
            level0_stop: count("level0_stop_writes_trigger", 36)?,
            soft_bytes,
            hard_bytes: of("hard_pending_compaction_bytes_limit", 256 << 30)?.max(soft_bytes),
            delayed_rate: of("delayed_write_rate", 16 << 20)?.max(1),
        };
        // RocksDB gives a quarter of its background jobs to flushes.
        let all = count("max_background_jobs", 2)?;
        let jobs = (all - (all / 4).max(1).min(all)).max(1);
        Ok(Some(Rules { policy, limits, stalls, jobs }))
    }
}

/// Names and values of an option string; what is in braces is one value.
fn pairs(options: &str) -> Vec<(&str, &str)> {
    let mut depth = 0_usize;
    let of_level = options.split(|letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ';' && depth == 0
    });
    of_level.filter_map(|pair| pair.split_once('=')).map(|(key, value)| (key.trim(), value.trim())).collect()
}

/// A number as `RocksDB` reads it: `64M` is one, and `10.0`, if there is nothing behind the point.
fn number(value: &str) -> Option<u64> {
    let whole = |text: &str| match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|digit| digit == b'0') => whole.parse().ok(),
        _ => text.parse::<u64>().ok(),
    };
    let Some(unit) = value.chars().last().filter(char::is_ascii_alphabetic) else { return whole(value) };
    let shift = 10 * (1 + "kmgt".find(unit.to_ascii_lowercase())?);
    value[..value.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn wrong(word: &str) -> String {
    format!("`{word}` is not understood\n{USAGE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, String> {
        Arguments::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_are_understood_or_refused() {
        let arguments =
            parse("--fs_uri=zonda://mem:?create=1GiB --db=/db --policy=gear --benchmarks=fillrandom,ycsbf --num=7")
                .unwrap();
        assert_eq!((arguments.policy, arguments.keys, arguments.benchmarks.len()), (Some(Policy::Gear), 7, 2));
        assert_eq!(arguments.uri, "zonda://mem:?create=1GiB");
        assert_eq!(parse("--db=/db --benchmarks=stats --policy=native").unwrap().policy, None);
        for wrong in [
            "",
            "--db=/db",
            "--num",
            "--db=/db --policy=best",
            "--skew=1",
            "--num=0",
            "--num=99999999999",
            "--key_size=7",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_are_those_of_the_options() {
        let options = "max_background_jobs=16;max_bytes_for_level_base=500;target_file_size_base=50";
        let arguments = Arguments { policy: Some(Policy::Llc), options: options.to_owned(), ..Arguments::default() };
        let rules = arguments.rules().unwrap().unwrap();
        assert_eq!((rules.jobs, rules.limits.base_bytes, rules.limits.table_bytes), (12, 500, 50));
        assert_eq!((rules.stalls.level0_stop, rules.limits.level0_trigger, rules.stalls.soft_bytes), (36, 4, 64 << 30));
        assert!(Arguments::default().rules().unwrap().is_none());
        let one = Arguments { options: "max_background_jobs=1".to_owned(), ..arguments };
        assert_eq!(one.rules().unwrap().unwrap().jobs, 1);
    }

    #[test]
    fn numbers_are_read_as_rocksdb_reads_them_or_refused() {
        let of = |options: &str| {
            Arguments { policy: Some(Policy::Llc), options: options.to_owned(), ..Arguments::default() }.rules()
        };
        let nested = "block_based_table_factory={block_size=4K;target_file_size_base=7};target_file_size_base = 64M;\
                      max_bytes_for_level_base=1g;max_bytes_for_level_multiplier=8.000;num_levels=4";
        let limits = of(nested).unwrap().unwrap().limits;
        assert_eq!((limits.table_bytes, limits.base_bytes), (64 << 20, 1 << 30));
        assert_eq!((limits.multiplier, limits.levels), (8, 4));
        for refused in
            ["max_bytes_for_level_multiplier=2.5", "target_file_size_base=64MiB", "num_levels=", "num_levels=x"]
        {
            assert!(of(refused).unwrap_err().contains(refused), "{refused}");
        }
        assert!(parse("--db=/db --benchmarks=stats --policy=llc --options=num_levels=x").is_err());
    }
}
