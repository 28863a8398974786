//! What the tests on real zoned devices share.
pub(crate) mod appends;
pub(crate) mod coarse;
pub(crate) mod devices;
pub(crate) mod model;
pub(crate) mod null_blk;
pub(crate) mod scsi_debug;
