//! Work of one thread each, done beside each other.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// As many as there are processors.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does the work of every item, `lanes` items at a time, begun in their order. What came of each, in that order too.
pub(crate) fn map<T: Sync, R: Send>(lanes: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let lane = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return done };
            done.push((number, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes.max(1)).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().flat_map(|lane| lane.join().expect("work returns its errors")).collect::<Vec<_>>()
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_done_once_and_stands_in_its_place() {
        let items: Vec<u32> = (0..100).collect();
        for lanes in [0, 1, 3] {
            assert_eq!(map(lanes, &items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
        assert!(map(2, &[0_u32; 0], |item| *item).is_empty());
    }
}
