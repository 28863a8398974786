//! The engines by name.

use std::sync::Arc;

use zonda_bench::contest::Engines;
use zonda_bench::report::Table;
use zonda_bench::{Output, Result, StorePlan, Subject};

use crate::{bftree, fjall, lmdb, redb, rocksdb, wiredtiger};

/// One peer.
struct Peer {
    /// As a design on the command line.
    design: &'static str,
    /// What it is.
    about: &'static str,
    create: fn(&StorePlan) -> Result<Arc<dyn Subject>>,
    /// What is missing, with the package to install; `None` when it is here.
    missing: fn() -> Option<String>,
    /// Why it cannot run like this: without a log, say.
    unfit: fn(&StorePlan) -> Option<String>,
    /// Whether it goes through the system's page cache.
    page_cached: bool,
    /// What its memory group may hold beyond what its budget allows.
    held_more_bytes: u64,
}

/// In no particular order.
const PEERS: [Peer; 6] = [
    Peer {
        design: "rocksdb",
        about: "LSM-tree in C++; Debian's build has its assertions on",
        create: |plan| Ok(Arc::new(rocksdb::RocksDb::create(plan)?)),
        missing: rocksdb::missing,
        unfit: |_| None,
        page_cached: false,
        held_more_bytes: 0,
    },
    Peer {
        design: "wiredtiger",
        about: "B+-tree in C, MongoDB's; version 3.2",
        create: |plan| Ok(Arc::new(wiredtiger::WiredTiger::create(plan)?)),
        missing: wiredtiger::missing,
        unfit: |_| None,
        page_cached: false,
        held_more_bytes: 0,
    },
    Peer {
        design: "lmdb",
        about: "B+-tree in C over a memory map, built in; has no log: a commit is a write of pages",
        create: |plan| Ok(Arc::new(lmdb::Lmdb::create(plan)?)),
        missing: || None,
        unfit: |plan| plan.log.then(|| "it has no log; run it with the log off".to_owned()),
        page_cached: true,
        held_more_bytes: 0,
    },
    Peer {
        design: "redb",
        about: "copy-on-write B+-tree in Rust, built in; has no log",
        create: |plan| Ok(Arc::new(redb::Redb::create(plan)?)),
        missing: || None,
        unfit: |plan| plan.log.then(|| "it has no log; run it with the log off".to_owned()),
        page_cached: true,
        held_more_bytes: redb::HELD_MORE_BYTES,
    },
    Peer {
        design: "fjall",
        about: "LSM-tree in Rust, built in; its journal cannot be turned off",
        create: |plan| Ok(Arc::new(fjall::Fjall::create(plan)?)),
        missing: || None,
        unfit: |_| None,
        page_cached: true,
        held_more_bytes: 0,
    },
    Peer {
        design: "bf-tree",
        about: "the Bf-Tree paper's authors' own, in Rust, built in",
        create: |plan| Ok(Arc::new(bftree::BfTreeSubject::create(plan)?)),
        missing: || None,
        unfit: bftree::unfit,
        page_cached: false,
        held_more_bytes: 0,
    },
];

/// This project's stores and all peers.
pub const ALL: Engines = Engines { create, unavailable, page_cached, held_more_bytes };

fn peer(design: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.design == design)
}

fn create(plan: &StorePlan) -> Result<Arc<dyn Subject>> {
    match peer(&plan.design) {
        Some(peer) => (peer.create)(plan),
        None => plan.create(),
    }
}

fn unavailable(plan: &StorePlan) -> Option<String> {
    match peer(&plan.design) {
        Some(peer) => (peer.missing)().or_else(|| (peer.unfit)(plan)),
        None => plan.unavailable(),
    }
}

fn page_cached(plan: &StorePlan) -> bool {
    peer(&plan.design).is_some_and(|peer| peer.page_cached)
}

fn held_more_bytes(plan: &StorePlan) -> u64 {
    peer(&plan.design).map_or(0, |peer| peer.held_more_bytes)
}

/// Names of all peers.
#[must_use]
pub fn names() -> Vec<&'static str> {
    PEERS.iter().map(|peer| peer.design).collect()
}

/// Prints every peer and whether it is here.
///
/// # Errors
/// Those of the output.
pub fn list(output: &mut Output) -> Result<()> {
    let mut table = Table::new(&["engine", "here", "what"]);
    for peer in &PEERS {
        let here = (peer.missing)().unwrap_or_else(|| "yes".to_owned());
        table.row([peer.design.to_owned(), here, peer.about.to_owned()]);
    }
    output.line(table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(design: &str, log: bool) -> StorePlan {
        let mut plan = StorePlan::new("mem:".into(), 32 << 20, 1);
        design.clone_into(&mut plan.design);
        plan.log = log;
        plan
    }

    #[test]
    fn designs_are_ours_or_a_peers() {
        assert_eq!((ALL.unavailable)(&plan("adb", true)), None);
        assert!((ALL.unavailable)(&plan("lmdb", true)).unwrap().contains("no log"));
        assert_eq!((ALL.unavailable)(&plan("lmdb", false)), None);
        assert_eq!((ALL.unavailable)(&plan("bf-tree", true)), None, "its writes wait for a thread, not for a device");
        let odd = StorePlan { memory_bytes: 19 << 20, ..plan("bf-tree", false) };
        assert!((ALL.unavailable)(&odd).unwrap().contains("power of two"));
        assert!((ALL.unavailable)(&plan("berkeley", false)).is_some());
        assert_eq!(names().len(), 6);
        let cached: Vec<_> = names().into_iter().filter(|name| (ALL.page_cached)(&plan(name, false))).collect();
        assert_eq!(cached, ["lmdb", "redb", "fjall"]);
        assert!(!(ALL.page_cached)(&plan("zonda", false)));
        let wider: Vec<_> = names().into_iter().filter(|name| (ALL.held_more_bytes)(&plan(name, false)) > 0).collect();
        assert_eq!(wider, ["redb"]);
    }
}
