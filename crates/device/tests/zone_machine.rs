//! The state machine against a specification so naive that it can be read at a glance, and what a failed write does.
#![expect(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use proptest::prelude::*;
use zonda_device::{DeviceError, ErrorKind, Geometry, Lba, ZoneId, ZoneMachine, ZoneState};

use ZoneState::{Closed, Empty, ExplicitOpen, Full, ImplicitOpen, Offline, ReadOnly};

const ZONES: u32 = 5;
const SIZE: u64 = 8;
const CAPACITY: u64 = 6;

/// One line per zone: state, blocks written, when it was opened implicitly.
struct Spec {
    zones: Vec<(ZoneState, u64, u64)>,
    max_open: u32,
    max_active: u32,
    time: u64,
}

type Answer = Result<(), ErrorKind>;

impl Spec {
    fn count(&self, which: fn(ZoneState) -> bool) -> u32 {
        u32::try_from(self.zones.iter().filter(|z| which(z.0)).count()).unwrap()
    }

    fn take_open(&mut self, z: usize) -> Answer {
        if !self.zones[z].0.is_active() && self.count(ZoneState::is_active) >= self.max_active {
            return Err(ErrorKind::TooManyActive);
        }
        if self.count(ZoneState::is_open) >= self.max_open {
            let implicit = self.zones.iter_mut().filter(|z| z.0 == ImplicitOpen);
            implicit.min_by_key(|z| z.2).ok_or(ErrorKind::TooManyOpen)?.0 = Closed;
        }
        Ok(())
    }

    fn write(&mut self, z: usize, offset: u64, blocks: u64) -> Answer {
        match self.zones[z].0 {
            Full => return Err(ErrorKind::Full),
            ReadOnly => return Err(ErrorKind::ReadOnly),
            Offline => return Err(ErrorKind::Offline),
            _ if offset + blocks > CAPACITY => return Err(ErrorKind::Boundary),
            _ if offset != self.zones[z].1 => return Err(ErrorKind::InvalidWrite),
            _ => {}
        }
        if !self.zones[z].0.is_open() {
            self.take_open(z)?;
            self.time += 1;
            self.zones[z] = (ImplicitOpen, offset, self.time);
        }
        self.zones[z].1 += blocks;
        if self.zones[z].1 == CAPACITY {
            self.zones[z].0 = Full;
        }
        Ok(())
    }

    fn open(&mut self, z: usize) -> Answer {
        match self.zones[z].0 {
            ExplicitOpen | ImplicitOpen => {}
            Empty | Closed => self.take_open(z)?,
            _ => return Err(ErrorKind::InvalidTransition),
        }
        self.zones[z].0 = ExplicitOpen;
        Ok(())
    }

