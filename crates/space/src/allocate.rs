//! Gives zones to writers.

use zonda_device::ZoneId;

use crate::release::{Before, is_lost};
use crate::table::{Pick, Slot, Table};
use crate::{Result, Space, SpaceError, StreamId, Urgency, ZoneUse, ZoneWriter};

/// So many zones may fail under one opening.
const REFUSALS_MAX: u32 = 8;

impl Space {
    /// Opens a free zone for a stream: takes an active token, opens the zone explicitly and writes its header. The
    /// lowest free zone is taken. Never waits for a token: each share of the budget has its own. Cost: one block
    /// written; rarely a flush and resets of what earlier openings left behind, or another try to finish zones that the device did not.
    ///
    /// # Errors
    /// `NoSpace` when no zone is free, or none above the reserve for [`Urgency::Foreground`]; `StreamFull`,
    /// `TokensHeld`, `NoSuchStream`: nothing was changed. `Device`: if the device lives on, the zones that failed, up to eight, are
    /// free again and taken last (but where [the host is full](SpaceError::is_host_full)) or, where only the flush after it failed, the
    /// zone is partly written.
    pub fn open_zone(&self, stream: StreamId, urgency: Urgency) -> Result<ZoneWriter> {
        let _allocation = self.core.allocation.lock();
        let held_up = self.tidy()?;
        let held_up = self.finish_again(stream).or(held_up);
        let pick = self.pick_and_prepare(stream, urgency).map_err(|error| match held_up {
            Some(cause) if matches!(error, SpaceError::TokensHeld { .. }) => cause,
            _ => error,
        })?;
        // Made first: dropped after an error, it leaves its zone where it can be adopted or sealed.
        let writer = ZoneWriter::new(self.clone(), pick.zone, pick.stream, pick.generation, 1);
        self.release_retired()?;
        Ok(writer)
    }

    /// Continues a partly written zone at its write pointer. A torn block at the pointer is completed with zeros.
    ///
    /// # Errors
    /// `WrongState` for a zone that is not [`Partial`](ZoneUse::Partial); `Device`.
    pub fn adopt_for_writing(&self, zone: ZoneId) -> Result<ZoneWriter> {
        let _allocation = self.core.allocation.lock();
        // What that could not free does not matter: a partly written zone has its token.
        self.tidy()?;
        let (stream, generation) = self.claim_partial(zone)?;
        match self.continue_zone(zone) {
            Ok(written_blocks) => Ok(ZoneWriter::new(self.clone(), zone, stream, generation, written_blocks)),
            Err(error) => {
                self.core.table.lock().set_state(zone, ZoneUse::Partial, true);
                self.mark_bad(zone)?;
                Err(error)
            }
        }
    }

    fn pick_and_prepare(&self, stream: StreamId, urgency: Urgency) -> Result<Pick> {
        let pick = |table: &mut Table| table.pick(stream, urgency);
        self.prepare_first(&pick, &|pick| self.prepare(pick), &|table| table.has_token(stream))
    }

    /// Takes free zones or subzones until one can be used. Those that turn out to be lost drop out, and of others that fail at most
    /// `REFUSALS_MAX` are tried, as long as there is a token, so this ends.
    pub(crate) fn prepare_first(
        &self,
        pick: &dyn Fn(&mut Table) -> Result<Option<Pick>>,
        prepare: &dyn Fn(Pick) -> Result<()>,
        has_token: &dyn Fn(&Table) -> bool,
    ) -> Result<Pick> {
        let mut refusals = 0;
        loop {
            let picked = pick(&mut self.core.table.lock())?;
            let picked = picked.ok_or_else(|| self.usage().no_space())?;
            let Err(error) = prepare(picked) else { return Ok(picked) };
            if let Err(error) = self.give_up(picked.zone, error) {
                refusals += 1;
                // The next one needs the token of this one.
                self.tidy()?;
                // On a host that is full no other zone does better.
                if error.is_host_full() || refusals == REFUSALS_MAX || !has_token(&self.core.table.lock()) {
                    return Err(error);
                }
            }
        }
    }

    pub(crate) fn prepare(&self, pick: Pick) -> Result<()> {
        if pick.reset_first {
            self.core.reset(pick.zone)?;
        }
        if self.core.subzone(pick.zone).is_none() {
            self.core.device.open(pick.zone)?;
        }
        self.core.write_header(pick)?;
        let mut table = self.core.table.lock();
        table.set_state(pick.zone, ZoneUse::Open, true);
        table.written = table.written.max(pick.generation);
        Ok(())
    }

