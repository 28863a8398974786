use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::clients::{Client, VirtualTime};
use crate::model::{Answer, Command, Model};
use crate::profile::Profile;

const SCALE: u64 = 8;
const ALL: SplitShape = SplitShape {
    ring_bytes: u64::MAX,
    ring_durable: true,
    preread_bytes: 64 << 10,
    page_bytes: 16 << 10,
    near_reads: true,
    restart_reads: false,
    queries_first: true,
    ring_serves_reads: true,
};
const NATIVE: SplitShape = SplitShape { ring_bytes: 0, preread_bytes: 0, queries_first: false, ..ALL };

/// The paper's drive at a scale, with these parts; the ring, if there is one, holds two zones.
fn drive(parts: SplitShape) -> ZonedModel {
    let profile = Profile::named("splitzns").unwrap().scaled(SCALE).unwrap();
    let mut shape = profile.zoned_shape().unwrap();
    let ring_bytes = if parts.ring_bytes > 0 { 2 * shape.zone_capacity_bytes } else { 0 };
    shape.durable_buffer = parts.ring_durable;
    shape.split = Some(SplitShape { ring_bytes, ..parts });
    ZonedModel::new(profile.core_shape(1), shape)
}

fn subzone_bytes(model: &ZonedModel) -> u64 {
    model.shape().zone_capacity_bytes / 16
}

/// Submits a command and runs until nothing is going on; how long it took.
fn takes(model: &mut ZonedModel, command: Command) -> Nanos {
    let start = model.core().now();
    model.submit(start, 1, command);
    let mut answers: Vec<Answer> = Vec::new();
    model.advance(u64::MAX, &mut answers);
    let answer = answers.iter().find(|answer| answer.token == 1).expect("answered");
    answer.at - start
}

/// Fills subzone after subzone, splitting zone after zone.
struct Filler {
    /// What is left to write.
    bytes: Rc<Cell<u64>>,
    write_bytes: u64,
    subzone_bytes: u64,
    at: (u32, u16, u64),
    split: bool,
}

impl Client for Filler {
    fn next(&mut self, now: Nanos) -> Option<(Nanos, Command)> {
        if !self.split {
            self.split = true;
            return Some((now, Command::Split { zone: self.at.0 }));
        }
        self.bytes.set(self.bytes.get().checked_sub(self.write_bytes)?);
        let (zone, index, offset) = self.at;
        let command = Command::AppendSubzone { zone, index, bytes: self.write_bytes };
        self.at = match (offset + self.write_bytes, index) {
            (next, _) if next < self.subzone_bytes => (zone, index, next),
            (_, 15) => {
                self.split = false;
                (zone + 1, 0, 0)
            }
            _ => (zone, index + 1, 0),
        };
        Some((now, command))
    }

    fn answered(&mut self, _: Nanos, _: &Answer) {}
}

/// MiB/s of one writer that fills `zones` zones, subzone after subzone.
fn fill_mib_s(parts: SplitShape, zones: u64) -> (f64, SplitCounts) {
    let model = drive(parts);
    let (zone, subzone) = (model.shape().zone_capacity_bytes, subzone_bytes(&model));
    let total = zones * zone;
    let mut filler = Filler {
        bytes: Rc::new(Cell::new(total)),
        write_bytes: 256 << 10,
        subzone_bytes: subzone,
        at: (0, 0, 0),
        split: false,
    };
    let mut time = VirtualTime::new(model);
    time.run(&mut [&mut filler], u64::MAX);
    let counts = time.model().split_counts().unwrap();
    (total as f64 / f64::from(1 << 20) / (time.now() as f64 / 1e9), counts)
}

#[test]
fn the_ring_makes_subzones_as_fast_as_zones() {
    let wide = 1041.7;
    let (native, _) = fill_mib_s(NATIVE, 2);
    assert!((native * 16.0 / wide - 1.0).abs() < 0.01, "one chip of 16: {native}");
    // The ring takes two zones at once; of the rest every step uses all chips.
    let (ring, counts) = fill_mib_s(ALL, 12);
    assert!(ring > 0.9 * wide, "{ring} of {wide} MiB/s: {counts:?}");
    let use_of_chips = counts.ring_pages as f64 / (counts.ring_steps * 16) as f64;
    assert!(use_of_chips > 0.95 && counts.ring_waits > 100, "{use_of_chips} {counts:?}");
}

