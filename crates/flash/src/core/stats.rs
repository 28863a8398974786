//! What the flash did, in sums.
use super::Nanos;

/// Work of one die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DieStats {
    /// Sensing, and holding what was sensed.
    pub read_ns: Nanos,
    /// Programming.
    pub program_ns: Nanos,
    /// Erasing.
    pub erase_ns: Nanos,
    /// Read commands.
    pub reads: u64,
    /// Program commands.
    pub programs: u64,
    /// Erase commands.
    pub erases: u64,
    /// Interruptions of programs and erases.
    pub suspends: u64,
}

impl DieStats {
    /// Time in which the die was not idle.
    #[must_use]
    pub fn busy_ns(&self) -> Nanos {
        self.read_ns + self.program_ns + self.erase_ns
    }
}

/// Sums since the core was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// One per die.
    pub dies: Vec<DieStats>,
    /// Time in which each channel moved data.
    pub channel_busy_ns: Vec<Nanos>,
    /// Host requests answered; resets, finishes and flushes of several operations count as one of them at most.
    pub answered: u64,
    /// Bytes the host wrote into the buffer.
    pub written_bytes: u64,
    /// Sum over all answered requests of their latencies (Little's law: divided by time it is the mean number in flight).
    pub latency_sum_ns: u128,
    /// Most bytes ever in the write buffer.
    pub buffer_bytes_max: u64,
    /// Hash over the order and times of all answers: equal for equal runs.
    pub answers_hash: u64,
}

impl CoreStats {
    /// Takes an answer into the hash.
    pub(super) fn answer(&mut self, token: u64, submitted: Nanos, at: Nanos) {
        self.answered += 1;
        self.latency_sum_ns += u128::from(at - submitted);
        let mixed = (self.answers_hash ^ token).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at;
        self.answers_hash = mixed.rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
}
