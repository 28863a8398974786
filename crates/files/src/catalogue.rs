//! Names and files in memory: what the journal says, and nothing else.
//!
//! A pure state machine: [`Catalogue::apply`] takes one [`Change`] and either applies it as a whole or says why it cannot.
//! The live store checks and applies a change here before it records it; a mount applies what was recorded. So a record that
//! was written always applies again, and a record that does not apply was never written here.

use std::collections::{BTreeMap, HashMap};

use crate::change::{Change, EXTENTS_MAX};
use crate::extent::{Extents, Place};
use crate::path::PATH_BYTES_MAX;
use crate::{Extent, FileError, FileId, FilePath, FileTags, Result, Work};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Directory,
    File(FileId),
}

/// What the journal says of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    /// What it is.
    pub(crate) tags: FileTags,
    /// Names; at 0 it is gone for whoever mounts next.
    pub(crate) links: u32,
    /// When bytes were last recorded, in seconds of the caller's clock.
    pub(crate) modified_seconds: u64,
    /// Bytes that are recorded.
    pub(crate) extents: Extents,
    /// Whether chunks behind the recorded bytes belong to it too.
    pub(crate) chunks_count: bool,
}

/// Names and files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalogue {
    entries: BTreeMap<FilePath, Entry>,
    inodes: HashMap<FileId, Inode>,
    next_file: u64,
    work: Work,
}

/// What became unreachable by a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// A file that lost its last name.
    pub(crate) file: Option<FileId>,
    /// Recorded extents that belong to no file any more.
    pub(crate) extents: Vec<Extent>,
}

impl Catalogue {
    /// What a path stands for.
    pub(crate) fn entry(&self, path: &FilePath) -> Option<Entry> {
        if *path == FilePath::root() { Some(Entry::Directory) } else { self.entries.get(path).copied() }
    }

    /// The file of a path.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`.
    pub(crate) fn file(&self, path: &FilePath) -> Result<FileId> {
        match self.entry(path) {
            Some(Entry::File(file)) => Ok(file),
            Some(Entry::Directory) => Err(wrong_kind(path, "a directory", "a file")),
            None => Err(FileError::NotFound { path: path.clone() }),
        }
    }

    /// What is recorded of a file.
    pub(crate) fn inode(&self, file: FileId) -> Option<&Inode> {
        self.inodes.get(&file)
    }

    /// Whether a file has the extent of this place.
    pub(crate) fn has_extent(&self, file: FileId, place: Place) -> bool {
        self.inode(file).is_some_and(|inode| inode.extents.at(place).is_some())
    }

    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (FileId, &Inode)> {
        self.inodes.iter().map(|(file, inode)| (*file, inode))
    }

