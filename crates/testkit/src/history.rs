//! Histories of concurrent operations, and whether an atomic map could have answered so.
//!
//! Each key is a register of its own; every write leaves a value that no other write leaves (but for deletes). Two checks: answers
//! while the power was on ([`linearizable`], after Wing and Gong), and what is left after it went ([`survives`], I4).

use std::collections::{BTreeMap, HashSet};

/// What a register holds: the number of the write that left it, or nothing.
pub type Value = Option<u64>;

/// One operation on one key. Times are ticks of a clock that all clients share; no two calls or returns have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was called.
    pub called: u64,
    /// When it returned; `None` if it was cut short: it may have happened.
    pub returned: Option<u64>,
    /// The value that it saw, if it tells.
    pub sees: Option<Value>,
    /// The value that it left, if it wrote.
    pub leaves: Option<Value>,
    /// Whether what it left was durable when it returned.
    pub synced: bool,
}

impl Event {
    /// Whether nothing that had returned before this was called may be what is left after a cut: this was written later, and durable.
    fn outlives(&self, other: &Self) -> bool {
        self.synced && self.returned.is_some() && self.leaves.is_some() && other.precedes(self)
    }

    /// Whether this had returned before `other` was called.
    #[must_use]
    pub fn precedes(&self, other: &Self) -> bool {
        self.returned.is_some_and(|returned| returned < other.called)
    }

    /// When it returned, the end of time for what was cut short.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.returned.unwrap_or(u64::MAX)
    }
}

/// A set of operations that have taken effect: all before `first`, and those of `later` (bit 0 is `first` itself).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Done {
    first: usize,
    later: u128,
}

/// Operations in flight at one time beyond which the search gives up.
const WINDOW: usize = 128;

impl Done {
    fn contains(&self, at: usize) -> bool {
        at < self.first || (at - self.first < WINDOW && self.later >> (at - self.first) & 1 == 1)
    }

    /// With one more; `None` if the window is too small.
    fn with(&self, at: usize) -> Option<Self> {
        let bit = at.checked_sub(self.first).filter(|&bit| bit < WINDOW)?;
        let later = self.later | 1 << bit;
        let ones = later.trailing_ones();
        Some(Self { first: self.first + ones as usize, later: later.checked_shr(ones).unwrap_or(0) })
    }
}

/// Whether one register that begins with `start` could have answered so.
///
/// Cost: linear for operations that do not overlap; exponential in those that do, with each state visited once.
///
/// # Errors
/// The operation that no order explains, in words.
pub fn linearizable(start: Value, events: &[Event]) -> Result<(), String> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.called);
    let mut visited = HashSet::new();
    let mut open = vec![(Done { first: 0, later: 0 }, start)];
    let mut furthest = 0;
    while let Some((done, value)) = open.pop() {
        if left_over(&events, &done).all(|event| event.returned.is_none()) {
            return Ok(());
        }
        furthest = furthest.max(done.first);
        for next in successors(&events, &done, value)? {
            if visited.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    Err(format!("no order of operations explains {:?}", events[furthest]))
}

fn left_over<'a>(events: &'a [Event], done: &'a Done) -> impl Iterator<Item = &'a Event> {
    events.iter().enumerate().skip(done.first).filter(|(at, _)| !done.contains(*at)).map(|(_, event)| event)
}

/// The states after one more operation: any that was called before the first return of those left, and saw what is there.
fn successors(events: &[Event], done: &Done, value: Value) -> Result<Vec<(Done, Value)>, String> {
    let deadline = left_over(events, done).map(Event::end).min().unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let from = events.iter().enumerate().skip(done.first);
    for (at, event) in from.take_while(|(_, event)| event.called < deadline) {
        if done.contains(at) || event.sees.is_some_and(|seen| seen != value) {
            continue;
        }
        let next = done.with(at).ok_or_else(|| format!("more than {WINDOW} operations overlap {event:?}"))?;
        found.push((next, event.leaves.unwrap_or(value)));
    }
    Ok(found)
}

/// What is known of one key at a power cut.
#[derive(Clone, Debug, Default)]
pub struct KeyHistory {
    /// Its value before the first event, durable.
    pub start: Value,
    /// What was done with it.
    pub events: Vec<Event>,
    /// What it holds after recovery.
    pub found: Value,
}

/// Whether what was found after a power cut is explained by one cut through the order of sequence numbers (I4): everything before it
/// survived, nothing after it. `synced_until` is the latest call of a sync, or of a synced write, that returned: what had returned
/// before must be there, and so must a synced write that returned.
///
/// A write's sequence number was given between call and return, so a cut at time `t` keeps what returned before and drops what was
/// called later. Necessary, and enough to find what is lost or out of order.
///
/// # Errors
/// The key that no cut explains, and why.
pub fn survives(keys: &BTreeMap<u32, KeyHistory>, synced_until: u64) -> Result<(), String> {
    let mut possible = Vec::new();
    for (key, history) in keys {
        let spans = history.spans(synced_until);
        if spans.is_empty() {
            return Err(format!(
                "I4 key {key} holds {:?}: synced before {synced_until} is {}",
                history.found,
                history.tail()
            ));
        }
        possible.push((key, spans));
    }
    let cuts = possible.iter().flat_map(|(_, spans)| spans).map(|span| span.0);
    let clash = |cut: u64| possible.iter().find(|(_, spans)| !spans.iter().any(|span| span.0 <= cut && cut < span.1));
    // The latest cut that some surviving write needs is the one to try last; keep its clash for the report.
    let mut last = None;
    let mut cuts: Vec<u64> = cuts.chain([0]).collect();
    cuts.sort_unstable();
    for cut in cuts {
        last = clash(cut).map(|(key, spans)| format!("I4 key {key} was cut within {spans:?}, others at {cut}"));
        if last.is_none() {
            return Ok(());
        }
    }
    Err(last.unwrap_or_default())
}

/// What a snapshot showed of all keys.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// When it was asked for.
    pub called: u64,
    /// When it was there.
    pub returned: u64,
    /// What each key held in it.
    pub found: BTreeMap<u32, Value>,
}

