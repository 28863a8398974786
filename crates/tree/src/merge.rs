//! Merging a leaf's buffer into its page, as a plan: pure, no I/O, no latches (tree edits: plan -> build pages -> link).
//!
//! Cost: one pass over both sorted inputs; a plan holds references, pages are encoded once.

use crate::{
    KEY_BYTES_MAX, TreeError,
    key::separator_bytes,
    leaf_page::{self, LeafPage},
    record::{Kind, Record},
    slots::Slots,
};

/// One page of a plan: the low key of its range and its body.
pub(crate) struct PlannedPage {
    /// Where its range begins; that of the first page is the leaf's own low key.
    pub(crate) low: Vec<u8>,
    /// Encoded body.
    pub(crate) body: Vec<u8>,
    /// Records in it.
    pub(crate) records: usize,
}

/// An encoded value pointer that is replaced, and the pointer that replaces it, if it is one: the two may share segments.
pub(crate) struct DeadPointer {
    /// Length of its key.
    pub(crate) key_bytes: usize,
    /// Replaced.
    pub(crate) old: Vec<u8>,
    /// Its successor.
    pub(crate) new: Option<Vec<u8>>,
}

impl DeadPointer {
    /// What dies when `old` is replaced by `new`.
    pub(crate) fn of(old: &Record<'_>, new: &Record<'_>) -> Option<Self> {
        let successor = (new.kind == Kind::Pointer).then(|| new.value.to_vec());
        let dead = || Self { key_bytes: old.key.len(), old: old.value.to_vec(), new: successor };
        (old.kind == Kind::Pointer).then(dead)
    }
}

/// What a leaf becomes.
pub(crate) struct Plan {
    /// Its pages in key order; none if no record is left.
    pub(crate) pages: Vec<PlannedPage>,
    /// Value pointers that are replaced, once the plan is carried out.
    pub(crate) dead_pointers: Vec<DeadPointer>,
}

/// A leaf's range and how its pages may be filled.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// Least key of the range.
    pub(crate) low: &'a [u8],
    /// Key above the range.
    pub(crate) high: Option<&'a [u8]>,
    /// Body bytes of a normal page.
    pub(crate) body_bytes: usize,
    /// Body bytes of the longest page.
    pub(crate) body_bytes_max: usize,
}

/// Records of one source with full keys: suffixes joined with their prefix in one arena.
pub(crate) struct FullKeys {
    arena: Vec<u8>,
    key_ends: Vec<u32>,
}

impl FullKeys {
    /// The full keys of all `slots` behind `prefix`.
    pub(crate) fn new(prefix: &[u8], slots: Slots<'_>) -> Self {
        Self::of(prefix, slots.iter())
    }

    /// The full keys of records with suffixes behind `prefix`.
    pub(crate) fn of<'r>(prefix: &[u8], records: impl Iterator<Item = Record<'r>>) -> Self {
        let (len, _) = records.size_hint();
        let mut keys = Self { arena: Vec::with_capacity(len * (prefix.len() + 8)), key_ends: Vec::with_capacity(len) };
        for record in records {
            keys.arena.extend_from_slice(prefix);
            keys.arena.extend_from_slice(record.key);
            keys.key_ends.push(u32::try_from(keys.arena.len()).expect("a slice holds at most 256 KiB of suffixes"));
        }
        keys
    }

    /// The records of the same `slots`, under their full keys.
    pub(crate) fn records<'a>(&'a self, slots: Slots<'a>) -> impl Iterator<Item = Record<'a>> {
        self.join(slots.iter())
    }

    /// The same records, under their full keys.
    pub(crate) fn join<'a>(&'a self, records: impl Iterator<Item = Record<'a>>) -> impl Iterator<Item = Record<'a>> {
        records.enumerate().map(|(index, record)| Record { key: self.key(index), ..record })
    }

    fn key(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.key_ends[index - 1] as usize };
        &self.arena[begin..self.key_ends[index] as usize]
    }
}

/// Merges sorted `newer` over sorted `older`: an equal key takes the newer record. `dead` hears of each
/// replaced record and its successor. Tombstones are kept; see [`live`].
pub(crate) fn overlay<'a>(
    older: impl Iterator<Item = Record<'a>>,
    newer: impl Iterator<Item = Record<'a>>,
    mut dead: impl FnMut(Record<'a>, Record<'a>),
) -> Vec<Record<'a>> {
    let (mut older, mut newer) = (older.peekable(), newer.peekable());
    let mut merged = Vec::with_capacity(older.size_hint().0 + newer.size_hint().0);
    loop {
        let order = match (older.peek(), newer.peek()) {
            (Some(old), Some(new)) => old.key.cmp(new.key),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return merged,
        };
        if order.is_le() {
            let old = older.next().expect("peeked");
            match newer.peek() {
                Some(new) if order.is_eq() => dead(old, *new),
                _ => merged.push(old),
            }
        }
        if order.is_ge() {
            merged.push(newer.next().expect("peeked"));
        }
    }
}

