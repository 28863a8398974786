//! What happens next: events in the order of their time, and of their scheduling where times are equal.
use std::{cmp::Reverse, collections::BinaryHeap};

use super::Nanos;

/// Something that happens at a known time. Numbers are indices into the core's tables; a `version` that is not the
/// current one makes an event void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A die has sensed the page asked for.
    Sensed { die: u16 },
    /// A program or erase reached a place where reads may come between.
    Suspend { die: u16, version: u32 },
    /// A program or erase is done.
    CellEnd { die: u16, version: u32 },
    /// A channel moved what it was moving.
    ChannelFree { channel: u16 },
    /// The write front end finished a request.
    FrontDone { version: u32 },
    /// A request is answered that no flash operation answers.
    Answer { request: u32 },
}

/// Events, each taken exactly once, earliest first, those of one time in the order in which they were added: so that a
/// run depends on nothing but its inputs.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    added: u64,
    taken: u64,
}

impl Events {
    pub(super) fn add(&mut self, at: Nanos, event: Event) {
        self.added += 1;
        self.heap.push(Reverse((at, self.added, event)));
    }

    /// Time of the earliest.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(super) fn take(&mut self) -> Option<(Nanos, Event)> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        self.taken += 1;
        Some((at, event))
    }

    /// Events taken so far.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_keep_their_order() {
        let mut events = Events::default();
        for die in [3, 1, 2] {
            events.add(7, Event::Sensed { die });
        }
        events.add(5, Event::ChannelFree { channel: 0 });
        let order: Vec<_> = std::iter::from_fn(|| events.take()).collect();
        assert_eq!(order[0], (5, Event::ChannelFree { channel: 0 }));
        assert_eq!(order[1..], [3, 1, 2].map(|die| (7, Event::Sensed { die })));
        assert_eq!(events.taken(), 4);
    }
}