#[test]
fn a_zone_has_no_chip_twice_and_the_counter_goes_on() {
    let mut model = drive(ALL);
    for zone in 0..3 {
        takes(&mut model, Command::Split { zone });
    }
    for zone in 0..3 {
        takes(&mut model, Command::AppendSubzone { zone, index: 0, bytes: 4096 });
    }
    assert_eq!([0, 1, 2].map(|zone| model.chip_of_subzone(zone, 0)), [Some(0), Some(1), Some(2)]);
    for index in (1..16).rev() {
        takes(&mut model, Command::AppendSubzone { zone: 1, index, bytes: 4096 });
    }
    let chips: std::collections::BTreeSet<_> = (0..16).map(|index| model.chip_of_subzone(1, index).unwrap()).collect();
    assert_eq!(chips.len(), 16);
    takes(&mut model, Command::ResetSubzone { zone: 1, index: 7 });
    assert_eq!(model.chip_of_subzone(1, 7), None);
    takes(&mut model, Command::AppendSubzone { zone: 1, index: 7, bytes: 4096 });
    assert_eq!(
        (0..16).filter_map(|index| model.chip_of_subzone(1, index)).count(),
        16,
        "the only one left is taken again"
    );
}

#[test]
fn reads_of_the_ring_can_be_made_to_cost_what_flash_costs() {
    let cost = |ring_serves_reads: bool| {
        let mut model = drive(SplitShape { ring_serves_reads, ..ALL });
        takes(&mut model, Command::Split { zone: 3 });
        takes(&mut model, Command::AppendSubzone { zone: 3, index: 0, bytes: 64 << 10 });
        let start = 3 * model.shape().zone_size_bytes;
        (takes(&mut model, Command::Read { at: start, bytes: 16 << 10 }), model.core().shape().sense_ns)
    };
    let (in_ring, _) = cost(true);
    let (as_flash, sense) = cost(false);
    assert_eq!((in_ring, as_flash), (0, sense));
}

#[test]
fn what_is_in_the_ring_is_read_from_it() {
    let mut model = drive(ALL);
    takes(&mut model, Command::Split { zone: 3 });
    assert_eq!(takes(&mut model, Command::AppendSubzone { zone: 3, index: 2, bytes: 1 << 20 }), 0);
    let at = 3 * model.shape().zone_size_bytes + 2 * subzone_bytes(&model);
    assert_eq!(takes(&mut model, Command::Read { at: at + 4096, bytes: 64 << 10 }), 0);
    assert_eq!(model.split_counts().unwrap().reads.ring_bytes, 64 << 10);
    assert_eq!(model.in_ring(), [(3, 2, 0)], "nothing of it is on flash");
}

#[test]
fn without_a_durable_ring_a_flush_empties_it() {
    let mut model = drive(SplitShape { ring_durable: false, ..ALL });
    takes(&mut model, Command::Split { zone: 0 });
    takes(&mut model, Command::AppendSubzone { zone: 0, index: 0, bytes: (1 << 20) + 4096 });
    assert_eq!(model.in_ring().len(), 1);
    assert_eq!(takes(&mut model, Command::Flush), 17 * 960_000, "16 pages and what there is of one more, on one chip");
    assert_eq!(model.in_ring(), []);
    let mut durable = drive(ALL);
    takes(&mut durable, Command::Split { zone: 0 });
    takes(&mut durable, Command::AppendSubzone { zone: 0, index: 0, bytes: 1 << 20 });
    assert_eq!(takes(&mut durable, Command::Flush), 0);
}