/// Drops tombstones.
pub(crate) fn live(mut records: Vec<Record<'_>>) -> Vec<Record<'_>> {
    records.retain(|record| record.kind != Kind::Tombstone);
    records
}

/// Refuses records of a damaged page: keys too long, out of order or outside the frame. One comparison a record.
///
/// # Errors
/// `Damaged`.
pub(crate) fn check_records(frame: Frame<'_>, records: &[Record<'_>]) -> Result<(), TreeError> {
    let damaged = |why: &str| Err(TreeError::Damaged { what: "leaf page", why: why.to_string() });
    if !records.is_sorted_by(|left, right| left.key < right.key) {
        return damaged("records are out of order");
    }
    if records.iter().any(|record| record.key.len() > KEY_BYTES_MAX) {
        return damaged("a key is too long");
    }
    let low = records.first().is_none_or(|first| first.key >= frame.low);
    let high = records.last().is_none_or(|last| frame.high.is_none_or(|high| last.key < high));
    if low && high { Ok(()) } else { damaged("a key lies outside the leaf's range") }
}

/// Plans the merge of `buffer` (sorted, full keys, tombstones) into `page`.
///
/// # Errors
/// `Damaged` for a page with impossible records.
pub(crate) fn plan<'a>(
    frame: Frame<'_>,
    page: Option<LeafPage<'a>>,
    buffer: impl Iterator<Item = Record<'a>>,
) -> Result<Plan, TreeError> {
    let Some(page) = page else {
        return Ok(plan_records(frame, &live(overlay(std::iter::empty(), buffer, |_, _| ())), 0));
    };
    let keys = FullKeys::new(page.prefix(), page.slots());
    let last = page.slots().len().checked_sub(1).map(|last| keys.key(last).to_vec());
    let mut dead_pointers = Vec::new();
    let buffer: Vec<Record<'a>> = buffer.collect();
    let appended = buffer.iter().filter(|record| last.as_deref().is_none_or(|last| record.key > last)).count();
    let merged = overlay(keys.records(page.slots()), buffer.iter().copied(), |old, new| {
        dead_pointers.extend(DeadPointer::of(&old, &new));
    });
    check_records(frame, &merged)?;
    let only_appends = appended == buffer.len();
    let mut plan = plan_records(frame, &live(merged), if only_appends { appended } else { 0 });
    plan.dead_pointers = dead_pointers;
    Ok(plan)
}

/// A cut may leave the middle by this part of a page's records.
const CUT_SHARE: usize = 3;

/// Splits sorted live records into pages. `appended` of them are new and beyond all others: then pages are filled up and only
/// the last one has room (right-edge split), else all get about the same, cut where separators are short: then the keys of a page
/// soon have more in common, which neither it nor the leaf's buffer stores for each of them.
pub(crate) fn plan_records(frame: Frame<'_>, records: &[Record<'_>], appended: usize) -> Plan {
    let mut cuts = pack(frame, records, frame.body_bytes);
    if cuts.len() > 1 && appended == 0 {
        let total: usize = records.iter().map(weight).sum();
        let even = pack_by_weight(frame, records, total.div_ceil(cuts.len()));
        if even.len() <= cuts.len() + 1 {
            let short = cut_short(records, &even);
            cuts = if fit(frame, records, &short) { short } else { even };
        }
    }
    Plan { pages: build(frame, records, &cuts), dead_pointers: Vec::new() }
}

fn weight(record: &Record<'_>) -> usize {
    record.key.len() + record.value.len() + slots_weight(record)
}

fn slots_weight(record: &Record<'_>) -> usize {
    // Dense records carry no slot; for an even cut it is enough that all are weighed alike.
    if record.kind == Kind::Pointer { crate::slots::SLOT_BYTES } else { 0 }
}

/// Ends of pages filled as far as `body_bytes` allows.
fn pack(frame: Frame<'_>, records: &[Record<'_>], body_bytes: usize) -> Vec<usize> {
    pack_until(frame, records, |fitting| fitting <= body_bytes, |_| true)
}