    fn to(&mut self, z: usize, to: ZoneState) -> Answer {
        let from = self.zones[z].0;
        let legal = match to {
            Closed => from.is_active(),
            _ => !matches!(from, ReadOnly | Offline),
        };
        if !legal {
            return Err(ErrorKind::InvalidTransition);
        }
        let written = if to == Empty { 0 } else { self.zones[z].1 };
        self.zones[z] = (to, written, 0);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Write { z: u32, skew: u64, blocks: u64 },
    Append { z: u32, blocks: u64 },
    Open(u32),
    Close(u32),
    Finish(u32),
    Reset(u32),
    Retire(u32, bool),
    PowerCycle,
}

fn step() -> impl Strategy<Value = Step> {
    let z = 0..ZONES;
    prop_oneof![
        6 => (z.clone(), prop_oneof![9 => Just(0u64), 1 => 0..SIZE], 1..4u64).prop_map(|(z, skew, blocks)| Step::Write { z, skew, blocks }),
        6 => (z.clone(), 1..4u64).prop_map(|(z, blocks)| Step::Append { z, blocks }),
        3 => z.clone().prop_map(Step::Open),
        3 => z.clone().prop_map(Step::Close),
        2 => z.clone().prop_map(Step::Finish),
        3 => z.clone().prop_map(Step::Reset),
        1 => (z, any::<bool>()).prop_map(|(z, offline)| Step::Retire(z, offline)),
        1 => Just(Step::PowerCycle),
    ]
}

fn whole_write(machine: &mut ZoneMachine, at: Lba, blocks: u64) -> Result<(), DeviceError> {
    let grant = machine.begin_write(at, blocks)?;
    machine.end_write(grant, true)
}

fn both(machine: &mut ZoneMachine, spec: &mut Spec, step: Step) -> (Result<(), DeviceError>, Answer) {
    match step {
        Step::Write { z, skew, blocks } => {
            let offset = (spec.zones[z as usize].1 + skew) % SIZE;
            let at = Lba(u64::from(z) * SIZE + offset);
            if offset + blocks > SIZE {
                return (whole_write(machine, at, blocks), Err(ErrorKind::Boundary));
            }
            (whole_write(machine, at, blocks), spec.write(z as usize, offset, blocks))
        }
        Step::Append { z, blocks } => {
            let done = machine.begin_append(ZoneId(z), blocks).and_then(|grant| machine.end_write(grant, true));
            let offset = spec.zones[z as usize].1;
            (done, spec.write(z as usize, offset, blocks))
        }
        Step::Open(z) => (machine.open(ZoneId(z)), spec.open(z as usize)),
        Step::Close(z) => (machine.close(ZoneId(z)), spec.to(z as usize, Closed)),
        Step::Finish(z) => (machine.finish(ZoneId(z)), spec.to(z as usize, Full)),
        Step::Reset(z) => (machine.reset(ZoneId(z)), spec.to(z as usize, Empty)),
        Step::Retire(z, offline) => {
            let to = if offline { Offline } else { ReadOnly };
            machine.retire(ZoneId(z), to);
            spec.zones[z as usize].0 = to;
            (Ok(()), Ok(()))
        }
        Step::PowerCycle => {
            machine.power_cycle(|_| false);
            for zone in spec.zones.iter_mut().filter(|z| z.0.is_active()) {
                zone.0 = if zone.1 == 0 { Empty } else { Closed };
            }
            (Ok(()), Ok(()))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn machine_and_specification_agree(
        steps in proptest::collection::vec(step(), 1..80),
        max_open in 1..4u32,
        more_active in 0..3u32,
    ) {
        let geometry = Geometry { zone_size_blocks: SIZE, ..Geometry::new(4096 * SIZE, ZONES) };
        let geometry = geometry.with_capacity_blocks(CAPACITY).with_limits(max_open, max_open + more_active);
        let mut spec = Spec { zones: vec![(Empty, 0, 0); ZONES as usize], max_open, max_active: max_open + more_active, time: 0 };
        let mut machine = ZoneMachine::new(geometry);
        for step in steps {
            let (done, wanted) = both(&mut machine, &mut spec, step);
            prop_assert_eq!(done.map_err(|e| e.kind()), wanted, "{:?}", step);
            for (report, zone) in machine.report(ZoneId(0), ZONES).unwrap().iter().zip(&spec.zones) {
                prop_assert_eq!(report.state, zone.0, "{:?}", step);
                let pointer = zone.0.has_write_pointer().then(|| report.start.plus(zone.1));
                prop_assert_eq!(report.write_pointer, pointer, "{:?}", step);
            }
            prop_assert_eq!(machine.open_count(), spec.count(ZoneState::is_open));
            prop_assert_eq!(machine.active_count(), spec.count(ZoneState::is_active));
        }
    }
}

fn machine() -> ZoneMachine {
    ZoneMachine::new(Geometry::new(4096 * SIZE, ZONES))
}

#[test]
fn a_failed_write_takes_those_behind_it_along() {
    let mut machine = machine();
    let first = machine.begin_append(ZoneId(0), 1).unwrap();
    let second = machine.begin_append(ZoneId(0), 2).unwrap();
    let third = machine.begin_append(ZoneId(0), 5).unwrap();
    assert!(matches!(machine.begin_append(ZoneId(0), 1), Err(DeviceError::Full { .. })));
    assert!(machine.end_write(third, true).is_ok(), "completed before the failure is known");
    assert!(machine.end_write(first, false).is_ok());
    assert_eq!(machine.written_blocks(ZoneId(0)), 0);
    assert!(matches!(machine.end_write(second, true), Err(DeviceError::SequenceLost { .. })));
    assert_eq!((machine.written_blocks(ZoneId(0)), machine.state(ZoneId(0))), (0, ImplicitOpen));
    let again = machine.begin_write(Lba(0), SIZE).unwrap();
    machine.end_write(again, true).unwrap();
    assert_eq!(machine.state(ZoneId(0)), Full);
}

#[test]
fn writes_that_fail_in_any_order_leave_the_write_pointer_before_the_first_of_them() {
    let mut machine = machine();
    let first = machine.begin_append(ZoneId(0), 1).unwrap();
    let second = machine.begin_append(ZoneId(0), 2).unwrap();
    let third = machine.begin_append(ZoneId(0), 3).unwrap();
    let fourth = machine.begin_append(ZoneId(0), 2).unwrap();
    machine.end_write(third, false).unwrap();
    assert_eq!(machine.written_blocks(ZoneId(0)), 3);
    assert!(machine.end_write(first, true).is_ok(), "nothing before it failed");
    machine.end_write(second, false).unwrap();
    assert_eq!(machine.written_blocks(ZoneId(0)), 1, "what the second was to write is not there");
    assert!(matches!(machine.end_write(fourth, true), Err(DeviceError::SequenceLost { .. })));
    assert_eq!(machine.written_blocks(ZoneId(0)), 1);
}

#[test]
fn nothing_is_written_where_a_write_failed_before_those_in_flight_behind_it_have_ended() {
    let mut machine = machine();
    let first = machine.begin_append(ZoneId(0), 1).unwrap();
    let second = machine.begin_append(ZoneId(0), 2).unwrap();
    machine.end_write(first, false).unwrap();
    let refused = |refused: Result<_, DeviceError>| refused.unwrap_err().kind() == ErrorKind::SequenceLost;
    assert!(refused(machine.begin_write(Lba(0), 1)), "the second would land on it");
    assert!(refused(machine.begin_append(ZoneId(0), 1)));
    assert!(machine.end_write(second, false).is_err());
    let again = machine.begin_write(Lba(0), SIZE).unwrap();
    machine.end_write(again, true).unwrap();
    assert_eq!(machine.state(ZoneId(0)), Full);
}

#[test]
fn a_zone_with_writes_in_flight_is_not_reset_or_finished() {
    let mut machine = machine();
    let grant = machine.begin_append(ZoneId(0), 1).unwrap();
    assert!(matches!(machine.reset(ZoneId(0)), Err(DeviceError::Busy { in_flight: 1, .. })));
    assert!(matches!(machine.finish(ZoneId(0)), Err(DeviceError::Busy { .. })));
    machine.close(ZoneId(0)).unwrap();
    machine.end_write(grant, true).unwrap();
    assert_eq!(machine.state(ZoneId(0)), Closed);
    machine.reset(ZoneId(0)).unwrap();
}

#[test]
fn restoring_respects_the_limits() {
    let mut machine = ZoneMachine::new(Geometry::new(4096 * SIZE, ZONES).with_limits(1, 1));
    machine.restore(ZoneId(0), ImplicitOpen, 3).unwrap();
    machine.restore(ZoneId(1), Closed, SIZE).unwrap();
    machine.restore(ZoneId(2), Closed, 0).unwrap();
    assert!(machine.restore(ZoneId(3), Closed, 1).is_err());
    assert!(machine.restore(ZoneId(3), Full, SIZE + 1).is_err());
    let states = [0, 1, 2].map(|z| machine.state(ZoneId(z)));
    assert_eq!(states, [Closed, Full, Empty]);
}