#[test]
fn a_reset_erases_one_block_of_one_chip() {
    let mut model = drive(NATIVE);
    takes(&mut model, Command::Split { zone: 5 });
    takes(&mut model, Command::AppendSubzone { zone: 5, index: 1, bytes: 64 << 10 });
    let erase_ns = model.core().shape().erase_ns;
    assert_eq!(takes(&mut model, Command::ResetSubzone { zone: 5, index: 1 }), erase_ns);
    assert_eq!(model.flash_writes().erases, 1);
    assert_eq!([0, 1].map(|chip| model.block_wear(5, chip)), [1, 0], "wear is counted for each block");
    let BlockWear { least, most, total, blocks } = model.wear_of_blocks();
    assert_eq!((least, most, total), (0, 1, 1), "of {blocks} blocks");
    assert!(takes(&mut model, Command::ResetSubzone { zone: 5, index: 1 }) == 0, "nothing is left to erase");
}

#[test]
fn the_wear_of_blocks_is_what_was_erased_of_them() {
    let mut model = drive(NATIVE);
    let unit = 64 << 10;
    takes(&mut model, Command::Append { zone: 1, bytes: 5 * unit });
    takes(&mut model, Command::Open { zone: 2 });
    takes(&mut model, Command::Finish { zone: 3 });
    (1..4).for_each(|zone| _ = takes(&mut model, Command::Reset { zone }));
    assert_eq!([1, 2, 3].map(|zone| model.wear(zone)), [1, 0, 0]);
    takes(&mut model, Command::Split { zone: 1 });
    takes(&mut model, Command::AppendSubzone { zone: 1, index: 0, bytes: unit });
    takes(&mut model, Command::ResetSubzone { zone: 1, index: 0 });
    let BlockWear { least, total, .. } = model.wear_of_blocks();
    assert_eq!((least, total, model.flash_writes().erases), (0, 6, 6));
}

#[test]
fn a_reset_of_what_never_left_the_ring_erases_nothing() {
    let mut model = drive(ALL);
    takes(&mut model, Command::Split { zone: 5 });
    takes(&mut model, Command::AppendSubzone { zone: 5, index: 1, bytes: 1 << 20 });
    takes(&mut model, Command::FinishSubzone { zone: 5, index: 1 });
    assert_eq!(takes(&mut model, Command::ResetSubzone { zone: 5, index: 1 }), 0);
    assert_eq!((model.flash_writes().erases, model.wear_of_blocks().total), (0, 0));
    assert_eq!((model.in_ring(), model.chip_of_subzone(5, 1)), (vec![], None));
    assert_eq!(model.core().buffer_used_bytes(), 0);
}

/// Two full subzones on two chips, both read in order up to their second MiB.
fn two_tables(parts: SplitShape) -> (ZonedModel, [u64; 2]) {
    let mut model = drive(parts);
    let bytes = subzone_bytes(&model);
    takes(&mut model, Command::Split { zone: 0 });
    for index in 0..2 {
        model.preset_subzone(0, index, bytes, true);
    }
    for index in 0..2 {
        takes(&mut model, Command::Read { at: index * bytes, bytes: 64 << 10 });
    }
    (model, [0, bytes])
}

#[test]
fn compactions_make_other_chips_read_ahead() {
    let (mut model, [first, second]) = two_tables(ALL);
    let sense = model.core().shape().sense_ns;
    // The second table's read made the first's chip read its next 64 KiB.
    assert_eq!(model.split_counts().unwrap().reads.prereads, 1);
    assert_eq!(takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 64 << 10 }), 0, "read ahead");
    assert_eq!(model.split_counts().unwrap().reads.preread_hits, 1);
    assert_eq!(takes(&mut model, Command::Read { at: second + (64 << 10), bytes: 64 << 10 }), sense);
    let (mut alone, [first, _]) = two_tables(SplitShape { preread_bytes: 0, ..ALL });
    assert_eq!(takes(&mut alone, Command::Read { at: first + (64 << 10), bytes: 64 << 10 }), sense);
}

