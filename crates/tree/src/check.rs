//! `check`: walks every leaf and value and compares what lies there with what the tree says.

use std::fmt;

use zonda_pages::{PageAddress, PageId};

use crate::{
    filter::AsOf,
    index::Path,
    key::common_prefix_bytes,
    leaf_page::LeafPage,
    record::{Kind, OwnedRecord, Record, borrowed},
    tree::{Result, Tree},
    values::ValuePointer,
};

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Leaves walked.
    pub leaves: u64,
    /// Records in pages, buffers and filter; a key in several counts several times.
    pub records: u64,
    /// Values read from the value log.
    pub values: u64,
    /// Page bytes read.
    pub bytes: u64,
    /// Things that are wrong.
    pub findings: u64,
}

/// Something that is wrong, and the keys that it may be about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, and where on the device.
    pub what: String,
    /// The first key: that of a value, or the lowest that the leaf may hold.
    pub low: Vec<u8>,
    /// The first key behind them; `None` in the last leaf.
    pub high: Option<Vec<u8>>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, keys from \"{}\"", self.what, self.low.escape_ascii())?;
        self.high.as_ref().map_or(Ok(()), |high| write!(f, " to \"{}\"", high.escape_ascii()))
    }
}

/// A leaf as it was latched.
struct Seen {
    id: PageId,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    page: Option<PageAddress>,
    records: Vec<OwnedRecord>,
    /// What filter and batch array hold above the leaf.
    above: Vec<OwnedRecord>,
}

/// Where a record was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Page,
    Buffer,
    Above,
}

struct Check<'a> {
    tree: &'a Tree,
    report: CheckReport,
    /// In the leaf that is looked at.
    findings: Vec<Finding>,
}

impl Tree {
    /// Verifies all leaves and values: checksums and identity (by reading), fences, order, ranges, buffers, value pointers.
    /// Writers may go on; what they change while it runs may be seen before or after. `progress` and `finding` may use the tree.
    ///
    /// # Errors
    /// `Closed`. What is damaged is a finding, not an error.
    pub(crate) fn check(
        &self,
        progress: &mut dyn FnMut(u64, u64),
        finding: &mut dyn FnMut(Finding),
    ) -> Result<CheckReport> {
        self.check_open()?;
        let mut check = Check { tree: self, report: CheckReport::default(), findings: Vec::new() };
        let mut next = Some(Vec::new());
        while let Some(key) = next {
            {
                let guard = self.epoch.pin();
                let seen = self.see(&key, &guard)?;
                check.leaf(&seen);
                next = seen.high;
            }
            // With no guard: callers may take their time, or write to the tree and so wait for zones that a guard would keep.
            check.findings.drain(..).for_each(&mut *finding);
            progress(check.report.leaves, u64::from(self.leaves.load(zonda_rt::atomic::Ordering::Relaxed)));
        }
        Ok(check.report)
    }

    /// A leaf, and first what is above it (*top-down*).
    fn see(&self, key: &[u8], guard: &zonda_rt::epoch::Guard<'_>) -> Result<Seen> {
        loop {
            let path: Path<'_> = self.index.find(key, guard);
            let above = match &self.filter {
                Some(filter) => filter.between(&path.low(), path.high().as_deref(), AsOf::Now, guard)?,
                None => Vec::new(),
            };
            let leaf = self.table.lock_shared(path.leaf());
            if path.is_current() {
                let records = crate::snapshot::owned_records(leaf.location());
                return Ok(Seen {
                    id: leaf.id(),
                    low: path.low(),
                    high: path.high(),
                    page: leaf.location().page(),
                    records,
                    above,
                });
            }
        }
    }
}

