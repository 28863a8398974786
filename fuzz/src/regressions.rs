//! Inputs that broke a decoder once, or that aim at a length or a number it must not believe: files in `regressions/TARGET/`. They run
//! first in every smoke run, and in a test.

use std::{fs, io, path::PathBuf};

use crate::Target;

/// Where the directories of the targets are.
#[must_use]
pub fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

/// The inputs of a target, by file name.
///
/// # Errors
/// Those of reading the files; a target without a directory has no inputs.
pub fn of(target: &Target) -> io::Result<Vec<(String, Vec<u8>)>> {
    let directory = directory().join(target.name);
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        found.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TARGETS, target};

    #[test]
    fn all_run() {
        let mut count = 0;
        for target in TARGETS {
            for (name, input) in of(target).expect("the repository's files can be read") {
                println!("{}/{name}", target.name);
                (target.run)(&input);
                count += 1;
            }
        }
        assert!(count >= 12, "{count} regressions");
    }

    #[test]
    fn each_directory_is_named_after_a_target() {
        for entry in fs::read_dir(directory()).expect("the directory is in the repository") {
            let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
            assert!(target(&name).is_some(), "no target {name}");
        }
    }
}