#[test]
fn a_read_that_goes_past_what_was_read_ahead_gets_the_rest_from_flash() {
    let (mut model, [first, _]) = two_tables(ALL);
    let sense = model.core().shape().sense_ns;
    // 64 KiB of it were read ahead.
    assert_eq!(takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 128 << 10 }), sense);
    let reads = model.split_counts().unwrap().reads;
    assert_eq!((reads.preread_hits, reads.preread_hit_bytes), (1, 64 << 10));
    // While it is on its way the rest waits for it, on the same chip.
    let (mut model, [first, second]) = two_tables(ALL);
    takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 64 << 10 });
    let now = model.core().now();
    model.submit(now, 7, Command::Read { at: second + (64 << 10), bytes: 64 << 10 });
    model.submit(now, 8, Command::Read { at: first + (128 << 10), bytes: 128 << 10 });
    let mut answers = Vec::new();
    model.advance(u64::MAX, &mut answers);
    let at = answers.iter().find(|answer| answer.token == 8).unwrap().at;
    assert_eq!(at, now + 2 * sense);
}

#[test]
fn the_rest_of_a_read_does_not_wait_behind_what_came_later() {
    let (mut model, [first, second]) = two_tables(ALL);
    let sense = model.core().shape().sense_ns;
    takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 64 << 10 });
    let now = model.core().now();
    // Reads the first's next 64 KiB ahead.
    model.submit(now, 7, Command::Read { at: second + (64 << 10), bytes: 64 << 10 });
    model.submit(now, 8, Command::Read { at: first + (128 << 10), bytes: 128 << 10 });
    // Another on the first's chip, in order as well.
    model.submit(now, 9, Command::Read { at: first + (256 << 10), bytes: 64 << 10 });
    let mut answers = Vec::new();
    model.advance(u64::MAX, &mut answers);
    let at = |token: u64| answers.iter().find(|answer| answer.token == token).unwrap();
    assert_eq!([8, 9].map(|token| at(token).at - now), [2 * sense, 3 * sense]);
    assert_eq!(at(8).attribution.total_ns(), 2 * sense, "{:?}", at(8).attribution);
}

/// As [`two_tables`] with eight units read ahead, which are on their way for the first table from 576 KiB on; the time.
fn eight_units_ahead() -> (ZonedModel, Nanos, u64) {
    let (mut model, [first, second]) = two_tables(SplitShape { preread_bytes: 512 << 10, ..ALL });
    assert_eq!(takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 512 << 10 }), 0, "read ahead");
    let now = model.core().now();
    model.submit(now, 7, Command::Read { at: second + (64 << 10), bytes: 64 << 10 });
    assert_eq!(model.split_counts().unwrap().reads.prereads, 2);
    (model, now, first)
}

fn answered_at(model: &mut ZonedModel, token: u64) -> Nanos {
    let mut answers = Vec::new();
    model.advance(u64::MAX, &mut answers);
    answers.iter().find(|answer| answer.token == token).unwrap().at
}

#[test]
fn a_second_pass_is_read_ahead_whatever_the_first_has_left() {
    let (mut model, [first, second]) = two_tables(SplitShape { restart_reads: true, ..ALL });
    let unit = 64 << 10;
    let mut read = |at: u64| takes(&mut model, Command::Read { at, bytes: unit });
    read(first + unit);
    // From flash: reads the first's third unit ahead.
    read(second + unit);
    read(first);
    let from_flash = (0..3).any(|at| read(second + (2 + at) * unit) > 0);
    assert!(from_flash, "the second's chip reads ahead once");
    assert_eq!(read(first + unit), 0, "what comes next in this pass");
}

#[test]
fn a_full_subzone_that_was_read_is_no_candidate_even_if_nobody_finished_it() {
    let mut model = drive(SplitShape { ring_bytes: 0, ..ALL });
    let bytes = subzone_bytes(&model);
    takes(&mut model, Command::Split { zone: 0 });
    (0..2).for_each(|index| _ = takes(&mut model, Command::AppendSubzone { zone: 0, index, bytes }));
    takes(&mut model, Command::Read { at: 0, bytes });
    takes(&mut model, Command::Read { at: bytes, bytes: 64 << 10 });
    assert_eq!(model.splits().read_in_order, [(0, 1)]);
}

