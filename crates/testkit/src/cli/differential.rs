//! `zonda-testkit differential`.

use std::io::{self, Write};

use clap::Args;
use zonda::{Design, StoreKind};
use zonda_testkit::Differential;

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  zonda-testkit differential --design bftree --store in-place --operations 10000000")]
pub(crate) struct Long {
    /// Seed of the run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Operations to compare.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Different keys.
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Memory budget of the store in MiB.
    #[arg(long, default_value_t = 4)]
    memory_mib: u64,
    /// What leaves keep in memory: adb, btree, bdtree or bftree.
    #[arg(long, default_value = "bftree")]
    design: Design,
    /// Where leaves lie: zoned or in-place.
    #[arg(long, default_value = "zoned")]
    store: StoreKind,
}

impl Long {
    /// Runs, and says how far it came; true if there was no difference.
    pub(crate) fn run(&self, out: &mut dyn Write) -> io::Result<bool> {
        let run = Differential {
            seed: self.seed,
            operations: self.operations,
            design: self.design,
            store: self.store,
            keys: self.keys,
            memory_bytes: self.memory_mib << 20,
        };
        match run.run(&mut |done| eprint!("\r{done} operations")) {
            Ok(merged_in_turns) => {
                let turned = format!("{merged_in_turns} mini-pages merged in turns of their ring");
                writeln!(out, "\r{} operations on {run:?}: no difference, {turned}", self.operations)?;
                Ok(true)
            }
            Err(trouble) => {
                writeln!(out, "\r{run:?}: {trouble}")?;
                Ok(false)
            }
        }
    }
}
