use super::*;
use crate::profile::Profile;
use zonda_rt::Rng;

fn model(name: &str) -> ConventionalModel {
    let profile = Profile::named(name).unwrap();
    ConventionalModel::new(profile.core_shape(1), profile.conventional_shape().unwrap())
}

/// Keeps `depth` commands in flight until `count` are answered.
fn closed_loop(drive: &mut ConventionalModel, depth: u64, count: u64, mut next: impl FnMut(u64) -> Command) -> Nanos {
    let start = drive.core().now();
    let mut submitted = 0;
    let mut out = Vec::new();
    while submitted < depth.min(count) {
        drive.submit(start, submitted, next(submitted));
        submitted += 1;
    }
    let mut answered = 0;
    while answered < count {
        let at = drive.next_event().expect("commands are on their way");
        drive.advance(at, &mut out);
        for _ in out.drain(..) {
            answered += 1;
            if submitted < count {
                drive.submit(at, submitted, next(submitted));
                submitted += 1;
            }
        }
    }
    drive.core().now() - start
}

#[test]
fn sequential_overwrites_cost_nothing_extra() {
    let mut drive = model("test-conv");
    let units = drive.shape().logical_units();
    closed_loop(&mut drive, 4, units * 3, |i| Command::Write { at: i % units * 4096, bytes: 4096, stream: 0 });
    assert!(drive.flash_writes().amplification() < 1.02, "{:?}", drive.flash_writes());
}

#[test]
fn random_overwrites_make_it_collect_and_slow_down() {
    let mut drive = model("test-conv");
    let units = drive.shape().logical_units();
    let fresh = closed_loop(&mut drive, 16, units, |i| Command::Write { at: i * 4096, bytes: 4096, stream: 0 });
    let mut rng = Rng::seeded(5);
    let mut random = move |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream: 0 };
    closed_loop(&mut drive, 16, units * 4, &mut random);
    let before = drive.flash_writes();
    let steady = closed_loop(&mut drive, 16, units, &mut random);
    let writes = drive.flash_writes().since(&before);
    let amplification = writes.amplification();
    assert!((1.8..4.0).contains(&amplification), "{amplification}");
    let slowdown = steady as f64 / fresh as f64;
    assert!(slowdown > amplification * 0.95, "slower by {slowdown:.2} at an amplification of {amplification:.2}");
    assert!(drive.ftl().wear().any(|erases| erases > 0));
}

#[test]
fn a_drive_as_full_as_it_may_be_goes_on() {
    let mut drive = changed(|shape| shape.logical_bytes = ((160 - 4) * 32 - 1) * 4096);
    let units = drive.shape().logical_units();
    closed_loop(&mut drive, 16, units, |i| Command::Write { at: i * 4096, bytes: 4096, stream: u32::from(i % 2 == 0) });
    let mut rng = Rng::seeded(5);
    closed_loop(&mut drive, 16, 1_000, |_| {
        let (unit, stream) = (rng.below(units), u32::from(rng.chance(0.5)));
        Command::Write { at: unit * 4096, bytes: 4096, stream }
    });
    assert!(drive.flash_writes().amplification() > 2.0, "{:?}", drive.flash_writes());
}

#[test]
fn programs_of_a_superblock_that_was_erased_are_not_of_what_comes_next() {
    let mut drive =
        changed(|shape| (shape.superblocks, shape.streams, shape.logical_bytes) = (8, 1, 3 * shape.superblock_bytes));
    // What is programmed waits for a slow channel while its superblock is erased.
    let core = CoreShape { channel_bytes_per_s: 1_000_000, buffer_bytes: 1 << 20, ..drive.core.shape().clone() };
    drive.core = Core::new(core);
    let bytes = drive.shape().superblock_bytes;
    (0..3).for_each(|i| _ = drive.submit(0, i, Command::Write { at: i * bytes, bytes, stream: 0 }));
    drive.advance(1_000_000, &mut Vec::new());
    drive.submit(1_000_000, 3, Command::Trim { at: 0, bytes });
    idle(&mut drive);
    assert_eq!(drive.ftl().wear().sum::<u32>(), 1);
    assert!(drive.progress.iter().all(|of| of.on_flash == of.dispatched), "{:?}", drive.progress);
}

