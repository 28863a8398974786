//! The workloads of the `SplitZNS` paper's table 2.
//!
//! Uniform: `fillrandom` (every key once, by one thread), `fillshared` (the same by all threads), `overwrite`, `readrandom`. By Zipf's law:
//! `ycsbl` (writes only), `ycsba` (half reads, half writes), `ycsbb` (95 % reads), `ycsbc` (reads), `ycsbe` (95 % scans of 1 to 100 pairs,
//! inserts), `ycsbf` (half reads, half reads with a write behind them). `ycsbd`: 95 % reads, of what is newest above all, and inserts.

use std::sync::Arc;

use zonda_rt::{Rng, Seed, Time, now, spawn};

use super::database::Database;
use super::keys::{Numbers, key};
use super::latencies::Latencies;
use super::stalls::Gate;

/// Values are slices of so many random bytes.
const VALUE_POOL_BYTES: usize = 1 << 20;
/// Pairs of the longest scan.
const SCAN_MAX: u64 = 100;

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Write,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// Which key it does it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chosen {
    Uniform,
    Popular,
    Latest,
}

/// Operations of a workload: so many of a hundred are the first, the others the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix {
    share: u64,
    first: Operation,
    second: Operation,
    keys: Chosen,
}

impl Mix {
    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        use Chosen::{Latest, Popular, Uniform};
        use Operation::{Insert, Read, ReadModifyWrite, Scan, Write};
        let (share, first, second, keys) = match name {
            "overwrite" => (100, Write, Write, Uniform),
            "readrandom" => (100, Read, Read, Uniform),
            "ycsbl" => (100, Write, Write, Popular),
            "ycsba" => (50, Read, Write, Popular),
            "ycsbb" => (95, Read, Write, Popular),
            "ycsbc" => (100, Read, Read, Popular),
            "ycsbd" => (95, Read, Insert, Latest),
            "ycsbe" => (95, Scan, Insert, Popular),
            "ycsbf" => (50, Read, ReadModifyWrite, Popular),
            _ => return None,
        };
        Some(Self { share, first, second, keys })
    }
}

/// A database, and what is done to it.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) database: Arc<Database>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) numbers: Numbers,
    pub(crate) loaded: u64,
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
    pub(crate) seed: Seed,
    values: Vec<u8>,
}

/// What a step, or a thread of it, did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) seconds: f64,
    writes: Latencies,
    reads: Latencies,
}

impl Bench {
    pub(crate) fn new(
        database: Arc<Database>,
        gate: Arc<Gate>,
        numbers: Numbers,
        sizes: (u64, usize, usize),
        seed: u64,
    ) -> Self {
        let (loaded, key_bytes, value_bytes) = sizes;
        let seed = Seed(seed);
        let mut values = vec![0; VALUE_POOL_BYTES.max(2 * value_bytes)];
        seed.derive("values").rng().fill(&mut values);
        Self { database, gate, numbers, loaded, key_bytes, value_bytes, seed, values }
    }

    /// Writes every key once, in random order.
    pub(crate) fn fill(&self) -> Result<Done, String> {
        let mut rng = self.seed.derive("fill").rng();
        let order = self.order(&mut rng);
        let start = now();
        Ok(self.put_all(&order, &mut rng)?.since(start))
    }

    /// The same by some threads, each a share of the keys.
    pub(crate) fn fill_shared(self: &Arc<Self>, threads: u64) -> Result<Done, String> {
        let order = self.order(&mut self.seed.derive("fill").rng());
        let share = order.len().div_ceil(usize::try_from(threads).map_err(|error| error.to_string())?.max(1)).max(1);
        let shares: Arc<Vec<Vec<u64>>> = Arc::new(order.chunks(share).map(<[u64]>::to_vec).collect());
        self.by_threads(shares.len() as u64, move |bench, thread| {
            let mine = usize::try_from(thread).ok().and_then(|thread| shares.get(thread));
            bench.put_all(mine.map_or(&[], Vec::as_slice), &mut bench.seed.derive(&format!("fill {thread}")).rng())
        })
    }

    /// A mix, by some threads, so many operations each.
    pub(crate) fn mix(self: &Arc<Self>, mix: Mix, (threads, operations): (u64, u64)) -> Result<Done, String> {
        self.by_threads(threads, move |bench, thread| bench.thread(mix, thread, operations))
    }

    /// All keys, each once.
    fn order(&self, rng: &mut Rng) -> Vec<u64> {
        let mut order: Vec<u64> = (0..self.loaded).collect();
        rng.shuffle(&mut order);
        order
    }

    fn put_all(&self, numbers: &[u64], rng: &mut Rng) -> Result<Done, String> {
        let mut done = Done::default();
        for number in numbers {
            done.writes.push(self.put(*number, rng)?);
            done.operations += 1;
        }
        Ok(done)
    }

