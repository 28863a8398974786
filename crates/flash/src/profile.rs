//! Drives as documented text: a profile names a drive, its sources and its numbers, and becomes the shapes of a model.
mod check;

use std::fmt;

use serde::Deserialize;

use crate::conventional::{ConventionalShape, Policy};
use crate::core::{CoreShape, Demand, Nanos};
use crate::zns::{SplitShape, ZonedShape};

/// Profiles that come with the library: (name, text).
const BUILT_IN: [(&str, &str); 10] = [
    ("zn540", include_str!("../profiles/zn540.toml")),
    ("splitzns", include_str!("../profiles/splitzns.toml")),
    ("splitzns-conv-20op", include_str!("../profiles/splitzns-conv-20op.toml")),
    ("atc21-zns", include_str!("../profiles/atc21-zns.toml")),
    ("atc21-7op", include_str!("../profiles/atc21-7op.toml")),
    ("atc21-28op", include_str!("../profiles/atc21-28op.toml")),
    ("femu-tlc", include_str!("../profiles/femu-tlc.toml")),
    ("pm1731a-like", include_str!("../profiles/pm1731a-like.toml")),
    ("test", include_str!("../profiles/test.toml")),
    ("test-conv", include_str!("../profiles/test-conv.toml")),
];

/// A drive in numbers. Times are in nanoseconds, sizes in bytes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where the numbers come from.
    pub sources: Vec<String>,
    /// The flash.
    pub flash: Flash,
    /// What is around it.
    pub controller: Controller,
    /// Present for zoned drives.
    pub zoned: Option<Zoned>,
    /// Present for conventional drives.
    pub conventional: Option<Conventional>,
    /// Scale that was applied: see [`Profile::scaled`].
    #[serde(skip, default = "one")]
    pub scale: u64,
}

fn one() -> u64 {
    1
}

/// The flash: see [`CoreShape`] for what is not said here.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Channels.
    pub channels: usize,
    /// Dies, all channels together.
    pub dies: usize,
    /// Planes of a die; one command works on all of them.
    pub planes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Pages of each plane that one program writes.
    pub pages_per_program: u64,
    /// Sensing.
    pub sense_ns: Nanos,
    /// Programming.
    pub program_ns: Nanos,
    /// Erasing.
    pub erase_ns: Nanos,
    /// Between two places where reads may interrupt a program or erase; absent: never.
    pub slice_ns: Option<Nanos>,
    /// The same for work of collection; absent: as `slice_ns`.
    pub collection_slice_ns: Option<Nanos>,
    /// Reads that come between.
    pub reads_per_gap: u32,
    /// What an interruption costs.
    pub resume_ns: Nanos,
    /// See [`CoreShape::reads_in_order`].
    #[serde(default)]
    pub reads_in_order: bool,
    /// Channel speed; 0 is infinite.
    pub channel_bytes_per_s: u64,
    /// Piece in which program data crosses a channel.
    pub channel_piece_bytes: u64,
}

/// Controller, host interface and write buffer: see [`CoreShape`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// See [`CoreShape::read_serial_ns`].
    pub read_serial_ns: Nanos,
    /// See [`CoreShape::read_latency_ns`].
    pub read_latency_ns: Nanos,
    /// See [`CoreShape::bus_command_ns`].
    pub bus_command_ns: Nanos,
    /// See [`CoreShape::bus_bytes_per_s`].
    pub bus_bytes_per_s: u64,
    /// See [`CoreShape::write_demand`].
    pub write_demand: Vec<(u64, Nanos)>,
    /// See [`CoreShape::write_latency_ns`].
    pub write_latency_ns: Nanos,
    /// See [`CoreShape::append_demand`].
    pub append_demand: Vec<(u64, Nanos)>,
    /// See [`CoreShape::append_latency_ns`].
    pub append_latency_ns: Nanos,
    /// See [`CoreShape::buffer_bytes`]; 0: no buffer, a write is done when its programs are.
    pub buffer_bytes: u64,
    /// True if the buffer survives a power cut.
    pub durable_buffer: bool,
    /// A flush with a durable or empty buffer.
    pub flush_ns: Nanos,
}

