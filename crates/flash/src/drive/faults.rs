//! Faults of a drive by name: the key `faults` of `flash:`, a list of rules with commas between them.
//!
//! A rule is `OPERATION[/ZONE]:EFFECT[@WHEN]`:
//!
//! - operation: `read`, `write`, `append`, `flush`, `report`, `open`, `close`, `finish`, `reset`, `trim`, or `any`;
//! - zone: a number; on drives that split zones `ZONE.SUBZONE`, that part of the zone, split or not;
//! - effect: `media` or `io` (not done, and that error), `torn-N` (a write does its first N blocks, then a media error),
//!   `read-only` or `offline` (what becomes of the zone; the operation answers so), `delay-3ms` (or `us`, `s`: done, so much
//!   later in the drive's time), `power-lost` (not done; with `@N+` the drive is gone from then on);
//! - when: `N`, the N-th of the matching operations; `N+`, that and all later ones; `P%`, each with this probability, drawn
//!   from the drive's seed; nothing is every one.
//!
//! Faults lie below the model: what fails takes no time. Without time (`time=untimed`) delays are no time either.
use std::sync::Arc;
use std::time::Duration;

use zonda_device::{
    BlockDevice, ErrorKind, Fault, FaultEffect, FaultWhen, Faulty, Result, ZoneId, ZoneState, ZonedDevice,
};
use zonda_rt::DeviceCall;

use super::clock::{Clock, TimeMode};
use super::open::bad;

/// Where a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    Zone(u32),
    Part(u32, u16),
}

/// A rule as the name has it.
#[derive(Clone, Debug, PartialEq)]
struct Rule {
    call: Option<DeviceCall>,
    place: Place,
    effect: FaultEffect,
    when: FaultWhen,
}

