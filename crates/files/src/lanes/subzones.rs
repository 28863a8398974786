//! Subzones for tables: what the allocator of split zones chose is done here, under the lock of the lanes.

use std::sync::Arc;

use zonda_rt::atomic::{AtomicU64, Ordering};
use zonda_space::{ErrorKind, SpaceError, SplitZoneUse, Urgency, ZoneUse, ZoneWriter};

use super::{FOR_ALL, Lane, Lanes, Lease, Request, lane_of};
use crate::options::DATA;
use crate::policy::{AfterFinish, Lacking, SplitChoice, SplitChoices, SplitZoneView, choose_subzone};
use crate::{Result, ZoneId};

/// What was done to split zones for tokens and subzones.
#[derive(Debug, Default)]
pub(crate) struct SplitSteps {
    /// Zones that were split.
    pub(crate) splits: AtomicU64,
    /// Split zones that were finished for their token.
    pub(crate) finishes: AtomicU64,
}

impl Lanes {
    /// Whether tables may get subzones: the policy uses them, the device has them, and there is a token for split zones and one
    /// for wide ones.
    pub(crate) fn splits(&self) -> bool {
        self.splits
    }

    /// Wide zones that a lane may hold open. Split zones and wide ones of the lane of tables leave one token to the other.
    pub(super) fn wide_max(&self, lane: &Lane) -> usize {
        let all = lane.zones_max as usize;
        match self.splits && lane.streams.contains(DATA) {
            true => all.saturating_sub(self.active_split().max(1)),
            false => all,
        }
    }

    fn active_split(&self) -> usize {
        self.space.split_view().iter().filter(|view| view.is_active).count()
    }

    /// An empty subzone for one table, or why it is to go into a wide zone. With a percentage zones may be split for it, up to
    /// that share of all; without, only what is split is used.
    ///
    /// # Errors
    /// `Space` other than for want of zones or tokens, or for a zone that failed.
    pub(crate) fn place_subzone(
        &self,
        request: &Request<'_>,
        split_percent_max: Option<u32>,
    ) -> Result<std::result::Result<Lease, Lacking>> {
        let mut lanes = self.lanes.lock();
        let lane = lane_of(&mut lanes, request.stream);
        lane.drop_full();
        let views: Vec<SplitZoneView> = self.space.split_view().iter().map(view_of).collect();
        let active = views.iter().filter(|view| view.active).count();
        let all = lane.zones_max as usize;
        let kept = self.reserve_now() + request.free_zones_kept;
        let empty_zones = self.free_now().saturating_sub(kept).min(self.counts().free);
        let choice = choose_subzone(&SplitChoices {
            split: &views,
            zones: self.space.usage().zones,
            empty_zones,
            percent_max: split_percent_max.unwrap_or(0),
            has_token: lane.open.len() + lane.sealing + active < all
                && active + 1 < all
                && self.space.has_token(lane.stream),
        });
        let opened = match choice.map(|choice| self.follow_choice(lane, choice)) {
            Ok(Ok(writer)) => Ok(self.open_zone(writer, (request.file, request.tags), FOR_ALL)),
            Ok(Err(error)) => Err(lacking(&error).ok_or(error)?),
            Err(lacking) => Err(lacking),
        };
        Ok(opened.map(|open| Lease::of(Arc::new(open))))
    }

    fn follow_choice(&self, lane: &Lane, choice: SplitChoice) -> std::result::Result<ZoneWriter, SpaceError> {
        let next = match choice {
            SplitChoice::Subzone(zone) => AfterFinish::Subzone(zone),
            SplitChoice::Split => AfterFinish::Split,
            SplitChoice::Finish(zone, next) => {
                self.finish_for_token(zone)?;
                next
            }
        };
        let zone = match next {
            AfterFinish::Subzone(zone) => zone,
            AfterFinish::Split => {
                let zone = self.space.split_zone(lane.stream, Urgency::Foreground)?;
                self.split_steps.splits.fetch_add(1, Ordering::Relaxed);
                zone
            }
        };
        self.space.open_subzone(zone)
    }

    /// Makes ordinary zones of split ones in which nothing is; returns how many. Those that fail stay split. Not while a zone is split
    /// for a table.
    pub(crate) fn join_empty(&self) -> u64 {
        let _lanes = self.lanes.lock();
        let views = self.space.split_view();
        let empty = views.iter().filter(|view| view.full == 0 && view.written == 0);
        empty.map(|view| u64::from(self.space.join(view.zone).is_ok())).sum()
    }

    /// Ends the writing of a subzone: what its table did not fill stays empty until the table is gone. A split zone that is full by
    /// that gives its token back: it would hold it until somebody who wants a subzone has none, and wide zones would have to do with fewer.
    pub(super) fn release_subzone(&self, lease: Lease) {
        let writer = lease.zone.writer().take();
        drop(lease);
        if let Some(writer) = writer {
            self.space.seal(writer);
        }
        let _lanes = self.lanes.lock();
        // Those that the device did not finish before: each pins its zone's token.
        for view in self.space.subzone_view().iter().filter(|view| view.state == ZoneUse::Partial) {
            _ = self.space.seal_recovered(view.zone);
        }
        for zone in self.idle_split().filter(|view| view.empty == 0) {
            // One that is not finished keeps its token until somebody needs it.
            _ = self.space.finish_split(zone.zone);
        }
    }

    /// Finishes the split zone that was used longest ago and in which nothing is written, for a wide zone, if another keeps its token.
    /// Returns whether there was one.
    pub(super) fn take_split_token(&self, lane: &Lane) -> bool {
        if !self.splits || !lane.streams.contains(DATA) || self.active_split() < 2 {
            return false;
        }
        let idle = self.idle_split().min_by_key(|view| view.used);
        idle.is_some_and(|view| self.finish_for_token(view.zone).is_ok())
    }

    fn finish_for_token(&self, zone: ZoneId) -> std::result::Result<(), SpaceError> {
        self.space.finish_split(zone)?;
        self.split_steps.finishes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Split zones that hold a token and in which nothing is written.
    fn idle_split(&self) -> impl Iterator<Item = SplitZoneUse> {
        self.space.split_view().into_iter().filter(|view| view.is_active && view.written == 0)
    }

    /// Whether a number is that of a subzone.
    pub(super) fn is_subzone(&self, zone: ZoneId) -> bool {
        self.space.is_subzone(zone)
    }
}

fn view_of(split: &SplitZoneUse) -> SplitZoneView {
    let SplitZoneUse { zone, full, empty, written, is_active: active, used, .. } = *split;
    SplitZoneView { zone, full, empty, written, active, used }
}

/// A table that finds no subzone goes into a wide zone: for want of zones and tokens, and past a zone that fails. `None`: an error that is
/// told.
fn lacking(error: &SpaceError) -> Option<Lacking> {
    use ErrorKind as Kind;
    match error {
        SpaceError::NoSpace { .. } => Some(Lacking::Zones),
        SpaceError::StreamFull { .. } | SpaceError::TokensHeld { .. } => Some(Lacking::Tokens),
        SpaceError::WrongState { .. } => Some(Lacking::Device),
        SpaceError::Device(error) => match error.kind() {
            Kind::TooManyActive | Kind::TooManyOpen => Some(Lacking::Tokens),
            Kind::ReadOnly | Kind::Offline | Kind::Media => Some(Lacking::Device),
            _ => None,
        },
        _ => None,
    }
}
