//! The workloads, as data.

use std::str::FromStr;

use zonda_rt::Rng;

use crate::choose::{Distribution, Zipf};
use crate::{BenchError, Result};

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Puts a new key.
    Insert,
    /// Puts an existing key.
    Update,
    /// Gets an existing key.
    Read,
    /// Reads a run of pairs from an existing key on.
    Scan,
    /// Gets an existing key, then puts it.
    Modify,
}

impl Kind {
    /// All kinds, in the order in which reports list them.
    pub const ALL: [Kind; 5] = [Kind::Insert, Kind::Update, Kind::Read, Kind::Scan, Kind::Modify];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::Read => "read",
            Kind::Scan => "scan",
            Kind::Modify => "modify",
        }
    }
}

/// Percent of the operations of each kind, in the order of [`Kind::ALL`]; they add up to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix([u8; 5]);

impl Mix {
    /// The kind of the next operation; draws one number.
    pub fn kind(self, rng: &mut Rng) -> Kind {
        let mut drawn = rng.below(100);
        for (kind, percent) in Kind::ALL.into_iter().zip(self.0) {
            match drawn.checked_sub(u64::from(percent)) {
                Some(rest) => drawn = rest,
                None => return kind,
            }
        }
        unreachable!("the percents of a mix add up to 100")
    }

    /// Whether any operation needs a record that exists.
    #[must_use]
    pub fn needs_records(self) -> bool {
        self.0[0] < 100
    }

    /// Whether any operation puts a record that exists.
    #[must_use]
    pub fn updates(self) -> bool {
        self.0[1] > 0 || self.0[4] > 0
    }

    /// Whether any operation makes a new record.
    #[must_use]
    pub fn inserts(self) -> bool {
        self.0[0] > 0
    }
}

/// How many pairs a scan asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLength {
    /// Always as many.
    Exactly(u64),
    /// Uniformly 1 to as many.
    UpTo(u64),
}

impl ScanLength {
    /// A length; draws one number.
    pub fn pairs(self, rng: &mut Rng) -> u64 {
        let drawn = rng.next_u64();
        match self {
            Self::Exactly(pairs) => pairs,
            Self::UpTo(pairs_max) => 1 + drawn % pairs_max,
        }
    }
}

/// One workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Its name, as `--workload` takes it and reports show it.
    pub name: String,
    /// What its operations are.
    pub mix: Mix,
    /// Which records they go to unless `--distribution` says otherwise.
    pub distribution: Distribution,
    /// How long its scans are.
    pub scan: ScanLength,
    /// Distinct keys that one read asks for at once: 1 is a `get`, more a `multi_get`.
    pub gets: u64,
}

/// ZKV's evaluation scans up to this many pairs (its Exp#1).
const ZKV_SCAN_PAIRS: u64 = 256;

/// YCSB's `maxscanlength` for workload E.
const YCSB_SCAN_PAIRS: u64 = 100;

