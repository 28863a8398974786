//! The ring against a model, and many threads on one ring.
#![cfg(not(feature = "shuttle"))]

use zonda_rt::{Rng, spawn};

use super::*;
use crate::pool::class::{class_bytes, class_for};

/// Leaves whose mirrors fit the smallest segments.
const LEAF_BYTES: u32 = 4 << 10;
/// Leaves whose mirrors need the largest.
const LEAF_BYTES_MAX: u32 = 32 << 10;

/// A mini-page: its bytes say whose they are.
struct Taken {
    at: NonNull<u8>,
    segment: SegmentSize,
    class: usize,
    mark: u8,
}

// SAFETY: the memory is its owner's alone.
unsafe impl Send for Taken {}

impl Taken {
    fn new(ring: &Ring, at: NonNull<u8>, class: usize, mark: u8) -> Self {
        assert!(at.addr().get().is_multiple_of(8));
        // SAFETY: the memory has the class's bytes and is ours.
        unsafe { at.write_bytes(mark, class_bytes(class)) };
        Self { at, segment: ring.segment_size(), class, mark }
    }

    fn check(&self) {
        // SAFETY: as above; all bytes were written.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), class_bytes(self.class)) };
        assert!(bytes.iter().all(|&byte| byte == self.mark), "somebody else wrote there");
    }

    fn give(self) {
        self.check();
        // SAFETY: taken from a ring, and used by nobody else.
        unsafe { give(self.at, self.segment) }
    }
}

/// Now and then one that is too large for a segment, or a mirror.
fn random_class(segment: SegmentSize, rng: &mut Rng) -> usize {
    let leaf_bytes = segment.bytes() / 4;
    match rng.below(40) {
        0 => class_for(segment.bytes() / 4 * 5),
        1..4 => class_for(leaf_bytes * 5 / 8 + rng.index(leaf_bytes / 2)),
        _ => class_for(64 << rng.below(6)),
    }
}

fn at_claim(taken: &[Taken], claim: &Claim<'_>) -> usize {
    taken.iter().position(|piece| piece.at.addr().get() == claim.address()).expect("claimed pieces are taken")
}

fn is_taken(taken: &[Taken], claim: &Claim<'_>) -> bool {
    taken.iter().any(|piece| piece.at.addr().get() == claim.address())
}

/// One random operation; `taken` is what is out.
fn churn(ring: &Ring, taken: &mut Vec<Taken>, rng: &mut Rng) {
    let (class, mark) = (random_class(ring.segment_size(), rng), rng.index(256).to_le_bytes()[0]);
    match rng.below(20) {
        0..9 => {
            let at = if rng.chance(0.9) { ring.try_take(class, PageId(7)) } else { Some(ring.take(class, PageId(7))) };
            taken.extend(at.map(|at| Taken::new(ring, at, class, mark)));
        }
        9..13 if !taken.is_empty() => taken.swap_remove(rng.index(taken.len())).give(),
        13..19 => {
            let claims: Vec<_> = (0..=rng.index(3)).map_while(|_| ring.claim()).collect();
            let mut seen: Vec<usize> = claims.iter().filter(|claim| !claim.outside).map(Claim::address).collect();
            seen.sort_unstable();
            assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "two evictors, one mini-page");
            for claim in claims {
                if !is_taken(taken, &claim) {
                    continue;
                }
                match rng.below(10) {
                    0..8 => taken.swap_remove(at_claim(taken, &claim)).give(),
                    8 => ring.set_aside(taken[at_claim(taken, &claim)].at),
                    _ => {}
                }
            }
        }
        _ => ring.set_limit_bytes(ring.segment_size().bytes() as u64 * (4 + rng.below(25))),
    }
}