#[test]
fn a_query_does_not_wait_for_all_that_is_read_ahead() {
    let (mut model, now, first) = eight_units_ahead();
    let sense = model.core().shape().sense_ns;
    model.submit(now, 8, Command::Read { at: first + (2 << 20), bytes: 16 << 10 });
    assert_eq!(answered_at(&mut model, 8), now + 2 * sense, "behind the unit that is being read");
}

#[test]
fn a_read_waits_for_what_it_needs_of_what_is_read_ahead() {
    for (bytes, units) in [(4 << 10, 1), (64 << 10, 1), (68 << 10, 2), (512 << 10, 8)] {
        let (mut model, now, first) = eight_units_ahead();
        let sense = model.core().shape().sense_ns;
        model.submit(now, 8, Command::Read { at: first + (576 << 10), bytes });
        assert_eq!(answered_at(&mut model, 8), now + units * sense, "{bytes} bytes");
        assert_eq!(model.split_counts().unwrap().reads.preread_hit_bytes, (512 << 10) + bytes);
    }
}

#[test]
fn a_reset_lets_a_write_into_the_ring_that_waits() {
    let mut model = drive(ALL);
    let subzone = subzone_bytes(&model);
    for zone in 0..3 {
        takes(&mut model, Command::Split { zone });
    }
    for at in 0..32_u16 {
        takes(&mut model, Command::AppendSubzone { zone: u32::from(at / 16), index: at % 16, bytes: subzone });
    }
    let start = model.core().now();
    model.submit(start, 1, Command::AppendSubzone { zone: 2, index: 0, bytes: subzone / 2 });
    let mut answers = Vec::new();
    model.advance(start + 1_000, &mut answers);
    assert_eq!((answers.len(), model.split_counts().unwrap().ring_waits), (0, 1), "the ring is full");
    model.submit(start + 1_000, 2, Command::ResetSubzone { zone: 0, index: 5 });
    model.advance(u64::MAX, &mut answers);
    let at = answers.iter().find(|answer| answer.token == 1).unwrap().at;
    assert_eq!(at, start + 1_000, "not before the reset, and no later");
}

#[test]
fn a_subzone_that_lost_its_end_is_not_finished() {
    for (ring_durable, kept) in [(true, true), (false, false)] {
        let mut model = drive(SplitShape { ring_durable, ..ALL });
        takes(&mut model, Command::Split { zone: 0 });
        takes(&mut model, Command::AppendSubzone { zone: 0, index: 0, bytes: 1 << 20 });
        takes(&mut model, Command::FinishSubzone { zone: 0, index: 0 });
        model.lose_power();
        let timing = &model.splits().subzone((0, 0)).timing;
        assert_eq!((timing.is_finished(), timing.admitted() > 0), (kept, kept));
    }
}

#[test]
fn a_read_near_the_pointer_is_at_it_if_it_is_long() {
    let mut model = drive(ALL);
    takes(&mut model, Command::Split { zone: 0 });
    let bytes = subzone_bytes(&model);
    model.preset_subzone(0, 0, bytes, true);
    let mut read = |at: u64, bytes: u64| {
        let before = model.split_counts().unwrap().reads.in_order;
        takes(&mut model, Command::Read { at, bytes });
        model.split_counts().unwrap().reads.in_order > before
    };
    assert!(read(0, 4096), "a header");
    assert!(!read(8192, 8192), "a query");
    assert!(read(4096, 64 << 10), "a table behind the header");
    assert!(read(68 << 10, 64 << 10) && !read(8 << 10, 64 << 10));
}

