//! `zonda fs df` tells the same for people, as JSON, and as metrics that Prometheus takes.
#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap")]
mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::Shell;
use serde_json::Value;
use zonda_device::{FileDevice, FileOptions};
use zonda_files::{FileKind, FilePath, FileStore, FileStoreOptions, FileTags};

/// A family of metrics as a scrape takes it.
#[derive(Debug, Default)]
struct Family {
    help: String,
    kind: String,
    /// Labels as they stand there, and the value.
    samples: Vec<(String, f64)>,
}

/// What a scrape would take of the text; anything that it would refuse fails the test.
fn scrape(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            last = name.to_owned();
            assert!(families.insert(last.clone(), Family { help: help.to_owned(), ..Family::default() }).is_none());
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let family = families.get_mut(&last).unwrap();
            assert!(family.kind.is_empty() && family.samples.is_empty(), "{line}");
            family.kind = kind.strip_prefix(&format!("{last} ")).unwrap().to_owned();
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            assert_eq!(name, last, "samples stand together, behind their type");
            families.get_mut(name).unwrap().samples.push((labels.to_owned(), value.parse().unwrap()));
        }
    }
    families
}

/// Names and types as Prometheus advises: base units, `_total` for counters and for nothing else.
fn check_conventions(families: &BTreeMap<String, Family>) {
    for (name, family) in families {
        assert!(name.starts_with("zonda_fs_") && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
        assert!(family.help.ends_with('.'), "{name}: {}", family.help);
        let is_counter = name.ends_with("_total");
        assert_eq!(family.kind, if is_counter { "counter" } else { "gauge" }, "{name}");
        for unit in ["bytes", "seconds"] {
            let is_last = name.trim_end_matches("_total").ends_with(&format!("_{unit}"));
            assert!(is_last || !name.contains(unit), "{name}: the unit stands last");
        }
        let labels: Vec<_> = family.samples.iter().map(|(labels, _)| labels).collect();
        assert!(labels.iter().enumerate().all(|(at, one)| !labels[..at].contains(one)), "{name}: {labels:?}");
    }
}

/// The value that the JSON object has for a sample.
fn in_json(json: &Value, name: &str, labels: &str) -> f64 {
    let found = &json[name.strip_prefix("zonda_fs_").unwrap()];
    let Some(samples) = found.as_array() else { return found.as_f64().unwrap() };
    let has = |sample: &&Value| {
        let fields = sample.as_object().unwrap().iter().filter(|(name, _)| *name != "value");
        fields.into_iter().all(|(name, value)| labels.contains(&format!("{name}=\"{}\"", value.as_str().unwrap())))
    };
    samples.iter().find(has).unwrap()["value"].as_f64().unwrap()
}

/// Tables that come and go, some of them before they are cleaned.
fn churn(store: &FileStore) {
    for file in 0..60 {
        let path = FilePath::parse(&format!("/{file}.sst")).unwrap();
        let mut writer = store.create(&path, FileTags::of(FileKind::Data).with_level(2)).unwrap();
        writer.append(&vec![7; 500_000]).unwrap();
        writer.close().unwrap();
        store.sync_names().unwrap();
        if file % 7 != 0 {
            store.remove(&path).unwrap();
        }
    }
    while store.clean_step().unwrap().is_some() {}
    store.make_directory(&FilePath::parse("/last").unwrap()).unwrap();
    store.sync_names().unwrap();
}

#[test]
fn what_a_mount_did_is_told_beside_it_in_all_forms() {
    let shell = Shell::new();
    shell.ok("device create d.zoned --zones 32 --zone-size 1MiB --max-active 14");
    shell.ok("fs mkfs d.zoned");
    let device = FileDevice::open(shell.path().join("d.zoned"), &FileOptions::default()).unwrap();
    let options = FileStoreOptions { clean_below_free_percent: 80, ..FileStoreOptions::default() };
    let (store, _) = FileStore::mount(Arc::new(device), options).unwrap();
    churn(&store);

    let json: Value = serde_json::from_str(&shell.ok("fs df d.zoned --json")).unwrap();
    let families = scrape(&shell.ok("fs df d.zoned --prometheus"));
    check_conventions(&families);
    assert_eq!(families.len(), json.as_object().unwrap().len());
    for (name, family) in &families {
        for (labels, value) in &family.samples {
            assert!(labels.starts_with("device=\"d.zoned\""), "{labels}");
            assert!((in_json(&json, name, labels) - value).abs() < 1e-9, "{name}{{{labels}}} {value}: {json}");
        }
    }
    let work = store.work();
    assert!(work.copied_bytes > 0 && work.resets_with_copy > 0 && work.resets_without_copy > 0, "{work:?}");
    let value = |name: &str, labels: &str| {
        let samples = &families[&format!("zonda_fs_{name}")].samples;
        samples.iter().find(|(found, _)| *found == format!("device=\"d.zoned\"{labels}")).unwrap().1
    };
    let finishing = work.finishing_time.as_secs_f64();
    for (name, labels, expected) in [
        ("copied_bytes_total", "", work.copied_bytes as f64),
        ("finish_wasted_bytes_total", "", work.finished_unwritten_bytes as f64),
        ("finish_seconds_total", "", finishing),
        ("resets_total", ",copied=\"yes\"", work.resets_with_copy as f64),
        ("resets_total", ",copied=\"no\"", work.resets_without_copy as f64),
    ] {
        assert!((value(name, labels) - expected).abs() < 1e-9, "{name}");
    }
    assert!(value("allocations_total", ",rule=\"lifetime\",level=\"2\"") >= 30.0, "{work:?}");
    assert!(json["free_bytes"].as_u64().unwrap() > 5 << 20);
    let people = shell.ok("fs df d.zoned");
    let resets = format!("{} resets with a copy, {} without", work.resets_with_copy, work.resets_without_copy);
    assert!(people.contains("zones 32") && people.contains("usable") && people.contains(&resets), "{people}");
}

#[test]
fn a_device_with_odd_characters_in_its_name_is_one_label() {
    let shell = Shell::new();
    shell.ok("device create d\"\\.zoned --zones 32 --zone-size 1MiB --max-active 14");
    shell.ok("fs mkfs d\"\\.zoned");
    let text = shell.ok("fs df d\"\\.zoned --prometheus");
    assert!(text.contains("zonda_fs_files{device=\"d\\\"\\\\.zoned\"} 0\n"), "{text}");
}
