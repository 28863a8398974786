//! When the power goes: counts operations and decides at which one.
use std::collections::BTreeMap;

use zonda_rt::DeviceCall;

use super::label;
use crate::{DeviceError, Result};

/// The operation during which the power goes. It may still take effect, wholly or in part; its caller gets `PowerLost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// The n-th operation of any kind from now on; 1 is the next.
    Operation(u64),
    /// The n-th operation from now on that changes something: no reads, no reports.
    Change(u64),
    /// The n-th operation from now on of those under a label (see [`cut_label`](super::cut_label)).
    Label {
        /// The label.
        label: &'static str,
        /// Which operation under it; 1 is the next.
        nth: u64,
    },
}

/// What the power cut hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// Operations before it, since the device was made.
    pub operations: u64,
    /// The operation; `None` if the cut was called for between operations.
    pub call: Option<DeviceCall>,
    /// The label of the thread that was hit.
    pub label: &'static str,
}

/// Counts operations, and cuts.
#[derive(Debug, Default)]
pub(super) struct CutPlan {
    armed: Option<CutAt>,
    operations: u64,
    by_label: BTreeMap<&'static str, u64>,
    cut: Option<CutReport>,
}

impl CutPlan {
    pub(super) fn arm(&mut self, at: Option<CutAt>) {
        self.armed = at;
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations
    }

    pub(super) fn by_label(&self) -> BTreeMap<&'static str, u64> {
        self.by_label.clone()
    }

    pub(super) fn report(&self) -> Option<CutReport> {
        self.cut
    }

    /// Counts an operation that is about to happen. True if the power goes during it.
    pub(super) fn count(&mut self, call: DeviceCall) -> Result<bool> {
        if self.cut.is_some() {
            return Err(DeviceError::PowerLost);
        }
        let label = label::current();
        let goes = self.is_last(call, label);
        if goes {
            self.cut(Some(call));
        }
        self.operations += 1;
        *self.by_label.entry(label).or_default() += 1;
        Ok(goes)
    }

    /// Cuts now, unless it has happened.
    pub(super) fn cut(&mut self, call: Option<DeviceCall>) {
        let report = CutReport { operations: self.operations, call, label: label::current() };
        self.cut.get_or_insert(report);
    }

    fn is_last(&mut self, call: DeviceCall, label: &'static str) -> bool {
        let left = match &mut self.armed {
            Some(CutAt::Operation(left)) => left,
            Some(CutAt::Change(left)) if is_change(call) => left,
            Some(CutAt::Label { label: armed, nth }) if *armed == label => nth,
            _ => return false,
        };
        *left = left.saturating_sub(1);
        *left == 0
    }
}

fn is_change(call: DeviceCall) -> bool {
    !matches!(call, DeviceCall::Read | DeviceCall::Report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::power_cut::cut_label;

    #[test]
    fn counts_changes_and_labels() {
        let mut plan = CutPlan::default();
        plan.arm(Some(CutAt::Change(2)));
        assert!(!plan.count(DeviceCall::Read).unwrap());
        assert!(!plan.count(DeviceCall::Write).unwrap());
        plan.arm(Some(CutAt::Label { label: "log", nth: 1 }));
        assert!(!plan.count(DeviceCall::Write).unwrap());
        let _label = cut_label("log");
        assert!(plan.count(DeviceCall::Flush).unwrap());
        assert!(matches!(plan.count(DeviceCall::Read), Err(DeviceError::PowerLost)));
        let report = plan.report().unwrap();
        assert_eq!((report.operations, report.call, report.label), (3, Some(DeviceCall::Flush), "log"));
        assert_eq!(plan.by_label()["log"], 1);
    }
}
