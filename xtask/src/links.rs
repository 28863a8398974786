//! Links between the documents: every relative one leads to a file of the repository.

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
    let directory = path.parent().expect("a file is in a directory");
    let is_broken = |target: &&str| !directory.join(target).exists();
    let broken = relative_targets(&document.text).into_iter().filter(is_broken);
    broken.map(|target| format!("{}: {target}", document.path.display())).collect()
}

/// The targets of `[text](target)` that are paths, without their `#section`.
fn relative_targets(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths = targets.filter_map(|target| target.split('#').next());
    paths.filter(|path| !path.is_empty() && !path.contains(':') && !path.contains(char::is_whitespace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_paths_and_leaves_the_web_and_sections_alone() {
        let text = "[a](docs/a.md), [b](https://b.example/c) [c](#here) [d](../d.md#there)";
        assert_eq!(relative_targets(text), ["docs/a.md", "../d.md"]);
    }

    #[test]
    fn a_link_to_nothing_is_named_with_its_document() {
        let document = Source { path: "README.md".into(), text: "[a](xtask/Cargo.toml) [b](no/such.md)".into() };
        assert_eq!(broken_links(&Workspace::find().unwrap(), &document), ["README.md: no/such.md"]);
    }
}
