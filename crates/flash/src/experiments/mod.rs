//! Experiments on the model: what others measured beside what the model says.
pub mod zn540;
