//! `zonda://DEVICE?key=value&key=value`.

use std::fmt;

use zonda_device::parse_size;
use zonda_files::{FileStoreOptions, Placement, VictimPolicy, policy};

use crate::failure::Failure;
use crate::options;

/// Our keys; every other one is the device's.
pub(crate) const KEYS: &str = "create, read_only, policy, wal_flush, active_zones, reserve_zones, flush_reserve_zones, \
                    finish_percent, write_buffer, log_buffer, copy_buffer, held_bytes, clean_threshold, clean_rate, victims, \
                    give_up_offline, fs, streams";

/// The share of zones below which a thread cleans where the name does not say, in percent: so much that writers seldom have to wait, and
/// little enough that zones have time to die by themselves.
const CLEAN_BELOW_FREE_PERCENT: u8 = 5;

/// A file system by name, taken apart.
///
/// `DEVICE` is any zoned device: `file:PATH`, `mem:`, `zbd:PATH`, `flash:PROFILE`, or `process:NAME` for one that this program
/// offers ([`offer_device`](crate::offer_device)); with `fs` it is any block device, `conv:PROFILE` and `hftl:NAME` included. Keys:
///
/// | key | means |
/// |---|---|
/// | `create=SIZE` | make the device (a file, memory) with so many bytes if it is not there, and a file system if it is empty, with `fs` if it is [blank](zonda_files::FileStore::block_written); for `zbd:`, where the size is known, `create=on` |
/// | `read_only=on` | mount what is durable now, beside whoever has it mounted for writing, here or in another process; nothing is written, nobody is kept out, and what is cleaned meanwhile is `Stale`. Not with `fs` |
/// | `policy=NAME` | placement policy |
/// | `wal_flush=on` | a log's bytes reach the device at each flush of RocksDB, not only when synced: a killed process loses nothing |
/// | `active_zones=N` | use fewer active zones than the device allows |
/// | `clean_threshold=PERCENT` | a thread cleans while less than this share of the device is free, and resets zones in which nothing is live; on zones 5 where nothing is said, 0 for no such thread |
/// | `clean_rate=SIZE` | it copies at most so many bytes per second; writers that wait for space are not held up by it |
/// | `victims=greedy`, `cost-benefit` | which zone is cleaned: the one with the fewest live bytes, or the best benefit |
/// | `held_bytes=SIZE` | memory for tables that wait for their keys (`policy=caza`, `level-keys`, `lasting`, `splitzns+`) |
/// | `give_up_offline=on` | mount although zones are offline that may have held the end of a log or of the journal |
/// | `fs=xfs-like`, `f2fs-like` | the device is a conventional drive, and tables are placed in blocks as a model of that file system does ([`Placement`]); `conv:PROFILE` is a modelled one, and means `fs=xfs-like` where nothing else is said |
/// | `streams=on` | on a conventional drive: lifetimes become streams of the drive |
/// | `reserve_zones`, `flush_reserve_zones`, `finish_percent`, `write_buffer`, `log_buffer`, `copy_buffer` | as in [`FileStoreOptions`] |
///
/// Other keys are the device's (`zone_size`, `zones`, `max_active`, `direct`, ...).
#[derive(Clone, Debug)]
pub struct Uri {
    /// The device, with its own keys.
    pub(crate) device: String,
    /// `Some(bytes)` to make what is missing; 0 where the size is known.
    pub(crate) create: Option<u64>,
    pub(crate) is_read_only: bool,
    pub(crate) wal_flush: bool,
    /// For a conventional drive.
    pub(crate) placement: Option<Placement>,
    /// `Some` to clean in the background: bytes per second at most, 0 for no limit.
    pub(crate) clean_rate: Option<u64>,
    /// As it was given, behind `zonda://`.
    pub(crate) text: String,
    pub(crate) options: FileStoreOptions,
}