#[test]
fn trimmed_space_is_free() {
    let mut drive = model("test-conv");
    let units = drive.shape().logical_units();
    let mut rng = Rng::seeded(5);
    closed_loop(&mut drive, 8, units * 3, |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream: 0 });
    closed_loop(&mut drive, 1, 1, |_| Command::Trim { at: 0, bytes: units * 4096 });
    let before = drive.flash_writes();
    closed_loop(&mut drive, 8, units, |i| Command::Write { at: i * 4096, bytes: 4096, stream: 0 });
    assert!(drive.flash_writes().since(&before).collection_bytes < units * 4096 / 50);
}

#[test]
fn streams_keep_lifetimes_apart() {
    let amplification = |streams: bool| {
        let mut drive = model("test-conv");
        let units = drive.shape().logical_units();
        let (hot, mut rng) = (units / 20, Rng::seeded(9));
        closed_loop(&mut drive, 8, units * 8, |i| match i {
            i if i < units => Command::Write { at: i * 4096, bytes: 4096, stream: u32::from(streams && i >= hot) },
            i if i % 10 == 0 => {
                let at = hot + rng.below(units - hot);
                Command::Write { at: at * 4096, bytes: 4096, stream: u32::from(streams) }
            }
            _ => Command::Write { at: rng.below(hot) * 4096, bytes: 4096, stream: 0 },
        });
        drive.flash_writes().amplification()
    };
    let (mixed, apart) = (amplification(false), amplification(true));
    assert!(apart < mixed * 0.95, "{apart:.2} with streams, {mixed:.2} without");
}

#[test]
fn reads_find_what_was_written() {
    let mut drive = model("test-conv");
    let units = drive.shape().logical_units();
    drive.preset(0, units);
    let count = |drive: &ConventionalModel| drive.core().stats().dies.iter().map(|die| die.reads).sum::<u64>();
    let before = count(&drive);
    closed_loop(&mut drive, 1, 10, |i| Command::Read { at: i * 7 * 4096, bytes: 4096 });
    assert_eq!(count(&drive) - before, 10);
    closed_loop(&mut drive, 1, 1, |_| Command::Trim { at: 0, bytes: 1 << 20 });
    let before = count(&drive);
    closed_loop(&mut drive, 1, 10, |i| Command::Read { at: i * 7 * 4096, bytes: 4096 });
    assert_eq!(count(&drive) - before, 0, "trimmed blocks are not on flash");
}

#[test]
fn a_program_unit_is_read_by_one_command_as_on_zones() {
    let profile = |name| Profile::named(name).unwrap().scaled(170).unwrap();
    let (zones, blocks) = (profile("atc21-zns"), profile("atc21-28op"));
    let shape = zones.zoned_shape().unwrap();
    let took = |drive: &mut dyn Model, (at, bytes): (u64, u64)| {
        let (now, before) = (drive.core().now(), drive.core().stats().dies.iter().map(|die| die.reads).sum::<u64>());
        drive.submit(now, 1, Command::Read { at, bytes });
        let mut answers = Vec::new();
        drive.advance(u64::MAX, &mut answers);
        (answers[0].at - now, drive.core().stats().dies.iter().map(|die| die.reads).sum::<u64>() - before)
    };
    for (place, commands) in [
        ((0, 192 << 10), 1),
        ((64 << 10, 128 << 10), 1),
        ((48 << 10, 32 << 10), 1),
        ((128 << 10, 128 << 10), 2),
        ((0, 4 << 10), 1),
    ] {
        let mut zoned = crate::zns::ZonedModel::new(zones.core_shape(1), shape.clone());
        zoned.preset(0, shape.zone_capacity_bytes, true);
        let mut drive = ConventionalModel::new(blocks.core_shape(1), blocks.conventional_shape().unwrap());
        drive.preset(0, drive.shape().logical_units());
        let (of_zone, of_blocks) = (took(&mut zoned, place), took(&mut drive, place));
        assert_eq!((of_zone, of_blocks.1), (of_blocks, commands), "{place:?}");
    }
}