/// Ends of pages of about `target` weight, none over the normal page.
fn pack_by_weight(frame: Frame<'_>, records: &[Record<'_>], target: usize) -> Vec<usize> {
    pack_until(frame, records, |fitting| fitting <= frame.body_bytes, |weight| weight < target)
}

/// Takes records into a page while it `fits` and `wants` more; at least two where a longer page can hold them.
fn pack_until(
    frame: Frame<'_>,
    records: &[Record<'_>],
    fits: impl Fn(usize) -> bool,
    wants: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut begin = 0;
    while begin < records.len() {
        let mut size = PageSize::new(page_low(frame, records, begin).len());
        let mut end = begin;
        while end < records.len() {
            let high = high_bytes(frame, records, end + 1);
            let grown = size.with(&records[begin], &records[end]);
            let needed = grown.bytes(high);
            let minimum = end < begin + 2 && needed <= frame.body_bytes_max;
            if !(minimum || (fits(needed) && wants(size.weight))) {
                break;
            }
            size = grown;
            end += 1;
        }
        assert!(end > begin, "a page of {} bytes holds at least one record", frame.body_bytes_max);
        cuts.push(end);
        begin = end;
    }
    cuts
}

/// Ends of pages near `cuts` where separators are shortest, the nearest of those.
fn cut_short(records: &[Record<'_>], cuts: &[usize]) -> Vec<usize> {
    let reach = records.len() / cuts.len() / CUT_SHARE;
    let bytes = |end: &usize| separator_bytes(records[end - 1].key, records[*end].key);
    let near = |&cut: &usize| {
        let ends = (1..=reach).flat_map(|by| [cut.saturating_sub(by), cut + by]);
        let inside = ends.filter(|&end| end > 0 && end < records.len());
        // Of equals the first.
        std::iter::once(cut).chain(inside).min_by_key(bytes).unwrap_or(cut)
    };
    let (last, inner) = cuts.split_last().expect("at least one page");
    inner.iter().map(near).chain(std::iter::once(*last)).collect()
}

/// Whether pages that end there are in order, none empty and none longer than a normal page.
fn fit(frame: Frame<'_>, records: &[Record<'_>], cuts: &[usize]) -> bool {
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    begins.zip(cuts).all(|(begin, &end)| {
        let page = records.get(begin..end).filter(|page| !page.is_empty());
        page.is_some_and(|page| {
            let size = PageSize::new(page_low(frame, records, begin).len());
            let size = page.iter().fold(size, |size, next| size.with(&page[0], next));
            size.bytes(high_bytes(frame, records, end)) <= frame.body_bytes
        })
    })
}

/// The size of a page while records are added to it.
#[derive(Clone, Copy)]
struct PageSize {
    low_bytes: usize,
    count: usize,
    payload: usize,
    prefix: usize,
    uniform: bool,
    weight: usize,
}

impl PageSize {
    fn new(low_bytes: usize) -> Self {
        Self { low_bytes, count: 0, payload: 0, prefix: 0, uniform: true, weight: 0 }
    }

    fn with(self, first: &Record<'_>, next: &Record<'_>) -> Self {
        let prefix = crate::key::common_prefix_bytes(first.key, next.key);
        let same =
            first.key.len() == next.key.len() && first.value.len() == next.value.len() && first.kind == next.kind;
        Self {
            count: self.count + 1,
            payload: self.payload + next.key.len() + next.value.len(),
            prefix: if self.count == 0 { first.key.len().saturating_sub(1) } else { prefix },
            uniform: self.uniform && same && next.key.len() + next.value.len() > 0,
            weight: self.weight + weight(next),
            ..self
        }
    }

    fn bytes(&self, high_bytes: usize) -> usize {
        let payload = self.payload - self.count * self.prefix;
        let dense = self.uniform && payload > 0;
        leaf_page::HEAD_AND_SLACK_BYTES
            + self.low_bytes
            + high_bytes
            + self.prefix
            + crate::slots::encoded_bytes(self.count, payload, dense)
    }
}

/// The low key of a page that begins at record `begin`.
fn page_low<'k>(frame: Frame<'k>, records: &[Record<'k>], begin: usize) -> &'k [u8] {
    match begin {
        0 => frame.low,
        _ => &records[begin].key[..separator_bytes(records[begin - 1].key, records[begin].key)],
    }
}

fn page_high<'k>(frame: Frame<'k>, records: &[Record<'k>], end: usize) -> Option<&'k [u8]> {
    if end < records.len() { Some(page_low(frame, records, end)) } else { frame.high }
}

fn high_bytes(frame: Frame<'_>, records: &[Record<'_>], end: usize) -> usize {
    page_high(frame, records, end).map_or(0, <[u8]>::len)
}

fn build(frame: Frame<'_>, records: &[Record<'_>], cuts: &[usize]) -> Vec<PlannedPage> {
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    begins
        .zip(cuts)
        .map(|(begin, &end)| {
            let low = page_low(frame, records, begin);
            let body = leaf_page::encode(low, page_high(frame, records, end), &records[begin..end]);
            PlannedPage { low: low.to_vec(), body, records: end - begin }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const FRAME: Frame<'static> = Frame { low: b"", high: None, body_bytes: 500, body_bytes_max: 64 * 4096 };

    fn decode(plan: &Plan) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        for page in &plan.pages {
            let leaf = LeafPage::decode(&page.body).expect("own encoding");
            assert_eq!(leaf.low(), page.low);
            for record in leaf.slots().iter() {
                pairs.push(([leaf.prefix(), record.key].concat(), record.value.to_vec()));
            }
        }
        pairs
    }

    #[test]
    fn appends_leave_full_pages() {
        let keys: Vec<[u8; 8]> = (0..280_u64).map(u64::to_be_bytes).collect();
        let records: Vec<Record<'_>> = keys.iter().map(|key| Record { key, kind: Kind::Inline, value: key }).collect();
        let plan = plan_records(FRAME, &records, 280);
        for page in &plan.pages[..plan.pages.len() - 1] {
            assert!(page.body.len() > 470, "{}", page.body.len());
        }
        let even = plan_records(FRAME, &records, 0);
        let sizes: Vec<usize> = even.pages.iter().map(|page| page.body.len()).collect();
        assert!(sizes.iter().max().expect("pages") - sizes.iter().min().expect("pages") < 150, "{sizes:?}");
    }

    /// Random keys around one where a byte more changes: the cut is there, and it is in the middle where that is too far away.
    #[test]
    fn cuts_are_near_the_middle_and_short() {
        let cut_of = |high: usize| {
            let mut keys: Vec<u64> = (0..40_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16).collect();
            keys[..high].iter_mut().for_each(|key| *key |= 1 << 48);
            keys.sort_unstable();
            let keys: Vec<[u8; 8]> = keys.into_iter().map(u64::to_be_bytes).collect();
            let record = |key| Record { key, kind: Kind::Inline, value: b"12345678" };
            let records: Vec<Record<'_>> = keys.iter().map(|key| record(key)).collect();
            let plan = plan_records(FRAME, &records, 0);
            let first = LeafPage::decode(&plan.pages[0].body).expect("own encoding");
            (plan.pages.len(), first.slots().len(), plan.pages[1].low.len())
        };
        assert_eq!([17, 20, 23].map(cut_of), [(2, 23, 2), (2, 20, 2), (2, 17, 2)]);
        let (pages, first, low_bytes) = cut_of(30);
        assert!(pages == 2 && (15..=25).contains(&first) && low_bytes > 2, "{first} records, then {low_bytes} bytes");
    }

    proptest! {
        #[test]
        fn merges_like_a_map(
            old in prop::collection::btree_map(prop::collection::vec(0_u8..6, 0..7), prop::collection::vec(any::<u8>(), 0..60), 0..80),
            new in prop::collection::btree_map(prop::collection::vec(0_u8..6, 0..7), prop::option::of(prop::collection::vec(any::<u8>(), 0..60)), 0..80),
        ) {
            let base: Vec<Record<'_>> = old.iter().map(|(key, value)| Record { key, kind: Kind::Inline, value }).collect();
            let body = leaf_page::encode(b"", None, &base);
            let page = LeafPage::decode(&body).expect("own encoding");
            let changes = new.iter().map(|(key, value)| match value {
                Some(value) => Record { key, kind: Kind::Inline, value },
                None => Record { key, kind: Kind::Tombstone, value: &[] },
            });
            let plan = plan(FRAME, Some(page), changes).expect("a sound page");
            let mut want: BTreeMap<Vec<u8>, Vec<u8>> = old.clone();
            for (key, value) in &new {
                match value { Some(value) => { want.insert(key.clone(), value.clone()); } None => { want.remove(key); } }
            }
            prop_assert_eq!(decode(&plan), want.into_iter().collect::<Vec<_>>());
            let lows: Vec<_> = plan.pages.iter().map(|page| page.low.clone()).collect();
            prop_assert!(lows.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
