//! Who may use whom, and why. Change a line here only together with the layers in ARCHITECTURE.md.

/// One allowed dependency.
pub(super) struct Edge {
    /// The crate that depends.
    pub(super) from: &'static str,
    /// The crate depended on.
    pub(super) to: &'static str,
    /// Why the layers allow it. Read by people; the compiler keeps it present.
    #[expect(dead_code, reason = "data for the reader of this table")]
    pub(super) why: &'static str,
}

/// Threads, locks, time and randomness: every crate takes them from here, so that a simulator can own them.
pub(super) const FOR_EVERYONE: &str = "zonda-rt";

/// The model, crash and simulation harness: any crate's tests may use it, nothing ships it.
pub(super) const FOR_TESTS: &str = "zonda-testkit";

/// Modelled drives: tests of what stands on devices may run on them, for what plain memory cannot do (split zones).
pub(super) const DRIVES_FOR_TESTS: &str = "zonda-flash";

/// Crates that measure or test every layer.
pub(super) const USES_EVERYTHING: [&str; 3] = ["zonda-bench", "zonda-fuzz", "zonda-testkit"];

/// Programs: they end the graph, so nobody depends on them.
pub(super) const PROGRAMS: [&str; 4] = ["zonda-cli", "zonda-compare", "zonda-fuzz", "xtask"];

const fn edge(from: &'static str, to: &'static str, why: &'static str) -> Edge {
    Edge { from, to, why }
}

/// Every other allowed edge, lowest layer first.
pub(super) const ALLOWED: [Edge; 23] = [
    edge("zonda-flash", "zonda-device", "the modelled SSD implements both device traits"),
    edge("zonda-space", "zonda-device", "streams append to zones; the superblock and journal live in zones"),
    edge("zonda-pages", "zonda-space", "the zoned page store gets its zones from streams"),
    edge(
        "zonda-pages",
        "zonda-device",
        "the in-place page store writes a block device; reads go to the device directly",
    ),
    edge("zonda-tree", "zonda-pages", "leaves, log, MetaLog and values live in a page store; the tree knows no zones"),
    edge("zonda-files", "zonda-space", "file extents are appended to streams"),
    edge("zonda-files", "zonda-device", "on a conventional drive files lie in blocks that can be overwritten"),
    edge("zonda", "zonda-tree", "the facade hides the tree"),
    edge("zonda", "zonda-pages", "opening a store builds its page store"),
    edge("zonda", "zonda-space", "opening a store mounts its space; statistics show zones and usable bytes"),
    edge("zonda", "zonda-device", "only to open URIs"),
    edge("zonda", "zonda-flash", "only to open `flash:` URIs"),
    edge("zonda-rocksdb", "zonda-files", "the plugin is a file system on zones"),
    edge("zonda-rocksdb", "zonda-device", "only to open URIs"),
    edge("zonda-rocksdb", "zonda-flash", "only to open `flash:` URIs"),
    edge("zonda-rocksdb", "zonda-built", "reports of mounts say what the plugin was built from"),
    edge("zonda-compare", "zonda-bench", "other engines are subjects of the same bench"),
    edge("zonda-cli", "zonda", "the commands work on a database"),
    edge("zonda-cli", "zonda-bench", "`zonda bench`"),
    edge("zonda-cli", "zonda-device", "`zonda device` creates, reports and resets devices"),
    edge("zonda-cli", "zonda-space", "`zonda zones` shows what lives in each zone"),
    edge("zonda-cli", "zonda-files", "file commands on a zoned file store"),
    edge("zonda-cli", "zonda-flash", "file commands on a modelled conventional drive"),
];
