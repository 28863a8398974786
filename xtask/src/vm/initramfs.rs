//! The guest's file system in memory: programs with their libraries, modules, a few files, as a cpio archive.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::cache::{Cache, said};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
/// Directories that the guest mounts something on.
const MOUNT_POINTS: [&str; 8] = ["bin", "dev", "etc", "mnt", "proc", "sys", "tmp", "lib/modules"];

/// Files by their path in the guest, without the leading slash.
#[derive(Default)]
pub(super) struct Initramfs {
    entries: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Initramfs {
    /// A file system with busybox as its shell and `init` as its first process.
    ///
    /// # Errors
    /// If busybox cannot be read.
    pub(super) fn new(cache: &Cache, init: &str) -> Result<Self> {
        let mut made = Self::default();
        for directory in MOUNT_POINTS {
            made.directory(directory);
        }
        made.add("init", PROGRAM, init.as_bytes().to_vec());
        made.copy("bin/busybox", PROGRAM, &cache.program("busybox")?)?;
        Ok(made)
    }

    /// Adds a program as `/bin/NAME` with every library it is linked with.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn program(&mut self, cache: &Cache, name: &str, program: &Path) -> Result<()> {
        self.copy(&format!("bin/{name}"), PROGRAM, program)?;
        for library in libraries(cache, program)? {
            let name = library.file_name().context("a library has a name")?.to_string_lossy().into_owned();
            let place = if name.starts_with("ld-linux") { "lib64" } else { "lib/guest" };
            self.copy(&format!("{place}/{name}"), PROGRAM, &library)?;
        }
        Ok(())
    }

    /// Adds modules with all they depend on, to be loaded in this order: the list `/vm/modules`. Unknown ones are built
    /// into the kernel.
    ///
    /// # Errors
    /// If a module cannot be read.
    pub(super) fn modules(&mut self, cache: &Cache, wanted: &[(&str, &str)]) -> Result<()> {
        let mut files = BTreeMap::new();
        list_modules(&cache.modules(), &mut files)?;
        let (mut list, mut loaded) = (String::new(), BTreeSet::new());
        for (name, options) in wanted {
            self.module(&files, name, options, (&mut list, &mut loaded))?;
        }
        self.text("vm/modules", &list);
        Ok(())
    }

    fn module(
        &mut self,
        files: &BTreeMap<String, PathBuf>,
        name: &str,
        options: &str,
        (list, loaded): (&mut String, &mut BTreeSet<String>),
    ) -> Result<()> {
        // A stack instead of recursion: what a module depends on is loaded before it.
        let mut waiting = vec![(name.replace('-', "_"), false)];
        while let Some((name, is_ready)) = waiting.pop() {
            let Some(file) = files.get(&name).filter(|_| !loaded.contains(&name)) else { continue };
            let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
            if is_ready {
                list.push_str(&format!("{name}.ko {}\n", if waiting.is_empty() { options } else { "" }));
                loaded.insert(name.clone());
                self.add(&format!("lib/modules/{name}.ko"), FILE, bytes);
            } else {
                waiting.push((name, true));
                waiting.extend(dependencies(&bytes).into_iter().map(|dependency| (dependency, false)));
            }
        }
        Ok(())
    }

    /// Adds a text file.
    pub(super) fn text(&mut self, path: &str, text: &str) {
        self.add(path, FILE, text.as_bytes().to_vec());
    }

    /// Adds a copy of a file of this machine.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn copy(&mut self, path: &str, mode: u32, from: &Path) -> Result<()> {
        if !self.entries.contains_key(path) {
            let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
            self.add(path, mode, bytes);
        }
        Ok(())
    }

    fn add(&mut self, path: &str, mode: u32, bytes: Vec<u8>) {
        if let Some((directory, _)) = path.rsplit_once('/') {
            self.directory(directory);
        }
        self.entries.insert(path.to_owned(), (mode, bytes));
    }

    fn directory(&mut self, path: &str) {
        let slashes = path.match_indices('/').map(|(at, _)| at);
        for end in slashes.chain([path.len()]) {
            self.entries.entry(path[..end].to_owned()).or_insert((DIRECTORY, Vec::new()));
        }
    }

    /// The archive, in the format that Linux unpacks at its start ("newc").
    pub(super) fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (number, (path, (mode, bytes))) in self.entries.iter().enumerate() {
            append_entry(&mut archive, (number + 1, *mode), path, bytes);
        }
        append_entry(&mut archive, (0, 0), "TRAILER!!!", &[]);
        archive
    }
}

/// One entry: a header of hexadecimal numbers, the name, the bytes, each from a multiple of four on.
fn append_entry(archive: &mut Vec<u8>, (inode, mode): (usize, u32), path: &str, bytes: &[u8]) {
    let links = if mode == DIRECTORY { 2 } else { 1 };
    let (name_len, len) = (path.len() + 1, bytes.len());
    let header = format!(
        "070701{inode:08X}{mode:08X}{zero:08X}{zero:08X}{links:08X}{zero:08X}{len:08X}\
         {zero:08X}{zero:08X}{zero:08X}{zero:08X}{name_len:08X}{zero:08X}",
        zero = 0
    );
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(path.as_bytes());
    archive.push(0);
    pad(archive);
    archive.extend_from_slice(bytes);
    pad(archive);
}

fn pad(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

/// The shared libraries that a program loads; none for a static one.
fn libraries(cache: &Cache, program: &Path) -> Result<Vec<PathBuf>> {
    // ldd refuses static programs: they need nothing.
    let text = said(cache.command("ldd").arg(program)).unwrap_or_default();
    Ok(text
        .lines()
        .filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(PathBuf::from)
        .collect())
}

/// All modules by name, with underscores.
fn list_modules(root: &Path, into: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ko") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
                into.insert(name, path);
            }
        }
    }
    Ok(())
}

/// The modules named in a module's own description, `depends=a,b`.
fn dependencies(module: &[u8]) -> Vec<String> {
    let key = b"\0depends=";
    let Some(at) = module.windows(key.len()).position(|window| window == key) else { return Vec::new() };
    let value = module[at + key.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_directories_before_their_files_and_ends_with_its_trailer() {
        let mut made = Initramfs::default();
        made.text("a/b/c", "hello");
        let archive = made.archive();
        let text = String::from_utf8_lossy(&archive);
        let at = |what: &str| text.find(what).unwrap();
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/c\0") && at("a/b/c\0") < at("TRAILER!!!"));
        assert_eq!(archive.len() % 4, 0);
        assert!(text.contains("hello") && text.starts_with("070701"));
    }

    #[test]
    fn what_a_module_depends_on_is_read_from_it() {
        assert_eq!(dependencies(b"x\0depends=virtio_ring,t10-pi\0y"), ["virtio_ring", "t10_pi"]);
        assert!(dependencies(b"x\0depends=\0y").is_empty());
        assert!(dependencies(b"nothing").is_empty());
    }
}
