//! The power plug: the guest is reset in the middle of writes, again and again, while the devices keep their state.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Programs, SuiteArguments};
use crate::vm::{
    cache::Cache,
    devices::Shape,
    machine::{Plan, Reset, Show},
};

/// A guest is reset at most so long after it has begun to write.
const DELAY_MS_MAX: u64 = 400;
/// Every so many resets one comes while the store is being opened, as far as it can be told.
const OPENING_EVERY: u64 = 5;
/// What the guest's program says at the end.
const SURVIVED: &str = "survived ";

/// Resets the guest so many times. Returns how many times a later life found all that was acknowledged.
///
/// # Errors
/// When something acknowledged is lost, the store does not open or is damaged.
pub(super) fn resets(cache: &Cache, programs: &Programs, arguments: &SuiteArguments) -> Result<u64> {
    let count = arguments.resets;
    println!("{count} resets, seed {}", arguments.seed);
    let plan = Plan {
        zns: vec!["size=1M,capacity=768K,zones=64,open=8,active=12".parse::<Shape>()?],
        resets: planned(arguments.seed, count),
        tools: vec![("testkit".to_owned(), programs.testkit.clone())],
        timeout_seconds: 600 + 60 * count,
        ..Plan::new()
    };
    let live = format!("exec testkit real crash zbd:/dev/nvme0n1 /dev/nvme0n2 --boot $VM_BOOT --resets {count}");
    let ended = plan.run(cache, "sh", &["-c".to_owned(), live], Show::Nothing)?;
    print!("{}", ended.output);
    ensure!(ended.status == 0, "the last life ended with {}", ended.status);
    let mut survived =
        ended.output.lines().filter_map(|line| line.strip_prefix(SURVIVED)?.split(' ').next()?.parse().ok());
    let survived: u64 = survived.next_back().context("the last life said nothing")?;
    ensure!(survived == u64::from(count), "{survived} resets survived of {count}");
    Ok(survived)
}

/// Moments from a seed: SplitMix64, which is a line and never changes.
fn planned(seed: u64, count: u32) -> Vec<Reset> {
    let reset = |number: u64| {
        let mixed = seed.wrapping_add((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let after = Duration::from_millis((mixed ^ (mixed >> 31)) % DELAY_MS_MAX);
        let said = !(number + 1).is_multiple_of(OPENING_EVERY);
        Reset { after, said: said.then(|| format!("{SURVIVED}{number} ")) }
    };
    (0..u64::from(count)).map(reset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_moments() {
        let moments = |seed| planned(seed, 40).into_iter().map(|reset| reset.after).collect::<Vec<_>>();
        assert_eq!(moments(3), moments(3));
        assert_ne!(moments(3), moments(4));
        assert!(moments(1).iter().all(|after| *after < Duration::from_millis(DELAY_MS_MAX)));
    }

    #[test]
    fn most_resets_wait_for_the_life_that_they_end() {
        let planned = planned(1, 10);
        assert_eq!(planned[2].said.as_deref(), Some("survived 2 "));
        assert_eq!(planned.iter().filter(|reset| reset.said.is_none()).count(), 2);
    }
}
