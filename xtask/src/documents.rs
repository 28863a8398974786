//! What the documents say of the code: that a name is there, and how a struct lies on the device.
//!
//! A name is written `` `crate/file.rs::name` `` and lies in `crates/CRATE/src/FILE`. A byte table is a Markdown table of
//! offset, bytes and field below a heading that is the name of a struct. Structs are read as text: their fields are bytes,
//! arrays of bytes, little-endian numbers, and structs of the same file.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::{
    source::{self, Source},
    workspace::Workspace,
};

/// A name in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Named<'a> {
    /// `crate/file.rs`.
    file: &'a str,
    /// `None` for a whole file.
    item: Option<&'a str>,
}

/// A field of a struct, or a row of a table: offset, bytes, name.
type Field = (usize, usize, String);

/// Checks all documents below the root.
///
/// # Errors
/// Lists every name that is gone and every table that differs from its struct.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let sources = source::read_all(&workspace.root)?;
    let documents = sources.iter().filter(|source| source.path.extension().is_some_and(|extension| extension == "md"));
    let (mut wrong, mut names, mut tables) = (Vec::new(), 0, 0);
    for document in documents {
        for named in names_in(&document.text) {
            names += 1;
            wrong.extend(missing(workspace, document, named));
        }
        for (named, table) in tables_in(&document.text) {
            tables += 1;
            wrong.extend(difference(workspace, named, &table)?);
        }
    }
    if !wrong.is_empty() {
        bail!("the documents and the code differ:\n{}", wrong.join("\n"));
    }
    println!("{names} names and {tables} byte tables in the documents agree with the code");
    Ok(())
}

/// The names in `text`: spans of code with a path of one of the crates.
fn names_in(text: &str) -> impl Iterator<Item = Named<'_>> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter_map(name)
}

fn name(code: &str) -> Option<Named<'_>> {
    let (file, item) = code.split_once("::").map_or((code, None), |(file, item)| (file, Some(item)));
    let is_path = file.ends_with(".rs") && file.contains('/') && !file.starts_with("crates/") && !file.contains("src/");
    let is_plain =
        file.chars().chain(item.into_iter().flat_map(str::chars)).all(|c| c.is_alphanumeric() || "/_.".contains(c));
    (is_path && is_plain).then_some(Named { file, item })
}

/// The text of the file that a name is in.
fn read(workspace: &Workspace, named: Named<'_>) -> Result<String> {
    let (crate_name, file) = named.file.split_once('/').expect("a name has a path");
    let path = workspace.root.join("crates").join(crate_name).join("src").join(file);
    fs::read_to_string(&path).with_context(|| format!("{} is named in a document", path.display()))
}

fn missing(workspace: &Workspace, document: &Source, named: Named<'_>) -> Option<String> {
    let Ok(text) = read(workspace, named) else {
        return Some(format!("{}: no file {}", document.path.display(), named.file));
    };
    let item = named.item?;
    (!declares(&text, item)).then(|| format!("{}: nothing called {item} in {}", document.path.display(), named.file))
}

/// Whether `text` declares something called `item`.
fn declares(text: &str, item: &str) -> bool {
    const KEYWORDS: [&str; 8] = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod"];
    let words: Vec<&str> =
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).collect();
    words.windows(2).any(|pair| KEYWORDS.contains(&pair[0]) && pair[1] == item)
}

/// The byte tables of a document, with the structs they describe.
fn tables_in(text: &str) -> Vec<(Named<'_>, Vec<Field>)> {
    let mut tables: Vec<(Named<'_>, Vec<Field>)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if line.starts_with('#') {
            let code = line.split('`').nth(1).and_then(name).filter(|named| named.item.is_some());
            open = code.is_some();
            tables.extend(code.map(|named| (named, Vec::new())));
        } else if open && let (Some((_, table)), Some(row)) = (tables.last_mut(), row(line)) {
            table.push(row);
        }
    }
    tables
}

fn row(line: &str) -> Option<Field> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let mut number = || cells.next()?.replace(',', "").parse().ok();
    let (offset, bytes) = (number()?, number()?);
    Some((offset, bytes, cells.next()?.to_owned()))
}

