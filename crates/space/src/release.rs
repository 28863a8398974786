//! Takes zones back: sealing, resetting, and giving up those that failed.

use zonda_device::ZoneId;

use crate::table::Slot;
use crate::{Result, Space, SpaceError, StreamId, ZoneUse, ZoneWriter};

/// What a changing zone was, and is again where the device fails.
#[derive(Clone, Copy)]
pub(crate) struct Before {
    pub(crate) state: ZoneUse,
    pub(crate) unfinished: bool,
}

impl Before {
    /// Partly written, and nobody goes on.
    const UNFINISHED: Self = Self { state: ZoneUse::Partial, unfinished: true };
}

/// What a reset has to do.
enum Reset {
    /// Reset the zone; it was this.
    Now(Before),
    /// Keep it for its generation number; it was this.
    Retire(Before),
    /// Nothing: it can never be written again.
    Nothing(ZoneUse),
}

impl Space {
    /// Finishes a writer's zone and gives its token back. Costs one device command, none if the zone is full.
    ///
    /// Nothing is lost where the device fails: the zone stays partly written and is set aside. It keeps one of the device's tokens, but
    /// none of its stream's, until it is reset, or until [`open_zone`](Self::open_zone) lacks one, or a client that is short of zones
    /// ([`finish_unfinished`](Self::finish_unfinished)), and finishes it after all.
    pub fn seal(&self, writer: ZoneWriter) {
        if writer.is_closed() {
            return;
        }
        // From open to changing in one step: a zone that is partly written for a moment would be reset by who finds it dead.
        let zone = writer.keep_open();
        // One that was lost meanwhile has no token to give back.
        if self.change(zone, &[ZoneUse::Open], "open").is_ok() {
            self.finish_or_leave(zone);
        }
    }

    /// Finishes a zone that nobody else touches, whose writer is gone; if the device does not, it is left for
    /// [`finish_again`](Self::finish_again).
    pub(crate) fn finish_or_leave(&self, zone: ZoneId) {
        let _left = self.finish_changing(zone, Before::UNFINISHED);
    }

    /// If a stream has no token: finishes the zones that could not be finished before. Returns why one could not be, which matters to who
    /// finds all tokens held.
    pub(crate) fn finish_again(&self, stream: StreamId) -> Option<SpaceError> {
        let has_token = self.core.table.lock().has_token(stream);
        if has_token { None } else { self.finish_unfinished() }
    }

    /// Tries again to finish the zones that [`seal`](Self::seal) could not: until one is finished it is no [victim](Self::victim). Returns
    /// why one could not be. Cost: one pass over the zones, and one device command for each such zone.
    pub fn finish_unfinished(&self) -> Option<SpaceError> {
        let unfinished = self.core.table.lock().unfinished();
        let mut failed = None;
        for zone in unfinished {
            // Who resets it meanwhile gives its token back as well.
            if self.change(zone, &[ZoneUse::Partial], "partly written").is_ok()
                && let Err(error) = self.finish_changing(zone, Before::UNFINISHED)
            {
                failed = Some(error);
            }
        }
        failed
    }

    /// Finishes a partly written zone and gives its token back; as [`seal`](Self::seal) where the device fails.
    ///
    /// # Errors
    /// `WrongState` for a zone that is not [`Partial`](ZoneUse::Partial).
    pub fn seal_recovered(&self, zone: ZoneId) -> Result<()> {
        self.change(zone, &[ZoneUse::Partial], "partly written")?;
        self.finish_or_leave(zone);
        Ok(())
    }

    /// Finishes a zone that nobody else touches, and returns what it is: sealed, or lost.
    fn finish_changing(&self, zone: ZoneId, before: Before) -> Result<ZoneUse> {
        match self.core.finish(zone) {
            Ok(()) => {
                self.core.table.lock().set_state(zone, ZoneUse::Sealed, false);
                Ok(ZoneUse::Sealed)
            }
            Err(error) => self.after_failure(zone, before, error),
        }
    }

    /// Empties a zone and makes it free. The order of I3 is the caller's: whatever was live is durable elsewhere, and
    /// nobody reads the zone any more. The zone with the newest header is retired instead, and reset once a newer one
    /// is durable; so no generation number is ever used twice. Costs one device command, and a flush if the only newer
    /// headers are not durable yet. Wakes waiting writers.
    ///
    /// A zone that the device lets nobody write any more is struck off: nobody misses it, because nothing in it is live. A damaged
    /// zone may be reset. Returns what the zone is now: free, retired, read-only or offline.
    ///
    /// # Errors
    /// `WrongState` for a zone that is free or open, or that another thread is just finishing ([`SpaceError::is_changing`]: try again
    /// later); `Device`: the zone is as it was.
    ///
    /// # Panics
    /// If something in the zone is live (I3).
    pub fn reset(&self, zone: ZoneId) -> Result<ZoneUse> {
        match self.begin_reset(zone)? {
            Reset::Nothing(lost) => Ok(lost),
            Reset::Retire(before) => self.retire(zone, before),
            Reset::Now(before) => self.reset_changing(zone, before),
        }
    }

