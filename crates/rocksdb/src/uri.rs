//! `zonda://DEVICE?key=value&key=value`.

use std::fmt;

use zonda_files::{FileStoreOptions, policy};

use crate::failure::Failure;
use crate::options;

/// Our keys; every other one is the device's.
const KEYS: &str = "create, policy, wal_flush, active_zones, reserve_zones, flush_reserve_zones, finish_percent, \
                    write_buffer, log_buffer";

/// A file system by name, taken apart.
///
/// `DEVICE` is any zoned device: `file:PATH`, `mem:`, `zbd:PATH`, `flash:PROFILE`, or `process:NAME` for one that this program
/// offers ([`offer_device`](crate::offer_device)). Keys:
///
/// | key | means |
/// |---|---|
/// | `create=SIZE` | make the device (a file, memory) with so many bytes if it is not there, and a file system if it is empty; for `zbd:`, where the size is known, `create=on` |
/// | `policy=NAME` | placement policy |
/// | `wal_flush=on` | a log's bytes reach the device at each flush of RocksDB, not only when synced: a killed process loses nothing |
/// | `active_zones=N` | use fewer active zones than the device allows |
/// | `reserve_zones`, `flush_reserve_zones`, `finish_percent`, `write_buffer`, `log_buffer` | as in [`FileStoreOptions`] |
///
/// Other keys are the device's (`zone_size`, `zones`, `max_active`, `direct`, ...).
#[derive(Clone, Debug)]
pub struct Uri {
    /// The device, with its own keys.
    pub(crate) device: String,
    /// `Some(bytes)` to make what is missing; 0 where the size is known.
    pub(crate) create: Option<u64>,
    pub(crate) wal_flush: bool,
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
        let mut parsed = Self {
            device: String::new(),
            create: None,
            wal_flush: false,
            text: text.to_owned(),
            options: FileStoreOptions { clock_seconds: options::seconds_since_1970, ..FileStoreOptions::default() },
        };
        let mut device_keys = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| Failure::invalid(format!("`{pair}` is not key=value")))?;
            if !parsed.set(key, value)? {
                device_keys.push(pair);
            }
        }
        parsed.device = match device_keys.as_slice() {
            [] => place.to_owned(),
            keys => format!("{place}?{}", keys.join("&")),
        };
        Ok(parsed)
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
            "wal_flush" => self.wal_flush = switch()?,
            "active_zones" => options.active_limit = Some(number()?),
            "reserve_zones" => options.reserve_zones = number()?,
            "flush_reserve_zones" => options.flush_reserve_zones = number()?,
            "finish_percent" => options.finish_percent = percent()?,
            "write_buffer" => options.write_buffer_bytes = buffer()?,
            "log_buffer" => options.log_buffer_bytes = buffer()?,
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

/// A number, or one with a binary suffix.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_keys_are_taken_and_the_others_are_the_devices() {
        let uri = Uri::parse("zonda://file:/x/y?zones=40&create=1GiB&policy=ldp&max_active=6&wal_flush=on").unwrap();
        assert_eq!(uri.device, "file:/x/y?zones=40&max_active=6");
        assert_eq!((uri.create, uri.wal_flush), (Some(1 << 30), true));
        assert_eq!(uri.options.policy.name(), "ldp");
        assert_eq!(Uri::parse("zonda://mem:").unwrap().device, "mem:");
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |text: &str| Uri::parse(text).unwrap_err().message;
        assert!(refusal("file:/x").contains("zonda://"));
        assert!(refusal("zonda://mem:?create").contains("key=value"));
        assert!(refusal("zonda://mem:?create=much").contains("create=much"));
        assert!(refusal("zonda://mem:?create=99999999999TiB").contains("not a size"));
        assert!(refusal("zonda://mem:?policy=best").contains("best"));
        assert!(refusal("zonda://mem:?wal_flush=maybe").contains("on or off"));
        assert!(refusal("zonda://mem:?log_buffer=8GiB").contains("too large"));
    }
}
