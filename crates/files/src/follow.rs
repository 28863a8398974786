//! Follows the LSM-trees whose tables are in the store, and records what it hears in the trace.

use std::collections::HashMap;

use zonda_rt::{Mutex, MutexGuard};

use crate::catalogue::{Catalogue, Entry, Inode};
use crate::lsm::{Job, JobId, KeyOrder, LsmShape, Table, TreeId, VersionEdit};
use crate::names::NamesState;
use crate::store::Core;
use crate::trace::{TraceEvent, TraceWriter};
use crate::{FileId, FilePath, FileStore, ZoneId};

/// What is known of LSM-trees. Its lock comes after that of the names and of the lanes.
#[derive(Debug, Default)]
pub(crate) struct Follow {
    state: Mutex<Following>,
}

/// The shape, and which tree has which number.
#[derive(Debug, Default)]
pub(crate) struct Following {
    pub(crate) shape: LsmShape,
    trees: HashMap<(FilePath, u32), TreeId>,
}

impl Follow {
    /// Access to it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Following> {
        self.state.lock()
    }

    /// The bytes of a file moved. Cost: one pass over the extents of a table; no other file has its zones known.
    pub(crate) fn moved(&self, file: FileId, inode: &Inode) {
        let mut state = self.lock();
        if state.shape.find(file).is_some() {
            state.shape.set_zones(file, &zones_of(inode));
        }
    }

    /// Files that lost their last names.
    pub(crate) fn gone(&self, files: Vec<FileId>) {
        if !files.is_empty() {
            let mut state = self.lock();
            files.into_iter().for_each(|file| state.shape.remove_file(file));
        }
    }
}

/// The zones of what is recorded of a file, each once.
fn zones_of(inode: &Inode) -> Vec<ZoneId> {
    let mut zones: Vec<ZoneId> = Vec::new();
    for extent in inode.extents.iter() {
        if !zones.contains(&extent.zone) {
            zones.push(extent.zone);
        }
    }
    zones
}

impl FileStore {
    /// The number of the tree of column family `family` in `directory`; the same until it is forgotten.
    pub fn tree(&self, directory: &FilePath, family: u32, order: KeyOrder) -> TreeId {
        let mut state = self.core.follow.lock();
        if let Some(tree) = state.trees.get(&(directory.clone(), family)) {
            return *tree;
        }
        let name = order.name().to_owned();
        let tree = state.shape.add_tree(order);
        state.trees.insert((directory.clone(), family), tree);
        let directory = directory.clone();
        self.core.trace(|| TraceEvent::Tree { tree, order: name, family, directory });
        tree
    }

    /// The tree was closed or dropped; what its tables were is forgotten, the files are untouched.
    pub fn forget_tree(&self, tree: TreeId) {
        let mut state = self.core.follow.lock();
        state.shape.remove_tree(tree);
        state.trees.retain(|_, known| *known != tree);
        self.core.trace(|| TraceEvent::TreeGone { tree });
    }

    /// A flush or compaction begins. Inputs that are no files are passed over.
    pub fn begin_job(&self, job: &Job) -> JobId {
        let names = self.core.names.lock();
        let inputs: Vec<FileId> = job.inputs.iter().filter_map(|path| names.catalogue.file(path).ok()).collect();
        let mut state = self.core.follow.lock();
        let id = state.shape.begin_job(inputs.clone());
        let (tree, kind, output_level) = (job.tree, job.kind, job.output_level);
        self.core.trace(|| TraceEvent::JobBegin { job: id, tree, kind, output_level, inputs });
        id
    }

    /// A flush or compaction has ended.
    pub fn end_job(&self, job: JobId) {
        self.core.follow.lock().shape.end_job(job);
        self.core.trace(|| TraceEvent::JobEnd { job });
    }

    /// A tree has another version. Paths that are no files are passed over: a MANIFEST that is read again names tables
    /// that are long gone.
    pub fn apply_edit(&self, tree: TreeId, edit: &VersionEdit) {
        let names = self.core.names.lock();
        let mut state = self.core.follow.lock();
        let removed: Vec<FileId> = edit.removed.iter().filter_map(|path| names.catalogue.file(path).ok()).collect();
        let mut added = Vec::new();
        for (path, level, range) in &edit.added {
            let Some((file, recorded)) = recorded(&names, path) else { continue };
            let known = state.shape.table(tree, file).map(|table| table.zones.clone());
            let zones = known.filter(|zones| !zones.is_empty()).unwrap_or(recorded);
            added.push((file, Table { level: *level, range: range.clone(), zones }));
        }
        removed.iter().for_each(|file| state.shape.remove(tree, *file));
        added.iter().for_each(|(file, table)| state.shape.put(tree, *file, table.clone()));
        self.core.trace(|| {
            let added = added.into_iter().map(|(file, table)| (file, table.level, table.range)).collect();
            TraceEvent::Edit { tree, removed, added }
        });
    }

    /// What is known of the trees, for reports and tests.
    #[must_use]
    pub fn shape(&self) -> LsmShape {
        self.core.follow.lock().shape.clone()
    }
}

/// The file of a name, and the zones of what is recorded of it.
fn recorded(names: &NamesState, path: &FilePath) -> Option<(FileId, Vec<ZoneId>)> {
    let file = names.catalogue.file(path).ok()?;
    Some((file, names.catalogue.inode(file).map(zones_of).unwrap_or_default()))
}

impl Core {
    /// Records an event, if there is a trace. Call it while what orders the event is locked.
    pub(crate) fn trace(&self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &self.options.trace {
            trace.record(event());
        }
    }

    /// Records what the store holds when its trace begins.
    pub(crate) fn trace_existing(&self) {
        if let Some(trace) = &self.options.trace {
            record_existing(trace, &self.names.lock().catalogue);
        }
    }
}

fn record_existing(trace: &TraceWriter, catalogue: &Catalogue) {
    let mut seen = HashMap::new();
    for (path, entry) in catalogue.names() {
        let path = path.clone();
        let event = match entry {
            Entry::Directory => TraceEvent::MakeDirectory { path },
            Entry::File(file) if seen.insert(file, ()).is_some() => TraceEvent::Link { file, path },
            Entry::File(file) => {
                let Some(inode) = catalogue.inode(file) else { continue };
                TraceEvent::Existing { file, tags: inode.tags, bytes: inode.extents.bytes(), path }
            }
        };
        trace.record(event);
    }
}