/// Zones: see [`ZonedShape`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Zones.
    pub zones: u32,
    /// See [`ZonedShape::zone_size_bytes`].
    pub zone_size_bytes: u64,
    /// See [`ZonedShape::zone_capacity_bytes`].
    pub zone_capacity_bytes: u64,
    /// See [`ZonedShape::dies_per_zone`].
    pub dies_per_zone: usize,
    /// Most open zones; absent: no limit.
    pub max_open: Option<u32>,
    /// Most active zones; absent: no limit.
    pub max_active: Option<u32>,
    /// Most bytes of an append; absent: no limit.
    pub append_bytes_max: Option<u64>,
    /// See [`ZonedShape::open_ns`].
    pub open_ns: Nanos,
    /// See [`ZonedShape::close_ns`].
    pub close_ns: Nanos,
    /// See [`ZonedShape::report_ns`].
    pub report_ns: Nanos,
    /// See [`ZonedShape::reset_empty_ns`].
    pub reset_empty_ns: Nanos,
    /// See [`ZonedShape::reset_base_ns`].
    pub reset_base_ns: Nanos,
    /// See [`ZonedShape::reset_occupancy_ns`].
    pub reset_occupancy_ns: Nanos,
    /// See [`ZonedShape::reset_unfinished_ns`].
    pub reset_unfinished_ns: Nanos,
    /// See [`ZonedShape::reset_erases_blocks`]; absent: false.
    #[serde(default)]
    pub reset_erases_blocks: bool,
    /// See [`ZonedShape::finish_empty_ns`].
    pub finish_empty_ns: Nanos,
    /// See [`ZonedShape::finish_min_ns`].
    pub finish_min_ns: Nanos,
    /// See [`ZonedShape::finish_pads`].
    #[serde(default = "yes")]
    pub finish_pads: bool,
    /// Present for drives that split zones.
    pub split: Option<Split>,
}

/// Split zones: see [`SplitShape`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Zones that the ring holds; 0: no ring.
    pub ring_zones: u64,
    /// See [`SplitShape::ring_durable`].
    pub ring_durable: bool,
    /// See [`SplitShape::preread_bytes`].
    pub preread_bytes: u64,
    /// See [`SplitShape::near_reads`]; absent: true.
    #[serde(default = "yes")]
    pub near_reads: bool,
    /// See [`SplitShape::restart_reads`].
    pub restart_reads: bool,
    /// See [`SplitShape::queries_first`].
    pub queries_first: bool,
    /// See [`SplitShape::ring_serves_reads`]; absent: true.
    #[serde(default = "yes")]
    pub ring_serves_reads: bool,
}

fn yes() -> bool {
    true
}

/// The translation layer: see [`ConventionalShape`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conventional {
    /// Bytes of flash, reserve included.
    pub physical_bytes: u64,
    /// Thousandths of it that neither host nor collection can use: bad blocks, metadata.
    pub reserve_permille: u64,
    /// Bytes that the host sees.
    pub logical_bytes: u64,
    /// Erase blocks of all dies and planes that are filled and erased together: their number.
    pub superblocks: u64,
    /// See [`ConventionalShape::map_bytes`].
    pub map_bytes: u64,
    /// See [`ConventionalShape::streams`].
    pub streams: u32,
    /// See [`ConventionalShape::separate_collection`].
    pub separate_collection: bool,
    /// See [`ConventionalShape::policy`].
    pub policy: Policy,
    /// See [`ConventionalShape::collect_below`].
    pub collect_below: u64,
    /// See [`ConventionalShape::background_below`].
    pub background_below: u64,
    /// See [`ConventionalShape::collect_depth`].
    pub collect_depth: u32,
    /// See [`ConventionalShape::collect_depth_min`]; absent: as `collect_depth`.
    pub collect_depth_min: Option<u32>,
}

