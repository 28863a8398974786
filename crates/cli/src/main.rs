//! The `zonda` command: loads, reads, looks after and measures stores.
//!
//! One file per command under `commands`, one per input format under `formats`. Every command opens the store, does one thing with the
//! library and prints for people, or with `--json` for scripts.
#![forbid(unsafe_code)]

mod bytes;
mod commands;
mod devices;
mod exit;
mod formats;
mod output;
mod progress;
mod store;

use exit::Exit;

fn main() -> std::process::ExitCode {
    let cli = commands::parse();
    let outcome = commands::run(cli);
    Exit::of(outcome).into()
}