#[test]
fn nobody_shares_memory_and_all_of_it_comes_back() {
    let leaves = [LEAF_BYTES, 16 << 10, LEAF_BYTES_MAX].into_iter().cycle().take(6);
    for (seed, leaf_bytes) in (0..).zip(leaves) {
        let mut rng = Rng::seeded(seed);
        let ring = Ring::new(64 * u64::from(leaf_bytes), 10, leaf_bytes);
        let mut taken = Vec::new();
        for _ in 0..20_000 {
            churn(&ring, &mut taken, &mut rng);
            let bytes: usize = taken.iter().map(|piece| class_bytes(piece.class)).sum();
            assert!(ring.inner.span_bytes.load(Ordering::Relaxed) >= bytes as u64, "seed {seed}");
            assert!(ring.held_bytes() >= bytes as u64, "seed {seed}");
        }
        taken.iter().for_each(Taken::check);
        taken.drain(..).for_each(Taken::give);
        ring.set_limit_bytes(0);
        assert_eq!(ring.inner.span_bytes.load(Ordering::Relaxed), 0, "seed {seed}: the head passed all");
        let least = 2 * ring.segment_size().bytes() as u64;
        assert!(ring.held_bytes() <= least, "seed {seed}: {} bytes are held", ring.held_bytes());
    }
}

#[test]
fn a_full_ring_refuses_and_evictions_make_room_in_order() {
    let ring = Ring::new(64 << 10, 10, LEAF_BYTES);
    let class = class_for(512);
    let mut taken: Vec<Taken> = Vec::new();
    while let Some(at) = ring.try_take(class, PageId(1)) {
        taken.push(Taken::new(&ring, at, class, 1));
    }
    assert!(ring.is_over() && taken.len() > 80);
    let (first, second) = (ring.claim().expect("full"), ring.claim().expect("full"));
    assert_eq!(
        [first.address(), second.address()],
        [&taken[0], &taken[1]].map(|piece| piece.at.addr().get()),
        "the oldest go first"
    );
    taken.remove(1).give();
    drop(second);
    assert!(ring.try_take(class, PageId(1)).is_none(), "the head waits for the first");
    taken.remove(0).give();
    drop(first);
    for _ in 0..2 {
        taken.push(Taken::new(&ring, ring.try_take(class, PageId(1)).expect("room for two"), class, 2));
    }
    assert!(ring.try_take(class, PageId(1)).is_none());
    taken.drain(..).for_each(Taken::give);
}

/// The head waits for who evicts there: the others make room once, and not again and again.
#[test]
fn while_one_evicts_at_the_head_others_evict_no_more_than_they_need() {
    let ring = Ring::new(1 << 20, 10, LEAF_BYTES);
    let class = class_for(512);
    let mut taken = Vec::new();
    while !ring.is_over() {
        taken.push(Taken::new(&ring, ring.take(class, PageId(1)), class, 1));
    }
    let slow = ring.claim().expect("it is full");
    let mut evicted = 0;
    // Writers go on meanwhile.
    for _ in 0..20 {
        while ring.is_over() {
            let claim = ring.claim().expect("it is full");
            taken.remove(at_claim(&taken, &claim)).give();
            evicted += 1;
        }
        taken.push(Taken::new(&ring, ring.take(class, PageId(2)), class, 2));
    }
    assert!(evicted <= 40, "{evicted} made way for 20");
    // For one that never ends they let the ring grow by a part of it.
    let (mut grown, mut in_vain) = (0, 0);
    while in_vain < 50 {
        if ring.is_over() {
            let claim = ring.claim().expect("it is full");
            taken.remove(at_claim(&taken, &claim)).give();
            in_vain += 1;
        } else {
            taken.push(Taken::new(&ring, ring.take(class, PageId(3)), class, 3));
            (grown, in_vain) = (grown + 1, 0);
        }
    }
    assert!((50..150).contains(&grown), "{grown} are more than 64 KiB");
    taken.remove(at_claim(&taken, &slow)).give();
    drop(slow);
    assert!(!ring.is_over());
    taken.drain(..).for_each(Taken::give);
}

#[test]
fn whoever_gives_up_does_not_lose_the_mini_page() {
    let ring = Ring::new(64 << 10, 10, LEAF_BYTES);
    let class = class_for(64);
    let piece = Taken::new(&ring, ring.take(class, PageId(3)), class, 3);
    for _ in 0..3 {
        let claim = ring.claim().expect("there is one");
        assert_eq!((claim.leaf(), claim.address()), (PageId(3), piece.at.addr().get()));
    }
    piece.give();
    assert!(ring.claim().is_none());
}

