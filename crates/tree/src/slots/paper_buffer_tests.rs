//! The ZKV paper's delta buffer (section 3.3) beside ours (decision 30): pairs as they come behind one-byte fingerprints, which one SIMD
//! comparison checks, beside sorted slots; and cells of whole cache lines beside cells of 16 bytes. The same 15 pairs of 8 B + 8 B, the
//! same answers. The ignored test prints what each takes.

use std::hint::black_box;

use zonda_rt::{Rng, Time, now};

use super::{DENSE_HEADER_BYTES, Slots, SlotsMut};
use crate::record::{Kind, Record};

type Word = [u8; 8];

/// Pairs of the largest class.
const PAIRS: usize = 15;

trait Cell: Clone {
    const NAME: &'static str;

    fn new() -> Self;
    fn find(&self, key: Word) -> Option<Word>;
    /// `false` if there is no room.
    fn upsert(&mut self, key: Word, value: Word) -> bool;
}

/// The paper's: 256 bytes of four cache lines. Behind the fingerprints is how many there are, for which the paper has bits elsewhere.
#[derive(Clone)]
#[repr(C, align(64))]
struct Paper {
    fingerprints: [u8; PAIRS],
    len: u8,
    pairs: [(Word, Word); PAIRS],
}

impl Paper {
    fn fingerprint(key: Word) -> u8 {
        u64::from_ne_bytes(key).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
    }

    /// The sum becomes one comparison of all fingerprints and a mask of bits.
    fn position(&self, key: Word) -> Option<usize> {
        let wanted = Self::fingerprint(key);
        let same = self.fingerprints.iter().enumerate().map(|(at, &own)| u16::from(own == wanted) << at);
        let mut found = same.sum::<u16>() & ((1 << self.len) - 1);
        while found != 0 {
            let at = found.trailing_zeros() as usize;
            if self.pairs[at].0 == key {
                return Some(at);
            }
            found &= found - 1;
        }
        None
    }
}

impl Cell for Paper {
    const NAME: &'static str = "fingerprints";

    fn new() -> Self {
        Self { fingerprints: [0; PAIRS], len: 0, pairs: [([0; 8], [0; 8]); PAIRS] }
    }

    fn find(&self, key: Word) -> Option<Word> {
        self.position(key).map(|at| self.pairs[at].1)
    }

    fn upsert(&mut self, key: Word, value: Word) -> bool {
        let known = self.position(key);
        let at = known.unwrap_or(self.len.into());
        let has_room = at < PAIRS;
        if has_room {
            self.pairs[at] = (key, value);
            self.fingerprints[at] = Self::fingerprint(key);
            self.len += u8::from(known.is_none());
        }
        has_room
    }
}

/// What is before the slots of a buffer whose leaf's keys share nothing.
const HEAD_BYTES: usize = 16;
const SLOTS_END: usize = HEAD_BYTES + DENSE_HEADER_BYTES + PAIRS * 16;

/// Ours: what a buffer of the largest class takes, its cell at any multiple of 16.
#[derive(Clone)]
#[repr(C, align(16))]
struct Sixteens([u8; 288]);

/// The same in whole cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
struct Lines([u8; 320]);

macro_rules! cell_of_slots {
    ($cell:ident, $name:literal) => {
        impl Cell for $cell {
            const NAME: &'static str = $name;

            fn new() -> Self {
                let mut cell = Self([0; size_of::<Self>()]);
                SlotsMut::init(&mut cell.0[HEAD_BYTES..SLOTS_END]);
                cell
            }

            fn find(&self, key: Word) -> Option<Word> {
                let found = Slots::new(&self.0[HEAD_BYTES..SLOTS_END]).find(&key);
                found.map(|record| record.value.try_into().expect("values of 8 bytes"))
            }

            fn upsert(&mut self, key: Word, value: Word) -> bool {
                let record = Record { key: &key, kind: Kind::Inline, value: &value };
                SlotsMut::new(&mut self.0[HEAD_BYTES..SLOTS_END]).upsert(&record)
            }
        }
    };
}

