//! The experiments, one file each: what they do, at which size, and the targets they are judged by.

mod child;
pub(crate) mod fit;
mod kill;
mod large;
mod overwrite;
mod reads;
mod room;
mod space;
mod sync;
mod ycsb;

use std::path::PathBuf;

use zonda_rt::Seed;

pub use child::{ChildProgram, ChildTask};
pub use kill::{Kill, KillReport};
pub use large::Large;
pub use overwrite::Overwrite;
pub use reads::Reads;
pub use space::Space;
pub use sync::Sync;
pub use ycsb::{Suite, Ycsb};

use crate::show_count;

/// How much an experiment does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// As much as the targets ask for.
    #[default]
    Full,
    /// A second or two, to see that it works; its figures mean nothing.
    Tiny,
}

impl Scale {
    /// `full`, or `tiny` at the tiny scale.
    #[must_use]
    pub fn pick<T>(self, full: T, tiny: T) -> T {
        match self {
            Self::Full => full,
            Self::Tiny => tiny,
        }
    }
}

/// What all experiments are told.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Seed of everything random.
    pub seed: Seed,
    /// How much to do.
    pub scale: Scale,
    /// Where temporary stores are made.
    pub directory: PathBuf,
    /// Preset of the stores.
    pub design: String,
}

impl Setting {
    /// The default preset, in the current directory.
    #[must_use]
    pub fn new(seed: u64, scale: Scale) -> Self {
        Self { seed: Seed(seed), scale, directory: ".".into(), design: "zonda".to_owned() }
    }

    /// What targets stand for, in words, where a run does fewer than so many `what`: they are not judged then.
    fn stands_for(count: u64, of_target: u64, what: &str) -> Option<String> {
        (count < of_target).then(|| format!("{} {what}", show_count(of_target)))
    }

    /// Refuses a number of records for which there cannot be room in a temporary store, as `plan` has it.
    fn check_room(&self, plan: &crate::StorePlan, records: u64) -> crate::Result<()> {
        room::check(room::Wanted { option: ("--records", records), records, pair_bytes: 16 }, plan, &self.directory)
    }

    fn plan(&self, uri: &str, memory_bytes: u64) -> crate::StorePlan {
        let mut plan = crate::StorePlan::new(uri.to_owned(), memory_bytes, self.seed.0);
        plan.design.clone_from(&self.design);
        plan
    }
}
