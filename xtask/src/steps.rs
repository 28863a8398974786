//! The steps that call cargo.

pub(crate) mod bench;
pub(crate) mod fuzz;
pub(crate) mod lint;
pub(crate) mod sim;
pub(crate) mod unit;