    /// What all threads did together.
    fn by_threads(
        self: &Arc<Self>,
        threads: u64,
        work: impl Fn(&Self, u64) -> Result<Done, String> + Clone + Send + 'static,
    ) -> Result<Done, String> {
        let start = now();
        let begin = |thread: u64| {
            let (bench, work) = (Arc::clone(self), work.clone());
            spawn("user", move || work(&bench, thread))
        };
        let threads: Vec<_> = (0..threads).map(begin).collect();
        let mut all = Done::default();
        for thread in threads {
            let one = thread.join().map_err(|panicked| panicked.to_string())??;
            all.operations += one.operations;
            all.writes.append(one.writes);
            all.reads.append(one.reads);
        }
        Ok(all.since(start))
    }

    fn thread(&self, mix: Mix, thread: u64, operations: u64) -> Result<Done, String> {
        let mut rng = self.seed.derive(&format!("{mix:?} {thread}")).rng();
        let mut done = Done::default();
        for _ in 0..operations {
            let operation = if rng.below(100) < mix.share { mix.first } else { mix.second };
            self.operate(operation, mix.keys, &mut rng, &mut done)?;
            done.operations += 1;
        }
        Ok(done)
    }

    fn operate(&self, operation: Operation, keys: Chosen, rng: &mut Rng, done: &mut Done) -> Result<(), String> {
        let number = match (operation, keys) {
            (Operation::Insert, _) => self.numbers.new_one(),
            (_, Chosen::Uniform) => self.numbers.uniform(rng),
            (_, Chosen::Popular) => self.numbers.popular(rng),
            (_, Chosen::Latest) => self.numbers.latest(rng),
        };
        let start = now();
        match operation {
            Operation::Read | Operation::ReadModifyWrite => {
                let is_there = self.database.get(&key(number, self.key_bytes))?;
                done.reads.push(now().since(start));
                // One that is inserted now may not be there yet.
                if !is_there && number < self.loaded {
                    return Err(format!("key {number} of {} that were loaded is not there", self.loaded));
                }
            }
            Operation::Scan => {
                self.database.scan(&key(number, self.key_bytes), 1 + rng.below(SCAN_MAX))?;
                done.reads.push(now().since(start));
            }
            Operation::Write | Operation::Insert => {}
        }
        if matches!(operation, Operation::Write | Operation::Insert | Operation::ReadModifyWrite) {
            done.writes.push(self.put(number, rng)?);
        }
        Ok(())
    }

    /// Writes a key, when writers may; how long that took, waiting included.
    fn put(&self, number: u64, rng: &mut Rng) -> Result<std::time::Duration, String> {
        let at = rng.index(self.values.len() - self.value_bytes);
        let start = now();
        self.gate.pass((self.key_bytes + self.value_bytes) as u64);
        self.database.put(&key(number, self.key_bytes), &self.values[at..at + self.value_bytes])?;
        Ok(now().since(start))
    }
}

impl Done {
    fn since(mut self, start: Time) -> Self {
        self.seconds = now().since(start).as_secs_f64();
        self
    }

    /// As `db_bench` prints it.
    pub(crate) fn text(self, name: &str) -> String {
        let operations = self.operations as f64;
        let seconds = self.seconds.max(f64::MIN_POSITIVE);
        let (each, rate) = (seconds * 1e6 / operations.max(1.0), operations / seconds);
        format!(
            "{name:<12} : {each:.3} micros/op {rate:.0} ops/sec {seconds:.3} seconds {} operations;\n{}{}",
            self.operations,
            self.writes.lines("write"),
            self.reads.lines("read")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_2_is_known_by_name() {
        let names = ["overwrite", "readrandom", "ycsbl", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"];
        assert!(names.iter().all(|name| Mix::named(name).is_some()) && Mix::named("ycsbg").is_none());
        let mix = Mix::named("ycsbd").unwrap();
        assert_eq!(
            (mix.share, mix.first, mix.second, mix.keys),
            (95, Operation::Read, Operation::Insert, Chosen::Latest)
        );
    }

    #[test]
    fn a_step_is_printed_as_db_bench_does() {
        let mut done = Done { operations: 4, seconds: 2.0, ..Done::default() };
        done.reads.push(std::time::Duration::from_micros(7));
        let text = done.text("ycsbc");
        assert!(
            text.starts_with("ycsbc        : 500000.000 micros/op 2 ops/sec 2.000 seconds 4 operations;\n"),
            "{text}"
        );
        assert!(text.contains("Microseconds per read:\nCount: 1\nPercentiles: P50: 7.00 "), "{text}");
    }
}