    /// All names, in order, the root left out.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&FilePath, Entry)> {
        self.entries.iter().map(|(path, entry)| (path, *entry))
    }

    /// What is directly in a directory.
    ///
    /// # Errors
    /// `NotFound`, `WrongKind`.
    pub(crate) fn list(&self, directory: &FilePath) -> Result<Vec<(&FilePath, Entry)>> {
        self.directory(directory)?;
        let direct = |path: &FilePath| path.parent().as_ref() == Some(directory);
        Ok(self.below(directory).filter(|(path, _)| direct(path)).collect())
    }

    /// The number of the next file.
    pub(crate) fn next_file(&self) -> FileId {
        FileId(self.next_file)
    }

    /// What the store did.
    pub(crate) fn work(&self) -> &Work {
        &self.work
    }

    fn below<'a>(&'a self, directory: &FilePath) -> impl Iterator<Item = (&'a FilePath, Entry)> + use<'a> {
        self.entries.range(directory.range_below()).map(|(path, entry)| (path, *entry))
    }

    fn directory(&self, path: &FilePath) -> Result<()> {
        match self.entry(path) {
            Some(Entry::Directory) => Ok(()),
            Some(Entry::File(_)) => Err(wrong_kind(path, "a file", "a directory")),
            None => Err(FileError::NotFound { path: path.clone() }),
        }
    }

    fn parent_of(&self, path: &FilePath) -> Result<()> {
        match path.parent() {
            Some(parent) => self.directory(&parent),
            None => Err(FileError::Exists { path: path.clone() }),
        }
    }

    /// Applies a change, or changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `WrongKind`, `NotEmpty`, `IntoItself`, `NotAtEnd`, `Longer`: why it does not apply.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<Dropped> {
        match change {
            Change::MakeDirectory { path } => self.make_directory(path),
            Change::RemoveDirectory { path } => self.remove_directory(path),
            Change::Create { file, tags, modified_seconds, path } => self.create(*file, *tags, *modified_seconds, path),
            Change::Link { file, path } => self.link(*file, path),
            Change::Unlink { path } => self.unlink(path),
            Change::Rename { from, to } => self.rename(from, to),
            Change::Extend { file, size_before, modified_seconds, extents } => {
                self.extend(*file, *size_before, extents)?.modified_seconds = *modified_seconds;
                Ok(Dropped::default())
            }
            Change::Seal { file, size } => self.seal(*file, *size),
            Change::Truncate { file, size } => self.truncate(*file, *size),
            Change::Move { file, from, to } => self.relocate(*file, *from, to),
            Change::Retag { file, lifetime, level } => {
                let tags = &mut self.inode_mut(*file)?.tags;
                (tags.lifetime, tags.level) = (*lifetime, *level);
                Ok(Dropped::default())
            }
            Change::NextFile { file } => {
                self.next_file = self.next_file.max(file.0);
                Ok(Dropped::default())
            }
            Change::Work { work } => {
                self.work.clone_from(work);
                Ok(Dropped::default())
            }
        }
    }

    fn inode_mut(&mut self, file: FileId) -> Result<&mut Inode> {
        let gone = || FileError::NotFound { path: FilePath::parse(&format!("file {}", file.0)).unwrap_or_default() };
        self.inodes.get_mut(&file).ok_or_else(gone)
    }

    fn make_directory(&mut self, path: &FilePath) -> Result<Dropped> {
        self.parent_of(path)?;
        if self.entry(path).is_some() {
            return Err(FileError::Exists { path: path.clone() });
        }
        self.entries.insert(path.clone(), Entry::Directory);
        Ok(Dropped::default())
    }

    fn remove_directory(&mut self, path: &FilePath) -> Result<Dropped> {
        let entries = self.list(path)?.len();
        if entries > 0 || *path == FilePath::root() {
            return Err(FileError::NotEmpty { path: path.clone(), entries });
        }
        self.entries.remove(path);
        Ok(Dropped::default())
    }

    fn create(&mut self, file: FileId, tags: FileTags, modified_seconds: u64, path: &FilePath) -> Result<Dropped> {
        self.parent_of(path)?;
        if self.entry(path) == Some(Entry::Directory) {
            return Err(wrong_kind(path, "a directory", "a file"));
        }
        // A number is used once.
        let Some(next) = file.0.checked_add(1).filter(|_| !self.inodes.contains_key(&file)) else {
            return Err(FileError::Exists { path: path.clone() });
        };
        let dropped = self.unname(path);
        let chunks_count = tags.kind.is_chunked();
        let inode = Inode { tags, links: 1, modified_seconds, extents: Extents::default(), chunks_count };
        self.inodes.insert(file, inode);
        self.entries.insert(path.clone(), Entry::File(file));
        self.next_file = self.next_file.max(next);
        Ok(dropped)
    }

    fn link(&mut self, file: FileId, path: &FilePath) -> Result<Dropped> {
        self.parent_of(path)?;
        if self.entry(path).is_some() {
            return Err(FileError::Exists { path: path.clone() });
        }
        self.inode_mut(file)?.links += 1;
        self.entries.insert(path.clone(), Entry::File(file));
        Ok(Dropped::default())
    }

    fn unlink(&mut self, path: &FilePath) -> Result<Dropped> {
        self.file(path)?;
        Ok(self.unname(path))
    }

    /// Takes a name from its file, if it has one.
    fn unname(&mut self, path: &FilePath) -> Dropped {
        let Some(Entry::File(file)) = self.entries.remove(path) else { return Dropped::default() };
        let inode = self.inodes.get_mut(&file).expect("a name has its file");
        inode.links -= 1;
        if inode.links > 0 {
            return Dropped::default();
        }
        let inode = self.inodes.remove(&file).expect("just seen");
        Dropped { file: Some(file), extents: inode.extents.iter().copied().collect() }
    }

    fn rename(&mut self, from: &FilePath, to: &FilePath) -> Result<Dropped> {
        let entry = self.entry(from).ok_or_else(|| FileError::NotFound { path: from.clone() })?;
        self.parent_of(to)?;
        if from == to {
            return Ok(Dropped::default());
        }
        match (entry, self.entry(to)) {
            (Entry::File(_), Some(Entry::Directory)) => Err(wrong_kind(to, "a directory", "a file")),
            (Entry::File(moved), Some(Entry::File(same))) if moved == same => Ok(Dropped::default()),
            (Entry::File(_), _) => {
                let dropped = self.unname(to);
                self.entries.remove(from);
                self.entries.insert(to.clone(), entry);
                Ok(dropped)
            }
            (Entry::Directory, _) => self.rename_directory(from, to),
        }
    }

    fn rename_directory(&mut self, from: &FilePath, to: &FilePath) -> Result<Dropped> {
        if to.is_in(from) || *from == FilePath::root() {
            return Err(FileError::IntoItself { from: from.clone(), to: to.clone() });
        }
        if self.entry(to).is_some() {
            let entries = self.list(to)?.len();
            if entries > 0 {
                return Err(FileError::NotEmpty { path: to.clone(), entries });
            }
        }
        let moved =
            |(path, entry): (&FilePath, Entry)| (path.clone(), path.moved(from, to).expect("it is below"), entry);
        let moved: Vec<(FilePath, FilePath, Entry)> = self.below(from).map(moved).collect();
        // No mount would read it back.
        if moved.iter().any(|(_, path, _)| path.as_str().len() > PATH_BYTES_MAX) {
            let path = to.as_str().chars().take(200).collect();
            return Err(FileError::BadPath { path, why: "a name below it would have more than 4,096 bytes" });
        }
        self.entries.remove(from);
        self.entries.insert(to.clone(), Entry::Directory);
        for (before, path, entry) in moved {
            self.entries.remove(&before);
            self.entries.insert(path, entry);
        }
        Ok(Dropped::default())
    }

    fn extend(&mut self, file: FileId, size_before: u64, extents: &[Extent]) -> Result<&mut Inode> {
        let inode = self.inode_mut(file)?;
        let size = inode.extents.bytes();
        if size != size_before {
            return Err(FileError::NotAtEnd { offset: size_before, size });
        }
        extents.iter().for_each(|extent| inode.extents.push(*extent));
        Ok(inode)
    }

    fn seal(&mut self, file: FileId, size: u64) -> Result<Dropped> {
        let inode = self.inode_mut(file)?;
        let known = inode.extents.bytes();
        if known != size {
            return Err(FileError::NotAtEnd { offset: size, size: known });
        }
        inode.chunks_count = false;
        Ok(Dropped::default())
    }

    fn truncate(&mut self, file: FileId, size: u64) -> Result<Dropped> {
        let inode = self.inode_mut(file)?;
        let before = inode.extents.bytes();
        if size > before {
            return Err(FileError::Longer { size: before, asked: size });
        }
        Ok(Dropped { file: None, extents: inode.extents.truncate(size) })
    }

    fn relocate(&mut self, file: FileId, from: Place, to: &[Extent]) -> Result<Dropped> {
        let old = self.inode_mut(file)?.extents.replace(from, to);
        let size = self.inodes[&file].extents.bytes();
        let old = old.ok_or(FileError::NotAtEnd { offset: from.block, size })?;
        Ok(Dropped { file: None, extents: vec![old] })
    }

    /// Calls `put` with changes that make this catalogue out of an empty one.
    ///
    /// # Errors
    /// Those of `put`.
    pub(crate) fn snapshot<E>(
        &self,
        put: &mut dyn FnMut(&Change) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        put(&Change::NextFile { file: self.next_file() })?;
        if self.work != Work::default() {
            put(&Change::Work { work: self.work.clone() })?;
        }
        let mut named = HashMap::new();
        for (path, entry) in self.names() {
            let path = path.clone();
            let Entry::File(file) = entry else {
                put(&Change::MakeDirectory { path })?;
                continue;
            };
            if named.insert(file, ()).is_some() {
                put(&Change::Link { file, path })?;
                continue;
            }
            let inode = &self.inodes[&file];
            let modified_seconds = inode.modified_seconds;
            put(&Change::Create { file, tags: inode.tags, modified_seconds, path })?;
            inode.changes(file).iter().try_for_each(&mut *put)?;
        }
        Ok(())
    }
}

impl Inode {
    /// Changes that give a new file these bytes.
    fn changes(&self, file: FileId) -> Vec<Change> {
        let mut changes = extensions(file, 0, self.modified_seconds, self.extents.iter().copied().collect());
        if self.tags.kind.is_chunked() && !self.chunks_count {
            changes.push(Change::Seal { file, size: self.extents.bytes() });
        }
        changes
    }
}

/// Records that add `extents` to a file of `size_before`, each of a length that fits.
pub(crate) fn extensions(
    file: FileId,
    mut size_before: u64,
    modified_seconds: u64,
    extents: Vec<Extent>,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for extents in extents.chunks(EXTENTS_MAX) {
        changes.push(Change::Extend { file, size_before, modified_seconds, extents: extents.to_vec() });
        size_before += extents.iter().map(|extent| extent.bytes).sum::<u64>();
    }
    changes
}

fn wrong_kind(path: &FilePath, found: &'static str, needed: &'static str) -> FileError {
    FileError::WrongKind { path: path.clone(), found, needed }
}

#[cfg(test)]
mod tests;