#[test]
fn without_a_buffer_a_write_takes_its_program() {
    let mut drive = model("splitzns-conv-20op");
    let takes = closed_loop(&mut drive, 1, 3, |i| Command::Write { at: i << 20, bytes: 64 << 10, stream: 0 });
    assert_eq!(takes, 3 * 960_000);
}

/// `test-conv` with other collection.
fn changed(change: impl FnOnce(&mut ConventionalShape)) -> ConventionalModel {
    let profile = Profile::named("test-conv").unwrap();
    let mut shape = profile.conventional_shape().unwrap();
    change(&mut shape);
    ConventionalModel::new(profile.core_shape(1), shape)
}

#[test]
fn a_drive_may_end_within_a_mapping_unit() {
    let end = 1 << 20;
    let mut drive = changed(|shape| (shape.map_bytes, shape.logical_bytes) = (8192, end + 4096));
    closed_loop(&mut drive, 1, 1, |_| Command::Write { at: end, bytes: 4096, stream: 0 });
    assert!(drive.ftl().lookup(end / 8192).is_some());
    closed_loop(&mut drive, 1, 1, |_| Command::Trim { at: end, bytes: 4096 });
    assert!(drive.ftl().lookup(end / 8192).is_none(), "no host will ever trim more of it");
}

/// Lets the drive do by itself what it does without commands.
fn idle(drive: &mut ConventionalModel) {
    while let Some(at) = drive.next_event() {
        drive.advance(at, &mut Vec::new());
    }
}

#[test]
fn an_idle_drive_collects_in_the_background_and_the_next_burst_is_faster() {
    let burst = |background_below: usize| {
        let mut drive = changed(|shape| shape.background_below = background_below);
        let units = drive.shape().logical_units();
        let mut rng = Rng::seeded(5);
        let mut random = move |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream: 0 };
        closed_loop(&mut drive, 16, units * 4, &mut random);
        let before = drive.flash_writes();
        idle(&mut drive);
        let (free, moved) = (drive.ftl().free_blocks(), drive.flash_writes().since(&before));
        (free, moved.collection_bytes, closed_loop(&mut drive, 16, units / 16, &mut random))
    };
    let (free, _, slow) = burst(0);
    assert!(free < 12, "{free} superblocks are free without it");
    let (free, moved, fast) = burst(20);
    assert!(free >= 20 && moved > 0, "{free} superblocks, {moved} bytes moved");
    assert!(fast * 10 < slow * 8, "a burst takes {fast} ns after collection, {slow} ns without");
}

#[test]
fn background_collection_leaves_the_drive_to_its_host() {
    let mut drive = changed(|shape| shape.background_below = 60);
    let units = drive.shape().logical_units();
    let mut rng = Rng::seeded(5);
    let mut random = move |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream: 0 };
    closed_loop(&mut drive, 16, units * 4, &mut random);
    // While the host writes there is no idle moment: not more is free than collection in the foreground needs.
    let free = drive.ftl().free_blocks();
    assert!(free < 12, "{free} superblocks are free");
}

