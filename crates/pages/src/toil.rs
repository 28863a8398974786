//! What reclaim moves in vain (I9).
//!
//! Large values leave ends of zones unused, which fit none of them. A zone with such an end looks as if something were to be gained, but
//! what is moved out of it leaves the same end elsewhere: reclaim would move the same few for ever, and writers would wait for it. So where
//! as much was moved as is live in all, and neither a zone more came of it nor anything that writers could write, it was in vain, until
//! something dies.

/// What died since, as a part of a zone, after which it is worth trying again.
const DEAD_SHARE: u64 = 8;

/// What reclaim moved while writers waited.
#[derive(Debug, Default)]
pub(crate) struct Toil {
    /// As it was when something was last gained.
    since: Option<Sight>,
    moved_bytes: u64,
    was_in_vain: bool,
}

/// What there is to gain by reclaim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    /// Zones that are free or will be.
    pub(crate) spare_zones: u32,
    pub(crate) live_bytes: u64,
    /// Records that writers wrote.
    pub(crate) writes: u64,
}

impl Toil {
    /// Counts a zone of which so much is moved.
    pub(crate) fn moves(&mut self, live_bytes: u64) {
        self.moved_bytes += live_bytes;
    }

    /// Whether all that was moved since something was last gained was moved in vain; `now` says what there is to gain. To be asked while
    /// writers wait for zones.
    pub(crate) fn is_in_vain(&mut self, now: Sight, zone_bytes: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        let died = since.live_bytes.saturating_sub(now.live_bytes);
        if now.spare_zones > since.spare_zones || died >= zone_bytes / DEAD_SHARE || now.writes > since.writes {
            *self = Self { since: Some(now), ..Self::default() };
        }
        self.was_in_vain |= self.moved_bytes >= now.live_bytes.max(zone_bytes);
        self.was_in_vain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: u64 = 1 << 20;

    fn sight(spare_zones: u32, live_zones: u64, writes: u64) -> Sight {
        Sight { spare_zones, live_bytes: live_zones * ZONE, writes }
    }

    #[test]
    fn all_that_is_live_moved_for_nothing_is_in_vain_until_something_dies() {
        let mut toil = Toil::default();
        for moved in 0..10 {
            assert!(!toil.is_in_vain(sight(3, 10, 7), ZONE), "{moved}");
            toil.moves(ZONE);
        }
        assert!(toil.is_in_vain(sight(3, 10, 7), ZONE));
        assert!(toil.is_in_vain(sight(2, 10, 7), ZONE), "still");
        let died = Sight { live_bytes: 10 * ZONE - ZONE / 8, ..sight(2, 0, 7) };
        assert!(!toil.is_in_vain(died, ZONE));
        toil.moves(ZONE);
        assert!(!toil.is_in_vain(died, ZONE), "from the start");
    }

    #[test]
    fn a_zone_that_came_of_it_and_a_record_that_was_written_are_gains() {
        for gained in [sight(4, 10, 7), sight(3, 10, 8)] {
            let mut toil = Toil::default();
            assert!(!toil.is_in_vain(sight(3, 10, 7), ZONE));
            (0..20).for_each(|_| toil.moves(ZONE));
            assert!(!toil.is_in_vain(gained, ZONE));
        }
    }
}
