//! Tells what the sources of this workspace are; see `src/lib.rs`.

#[path = "src/sources.rs"]
mod sources;

use std::path::Path;

fn main() {
    let workspace = Path::new("../..");
    for watched in sources::watched(workspace) {
        println!("cargo::rerun-if-changed={}", watched.display());
    }
    let flash = sources::code_hash(workspace, &sources::FLASH);
    let replay = sources::code_hash(workspace, &sources::REPLAY);
    let (commit, profiles) = (sources::commit(workspace), sources::profiles_hash(workspace));
    for (name, value) in [("COMMIT", commit), ("FLASH_CODE", flash), ("REPLAY_CODE", replay), ("PROFILES", profiles)] {
        println!("cargo::rustc-env=ZONDA_{name}={}", value.unwrap_or_else(|| "unknown".to_owned()));
    }
}
