//! The next compaction: a level that is due, a table of it that the policy names, and all that must go with it.
//!
//! *Trivial moves.* `RocksDB`'s public interface moves no table from one level to the next: `CompactFiles` writes what it is given. So a
//! table with nothing below it is read and written once, into the next level, where `RocksDB` would move it for nothing
//! ([`Job::is_written_move`]), and that is counted.
//! To merge such tables with the first level that has some of their keys would save these bytes, and was tried: levels then keep the gaps
//! that choosing in the order of keys makes in them, and three quarters of what Gear compacted went past a level.

use super::choose::{Policy, Turns};
use super::levels::{Levels, Limits, Span, Table};

/// A compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Tables that are merged, of all levels.
    pub(crate) inputs: Vec<u64>,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// The level that is due.
    pub(crate) level: usize,
    /// The level that is written.
    pub(crate) output: usize,
    /// All of its keys.
    pub(crate) span: Span,
}

impl Job {
    /// Whether it writes a table that could have been moved.
    pub(crate) fn is_written_move(&self) -> bool {
        self.inputs.len() == 1
    }

    /// Whether it would write what another one is about to, or stands above it.
    fn collides(&self, other: &Self) -> bool {
        let is_between = other.output > self.level && other.output <= self.output;
        let is_above = self.output > other.level && self.output <= other.output;
        (is_between || is_above) && self.span.overlaps(&other.span)
    }
}

/// `RocksDB`'s `max_compaction_bytes` over the bytes of a table.
const TABLES_OF_A_JOB: u64 = 25;

/// What is due and can run beside what `running` does; counts as chosen.
pub(crate) fn pick(
    policy: Policy,
    levels: &Levels,
    limits: &Limits,
    turns: &mut Turns,
    running: &[Job],
) -> Option<Job> {
    turns.open_windows(levels);
    let mut level0_waits = false;
    for level in levels.due(limits) {
        if level == 0 {
            let job = of_level0(levels).filter(|job| !running.iter().any(|other| job.collides(other)));
            if job.is_some() {
                return job;
            }
            level0_waits = true;
            continue;
        }
        if level == 1 && level0_waits {
            // It waits for what level 1 gives away; one more of these, and one more, and it would wait for ever. RocksDB's rule, too.
            continue;
        }
        for place in policy.order(levels, level, turns) {
            let table = &levels.at(level)[place];
            let job = of_table(policy, levels, limits, (level, table), turns);
            if let Some(job) = job.filter(|job| !running.iter().any(|other| job.collides(other))) {
                turns.chosen(level, table);
                return Some(job);
            }
        }
    }
    None
}

/// All of level 0, with what lies below it.
fn of_level0(levels: &Levels) -> Option<Job> {
    let above: Vec<&Table> = levels.at(0).iter().collect();
    let below = levels.overlapping(1, &Span::of(&above)?);
    job(&above, (0, 1), &below)
}

/// A table, with what lies below it.
fn of_table(
    policy: Policy,
    levels: &Levels,
    limits: &Limits,
    (level, table): (usize, &Table),
    turns: &Turns,
) -> Option<Job> {
    let mut above = vec![table];
    let mut output = level + 1;
    let mut below = levels.overlapping(output, &Span::of(&above)?);
    match policy {
        Policy::MinOverlap => above = widened(levels, limits, (level, above), (output, &below)),
        Policy::Gear => {
            while output + 1 < limits.levels
                && !below.is_empty()
                && turns.are_in_window(output, &below)
                && levels.score(output, limits) >= 1.0
            {
                let next = levels.overlapping(output + 1, &Span::of(&[above.as_slice(), &below].concat())?);
                if next.is_empty() {
                    break;
                }
                above.append(&mut below);
                (below, output) = (next, output + 1);
            }
        }
        Policy::Llc => {}
    }
    job(&above, (level, output), &below)
}

/// The tables above, and their neighbours that lie over the same tables below, as `RocksDB` adds them: they cost little more.
fn widened<'a>(
    levels: &'a Levels,
    limits: &Limits,
    (level, above): (usize, Vec<&'a Table>),
    (output, below): (usize, &[&Table]),
) -> Vec<&'a Table> {
    let all = [above.as_slice(), below].concat();
    let Some(span) = Span::of(&all) else { return above };
    let wider = levels.overlapping(level, &span);
    let bytes: u64 = wider.iter().chain(below).map(|table| table.bytes).sum();
    let is_same = Span::of(&wider).is_some_and(|span| levels.overlapping(output, &span).len() == below.len());
    let is_idle = wider.iter().all(|table| !table.is_busy);
    let is_small = bytes <= TABLES_OF_A_JOB.saturating_mul(limits.table_bytes);
    if is_same && is_idle && is_small { wider } else { above }
}

/// A compaction of idle tables; `None` if one of them is not.
fn job(above: &[&Table], (level, output): (usize, usize), below: &[&Table]) -> Option<Job> {
    let all = [above, below].concat();
    if all.iter().any(|table| table.is_busy) {
        return None;
    }
    let inputs = all.iter().map(|table| table.number).collect();
    let bytes = all.iter().map(|table| table.bytes).sum();
    Some(Job { inputs, bytes, level, output, span: Span::of(&all)? })
}

#[cfg(test)]
mod tests {
    use super::super::levels::tests::{LIMITS, table};
    use super::*;