#[test]
fn cost_and_benefit_beat_greed_where_some_data_is_hot() {
    let amplification = |policy: Policy, is_skewed: bool| {
        let mut drive = changed(|shape| shape.policy = policy);
        let units = drive.shape().logical_units();
        let (hot, mut rng) = (units / 10, Rng::seeded(9));
        let mut next = move |_| {
            let unit = if is_skewed && rng.chance(0.9) { rng.below(hot) } else { rng.below(units) };
            Command::Write { at: unit * 4096, bytes: 4096, stream: 0 }
        };
        closed_loop(&mut drive, 16, units, |i| Command::Write { at: i * 4096, bytes: 4096, stream: 0 });
        closed_loop(&mut drive, 16, units * 8, &mut next);
        let before = drive.flash_writes();
        closed_loop(&mut drive, 16, units * 4, &mut next);
        drive.flash_writes().since(&before).amplification()
    };
    let (greedy, cost_benefit) = (amplification(Policy::Greedy, true), amplification(Policy::CostBenefit, true));
    assert!(cost_benefit < greedy * 0.97, "skewed: {cost_benefit:.3} by cost and benefit, {greedy:.3} by greed");
    let (greedy, cost_benefit) = (amplification(Policy::Greedy, false), amplification(Policy::CostBenefit, false));
    assert!(greedy <= cost_benefit * 1.02, "uniform: {cost_benefit:.3} by cost and benefit, {greedy:.3} by greed");
}

#[test]
fn collection_works_as_hard_as_it_must() {
    let shape = Profile::named("atc21-7op").unwrap().conventional_shape().unwrap();
    assert_eq!((shape.collect_below, shape.collect_depth_min, shape.collect_depth), (6, 24, 80));
    assert_eq!([9, 5, 4, 3, 2, 1, 0].map(|free| shape.collect_depth_at(free)), [24, 24, 42, 61, 80, 80, 80]);
    let all_of_it = ConventionalShape { collect_depth_min: 80, ..shape.clone() };
    assert_eq!([5, 2, 0].map(|free| all_of_it.collect_depth_at(free)), [80; 3]);
    let no_steps = ConventionalShape { collect_below: 3, ..shape };
    assert_eq!([2, 1, 0].map(|free| no_steps.collect_depth_at(free)), [24, 80, 80]);
}

#[test]
fn a_host_in_no_hurry_meets_less_of_collection_at_once() {
    let most_in_flight = |depth_min| {
        let mut drive = model("test-conv");
        drive.shape.collect_below = 6;
        drive.shape.collect_depth_min = depth_min;
        let units = drive.shape().logical_units();
        let mut rng = Rng::seeded(5);
        let mut most = 0;
        for i in 0..units * 3 {
            let at = if i < units { i } else { rng.below(units) };
            closed_loop(&mut drive, 1, 1, |_| Command::Write { at: at * 4096, bytes: 4096, stream: 0 });
            // Until all collection that is wanted has been done.
            while let Some(at) = drive.next_event() {
                drive.advance(at, &mut Vec::new());
                most = most.max(drive.collect_programs + drive.collecting.map_or(0, |victim| victim.reads));
            }
        }
        most
    };
    let (all_of_it, paced) = (most_in_flight(8), most_in_flight(2));
    // 2 to begin with, 4 while the superblock that it fills itself is missing.
    assert_eq!((all_of_it, paced), (8, 4));
}

#[test]
fn collection_that_shares_the_hosts_superblock_is_not_starved_by_it() {
    // The second writes to a stream that the drive does not have.
    for (streams, stream) in [(2, 0), (1, 1)] {
        let mut drive = changed(|shape| (shape.separate_collection, shape.streams) = (false, streams));
        let units = drive.shape().logical_units();
        let mut rng = Rng::seeded(11);
        closed_loop(&mut drive, 32, units * 6, |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream });
        let amplification = drive.flash_writes().amplification();
        assert!((1.8..4.0).contains(&amplification), "{amplification} with {streams} streams");
    }
}

#[test]
fn a_stream_that_the_drive_does_not_have_is_stream_0() {
    let mut drive = model("test-conv");
    assert_eq!(drive.shape().streams, 2);
    for (at, stream) in [(0, 0), (4096, 1), (8192, 2)] {
        closed_loop(&mut drive, 1, 1, |_| Command::Write { at, bytes: 4096, stream });
    }
    let block_of = |unit| drive.place_of(drive.ftl().lookup(unit).unwrap()).0;
    assert_eq!((block_of(2) == block_of(0), block_of(2) == block_of(1)), (true, false));
}

