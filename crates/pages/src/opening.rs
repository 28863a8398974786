//! Opening zones: who may take one, how many are spare, and waiting for them (back-pressure).

use std::sync::Arc;
use std::time::Duration;

use zonda_device::ErrorKind;
use zonda_rt::atomic::Ordering;
use zonda_space::{SpaceError, Urgency, ZoneUse, ZoneView, ZoneWriter};

use crate::flusher::{Extent, Flusher};
use crate::reserve::{FOREGROUND_FLOOR, GAIN_FLOOR, LAST_RESORT_FLOOR, RELOCATION_FLOOR};
use crate::sequencer::Sequencer;
use crate::stream::{self, Claim, Stream};
use crate::{AreaKind, PageError};

/// How long `pump` waits for reclaim when a foreground writer finds no zone.
const PUMP_PATIENCE: Duration = Duration::from_millis(1);
/// How often a waiting writer asks whether waiting still makes sense.
const GATE_PATIENCE: Duration = Duration::from_millis(20);

impl Flusher {
    /// Opens the zone that somebody wants. If none is free for a foreground writer, waits a little for reclaim.
    pub(crate) fn open_wanted(&self, stream: &Stream) -> Result<(), PageError> {
        let Some(claim) = stream.wanted() else {
            return Ok(());
        };
        let now = self.gate.now();
        if !self.open(stream, claim)? && claim == Claim::Foreground && !self.is_reclaimer() {
            self.gate.wait(now, PUMP_PATIENCE);
        }
        Ok(())
    }

