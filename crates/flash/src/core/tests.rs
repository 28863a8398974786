use super::*;

fn shape() -> CoreShape {
    CoreShape {
        channels: 8,
        dies: 16,
        sense_ns: 35_000,
        program_ns: 960_000,
        erase_ns: 3_000_000,
        slice_ns: u64::MAX,
        collection_slice_ns: u64::MAX,
        reads_per_gap: 2,
        reads_in_order: false,
        resume_ns: 0,
        channel_bytes_per_s: 0,
        channel_piece_bytes: 32 << 10,
        read_serial_ns: 0,
        read_latency_ns: 0,
        bus_command_ns: 0,
        bus_bytes_per_s: 0,
        write_demand: Demand::default(),
        append_demand: Demand::default(),
        write_latency_ns: 0,
        append_latency_ns: 0,
        buffer_bytes: u64::MAX,
        early_ack: false,
        seed: 1,
    }
}

fn part(die: usize, bytes: u64) -> ReadPart {
    ReadPart { die, senses: 1, bytes, in_order: false }
}

fn answers(core: &mut Core) -> Vec<(u64, Nanos, Attribution)> {
    let mut all = Vec::new();
    while let Some(done) = core.step(u64::MAX) {
        if let Done::Answered { token, at, attribution } = done {
            all.push((token, at, attribution));
        }
    }
    all
}

/// Programs one unit for each write admitted, on the die of its token.
fn drain_writes(core: &mut Core) -> Vec<(u64, Nanos, Attribution)> {
    let mut all = Vec::new();
    while let Some(done) = core.step(u64::MAX) {
        match done {
            Done::Answered { token, at, attribution } => all.push((token, at, attribution)),
            Done::Admitted { request, token, at, .. } => {
                core.expect_programs(request, 1);
                let die = usize::try_from(token).unwrap() % core.shape().dies;
                let bytes = 64 << 10;
                let for_write = Some(request);
                core.program(
                    at,
                    &Program { die, bytes, buffer_bytes: bytes, class: Class::Host, tag: token, for_write },
                );
            }
            Done::Operation { .. } => {}
        }
    }
    all
}

#[test]
fn one_die_reads_one_page_after_the_other() {
    let mut core = Core::new(shape());
    for token in 0..100 {
        core.read(0, token, &[part(3, 16 << 10)], 16 << 10);
    }
    let all = answers(&mut core);
    assert_eq!(all.last().map(|a| (a.0, a.1)), Some((99, 3_500_000)));
    assert_eq!(core.stats().dies[3], DieStats { read_ns: 3_500_000, reads: 100, ..DieStats::default() });
}

#[test]
fn all_of_a_read_crosses_the_host_interface_wherever_it_is() {
    for parts in [vec![], vec![part(0, 4_000)], vec![part(0, 4_000), part(1, 4_000)]] {
        let mut core = Core::new(CoreShape { bus_bytes_per_s: 1_000_000_000, ..shape() });
        core.read(0, 1, &parts, 12_000);
        let sensed = if parts.is_empty() { 0 } else { 35_000 };
        let (_, at, attribution) = answers(&mut core)[0];
        assert_eq!((at, attribution.total_ns()), (sensed + 12_000, at), "{} parts", parts.len());
    }
}

#[test]
fn what_goes_on_counts_as_far_as_it_is_done() {
    let mut core = Core::new(CoreShape { channel_bytes_per_s: 1_000_000_000, ..shape() });
    let program = Program { die: 3, bytes: 20_000, buffer_bytes: 0, class: Class::Host, tag: 1, for_write: None };
    core.program(0, &program);
    let mut busy_at = |now: Nanos| {
        core.step(now);
        let stats = core.stats_at(now);
        (stats.channel_busy_ns[3], stats.dies[3].program_ns)
    };
    assert_eq!([5_000, 20_000, 320_000].map(&mut busy_at), [(5_000, 0), (20_000, 0), (20_000, 300_000)]);
    assert_eq!([980_000, 2_000_000].map(&mut busy_at), [(20_000, 960_000); 2]);
    core.read(2_000_000, 2, &[part(3, 7_000)], 7_000);
    let stats_at = |core: &mut Core, now: Nanos| {
        core.step(now);
        core.stats_at(now).dies[3].read_ns
    };
    assert_eq!([2_010_000, 2_036_000, 3_000_000].map(|now| stats_at(&mut core, now)), [10_000, 36_000, 42_000]);
}

#[test]
fn without_a_buffer_a_write_takes_its_program_and_then_its_latency() {
    let latency_ns = 2_000_000;
    let mut core = Core::new(CoreShape { write_latency_ns: latency_ns, ..shape() });
    core.write(0, 1, 64 << 10, HostWrite::Write);
    let (_, at, attribution) = drain_writes(&mut core)[0];
    assert!((960_000 + latency_ns / 2..=960_000 + latency_ns * 3 / 2).contains(&at), "{at}");
    assert_eq!((attribution.cell_ns, attribution.total_ns()), (960_000, at));
}