/// How a table differs from its struct, if it does.
fn difference(workspace: &Workspace, named: Named<'_>, table: &[Field]) -> Result<Option<String>> {
    let item = named.item.expect("tables name structs");
    let fields = layout(&read(workspace, named)?, item).with_context(|| format!("struct {item} in {}", named.file))?;
    Ok((fields != table).then(|| format!("{}::{item}\n  code:     {fields:?}\n  document: {table:?}", named.file)))
}

/// The fields of struct `item` of a source file.
fn layout(text: &str, item: &str) -> Result<Vec<Field>> {
    let head = format!("struct {item} {{\n");
    let body = text.split_once(&head).with_context(|| format!("no `{}`", head.trim()))?.1;
    let body = body.split_once("\n}").context("a struct ends")?.0;
    let mut fields = Vec::new();
    let mut offset = 0;
    for line in body.lines().map(str::trim).filter(|line| line.ends_with(',') && !line.starts_with("//")) {
        let (left, kind) = line.trim_end_matches(',').split_once(": ").context("a field has a type")?;
        let field = left.rsplit(' ').next().unwrap_or(left);
        for (inner, bytes, name) in members(text, field, kind)? {
            fields.push((offset + inner, bytes, name));
        }
        offset = fields.last().map_or(0, |(at, bytes, _)| at + bytes);
    }
    Ok(fields)
}

/// A field as it lies in memory: itself, or the fields of a struct of the same file.
fn members(text: &str, field: &str, kind: &str) -> Result<Vec<Field>> {
    let one = |bytes| Ok(vec![(0, bytes, field.to_owned())]);
    match kind {
        "u8" => one(1),
        "U16" => one(2),
        "U32" => one(4),
        "U64" => one(8),
        _ if kind.starts_with("[u8; ") => one(count(text, kind.trim_start_matches("[u8; ").trim_end_matches(']'))?),
        _ => layout(text, kind),
    }
}

/// The value of `a - b - c`: numbers, and constants of this repository that stand in length expressions.
fn count(text: &str, expression: &str) -> Result<usize> {
    let mut parts = expression.split(" - ").map(|part| value(text, part));
    let first = parts.next().context("an expression")??;
    parts.try_fold(first, |sum, part| sum.checked_sub(part?).context("a length below zero"))
}

fn value(text: &str, part: &str) -> Result<usize> {
    if let Ok(number) = part.replace('_', "").parse() {
        return Ok(number);
    }
    match (part, text.split_once(&format!("const {part}: usize = "))) {
        (_, Some((_, rest))) => value(text, rest.split(';').next().unwrap_or_default()),
        ("BLOCK_BYTES", _) => Ok(4096),
        ("SUPERBLOCK_BYTES_MAX", _) => Ok(2048),
        _ => bail!("the length {part} is not known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_of_crates_in_code() {
        let text = "see `tree/log.rs::append`, `device/file/open.rs` and `docs/x.md`, `xtask/src/a.rs`\n`a.rs`";
        let names: Vec<_> = names_in(text).collect();
        let append = Named { file: "tree/log.rs", item: Some("append") };
        assert_eq!(names, [append, Named { file: "device/file/open.rs", item: None }]);
    }

    #[test]
    fn a_declaration_is_more_than_a_mention() {
        assert!(declares("pub(crate) const fn append<T>(x: T) {}", "append"));
        assert!(!declares("self.append(x); // fn appended", "append"));
    }

    #[test]
    fn structs_are_laid_out_and_nested_ones_opened() {
        let text = "const N: usize = 1_000;\nstruct A {\n    x: U32,\n    y: u8,\n}\n\
                    struct B {\n    /// Doc, with a comma,\n    pub(crate) a: A,\n    z: [u8; N - 2 - 3],\n}\n";
        let field = |offset, bytes, name: &str| (offset, bytes, name.to_owned());
        assert_eq!(layout(text, "B").unwrap(), [field(0, 4, "x"), field(4, 1, "y"), field(5, 995, "z")]);
    }

    #[test]
    fn a_table_belongs_to_the_heading_above_it() {
        let text = "### `a/format.rs::S`\n\n| offset | bytes | field |\n|--:|--:|---|\n| 0 | 2,048 | x | why |\n## Other\n| 1 | 1 | y |\n";
        let tables = tables_in(text);
        assert_eq!(tables.len(), 1);
        assert_eq!(tables[0].1, [(0, 2048, "x".to_owned())]);
    }

    #[test]
    fn the_documents_of_this_repository_agree_with_its_code() {
        check(&Workspace::find().unwrap()).unwrap();
    }
}