    /// Opens one more zone of a stream if it may have one; `false` if there is no zone for this claim now. Waits for zones that are being
    /// sealed, if all tokens are held. No sequencer's writer may be held.
    pub(crate) fn open(&self, stream: &Stream, claim: Claim) -> Result<bool, PageError> {
        let _opening = self.opening.lock();
        if !stream.may_open() {
            stream.satisfied();
            return Ok(true);
        }
        let mut taken = self.take_zone(stream, claim);
        if matches!(taken, Err(SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. })) {
            // A drive may take long to finish a zone, and nobody is refused for that.
            self.streams.iter().for_each(Stream::wait_for_sealing);
            taken = self.take_zone(stream, claim);
        }
        let writer = match taken {
            Ok(writer) => writer,
            Err(SpaceError::NoSpace { .. } | SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.adopt_writer(stream, writer, claim);
        stream.satisfied();
        self.note_space();
        Ok(true)
    }

    fn take_zone(&self, stream: &Stream, claim: Claim) -> Result<ZoneWriter, SpaceError> {
        self.note_space();
        let may_take = match claim {
            Claim::Foreground => self.spare_zones() > FOREGROUND_FLOOR,
            Claim::Gain => self.spare_zones() > GAIN_FLOOR,
            Claim::Relocation => self.spare_zones() > RELOCATION_FLOOR || self.is_last_resort(),
            Claim::Rescue => self.spare_zones() > RELOCATION_FLOOR || self.has_last_resort(),
            Claim::Record => true,
        };
        if !may_take {
            return Err(self.space.usage().no_space());
        }
        let _label = zonda_device::cut_label(stream.opening_label());
        let mut opened = self.space.open_zone(stream.id, Urgency::Reserve);
        for _ in 1..crate::failed::ATTEMPTS_MAX {
            match &opened {
                Err(SpaceError::Device(cause)) if cause.kind() == ErrorKind::Media => {
                    opened = self.space.open_zone(stream.id, Urgency::Reserve);
                }
                _ => break,
            }
        }
        opened
    }

    /// Whether relocation, which is stuck without a zone, may take one of those that log and MetaLog are entitled to.
    fn is_last_resort(&self) -> bool {
        self.last_resort.load(Ordering::Relaxed) && self.has_last_resort()
    }

    fn has_last_resort(&self) -> bool {
        self.space.usage().free_zones > LAST_RESORT_FLOOR
    }

    /// Starts a sequencer for a zone's writer.
    pub(crate) fn adopt_writer(&self, stream: &Stream, writer: ZoneWriter, claim: Claim) {
        let (zone, generation) = (self.zones.of(writer.zone()), writer.generation());
        let sequencer = Arc::new(Sequencer::new(writer, claim, self.space.clone(), self.press.clone()));
        // First open, then of this generation: a zone with a generation that is not open counts as sealed.
        zone.attach(&sequencer);
        zone.begin(generation, stream::holds(stream.streams));
        stream.add(sequencer);
    }

    /// Remembers numbers of the zone manager, whose count costs a pass over the zones.
    pub(crate) fn note_space(&self) {
        let _noting = self.noting.lock();
        let usage = self.space.usage();
        let (held_by_log, kept_of_log) = self.zones.count_area(AreaKind::Log);
        let (held_by_meta, kept_of_meta) = self.zones.count_area(AreaKind::Meta);
        self.records.note(kept_of_log, kept_of_meta, usage.lost_zones > 0 && self.has_lost_records());
        let released = held_by_log + held_by_meta - (kept_of_log + kept_of_meta);
        self.released_zones.store(released, Ordering::Relaxed);
        self.sealed_zones.store(self.zones.count_sealed_data(), Ordering::Relaxed);
        let log = self.reserve.log_zones.saturating_sub(held_by_log);
        let meta = self.reserve.meta_zones.saturating_sub(held_by_meta);
        self.spare_zones.store(usage.free_zones.saturating_sub(log + meta), Ordering::Relaxed);
        self.capacity_bytes.store(usage.capacity_bytes, Ordering::Relaxed);
    }

    /// Whether a segment of log or MetaLog that is not released lies in a zone that cannot be read any more. One that failed before
    /// anything was acknowledged in it holds nothing.
    fn has_lost_records(&self) -> bool {
        let is_kept = |id| self.zones.of(id).is_kept() && self.zones.of(id).holds().only_records();
        let is_lost = |view: &ZoneView| view.state == ZoneUse::Offline && view.written_bytes > 0;
        self.space.view().iter().any(|view| is_lost(view) && is_kept(view.zone))
    }

    /// Free zones beyond those that log and MetaLog are still entitled to.
    pub(crate) fn spare_zones(&self) -> u32 {
        self.spare_zones.load(Ordering::Relaxed)
    }

    /// Makes room for `blocks` more blocks in a stream: writes, seals and opens zones. `false` if there is no zone.
    pub(crate) fn make_room(&self, stream: &Stream, blocks: u64, claim: Claim) -> Result<bool, PageError> {
        stream.close_one_shorter_than(blocks);
        self.write_stream(stream, Extent::Everything)?;
        self.open(stream, claim)
    }

    /// Whether foreground writers must wait for reclaim. One load.
    pub(crate) fn is_short(&self) -> bool {
        self.spare_zones() <= FOREGROUND_FLOOR
    }

    /// Whether so many spare zones are few enough for reclaim to go on.
    pub(crate) fn is_low(&self, spare_zones: u32) -> bool {
        spare_zones <= self.reserve.low_water.max(self.wanted.low_water())
    }

    /// A writer needs room for so many pages at once; 0: no more. Whether there are zones for them.
    pub(crate) fn press_for(&self, pages: u32) -> bool {
        self.wanted.press(pages, self.space.zone_blocks().saturating_sub(1), self.spare_zones())
    }

    /// Whether live bytes exceed the usable space, for all that is known.
    pub(crate) fn is_full(&self) -> bool {
        self.would_be_full(0) && !self.has_estimates()
    }

    /// Whether `more_bytes` more would exceed it; values of an earlier life count as live until reclaim has looked.
    pub(crate) fn would_be_full(&self, more_bytes: u64) -> bool {
        self.counters.live_bytes() + more_bytes > self.usable_bytes()
    }

    /// What a writer hears for whom there is no room: `NoSpace`, but while value bytes are an estimate reclaim must look first.
    pub(crate) fn refuse_for_now(&self) -> PageError {
        if !self.has_estimates() {
            return self.no_space();
        }
        self.must_look.store(true, Ordering::Relaxed);
        PageError::Busy
    }

    /// Reclaim cannot help, for all that it knew when so much was live: writers that wait for space are refused, until it says otherwise
    /// or something dies.
    pub(crate) fn give_up_hope(&self, live_bytes: u64) {
        if self.hope.give_up(live_bytes) {
            self.gate.wake();
        }
    }

    /// Whether it was given up, and nothing died since.
    fn is_hopeless(&self) -> bool {
        self.hope.is_given_up(self.counters.live_bytes())
    }

    /// One wait for spare zones; `Busy` if they are still short. In a full store too: zones of what is dead may be on their way back.
    pub(crate) fn wait_a_moment_for_zones(&self) -> Result<(), PageError> {
        let now = self.gate.now();
        if !self.is_short() {
            return Ok(());
        }
        if self.is_hopeless() {
            return Err(self.no_space());
        }
        self.gate.wait(now, GATE_PATIENCE);
        if self.is_short() { Err(PageError::Busy) } else { Ok(()) }
    }

    /// Back-pressure: waits for reclaim while only the reserve is left, as long as that makes sense and at most
    /// `waits_max` times [`GATE_PATIENCE`].
    pub(crate) fn wait_for_spare_zones(&self, waits_max: u32) -> Result<(), PageError> {
        for _ in 0..waits_max {
            let now = self.gate.now();
            if !self.is_short() {
                return Ok(());
            }
            if self.is_full() || self.is_hopeless() {
                break;
            }
            self.gate.wait(now, GATE_PATIENCE);
        }
        Err(self.no_space())
    }
}
