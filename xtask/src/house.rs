//! House rules that no compiler checks: the repository stands alone, its documents speak of code that is there, files and
//! functions stay short.

use anyhow::{Result, bail};

use crate::{
    documents,
    source::{self, Source},
    tally::Tally,
    workspace::Workspace,
};

/// Text that must not occur anywhere: paths of the machines this was written on. Split, so that this file passes.
const FORBIDDEN: [&str; 3] = [concat!("/wo", "rk/"), concat!("../sha", "red"), concat!(".libr", "ary/")];

const FILE_LINES_MAX: usize = 700;
const FUNCTION_LINES_MAX: usize = 70;

/// Fails when a file mentions a path outside the repository, or a document what is not in the code. Lists files and functions that are too
/// long: a warning, because a stated reason may justify one (clippy's `too_many_lines` insists on the reason).
///
/// # Errors
/// Lists every line with a forbidden string; those of [`documents::check`].
pub(crate) fn check(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let sources = source::read_all(&workspace.root)?;
    let mentions: Vec<String> = sources.iter().flat_map(forbidden_mentions).collect();
    if !mentions.is_empty() {
        bail!("the repository must stand alone:\n{}", mentions.join("\n"));
    }
    println!("{} text files mention no path outside the repository", sources.len());
    documents::check(workspace)?;
    report_sizes(sources.iter().filter(|source| source.is_shipped_rust()));
    Ok(())
}

fn forbidden_mentions(source: &Source) -> Vec<String> {
    let is_forbidden = |line: &str| FORBIDDEN.iter().any(|text| line.contains(text));
    let lines = source.text.lines().enumerate().filter(|(_, line)| is_forbidden(line));
    lines.map(|(index, line)| format!("{}:{}: {}", source.path.display(), index + 1, line.trim())).collect()
}

fn report_sizes<'a>(sources: impl Iterator<Item = &'a Source>) {
    let (mut lengths, mut line_count) = (Vec::new(), 0);
    for source in sources {
        let lines = source.shipped_lines();
        line_count += lines.len();
        if lines.len() > FILE_LINES_MAX {
            println!("warning: {} has {} lines (aim: {FILE_LINES_MAX})", source.path.display(), lines.len());
        }
        lengths.extend(function_lengths(source, &lines));
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    println!("{line_count} lines of Rust without tests; {} functions, median {median} lines", lengths.len());
}

fn function_lengths(source: &Source, lines: &[&str]) -> Vec<usize> {
    let functions = source::functions(lines);
    for function in functions.iter().filter(|function| function.lines > FUNCTION_LINES_MAX) {
        let (path, line) = (source.path.display(), function.line);
        println!("warning: {path}:{line}: {} lines (aim: {FUNCTION_LINES_MAX}): {}", function.lines, function.head);
    }
    functions.iter().map(|function| function.lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_file_and_line_of_a_mention() {
        let text = format!("first\n  see {}notes\n", FORBIDDEN[0]);
        let mentions = forbidden_mentions(&Source { path: "a.md".into(), text });
        assert_eq!(mentions, [format!("a.md:2: see {}notes", FORBIDDEN[0])]);
    }
}