    fn begin_reset(&self, zone: ZoneId) -> Result<Reset> {
        let live_bytes = self.core.gauges.live_bytes(zone);
        assert!(live_bytes == 0, "I3 {zone} is to be reset with {live_bytes} live bytes");
        let states = [ZoneUse::Sealed, ZoneUse::Partial, ZoneUse::Damaged, ZoneUse::ReadOnly, ZoneUse::Offline];
        let Slot { state, unfinished, generation, .. } = self.change(zone, &states, "sealed or partly written")?;
        if is_lost(state) {
            self.strike_off(zone, state);
            return Ok(Reset::Nothing(state));
        }
        let before = Before { state, unfinished };
        if generation >= self.core.table.lock().written {
            return Ok(Reset::Retire(before));
        }
        Ok(Reset::Now(before))
    }

    fn reset_changing(&self, zone: ZoneId, before: Before) -> Result<ZoneUse> {
        let generation = self.core.table.lock().slot(zone).generation;
        if let Err(error) = self.newer_is_durable(generation) {
            self.put_back(zone, before);
            return Err(error);
        }
        if let Err(error) = self.core.reset(zone) {
            let lost = self.after_failure(zone, before, error)?;
            self.strike_off(zone, lost);
            return Ok(lost);
        }
        self.core.table.lock().zones_reset += 1;
        self.core.free(zone);
        Ok(ZoneUse::Free)
    }

    fn retire(&self, zone: ZoneId, before: Before) -> Result<ZoneUse> {
        if before.state == ZoneUse::Partial {
            let lost = self.finish_changing(zone, before)?;
            if is_lost(lost) {
                self.strike_off(zone, lost);
                return Ok(lost);
            }
        }
        self.core.table.lock().set_state(zone, ZoneUse::Retired, false);
        Ok(ZoneUse::Retired)
    }

    /// Forgets what a lost zone held: nothing in it is live.
    pub(crate) fn strike_off(&self, zone: ZoneId, lost: ZoneUse) {
        self.core.table.lock().set(zone, Slot { state: lost, ..Slot::FREE }, false);
    }

    /// Resets every damaged zone that holds no live bytes, and returns how many. Call it when recovery has counted all that is
    /// live: what a page cache loses in a crash is damaged in this way, and nothing refers to it.
    ///
    /// One that the device does not reset stays as it is.
    ///
    /// # Errors
    /// `Device`, if it does not even say what a zone is.
    pub fn clear_damaged(&self) -> Result<u32> {
        let damaged = self.core.table.lock().all_in(ZoneUse::Damaged);
        let mut cleared = 0;
        for zone in damaged.into_iter().filter(|&zone| self.live_bytes(zone) == 0) {
            match self.reset(zone) {
                Ok(_) => cleared += 1,
                Err(_) => self.core.ask(zone).map(|_| ())?,
            }
        }
        Ok(cleared)
    }

    /// Asks the device about a zone that misbehaved. If it is read-only or offline, the zone is never given to a writer
    /// again; live data in a read-only one makes it the first victim. Returns what the zone is now. Cost: one report.
    ///
    /// # Errors
    /// `Device`.
    pub fn mark_bad(&self, zone: ZoneId) -> Result<ZoneUse> {
        let asked = self.core.ask(zone)?;
        let mut table = self.core.table.lock();
        if let Some(state) = asked.lost {
            table.set_state(zone, state, false);
        }
        Ok(table.slot(zone).state)
    }

    /// Takes a zone out of one of `states` into [`Changing`](ZoneUse::Changing), and returns what it was.
    pub(crate) fn change(&self, zone: ZoneId, states: &[ZoneUse], needed: &'static str) -> Result<Slot> {
        let mut table = self.core.table.lock();
        let before = table.slot(zone).clone();
        if !states.contains(&before.state) {
            return Err(SpaceError::WrongState { zone, state: before.state.name(), needed });
        }
        let active = table.is_active(zone);
        table.set_state(zone, ZoneUse::Changing, active);
        Ok(before)
    }

    /// A device command on a changing zone failed. If the device says that the zone is lost, that is what it is now and what is
    /// returned; else the zone is as before and the error is returned.
    fn after_failure(&self, zone: ZoneId, before: Before, error: SpaceError) -> Result<ZoneUse> {
        self.put_back(zone, before);
        match self.mark_bad(zone) {
            Ok(lost) if is_lost(lost) => Ok(lost),
            Ok(_) | Err(_) => Err(error),
        }
    }

    /// A changing zone is again what it was.
    pub(crate) fn put_back(&self, zone: ZoneId, before: Before) {
        let mut table = self.core.table.lock();
        let (slot, active) = (table.slot(zone).clone(), table.is_active(zone));
        table.set(zone, Slot { state: before.state, unfinished: before.unfinished, ..slot }, active);
    }
}

/// Whether a zone can never be written again.
pub(crate) fn is_lost(state: ZoneUse) -> bool {
    matches!(state, ZoneUse::ReadOnly | ZoneUse::Offline)
}
