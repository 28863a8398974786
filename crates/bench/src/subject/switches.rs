//! What may be switched about a store under test, by name: every technique of the papers is one, so that any ablation is a command.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::str::FromStr;

use zonda::{FlusherOptions, Options, StoreKind};

use crate::{BenchError, Result};

/// Sets one option of a store from its value as text, or says what is accepted.
type Set = fn(Options, &str) -> std::result::Result<Options, String>;

/// One option of a store, by name.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Its name.
    pub name: &'static str,
    /// Its values, for people.
    pub values: &'static str,
    /// What it switches.
    pub meaning: &'static str,
    set: Set,
}

const fn switch(name: &'static str, values: &'static str, meaning: &'static str, set: Set) -> Switch {
    Switch { name, values, meaning, set }
}

const ON_OFF: &str = "on|off";

/// All switches, in the order in which those that are given are set, whatever order they are given in.
pub const SWITCHES: &[Switch] = &[
    switch(
        "filter",
        "SHARE",
        "part of the memory for the merged filter, 0 (none) to 0.5, whatever shares say",
        |options, value| Ok(options.filter(value.parse().map_err(|_| format!("`{value}` is no share"))?)),
    ),
    switch(
        "filter-by-node",
        ON_OFF,
        "the filter evicts its coldest nodes, as in the paper, or cold pairs",
        |options, value| Ok(options.filter_by_node(on_or_off(value)?)),
    ),
    switch(
        "batch-insertion",
        ON_OFF,
        "what leaves the filter reaches a leaf in one run, or pair by pair",
        |options, value| Ok(options.batch_insertion(on_or_off(value)?)),
    ),
    switch(
        "classes",
        "large|paper|paper-whole|to-512|to-1024",
        "sizes of delta buffers; paper: 64, 128 and 256 bytes; paper-whole: of keys as they are, 15 pairs of 8 B + 8 B at most; to-512, to-1024: those doubled on; of mini-pages: large: four to a doubling, else one",
        |options, value| Ok(options.classes(parsed(value)?)),
    ),
    switch(
        "eviction",
        "fullest|oldest",
        "the delta buffer, or the mini-page at the head of `bftree`'s ring, that is merged first",
        |options, value| Ok(options.eviction(parsed(value)?)),
    ),
    switch("delta-records", "COUNT", "changes that the design `bdtree` chains to a leaf", |options, value| {
        Ok(options.delta_records(parsed(value)?))
    }),
    switch(
        "memory-shares",
        "F:B:P|none",
        "fixed shares of filter, buffers and flusher; none: memory follows the work",
        |options, value| Ok(options.memory_shares(if value == "none" { None } else { Some(parsed(value)?) })),
    ),
    switch("record-cache", ON_OFF, "records that gets read from leaves are kept", |options, value| {
        Ok(options.record_cache(on_or_off(value)?))
    }),
    switch(
        "copy-on-access",
        "PERCENT",
        "of `bftree`'s ring, where a mini-page that is used moves to the tail",
        |options, value| Ok(options.copy_on_access(parsed(value)?)),
    ),
    switch("promotion", "PERCENT", "chance that `bftree` caches a record that a get read", |options, value| {
        Ok(options.promotion(parsed(value)?))
    }),
    switch("scan-promotion", "PERCENT", "chance that `bftree` keeps a page that a scan read", |options, value| {
        Ok(options.scan_promotion(parsed(value)?))
    }),
    switch("mini-page-bytes", "BYTES", "the largest mini-page of `bftree`", |options, value| {
        Ok(options.mini_page_bytes(parsed(value)?))
    }),
    switch(
        "ring-turns",
        ON_OFF,
        "where nobody writes, `bftree` merges what is not read for what is",
        |options, value| Ok(options.ring_turns(on_or_off(value)?)),
    ),
    switch("store", "zoned|in-place", "how the store lies on its device", |options, value| {
        Ok(options.store(parsed(value)?))
    }),
    switch(
        "garbage",
        "PERCENT|none",
        "dead bytes that a store bears, in percent of the live ones; none, as all have it here: until zones are few",
        |options, value| Ok(options.garbage(if value == "none" { None } else { Some(parsed(value)?) })),
    ),
    switch("leaf-bytes", "SIZE", "4KiB to 32KiB", |options, value| Ok(options.leaf_bytes(short(value)?))),
    switch(
        "value-inline",
        "SIZE",
        "longer values stand in the value log: 0 to a quarter of the leaf",
        |options, value| Ok(options.value_inline(short(value)?)),
    ),
    switch("zflusher", ON_OFF, "off: page by page, one zone at a time, through an LRU pool", |options, value| {
        let flusher = if on_or_off(value)? { FlusherOptions::default() } else { FlusherOptions::base() };
        Ok(options.flusher(flusher))
    }),
    switch("group-pages", "COUNT", "pages of 4 KiB that the ring merger writes at once, 1 to 16", |options, value| {
        let group_pages = parsed(value)?;
        Ok(with_flusher(options, |flusher| flusher.group_pages = group_pages))
    }),
    switch(
        "hot-reads",
        "COUNT",
        "reads of a page that waits above which it moves to the read cache",
        |options, value| {
            let cache_threshold_reads = parsed(value)?;
            Ok(with_flusher(options, |flusher| flusher.cache_threshold_reads = cache_threshold_reads))
        },
    ),
    switch("flushers-max", "COUNT", "flushers of foreground pages, an open zone each, 1 to 64", |options, value| {
        let flushers_max = parsed(value)?;
        Ok(with_flusher(options, |flusher| flusher.flushers_max = flushers_max))
    }),
    switch(
        "sieve",
        ON_OFF,
        "the read cache evicts by SIEVE; off: an LRU pool that written pages enter",
        |options, value| {
            let sieve = on_or_off(value)?;
            Ok(with_flusher(options, |flusher| flusher.sieve = sieve))
        },
    ),
    switch(
        "merged-relocation",
        ON_OFF,
        "reclaim merges the leaves that it moves with what waits for them",
        |options, value| Ok(options.merged_relocation(on_or_off(value)?)),
    ),
    switch("log", ON_OFF, "there is a write-ahead log", |options, value| Ok(options.log(on_or_off(value)?))),
    switch("log-on", "URI", "the log's own device", |options, value| Ok(options.log_device(value))),
    switch("log-instances", "COUNT", "instances of the log, to 64", |options, value| {
        Ok(options.log_instances(parsed(value)?))
    }),
    switch("log-ring", "SIZE", "ring of each instance, 4KiB (the paper's) to 64KiB", |options, value| {
        Ok(options.log_ring(short(value)?))
    }),
    switch("log-interval-ms", "COUNT", "how long a buffered write may wait for the device", |options, value| {
        Ok(options.log_interval_ms(number(value)?))
    }),
    switch("log-limit", "SIZE", "log after which a checkpoint begins", |options, value| {
        Ok(options.log_limit(crate::parse_bytes(value)?))
    }),
];

