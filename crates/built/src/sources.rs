//! The sources of a workspace: for the build script, and for the tests of this crate.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the modelled drives are.
pub(crate) const FLASH: [&str; 1] = ["crates/flash/src"];
/// Where replays are, and what they replay.
pub(crate) const REPLAY: [&str; 4] =
    ["crates/files/src", "crates/space/src", "crates/bench/src/lsm", "crates/bench/src/lsm.rs"];

/// Where the numbers of modelled drives are.
const PROFILES: &str = "crates/flash/profiles";

/// Of a crate, what no program is made of; nor of documents. What is measured against and replayed (`facts`, `traces`) is compiled in.
const NOT_BUILT: [&str; 4] = ["tests", "examples", "rust-example", "proptest-regressions"];
/// Of the workspace, what programs are made of beside the crates.
const OF_ALL: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".cargo"];

/// What to look at for changes: all that programs are made of, and what is checked out. Nothing that is not there, or cargo would look
/// again at every build.
pub(crate) fn watched(workspace: &Path) -> Vec<PathBuf> {
    let crates = entries(&workspace.join("crates")).into_iter().flat_map(|of| entries(&of));
    let built = crates.filter(|path| !NOT_BUILT.iter().any(|name| path.file_name() == Some(OsStr::new(name))));
    let noted = ["HEAD", "logs/HEAD"].into_iter().filter_map(|note| {
        git(workspace, &["rev-parse", "--path-format=absolute", "--git-path", note]).map(PathBuf::from)
    });
    let all = OF_ALL.map(|name| workspace.join(name));
    built
        .flat_map(without_documents)
        .chain(all)
        .chain(noted)
        .chain([PathBuf::from("build.rs")])
        .filter(|path| path.exists())
        .collect()
}

/// A file or directory; where documents stand beside the files of one, those files.
fn without_documents(path: PathBuf) -> Vec<PathBuf> {
    let is_document = |path: &PathBuf| path.extension() == Some(OsStr::new("md"));
    let mut files = entries(&path);
    if !files.iter().any(is_document) {
        return vec![path];
    }
    files.retain(|file| !is_document(file));
    files
}

/// The commit, with a `+` where files that programs are made of differ from it. `None` outside of git, and for a package within somebody
/// else's repository.
pub(crate) fn commit(workspace: &Path) -> Option<String> {
    git(workspace, &["ls-files", "--error-unmatch", "crates/built/Cargo.toml"])?;
    let commit = git(workspace, &["rev-parse", "--short=12", "HEAD"])?;
    let without: Vec<String> = NOT_BUILT.iter().map(|name| format!(":(exclude,glob)crates/*/{name}/**")).collect();
    let mut words = vec!["status", "--porcelain", "--untracked-files=no", "--", "crates"];
    words.extend(OF_ALL);
    words.extend([":(exclude,glob)**/*.md"].into_iter().chain(without.iter().map(String::as_str)));
    let differs = git(workspace, &words)?;
    Some(if differs.is_empty() { commit } else { format!("{commit}+") })
}

/// What git answers in a directory, without the end of its last line; `None` where it fails or is missing.
fn git(directory: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // Those of a hook are of the repository that it is of.
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    // To ask is not to write, beside others who do.
    command.env("GIT_OPTIONAL_LOCKS", "0");
    if cfg!(test) {
        // What commits have to be like here is no matter of whoever runs the tests. A build may need it: it says whom git trusts.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    }
    let output = command.arg("-C").arg(directory).args(words).output().ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(text.trim().to_owned())
}

/// Hash over the lines of code in these files and directories: what is said about them and what tests them may change. `None` if there
/// are none.
pub(crate) fn code_hash(workspace: &Path, places: &[&str]) -> Option<String> {
    let files: Vec<PathBuf> = places.iter().flat_map(|place| files(&workspace.join(place))).collect();
    hash(&files, code)
}

/// Hash over the names and numbers of the profiles: what is said about them may change. `None` if there are none.
pub(crate) fn profiles_hash(workspace: &Path) -> Option<String> {
    let mut files = entries(&workspace.join(PROFILES));
    files.retain(|file| file.extension() == Some(OsStr::new("toml")));
    hash(&files, numbers)
}

/// Lines of a profile, but for comments, what it is, and where its numbers come from.
fn numbers(text: &str) -> Vec<&str> {
    let mut is_in_sources = false;
    let is_number = |line: &&str| {
        is_in_sources |= line.starts_with("sources =");
        let is_said_of_them = is_in_sources || line.is_empty() || line.starts_with("about =");
        is_in_sources &= !line.ends_with(']');
        !is_said_of_them
    };
    text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(is_number).collect()
}

fn hash(files: &[PathBuf], lines: impl Fn(&str) -> Vec<&str>) -> Option<String> {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let text = fs::read_to_string(file).ok()?;
        for line in lines(&text) {
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            hash = line.bytes().chain([b'\n']).fold(hash, mix);
        }
    }
    (!files.is_empty()).then(|| format!("{hash:016x}"))
}

/// Lines that are compiled into a program. Tests stand last in a file; their files are named before.
fn code(text: &str) -> Vec<&str> {
    const OF_TESTS: &str = "#[cfg(test)]";
    let (mut code, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let line = if line == OF_TESTS { lines.next().unwrap_or_default() } else { line };
        if line == "mod tests {" {
            break;
        }
        let (line, is_of_tests) = (line.trim(), line.starts_with("mod tests") || line.ends_with("_tests;"));
        if !line.is_empty() && !line.starts_with("//") && !is_of_tests {
            code.push(line);
        }
    }
    code
}