/// Name, mix (insert, update, read, scan, modify), distribution, longest scan.
///
/// `zkv-*` and `skew-*` are the two rows of ZKV's table 2 (`W` is an insert, `U` an update); `ycsb-*` are YCSB's core
/// workloads with their own distributions; the last four are the plain ones.
const WORKLOADS: [(&str, Mix, Distribution, u64); 20] = [
    ("zkv-a", Mix([100, 0, 0, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("zkv-b", Mix([80, 0, 20, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("zkv-c", Mix([20, 0, 80, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("zkv-d", Mix([0, 0, 100, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("zkv-e", Mix([5, 0, 0, 95, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("skew-a", Mix([0, 100, 0, 0, 0]), Distribution::Hot, ZKV_SCAN_PAIRS),
    ("skew-b", Mix([0, 50, 50, 0, 0]), Distribution::Hot, ZKV_SCAN_PAIRS),
    ("skew-c", Mix([0, 5, 95, 0, 0]), Distribution::Hot, ZKV_SCAN_PAIRS),
    ("skew-d", Mix([0, 0, 100, 0, 0]), Distribution::Hot, ZKV_SCAN_PAIRS),
    ("skew-e", Mix([0, 5, 0, 95, 0]), Distribution::Hot, ZKV_SCAN_PAIRS),
    ("ycsb-a", Mix([0, 50, 50, 0, 0]), Distribution::Zipf(Zipf::THETA_OF_YCSB), YCSB_SCAN_PAIRS),
    ("ycsb-b", Mix([0, 5, 95, 0, 0]), Distribution::Zipf(Zipf::THETA_OF_YCSB), YCSB_SCAN_PAIRS),
    ("ycsb-c", Mix([0, 0, 100, 0, 0]), Distribution::Zipf(Zipf::THETA_OF_YCSB), YCSB_SCAN_PAIRS),
    ("ycsb-d", Mix([5, 0, 95, 0, 0]), Distribution::Latest, YCSB_SCAN_PAIRS),
    ("ycsb-e", Mix([5, 0, 0, 95, 0]), Distribution::Zipf(Zipf::THETA_OF_YCSB), YCSB_SCAN_PAIRS),
    ("ycsb-f", Mix([0, 0, 50, 0, 50]), Distribution::Zipf(Zipf::THETA_OF_YCSB), YCSB_SCAN_PAIRS),
    ("get", Mix([0, 0, 100, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("update", Mix([0, 100, 0, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("mix", Mix([0, 50, 50, 0, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
    ("scans", Mix([0, 0, 0, 100, 0]), Distribution::Uniform, ZKV_SCAN_PAIRS),
];

/// The longest scan that `scan:N` takes.
const SCAN_PAIRS_MAX: u64 = 1_000_000_000;

/// The most keys that `multi-get:N` asks for at once.
const GETS_MAX: u64 = 65_536;

impl Workload {
    /// The phase that fills a store: inserts only.
    #[must_use]
    pub fn load() -> Self {
        let mut load = Self::find("zkv-a").expect("zkv-a is in the table");
        load.name = "load".to_owned();
        load
    }

    /// The five workloads of the ZKV paper's YCSB row.
    #[must_use]
    pub fn zkv() -> Vec<Self> {
        ["zkv-a", "zkv-b", "zkv-c", "zkv-d", "zkv-e"].iter().filter_map(|name| Self::find(name)).collect()
    }

    /// The workload called `name`.
    ///
    /// # Errors
    /// `Usage`, with the names that there are.
    pub fn named(name: &str) -> Result<Self> {
        name.parse().map_err(|expected| BenchError::Usage { option: "--workload", given: name.to_owned(), expected })
    }

    fn find(name: &str) -> Option<Self> {
        let (name, mix, distribution, scan) = WORKLOADS.iter().find(|row| row.0 == name)?;
        let scan = ScanLength::UpTo(*scan);
        Some(Self { name: (*name).to_owned(), mix: *mix, distribution: *distribution, scan, gets: 1 })
    }

    fn scan_of(name: &str) -> Option<Self> {
        let pairs: u64 = name.strip_prefix("scan:")?.parse().ok()?;
        let scan = (1..=SCAN_PAIRS_MAX).contains(&pairs).then_some(ScanLength::Exactly(pairs))?;
        let mix = Mix([0, 0, 0, 100, 0]);
        Some(Self { name: name.to_owned(), mix, distribution: Distribution::Uniform, scan, gets: 1 })
    }

    fn mix_of(name: &str) -> Option<Self> {
        let reads: u8 = name.strip_prefix("mix:")?.parse().ok()?;
        let mix = (reads <= 100).then(|| Mix([0, 100 - reads, reads, 0, 0]))?;
        Some(Self { name: name.to_owned(), mix, ..Self::find("mix")? })
    }

    fn multi_get_of(name: &str) -> Option<Self> {
        let gets: u64 = name.strip_prefix("multi-get:")?.parse().ok()?;
        let get = Self::find("get")?;
        (1..=GETS_MAX).contains(&gets).then(|| Self { name: name.to_owned(), gets, ..get })
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        Self::find(text)
            .or_else(|| Self::scan_of(text))
            .or_else(|| Self::multi_get_of(text))
            .or_else(|| Self::mix_of(text))
            .ok_or_else(|| {
                let names: Vec<_> = WORKLOADS.iter().map(|row| row.0).collect();
                format!(
                    "`{text}` is no workload; there are {}, scan:N, multi-get:N and mix:PERCENT-OF-READS",
                    names.join(", ")
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mix_adds_up_to_100() {
        for (name, Mix(percents), _, _) in WORKLOADS {
            assert_eq!(percents.iter().map(|percent| u32::from(*percent)).sum::<u32>(), 100, "{name}");
            assert_eq!(name.parse::<Workload>().unwrap().name, name);
        }
    }

    #[test]
    fn kinds_come_in_their_shares() {
        let mut rng = Rng::seeded(1);
        let mix = "zkv-b".parse::<Workload>().unwrap().mix;
        let reads = (0..10_000).filter(|_| mix.kind(&mut rng) == Kind::Read).count();
        assert!((1_900..2_100).contains(&reads), "{reads}");
        assert!((0..1_000).all(|_| mix.kind(&mut rng) != Kind::Update));
    }

    #[test]
    fn scans_have_their_lengths() {
        let mut rng = Rng::seeded(1);
        let fixed = "scan:7".parse::<Workload>().unwrap().scan;
        assert_eq!(fixed.pairs(&mut rng), 7);
        let drawn: Vec<_> = (0..10_000).map(|_| ScanLength::UpTo(256).pairs(&mut rng)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&256)));
    }

    #[test]
    fn a_multi_get_asks_for_as_many_keys_as_its_name_says() {
        let gets = |name: &str| name.parse::<Workload>().map(|workload| workload.gets);
        assert_eq!((gets("multi-get:32"), gets("get")), (Ok(32), Ok(1)));
        assert!(gets("multi-get:0").is_err() && gets("multi-get:65537").is_err());
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        for name in ["", "zkv", "zkv-f", "scan:", "scan:0", "scan:-1", "ZKV-A"] {
            assert!(name.parse::<Workload>().unwrap_err().contains("skew-e"), "{name}");
        }
    }
}