cell_of_slots!(Sixteens, "slots");
cell_of_slots!(Lines, "slots of lines");

/// The keys of cell `nth`: `PAIRS` that are in it, and as many that are not.
fn keys(nth: usize) -> [Word; 2 * PAIRS] {
    let mut rng = Rng::seeded(nth as u64);
    std::array::from_fn(|_| rng.next_u64().to_be_bytes())
}

fn filled<C: Cell>(nth: usize) -> C {
    let mut cell = C::new();
    assert!(keys(nth)[..PAIRS].iter().all(|&key| cell.upsert(key, key)));
    cell
}

#[test]
fn both_answer_the_same() {
    for nth in 0..200 {
        let (mut paper, mut ours) = (filled::<Paper>(nth), filled::<Sixteens>(nth));
        let keys = keys(nth);
        assert!(!paper.upsert(keys[PAIRS], [0; 8]) && !ours.upsert(keys[PAIRS], [0; 8]), "full");
        assert!(paper.upsert(keys[3], [7; 8]) && ours.upsert(keys[3], [7; 8]), "in place");
        assert_eq!(paper.find(keys[3]), Some([7; 8]));
        keys.into_iter().for_each(|key| assert_eq!(paper.find(key), ours.find(key), "cell {nth}"));
    }
}

/// Nanoseconds of each of `PAIRS` upserts into an empty cell, of a search that finds and of one that does not, over `cells` cells by turns.
fn nanoseconds<C: Cell>(cells: usize) -> [f64; 3] {
    const SEARCHES: usize = 2_000_000;
    let each = |began: Time, of: usize| now().since(began).as_secs_f64() * 1e9 / of as f64;
    let wanted: Vec<[Word; 2 * PAIRS]> = (0..cells).map(keys).collect();
    let mut all = vec![C::new(); cells];
    let order: Vec<(usize, usize)> = {
        let mut rng = Rng::seeded(1);
        (0..SEARCHES).map(|_| (rng.index(cells), rng.index(PAIRS))).collect()
    };
    let began = now();
    // Between two upserts of a cell are those of all others.
    (0..PAIRS).for_each(|at| (0..cells).for_each(|nth| assert!(all[nth].upsert(wanted[nth][at], [0; 8]))));
    let upsert = each(began, PAIRS * cells);
    let search = |from: usize| {
        let asked: Vec<(usize, Word)> = order.iter().map(|&(nth, at)| (nth, wanted[nth][from + at])).collect();
        let began = now();
        let found = asked.iter().filter(|(nth, key)| black_box(&all[*nth]).find(*key).is_some()).count();
        assert_eq!(found, if from == 0 { SEARCHES } else { 0 });
        each(began, SEARCHES)
    };
    [upsert, search(0), search(PAIRS)]
}

#[test]
#[ignore = "a measurement: cargo test --release -p zonda-tree paper_buffer -- --ignored --nocapture"]
fn what_each_takes() {
    const ROUNDS: usize = 7;
    type Run = fn(usize) -> [f64; 3];
    let contenders: [(&str, Run); 3] = [
        (Paper::NAME, nanoseconds::<Paper>),
        (Sixteens::NAME, nanoseconds::<Sixteens>),
        (Lines::NAME, nanoseconds::<Lines>),
    ];
    for cells in [64, 200_000] {
        let mut least = [[f64::INFINITY; 3]; 3];
        for _ in 0..ROUNDS {
            for ((_, run), least) in contenders.iter().zip(&mut least) {
                let took = run(cells);
                least.iter_mut().zip(took).for_each(|(least, took)| *least = least.min(took));
            }
        }
        println!("{cells} cells, ns, the least of {ROUNDS} rounds in turns: upsert, found, not found");
        contenders
            .iter()
            .zip(least)
            .for_each(|((name, _), [a, b, c])| println!("  {name:<15} {a:6.1} {b:6.1} {c:6.1}"));
    }
}