/// Section 4.4.2: at its very address, and a subzone is an input once its pointer is not at its start.
#[test]
fn by_the_papers_rule_only_a_read_at_the_pointer_is_a_compactions() {
    let rules = [true, false].map(|near_reads| {
        let mut model = drive(SplitShape { near_reads, ..ALL });
        let bytes = subzone_bytes(&model);
        takes(&mut model, Command::Split { zone: 0 });
        (0..2).for_each(|index| model.preset_subzone(0, index, bytes, true));
        let mut read = |at: u64, bytes: u64| {
            let before = model.split_counts().unwrap().reads;
            takes(&mut model, Command::Read { at, bytes });
            let after = model.split_counts().unwrap().reads;
            (after.in_order > before.in_order, after.prereads > before.prereads)
        };
        let behind_its_header = read(4096, 64 << 10);
        let (header, of_another) = (read(bytes, 4096), read(bytes + 4096, 64 << 10));
        let in_the_pointers_page = read(bytes + (64 << 10), 64 << 10);
        [behind_its_header, header, of_another, in_the_pointers_page]
    });
    let [near, paper] = rules;
    assert_eq!(near.map(|(in_order, _)| in_order), [true, true, true, true]);
    assert_eq!(paper.map(|(in_order, _)| in_order), [false, true, true, false]);
    let behind_headers = [true, false].map(|near_reads| {
        let mut model = drive(SplitShape { near_reads, ..ALL });
        let bytes = subzone_bytes(&model);
        takes(&mut model, Command::Split { zone: 0 });
        for index in 0..2 {
            model.preset_subzone(0, index, bytes, true);
            takes(&mut model, Command::Read { at: u64::from(index) * bytes, bytes: 4096 });
        }
        model.split_counts().unwrap().reads.prereads
    });
    assert_eq!(behind_headers, [0, 1]);
}

#[test]
fn no_more_subzones_are_read_ahead_than_there_are_buffers() {
    let mut model = drive(ALL);
    let (zone_bytes, subzone) = (model.shape().zone_size_bytes, subzone_bytes(&model));
    for zone in 0..10_u64 {
        let number = u32::try_from(zone).unwrap();
        takes(&mut model, Command::Split { zone: number });
        for index in 0..16_u16 {
            model.preset_subzone(number, index, subzone, true);
            takes(&mut model, Command::Read { at: zone * zone_bytes + u64::from(index) * subzone, bytes: 4096 });
        }
    }
    assert_eq!(model.splits().read_in_order, [], "headers are no inputs of compactions");
    for at in 0..160_u64 {
        takes(&mut model, Command::Read { at: at / 16 * zone_bytes + at % 16 * subzone, bytes: 64 << 10 });
    }
    let splits = model.splits();
    assert_eq!((splits.read_in_order.len(), splits.read_in_order[0]), (128, (2, 0)), "the last 128");
    assert!(splits.subzone((0, 0)).preread.is_none());
}

#[test]
fn a_chip_reads_ahead_for_one_subzone_at_a_time() {
    let mut model = drive(ALL);
    let (zone_bytes, subzone) = (model.shape().zone_size_bytes, subzone_bytes(&model));
    for zone in 0..2 {
        takes(&mut model, Command::Split { zone });
        (0..16).for_each(|index| model.preset_subzone(zone, index, subzone, true));
    }
    let mut die = |id: Id| {
        let chip = model.splits().subzone(id).chip.unwrap();
        model.die_of_chip(id.0, chip)
    };
    let of_first = die((0, 0));
    let neighbour = (0..16).find(|index| die((1, *index)) == of_first).unwrap();
    let reader = (0..16).find(|index| die((1, *index)) != of_first).unwrap();
    let prereads = [(0, 0), (1, neighbour), (1, reader)].map(|(zone, index): Id| {
        let at = u64::from(zone) * zone_bytes + u64::from(index) * subzone;
        takes(&mut model, Command::Read { at, bytes: 64 << 10 });
        model.split_counts().unwrap().reads.prereads
    });
    assert_eq!(prereads, [0, 0, 1], "the first two share a chip");
}