#[test]
fn only_what_lies_far_enough_from_the_head_is_taken_again() {
    let ring = Ring::new(256 << 10, 10, LEAF_BYTES);
    let class = class_for(1024);
    let mut taken = Vec::new();
    while let Some(at) = ring.try_take(class, PageId(1)) {
        taken.push(Taken::new(&ring, at, class, 1));
    }
    let near = taken.iter().filter(|piece| ring.in_second_chance(piece.at)).count();
    assert!((15..35).contains(&near), "{near} of {} lie near the head", taken.len());
    assert!(ring.in_second_chance(taken[1].at) && !ring.in_second_chance(taken[taken.len() - 1].at));
    taken.remove(1).give();
    assert!(ring.try_take(class, PageId(1)).is_none(), "that one is soon passed");
    let far = taken.pop().expect("many");
    let at = far.at;
    far.give();
    assert_eq!(ring.try_take(class, PageId(1)), Some(at));
    taken.push(Taken::new(&ring, at, class, 2));
    taken.drain(..).for_each(Taken::give);
}

#[test]
fn readers_leave_room_for_writers() {
    let ring = Ring::new(1 << 20, 10, LEAF_BYTES);
    let class = class_for(1024);
    let mut taken = Vec::new();
    while !ring.is_over_for_readers() {
        let at = ring.try_take(class, PageId(1)).expect("it is not full");
        taken.push(Taken::new(&ring, at, class, 1));
    }
    ring.want_room();
    assert!(!ring.is_over() && ring.is_room_wanted() && !ring.is_far_over());
    let by_readers = taken.len();
    while !ring.is_over() {
        taken.push(Taken::new(&ring, ring.take(class, PageId(2)), class, 2));
    }
    let by_writers = taken.len() - by_readers;
    assert!((20..40).contains(&by_writers), "{by_writers} KiB were left for writers");
    while ring.is_room_wanted() {
        let claim = ring.claim().expect("it is full");
        taken.remove(at_claim(&taken, &claim)).give();
    }
    assert!(!ring.is_over_for_readers());
    taken.drain(..).for_each(Taken::give);
}

#[test]
fn a_lower_limit_asks_writers_not_to_grow_and_the_background_for_the_rest() {
    let ring = Ring::new(1 << 20, 10, LEAF_BYTES);
    let class = class_for(1024);
    let mut taken = Vec::new();
    while !ring.is_over() {
        taken.push(Taken::new(&ring, ring.take(class, PageId(1)), class, 1));
    }
    taken.pop().expect("many").give();
    let span_bytes = || ring.inner.span_bytes.load(Ordering::Relaxed);
    let full = span_bytes();
    ring.set_limit_bytes(512 << 10);
    assert!(!ring.is_over() && ring.is_over_limit() && ring.is_far_over());
    for _ in 0..1_000 {
        while ring.is_over() {
            let claim = ring.claim().expect("it is full");
            taken.remove(at_claim(&taken, &claim)).give();
        }
        let at = ring.take(class, PageId(2));
        let piece = Taken::new(&ring, at, class, 2);
        assert!(!ring.claim().expect("it is full").is_outside(), "what writers need is in the ring");
        taken.push(piece);
        assert!(span_bytes() <= full + (4 << 10), "{} bytes where {full} were", span_bytes());
    }
    while ring.is_far_over() {
        let claim = ring.claim().expect("it is full");
        taken.remove(at_claim(&taken, &claim)).give();
    }
    assert!(span_bytes() <= 512 << 10);
    while !ring.is_over() {
        taken.push(Taken::new(&ring, ring.take(class, PageId(3)), class, 3));
    }
    assert!(span_bytes() <= 512 << 10, "it does not grow again");
    taken.drain(..).for_each(Taken::give);
}