/// Switches of how pages reach zones: of no effect in place.
const OF_ZONES: [&str; 3] = ["sieve", "hot-reads", "flushers-max"];
const IN_PLACE: &str = "a store on zones: in place all pages are in an LRU pool, and there are no flushers";

/// Sets what `given` says, by name, for the store called `uri`.
///
/// # Errors
/// `Usage` for an unknown name or value, and for a switch that does nothing to the store that it is given for.
pub(super) fn set(options: Options, given: &BTreeMap<String, String>, uri: &str) -> Result<Options> {
    for (name, value) in given {
        known(name).map_err(|expected| refused(name, value, expected))?;
    }
    let wanted = SWITCHES.iter().filter_map(|switch| Some((switch, given.get(switch.name)?)));
    let options = wanted.into_iter().try_fold(options, |options, (switch, value)| {
        (switch.set)(options, value).map_err(|expected| refused(switch.name, value, expected))
    })?;
    let idle = given.iter().find(|(name, _)| OF_ZONES.contains(&name.as_str()));
    match idle {
        // What cannot be told of the store is for its opening to say.
        Some((name, value)) if matches!(options.store_kind(uri), Ok(StoreKind::InPlace)) => {
            Err(refused(name, value, IN_PLACE.to_owned()))
        }
        _ => Ok(options),
    }
}

fn refused(name: &str, value: &str, expected: String) -> BenchError {
    BenchError::Usage { option: "--switch", given: format!("{name}={value}"), expected }
}