impl Check<'_> {
    fn report(&mut self, seen: &Seen, what: &str) {
        self.report_keys(seen, what, (seen.low.clone(), seen.high.clone()));
    }

    fn report_keys(&mut self, seen: &Seen, what: &str, (low, high): (Vec<u8>, Option<Vec<u8>>)) {
        self.report.findings += 1;
        let at = seen.page.map_or_else(|| "not written yet".to_owned(), |page| format!("at block {}", page.block()));
        self.findings.push(Finding { what: format!("leaf {} {at}: {what}", seen.id.0), low, high });
    }

    fn leaf(&mut self, seen: &Seen) {
        self.report.leaves += 1;
        match self.tree.read_body(seen.id, seen.page) {
            Err(error) => self.report(seen, &error.to_string()),
            Ok(body) => body.iter().for_each(|body| self.body(seen, body)),
        }
        self.buffer(seen);
        self.above(seen);
    }

    fn body(&mut self, seen: &Seen, body: &[u8]) {
        self.report.bytes += body.len() as u64;
        match LeafPage::decode(body) {
            Err(error) => self.report(seen, &error.to_string()),
            Ok(page) => self.page(seen, &page),
        }
    }

    fn page(&mut self, seen: &Seen, page: &LeafPage<'_>) {
        if page.low() < seen.low.as_slice() || !is_within(page.high(), seen.high.as_deref()) {
            self.report(seen, "the page's fences exceed the leaf's range");
        }
        let mut before: Option<Vec<u8>> = None;
        for record in page.slots().iter() {
            let key = [page.prefix(), record.key].concat();
            if before.as_ref().is_some_and(|before| *before >= key) {
                self.report(seen, "records are out of order");
            }
            self.record(seen, &Record { key: &key, ..record }, Layer::Page);
            before = Some(key);
        }
    }

    fn buffer(&mut self, seen: &Seen) {
        let out_of_order = seen.records.windows(2).any(|pair| pair[0].0 >= pair[1].0);
        if out_of_order {
            self.report(seen, "buffered records are out of order");
        }
        for record in &seen.records {
            self.record(seen, &borrowed(record), Layer::Buffer);
        }
    }

    fn above(&mut self, seen: &Seen) {
        let out_of_order = seen.above.windows(2).any(|pair| pair[0].0 >= pair[1].0);
        if out_of_order {
            self.report(seen, "filtered records are out of order");
        }
        for record in &seen.above {
            self.record(seen, &borrowed(record), Layer::Above);
        }
    }

    fn record(&mut self, seen: &Seen, record: &Record<'_>, layer: Layer) {
        let &Record { key, kind, value } = record;
        self.report.records += 1;
        let within = key >= seen.low.as_slice() && seen.high.as_deref().is_none_or(|high| key < high);
        if !within {
            let shared = common_prefix_bytes(key, &seen.low);
            self.report(seen, &format!("a key leaves the leaf's range after {shared} bytes"));
        }
        if kind == Kind::Tombstone && layer == Layer::Page {
            self.report(seen, "a tombstone in a page");
        }
        // A pointer may be old: a newer record in a layer above hides it, and its value may be gone.
        let holds =
            |records: &[OwnedRecord]| records.binary_search_by(|(other, _, _)| other.as_slice().cmp(key)).is_ok();
        let hidden = match layer {
            Layer::Page => holds(&seen.records) || holds(&seen.above),
            Layer::Buffer => holds(&seen.above),
            Layer::Above => false,
        };
        if kind == Kind::Pointer && !hidden {
            self.value(seen, key, value);
        }
    }

    fn value(&mut self, seen: &Seen, key: &[u8], encoded: &[u8]) {
        self.report.values += 1;
        let read = ValuePointer::decode(encoded).and_then(|pointer| self.tree.values.read(key, &pointer));
        if let Err(error) = read {
            self.report_keys(seen, &format!("a value of it: {error}"), (key.to_vec(), Some([key, &[0]].concat())));
        }
    }
}

fn is_within(high: Option<&[u8]>, limit: Option<&[u8]>) -> bool {
    match (high, limit) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(high), Some(limit)) => high <= limit,
    }
}
