//! Leaves without records that are to leave the tree once no snapshot is open.
//!
//! A leaf that becomes part of its neighbour has snapshots keep both states (decision 0004). Where much was deleted, merges in the background empty leaf after
//! leaf, and a scan beside them would be given up for the memory of states that nobody changed. So empty leaves wait, as many as fit a bound; past it they go as
//! before. An empty leaf does no harm meanwhile: it has no page.

use std::collections::VecDeque;

use zonda_pages::PageId;
use zonda_rt::Mutex;

/// Bytes of keys that wait at the most.
const BYTES_MAX: usize = 64 << 10;
/// What a leaf that waits takes beside its key.
const ENTRY_BYTES: usize = size_of::<(PageId, Box<[u8]>)>();

/// The leaves, each with a key of its range.
#[derive(Default)]
pub(crate) struct Emptied(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    leaves: VecDeque<(PageId, Box<[u8]>)>,
    bytes: usize,
}

impl Emptied {
    /// Lets leaf `id`, whose range holds `key`, wait; `false` if too many do.
    pub(crate) fn put_off(&self, id: PageId, key: &[u8]) -> bool {
        let mut waiting = self.0.lock();
        let bytes = waiting.bytes + key.len() + ENTRY_BYTES;
        if bytes > BYTES_MAX {
            return false;
        }
        waiting.bytes = bytes;
        waiting.leaves.push_back((id, key.into()));
        true
    }

    /// The leaf that has waited longest.
    pub(crate) fn next(&self) -> Option<(PageId, Box<[u8]>)> {
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
        let emptied = Emptied::default();
        let many = (0..).find(|&number| !emptied.put_off(PageId(number), &[7; 100])).expect("there is a bound");
        assert!((400..1_000).contains(&many), "{many}");
        assert_eq!(emptied.next(), Some((PageId(0), [7; 100].into())));
        assert!(emptied.put_off(PageId(many), &[7; 100]));
        assert_eq!(std::iter::from_fn(|| emptied.next()).map(|(id, _)| id.0).last(), Some(many));
    }
}