    /// Level 1 is due: its tables have a hundred bytes each.
    fn levels(above: &[(u64, &str)], below: &[(u64, &str)], deep: &[(u64, &str)]) -> Levels {
        let of = |tables: &[(u64, &str)], bytes| {
            tables.iter().map(|(number, keys)| Table { bytes, ..table(*number, keys) }).collect()
        };
        Levels(vec![vec![], of(above, 100), of(below, 100), of(deep, 100)])
    }

    fn picked(policy: Policy, levels: &Levels) -> Option<Job> {
        let limits = Limits { table_bytes: 100, ..LIMITS };
        pick(policy, levels, &limits, &mut Turns::default(), &[])
    }

    #[test]
    fn level_0_goes_as_a_whole_and_one_at_a_time() {
        let mut levels = Levels(vec![(0..4).map(|number| table(number, "bx")).collect(), vec![table(9, "ac")]]);
        let job = picked(Policy::Llc, &levels).unwrap();
        assert_eq!((job.inputs, job.level, job.output), (vec![0, 1, 2, 3, 9], 0, 1));
        levels.0[1][0].is_busy = true;
        assert_eq!(picked(Policy::Llc, &levels), None);
    }

    #[test]
    fn level_1_begins_nothing_more_while_level_0_waits_for_it() {
        let level0 = || (0..8).map(|number| table(number, "az")).collect();
        let mut levels = Levels(vec![level0(), vec![table(21, "ac"), table(22, "mp"), table(23, "qz")], vec![]]);
        levels.0[1].iter_mut().for_each(|table| table.bytes = 60);
        levels.0[1][0].is_busy = true;
        assert_eq!(picked(Policy::Llc, &levels), None, "level 0 is farther above its limit");
        levels.0[0].truncate(1);
        assert_eq!(picked(Policy::Llc, &levels).unwrap().inputs, [22], "it is not due");
        levels.0[0] = level0();
        levels.0[1][0].is_busy = false;
        assert_eq!(picked(Policy::Llc, &levels).unwrap().level, 0);
    }

    #[test]
    fn a_table_goes_with_what_lies_below_it() {
        let levels = levels(&[(1, "ac"), (2, "mp")], &[(11, "ab"), (12, "cd"), (13, "nz")], &[]);
        let job = picked(Policy::MinOverlap, &levels).unwrap();
        assert_eq!((job.inputs, job.output), (vec![2, 13], 2));
        assert_eq!(picked(Policy::Llc, &levels).unwrap().inputs, [1, 11, 12]);
    }

    #[test]
    fn neighbours_over_the_same_tables_go_with_it() {
        let levels = levels(&[(1, "ac"), (2, "df"), (3, "mz")], &[(11, "ag"), (12, "mo"), (13, "pz")], &[]);
        assert_eq!(picked(Policy::MinOverlap, &levels).unwrap().inputs, [1, 2, 11]);
        assert_eq!(picked(Policy::Llc, &levels).unwrap().inputs, [1, 11], "LLC takes one after the other");
    }

    #[test]
    fn a_table_with_nothing_below_it_is_written_to_the_next_level() {
        let levels = levels(&[(1, "ac"), (2, "df")], &[(11, "xz")], &[(21, "bc")]);
        for policy in [Policy::MinOverlap, Policy::Gear, Policy::Llc] {
            let job = picked(policy, &levels).unwrap();
            assert!(job.is_written_move(), "{policy:?}: {job:?}");
            assert_eq!((job.inputs, job.output), (vec![1], 2), "{policy:?}");
        }
    }

    #[test]
    fn a_gear_turns_the_next_within_the_window_of_a_full_level() {
        let mut levels = levels(&[(1, "ac"), (2, "df")], &[(11, "ab"), (12, "de"), (13, "gh")], &[(21, "ab")]);
        assert_eq!(picked(Policy::Gear, &levels).unwrap().inputs, [1, 11], "level 2 is not due");
        levels.0[2].iter_mut().for_each(|table| table.bytes = 500);
        // The window of level 2 is its first table; it has less above its limit than level 1.
        let job = picked(Policy::Gear, &levels).unwrap();
        assert_eq!((job.inputs, job.output), (vec![1, 11, 21], 3));
        levels.0[1][0].largest = b"d".to_vec();
        levels.0[1][1].smallest = b"e".to_vec();
        assert_eq!(picked(Policy::Gear, &levels).unwrap().inputs, [1, 11, 12], "outside the window");
    }

    #[test]
    fn nothing_is_written_where_another_writes() {
        let levels = levels(&[(1, "ac"), (2, "mp")], &[(13, "nz")], &[]);
        let (limits, mut turns) = (Limits { table_bytes: 100, ..LIMITS }, Turns::default());
        let span = Span { smallest: b"m".to_vec(), largest: b"m".to_vec() };
        let other = Job { inputs: vec![7], bytes: 1, level: 1, output: 2, span };
        let job = pick(Policy::MinOverlap, &levels, &limits, &mut turns, std::slice::from_ref(&other)).unwrap();
        assert_eq!(job.inputs, [1]);
        let deeper =
            Job { level: 2, output: 3, span: Span { smallest: b"a".to_vec(), largest: b"z".to_vec() }, ..other };
        assert!(pick(Policy::Llc, &levels, &limits, &mut turns, &[deeper]).is_some(), "below what is written");
    }
}