fn known(name: &str) -> std::result::Result<&'static Switch, String> {
    let names = || SWITCHES.iter().map(|switch| switch.name).collect::<Vec<_>>().join(", ");
    SWITCHES
        .iter()
        .find(|switch| switch.name == name)
        .ok_or_else(|| format!("one of {} (this build knows no other)", names()))
}

/// Reads `NAME=VALUE` and asks whether a store could be so.
///
/// # Errors
/// What is accepted, for people.
pub fn parse_switch(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    (known(name)?.set)(Options::new(), value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// All switches with their values and meanings, a line each.
#[must_use]
pub fn switches_help() -> String {
    let form = |switch: &Switch| format!("{}={}", switch.name, switch.values);
    let width = SWITCHES.iter().map(|switch| form(switch).len()).max().unwrap_or(0);
    let mut help = String::from("Switches (--switch NAME=VALUE, as often as you like):");
    for switch in SWITCHES {
        let written = write!(help, "\n  {:width$}  {}", form(switch), switch.meaning);
        written.expect("a string takes everything");
    }
    help
}

fn with_flusher(options: Options, change: impl FnOnce(&mut FlusherOptions)) -> Options {
    let mut flusher = options.flusher_options();
    change(&mut flusher);
    options.flusher(flusher)
}

fn number(value: &str) -> std::result::Result<u64, String> {
    value.parse().map_err(|_| format!("`{value}` is no number"))
}

fn short(value: &str) -> std::result::Result<u32, String> {
    u32::try_from(crate::parse_bytes(value)?).map_err(|_| format!("`{value}` is too much"))
}

fn parsed<T: FromStr<Err: Display>>(value: &str) -> std::result::Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn on_or_off(value: &str) -> std::result::Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{value}` is neither on nor off")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that each switch takes.
    fn example(switch: &Switch) -> &'static str {
        match switch.values {
            // The only one that is off already.
            ON_OFF if switch.name == "filter-by-node" => "on",
            ON_OFF => "off",
            "SHARE" => "0.25",
            "COUNT" => "3",
            "PERCENT" => "30",
            "BYTES" => "512",
            "SIZE" => "8KiB",
            "URI" => "mem:",
            "F:B:P|none" => "1:3:4",
            choices => choices.rsplit('|').next().expect("there is one"),
        }
    }

    #[test]
    fn every_switch_takes_its_values_refuses_others_and_is_explained() {
        let (help, default) = (switches_help(), format!("{:?}", Options::new()));
        for switch in SWITCHES {
            let given = format!("{}={}", switch.name, example(switch));
            assert_eq!(parse_switch(&given).map(|pair| pair.0), Ok(switch.name.to_owned()));
            let options = (switch.set)(Options::new(), example(switch)).expect("it takes this");
            assert_ne!(format!("{options:?}"), default, "{given} changes nothing");
            assert!(help.contains(&format!("{}={}", switch.name, switch.values)) && help.contains(switch.meaning));
            assert!(switch.name == "log-on" || parse_switch(&format!("{}=~", switch.name)).is_err(), "{}", switch.name);
            assert_eq!(SWITCHES.iter().filter(|other| other.name == switch.name).count(), 1);
        }
        for nonsense in ["", "filter", "=", "filtre=0.1", "log=maybe"] {
            assert!(parse_switch(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn what_does_nothing_in_place_is_refused_there() {
        let given = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
        };
        for name in OF_ZONES {
            let value = if name == "sieve" { "off" } else { "2" };
            let in_place = given(&[("store", "in-place"), (name, value)]);
            let refused = set(Options::new(), &in_place, "mem:").unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("LRU pool"), "{refused}");
            let alone = given(&[(name, value)]);
            for (design, uri) in [
                ("zkv-block", "mem:"),
                ("bftree", "mem:"),
                ("zonda", "mem:?layout=blocks"),
                ("zonda", "hftl:mem:"),
                ("zonda", "flash:test-conv"),
            ] {
                let preset = Options::preset(design).expect("known");
                assert!(set(preset, &alone, uri).is_err(), "{name} for {design} on {uri}");
            }
            for (design, uri) in [("zonda", "mem:"), ("bftree", "mem:?layout=zones"), ("zonda", "flash:test")] {
                let preset = Options::preset(design).expect("known");
                assert!(set(preset, &alone, uri).is_ok(), "{name} for {design} on {uri}");
            }
        }
        let both = given(&[("store", "in-place"), ("zflusher", "off"), ("group-pages", "2")]);
        assert!(set(Options::new(), &both, "mem:").is_ok());
    }

    /// Pairs that are loaded: twice what the buffers hold.
    const PAIRS: u64 = 80_000;

    fn key(number: u64) -> [u8; 8] {
        number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
    }

    /// Everything that a store of `options` counts after the same work, without a thread or a log, so that the clock has no say in it.
    fn counted(options: Options) -> String {
        let options = options.memory(2 << 20).capacity(1 << 30).zone_bytes(1 << 20).seed(1).background(false);
        let db = options.open("mem:").expect("a store");
        let put = |number: u64| {
            let long = number.is_multiple_of(500);
            db.put(key(number), vec![b'v'; if long { 200 } else { 8 }]).expect("room");
            if number.is_multiple_of(100) {
                db.step().expect("a step");
            }
        };
        (0..PAIRS).for_each(put);
        for number in 0..PAIRS / 4 {
            // Few are read often.
            assert!(db.get(key(number % (1 + number % 3_000))).expect("a get").is_some());
            if number.is_multiple_of(200) {
                assert_eq!(db.range(key(number)..).expect("a range").take(30).count(), 30);
            }
        }
        (0..PAIRS / 4).for_each(|number| put(number * 3 % 20_000));
        let stats = db.stats().expect("numbers");
        format!("{:?} {:?} {:?}", stats.tree, stats.written, stats.device)
    }

    /// Those that are not here need buffers that are evicted, reclaim, several threads or the clock. Their tests: `pool` of the crate
    /// `zonda-tree`, `merged_relocation`, `reads_write_nothing`, `log_device`, `log_rings` and `set_memory` of the crate `zonda`,
    /// `zflusher` of `zonda-pages`.
    #[test]
    fn switches_have_effects() {
        let (mut unswitched, mut idle) = (BTreeMap::new(), Vec::new());
        for (design, name, value) in [
            ("zkv", "filter", "0"),
            ("zkv", "filter", "0.25"),
            ("zkv", "filter-by-node", "off"),
            ("zkv", "batch-insertion", "off"),
            ("zkv", "classes", "large"),
            ("zkv", "classes", "paper-whole"),
            ("zkv", "classes", "to-512"),
            ("zkv", "classes", "to-1024"),
            ("zkv", "memory-shares", "1:6:1"),
            ("zkv", "memory-shares", "none"),
            ("zonda", "filter", "0.25"),
            ("zonda", "record-cache", "off"),
            ("bdtree", "delta-records", "3"),
            ("bftree", "copy-on-access", "100"),
            ("bftree", "promotion", "0"),
            ("bftree", "scan-promotion", "0"),
            ("bftree", "mini-page-bytes", "512"),
            ("zonda", "store", "in-place"),
            ("zonda", "leaf-bytes", "8KiB"),
            ("zonda", "value-inline", "100"),
            ("zonda", "zflusher", "off"),
            ("zonda", "group-pages", "8"),
            ("zkv", "sieve", "off"),
            ("zonda", "log", "on"),
        ] {
            let preset = Options::preset(design).expect("known").log(false);
            let without = unswitched.entry(design).or_insert_with(|| counted(preset.clone()));
            let given = BTreeMap::from([(name.to_owned(), value.to_owned())]);
            let with = counted(set(preset, &given, "mem:").expect("a switch"));
            if &with == without {
                idle.push(format!("--design {design} --switch {name}={value}"));
            }
        }
        assert!(idle.is_empty(), "these change nothing: {idle:?}");
        let again = counted(Options::preset("zkv").expect("known").log(false));
        assert_eq!(again, unswitched["zkv"], "the same work counts the same");
    }

    #[test]
    fn parts_of_the_flusher_are_set_after_the_whole_whatever_their_names() {
        let given = [("zflusher", "off"), ("group-pages", "8"), ("flushers-max", "2")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let flusher = set(Options::new(), &given, "mem:").expect("known").flusher_options();
        assert_eq!(flusher, FlusherOptions { group_pages: 8, flushers_max: 2, ..FlusherOptions::base() });
        let unknown = BTreeMap::from([("filtre".to_owned(), "1".to_owned())]);
        assert!(matches!(set(Options::new(), &unknown, "mem:"), Err(BenchError::Usage { option: "--switch", .. })));
    }
}