#[test]
fn a_read_over_many_subzones_reads_all_their_chips() {
    let mut model = drive(NATIVE);
    let subzone = subzone_bytes(&model);
    takes(&mut model, Command::Split { zone: 0 });
    (0..4).for_each(|index| model.preset_subzone(0, index, subzone, true));
    let mut chips_read = |bytes: u64| {
        let reads = |model: &ZonedModel| model.core().stats().dies.iter().map(|die| die.reads).collect::<Vec<_>>();
        let before = reads(&model);
        takes(&mut model, Command::Read { at: 0, bytes });
        reads(&model).iter().zip(before).filter(|(after, before)| *after > before).count()
    };
    assert_eq!([1, 2, 4].map(|subzones| chips_read(subzones * subzone)), [1, 2, 4]);
}

#[test]
fn a_reset_forgets_what_was_read_of_a_subzone_without_bytes() {
    let mut model = drive(ALL);
    takes(&mut model, Command::Split { zone: 0 });
    takes(&mut model, Command::Read { at: 0, bytes: 64 << 10 });
    takes(&mut model, Command::ResetSubzone { zone: 0, index: 0 });
    takes(&mut model, Command::AppendSubzone { zone: 0, index: 0, bytes: 1 << 20 });
    let before = model.split_counts().unwrap().reads.in_order;
    takes(&mut model, Command::Read { at: 0, bytes: 64 << 10 });
    assert_eq!(model.split_counts().unwrap().reads.in_order, before + 1, "a compaction begins");
}

#[test]
fn a_joined_zone_is_read_from_flash_whatever_was_read_of_its_subzones() {
    let mut model = drive(ALL);
    let (zone_bytes, bytes) = (model.shape().zone_size_bytes, subzone_bytes(&model));
    takes(&mut model, Command::Split { zone: 1 });
    takes(&mut model, Command::Read { at: zone_bytes, bytes: 64 << 10 });
    takes(&mut model, Command::AppendSubzone { zone: 1, index: 1, bytes: 64 << 10 });
    takes(&mut model, Command::Read { at: zone_bytes + bytes, bytes: 64 << 10 });
    assert_eq!(model.splits().read_in_order, [(1, 1)], "of an empty one nothing can be read ahead");
    takes(&mut model, Command::ResetSubzone { zone: 1, index: 1 });
    takes(&mut model, Command::Join { zone: 1 });
    takes(&mut model, Command::Write { at: zone_bytes, bytes: 1 << 20, stream: 0 });
    // Tables of another zone are read, and ahead.
    takes(&mut model, Command::Split { zone: 0 });
    for index in 0..2 {
        model.preset_subzone(0, index, bytes, true);
        takes(&mut model, Command::Read { at: u64::from(index) * bytes, bytes: 64 << 10 });
    }
    let sense = model.core().shape().sense_ns;
    assert_eq!(takes(&mut model, Command::Read { at: zone_bytes, bytes: 16 << 10 }), sense);
}

#[test]
fn what_ends_after_a_zone_was_joined_does_not_split_it() {
    let mut model = drive(NATIVE);
    takes(&mut model, Command::Split { zone: 2 });
    let now = model.core().now();
    model.submit(now, 7, Command::AppendSubzone { zone: 2, index: 0, bytes: 64 << 10 });
    model.advance(now, &mut Vec::new());
    model.submit(now, 8, Command::ResetSubzone { zone: 2, index: 0 });
    model.submit(now, 9, Command::Join { zone: 2 });
    model.advance(u64::MAX, &mut Vec::new());
    assert!(!model.is_split(2));
}

#[test]
fn a_read_of_what_is_on_its_way_waits_for_it() {
    let (mut model, [first, second]) = two_tables(ALL);
    // Uses up what was read ahead of the first, so that the next read of the second reads it ahead again.
    takes(&mut model, Command::Read { at: first + (64 << 10), bytes: 64 << 10 });
    let now = model.core().now();
    model.submit(now, 7, Command::Read { at: second + (64 << 10), bytes: 64 << 10 });
    model.submit(now, 8, Command::Read { at: first + (128 << 10), bytes: 64 << 10 });
    let mut answers = Vec::new();
    model.advance(u64::MAX, &mut answers);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(|answer| answer.at == now + 35_000), "side by side: {answers:?}");
    assert!(
        answers.iter().all(|answer| answer.attribution.total_ns() == 35_000),
        "from its submission on: {answers:?}"
    );
}