/// Whether one moment at which the snapshot may have been taken explains what it showed of all keys: a stronger claim than that each key
/// may have held that at some moment. As [`survives`], without what was durable.
///
/// # Errors
/// The key that no moment explains, and why.
pub fn is_of_one_moment(keys: &BTreeMap<u32, KeyHistory>, shown: &Shown) -> Result<(), String> {
    let spans = |(key, &found): (&u32, &Value)| (*key, keys[key].spans_of(found, |_| true));
    let possible: Vec<(u32, Vec<(u64, u64)>)> = shown.found.iter().map(spans).collect();
    let clash = |at: u64| possible.iter().find(|(_, spans)| !spans.iter().any(|span| span.0 <= at && at < span.1));
    let starts = possible.iter().flat_map(|(_, spans)| spans).map(|span| span.0.max(shown.called));
    let mut moments: Vec<u64> = starts.chain([shown.called]).filter(|&moment| moment < shown.returned).collect();
    moments.sort_unstable();
    let mut last = None;
    for moment in moments {
        let Some((key, spans)) = clash(moment) else { return Ok(()) };
        last = Some(format!(
            "I5 a snapshot taken within {}..{} shows {:?} of key {key}, as of {spans:?}, and others as of {moment}",
            shown.called, shown.returned, shown.found[key]
        ));
    }
    last.map_or(Ok(()), Err)
}

impl KeyHistory {
    /// The times `from..to` at which a cut leaves what was found, one for each write that may have left it.
    fn spans(&self, synced_until: u64) -> Vec<(u64, u64)> {
        let is_outlived = |writer: &Event| self.events.iter().any(|later| later.outlives(writer));
        let mut spans = self.spans_of(self.found, |writer| !is_outlived(writer));
        spans.retain(|&(_, to)| to > synced_until);
        spans
    }

    /// The times `from..to` at which the key may have held `value`, one for each of the possible writes that left it.
    fn spans_of(&self, value: Value, is_possible: impl Fn(&Event) -> bool) -> Vec<(u64, u64)> {
        let first = Event { called: 0, returned: Some(0), sees: None, leaves: Some(self.start), synced: false };
        let writers = std::iter::once(&first).chain(&self.events);
        let writers = writers.filter(|writer| writer.leaves == Some(value) && is_possible(writer));
        writers.map(|writer| (writer.called, self.lost_from(writer))).collect()
    }

    /// The first return of a write that surely came after `writer`.
    fn lost_from(&self, writer: &Event) -> u64 {
        let later = self.events.iter().filter(|event| event.leaves.is_some() && writer.precedes(event));
        later.map(Event::end).min().unwrap_or(u64::MAX)
    }

