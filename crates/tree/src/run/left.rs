//! What is left of a leaf range, and what of it comes next: the records of a page and those of its buffer, merged.
//!
//! Where a record of the buffer stands among the page's is searched once, when its turn is looked at; up to there the page's
//! records come one after the other without a comparison. Cost of a pair: a search of the page for each record of the buffer.

use std::ops::Range as Indexes;

use super::{End, page::Page};
use crate::{
    record::{Kind, Record},
    record_list::RecordList,
};

/// What a leaf's pairs come from: its page, and the buffer's records, which win.
#[derive(Clone, Copy)]
pub(super) struct Sources<'a> {
    pub(super) page: Option<&'a Page>,
    pub(super) records: &'a RecordList,
}

impl<'a> Sources<'a> {
    /// The kind of the record that comes next.
    #[inline]
    pub(super) fn kind(&self, next: Next) -> Option<Kind> {
        match next {
            Next::Slot(slot) => self.page.map(|page| page.kind(slot)),
            Next::Fresh { index, .. } => Some(self.records.get(index).kind),
        }
    }

    /// The record that comes next, with what stands before its key.
    pub(super) fn record(&self, next: Next) -> Option<(&'a [u8], Record<'a>)> {
        match next {
            Next::Slot(slot) => self.page.map(|page| (page.prefix(), page.slots().record(slot))),
            Next::Fresh { index, .. } => Some((&[], self.records.get(index))),
        }
    }
}

/// Records that were not handed out yet.
///
/// Always: no slot that is left lies on the other side of a record of the buffer that is left than when it began, so a standing stays true
/// while its record is left.
#[derive(Clone)]
pub(super) struct Left {
    /// Of the page.
    slots: Indexes<usize>,
    /// Of the buffer.
    fresh: Indexes<usize>,
    /// How the buffer's next record from the front stands, if that was searched.
    front: Option<Standing>,
    /// The same from the back.
    back: Option<Standing>,
}

/// How a record of the buffer stands among the page's.
#[derive(Clone, Copy)]
struct Standing {
    /// The slot of its key, or of the next key above it.
    slot: usize,
    /// The page has its key.
    replaces: bool,
}

/// What comes next: a slot of the page, or a record of the buffer and the slot that it replaces.
#[derive(Clone, Copy)]
pub(super) enum Next {
    Slot(usize),
    Fresh { index: usize, replaces: bool },
}

impl Left {
    pub(super) fn new(slots: Indexes<usize>, fresh: Indexes<usize>) -> Self {
        Self { slots, fresh, front: None, back: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        next_of(&self.slots, End::Front).or(next_of(&self.fresh, End::Front)).is_none()
    }

    /// Looks at what is next at an end; `None` if nothing is left.
    #[inline]
    pub(super) fn next(&mut self, sources: Sources<'_>, end: End) -> Option<Next> {
        let slot = next_of(&self.slots, end);
        let Some(index) = next_of(&self.fresh, end) else { return slot.map(Next::Slot) };
        let known = match end {
            End::Front => &mut self.front,
            End::Back => &mut self.back,
        };
        let Standing { slot: standing, replaces } = *known.get_or_insert_with(|| stand(sources, index));
        let comes_first = match end {
            End::Front => |slot: usize, standing, _| slot < standing,
            End::Back => |slot: usize, standing, replaces| slot >= standing + usize::from(replaces),
        };
        Some(match slot {
            Some(slot) if comes_first(slot, standing, replaces) => Next::Slot(slot),
            _ => Next::Fresh { index, replaces },
        })
    }

    /// Drops what [`next`](Self::next) found at that end.
    #[inline]
    pub(super) fn drop_next(&mut self, next: Next, end: End) {
        match next {
            Next::Slot(_) => drop_one(&mut self.slots, end),
            Next::Fresh { replaces, .. } => {
                drop_one(&mut self.fresh, end);
                if replaces {
                    drop_one(&mut self.slots, end);
                }
                match end {
                    End::Front => self.front = None,
                    End::Back => self.back = None,
                }
            }
        }
    }
}

fn stand(sources: Sources<'_>, index: usize) -> Standing {
    let found = sources.page.map_or(Err(0), |page| page.search(sources.records.get(index).key));
    let (Ok(slot) | Err(slot)) = found;
    Standing { slot, replaces: found.is_ok() }
}

fn next_of(left: &Indexes<usize>, end: End) -> Option<usize> {
    match end {
        _ if left.is_empty() => None,
        End::Front => Some(left.start),
        End::Back => Some(left.end - 1),
    }
}

fn drop_one(left: &mut Indexes<usize>, end: End) {
    match end {
        End::Front => left.start += 1,
        End::Back => left.end -= 1,
    }
}