impl Uri {
    /// Takes `zonda://...` apart.
    ///
    /// # Errors
    /// `InvalidArgument` names what is wrong.
    pub fn parse(uri: &str) -> Result<Self, Failure> {
        let text =
            uri.strip_prefix("zonda://").ok_or_else(|| Failure::invalid(format!("{uri:?} is not zonda://DEVICE")))?;
        let (place, query) = text.split_once('?').unwrap_or((text, ""));
        let modelled = place.strip_prefix("conv:").map(|profile| format!("flash:{profile}"));
        let place = modelled.as_deref().unwrap_or(place);
        let mut parsed = Self {
            device: String::new(),
            create: None,
            is_read_only: false,
            wal_flush: false,
            placement: None,
            clean_rate: None,
            text: text.to_owned(),
            options: FileStoreOptions { clock_seconds: options::seconds_since_1970, ..FileStoreOptions::default() },
        };
        let (mut device_keys, mut keys) = (Vec::new(), Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| Failure::invalid(format!("`{pair}` is not key=value")))?;
            if keys.contains(&key) {
                return Err(Failure::invalid(format!("`{key}` is given twice")));
            }
            keys.push(key);
            if !parsed.set(key, value)? {
                device_keys.push(pair);
            }
        }
        if modelled.is_some() {
            parsed.placement.get_or_insert(Placement::XfsLike);
        }
        parsed.check_placement()?;
        parsed.settle_cleaning(keys.contains(&"clean_threshold"))?;
        parsed.device = match device_keys.as_slice() {
            [] => place.to_owned(),
            keys => format!("{place}?{}", keys.join("&")),
        };
        Ok(parsed)
    }

    /// Whether both mean one mount of a device: what their keys say is the same, but for `create`, which says nothing of what exists.
    pub(crate) fn is_same_mount(&self, other: &Self) -> bool {
        let said = |uri: &Self| {
            let Self { device: _, create: _, is_read_only, wal_flush, placement, clean_rate, text: _, options } =
                uri.clone();
            // Policies have options of their own: what they print tells them apart.
            (uri.device_in_order(), is_read_only, wal_flush, placement, clean_rate, format!("{options:?}"))
        };
        said(self) == said(other)
    }

    /// The device with its keys in the order of their names, which tells one device from another.
    pub(crate) fn device_in_order(&self) -> String {
        let Some((place, query)) = self.device.split_once('?') else { return self.device.clone() };
        let mut pairs: Vec<&str> = query.split('&').collect();
        pairs.sort_by_key(|pair| pair.split_once('=').map(|(key, _)| key));
        format!("{place}?{}", pairs.join("&"))
    }

    /// Zones are cleaned in the background unless that is forbidden, a conventional drive if it is asked for.
    fn settle_cleaning(&mut self, has_threshold: bool) -> Result<(), Failure> {
        let threshold = &mut self.options.clean_below_free_percent;
        if !has_threshold {
            *threshold = if self.placement.is_some() { 0 } else { CLEAN_BELOW_FREE_PERCENT };
        }
        let is_on = *threshold > 0;
        if self.clean_rate.is_some() && !is_on {
            return Err(Failure::invalid("clean_rate: nothing cleans in the background without clean_threshold"));
        }
        self.clean_rate = is_on.then(|| self.clean_rate.unwrap_or(0));
        Ok(())
    }

    /// What means nothing on a conventional drive, or on zones, is refused rather than passed over.
    fn check_placement(&self) -> Result<(), Failure> {
        match self.placement {
            None if self.options.streams => {
                Err(Failure::invalid("streams: only a conventional drive (fs=...) has them"))
            }
            Some(_) if self.is_read_only => Err(Failure::invalid(
                "read_only: a store on a conventional drive has no generations to tell by what is stale",
            )),
            _ => Ok(()),
        }
    }

    /// Takes a key if it is ours.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, Failure> {
        let bad = |what: &str| Failure::invalid(format!("`{key}={value}`: {what}; our keys are {KEYS}"));
        let number = || value.parse::<u32>().map_err(|_| bad("not a number"));
        let percent = || value.parse::<u8>().map_err(|_| bad("not a percentage"));
        let size = || parse_size(value).ok_or_else(|| bad("not a size such as 64MiB"));
        let buffer = || size().and_then(|bytes| u32::try_from(bytes).map_err(|_| bad("too large")));
        let switch = || match value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(bad("use on or off")),
        };
        let options = &mut self.options;
        match key {
            "create" => self.create = if value == "on" { Some(0) } else { Some(size()?) },
            "policy" => options.policy = policy::by_name(value)?,
            "fs" => self.placement = Some(Placement::by_name(value).ok_or_else(|| bad("use xfs-like or f2fs-like"))?),
            "streams" => options.streams = switch()?,
            "give_up_offline" => options.gives_up_offline = switch()?,
            "wal_flush" => self.wal_flush = switch()?,
            "read_only" => self.is_read_only = switch()?,
            "clean_threshold" => options.clean_below_free_percent = percent()?,
            "clean_rate" => self.clean_rate = Some(size()?),
            "victims" => options.victims = victims(value).ok_or_else(|| bad("use greedy or cost-benefit"))?,
            "held_bytes" => options.held_bytes_max = size()?,
            "active_zones" => options.active_limit = Some(number()?),
            "reserve_zones" => options.reserve_zones = number()?,
            "flush_reserve_zones" => options.flush_reserve_zones = number()?,
            "finish_percent" => options.finish_percent = percent()?,
            "write_buffer" => options.write_buffer_bytes = buffer()?,
            "log_buffer" => options.log_buffer_bytes = buffer()?,
            "copy_buffer" => options.copy_buffer_bytes = buffer()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zonda://{}", self.text)
    }
}