/// All rules of a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    /// Takes a list of rules apart.
    pub(super) fn parse(text: &str) -> Result<Self> {
        Ok(Self { rules: text.split(',').map(rule).collect::<Result<_>>()? })
    }

    /// Refuses rules that a drive with so many zones, or none, cannot have. `subzones` of a zone, where zones are split.
    pub(super) fn check(&self, zones: Option<u32>, subzones: Option<u16>) -> Result<()> {
        for rule in &self.rules {
            let is_of_zones = rule.place != Place::Anywhere || matches!(rule.effect, FaultEffect::Retire(_));
            match (rule.place, zones) {
                (_, None) if is_of_zones => return Err(bad("a fault of a zone is for zoned drives".to_owned())),
                (Place::Zone(zone) | Place::Part(zone, _), Some(count)) if zone >= count => {
                    return Err(bad(format!("a fault of zone {zone}: there are {count}")));
                }
                _ => {}
            }
            match (rule.place, subzones) {
                (Place::Zone(zone), Some(_)) => {
                    return Err(bad(format!(
                        "a zone of this drive has parts: say {zone}.0 for the first of zone {zone}"
                    )));
                }
                (Place::Part(..), None) => return Err(bad("zones of this drive have no subzones".to_owned())),
                (Place::Part(_, index), Some(count)) if index >= count => {
                    return Err(bad(format!("subzone {index}: there are {count}")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts zones behind these faults.
    pub(super) fn over_zones<D: ZonedDevice + 'static>(
        &self,
        device: D,
        (mode, seed): (TimeMode, u64),
        subzones: Option<u16>,
    ) -> Arc<dyn ZonedDevice> {
        if self.rules.is_empty() {
            return Arc::new(device);
        }
        let faulty = Faulty::new(device, seed);
        self.faults(mode, subzones).for_each(|fault| faulty.inject(fault));
        Arc::new(faulty)
    }

    /// Puts blocks behind these faults.
    pub(super) fn over_blocks<D: BlockDevice + 'static>(
        &self,
        device: D,
        (mode, seed): (TimeMode, u64),
    ) -> Arc<dyn BlockDevice> {
        if self.rules.is_empty() {
            return Arc::new(device);
        }
        let faulty = Faulty::new(device, seed);
        self.faults(mode, None).for_each(|fault| faulty.inject(fault));
        Arc::new(faulty)
    }

    /// Rules for the device below, in the time of callers. A drive that splits zones has one zone more below for each.
    fn faults(&self, mode: TimeMode, subzones: Option<u16>) -> impl Iterator<Item = Fault> + '_ {
        let clock = Clock::new(mode);
        self.rules.iter().filter_map(move |rule| {
            let zone = match rule.place {
                Place::Anywhere => None,
                Place::Zone(zone) => Some(ZoneId(zone)),
                Place::Part(zone, index) => {
                    Some(ZoneId(zone * (u32::from(subzones.unwrap_or(0)) + 1) + u32::from(index)))
                }
            };
            let effect = match rule.effect {
                FaultEffect::Delay(_) if mode == TimeMode::Untimed => return None,
                FaultEffect::Delay(time) => {
                    FaultEffect::Delay(clock.dilated(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
                }
                other => other,
            };
            Some(Fault { call: rule.call, zone, when: rule.when, effect })
        })
    }
}

fn rule(text: &str) -> Result<Rule> {
    let refused = |why: &str| bad(format!("`{text}`: {why}"));
    let (operation, rest) = text.split_once(':').ok_or_else(|| refused("a fault is OPERATION[/ZONE]:EFFECT[@WHEN]"))?;
    let (operation, zone) = operation.split_once('/').map_or((operation, None), |(call, zone)| (call, Some(zone)));
    let (effect, when) = rest.split_once('@').map_or((rest, None), |(effect, when)| (effect, Some(when)));
    Ok(Rule {
        call: call(operation).ok_or_else(|| refused("no such operation"))?,
        place: zone
            .map_or(Some(Place::Anywhere), place)
            .ok_or_else(|| refused("a zone is a number, or ZONE.SUBZONE"))?,
        effect: self::effect(effect).ok_or_else(|| {
            refused("an effect is media, io, torn-N, read-only, offline, delay-3ms (us, s) or power-lost")
        })?,
        when: when.map_or(Some(FaultWhen::From(1)), self::when).ok_or_else(|| refused("a time is N, N+ or P%"))?,
    })
}

#[expect(clippy::option_option, reason = "outer: whether there is such an operation; inner: whether it is any")]
fn call(text: &str) -> Option<Option<DeviceCall>> {
    Some(Some(match text {
        "any" => return Some(None),
        "read" => DeviceCall::Read,
        "write" => DeviceCall::Write,
        "append" => DeviceCall::Append,
        "flush" => DeviceCall::Flush,
        "report" => DeviceCall::Report,
        "open" => DeviceCall::Open,
        "close" => DeviceCall::Close,
        "finish" => DeviceCall::Finish,
        "reset" => DeviceCall::Reset,
        "trim" => DeviceCall::Trim,
        _ => return None,
    }))
}

fn place(text: &str) -> Option<Place> {
    match text.split_once('.') {
        None => text.parse().ok().map(Place::Zone),
        Some((zone, index)) => Some(Place::Part(zone.parse().ok()?, index.parse().ok()?)),
    }
}

fn effect(text: &str) -> Option<FaultEffect> {
    match text {
        "media" => Some(FaultEffect::Error(ErrorKind::Media)),
        "io" => Some(FaultEffect::Error(ErrorKind::Io)),
        "power-lost" => Some(FaultEffect::Error(ErrorKind::PowerLost)),
        "read-only" => Some(FaultEffect::Retire(ZoneState::ReadOnly)),
        "offline" => Some(FaultEffect::Retire(ZoneState::Offline)),
        _ => match text.split_once('-')? {
            ("torn", blocks) => Some(FaultEffect::Torn { blocks: blocks.parse().ok()? }),
            ("delay", time) => Some(FaultEffect::Delay(duration(time)?)),
            _ => None,
        },
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    match unit {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

fn when(text: &str) -> Option<FaultWhen> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.parse().ok()?;
        return (0.0..=100.0).contains(&percent).then_some(FaultWhen::Chance(percent / 100.0));
    }
    let (number, and_later) = text.strip_suffix('+').map_or((text, false), |number| (number, true));
    let number: u64 = number.parse().ok().filter(|&number| number > 0)?;
    Some(if and_later { FaultWhen::From(number) } else { FaultWhen::Nth(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_taken_apart() {
        let faults = Faults::parse("read:media@0.5%,write/3:read-only@7,any:delay-250us,flush:power-lost@9+").unwrap();
        let rule = |call, place, effect, when| Rule { call, place, effect, when };
        let delay = FaultEffect::Delay(Duration::from_micros(250));
        assert_eq!(
            faults.rules,
            [
                rule(
                    Some(DeviceCall::Read),
                    Place::Anywhere,
                    FaultEffect::Error(ErrorKind::Media),
                    FaultWhen::Chance(0.005)
                ),
                rule(
                    Some(DeviceCall::Write),
                    Place::Zone(3),
                    FaultEffect::Retire(ZoneState::ReadOnly),
                    FaultWhen::Nth(7)
                ),
                rule(None, Place::Anywhere, delay, FaultWhen::From(1)),
                rule(
                    Some(DeviceCall::Flush),
                    Place::Anywhere,
                    FaultEffect::Error(ErrorKind::PowerLost),
                    FaultWhen::From(9)
                ),
            ]
        );
        assert!(faults.check(Some(4), None).is_ok() && faults.check(None, None).is_err());
        assert!(faults.check(Some(3), None).is_err(), "there is no zone 3");
        assert!(faults.check(Some(4), Some(16)).is_err(), "which part of zone 3");
        let part = Faults::parse("write/3.15:torn-2@1").unwrap();
        assert!(part.check(Some(4), Some(16)).is_ok() && part.check(Some(4), Some(15)).is_err());
        assert_eq!(part.faults(TimeMode::Untimed, Some(16)).next().unwrap().zone, Some(ZoneId(3 * 17 + 15)));
    }

    #[test]
    fn delays_are_of_the_drive_s_time() {
        let faults = Faults::parse("read:delay-3ms").unwrap();
        let effect = |mode| faults.faults(mode, None).next().map(|fault| fault.effect);
        assert_eq!(effect(TimeMode::Timed { k: 10 }), Some(FaultEffect::Delay(Duration::from_millis(30))));
        assert_eq!(effect(TimeMode::Untimed), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, said) in [
            ("read", "OPERATION[/ZONE]"),
            ("seek:media", "no such operation"),
            ("read/x:media", "ZONE.SUBZONE"),
            ("read:slow", "an effect is"),
            ("read:torn-x", "an effect is"),
            ("read:delay-3h", "an effect is"),
            ("read:media@0", "N, N+ or P%"),
            ("read:media@101%", "N, N+ or P%"),
            ("", "OPERATION"),
        ] {
            let error = Faults::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
