//! Leaves that something is to be done about later, in the order in which they came.

use std::collections::VecDeque;

use zonda_pages::PageId;
use zonda_rt::Mutex;

/// Bytes of keys that wait at the most.
const BYTES_MAX: usize = 64 << 10;
/// What a leaf that waits takes beside its key.
const ENTRY_BYTES: usize = size_of::<(PageId, Box<[u8]>)>();

/// The leaves, each with a key of its range; as many as fit a bound.
#[derive(Default)]
pub(crate) struct LeafQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    leaves: VecDeque<(PageId, Box<[u8]>)>,
    bytes: usize,
}

impl LeafQueue {
    /// Lets leaf `id`, whose range holds `key`, wait; `false` if too many do. The one that came last does not come again: the newer key
    /// counts, as its range may be another now, but without room for it the older one stays.
    pub(crate) fn push(&self, id: PageId, key: &[u8]) -> bool {
        let mut waiting = self.0.lock();
        let again = waiting.leaves.back().filter(|last| last.0 == id).map(|(_, key)| key.len() + ENTRY_BYTES);
        let bytes = waiting.bytes - again.unwrap_or(0) + key.len() + ENTRY_BYTES;
        if bytes > BYTES_MAX {
            return again.is_some();
        }
        if again.is_some() {
            waiting.leaves.pop_back();
        }
        waiting.bytes = bytes;
        waiting.leaves.push_back((id, key.into()));
        true
    }

    /// The leaf that has waited longest.
    pub(crate) fn pop(&self) -> Option<(PageId, Box<[u8]>)> {
        let mut waiting = self.0.lock();
        let (id, key) = waiting.leaves.pop_front()?;
        waiting.bytes -= key.len() + ENTRY_BYTES;
        Some((id, key))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn leaves_wait_in_order_and_not_without_end() {
        let queue = LeafQueue::default();
        let many = (0..).find(|&number| !queue.push(PageId(number), &[7; 100])).expect("there is a bound");
        assert!((400..1_000).contains(&many), "{many}");
        assert_eq!(queue.pop(), Some((PageId(0), [7; 100].into())));
        assert!(queue.push(PageId(many), &[7; 100]) && queue.push(PageId(many), &[7; 100]));
        assert_eq!(std::iter::from_fn(|| queue.pop()).map(|(id, _)| id.0).last(), Some(many));
    }
    #[test]
    fn a_leaf_that_comes_again_with_a_key_for_which_there_is_no_room_waits_with_its_older_one() {
        let queue = LeafQueue::default();
        let many = (0..).find(|&number| !queue.push(PageId(number), &[7; 100])).expect("there is a bound");
        assert!(queue.push(PageId(many - 1), &[8; 1_000]), "it waits already");
        assert!(!queue.push(PageId(many), &[8; 1_000]));
        assert_eq!(std::iter::from_fn(|| queue.pop()).last(), Some((PageId(many - 1), [7; 100].into())));
        assert_eq!(queue.0.lock().bytes, 0);
    }
}
