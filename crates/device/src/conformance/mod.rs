//! The rules of both device contracts as a library: one suite runs on every backend and decorator.
//!
//! ```
//! use std::sync::Arc;
//! use zonda_device::{MemDevice, conformance};
//! conformance::zoned(&mut |geometry| Arc::new(MemDevice::new(geometry).expect("the suite asks for sensible shapes"))).assert_passed();
//! ```
use std::{fmt, sync::Arc};

use crate::{AlignedBuf, BlockDevice, DeviceError, ErrorKind, Geometry, ZonedDevice};

mod block_rules;
mod queue_rules;
mod zoned_rules;

/// Makes a fresh, empty zoned device of the shape asked for.
pub type MakeZoned<'a> = dyn FnMut(Geometry) -> Arc<dyn ZonedDevice> + 'a;
/// Makes a fresh block device of zeros with the block size and block count asked for.
pub type MakeBlock<'a> = dyn FnMut(u32, u64) -> Arc<dyn BlockDevice> + 'a;

/// How one rule fared.
#[derive(Clone, Debug)]
pub struct RuleResult {
    /// The rule.
    pub name: &'static str,
    /// The zones that it was tried on: `""` for block devices, which have none.
    pub zones: &'static str,
    /// What was wrong, if anything.
    pub failure: Option<String>,
}

/// How all rules fared; prints one line per rule.
#[derive(Clone, Debug)]
pub struct Conformance {
    /// In the order in which they ran.
    pub results: Vec<RuleResult>,
}

impl Conformance {
    /// True if every rule holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.results.iter().all(|r| r.failure.is_none())
    }

    /// For tests.
    ///
    /// # Panics
    /// With all results if a rule does not hold.
    pub fn assert_passed(&self) {
        assert!(self.passed(), "\n{self}");
    }
}

impl fmt::Display for Conformance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for RuleResult { name, zones, failure } in &self.results {
            match failure {
                None => writeln!(f, "ok    {name}{zones}")?,
                Some(why) => writeln!(f, "FAIL  {name}{zones}: {why}")?,
            }
        }
        Ok(())
    }
}

/// Runs every rule of [`ZonedDevice`], each on fresh devices of a few zones: first with a capacity below their size, then
/// with one that is their size.
pub fn zoned(make: &mut MakeZoned<'_>) -> Conformance {
    let mut results = Vec::new();
    for (zones, whole) in [(" (capacity < size)", false), (" (capacity = size)", true)] {
        let mut maker = Maker { make, whole };
        let rules = zoned_rules::RULES.iter().chain(queue_rules::ZONED_RULES);
        results.extend(rules.map(|&(name, rule)| {
            let failure = rule(&mut maker).err().map(|e| e.0);
            RuleResult { name, zones, failure }
        }));
    }
    Conformance { results }
}

/// Runs every rule of [`BlockDevice`], each on a fresh device of some blocks.
pub fn block(make: &mut MakeBlock<'_>) -> Conformance {
    let rules = block_rules::RULES.iter().chain(queue_rules::BLOCK_RULES);
    let result = |&(name, rule): &BlockRule| RuleResult { name, zones: "", failure: rule(make).err().map(|e| e.0) };
    Conformance { results: rules.map(result).collect() }
}

/// Why a rule does not hold.
#[derive(Debug)]
struct Failure(String);

type Outcome = Result<(), Failure>;
type ZonedRule = (&'static str, fn(&mut Maker<'_, '_>) -> Outcome);
type BlockRule = (&'static str, fn(&mut MakeBlock<'_>) -> Outcome);

/// Makes the zoned devices of one run of the rules.
struct Maker<'a, 'b> {
    make: &'a mut MakeZoned<'b>,
    /// Whether a zone's capacity is its size, whatever shape a rule asks for.
    whole: bool,
}

impl Maker<'_, '_> {
    /// The shape that a rule gets when it asks for this one.
    fn geometry(&self, shape: Geometry) -> Geometry {
        let capacity = if self.whole { shape.zone_size_blocks } else { shape.zone_capacity_blocks };
        shape.with_capacity_blocks(capacity)
    }

    fn device(&mut self, shape: Geometry) -> Arc<dyn ZonedDevice> {
        let geometry = self.geometry(shape);
        (self.make)(geometry)
    }
}

/// Blocks of a zone that can be written.
fn capacity_of(device: &dyn ZonedDevice) -> usize {
    usize::try_from(device.geometry().zone_capacity_blocks).expect("the suite's zones have some tens of blocks")
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self(format!("unexpected error: {error}"))
    }
}

/// Two values must be equal.
fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, wanted: T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(Failure(format!("{what}: found {found:?}, wanted {wanted:?}"))) }
}

/// The call must fail with this kind of error.
fn refused<T: fmt::Debug>(what: &str, result: crate::Result<T>, wanted: ErrorKind) -> Outcome {
    match result {
        Err(error) if error.kind() == wanted => Ok(()),
        other => Err(Failure(format!("{what}: found {other:?}, wanted the error {wanted:?}"))),
    }
}

/// Blocks of 4 KiB filled with a byte each, counting up from `first`.
fn pattern(blocks: usize, first: u8) -> AlignedBuf {
    let mut buffer = AlignedBuf::with_len(blocks * BLOCK);
    for (block, value) in buffer.chunks_mut(BLOCK).zip((0..).map(|i: u8| first.wrapping_add(i))) {
        block.fill(value);
    }
    buffer
}

/// Every device of the suite has blocks of 4 KiB.
const BLOCK: usize = 4096;