/// The Rust files at a place, in the order of their names; files of tests left out.
fn files(place: &Path) -> Vec<PathBuf> {
    if !place.is_dir() {
        let name = place.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_test = name == "tests" || name.ends_with("_tests");
        let is_code = place.is_file() && place.extension() == Some(OsStr::new("rs")) && !is_test;
        return is_code.then(|| place.to_owned()).into_iter().collect();
    }
    entries(place).iter().flat_map(|entry| files(entry)).collect()
}

/// What is in a directory, by name; nothing if it is none.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).into_iter().flatten().flatten().map(|at| at.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace with all kinds of files, committed.
    fn workspace() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let files = [
            "Cargo.lock",
            "Cargo.toml",
            ".cargo/config.toml",
            "docs/notes.md",
            "crates/built/Cargo.toml",
            "crates/flash/src/core/mod.rs",
            "crates/flash/src/core/core_tests.rs",
            "crates/flash/profiles/zn540.toml",
            "crates/flash/tests/all.rs",
            "crates/rocksdb/shim/env.cc",
            "crates/rocksdb/build.rs",
            "crates/bench/traces/README.md",
            "crates/bench/traces/one.trace.gz",
            "crates/files/proptest-regressions/all.txt",
        ];
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "fn one() {}\n").unwrap();
        }
        for words in
            [&["init", "-q"][..], &["add", "."], &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]]
        {
            assert!(git(directory.path(), words).is_some(), "{words:?}");
        }
        directory
    }

    #[test]
    fn whatever_a_program_is_made_of_makes_a_build_differ_from_its_commit() {
        let directory = workspace();
        let at = |file: &str| directory.path().join(file);
        let built = || commit(directory.path()).unwrap();
        assert!(!built().contains('+'));
        for (file, differs) in [
            ("Cargo.lock", true),
            (".cargo/config.toml", true),
            ("crates/flash/src/core/mod.rs", true),
            ("crates/flash/profiles/zn540.toml", true),
            ("crates/rocksdb/shim/env.cc", true),
            ("crates/rocksdb/build.rs", true),
            ("docs/notes.md", false),
            ("crates/flash/tests/all.rs", false),
            ("crates/bench/traces/README.md", false),
            ("crates/bench/traces/one.trace.gz", true),
            ("crates/files/proptest-regressions/all.txt", false),
        ] {
            let before = fs::read(at(file)).unwrap();
            fs::write(at(file), "fn two() {}\n").unwrap();
            assert_eq!(built().ends_with('+'), differs, "{file}");
            let is_watched = watched(directory.path()).iter().any(|path| at(file).starts_with(path));
            assert_eq!(is_watched, differs, "{file}");
            fs::write(at(file), before).unwrap();
        }
        assert!(!built().contains('+'));
        assert_eq!(commit(tempfile::tempdir().unwrap().path()), None, "outside of git");
    }

    /// Git's index would be written anew, under a lock that whoever commits meanwhile stumbles over.
    #[test]
    fn who_asks_for_the_commit_writes_nothing() {
        let directory = workspace();
        let index = || fs::read(directory.path().join(".git/index")).unwrap();
        let before = index();
        // Git looks into a file that is of another time than the index says, and would note that it is the same.
        let old = fs::metadata("Cargo.toml").unwrap().modified().unwrap();
        let file = fs::File::options().write(true).open(directory.path().join("Cargo.lock")).unwrap();
        file.set_modified(old).unwrap();
        assert!(!commit(directory.path()).unwrap().contains('+'));
        assert!(index() == before);
    }

    #[test]
    fn numbers_of_profiles_are_told_from_words_about_them() {
        let directory = workspace();
        let file = directory.path().join("crates/flash/profiles/zn540.toml");
        let of = |text: &str| {
            fs::write(&file, text).unwrap();
            (profiles_hash(directory.path()).unwrap(), code_hash(directory.path(), &FLASH))
        };
        let before = of("dies = 4\n");
        assert_eq!(of("# Words.\n\ndies = 4\n"), before);
        let words = "about = \"A drive [one]\"\nsources = [\n  \"a table [1]\",\n  \"another\",\n]\n";
        assert_eq!(of(&format!("{words}\ndies = 4 # as the maker says\n")), before);
        assert_eq!(of("sources = [\"a table\"]\ndies = 4\n"), before);
        assert_ne!(of(&format!("{words}dies = 8\n")).0, before.0);
        let after = of("dies = 8\n");
        assert!(after.0 != before.0 && after.1 == before.1, "{after:?}");
        fs::remove_file(&file).unwrap();
        assert_eq!(profiles_hash(directory.path()), None, "there are none");
    }

    #[test]
    fn words_about_the_code_do_not_change_its_hash() {
        let directory = workspace();
        let of = || code_hash(directory.path(), &FLASH);
        let (before, file) = (of().unwrap(), directory.path().join("crates/flash/src/core/mod.rs"));
        fs::write(&file, "//! Words.\n\n/// More.\n    fn one() {}\n\n#[cfg(test)]\nmod tests {}\n").unwrap();
        fs::write(directory.path().join("crates/flash/src/core/core_tests.rs"), "fn another() {}\n").unwrap();
        assert_eq!(of(), Some(before.clone()));
        for code in ["fn two() {}\n", "#[cfg(test)]\nmod core_tests;\nfn one() {}\nfn two() {}\n"] {
            fs::write(&file, code).unwrap();
            assert_ne!(of(), Some(before.clone()), "{code}");
        }
        fs::write(&file, "#[cfg(test)]\nmod core_tests;\nfn one() {}\n").unwrap();
        assert_eq!(of(), Some(before));
        assert_eq!(code_hash(directory.path(), &REPLAY), None, "there is none of it");
    }
}
