//! Compaction-aware zone allocation, as in section 4 of the CAZA paper: tables that will be merged together lie together.

use std::cmp::Reverse;

use super::{Candidate, Choice, Choices, Decision, LizaCaza, OpenZoneView, Policy, Rule, TableKeys};
use crate::lsm::{KeyRange, Table};

/// CAZA 1 to 4: the zones that hold tables of the next level with keys in common, those with most such tables first. ZC 1 and
/// 2: else an empty zone. Fallback 1: else the zone of the table of its own level whose keys are nearest. Fallback 2: else by
/// lifetime ([`LizaCaza`]), as everything whose keys are unknown.
///
/// Tables that a running compaction reads are left out, those that are placed and not yet in the MANIFEST count: both as
/// [`LsmShape::level`](crate::lsm::LsmShape::level) has it. A table that fills a zone goes on in the next one: the store asks
/// again. Cost: a pass over the tables of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Caza;

impl Policy for Caza {
    fn name(&self) -> &'static str {
        "caza"
    }

    fn needs_keys(&self) -> bool {
        true
    }

    fn choose(&self, candidate: &Candidate<'_>, choices: &Choices<'_>) -> Decision {
        let Some(table) = candidate.table else { return LizaCaza.choose(candidate, choices) };
        let (overlapping, best) = most_overlaps(table, choices);
        if let Some(view) = best {
            return Choice::Open(view.zone).by(Rule::Overlap);
        }
        if choices.may_open {
            return Choice::New.by(if overlapping == 0 { Rule::NewKeys } else { Rule::NoRoom });
        }
        let near = nearest(table, choices).map(|view| Choice::Open(view.zone).by(Rule::NearKeys));
        near.unwrap_or_else(|| LizaCaza.choose(candidate, choices))
    }
}

/// How many tables of the next level have keys in common with `table`, and the open zone with most of them.
fn most_overlaps<'a>(table: &TableKeys, choices: &Choices<'a>) -> (usize, Option<&'a OpenZoneView>) {
    let Some(order) = choices.shape.order(table.tree) else { return (0, None) };
    let below = choices.shape.level(table.tree, table.level.saturating_add(1));
    let overlapping: Vec<&Table> =
        below.map(|(_, other)| other).filter(|other| order.overlap(&table.range, &other.range)).collect();
    let tables_in = |view: &OpenZoneView| overlapping.iter().filter(|other| other.zones.contains(&view.zone)).count();
    let zones = choices.open.iter().map(|view| (tables_in(view), view)).filter(|(tables, _)| *tables > 0);
    let best = zones.min_by_key(|(tables, view)| (Reverse(*tables), view.writers, view.opened));
    (overlapping.len(), best.map(|(_, view)| view))
}

/// The open zone with the table of the same level whose keys are nearest.
fn nearest<'a>(table: &TableKeys, choices: &Choices<'a>) -> Option<&'a OpenZoneView> {
    let order = choices.shape.order(table.tree)?;
    let level = choices.shape.level(table.tree, table.level);
    let zones = level.filter_map(|(file, other)| {
        let view = other.zones.iter().rev().find_map(|zone| choices.zone(*zone))?;
        let gap = if order.overlap(&table.range, &other.range) { 0 } else { gap(&table.range, &other.range) };
        Some(((gap, view.writers, view.opened, file), view))
    });
    zones.min_by_key(|(rank, _)| *rank).map(|(_, view)| view)
}

/// How far apart two ranges without a common key are: the smaller difference of an end of one and the other end of the
/// other, as numbers of 16 bytes behind what all keys begin with.
fn gap(one: &KeyRange, other: &KeyRange) -> u128 {
    let ends = [&one.smallest, &one.largest, &other.smallest, &other.largest];
    let common = ends.iter().skip(1).map(|key| common_bytes(ends[0], key)).min().unwrap_or(0);
    let number = |key: &[u8]| {
        let digits = (common..common + 16).map(|at| key.get(at).copied().unwrap_or(0));
        digits.fold(0_u128, |number, digit| number << 8 | u128::from(digit))
    };
    let behind = number(&one.smallest).abs_diff(number(&other.largest));
    let before = number(&other.smallest).abs_diff(number(&one.largest));
    behind.min(before)
}

fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests;
