//! One open store: what all handles to it share.

use zonda_tree::{BatchOp, Engine};

use crate::background::{self, Workers};
use crate::backing::{Device, Pages};
use crate::catalogue::{Admitted, Catalogue, Named};
use crate::fork::Opener;
use crate::governor::Governor;
use crate::shape::Shape;
use crate::{Durability, Error, Result, choices, limits};

/// An open store. Every handle holds it by an `Arc`; the last one to go closes it.
///
/// Life cycle: 1 open -> 2 closed (by [`Store::close`] or the last drop; everyone gets `Closed`) -> 3 dropped (device and its lock are
/// free). In a child of the opening process nothing but 3 happens, and without touching the device; so what handles hold of the engine they
/// give to [`Store::let_go`].
pub(crate) struct Store {
    /// Taken by `drop` alone, and not dropped in a forked child: the last engine and device would write to the parent's files.
    parts: Option<Parts>,
    opener: Opener,
    read_only: bool,
    durability: Durability,
    catalogue: Catalogue,
}

/// What must not be dropped in a forked child.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) pages: Pages,
    pub(crate) device: Device,
    pub(crate) workers: Option<Workers>,
    pub(crate) governor: Governor,
    pub(crate) shape: Shape,
}

impl Store {
    /// Wraps what opening made.
    pub(crate) fn new(parts: Parts, catalogue: Catalogue, durability: Durability, read_only: bool) -> Self {
        Self { parts: Some(parts), opener: Opener::here(), read_only, durability, catalogue }
    }

    fn parts(&self) -> &Parts {
        self.parts.as_ref().expect("only drop takes them")
    }

    /// The engine, to read.
    ///
    /// # Errors
    /// `Forked`.
    pub(crate) fn reader(&self) -> Result<&Engine> {
        self.opener.check()?;
        Ok(&self.parts().engine)
    }

    /// The engine, to write.
    ///
    /// # Errors
    /// `Forked`, `ReadOnly`.
    pub(crate) fn writer(&self) -> Result<&Engine> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.reader()
    }

    /// The engine to write to a tree, and the right to; see [`Named::admit`].
    ///
    /// # Errors
    /// `Forked`, `ReadOnly`, `TreeDropped`.
    pub(crate) fn writer_to<'a>(&self, tree: &'a Named) -> Result<(&Engine, Admitted<'a>)> {
        let engine = self.writer()?;
        Ok((engine, tree.admit()?))
    }

    /// The engine, for a long operation that writes to a tree batch by batch; each batch is admitted by itself
    /// ([`writer_to`](Self::writer_to)). A store that takes no writes refuses now, even if there turns out to be nothing to write.
    ///
    /// # Errors
    /// As [`writer_to`](Self::writer_to); `Closed`, `Poisoned`.
    pub(crate) fn writer_in_chunks(&self, tree: &Named) -> Result<&Engine> {
        self.writer_to(tree)?;
        let engine = self.writer()?;
        engine.write(&[], zonda_tree::Durability::Buffered)?;
        Ok(engine)
    }

    /// Whether pairs may be written: the index of a store may outgrow its memory budget. Deletes always may.
    ///
    /// # Errors
    /// `TooLittleMemory`.
    pub(crate) fn admit_pairs(&self) -> Result<()> {
        self.parts().governor.admit_pairs()
    }

    /// The same for a batch, if it has pairs.
    ///
    /// # Errors
    /// As [`admit_pairs`](Self::admit_pairs).
    pub(crate) fn admit(&self, batch: &[BatchOp<'_>]) -> Result<()> {
        let has_pairs = batch.iter().any(|op| matches!(op, BatchOp::Put { .. }));
        if has_pairs { self.admit_pairs() } else { Ok(()) }
    }

    /// Tells the log worker, should it be asleep, that something was written.
    pub(crate) fn written(&self) {
        if let Some(workers) = &self.parts().workers {
            workers.wake();
        }
    }

    /// Who keeps the memory budget.
    pub(crate) fn governor(&self) -> &Governor {
        &self.parts().governor
    }

    /// Changes the memory budget and merges what leaf buffers no longer have room for, a leaf each at the most. A store that is only read
    /// merges no changes: each would become a page in memory, beside the budget.
    ///
    /// # Errors
    /// `BadOption` and `TooLittleMemory`, and nothing is changed; those of every write, of a store that is only read `Forked` and `Closed`.
    pub(crate) fn set_memory(&self, bytes: u64) -> Result<()> {
        let (engine, governor) = (self.reader()?, self.governor());
        choices::within("memory", bytes, limits::MEMORY_BYTES_MIN, governor.budget_bytes_max())?;
        let keeps_changes = self.read_only && !governor.buffers_are_caches();
        if keeps_changes {
            // Refused once the store is closed, as what merges is.
            drop(engine.snapshot()?);
        }
        governor.set_budget_bytes(bytes, keeps_changes)?;
        if !keeps_changes {
            engine.shrink_buffers()?;
        }
        governor.adjust();
        Ok(())
    }

    /// One round of the workers' work, for callers without them; says whether there may be more.
    ///
    /// # Errors
    /// Those of every write, of a store that is only read `Forked`.
    pub(crate) fn step(&self) -> Result<bool> {
        if self.read_only {
            self.reader()?;
            self.governor().adjust();
            return Ok(false);
        }
        background::step(self.writer()?, &self.parts().governor)
    }

    /// Names of trees.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What writes wait for unless they say it.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// The page store, for statistics.
    pub(crate) fn pages(&self) -> &Pages {
        &self.parts().pages
    }

    /// What a copy is to be like.
    pub(crate) fn shape(&self) -> Shape {
        self.parts().shape
    }

    /// The device, for statistics.
    pub(crate) fn device(&self) -> &Device {
        &self.parts().device
    }

    /// Drops what a handle holds of the engine. In a forked child it is forgotten: reads in flight would be taken from the parent, whose
    /// ring the child shares, and a lock may be held by a thread that the child does not have.
    pub(crate) fn let_go<T>(&self, part: T) {
        if self.opener.is_forked() {
            std::mem::forget(part);
        }
    }

    /// Stops the workers, checkpoints and refuses further use. Idempotent.
    ///
    /// # Errors
    /// `Forked`; those of a checkpoint: what was synced is safe then, the next opening recovers.
    pub(crate) fn close(&self) -> Result<()> {
        self.opener.check()?;
        if let Some(workers) = &self.parts().workers {
            workers.stop();
        }
        if self.read_only {
            self.parts().engine.shut();
            return Ok(());
        }
        Ok(self.parts().engine.close()?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.opener.is_forked() {
            std::mem::forget(self.parts.take());
            return;
        }
        // Nobody is left to tell; `close` is for those who want to know.
        let _ = self.close();
    }
}
