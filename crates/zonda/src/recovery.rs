//! How far recovery has come.

/// A step of recovery, for progress bars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// What is being read: `metalog`, `image` or `log`.
    pub phase: &'static str,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in all, as far as known.
    pub total_bytes: u64,
}

impl From<zonda_tree::RecoveryProgress> for RecoveryProgress {
    fn from(step: zonda_tree::RecoveryProgress) -> Self {
        let zonda_tree::RecoveryProgress { phase, done_bytes, total_bytes } = step;
        Self { phase, done_bytes, total_bytes }
    }
}