    /// After a failed opening: a lost zone is struck off (and the next is tried), any other is free again, but torn, and taken last.
    pub(crate) fn give_up(&self, zone: ZoneId, error: SpaceError) -> Result<()> {
        let (asked, refused) = (self.core.ask(zone), !error.is_host_full());
        let mut table = self.core.table.lock();
        match asked {
            Ok(asked) => match asked.lost {
                Some(state) => {
                    table.set(zone, Slot { state, ..Slot::FREE }, false);
                    return Ok(());
                }
                None => {
                    // A subzone that is full of nothing is not active.
                    let torn = asked.active || asked.written_blocks > 0;
                    table.set(zone, Slot { torn, refused, ..Slot::FREE }, asked.active);
                }
            },
            Err(_) => table.set(zone, Slot { torn: true, refused, ..Slot::FREE }, true),
        }
        Err(error)
    }

    /// Gives back the tokens of what a crash left: resets interrupted allocations and finishes damaged zones. Those that fail are left
    /// for the next time; returns why, which matters to who finds no token.
    ///
    /// # Errors
    /// `Device`, if it does not even say what a zone is.
    pub(crate) fn tidy(&self) -> Result<Option<SpaceError>> {
        let (torn, damaged) = {
            let table = self.core.table.lock();
            (table.torn(), table.active_in(ZoneUse::Damaged))
        };
        let mut failed = None;
        for zone in torn {
            if let Err(error) = self.reset_or_strike(zone) {
                self.core.ask(zone)?;
                failed = Some(error);
            }
        }
        for zone in damaged {
            match self.core.finish(zone) {
                Ok(()) => self.core.table.lock().set_state(zone, ZoneUse::Damaged, false),
                Err(error) => {
                    // One that is lost has no token any more.
                    if !is_lost(self.mark_bad(zone)?) {
                        failed = Some(error);
                    }
                }
            }
        }
        Ok(failed)
    }

    /// Resets the zones that were retired, now that a newer header exists: makes that one durable first. One that fails stays
    /// retired, and is tried again with the next opening.
    pub(crate) fn release_retired(&self) -> Result<()> {
        let retired = self.core.table.lock().all_in(ZoneUse::Retired);
        for zone in retired {
            let generation = self.core.table.lock().slot(zone).generation;
            if !self.newer_is_durable(generation)? {
                continue;
            }
            // Whoever looks at it meanwhile sees that it is changing: its header goes first.
            let Ok(before) = self.change(zone, &[ZoneUse::Retired], "retired") else { continue };
            match self.reset_or_strike(zone) {
                Ok(is_free) => self.core.table.lock().zones_reset += u64::from(is_free),
                Err(_) => {
                    self.put_back(zone, Before { state: before.state, unfinished: before.unfinished });
                    self.core.ask(zone).map(|_| ())?;
                }
            }
        }
        Ok(())
    }

    /// Resets a zone and makes it free, unless the device has lost it; returns which.
    fn reset_or_strike(&self, zone: ZoneId) -> Result<bool> {
        match self.core.reset(zone) {
            Ok(()) => {
                self.core.free(zone);
                Ok(true)
            }
            Err(error) => match self.mark_bad(zone)? {
                lost if is_lost(lost) => {
                    self.strike_off(zone, lost);
                    Ok(false)
                }
                _ => Err(error),
            },
        }
    }

    /// Whether a header newer than `generation` is durable; flushes if one is written. A [reset](Self::reset) does this too.
    ///
    /// # Errors
    /// `Device`: as [`flush`](Self::flush).
    pub fn newer_is_durable(&self, generation: u64) -> Result<bool> {
        let (written, durable) = {
            let table = self.core.table.lock();
            (table.written, table.durable)
        };
        if written > generation && durable <= generation {
            self.flush()?;
        }
        Ok(written > generation)
    }

    fn claim_partial(&self, zone: ZoneId) -> Result<(StreamId, u64)> {
        let mut table = self.core.table.lock();
        let slot = table.slot(zone).clone();
        let stream = slot.stream.filter(|_| slot.state == ZoneUse::Partial);
        let stream =
            stream.ok_or(SpaceError::WrongState { zone, state: slot.state.name(), needed: "partly written" })?;
        table.set_state(zone, ZoneUse::Open, true);
        Ok((stream, slot.generation))
    }

    /// Opens a partly written zone on the device, completes a torn block, and returns the blocks written.
    fn continue_zone(&self, zone: ZoneId) -> Result<u64> {
        let core = &self.core;
        core.device.open(zone)?;
        let asked = core.ask(zone)?;
        let mut written_blocks = asked.written_blocks;
        if let (Some(at), 1..) = (asked.write_pointer, asked.missing_lbas) {
            let lba_bytes = core.device.geometry().block_bytes as usize;
            let missing = usize::try_from(asked.missing_lbas).expect("less than one block");
            core.device.write(at, &zonda_device::AlignedBuf::with_len(missing * lba_bytes))?;
            written_blocks += 1;
        }
        core.gauges.set_written(zone, written_blocks);
        Ok(written_blocks)
    }
}
