//! Where a process spends its time, by part of the store: samples of the running threads, told apart by the source file that they
//! were in.
//!
//! A sample counts for the innermost function that belongs to a known part; what that function calls in the standard library
//! or the C library counts with it. Functions that were inlined are known by the binary's debug information, which release
//! builds of this workspace have; without it their time counts for their callers.

use std::collections::BTreeMap;
use std::ffi::c_int;

use pprof::{Frames, ProfilerGuardBuilder};
use serde::{Deserialize, Serialize};

use crate::{BenchError, Result};

/// Samples a second of CPU time: a prime, so as to beat with nothing.
const SAMPLES_PER_SECOND: c_int = 997;

/// A part of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// From the root to the leaf's number.
    InnerNodes,
    /// From the leaf's number to where it is, its latch included.
    MappingTable,
    /// Search within a leaf: mini-page, buffer, cached page or page.
    Leaf,
    /// The device layer.
    Device,
    /// What is left of the store.
    Rest,
}

impl Component {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::InnerNodes, Self::MappingTable, Self::Leaf, Self::Device, Self::Rest];

    /// Its name in tables and figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InnerNodes => "inner nodes",
            Self::MappingTable => "mapping table",
            Self::Leaf => "leaf",
            Self::Device => "device",
            Self::Rest => "rest",
        }
    }

    /// The part that a source file of this workspace belongs to; `None` for files that serve whoever calls them.
    fn of(file: SourceFile<'_>) -> Option<Self> {
        match (file.package, file.module) {
            ("tree", "index" | "inner" | "key") => Some(Self::InnerNodes),
            ("tree", "leaf_table") => Some(Self::MappingTable),
            (
                "tree",
                "buffer" | "leaf_page" | "mini_page" | "page_cache" | "pool" | "record" | "record_cache" | "slots",
            ) => Some(Self::Leaf),
            ("device" | "space" | "flash", _) => Some(Self::Device),
            ("tree" | "pages" | "zonda", _) => Some(Self::Rest),
            _ => None,
        }
    }
}

/// Samples by part; those of the bench's own work are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    samples: BTreeMap<Component, u64>,
}

impl Profile {
    /// Runs `work` and says where its time went.
    ///
    /// # Errors
    /// `Io` where the process cannot be sampled; those of `work`.
    pub fn of<R>(work: impl FnOnce() -> Result<R>) -> Result<(R, Self)> {
        let failed = |error: pprof::Error| BenchError::io("sample this process", std::io::Error::other(error));
        let sampler = ProfilerGuardBuilder::default().frequency(SAMPLES_PER_SECOND).build().map_err(failed)?;
        let result = work()?;
        let report = sampler.report().build().map_err(failed)?;
        let mut profile = Self::default();
        for (frames, &samples) in &report.data {
            if let Some(component) = component_of(frames) {
                *profile.samples.entry(component).or_default() += u64::try_from(samples).unwrap_or(0);
            }
        }
        Ok((result, profile))
    }

    /// Whether nothing was sampled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Adds another's samples.
    pub fn add(&mut self, other: &Self) {
        for (&component, samples) in &other.samples {
            *self.samples.entry(component).or_default() += samples;
        }
    }

    /// The part's share of all samples, in percent; `None` without samples.
    #[must_use]
    pub fn percent(&self, component: Component) -> Option<f64> {
        let all: u64 = self.samples.values().sum();
        let own = self.samples.get(&component).copied().unwrap_or(0);
        (all > 0).then(|| 100.0 * own as f64 / all as f64)
    }
}

/// What a sample counts for: its stack is looked through from the inside.
fn component_of(frames: &Frames) -> Option<Component> {
    frames.frames.iter().flatten().find_map(|symbol| {
        let path = symbol.filename.as_ref().and_then(|path| path.to_str());
        let by_path = path.and_then(SourceFile::of_path).and_then(Component::of);
        by_path.or_else(|| SourceFile::of_function(&symbol.name()).and_then(Component::of))
    })
}

/// A source file of this workspace: its package without the prefix, and its first module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SourceFile<'a> {
    package: &'a str,
    module: &'a str,
}

impl<'a> SourceFile<'a> {
    /// `.../crates/tree/src/buffer/marks.rs` is `tree` and `buffer`.
    fn of_path(path: &'a str) -> Option<Self> {
        let (_, inside) = path.rsplit_once("crates/")?;
        let (package, file) = inside.split_once("/src/")?;
        let module = file.split('/').next()?;
        Some(Self { package, module: module.strip_suffix(".rs").unwrap_or(module) })
    }

    /// `<zonda_tree::index::Index as ...>::find` is `tree` and `index`.
    fn of_function(name: &'a str) -> Option<Self> {
        let (_, inside) = name.split_once("zonda_")?;
        let mut parts = inside.split("::");
        Some(Self { package: parts.next()?, module: parts.next()? })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::process::cpu_time;
    use crate::{Durability, StorePlan};

    #[test]
    fn files_and_functions_belong_to_parts() {
        let of = |path| SourceFile::of_path(path).and_then(Component::of);
        assert_eq!(of("/a/crates/tree/src/index.rs"), Some(Component::InnerNodes));
        assert_eq!(of("crates/tree/src/buffer/mini_page.rs"), Some(Component::Leaf));
        assert_eq!(of("crates/tree/src/leaf_table.rs"), Some(Component::MappingTable));
        assert_eq!(of("crates/tree/src/read.rs"), Some(Component::Rest));
        assert_eq!((of("crates/rt/src/epoch.rs"), of("library/core/src/slice/cmp.rs")), (None, None));
        let of = |name| SourceFile::of_function(name).and_then(Component::of);
        assert_eq!(of("<zonda_tree::index::Index as core::fmt::Debug>::fmt"), Some(Component::InnerNodes));
        assert_eq!(of("zonda_bench::phase::worker::Worker::run"), None);
    }

    #[test]
    fn shares_are_of_what_was_sampled() {
        let mut profile = Profile { samples: BTreeMap::from([(Component::InnerNodes, 1), (Component::Leaf, 2)]) };
        profile.add(&Profile { samples: BTreeMap::from([(Component::InnerNodes, 1)]) });
        assert_eq!(profile.percent(Component::InnerNodes), Some(50.0));
        assert_eq!(
            (profile.percent(Component::Device), Profile::default().percent(Component::Leaf)),
            (Some(0.0), None)
        );
    }

    #[test]
    fn the_stores_work_is_sampled_and_the_answer_kept() {
        let store = StorePlan::new("mem:".into(), 8 << 20, 1).create().unwrap();
        store.put(b"key", b"value", Durability::Buffered).unwrap();
        let (found, profile) = Profile::of(|| {
            let (start, mut value, mut found) = (cpu_time(), Vec::new(), false);
            while cpu_time() < start + Duration::from_millis(300) {
                for _ in 0..1_000 {
                    found = store.get(b"key", &mut value)?;
                }
            }
            Ok(found)
        })
        .unwrap();
        let percent: f64 = Component::ALL.iter().filter_map(|&component| profile.percent(component)).sum();
        assert!(found && (percent - 100.0).abs() < 1e-6, "{profile:?}");
    }
}
