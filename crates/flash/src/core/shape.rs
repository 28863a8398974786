//! What the core is made of, in numbers.
use super::Nanos;

/// Times and sizes of the flash and of the controller around it. All times in nanoseconds, none depends on a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreShape {
    /// Channels; a die is on channel `die % channels`.
    pub channels: usize,
    /// Dies: units that sense, program and erase independently.
    pub dies: usize,
    /// Sensing one page of every plane asked for.
    pub sense_ns: Nanos,
    /// Programming one program unit.
    pub program_ns: Nanos,
    /// Erasing one block of every plane.
    pub erase_ns: Nanos,
    /// A program or erase can be interrupted for reads each time it has run so long.
    pub slice_ns: Nanos,
    /// The same for programs and erases of collection, which a drive may interrupt more rarely.
    pub collection_slice_ns: Nanos,
    /// Reads that come between two slices.
    pub reads_per_gap: u32,
    /// True if reads wait for their turn among programs and erases, as in a drive without a scheduler; else they go before them.
    pub reads_in_order: bool,
    /// Time that an interruption costs the program or erase.
    pub resume_ns: Nanos,
    /// Bytes a second of one channel; 0 is infinitely fast.
    pub channel_bytes_per_s: u64,
    /// Program data crosses the channel in pieces of so many bytes, reads come between.
    pub channel_piece_bytes: u64,
    /// Serial part of the controller's work on a read.
    pub read_serial_ns: Nanos,
    /// The rest of it: delays a read, but reads overlap in it.
    pub read_latency_ns: Nanos,
    /// Serial part of the host interface for each part of a read that a die answers.
    pub bus_command_ns: Nanos,
    /// Bytes a second of the host interface; 0 is infinitely fast.
    pub bus_bytes_per_s: u64,
    /// Service demand of a write by its bytes.
    pub write_demand: Demand,
    /// Service demand of an append by its bytes.
    pub append_demand: Demand,
    /// Delay of a write outside the front end; each request draws from half to one and a half of it.
    pub write_latency_ns: Nanos,
    /// As `write_latency_ns`, of an append.
    pub append_latency_ns: Nanos,
    /// Bytes that wait for their program at most; a write that finds no room waits in order.
    pub buffer_bytes: u64,
    /// True: a write is done when it is in the buffer; false: when its programs are.
    pub early_ack: bool,
    /// Decides what is drawn.
    pub seed: u64,
}

/// Service demand as a function of a request's size: straight lines between points, constant before the first,
/// continued after the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// (bytes, nanoseconds), ascending.
    pub points: Vec<(u64, Nanos)>,
}

impl Demand {
    /// Nanoseconds for a request of `bytes`.
    #[must_use]
    pub fn of(&self, bytes: u64) -> Nanos {
        let above = self.points.iter().position(|&(at, _)| bytes <= at);
        match (above, self.points.len()) {
            (_, 0) => 0,
            (Some(0), _) | (None, 1) => self.points[0].1,
            (Some(i), _) => between(self.points[i - 1], self.points[i], bytes),
            (None, n) => between(self.points[n - 2], self.points[n - 1], bytes),
        }
    }
}

fn between(low: (u64, Nanos), high: (u64, Nanos), bytes: u64) -> Nanos {
    let part = |change: Nanos| {
        let share = u128::from(change) * u128::from(bytes - low.0) / u128::from((high.0 - low.0).max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    if high.1 >= low.1 { low.1 + part(high.1 - low.1) } else { low.1.saturating_sub(part(low.1 - high.1)) }
}

/// Time to move `bytes` at `bytes_per_s`, rounded up; nothing at 0.
pub(super) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> Nanos {
    if bytes_per_s == 0 {
        return 0;
    }
    bytes.saturating_mul(1_000_000_000).div_ceil(bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_is_interpolated_and_continued() {
        let demand = Demand { points: vec![(4096, 5_000), (8192, 5_400), (16384, 10_600)] };
        assert_eq!([512, 4096, 6144, 12288, 24576].map(|bytes| demand.of(bytes)), [5_000, 5_000, 5_200, 8_000, 15_800]);
        let falling = Demand { points: vec![(4096, 7_000), (8192, 6_000)] };
        assert_eq!([6144, 8192, 1 << 20].map(|bytes| falling.of(bytes)), [6_500, 6_000, 0]);
        assert_eq!(Demand::default().of(1), 0);
    }

    #[test]
    fn transfers_round_up() {
        assert_eq!((transfer_ns(3, 2_000_000_000), transfer_ns(4096, 0)), (2, 0));
    }
}