#[test]
fn the_read_pointer_tells_queries_from_compactions() {
    let origins = |restart_reads: bool| {
        let (mut model, [first, _]) = two_tables(SplitShape { restart_reads, ..ALL });
        let mut read = |at: u64, origin| takes(&mut model, Command::ReadTold { at, bytes: 64 << 10, origin });
        read(first + (64 << 10), ReadOrigin::Compaction);
        read(first + (1 << 20), ReadOrigin::Query);
        // A second pass over the table, as after a compaction that was given up.
        read(first, ReadOrigin::Compaction);
        read(first + (64 << 10), ReadOrigin::Compaction);
        let reads = model.split_counts().unwrap().reads;
        (reads.told_right, reads.told_wrong)
    };
    assert_eq!(origins(false), (2, 2), "the paper's pointer does not come back");
    assert_eq!(origins(true), (4, 0));
}

#[test]
fn queries_go_before_what_waits_on_their_chip() {
    let wait = |queries_first: bool| {
        let mut model = drive(SplitShape { ring_bytes: 0, queries_first, ..ALL });
        let bytes = subzone_bytes(&model);
        takes(&mut model, Command::Split { zone: 0 });
        model.preset_subzone(0, 0, bytes / 2, false);
        let now = model.core().now();
        model.submit(now, 2, Command::AppendSubzone { zone: 0, index: 0, bytes: 512 << 10 });
        model.advance(now, &mut Vec::new());
        model.submit(now, 1, Command::Read { at: 1 << 20, bytes: 16 << 10 });
        let mut answers = Vec::new();
        model.advance(u64::MAX, &mut answers);
        answers.iter().find(|answer| answer.token == 1).unwrap().at - now
    };
    assert_eq!(wait(true), 960_000 + 35_000, "behind the program that runs");
    assert_eq!(wait(false), 8 * 960_000 + 35_000, "behind all that wait");
}

#[test]
fn memory_is_what_the_paper_counts() {
    let profile = Profile::named("splitzns").unwrap();
    let model = ZonedModel::new(profile.core_shape(1), profile.zoned_shape().unwrap());
    let memory = model.split_memory().unwrap();
    assert_eq!((memory.ring_bytes, memory.table_bytes), (1 << 30, 160 * 16 * 8));
    // 512 KiB for each of 128 inputs: the paper's 64 MiB.
    assert_eq!(memory.preread_bytes, 64 << 20);
}

#[test]
fn times_are_told_by_what_was_done() {
    use crate::zns::TimedWork as Work;
    let mut model = drive(NATIVE);
    let unit = 64 << 10;
    takes(&mut model, Command::Split { zone: 0 });
    let alone = takes(&mut model, Command::AppendSubzone { zone: 0, index: 0, bytes: 2 * unit });
    let wide = takes(&mut model, Command::Append { zone: 1, bytes: 2 * unit });
    let of_subzone = Command::ReadTold { at: 0, bytes: unit, origin: ReadOrigin::Query };
    let at = model.shape().zone_size_bytes;
    let of_wide = Command::ReadTold { at, bytes: 2 * unit, origin: ReadOrigin::Compaction };
    let read = takes(&mut model, of_subzone);
    takes(&mut model, of_wide);
    let reset = takes(&mut model, Command::ResetSubzone { zone: 0, index: 0 });
    assert!(alone == 2 * wide, "two units of one chip: {alone}, of two chips: {wide}");
    let of = |work| (model.times_of(work).count(), model.times_of(work).max_ns());
    assert_eq!((of(Work::SubzoneWrite), of(Work::WideWrite)), ((1, alone), (1, wide)));
    assert_eq!((of(Work::SubzoneQuery), of(Work::WideQuery).0), ((1, read), 0));
    assert_eq!((of(Work::WideCompaction).0, of(Work::SubzoneCompaction).0), (1, 0));
    assert_eq!((of(Work::Reset), of(Work::OtherRead).0), ((1, reset), 0), "splitting a zone takes no time that counts");
}
