//! Links between the documents: every relative one leads to a file of the repository, and to a heading of it if it names one.

use std::{
    collections::HashMap,
    fmt::{self, Display, Formatter},
    fs,
    path::Path,
};

use anyhow::{Result, bail};

use crate::{
    source::{self, Source},
    workspace::Workspace,
};

/// Checks the links of all Markdown files.
///
/// # Errors
/// Lists every link that leads nowhere.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let sources = source::read_all(&workspace.root)?;
    let documents = sources.iter().filter(|source| source.path.extension().is_some_and(|extension| extension == "md"));
    let broken: Vec<String> = documents.flat_map(|document| broken_links(workspace, document)).collect();
    if !broken.is_empty() {
        bail!("links that lead nowhere:\n{}", broken.join("\n"));
    }
    Ok(())
}

fn broken_links(workspace: &Workspace, document: &Source) -> Vec<String> {
    let path = workspace.root.join(&document.path);
    let broken = relative_targets(&document.text).into_iter().filter(|target| !target.is_there(&path));
    broken.map(|target| format!("{}: {target}", document.path.display())).collect()
}

/// Where a link leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target<'a> {
    /// Relative to the directory of the document; empty for the document itself.
    path: &'a str,
    section: Option<&'a str>,
}

impl Target<'_> {
    fn is_there(self, document: &Path) -> bool {
        let directory = document.parent().expect("a file is in a directory");
        let file = if self.path.is_empty() { document.to_owned() } else { directory.join(self.path) };
        match self.section {
            Some(section) if file.extension().is_some_and(|extension| extension == "md") => {
                fs::read_to_string(file).is_ok_and(|text| sections(&text).iter().any(|name| name == section))
            }
            _ => file.exists(),
        }
    }
}

impl Display for Target<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.path)?;
        self.section.map_or(Ok(()), |section| write!(out, "#{section}"))
    }
}

/// The targets of `[text](target)` that are paths of the repository or sections of the document.
fn relative_targets(text: &str) -> Vec<Target<'_>> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let relative =
        targets.filter(|target| !target.is_empty() && !target.contains(':') && !target.contains(char::is_whitespace));
    let parts =
        relative.map(|target| target.split_once('#').map_or((target, None), |(path, section)| (path, Some(section))));
    parts.map(|(path, section)| Target { path, section }).collect()
}

/// The names by which links lead to the headings of a document, as code hosts make them: small letters, digits, `_` and `-`, with
/// `-` for blanks, and numbers behind those that come again.
fn sections(text: &str) -> Vec<String> {
    let (mut sections, mut seen, mut in_code) = (Vec::new(), HashMap::new(), false);
    for line in text.lines() {
        in_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if in_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let is_kept = |character: &char| character.is_alphanumeric() || " -_".contains(*character);
        let name = title.trim().to_lowercase().chars().filter(is_kept).collect::<String>().replace(' ', "-");
        let before = seen.entry(name.clone()).or_insert(0_u32);
        sections.push(if *before == 0 { name } else { format!("{name}-{before}") });
        *before += 1;
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_and_sections_and_leaves_the_web_alone() {
        let text = "[a](docs/a.md), [b](https://b.example/c) [c](#here) [d](../d.md#there)";
        let targets = [("docs/a.md", None), ("", Some("here")), ("../d.md", Some("there"))];
        assert_eq!(relative_targets(text), targets.map(|(path, section)| Target { path, section }));
    }

    #[test]
    fn sections_are_named_as_code_hosts_name_them() {
        let text = "# One, `two` and 3.4\n```\n# no heading\n```\n## Again\n### Again\n#none";
        assert_eq!(sections(text), ["one-two-and-34", "again", "again-1"]);
    }

    #[test]
    fn a_link_to_a_heading_that_is_gone_is_named() {
        let document = Source {
            path: "README.md".into(),
            text: "[a](README.md#zonda) [b](README.md#no-such) [c](#nor-this)".into(),
        };
        let expected = ["README.md: README.md#no-such", "README.md: #nor-this"];
        assert_eq!(broken_links(&Workspace::find().unwrap(), &document), expected);
    }

    #[test]
    fn a_link_to_nothing_is_named_with_its_document() {
        let document = Source { path: "README.md".into(), text: "[a](xtask/Cargo.toml) [b](no/such.md)".into() };
        assert_eq!(broken_links(&Workspace::find().unwrap(), &document), ["README.md: no/such.md"]);
    }
}
