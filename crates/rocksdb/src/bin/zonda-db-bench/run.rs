//! Opens the database, runs the steps one after the other, and closes it.

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::{now, sleep};

use super::arguments::Arguments;
use super::database::{Database, Place};
use super::driver::{Counts, Driver};
use super::keys::Numbers;
use super::stalls::Gate;
use super::workload::{Bench, Mix};

/// What of `RocksDB` runs or waits to.
const BUSY: [&str; 4] = [
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-running-flushes",
    "rocksdb.compaction-pending",
    "rocksdb.num-running-compactions",
];

/// Runs what the command line says; `say` gets what is printed.
pub(crate) fn run(arguments: &Arguments, say: &mut dyn FnMut(&str)) -> Result<(), String> {
    if let Some(unknown) = arguments.benchmarks.iter().find(|step| !is_known(step)) {
        return Err(format!("there is no benchmark `{unknown}`"));
    }
    let Arguments { uri, path, options, cache_bytes, .. } = arguments;
    let place = Place { uri, path, options, cache_bytes: *cache_bytes };
    let rules = arguments.rules()?;
    let database = Arc::new(Database::open(&place, rules.is_none())?);
    let gate = Arc::new(Gate::default());
    let driver = rules.map(|rules| Driver::start(Arc::clone(&database), Arc::clone(&gate), rules));
    let sizes = (arguments.keys, arguments.key_bytes, arguments.value_bytes);
    let numbers = Numbers::new(arguments.keys, arguments.skew);
    let bench = Arc::new(Bench::new(Arc::clone(&database), Arc::clone(&gate), numbers, sizes, arguments.seed));
    let ran = steps(arguments, &bench, driver.as_ref(), say);
    let counts = driver.map(Driver::stop).transpose();
    ran?;
    if let Some(counts) = counts? {
        say(&of_counts(&counts));
    }
    drop(bench);
    let database = Arc::try_unwrap(database).map_err(|_| "the database is still in use".to_owned())?;
    database.close()
}

/// A step, `NAME` or `NAME:N`, with its number of operations if it has its own; `None` if that is no number.
fn step(text: &str) -> Option<(&str, Option<u64>)> {
    match text.split_once(':') {
        Some((name, count)) => Some((name, Some(count.parse().ok()?))),
        None => Some((text, None)),
    }
}

fn is_known(text: &str) -> bool {
    let Some((name, count)) = step(text) else { return false };
    let has_none = ["fillrandom", "fillshared", "waitforcompaction", "stats"].contains(&name);
    (has_none && count.is_none()) || Mix::named(name).is_some()
}

fn steps(
    arguments: &Arguments,
    bench: &Arc<Bench>,
    driver: Option<&Driver>,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let start = now();
    for text in &arguments.benchmarks {
        let (name, count) = step(text).unwrap_or((text, None));
        match name {
            "fillrandom" => say(&bench.fill()?.text(name)),
            "fillshared" => say(&bench.fill_shared(arguments.threads)?.text(name)),
            "waitforcompaction" => driver.map_or_else(|| wait(&bench.database), Driver::wait)?,
            "stats" => {
                let text = bench.database.text("rocksdb.stats");
                say(&text);
                if driver.is_some() {
                    say(&of_stalls(&text, bench.gate.stalled(), now().since(start)));
                }
            }
            _ => {
                let mix = Mix::named(name).ok_or_else(|| format!("there is no benchmark `{name}`"))?;
                let operations = count.unwrap_or(arguments.operations);
                say(&bench.mix(mix, (arguments.threads, operations))?.text(name));
            }
        }
    }
    Ok(())
}

/// Waits until `RocksDB` has nothing to do.
fn wait(database: &Database) -> Result<(), String> {
    while BUSY.iter().any(|property| database.number(property) > 0) {
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// In the words of `RocksDB`, whose own line knows only what memtables held up: that, and what this program did.
fn of_stalls(text: &str, stalled: Duration, all: Duration) -> String {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("Cumulative stall:"));
    let of_memtables = line.and_then(|line| line.rsplit(',').next()?.split_whitespace().next()?.parse::<f64>().ok());
    let percent = 100.0 * stalled.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
    let both = (percent + of_memtables.unwrap_or(0.0)).min(100.0);
    format!("Cumulative stall: {:.3} seconds outside RocksDB; {both:.1} percent\n", stalled.as_secs_f64())
}

fn of_counts(counts: &Counts) -> String {
    let Counts { jobs, input_bytes, written_moves, geared, refused, at_once_max } = counts;
    format!(
        "Driven compactions: {jobs} jobs, {input_bytes} bytes read, {written_moves} moves written, \
         {geared} geared, {refused} refused, {at_once_max} at once\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_may_have_a_number_of_their_own() {
        assert_eq!(step("readrandom:4000"), Some(("readrandom", Some(4000))));
        assert!(is_known("ycsbe:7") && is_known("stats") && is_known("overwrite") && is_known("fillshared"));
        assert!(!is_known("ycsbe:x") && !is_known("stats:3") && !is_known("ycsbz:3"));
    }

    #[test]
    fn stalls_of_both_are_added() {
        let text = "Cumulative stall: 00:00:2.911 H:M:S, 16.8 percent\nInterval stall: 00:00:2.9 H:M:S, 99.0 percent\n";
        let line = of_stalls(text, Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(line, "Cumulative stall: 1.000 seconds outside RocksDB; 26.8 percent\n");
        assert!(of_stalls("", Duration::ZERO, Duration::from_secs(1)).ends_with("; 0.0 percent\n"));
    }
}