#[test]
fn what_must_have_memory_gets_it_and_what_no_segment_holds_goes_first() {
    let ring = Ring::new(64 << 10, 10, LEAF_BYTES);
    let class = class_for(2048);
    let mut taken = Vec::new();
    while let Some(at) = ring.try_take(class, PageId(1)) {
        taken.push(Taken::new(&ring, at, class, 1));
    }
    let at_tail = Taken::new(&ring, ring.take(class, PageId(2)), class, 2);
    let large = Taken::new(&ring, ring.take(class_for(100 << 10), PageId(3)), class_for(100 << 10), 3);
    assert!(!ring.in_second_chance(at_tail.at));
    let leaves = [ring.claim(), ring.claim()].map(|claim| claim.expect("a large one").leaf().0);
    assert_eq!(leaves, [3; 2]);
    assert!(ring.is_far_over(), "what is outside counts");
    taken.extend([at_tail, large]);
    taken.drain(..).for_each(Taken::give);
    assert_eq!(ring.inner.span_bytes.load(Ordering::Relaxed), 0);
}

/// A piece outside has pages of its own: a batch of small ones there would take a hundred times what it counts.
#[test]
fn a_batch_makes_a_full_ring_longer_by_what_it_needs() {
    let ring = Ring::new(1 << 20, 10, LEAF_BYTES);
    let class = class_for(64);
    let mut taken = Vec::new();
    while let Some(at) = ring.try_take(class, PageId(1)) {
        taken.push(Taken::new(&ring, at, class, 1));
    }
    let held_bytes = ring.held_bytes();
    taken.extend((0..10_000).map(|_| Taken::new(&ring, ring.take(class, PageId(2)), class, 2)));
    assert!(
        ring.held_bytes() - held_bytes <= 10_000 * 73 + (32 << 10),
        "{} bytes more",
        ring.held_bytes() - held_bytes
    );
    while ring.is_over() {
        let claim = ring.claim().expect("it is full");
        assert!(!claim.is_outside());
        taken.remove(at_claim(&taken, &claim)).give();
    }
    assert!(ring.held_bytes() <= 1 << 20, "{} bytes are held", ring.held_bytes());
    taken.drain(..).for_each(Taken::give);
}

#[test]
fn a_ring_of_any_length_can_be_made_short_and_long_again() {
    let ring = Ring::new(64 << 20, 10, LEAF_BYTES);
    let class = class_for(2048);
    let mut taken = std::collections::VecDeque::new();
    for limit_kib in [64 << 10, 1 << 10, 20 << 10, 300, 64 << 10, 17 << 10, 512] {
        ring.set_limit_bytes(limit_kib << 10);
        // Twice round, so that nothing is where it was.
        let mut left = 2 * (limit_kib << 10) / class_bytes(class) as u64;
        while left > 0 || ring.is_over_limit() {
            if ring.is_over_limit() {
                drop(ring.claim().expect("it is full"));
                taken.pop_front().map(Taken::give).expect("the oldest is at the head");
            } else {
                taken.push_back(Taken::new(&ring, ring.take(class, PageId(1)), class, 1));
                left -= 1;
            }
        }
        let (held, bytes) = (ring.held_bytes() >> 10, (taken.len() * class_bytes(class)) as u64 >> 10);
        assert!(held <= limit_kib, "{held} KiB are held of {limit_kib}");
        assert!(bytes > limit_kib / 4 * 3, "{bytes} KiB of mini-pages in {limit_kib}");
    }
    taken.into_iter().for_each(Taken::give);
}

#[test]
fn what_is_set_aside_goes_last() {
    let ring = Ring::new(64 << 10, 10, LEAF_BYTES);
    let class = class_for(2048);
    let inside = Taken::new(&ring, ring.take(class, PageId(1)), class, 1);
    let mut taken = Vec::new();
    while let Some(at) = ring.try_take(class, PageId(1)) {
        taken.push(Taken::new(&ring, at, class, 1));
    }
    taken.drain(..).for_each(Taken::give);
    let large = class_for(100 << 10);
    let outside = [2, 3].map(|leaf| Taken::new(&ring, ring.take(large, PageId(leaf)), large, 2));
    let next = || ring.claim().map(|claim| claim.leaf().0);
    ring.set_aside(outside[0].at);
    ring.set_aside(inside.at);
    assert_eq!([next(), next()], [Some(3); 2], "the ring's own are not set aside");
    ring.set_aside(outside[1].at);
    assert_eq!(next(), Some(1));
    inside.give();
    let mut last = [next(), next()];
    last.sort_unstable();
    assert_eq!(last, [Some(2), Some(3)]);
    outside.into_iter().for_each(Taken::give);
    assert_eq!((next(), ring.inner.span_bytes.load(Ordering::Relaxed)), (None, 0));
}

