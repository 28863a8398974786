//! How a file backend does its I/O. What is not said to be "at creation" may be chosen anew by each opening.

/// Whether to go past the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Direct I/O where the file system has it, else the page cache.
    #[default]
    Auto,
    /// Direct I/O, or an error.
    On,
    /// The page cache.
    Off,
}

/// How [`queue`](crate::ZonedDevice::queue) keeps requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// `io_uring` where the kernel has it and lets us, else plain calls.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// Plain calls: a request is done when it is submitted.
    Sync,
}

/// How a file backend does its I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Page cache or not.
    pub direct: Direct,
    /// Kind of queue.
    pub queue: QueueKind,
    /// At creation: give the file its full (sparse) length at once instead of growing it zone by zone.
    pub full_length: bool,
    /// At creation: record write pointers at every flush, as is done anyway where the file system does not show holes
    /// exactly. For files that will be copied while in use, by tools that do not keep holes.
    pub record_pointers: bool,
}
