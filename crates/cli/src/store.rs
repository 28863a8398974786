//! The arguments that say which store, and how to open it.

use anyhow::Context;
use clap::Args;
use zonda::{Db, Options, RecoveryProgress, Tree, View};

use crate::progress;

/// Which store, and how much memory to use.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Path or URI of the store: `app.zonda`, `file:PATH`, `zbd:/dev/NAME`, with `?key=value` for details (`zonda --help` has the keys)
    pub(crate) store: String,
    /// The device of the store's log, if that is not beside its pages: path or URI, the same at every opening
    #[arg(long, value_name = "URI")]
    pub(crate) log_on: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// How much memory to use.
#[derive(Args, Debug)]
pub(crate) struct MemoryArgs {
    /// Memory budget, all of it: 8MiB, 1GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = zonda_bench::parse_bytes)]
    pub(crate) memory: u64,
}

/// Which tree of the store.
#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// Named tree; without it the default tree
    #[arg(long, value_name = "NAME")]
    pub(crate) tree: Option<String>,
}

impl MemoryArgs {
    /// Options with this budget.
    pub(crate) fn options(&self) -> Options {
        Options::new().memory(self.memory)
    }
}

impl StoreArgs {
    /// Options with the budget and the log device.
    pub(crate) fn options(&self) -> Options {
        let options = self.memory.options();
        match &self.log_on {
            Some(log) => options.log_device(log),
            None => options,
        }
    }

    /// Opens the store, making it if need be.
    ///
    /// # Errors
    /// Those of opening, naming the store.
    pub(crate) fn open_or_create(&self) -> anyhow::Result<Db> {
        self.open_with(&self.options())
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// Those of opening, naming the store.
    pub(crate) fn open(&self) -> anyhow::Result<Db> {
        self.open_with(&self.options().create_if_missing(false))
    }

    /// Opens a store that exists, for reading only: beside other readers, and without writing to it.
    ///
    /// # Errors
    /// Those of opening, naming the store.
    pub(crate) fn open_read_only(&self) -> anyhow::Result<Db> {
        self.open_to_read(&self.options())
    }

    /// The same, up to where the log is damaged if it is.
    ///
    /// # Errors
    /// As [`open_read_only`](Self::open_read_only).
    pub(crate) fn open_up_to_damage(&self) -> anyhow::Result<Db> {
        self.open_to_read(&self.options().log_up_to_damage(true))
    }

    fn open_with(&self, options: &Options) -> anyhow::Result<Db> {
        self.shown(|progress| options.open_with_progress(&self.store, progress))
    }

    fn open_to_read(&self, options: &Options) -> anyhow::Result<Db> {
        self.shown(|progress| options.open_read_only_with_progress(&self.store, progress))
    }

    /// What `open` opens, with progress: to read or to write, a store that was not closed is recovered first.
    fn shown(&self, open: impl FnOnce(&mut dyn FnMut(RecoveryProgress)) -> zonda::Result<Db>) -> anyhow::Result<Db> {
        let bar = progress::of_recovery();
        let opened = open(&mut |step| progress::show(&bar, step.done_bytes, step.total_bytes));
        bar.finish_and_clear();
        opened.with_context(|| self.context())
    }

    fn context(&self) -> String {
        format!("cannot open {}", self.store)
    }
}

impl TreeArgs {
    /// The tree to write to, made if need be.
    ///
    /// # Errors
    /// Those of making it.
    pub(crate) fn of(&self, db: &Db) -> zonda::Result<Tree> {
        match &self.tree {
            Some(name) => db.tree(name),
            None => Ok(Tree::clone(db)),
        }
    }

    /// The tree, which must be there.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub(crate) fn existing(&self, db: &Db) -> zonda::Result<Tree> {
        match &self.tree {
            Some(name) => db.existing_tree(name),
            None => Ok(Tree::clone(db)),
        }
    }

    /// The tree as of now.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub(crate) fn view(&self, db: &Db) -> zonda::Result<View> {
        let snapshot = db.snapshot()?;
        match &self.tree {
            Some(name) => snapshot.tree(name),
            None => Ok(View::clone(&snapshot)),
        }
    }
}
