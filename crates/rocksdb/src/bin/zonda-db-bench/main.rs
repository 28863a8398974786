//! `zonda-db-bench`: workloads on unmodified `RocksDB` whose compactions this program chooses, through `CompactFiles`, with automatic
//! compactions off.
//!
//! It is for policies that `RocksDB` does not have: the competitors of the `SplitZNS` paper (section 5.1.3), *Gear* and *LLC*. What it
//! prints looks like what `db_bench` prints. `--policy=native` leaves compactions to `RocksDB` and runs the same workloads;
//! `--policy=min-overlap` chooses as `RocksDB` does: what the two differ by is what the way through this program costs.
//!
//! Not as `RocksDB`: tables of level 0 are never merged among themselves, a job is never split into several, and tables are not
//! cut where much lies two levels below.
#![cfg_attr(
    not(with_rocksdb),
    allow(dead_code, reason = "without RocksDB only the parts that need none are built, for their tests")
)]

mod arguments;
mod choose;
#[cfg(with_rocksdb)]
mod database;
#[cfg(with_rocksdb)]
mod driver;
mod keys;
mod latencies;
mod levels;
mod pick;
#[cfg(with_rocksdb)]
mod run;
mod stalls;
#[cfg(with_rocksdb)]
mod workload;

// Registers `zonda://`.
#[cfg(with_rocksdb)]
use zonda_rocksdb as _;

/// Why a program that was built where librocksdb is not does nothing; others look for its first words.
const WITHOUT: &str = "built without RocksDB: its headers were not found";
/// The command line was wrong, or this program has no `RocksDB`.
const USAGE: u8 = 2;

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help") {
        println!("{}", arguments::USAGE);
        if cfg!(not(with_rocksdb)) {
            println!("\nThis one was {WITHOUT}.");
        }
        return std::process::ExitCode::SUCCESS;
    }
    match arguments::Arguments::parse(words.into_iter()) {
        Ok(arguments) => ran(&arguments),
        Err(wrong) => {
            eprintln!("{wrong}");
            std::process::ExitCode::from(USAGE)
        }
    }
}

#[cfg(with_rocksdb)]
fn ran(arguments: &arguments::Arguments) -> std::process::ExitCode {
    match run::run(arguments, &mut |text| print!("{text}")) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(with_rocksdb))]
fn ran(_: &arguments::Arguments) -> std::process::ExitCode {
    eprintln!("{WITHOUT}");
    std::process::ExitCode::from(USAGE)
}
