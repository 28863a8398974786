//! Merging runs of uniform keys: how many pairs remain where.

/// Keys from `first` to `last`, `pairs` of them there, uniformly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) pairs: u64,
}

impl Run {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    fn density(&self) -> f64 {
        (real(self.pairs) / real(self.last - self.first + 1)).min(1.0)
    }
}

/// How many different keys `draws` uniform draws out of `keys` give.
pub(super) fn distinct(draws: u64, keys: u64) -> u64 {
    let keys = real(keys);
    whole(keys * (1.0 - (-real(draws) / keys).exp())).max(1)
}

/// What runs become when they are merged: the newest pair of each key stays, tables are cut at `pairs_max`.
pub(super) fn merge(runs: &[Run], pairs_max: u64) -> Vec<Run> {
    let mut edges: Vec<u64> = runs.iter().flat_map(|run| [run.first, run.last + 1]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut out = Output { pairs_max: real(pairs_max), open: None, done: Vec::new() };
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let covering = runs.iter().filter(|run| run.first <= from && to - 1 <= run.last);
        let absent: f64 = covering.map(|run| 1.0 - run.density()).product();
        out.add(from, to, 1.0 - absent);
    }
    out.close();
    out.done
}

struct Output {
    pairs_max: f64,
    /// First key, the key behind the last, pairs.
    open: Option<(u64, u64, f64)>,
    done: Vec<Run>,
}

impl Output {
    /// Adds the keys `from..to`, of which the share `density` is there.
    fn add(&mut self, mut from: u64, to: u64, density: f64) {
        while from < to && density > 0.0 {
            let (first, _, pairs) = self.open.unwrap_or((from, from, 0.0));
            let room = whole(((self.pairs_max - pairs) / density).ceil()).max(1);
            let until = from.saturating_add(room).min(to);
            self.open = Some((first, until, pairs + real(until - from) * density));
            if until < to || self.open.is_some_and(|(.., pairs)| pairs >= self.pairs_max) {
                self.close();
            }
            from = until;
        }
    }

    fn close(&mut self) {
        if let Some((first, end, pairs)) = self.open.take() {
            self.done.push(Run { first, last: end - 1, pairs: whole(pairs.round()).max(1) });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a model: counts far below 2^53")]
fn real(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model: counts far below 2^53, none negative"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, last: u64, pairs: u64) -> Run {
        Run { first, last, pairs }
    }

    #[test]
    fn what_is_all_there_stays_so() {
        assert_eq!(merge(&[run(0, 99, 100), run(0, 99, 20)], 1000), [run(0, 99, 100)]);
    }

    #[test]
    fn independent_halves_make_three_quarters() {
        assert_eq!(merge(&[run(0, 999, 500), run(0, 999, 500)], 10_000), [run(0, 999, 750)]);
    }

    #[test]
    fn tables_are_cut_at_their_size_and_gaps_stay_gaps() {
        let merged = merge(&[run(0, 99, 100), run(200, 349, 150)], 100);
        assert_eq!(merged, [run(0, 99, 100), run(200, 299, 100), run(300, 349, 50)]);
    }

    #[test]
    fn draws_repeat_themselves() {
        assert_eq!(distinct(1_000_000, 1_000), 1_000);
        assert_eq!(distinct(10, 1_000_000), 9);
    }
}
