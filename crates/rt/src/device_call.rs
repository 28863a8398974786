//! The marker around every blocking call to a device.

use std::cell::Cell;
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
        && !MODELLED.get()
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

thread_local! {
    static MODELLED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, in which device calls of this thread cost no virtual time: whoever calls this models
/// their time itself, as the modelled SSD does with the device that keeps its data.
pub fn modelled<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the flag when a panic or the end of a simulation unwinds through `f`, too.
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            MODELLED.set(self.0);
        }
    }
    let _restore = Restore(MODELLED.replace(true));
    f()
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::now;

    #[test]
    fn modelled_calls_cost_nothing_and_others_do() {
        let (modelled_ns, plain_ns) = sim::run(1, || {
            let start = now();
            modelled(|| device_call(DeviceCall::Reset, || ()));
            let between = now();
            device_call(DeviceCall::Reset, || ());
            (between.since(start).as_nanos(), now().since(between).as_nanos())
        });
        assert!(modelled_ns < 1_000, "{modelled_ns}");
        assert!(plain_ns >= 1_000_000, "{plain_ns}");
    }
}
