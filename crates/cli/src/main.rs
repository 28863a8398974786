//! The zonda command.
fn main() {}