/// Why a profile cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(pub String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Names of the profiles that come with the library.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A profile that comes with the library.
    ///
    /// # Errors
    /// For a name that is not among them, with those that are.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        Self::parse(Self::text(name)?)
    }

    /// The text of a profile that comes with the library.
    ///
    /// # Errors
    /// For a name that is not among them, with those that are.
    pub fn text(name: &str) -> Result<&'static str, ProfileError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Ok(text),
            None => {
                let known: Vec<_> = Self::names().collect();
                Err(ProfileError(format!("unknown profile `{name}`; known are {}", known.join(", "))))
            }
        }
    }

    /// A profile from its text.
    ///
    /// # Errors
    /// With the line and what is wrong there, or with the number that makes no sense.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// The same drive with blocks, and so zones and capacity, `scale` times smaller.
    ///
    /// Divided are: pages of a block (so zone, ring, capacity, superblock), erase time, what reset and finish cost for zones that are
    /// written. Not divided: numbers of zones, dies, planes and superblocks, page size, times of reads and programs,
    /// speeds, the write buffer, limits of open and active zones, ratios of over-provisioning. A workload that is `scale` times shorter
    /// then meets the same drive. What is read ahead of a subzone is divided down to four pages of each plane.
    ///
    /// # Errors
    /// If a zone or superblock would be less than a program unit on each of its dies.
    pub fn scaled(mut self, scale: u64) -> Result<Self, ProfileError> {
        if scale == 0 {
            return Err(ProfileError("the scale is a positive number".to_owned()));
        }
        let unit = self.unit_bytes();
        self.flash.erase_ns /= scale;
        if let Some(zoned) = &mut self.zoned {
            zoned.zone_size_bytes /= scale;
            zoned.zone_capacity_bytes = zoned.zone_capacity_bytes / scale / BLOCK * BLOCK;
            zoned.zone_size_bytes = zoned.zone_size_bytes / BLOCK * BLOCK;
            zoned.reset_base_ns /= scale;
            zoned.reset_occupancy_ns /= scale;
            zoned.reset_unfinished_ns /= scale;
            zoned.finish_min_ns /= scale;
            if let Some(split) = zoned.split.as_mut().filter(|split| split.preread_bytes > 0) {
                // As many pages of all planes as the paper has flash pages, whatever a subzone has: a scaled read-ahead of the
                // host would not fit otherwise.
                let least = PREREAD_ROWS_MIN * self.flash.planes * self.flash.page_bytes;
                split.preread_bytes = (split.preread_bytes / scale).max(least.min(split.preread_bytes));
            }
        }
        if let Some(conventional) = &mut self.conventional {
            let row = unit * self.flash.dies as u64;
            let superblock = conventional.physical_bytes / conventional.superblocks / scale / row * row;
            let physical = superblock * conventional.superblocks;
            let ratio = u128::from(physical) * u128::from(conventional.logical_bytes);
            let logical = ratio / u128::from(conventional.physical_bytes.max(1));
            conventional.logical_bytes = u64::try_from(logical).unwrap_or(u64::MAX) / MAP_ALIGN * MAP_ALIGN;
            conventional.physical_bytes = physical;
        }
        self.scale *= scale;
        self.check()?;
        Ok(self)
    }

    /// The same with another number of chips, two on each channel, and zones of the same size over all of them: so that erase blocks
    /// are as many times smaller as chips are more.
    ///
    /// # Errors
    /// If it is no zoned drive, or a zone has less than a unit of each chip.
    pub fn with_chips(mut self, chips: u16) -> Result<Self, ProfileError> {
        let name = &self.name;
        let zoned = self.zoned.as_mut().ok_or_else(|| ProfileError(format!("{name}: no zoned drive")))?;
        zoned.dies_per_zone = chips.into();
        self.flash.dies = chips.into();
        self.flash.channels = usize::from(chips).div_ceil(CHIPS_OF_A_CHANNEL);
        self.check()?;
        Ok(self)
    }

    /// Bytes that a host can write.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        let zoned = self.zoned.as_ref().map(|zoned| u64::from(zoned.zones) * zoned.zone_capacity_bytes);
        let conventional = self.conventional.as_ref().map(|conventional| conventional.logical_bytes);
        zoned.or(conventional).unwrap_or(0)
    }

    /// Hash over everything it says, words about its numbers and scale included: results carried it before they carried
    /// [`hash`](Self::hash).
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{self:?}").bytes().fold(0xcbf2_9ce4_8422_2325, mix)
    }

    /// Bytes programmed at once on one die.
    #[must_use]
    pub fn unit_bytes(&self) -> u64 {
        self.flash.planes * self.flash.page_bytes * self.flash.pages_per_program
    }

    /// What the core is made of.
    #[must_use]
    pub fn core_shape(&self, seed: u64) -> CoreShape {
        let (flash, controller) = (&self.flash, &self.controller);
        CoreShape {
            channels: flash.channels,
            dies: flash.dies,
            sense_ns: flash.sense_ns,
            program_ns: flash.program_ns,
            erase_ns: flash.erase_ns,
            slice_ns: flash.slice_ns.unwrap_or(u64::MAX),
            collection_slice_ns: flash.collection_slice_ns.or(flash.slice_ns).unwrap_or(u64::MAX),
            reads_per_gap: flash.reads_per_gap,
            reads_in_order: flash.reads_in_order,
            resume_ns: flash.resume_ns,
            channel_bytes_per_s: flash.channel_bytes_per_s,
            channel_piece_bytes: flash.channel_piece_bytes,
            read_serial_ns: controller.read_serial_ns,
            read_latency_ns: controller.read_latency_ns,
            bus_command_ns: controller.bus_command_ns,
            bus_bytes_per_s: controller.bus_bytes_per_s,
            write_demand: Demand { points: controller.write_demand.clone() },
            append_demand: Demand { points: controller.append_demand.clone() },
            write_latency_ns: controller.write_latency_ns,
            append_latency_ns: controller.append_latency_ns,
            buffer_bytes: if controller.buffer_bytes == 0 { u64::MAX } else { controller.buffer_bytes },
            early_ack: controller.buffer_bytes > 0,
            seed,
        }
    }

    /// The zones, if it is a zoned drive.
    #[must_use]
    pub fn zoned_shape(&self) -> Option<ZonedShape> {
        let zoned = self.zoned.as_ref()?;
        let split = zoned.split.as_ref().map(|split| SplitShape {
            ring_bytes: split.ring_zones * zoned.zone_capacity_bytes,
            ring_durable: split.ring_durable,
            preread_bytes: split.preread_bytes,
            page_bytes: self.flash.page_bytes,
            near_reads: split.near_reads,
            restart_reads: split.restart_reads,
            queries_first: split.queries_first,
            ring_serves_reads: split.ring_serves_reads,
        });
        let ring_is_lost = split.is_some_and(|split| split.ring_bytes > 0 && !split.ring_durable);
        Some(ZonedShape {
            split,
            zone_size_bytes: zoned.zone_size_bytes,
            zone_capacity_bytes: zoned.zone_capacity_bytes,
            zones: zoned.zones,
            dies_per_zone: zoned.dies_per_zone,
            unit_bytes: self.unit_bytes(),
            sense_bytes: self.flash.planes * self.flash.page_bytes,
            durable_buffer: self.controller.durable_buffer && !ring_is_lost,
            flush_ns: self.controller.flush_ns,
            open_ns: zoned.open_ns,
            close_ns: zoned.close_ns,
            report_ns: zoned.report_ns,
            reset_empty_ns: zoned.reset_empty_ns,
            reset_base_ns: zoned.reset_base_ns,
            reset_occupancy_ns: zoned.reset_occupancy_ns,
            reset_unfinished_ns: zoned.reset_unfinished_ns,
            reset_erases_blocks: zoned.reset_erases_blocks,
            finish_empty_ns: zoned.finish_empty_ns,
            finish_min_ns: zoned.finish_min_ns,
            finish_pads: zoned.finish_pads,
        })
    }

    /// The translation layer, if it is a conventional drive.
    #[must_use]
    pub fn conventional_shape(&self) -> Option<ConventionalShape> {
        let conventional = self.conventional.as_ref()?;
        let row = self.unit_bytes() * self.flash.dies as u64;
        let superblock = conventional.physical_bytes / conventional.superblocks / row * row;
        let usable = conventional.superblocks * (1000 - conventional.reserve_permille.min(999)) / 1000;
        Some(ConventionalShape {
            logical_bytes: conventional.logical_bytes,
            superblock_bytes: superblock,
            superblocks: usize::try_from(usable).unwrap_or(usize::MAX),
            unit_bytes: self.unit_bytes(),
            sense_bytes: self.flash.planes * self.flash.page_bytes,
            map_bytes: conventional.map_bytes,
            streams: conventional.streams,
            separate_collection: conventional.separate_collection,
            policy: conventional.policy,
            collect_below: usize::try_from(conventional.collect_below).unwrap_or(usize::MAX),
            background_below: usize::try_from(conventional.background_below).unwrap_or(usize::MAX),
            collect_depth: conventional.collect_depth,
            collect_depth_min: conventional.collect_depth_min.unwrap_or(conventional.collect_depth),
            durable_buffer: self.controller.durable_buffer,
            flush_ns: self.controller.flush_ns,
        })
    }

    /// A number that is the same for profiles with the same numbers: reports and results carry it, so that they are told from those of
    /// another one.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let text = format!("{:?} {:?} {:?} {:?}", self.flash, self.controller, self.zoned, self.conventional);
        zonda_rt::Seed(0).derive(&text).0
    }
}

