//! The model, crash and simulation harness.
#![forbid(unsafe_code)]
pub mod bug;
pub mod campaign;
mod crowd;
mod differential;
pub mod double;
pub mod engine;
mod failures;
pub mod history;
pub mod memory;
pub mod model;
mod openings;
pub mod operation;
mod outcome;
pub mod power;
mod profile;
pub mod real;
mod restructures;
mod single;
pub mod subject;
mod workers;
pub mod world;

pub use bug::Bug;
pub use crowd::Crowd;
pub use differential::Differential;
pub use failures::Excuse;
pub use history::{Event, KeyHistory};
pub use model::{Model, Pairs};
pub use operation::Operation;
pub use outcome::{Outcome, Trouble};
pub use power::{Ground, Power};
pub use profile::{KeyShape, Profile, ValueShape};
pub use single::Single;
pub use subject::{Answer, Change, Maker, Pair, Refusal, Subject, Tally, View, Walk, Work};
pub use workers::Workers;
pub use world::World;