/// A mirror of a full leaf, its marks and what its class is larger.
fn mirror_class(leaf_bytes: u32) -> usize {
    class_for(leaf_bytes as usize / 8 * 9)
}

#[test]
fn mirrors_of_full_leaves_of_any_size_lie_in_the_ring() {
    for leaf_bytes in (1..=8).map(|blocks| blocks * 4096) {
        let ring = Ring::new(1 << 20, 10, leaf_bytes);
        let class = mirror_class(leaf_bytes);
        let mut taken = Vec::new();
        while let Some(at) = ring.try_take(class, PageId(1)) {
            taken.push(Taken::new(&ring, at, class, 1));
        }
        let bytes = taken.len() * class_bytes(class);
        assert!(bytes > 600 << 10, "leaves of {leaf_bytes}: {bytes} bytes of mirrors in a MiB");
        let (near, far) = (&taken[0], &taken[taken.len() - 1]);
        assert!(ring.in_second_chance(near.at) && !ring.in_second_chance(far.at), "leaves of {leaf_bytes}");
        taken.drain(..).for_each(Taken::give);
        assert_eq!(ring.inner.span_bytes.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn who_evicts_until_the_ring_is_not_over_finds_room_for_a_mirror() {
    let rings = [(LEAF_BYTES, 512), (8 << 10, 512), (16 << 10, 512), (LEAF_BYTES_MAX, 512), (LEAF_BYTES_MAX, 1024)];
    for (leaf_bytes, ring_kib) in rings {
        let ring = Ring::new(ring_kib << 10, 10, leaf_bytes);
        let (mut rng, mut taken) = (Rng::seeded(1), Vec::new());
        for nth in 0..1_000 {
            while ring.is_over() {
                let claim = ring.claim().expect("something is there");
                taken.remove(at_claim(&taken, &claim)).give();
            }
            // Those that are not full, and small ones, let head and tail stand anywhere.
            let leaf_bytes_used = leaf_bytes as usize / 2 + rng.index(leaf_bytes as usize / 8 * 5);
            let class = if rng.chance(0.5) { class_for(leaf_bytes_used) } else { class_for(512) };
            let at = ring.try_take(class, PageId(1));
            let at =
                at.unwrap_or_else(|| panic!("no room for the {nth}th with leaves of {leaf_bytes} in {ring_kib} KiB"));
            taken.push(Taken::new(&ring, at, class, 1));
        }
        taken.drain(..).for_each(Taken::give);
    }
}

/// 34 bits of a piece's head tell where it is: the address is right on both sides of each wrap.
#[test]
fn a_piece_knows_its_address_wherever_the_ring_has_got_to() {
    for leaf_bytes in [LEAF_BYTES, LEAF_BYTES_MAX] {
        let size = SegmentSize::of(leaf_bytes, 1 << 30);
        let segment_bytes = size.bytes() as u64;
        let layout = std::alloc::Layout::from_size_align(size.bytes(), size.bytes()).expect("a power of two");
        // SAFETY: the layout is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).expect("memory");
        let piece = Segment::at(base).piece(4096);
        for address in [0, segment_bytes, (1 << 37) - segment_bytes, 1 << 37, 1 << 52] {
            let bytes = size.bytes() - piece::SEGMENT_HEAD_BYTES;
            piece.set_head(piece::PieceHead::new(bytes, piece::PieceState::Taken, PageId(7), address));
            assert_eq!((piece.head().bytes(size), piece.head().leaf), (bytes, PageId(7)));
            let here = address + 4096;
            assert!(piece.is_before(here + 1, size) && piece.is_before(here + (16 << 30), size), "{address}");
            assert!(!piece.is_before(here, size) && !piece.is_before(here.saturating_sub(16 << 30), size), "{address}");
        }
        // SAFETY: allocated above with this layout.
        unsafe { std::alloc::dealloc(base.as_ptr(), layout) };
    }
}

/// Long enough to lie in chunks on huge pages.
#[test]
fn a_ring_on_huge_pages_is_used_whole_and_gives_chunks_back() {
    const BYTES: u64 = 48 << 20;
    const CHUNK_BYTES: u64 = 2 << 20;
    let (ring, class) = (Ring::new(BYTES, 10, LEAF_BYTES), class_for(2048));
    let pieces = std::iter::from_fn(|| ring.try_take(class, PageId(1)));
    let mut taken: Vec<_> =
        (0..=u8::MAX).cycle().zip(pieces).map(|(mark, at)| Taken::new(&ring, at, class, mark)).collect();
    let taken_bytes = (taken.len() * class_bytes(class)) as u64;
    assert_eq!(ring.held_bytes(), BYTES);
    assert!(taken_bytes > BYTES / 10 * 8, "{taken_bytes}");
    // Three quarters go, from the head on.
    let kept = taken.split_off(taken.len() / 4 * 3);
    for piece in taken {
        let claim = ring.claim().expect("full");
        assert_eq!(claim.address(), piece.at.addr().get());
        piece.give();
    }
    ring.set_limit_bytes(BYTES / 4);
    assert!(ring.held_bytes() <= BYTES / 4 + CHUNK_BYTES, "{} bytes are held", ring.held_bytes());
    kept.into_iter().for_each(Taken::give);
}

/// What the system says of the mapping that `address` lies in: its flags.
#[cfg(target_os = "linux")]
fn mapping_flags(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("a process can read its own");
    let range = |line: &str| {
        let (begin, end) = line.split(' ').next()?.split_once('-')?;
        Some(usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
    };
    let of_mapping = maps.lines().skip_while(|line| !range(line).is_some_and(|range| range.contains(&address)));
    of_mapping.into_iter().find_map(|line| line.strip_prefix("VmFlags:")).expect("every mapping has them").to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_ring_asks_for_huge_pages_and_a_short_one_does_not() {
    let modes = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if modes.is_empty() || modes.contains("[never]") {
        println!("skipped: this system has no huge pages, or never gives any ({modes:?})");
        return;
    }
    for (bytes, asks) in [(48 << 20, true), (1 << 20, false)] {
        let (ring, class) = (Ring::new(bytes, 10, LEAF_BYTES), class_for(2048));
        let piece = Taken::new(&ring, ring.take(class, PageId(1)), class, 1);
        let flags = mapping_flags(piece.at.addr().get());
        assert_eq!(flags.split_whitespace().any(|flag| flag == "hg"), asks, "{bytes} bytes: {flags}");
        piece.give();
    }
}

/// What is left of a segment when the next piece does not fit it is passed at once if nothing lies before it.
#[test]
fn the_head_of_an_empty_ring_does_not_stay_before_the_end_of_a_segment() {
    for leaf_bytes in [LEAF_BYTES, LEAF_BYTES_MAX] {
        let ring = Ring::new(64 * u64::from(leaf_bytes), 10, leaf_bytes);
        let half = class_for(ring.segment_size().bytes() / 8 * 5);
        for mark in 0..20 {
            let at = ring.try_take(half, PageId(1)).expect("an empty ring has room");
            Taken::new(&ring, at, half, mark).give();
            assert_eq!(ring.inner.span_bytes.load(Ordering::Relaxed), 0, "leaves of {leaf_bytes}, piece {mark}");
        }
    }
}

#[test]
fn threads_share_a_ring() {
    for leaf_bytes in [LEAF_BYTES, LEAF_BYTES_MAX] {
        share(&Arc::new(Ring::new(64 * u64::from(leaf_bytes), 10, leaf_bytes)));
    }
}

fn share(ring: &Arc<Ring>) {
    let threads: Vec<_> = (0..3)
        .map(|thread| {
            let ring = Arc::clone(ring);
            spawn(format!("churn {thread}"), move || {
                let mut rng = Rng::seeded(thread);
                let mut taken = Vec::new();
                for _ in 0..20_000 {
                    churn(&ring, &mut taken, &mut rng);
                }
                taken.drain(..).for_each(Taken::give);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(ring.inner.span_bytes.load(Ordering::Relaxed), 0);
}
