//! The repository's text files, and the sizes of functions in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

const SKIPPED_DIRECTORIES: [&str; 5] = [".git", "target", "corpus", "artifacts", "coverage"];
const TEXT_EXTENSIONS: [&str; 8] = ["rs", "md", "toml", "sh", "yml", "yaml", "json", "txt"];

/// One text file of the repository.
pub(crate) struct Source {
    /// Its path below the root.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// One function of a formatted source file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    /// The line with `fn`, trimmed.
    pub(crate) head: &'a str,
    /// Where it begins, counted from 1.
    pub(crate) line: usize,
    /// How many lines it has, head and closing brace included.
    pub(crate) lines: usize,
}

/// All text files below `root`: those with a known extension, and those without any (scripts, licences).
///
/// # Errors
/// When a directory or file cannot be read. A file that is not UTF-8 is no text and left out.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let (mut sources, mut directories) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot list {}", directory.display()))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() && !SKIPPED_DIRECTORIES.iter().any(|skipped| path.ends_with(skipped)) {
                directories.push(path);
            } else if kind.is_file() && is_text_name(&path) {
                sources.extend(read(root, &path)?);
            }
        }
    }
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(sources)
}

fn is_text_name(path: &Path) -> bool {
    match path.extension() {
        Some(extension) => TEXT_EXTENSIONS.iter().any(|known| extension == *known),
        None => true,
    }
}

fn read(root: &Path, path: &Path) -> Result<Option<Source>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.strip_prefix(root).expect("the walk began at root").to_path_buf();
    Ok(String::from_utf8(bytes).ok().map(|text| Source { path, text }))
}

impl Source {
    /// Whether it is Rust that ships: not a test, bench or example file.
    pub(crate) fn is_shipped_rust(&self) -> bool {
        let is_rust = self.path.extension().is_some_and(|extension| extension == "rs");
        let is_test =
            self.path.iter().any(|part| ["tests", "benches", "examples", "tests.rs"].iter().any(|t| part == *t));
        is_rust && !is_test
    }

    /// The lines before the file's test module.
    pub(crate) fn shipped_lines(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        let is_test_module = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ");
        let end = lines.windows(2).position(is_test_module).unwrap_or(lines.len());
        lines[..end].to_vec()
    }
}

/// The functions in `lines`, which rustfmt must have formatted: a body ends at the first `}` that stands alone at the
/// indentation of its head. Declarations without a body are left out; a nested function counts in its own right and in
/// its parent.
pub(crate) fn functions<'a>(lines: &[&'a str]) -> Vec<Function<'a>> {
    let heads = (0..lines.len()).filter(|&index| is_head(lines[index]));
    heads
        .filter_map(|index| {
            Some(Function { head: lines[index].trim(), line: index + 1, lines: body_end(lines, index)? - index + 1 })
        })
        .collect()
}

fn is_head(line: &str) -> bool {
    const QUALIFIERS: [&str; 7] = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern"];
    let mut words = line.split_whitespace().skip_while(|word| QUALIFIERS.contains(word) || word.starts_with('"'));
    words.next() == Some("fn")
}

/// The index of the last line of the function whose head is at `start`.
fn body_end(lines: &[&str], start: usize) -> Option<usize> {
    let indent = &lines[start][..lines[start].len() - lines[start].trim_start().len()];
    for (index, line) in lines.iter().enumerate().skip(start) {
        let Some(rest) = line.strip_prefix(indent) else {
            continue;
        };
        let at_indent = !rest.starts_with(' ');
        if at_indent && rest.ends_with(';') {
            return None;
        }
        if rest == "}" || (index == start && rest.ends_with('}')) {
            return Some(index);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
trait T {
    fn declared(
        a: u8,
    ) -> u8;
    fn provided() {}
}

pub(crate) const fn short() -> u8 {
    if x {
        1
    } else { 2 }
}
unsafe extern \"C\" fn raw() { 1 }
// a fn in a comment
";

    #[test]
    fn finds_functions_and_their_lengths() {
        let lines: Vec<_> = TEXT.lines().collect();
        let found: Vec<_> = functions(&lines).into_iter().map(|f| (f.line, f.lines)).collect();
        assert_eq!(found, [(5, 1), (8, 5), (13, 1)]);
    }

    #[test]
    fn test_modules_and_test_files_do_not_ship() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n".to_owned();
        let source = Source { path: "src/a.rs".into(), text };
        assert_eq!(source.shipped_lines(), ["fn a() {}", ""]);
        assert!(source.is_shipped_rust());
        assert!(!Source { path: "tests/a.rs".into(), text: String::new() }.is_shipped_rust());
    }

    #[test]
    fn walks_text_and_skips_build_products() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.rs", "run", "image.png", "target/b.rs", "docs/c.md"] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let found: Vec<_> = read_all(root.path()).unwrap().into_iter().map(|source| source.path).collect();
        assert_eq!(found, ["a.rs", "docs/c.md", "run"].map(PathBuf::from));
    }
}
