//! The marker around every blocking call to a device.

use std::time::Duration;

use crate::sim;

/// What a blocking device call does: decides its modelled cost in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceCall {
    /// Read blocks.
    Read,
    /// Write blocks at a given address.
    Write,
    /// Append to a zone; the device chooses the address.
    Append,
    /// Make everything written before durable.
    Flush,
    /// Report zones or other metadata.
    Report,
    /// Open a zone explicitly.
    Open,
    /// Close an open zone.
    Close,
    /// Make a zone full.
    Finish,
    /// Make a zone empty.
    Reset,
    /// Tell a block device that blocks are unused.
    Trim,
    /// Hand requests to a queue without waiting for them.
    Submit,
    /// Wait for completions from a queue.
    Complete,
}

impl DeviceCall {
    /// The mean cost in virtual time: the order of magnitude of a TLC flash device, small requests.
    ///
    /// It shapes interleavings only. Experiments about time use the flash model, which has its own
    /// clock.
    pub const fn virtual_cost(self) -> Duration {
        Duration::from_micros(match self {
            DeviceCall::Read => 70,
            DeviceCall::Write | DeviceCall::Append => 15,
            DeviceCall::Flush => 200,
            DeviceCall::Report | DeviceCall::Open | DeviceCall::Close => 10,
            DeviceCall::Finish => 500,
            DeviceCall::Reset => 2_000,
            DeviceCall::Trim => 50,
            DeviceCall::Submit => 1,
            DeviceCall::Complete => 20,
        })
    }
}

/// Runs the blocking device call `f`.
///
/// On the operating system this is just `f()`. In a simulation the clock advances by 0.5 to 1.5
/// times [`DeviceCall::virtual_cost`], half before `f` takes effect and half after, and other
/// threads run meanwhile: they see the device both before the effect and before the caller knows of
/// it. `f` itself runs with the baton held.
#[inline]
#[track_caller]
pub fn device_call<R>(kind: DeviceCall, f: impl FnOnce() -> R) -> R {
    if sim::possible()
        && let sim::Entry::Inside(here) = sim::enter()
    {
        let half = here.vary(kind.virtual_cost()) / 2;
        here.sleep(half, sim::Op::Device);
        let result = f();
        here.sleep(half, sim::Op::Device);
        return result;
    }
    f()
}
