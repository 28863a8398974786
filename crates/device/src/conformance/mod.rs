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
        for rule in &self.results {
            match &rule.failure {
                None => writeln!(f, "ok    {}", rule.name)?,
                Some(why) => writeln!(f, "FAIL  {}: {why}", rule.name)?,
            }
        }
        Ok(())
    }
}

/// Runs every rule of [`ZonedDevice`], each on fresh devices of a few zones.
pub fn zoned(make: &mut MakeZoned<'_>) -> Conformance {
    let rules = zoned_rules::RULES.iter().chain(queue_rules::ZONED_RULES);
    let results = rules.map(|&(name, rule)| RuleResult { name, failure: rule(make).err().map(|e| e.0) });
    Conformance { results: results.collect() }
}

/// Runs every rule of [`BlockDevice`], each on a fresh device of some blocks.
pub fn block(make: &mut MakeBlock<'_>) -> Conformance {
    let rules = block_rules::RULES.iter().chain(queue_rules::BLOCK_RULES);
    let results = rules.map(|&(name, rule)| RuleResult { name, failure: rule(make).err().map(|e| e.0) });
    Conformance { results: results.collect() }
}

/// Why a rule does not hold.
#[derive(Debug)]
struct Failure(String);

type Outcome = Result<(), Failure>;
type ZonedRule = (&'static str, fn(&mut MakeZoned<'_>) -> Outcome);
type BlockRule = (&'static str, fn(&mut MakeBlock<'_>) -> Outcome);

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
