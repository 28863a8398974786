//! The write front end: one processor that serves all requests in it at the same time, each at its share.
//!
//! Sharing, not queueing: small writes to several zones overlap in a drive, and their throughput over 1 to 14 zones
//! follows the law of a shared processor.
use std::{cmp::Reverse, collections::BinaryHeap};

use super::Nanos;

/// Fraction bits of virtual service: the error is below a nanosecond in 65,536 arrivals.
const FRACTION_BITS: u32 = 16;

/// Requests in service. Each has had `virtual_service - start` of service since it came; a request of demand `d` leaves
/// when that reaches `d`, so the order of leaving is known when it arrives.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// (virtual time of leaving, arrival number, request).
    jobs: BinaryHeap<Reverse<(u64, u64, u32)>>,
    virtual_service: u64,
    at: Nanos,
    arrivals: u64,
    /// Number of the newest prediction; older ones are void.
    version: u32,
    busy_ns: u64,
}

impl Front {
    /// A request of `demand` nanoseconds of service arrives.
    pub(super) fn arrive(&mut self, now: Nanos, request: u32, demand: Nanos) {
        self.serve_until(now);
        self.arrivals += 1;
        let leaves = self.virtual_service + (demand << FRACTION_BITS);
        self.jobs.push(Reverse((leaves, self.arrivals, request)));
    }

    /// The request that leaves now, if there is one.
    pub(super) fn leave(&mut self, now: Nanos) -> Option<u32> {
        self.serve_until(now);
        let &Reverse((leaves, _, request)) = self.jobs.peek()?;
        if self.virtual_service < leaves {
            return None;
        }
        self.jobs.pop();
        Some(request)
    }

    /// When the next request leaves unless another arrives, with the version of this prediction.
    pub(super) fn predict(&mut self) -> Option<(Nanos, u32)> {
        let &Reverse((leaves, _, _)) = self.jobs.peek()?;
        self.version = self.version.wrapping_add(1);
        let left = leaves.saturating_sub(self.virtual_service) * self.jobs.len() as u64;
        Some((self.at + left.div_ceil(1 << FRACTION_BITS), self.version))
    }

    pub(super) fn is_current(&self, version: u32) -> bool {
        self.version == version
    }

    pub(super) fn busy_ns(&self) -> u64 {
        self.busy_ns
    }

    fn serve_until(&mut self, now: Nanos) {
        let passed = now - self.at;
        if !self.jobs.is_empty() {
            self.virtual_service += (passed << FRACTION_BITS) / self.jobs.len() as u64;
            self.busy_ns += passed;
        }
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_requests_share() {
        let mut front = Front::default();
        front.arrive(0, 1, 100);
        front.arrive(50, 2, 100);
        assert_eq!(front.predict().map(|(at, _)| at), Some(150));
        assert_eq!((front.leave(149), front.leave(150)), (None, Some(1)));
        assert_eq!(front.predict().map(|(at, _)| at), Some(200));
        assert_eq!(front.leave(200), Some(2));
        assert_eq!((front.predict(), front.busy_ns()), (None, 200));
    }

    #[test]
    fn predictions_are_never_early() {
        let mut front = Front::default();
        for request in 0..7 {
            front.arrive(u64::from(request) * 3, request, 1_000 + u64::from(request) * 13);
        }
        while let Some((at, _)) = front.predict() {
            assert!(front.leave(at).is_some(), "nobody leaves at {at}");
        }
    }
}
