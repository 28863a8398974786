//! What the host asked for and is not yet answered, and where its time went.
use super::Nanos;

/// Where the time of one request went; the parts add up to its latency. For a request of several flash operations, the
/// one that ended last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// In the controller: front end and fixed delays.
    pub controller_ns: Nanos,
    /// Waiting for room in the write buffer.
    pub buffer_ns: Nanos,
    /// Waiting for a die that served reads.
    pub die_ns: Nanos,
    /// Waiting for a program or erase of the host's own data to reach a place where it can be interrupted.
    pub suspended_ns: Nanos,
    /// Waiting for a die that worked for collection: its reads, programs and erases.
    pub collection_ns: Nanos,
    /// Sensing, programming or erasing.
    pub cell_ns: Nanos,
    /// Waiting for the channel.
    pub channel_wait_ns: Nanos,
    /// On the channel.
    pub channel_ns: Nanos,
    /// Waiting for the host interface and on it.
    pub bus_ns: Nanos,
}

impl Attribution {
    /// Adds another's parts.
    pub fn add(&mut self, other: &Self) {
        self.controller_ns += other.controller_ns;
        self.buffer_ns += other.buffer_ns;
        self.die_ns += other.die_ns;
        self.suspended_ns += other.suspended_ns;
        self.collection_ns += other.collection_ns;
        self.cell_ns += other.cell_ns;
        self.channel_wait_ns += other.channel_wait_ns;
        self.channel_ns += other.channel_ns;
        self.bus_ns += other.bus_ns;
    }

    /// Each part divided by a count, for means of sums.
    #[must_use]
    pub fn divided(&self, count: u64) -> Self {
        let by = |ns: Nanos| ns / count.max(1);
        Self {
            controller_ns: by(self.controller_ns),
            buffer_ns: by(self.buffer_ns),
            die_ns: by(self.die_ns),
            suspended_ns: by(self.suspended_ns),
            collection_ns: by(self.collection_ns),
            cell_ns: by(self.cell_ns),
            channel_wait_ns: by(self.channel_wait_ns),
            channel_ns: by(self.channel_ns),
            bus_ns: by(self.bus_ns),
        }
    }

    /// The latency.
    #[must_use]
    pub fn total_ns(&self) -> Nanos {
        self.controller_ns
            + self.buffer_ns
            + self.die_ns
            + self.suspended_ns
            + self.collection_ns
            + self.cell_ns
            + self.channel_wait_ns
            + self.channel_ns
            + self.bus_ns
    }
}

/// What kind of host request it is: decides its way through the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWrite {
    /// A write at an address.
    Write,
    /// An append to a zone.
    Append,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Request {
    pub(super) token: u64,
    pub(super) submitted: Nanos,
    /// Of a write all, of a read those that no operation brings and that have not crossed the host interface.
    pub(super) bytes: u64,
    /// Flash operations of it that are not done.
    pub(super) parts_left: u32,
    /// First of its reads, while they wait for the controller.
    pub(super) first_op: u32,
    /// Not done before: grows as more is known, never shrinks below the truth.
    pub(super) not_before: Nanos,
    pub(super) latency_ns: Nanos,
    pub(super) attribution: Attribution,
}

/// A table whose free places are used again, last freed first.
#[derive(Debug)]
pub(super) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = item;
                place
            }
            None => {
                self.items.push(item);
                u32::try_from(self.items.len() - 1).expect("fewer than 2^32 requests are in flight")
            }
        }
    }

    pub(super) fn remove(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Items in use.
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        &self.items[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.items[place as usize]
    }
}
