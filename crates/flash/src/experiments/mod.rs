//! Experiments on the model: what others measured beside what the model says.
pub mod atc21;
pub mod ranges;
pub mod zn540;