#[test]
fn reads_go_before_programs_only_if_the_drive_has_a_scheduler() {
    let behind_programs = |reads_in_order: bool| {
        let profile = Profile::named("splitzns-conv-20op").unwrap().scaled(64).unwrap();
        let core = CoreShape { reads_in_order, ..profile.core_shape(1) };
        let mut drive = ConventionalModel::new(core, profile.conventional_shape().unwrap());
        let unit_bytes = 64 << 10;
        closed_loop(&mut drive, 1, 1, |_| Command::Write { at: 0, bytes: unit_bytes, stream: 0 });
        let now = drive.core().now();
        // Three programs for every die, of which one runs.
        (0..48).for_each(|i| {
            _ = drive.submit(now, i, Command::Write { at: (i + 1) * unit_bytes, bytes: unit_bytes, stream: 0 })
        });
        drive.advance(now, &mut Vec::new());
        drive.submit(now, 99, Command::Read { at: 0, bytes: 4096 });
        let mut answers = Vec::new();
        drive.advance(u64::MAX, &mut answers);
        answers.iter().find(|answer| answer.token == 99).unwrap().at - now
    };
    assert_eq!([false, true].map(behind_programs), [960_000 + 35_000, 3 * 960_000 + 35_000]);
}

#[test]
fn a_write_larger_than_the_buffer_does_not_wait_for_ever() {
    let mut drive = model("test-conv");
    let bytes = |i| if i % 3 == 0 { 4096 } else { 512 << 10 };
    closed_loop(&mut drive, 4, 30, |i| Command::Write { at: (i % 12) << 20, bytes: bytes(i), stream: 0 });
    assert!(drive.flash_writes().host_bytes >= 20 * (512 << 10), "{:?}", drive.flash_writes());
}

#[test]
fn a_write_larger_than_the_buffer_does_not_wait_for_the_last_of_many_reads() {
    let mut drive = model("test-conv");
    closed_loop(&mut drive, 1, 1, |_| Command::Write { at: 0, bytes: 64 << 10, stream: 0 });
    idle(&mut drive);
    let now = drive.core().now();
    drive.submit(now, 0, Command::Write { at: 1 << 20, bytes: 4096, stream: 0 });
    drive.submit(now, 1, Command::Write { at: 2 << 20, bytes: 512 << 10, stream: 0 });
    // Two of one die: when one is answered the other is being read.
    let read = Command::Read { at: 0, bytes: 4096 };
    for token in [2, 3] {
        drive.submit(now, token, read);
    }
    let (mut next, mut answers) = (4, Vec::new());
    while next < 1_000 {
        let at = drive.next_event().expect("a read is on its way");
        drive.advance(at, &mut answers);
        for answer in answers.drain(..) {
            match answer.token {
                0 => {}
                1 => return,
                _ => {
                    drive.submit(at, next, read);
                    next += 1;
                }
            }
        }
    }
    panic!("the write waits for reads");
}

#[test]
fn a_flush_waits_for_acknowledged_writes_that_wait_for_a_superblock() {
    let mut drive = model("test-conv");
    let units = drive.shape().logical_units();
    let mut rng = Rng::seeded(5);
    let mut random = move |_| Command::Write { at: rng.below(units) * 4096, bytes: 4096, stream: 0 };
    closed_loop(&mut drive, 16, units * 3, &mut random);
    let is_waiting = (0..1_000).any(|_| {
        closed_loop(&mut drive, 16, 16, &mut random);
        !drive.placing.is_empty()
    });
    assert!(is_waiting, "collection never slowed the host down");
    let waiting: Vec<u64> =
        drive.placing.iter().flat_map(|write| drive.units_of(write.from, write.to - write.from)).collect();
    closed_loop(&mut drive, 1, 1, |_| Command::Flush);
    assert!(drive.placing.is_empty());
    for unit in waiting {
        let (block, index) = drive.place_of(drive.ftl.lookup(unit).expect("it was written"));
        assert!(index < drive.progress[block as usize].on_flash, "unit {unit} is not on flash after the flush");
    }
}

