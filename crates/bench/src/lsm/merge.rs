//! Merging runs of keys: how many pairs remain where.

use super::popularity::{CLASSES, Popularity};

/// Keys from `first` to `last`, `pairs` of them there; of each class of popularity so many of its keys, uniformly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) pairs: u64,
    /// The share of the keys of each class that is there. Not looked at where all keys are equally popular.
    pub(super) shares: [f64; CLASSES],
}

impl Run {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub(super) fn density(&self) -> f64 {
        (real(self.pairs) / real(self.last - self.first + 1)).min(1.0)
    }
}

/// How many different keys `draws` uniform draws out of `keys` give.
pub(super) fn distinct(draws: u64, keys: u64) -> u64 {
    let keys = real(keys);
    whole(keys * (1.0 - (-real(draws) / keys).exp())).max(1)
}

/// What runs become when they are merged: the newest pair of each key stays, tables are cut at `pairs_max`.
pub(super) fn merge(runs: &[Run], pairs_max: u64, popularity: &Popularity) -> Vec<Run> {
    let mut edges: Vec<u64> = runs.iter().flat_map(|run| [run.first, run.last + 1]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut out = Output { pairs_max: real(pairs_max), open: None, sums: [0.0; CLASSES], done: Vec::new() };
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let covering = || runs.iter().filter(|run| run.first <= from && to - 1 <= run.last);
        if popularity.is_uniform() {
            let absent: f64 = covering().map(|run| 1.0 - run.density()).product();
            out.add(from, to, 1.0 - absent, &[0.0; CLASSES]);
            continue;
        }
        let mut shares = [0.0; CLASSES];
        for (class, share) in shares.iter_mut().enumerate() {
            *share = 1.0 - covering().map(|run| 1.0 - run.shares[class]).product::<f64>();
        }
        out.add(from, to, popularity.density(&shares), &shares);
    }
    out.close();
    out.done
}

struct Output {
    pairs_max: f64,
    /// First key, the key behind the last, pairs.
    open: Option<(u64, u64, f64)>,
    /// Shares of its classes, times keys.
    sums: [f64; CLASSES],
    done: Vec<Run>,
}

impl Output {
    /// Adds the keys `from..to`, of which the share `density` is there.
    fn add(&mut self, mut from: u64, to: u64, density: f64, shares: &[f64; CLASSES]) {
        while from < to && density > 0.0 {
            let (first, _, pairs) = self.open.unwrap_or((from, from, 0.0));
            let room = whole(((self.pairs_max - pairs) / density).ceil()).max(1);
            let until = from.saturating_add(room).min(to);
            self.open = Some((first, until, pairs + real(until - from) * density));
            self.sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share * real(until - from));
            if until < to || self.open.is_some_and(|(.., pairs)| pairs >= self.pairs_max) {
                self.close();
            }
            from = until;
        }
    }

    fn close(&mut self) {
        if let Some((first, end, pairs)) = self.open.take() {
            let shares = std::mem::replace(&mut self.sums, [0.0; CLASSES]).map(|sum| sum / real(end - first));
            self.done.push(Run { first, last: end - 1, pairs: whole(pairs.round()).max(1), shares });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a model: counts far below 2^53")]
pub(super) fn real(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model: counts far below 2^53, none negative"
)]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(first: u64, last: u64, pairs: u64) -> Run {
        Run { first, last, pairs, shares: [0.0; CLASSES] }
    }

    #[test]
    fn what_is_all_there_stays_so() {
        assert_eq!(merge(&[run(0, 99, 100), run(0, 99, 20)], 1000, &Popularity::UNIFORM), [run(0, 99, 100)]);
    }

    #[test]
    fn independent_halves_make_three_quarters() {
        assert_eq!(merge(&[run(0, 999, 500), run(0, 999, 500)], 10_000, &Popularity::UNIFORM), [run(0, 999, 750)]);
    }

    #[test]
    fn tables_are_cut_at_their_size_and_gaps_stay_gaps() {
        let merged = merge(&[run(0, 99, 100), run(200, 349, 150)], 100, &Popularity::UNIFORM);
        assert_eq!(merged, [run(0, 99, 100), run(200, 299, 100), run(300, 349, 50)]);
    }

    #[test]
    fn draws_repeat_themselves() {
        assert_eq!(distinct(1_000_000, 1_000), 1_000);
        assert_eq!(distinct(10, 1_000_000), 9);
    }

    #[test]
    fn what_is_popular_is_in_all_runs_and_merges_away() {
        let popularity = Popularity::zipf(1_000_000, 0.99);
        let drawn = popularity.drawn(100_000, (0, 999_999));
        let uniform = distinct(100_000, 1_000_000);
        assert!(drawn.pairs < uniform * 2 / 3, "{} of {uniform}", drawn.pairs);
        assert!(drawn.shares.windows(2).all(|pair| pair[0] >= pair[1]), "{:?}", drawn.shares);
        let merged = merge(&[drawn, drawn], 10_000_000, &popularity);
        assert_eq!(merged.len(), 1);
        // What twice as many draws give.
        let twice = popularity.drawn(200_000, (0, 999_999)).pairs;
        assert!(merged[0].pairs.abs_diff(twice) * 100 <= twice, "{} and {twice}", merged[0].pairs);
    }
}