/// Sizes after scaling are whole blocks.
const BLOCK: u64 = 4096;
/// Pages of all planes that are read ahead of a subzone at any scale.
const PREREAD_ROWS_MIN: u64 = 4;
/// The SplitZNS paper's: eight channels for sixteen chips.
const CHIPS_OF_A_CHANNEL: usize = 2;
/// The host's capacity after scaling is a multiple of this, larger than any mapping unit.
const MAP_ALIGN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_make_sense() {
        for name in Profile::names() {
            let profile = Profile::named(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(!profile.sources.is_empty() && !profile.about.is_empty());
            assert!(profile.zoned_shape().is_some() != profile.conventional_shape().is_some());
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(Profile::named("no-such").unwrap_err().0.contains("zn540"));
        let text = include_str!("../profiles/test.toml");
        assert!(Profile::parse(&text.replace("dies = ", "dice = ")).unwrap_err().0.contains("dice"));
        assert!(Profile::parse(&text.replace("planes = 2", "planes = 0")).unwrap_err().0.contains("planes"));
        assert!(Profile::parse(&text.replace("\ndies = 4", "\ndies = 65536")).unwrap_err().0.contains("flash.dies"));
        let text = include_str!("../profiles/test-conv.toml");
        for (number, other, said) in [
            ("map_bytes = 4096", "map_bytes = 0", "map_bytes is 0"),
            ("map_bytes = 4096", "map_bytes = 3000", "map_bytes is 3000"),
            ("collect_below = 6", "collect_below = 2", "collect_below is 2"),
            ("collect_below = 6", "collect_below = 18446744073709551615", "too few for 2 streams"),
            ("superblocks = 160", "superblocks = 8", "8 superblocks are too few"),
            (
                "logical_bytes = 16777216",
                "logical_bytes = 20447232",
                "too few are left for 2 streams and for collection",
            ),
            ("resume_ns = 6000", "resume_ns = 230000", "flash.resume_ns is 230000, and flash.slice_ns no more"),
            (
                "resume_ns = 6000",
                "resume_ns = 6000\ncollection_slice_ns = 5000",
                "resume_ns is 6000, and flash.collection_slice_ns no more",
            ),
            (
                "write_demand = [[4096, 5400], [8192",
                "write_demand = [[8192, 5400], [4096",
                "write_demand has 4096 bytes behind 8192",
            ),
            ("[16384, 12800]", "[8192, 12800]", "append_demand has 8192 bytes behind 8192"),
        ] {
            let error = Profile::parse(&text.replace(number, other)).unwrap_err().0;
            assert!(error.contains(said), "{other}: {error}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_counted_are_refused() {
        const MOST: &str = "9223372036854775807";
        for (profile, number, said) in [
            ("test", "\nplanes = ", "planes, pages and dies"),
            ("test", "page_bytes = ", "planes, pages and dies"),
            ("test", "pages_per_program = ", "planes, pages and dies"),
            ("test", "program_ns = ", "flash.program_ns is"),
            ("test", "flush_ns = ", "controller.flush_ns is"),
            ("test", "[[4096, ", "controller.write_demand is"),
            ("test", "reset_occupancy_ns = ", "zoned.reset_occupancy_ns is"),
            ("test", "zone_size_bytes = ", "64 zones of 9223372036854775807 bytes"),
            ("test-conv", "superblocks = ", "a superblock is less than"),
            ("splitzns", "ring_zones = ", "a ring of"),
        ] {
            let text = Profile::text(profile).unwrap();
            let at = text.find(number).unwrap() + number.len();
            let end = at + text[at..].find(|c: char| !c.is_ascii_digit()).unwrap();
            let error = Profile::parse(&format!("{}{MOST}{}", &text[..at], &text[end..])).unwrap_err().0;
            assert!(error.contains(said), "{number}: {error}");
        }
        let text = Profile::text("test-conv").unwrap().replace("logical_bytes = 16777216", "logical_bytes = 0");
        assert!(Profile::parse(&text).unwrap_err().0.contains("0 bytes of the host"));
        let text =
            Profile::text("splitzns").unwrap().replace("preread_bytes = 524288", &format!("preread_bytes = {MOST}"));
        let profile = Profile::parse(&text).unwrap();
        let model = crate::zns::ZonedModel::new(profile.core_shape(1), profile.zoned_shape().unwrap());
        assert_eq!(model.split_memory().unwrap().preread_bytes, u64::MAX);
    }

    #[test]
    fn drives_that_are_compared_have_the_same_flash() {
        for (one, other) in
            [("splitzns", "splitzns-conv-20op"), ("atc21-zns", "atc21-7op"), ("atc21-zns", "atc21-28op")]
        {
            let flash = |name: &str| format!("{:?}", Profile::named(name).unwrap().flash);
            assert_eq!(flash(one), flash(other), "{one} and {other}");
        }
    }

    #[test]
    fn scale_keeps_what_it_must() {
        let (full, small) = (Profile::named("zn540").unwrap(), Profile::named("zn540").unwrap().scaled(16).unwrap());
        let (full_zone, small_zone) = (full.zoned_shape().unwrap(), small.zoned_shape().unwrap());
        assert_eq!(small_zone.zone_size_bytes, full_zone.zone_size_bytes / 16);
        assert!(small_zone.zone_capacity_bytes.abs_diff(full_zone.zone_capacity_bytes / 16) < BLOCK);
        assert_eq!((small_zone.zones, small_zone.unit_bytes), (full_zone.zones, full_zone.unit_bytes));
        assert_eq!(small.core_shape(0).program_ns, full.core_shape(0).program_ns);
        let conventional = Profile::named("atc21-7op").unwrap();
        let (big, small) = (
            conventional.conventional_shape().unwrap(),
            conventional.scaled(64).unwrap().conventional_shape().unwrap(),
        );
        assert_eq!(small.superblocks, big.superblocks);
        let ratio = |shape: &ConventionalShape| shape.usable_bytes() as f64 / shape.logical_bytes as f64;
        assert!((ratio(&big) / ratio(&small) - 1.0).abs() < 0.002, "{} {}", ratio(&big), ratio(&small));
        assert!(Profile::named("zn540").unwrap().scaled(1 << 20).is_err());
    }
}
