//! `cargo xtask vm PROGRAM ARGS`: runs a program of this machine under a Linux kernel that has zoned devices.
//!
//! QEMU emulates the machine (no KVM, no root needed) with NVMe ZNS namespaces; the guest's kernel adds null_blk. The
//! program's output, errors and exit status are passed through.

pub(crate) mod cache;
pub(crate) mod devices;
mod initramfs;
mod kernel;
pub(crate) mod machine;
mod shell;
pub(crate) mod suite;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Args;

use self::{
    cache::Cache,
    devices::Shape,
    machine::{Plan, Reset, Show},
};

const EXAMPLES: &str = "\
Examples:
  cargo xtask vm sh -c 'blkzone report /dev/nvme0n1 | head -3' --tool blkzone
  cargo xtask vm --zns size=4M,zones=32,open=4,active=6 -- target/release/zonda device report zbd:/dev/nvme0n1
  cargo xtask vm --zns default --null-blk size=4M,capacity=3M,zones=16,open=4,active=6 -- target/debug/program
  cargo xtask vm --module sd_mod --module 'scsi_debug zbc=managed zone_size_mb=4' -- sh -c 'ls /sys/block'
  cargo xtask vm --reset-after-ms 800 --reset-after-ms 500 -- target/release/program      VM_BOOT is 1, 2, 3

A shape is size=,capacity=,zones=,open=,active=,block=,append= (NVMe), conventional= (null_blk), each of them optional;
`default` is size=16M,capacity=12M,zones=64,open=8,active=12,block=4096. A capacity not given is the size.";

/// What to run, and in what machine.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct VmArguments {
    /// An NVMe ZNS namespace; may be given several times [default: one, if no other device is asked for]
    #[arg(long, value_name = "SHAPE")]
    zns: Vec<Shape>,
    /// A zoned null_blk device in the guest's memory; may be given several times
    #[arg(long, value_name = "SHAPE")]
    null_blk: Vec<Shape>,
    /// A module of the guest's kernel, with its options behind its name; may be given several times
    #[arg(long = "module", value_name = "NAME OPTIONS")]
    modules: Vec<String>,
    /// Processors
    #[arg(long, default_value_t = 1)]
    cpus: u32,
    /// Memory, in MiB
    #[arg(long, default_value_t = 1024)]
    memory_mib: u32,
    /// Ends the machine after so many seconds
    #[arg(long, default_value_t = 300)]
    timeout_seconds: u32,
    /// A program for the guest besides; Debian's package of that name is fetched if this machine has none
    #[arg(long = "tool", value_name = "NAME")]
    tools: Vec<String>,
    /// Crash mode: resets the guest so long after it has booted and runs the program again; may be given several times
    #[arg(long = "reset-after-ms", value_name = "MS")]
    resets_ms: Vec<u64>,
    /// A variable for the program's environment
    #[arg(long = "env", value_name = "NAME=VALUE")]
    environment: Vec<String>,
    /// Shows more of the guest's kernel messages on failure
    #[arg(long)]
    verbose: bool,
    /// Program of this machine (`sh` is the guest's shell) and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<String>,
}

/// Runs the program; its exit status becomes ours.
///
/// # Errors
/// If the machine cannot be made or fails.
pub(crate) fn run(arguments: &VmArguments) -> Result<ExitCode> {
    let cache = Cache::with(&[])?;
    let plan = arguments.plan(&cache)?;
    let (program, rest) = arguments.command.split_first().context("no program was given")?;
    let ended = plan.run(&cache, program, rest, Show::Output)?;
    Ok(u8::try_from(ended.status).map_or(ExitCode::FAILURE, ExitCode::from))
}

impl VmArguments {
    fn plan(&self, cache: &Cache) -> Result<Plan> {
        let none = self.zns.is_empty() && self.null_blk.is_empty();
        Ok(Plan {
            zns: if none { vec![Shape::default()] } else { self.zns.clone() },
            null_blk: self.null_blk.clone(),
            modules: self.modules.clone(),
            cpus: self.cpus,
            memory_mib: self.memory_mib,
            timeout_seconds: self.timeout_seconds,
            tools: self.tools.iter().map(|name| tool(cache, name)).collect::<Result<_>>()?,
            environment: self.environment.clone(),
            resets: self.resets_ms.iter().map(|&ms| Reset { after: Duration::from_millis(ms), said: None }).collect(),
            verbose: self.verbose,
            ..Plan::new()
        })
    }
}

/// A tool by name: of this machine or the cache, else fetched from the package of its name.
///
/// # Errors
/// If there is none.
pub(crate) fn tool(cache: &Cache, name: &str) -> Result<(String, PathBuf)> {
    let file = cache.program(name).or_else(|_| Cache::with(&[package_of(name)])?.program(name))?;
    Ok((name.to_owned(), file))
}

/// Debian's package for a tool.
fn package_of(tool: &str) -> &str {
    match tool {
        "blkzone" => "util-linux",
        "nvme" => "nvme-cli",
        other => other,
    }
}