#[test]
fn all_dies_program_at_once() {
    let mut core = Core::new(shape());
    for token in 0..160 {
        core.write(0, token, 64 << 10, HostWrite::Write);
    }
    let all = drain_writes(&mut core);
    assert_eq!(all.len(), 160);
    assert_eq!(core.now(), 10 * 960_000, "160 units on 16 dies take ten programs");
    assert_eq!(core.buffer_used_bytes(), 0);
}

#[test]
fn a_read_waits_for_the_end_of_a_slice_only() {
    let mut core = Core::new(CoreShape { slice_ns: 100_000, resume_ns: 7_000, early_ack: true, ..shape() });
    core.write(0, 0, 64 << 10, HostWrite::Write);
    assert!(matches!(core.step(0), Some(Done::Admitted { .. })));
    let unit = Program { die: 0, bytes: 0, buffer_bytes: 64 << 10, class: Class::Host, tag: 9, for_write: None };
    core.program(0, &unit);
    while core.step(150_000).is_some() {}
    let request = core.read(150_000, 1, &[part(0, 4096)], 4096);
    while core.step(150_000).is_some() {}
    assert_eq!(core.not_before(request), 200_000, "nothing can be known before the slice ends");
    let mut program_end = 0;
    let mut read = None;
    while let Some(done) = core.step(u64::MAX) {
        match done {
            Done::Answered { token: 1, at, attribution } => read = Some((at, attribution)),
            Done::Operation { at, .. } => program_end = at,
            _ => {}
        }
    }
    let (at, attribution) = read.unwrap();
    assert_eq!(at, 235_000);
    assert_eq!((attribution.suspended_ns, attribution.cell_ns), (50_000, 35_000));
    assert_eq!(program_end, 960_000 + 35_000 + 7_000, "the program is put off by the read and the interruption");
    assert_eq!(core.stats().dies[0].program_ns, 967_000);
}

#[test]
fn reads_do_not_starve_programs() {
    let mut core = Core::new(CoreShape { slice_ns: 100_000, ..shape() });
    for token in 0..100 {
        core.read(0, token, &[part(0, 4096)], 4096);
    }
    let unit = Program { die: 0, bytes: 0, buffer_bytes: 0, class: Class::Host, tag: 9, for_write: None };
    core.program(0, &unit);
    let mut ended = 0;
    while let Some(done) = core.step(u64::MAX) {
        if let Done::Operation { at, .. } = done {
            ended = at;
        }
    }
    assert_eq!(ended, 960_000 + 35_000 * 18, "two reads in each of the nine gaps between ten slices");
}

#[test]
fn the_parts_of_a_latency_add_up() {
    let mut core = Core::new(CoreShape {
        channel_bytes_per_s: 480_000_000,
        read_serial_ns: 1_500,
        read_latency_ns: 10_500,
        bus_bytes_per_s: 2_500_000_000,
        slice_ns: 230_000,
        early_ack: true,
        write_demand: Demand { points: vec![(4096, 5_400)] },
        write_latency_ns: 5_900,
        buffer_bytes: 128 << 10,
        ..shape()
    });
    let mut rng = Rng::seeded(3);
    let mut submitted = Vec::new();
    let (mut answered, mut now) = (0, 0);
    for token in 0..2_000_u64 {
        now += rng.below(20_000);
        while let Some(done) = core.step(now) {
            answered += handle(&mut core, done, &submitted);
        }
        submitted.push(now);
        if rng.chance(0.3) {
            core.write(now, token, 64 << 10, HostWrite::Write);
        } else {
            core.read(now, token, &[part(rng.index(16), 4096), part(rng.index(16), 8192)], 12 << 10);
        }
    }
    while let Some(done) = core.step(u64::MAX) {
        answered += handle(&mut core, done, &submitted);
    }
    assert_eq!((answered, core.in_flight()), (2_000, 0));
    let stats = core.stats();
    let suspends: u64 = stats.dies.iter().map(|die| die.suspends).sum();
    assert!(suspends > 100, "{suspends}");
    let programs: u64 = stats.dies.iter().map(|die| die.programs).sum();
    let program_ns: u64 = stats.dies.iter().map(|die| die.program_ns).sum();
    assert_eq!(program_ns, programs * 960_000, "work in the cells is conserved");
    assert_eq!(programs * (64 << 10), stats.written_bytes, "bytes are conserved");
}

fn handle(core: &mut Core, done: Done, submitted: &[Nanos]) -> u32 {
    match done {
        Done::Answered { token, at, attribution } => {
            let latency = at - submitted[usize::try_from(token).unwrap()];
            assert_eq!(attribution.total_ns(), latency, "request {token}: {attribution:?}");
            1
        }
        Done::Admitted { token, at, .. } => {
            let die = usize::try_from(token % 16).unwrap();
            let bytes = 64 << 10;
            core.program(
                at,
                &Program { die, bytes, buffer_bytes: bytes, class: Class::Host, tag: token, for_write: None },
            );
            0
        }
        Done::Operation { .. } => 0,
    }
}
