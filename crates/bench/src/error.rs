//! Errors of the bench.

use std::io;

use thiserror::Error;

/// Result of anything that measures.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a measurement could not be made, or what it found wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The store under test refused or failed.
    #[error("cannot {doing}: {source}")]
    Store {
        /// What was asked of it.
        doing: &'static str,
        /// Its own words.
        source: Box<zonda::Error>,
    },
    /// Another engine under test refused or failed.
    #[error("{engine}: cannot {doing}: {said}")]
    Peer {
        /// Which engine.
        engine: &'static str,
        /// What was asked of it.
        doing: &'static str,
        /// Its own words.
        said: String,
    },
    /// A device under test refused or failed.
    #[error(transparent)]
    Device {
        /// Its own words.
        #[from]
        source: zonda_device::DeviceError,
    },
    /// The model of a drive refused or failed.
    #[error("the modelled drive: {reason}")]
    Model {
        /// Its own words.
        reason: String,
    },
    /// A file, pipe or process of the bench itself.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done, with the path.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A trace or its replay.
    #[error(transparent)]
    Files(#[from] zonda_files::FileError),
    /// An option that makes no sense.
    #[error("{option}: {given:?} does not work; expected {expected}")]
    Usage {
        /// Name of the option.
        option: &'static str,
        /// What was given.
        given: String,
        /// What is accepted.
        expected: String,
    },
    /// The store answered with something else than what was stored: the worst result a bench can have.
    #[error("wrong answer: record {index} {what}")]
    Wrong {
        /// Creation index of the record.
        index: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The store did not do what the bench is there to show.
    #[error("wrong: {0}")]
    NotHeld(String),
    /// Parts of an experiment failed; the others went on.
    #[error("failed: {0}")]
    Failed(String),
    /// A child process said or did something unexpected.
    #[error("child process: {0}")]
    Child(String),
    /// A thread of the bench panicked.
    #[error(transparent)]
    Panicked(#[from] zonda_rt::Panicked),
}

impl BenchError {
    /// Wraps an error of the bench's own input or output.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Io { doing: doing.into(), source }
    }
}
