//! Workloads, measurement and reports: what `zonda bench` does.
//!
//! A *phase* ([`phase`]) runs one [`Workload`] with some threads against a [`Subject`] and yields a [`PhaseReport`]; an
//! *experiment* ([`experiment`], one file each) is a sequence of phases with targets and [`Verdict`]s. Records are never
//! stored: [`KeySpace`] and [`Values`] compute them from their number, so that every read can be checked.

pub mod choose;
pub mod cli;
pub mod contest;
pub mod device;
mod error;
pub mod experiment;
mod keys;
pub mod lsm;
pub mod measure;
mod measured;
pub mod output;
pub mod phase;
mod place;
mod population;
pub mod process;
pub mod profile;
pub mod profiles;
pub mod progress;
pub mod provenance;
pub mod race;
mod raw;
pub mod report;
pub mod repro;
mod size;
mod sosd;
mod spread;
pub mod subject;
pub mod traces;
mod values;
mod verdict;
mod workload;

pub use choose::Distribution;
pub use error::{BenchError, Result};
pub use keys::{KeySpace, Order};
pub use measured::{Measured, Used};
pub use output::Output;
pub use phase::{DataSet, Phase};
pub use place::Place;
pub use population::Population;
pub use report::PhaseReport;
pub use size::{parse_bytes, parse_count, show_bytes, show_count};
pub use spread::Spread;
pub use subject::{Durability, StorePlan, Subject};
pub use values::Values;
pub use verdict::{Goal, Unjudged, Verdict};
pub use workload::{Kind, Mix, ScanLength, Workload};
