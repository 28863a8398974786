//! A modelled SSD: the same flash as a zoned and as a conventional drive.
//!
//! - [`core`] is the discrete-event model of flash and controller: pure, no clock, no thread, no I/O.
//! - [`zns`] and [`conventional`] are the two kinds of drive on it, both a [`model::Model`].
//! - [`clients`] drives a model in virtual time.
//! - [`drive`] makes devices of them: data in memory or a file, waiting in virtual or real time.
//! - [`experiments`] sets what others measured beside what the model says.
//! - [`trace`] takes commands down and gives them again; [`timeline`] draws what dies and zones did.
//! - [`profile`] names drives and their numbers.
pub mod clients;
pub mod conventional;
pub mod core;
pub mod drive;
pub mod experiments;
pub mod histogram;
mod jobs;
pub mod model;
pub mod profile;
pub mod timeline;
pub mod trace;
pub mod workload;
pub mod zns;