    /// The writes of the history, for reports.
    fn tail(&self) -> String {
        let writes: Vec<_> = self.events.iter().filter(|event| event.leaves.is_some()).collect();
        format!("{:?}", &writes[writes.len().saturating_sub(4)..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(called: u64, returned: u64, value: u64) -> Event {
        Event { called, returned: Some(returned), sees: None, leaves: Some(Some(value)), synced: false }
    }

    fn synced(event: Event) -> Event {
        Event { synced: true, ..event }
    }

    fn read(called: u64, returned: u64, value: Value) -> Event {
        Event { called, returned: Some(returned), sees: Some(value), leaves: None, synced: false }
    }

    fn pending(event: Event) -> Event {
        Event { returned: None, ..event }
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_any_order() {
        let events = [write(1, 10, 7), read(2, 3, None), read(4, 5, Some(7)), read(11, 12, Some(7))];
        assert_eq!(linearizable(None, &events), Ok(()));
    }

    #[test]
    fn a_stale_read_is_found() {
        let events = [write(1, 2, 7), write(3, 4, 8), read(5, 6, Some(7))];
        assert!(linearizable(None, &events).is_err());
    }

    #[test]
    fn a_value_that_goes_away_again_is_found() {
        let events = [write(1, 10, 7), read(2, 3, Some(7)), read(4, 5, None)];
        assert!(linearizable(None, &events).is_err());
    }

    #[test]
    fn what_was_cut_short_may_have_happened_or_not() {
        let cut_short = pending(write(1, 2, 7));
        assert_eq!(linearizable(None, &[cut_short, read(3, 4, Some(7))]), Ok(()));
        assert_eq!(linearizable(None, &[cut_short, read(3, 4, None), read(5, 6, Some(7))]), Ok(()));
        assert!(linearizable(None, &[cut_short, read(3, 4, Some(7)), read(5, 6, None)]).is_err());
    }

    #[test]
    fn of_two_swaps_from_one_value_only_one_succeeds() {
        let swap = |called, returned, value| Event { sees: Some(None), ..write(called, returned, value) };
        assert!(linearizable(None, &[swap(1, 4, 7), swap(2, 3, 8)]).is_err());
        assert_eq!(linearizable(None, &[swap(1, 4, 7)]), Ok(()));
    }

    #[test]
    fn long_histories_are_fast() {
        let mut events: Vec<Event> = (0..5_000).map(|n| write(n * 8, n * 8 + 12, n)).collect();
        // These fall between the return of write n and that of write n + 1.
        events.extend((0..4_999).map(|n| read(n * 8 + 14, n * 8 + 15, Some(n + 1))));
        assert_eq!(linearizable(None, &events), Ok(()));
    }

    fn key(found: Value, events: &[Event]) -> KeyHistory {
        KeyHistory { start: None, events: events.to_vec(), found }
    }

    #[test]
    fn a_cut_keeps_a_prefix_over_keys() {
        let (a, b) = ([write(1, 2, 10)], [write(3, 4, 20)]);
        let after = |found_a, found_b| BTreeMap::from([(0, key(found_a, &a)), (1, key(found_b, &b))]);
        assert_eq!(survives(&after(None, None), 0), Ok(()));
        assert_eq!(survives(&after(Some(10), None), 0), Ok(()));
        assert_eq!(survives(&after(Some(10), Some(20)), 0), Ok(()));
        assert!(survives(&after(None, Some(20)), 0).is_err(), "the later one alone");
        assert!(survives(&after(None, None), 3).is_err(), "synced, yet lost");
        assert_eq!(survives(&after(Some(10), None), 3), Ok(()));
    }

    #[test]
    fn a_synced_write_is_there_itself_or_what_came_after_it() {
        let of = |found, events: &[Event]| survives(&BTreeMap::from([(0, key(found, events))]), 3);
        let alone = [synced(write(3, 4, 20))];
        assert!(of(None, &alone).is_err(), "acknowledged, yet gone");
        assert_eq!(of(Some(20), &alone), Ok(()));
        assert_eq!(of(None, &[pending(synced(write(3, 4, 20)))]), Ok(()), "it was cut short");
        let beside = [write(1, 5, 10), synced(write(3, 4, 20))];
        assert_eq!((of(Some(10), &beside), of(Some(20), &beside)), (Ok(()), Ok(())), "either may be the later one");
        assert!(of(Some(10), &[write(1, 2, 10), synced(write(3, 4, 20))]).is_err());
    }

    #[test]
    fn a_snapshot_is_of_one_moment() {
        let (a, b) = ([write(1, 2, 10)], [write(3, 4, 20)]);
        let keys = BTreeMap::from([(0, key(None, &a)), (1, key(None, &b))]);
        let show = |called, returned, a, b| {
            is_of_one_moment(&keys, &Shown { called, returned, found: BTreeMap::from([(0, a), (1, b)]) })
        };
        for (found_a, found_b) in [(None, None), (Some(10), None), (Some(10), Some(20))] {
            assert_eq!(show(0, 5, found_a, found_b), Ok(()));
        }
        assert!(show(0, 5, None, Some(20)).is_err(), "either alone may be, both together may not");
        assert!(show(5, 6, Some(10), None).is_err(), "what had returned is there");
        assert!(show(0, 1, Some(10), None).is_err(), "what was called later is not");
    }

    #[test]
    fn garbage_is_never_explained() {
        let keys = BTreeMap::from([(0, key(Some(99), &[write(1, 2, 10)]))]);
        assert!(survives(&keys, 0).is_err());
    }

    #[test]
    fn overlapping_writes_may_survive_in_either_order() {
        let events = [write(1, 5, 10), write(2, 4, 11)];
        for found in [None, Some(10), Some(11)] {
            assert_eq!(survives(&BTreeMap::from([(0, key(found, &events))]), 0), Ok(()));
        }
        for found in [Some(10), Some(11)] {
            assert_eq!(survives(&BTreeMap::from([(0, key(found, &events))]), 6), Ok(()));
        }
        assert!(survives(&BTreeMap::from([(0, key(None, &events))]), 6).is_err());
    }
}