fn victims(name: &str) -> Option<VictimPolicy> {
    match name {
        "greedy" => Some(VictimPolicy::Greedy),
        "cost-benefit" => Some(VictimPolicy::CostBenefit),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mount_has_many_names() {
        let parsed = |keys: &str| Uri::parse(&format!("zonda://file:/x?{keys}")).unwrap();
        let first = parsed("zone_size=1MiB&policy=splitzns,from=3&zones=40&wal_flush=on&create=1GiB");
        let is_same = |keys: &str| first.is_same_mount(&parsed(keys));
        assert!(is_same("wal_flush=on&zones=40&zone_size=1MiB&policy=splitzns,from=3"));
        assert!(is_same("create=on&streams=off&policy=splitzns,from=3&wal_flush=on&zones=40&zone_size=1MiB"));
        for other in [
            "policy=splitzns,from=2&wal_flush=on",
            "policy=splitzns,from=3",
            "policy=splitzns,from=3&wal_flush=on&clean_rate=1MiB",
        ] {
            assert!(!is_same(&format!("zone_size=1MiB&zones=40&{other}")), "{other}");
        }
    }

    #[test]
    fn our_keys_are_taken_and_the_others_are_the_devices() {
        let uri = Uri::parse("zonda://file:/x/y?zones=40&create=1GiB&policy=levels&max_active=6&wal_flush=on").unwrap();
        assert_eq!(uri.device, "file:/x/y?zones=40&max_active=6");
        assert_eq!((uri.create, uri.wal_flush), (Some(1 << 30), true));
        assert_eq!((uri.options.policy.name(), uri.options.gives_up_offline), ("levels", false));
        assert!(Uri::parse("zonda://mem:?give_up_offline=on").unwrap().options.gives_up_offline);
        let plain = Uri::parse("zonda://mem:").unwrap();
        assert_eq!((plain.device.as_str(), plain.options.policy.name()), ("mem:", "ldp"));
    }

    #[test]
    fn zones_are_cleaned_in_the_background_unless_that_is_forbidden() {
        let uri = |keys: &str| Uri::parse(&format!("zonda://mem:?{keys}"));
        let plain = uri("policy=caza").unwrap();
        assert_eq!((plain.clean_rate, plain.options.clean_below_free_percent), (Some(0), 5));
        assert_eq!(uri("clean_threshold=0").unwrap().clean_rate, None);
        assert_eq!(uri("fs=xfs-like").unwrap().clean_rate, None);
        assert_eq!(uri("fs=f2fs-like&clean_threshold=9").unwrap().clean_rate, Some(0));
        assert_eq!(uri("clean_rate=8MiB").unwrap().clean_rate, Some(8 << 20));
        let uri_with_rate = uri("clean_rate=8MiB&clean_threshold=15&victims=cost-benefit").unwrap();
        assert_eq!(uri_with_rate.clean_rate, Some(8 << 20));
        let options = uri_with_rate.options;
        assert_eq!((options.clean_below_free_percent, options.victims), (15, VictimPolicy::CostBenefit));
        assert_eq!(uri("clean_threshold=5").unwrap().clean_rate, Some(0));
        assert!(uri("clean_rate=8MiB&clean_threshold=0").unwrap_err().message.contains("clean_threshold"));
        assert!(uri("clean_rate=8MiB&fs=f2fs-like").unwrap_err().message.contains("clean_threshold"));
        assert!(uri("read_only=on").unwrap().is_read_only);
    }

    #[test]
    fn conventional_drives_have_a_placement() {
        let uri = |text: &str| Uri::parse(text).unwrap();
        let modelled = uri("zonda://conv:atc21-7op?scale=1/64&streams=on&data=/x");
        assert_eq!(modelled.device, "flash:atc21-7op?scale=1/64&data=/x");
        assert_eq!((modelled.placement, modelled.options.streams), (Some(Placement::XfsLike), true));
        assert_eq!(uri("zonda://conv:atc21-7op?fs=f2fs-like").placement, Some(Placement::F2fsLike));
        assert_eq!(uri("zonda://file:/x?fs=f2fs-like").placement, Some(Placement::F2fsLike));
        assert_eq!(uri("zonda://file:/x").placement, None);
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |text: &str| Uri::parse(text).unwrap_err().message;
        assert!(refusal("file:/x").contains("zonda://"));
        assert!(refusal("zonda://mem:?fs=ext4").contains("xfs-like"));
        assert!(refusal("zonda://mem:?streams=on").contains("conventional"));
        assert!(refusal("zonda://conv:test-conv?read_only=on").contains("read_only"));
        assert!(refusal("zonda://mem:?create").contains("key=value"));
        assert!(refusal("zonda://mem:?create=much").contains("create=much"));
        assert!(refusal("zonda://mem:?create=99999999999TiB").contains("not a size"));
        assert!(refusal("zonda://mem:?policy=best").contains("best"));
        assert!(refusal("zonda://mem:?victims=oldest").contains("cost-benefit"));
        assert!(refusal("zonda://mem:?wal_flush=maybe").contains("on or off"));
        assert!(refusal("zonda://mem:?log_buffer=8GiB").contains("too large"));
        assert!(refusal("zonda://mem:?policy=caza&clean_rate=1MiB&policy=ldp").contains("`policy` is given twice"));
        assert!(refusal("zonda://mem:?zones=40&zones=50").contains("`zones` is given twice"));
    }
}