/// A flush, and until all of it is on flash.
fn flushed(drive: &mut ConventionalModel) -> FlashWrites {
    closed_loop(drive, 1, 1, |_| Command::Flush);
    idle(drive);
    assert_eq!((drive.core().buffer_used_bytes(), drive.unfilled.len()), (0, 0));
    drive.flash_writes()
}

#[test]
fn parts_of_mapping_units_in_order_share_slots() {
    for (map_bytes, bytes, depth) in [(8192, 4096, 1), (8192, 4096, 8), (4096, 1024, 1)] {
        let mut drive = changed(|shape| shape.map_bytes = map_bytes);
        closed_loop(&mut drive, depth, 400, |i| Command::Write { at: i * bytes, bytes, stream: 0 });
        let writes = flushed(&mut drive);
        assert_eq!(writes.host_bytes, 400 * bytes);
        // At the end of a superblock a unit is not waited for.
        let (slots, least) = (drive.ftl().slots_written().0, 400 * bytes / map_bytes);
        let superblocks = 400 * bytes / drive.shape().superblock_bytes + 1;
        assert!((least..=least + superblocks).contains(&slots), "{slots} slots of {map_bytes} for {least}");
        assert_eq!(writes.rounding_bytes, (slots - least) * map_bytes);
    }
}

#[test]
fn a_part_of_a_mapping_unit_alone_costs_the_unit() {
    let mut drive = changed(|shape| shape.map_bytes = 8192);
    let place = |i| i * 7 % 400 * 8192;
    closed_loop(&mut drive, 4, 400, |i| Command::Write { at: place(i), bytes: 4096, stream: 0 });
    let writes = flushed(&mut drive);
    assert_eq!((writes.host_bytes, writes.rounding_bytes), (400 * 4096, 400 * 4096));
    assert!((writes.amplification() - 2.0).abs() < f64::EPSILON);
}

#[test]
fn whole_mapping_units_have_a_slot_for_each_write() {
    let mut drive = model("test-conv");
    closed_loop(&mut drive, 4, 100, |_| Command::Write { at: 0, bytes: 4096, stream: 0 });
    let writes = flushed(&mut drive);
    assert_eq!((writes.host_bytes, writes.rounding_bytes), (100 * 4096, 0));
    assert_eq!(drive.ftl().slots_written().0, 100);
}

#[test]
fn what_is_programmed_is_what_the_host_wrote_and_what_makes_whole_units_of_it() {
    for (is_early, separate) in [(true, true), (true, false), (false, true)] {
        let profile = Profile::named("test-conv").unwrap();
        let mut shape = profile.conventional_shape().unwrap();
        (shape.map_bytes, shape.separate_collection) = (8192, separate);
        let mut drive = ConventionalModel::new(CoreShape { early_ack: is_early, ..profile.core_shape(1) }, shape);
        let (mut rng, blocks, mut written) = (Rng::seeded(13), drive.shape().logical_bytes / 4096, 0);
        for _ in 0..20 {
            closed_loop(&mut drive, 16, 1_000, |_| {
                let (at, many) = (rng.below(blocks - 8), 1 + rng.below(8));
                let stream = u32::try_from(rng.below(2)).unwrap();
                written += many * 4096;
                if rng.chance(0.05) {
                    written -= many * 4096;
                    return Command::Trim { at: at * 4096, bytes: many * 4096 };
                }
                Command::Write { at: at * 4096, bytes: many * 4096, stream }
            });
            let writes = flushed(&mut drive);
            assert_eq!(writes.host_bytes, written);
            assert_eq!(writes.host_bytes + writes.rounding_bytes, drive.ftl().slots_written().0 * 8192);
        }
        assert!(drive.flash_writes().collection_bytes > 0 && drive.flash_writes().rounding_bytes > 0);
    }
}
