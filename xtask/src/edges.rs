//! The dependency-edge check: crates know only the crates that the layers allow.

mod table;

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use table::{ALLOWED, DRIVES_FOR_TESTS, Edge, FOR_EVERYONE, FOR_TESTS, PROGRAMS, USES_EVERYTHING};

use crate::{metadata::Metadata, tally::Tally, workspace::Workspace};

/// Fails on any dependency between workspace members that the table does not allow.
///
/// A normal or build dependency needs its line in the table. A development dependency may also be the test kit, the modelled
/// drives for a crate that stands on devices, or anything that the crate reaches through allowed edges: a test may set up the
/// layers below.
///
/// # Errors
/// Lists every forbidden edge.
pub(crate) fn check(workspace: &Workspace, _: &mut Tally) -> Result<()> {
    let metadata = Metadata::read(workspace)?;
    let edges = edges_of(&metadata);
    let forbidden: Vec<String> = edges.iter().filter(|edge| !is_allowed(edge)).map(describe).collect();
    if !forbidden.is_empty() {
        bail!("{}\nthe allowed edges and their reasons: xtask/src/edges/table.rs", forbidden.join("\n"));
    }
    println!("{} edges between {} crates, all allowed", edges.len(), metadata.packages.len());
    Ok(())
}

/// A dependency that a manifest declares on another member.
#[derive(Debug)]
struct Declared<'a> {
    from: &'a str,
    to: &'a str,
    for_tests: bool,
}

fn edges_of(metadata: &Metadata) -> Vec<Declared<'_>> {
    let mut edges = Vec::new();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            if metadata.package(&dependency.name).is_some() {
                let for_tests = dependency.kind.as_deref() == Some("dev");
                edges.push(Declared { from: &package.name, to: &dependency.name, for_tests });
            }
        }
    }
    edges
}

fn is_allowed(edge: &Declared<'_>) -> bool {
    if edge.for_tests {
        let is_drive = edge.to == DRIVES_FOR_TESTS && reaches(edge.from, "zonda-device");
        return edge.to == FOR_TESTS || is_drive || reaches(edge.from, edge.to);
    }
    is_direct(edge.from, edge.to)
}

/// Whether `from` may use `to` in what it ships.
fn is_direct(from: &str, to: &str) -> bool {
    let listed = |edge: &Edge| edge.from == from && edge.to == to;
    let everything = USES_EVERYTHING.contains(&from) && to != FOR_TESTS && !PROGRAMS.contains(&to);
    (to == FOR_EVERYONE && from != "xtask") || everything || ALLOWED.iter().any(listed)
}

/// Whether a path of allowed edges leads from `from` to `to`. Each crate is visited once.
fn reaches(from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = next.pop() {
        if is_direct(at, to) {
            return true;
        }
        next.extend(ALLOWED.iter().filter(|edge| edge.from == at && seen.insert(edge.to)).map(|edge| edge.to));
    }
    false
}

fn describe(edge: &Declared<'_>) -> String {
    let kind = if edge.for_tests { " (in tests)" } else { "" };
    format!("{} must not depend on {}{kind}", edge.from, edge.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_knows_pages_but_no_zones() {
        assert!(is_direct("zonda-tree", "zonda-pages"));
        assert!(is_direct("zonda-tree", "zonda-rt"));
        assert!(!is_direct("zonda-tree", "zonda-space"));
        assert!(!is_direct("zonda-tree", "zonda-device"));
    }

    #[test]
    fn tests_may_set_up_the_layers_below_and_use_the_test_kit() {
        let edge = |from, to| Declared { from, to, for_tests: true };
        assert!(is_allowed(&edge("zonda-tree", "zonda-device")));
        assert!(is_allowed(&edge("zonda-tree", "zonda-testkit")));
        assert!(!is_allowed(&edge("zonda-device", "zonda-tree")));
        assert!(!is_allowed(&edge("zonda-tree", "zonda-files")));
    }

    #[test]
    fn nothing_ships_the_test_kit_and_xtask_stands_apart() {
        assert!(!is_direct("zonda-bench", "zonda-testkit"));
        assert!(!is_direct("zonda", "zonda-testkit"));
        assert!(!is_direct("xtask", "zonda-rt"));
    }

    #[test]
    fn the_table_has_no_cycle_and_no_duplicate() {
        for (index, edge) in ALLOWED.iter().enumerate() {
            assert!(!reaches(edge.to, edge.from), "{} and {} would need each other", edge.from, edge.to);
            let same = |other: &&Edge| other.from == edge.from && other.to == edge.to;
            assert!(!ALLOWED[..index].iter().any(|other| same(&other)), "{} -> {} twice", edge.from, edge.to);
        }
    }
}
