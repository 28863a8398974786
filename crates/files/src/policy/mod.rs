//! Placement policies: into which open zone the next bytes of a file go. Pure functions of what they are shown.
//!
//! To add one: a file with a type that implements [`Policy`], its unit tests from the examples of its paper, and a line in
//! [`by_name`].

mod ldp;
mod liza_caza;
mod liza_zenfs;
mod liza_zns;

use std::fmt::Debug;
use std::sync::Arc;

use zonda_space::ZoneId;

use crate::{FileError, FileTags, Lifetime, Result};

pub use ldp::Ldp;
pub use liza_caza::LizaCaza;
pub use liza_zenfs::LizaZenfs;
pub use liza_zns::LizaZns;

/// An open zone with room, as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenZoneView {
    /// The zone.
    pub zone: ZoneId,
    /// The lifetime of the first file written to it.
    pub lifetime: Lifetime,
    /// Bytes that can still be written.
    pub remaining_bytes: u64,
    /// Files that are being written to it now.
    pub writers: u32,
    /// How many zones were opened before it: the smaller, the older its data.
    pub opened: u64,
}

/// What a policy may choose from.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    /// Open zones with room; the policy is not asked when there is neither one of these nor a token.
    pub open: &'a [OpenZoneView],
    /// Whether another zone may be opened: a token is left and a zone is empty.
    pub may_open: bool,
}

/// Where the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Into this open zone.
    Open(ZoneId),
    /// Into an empty zone. Where none may be opened, into the open zone that suits least badly: waiting for a token
    /// while holding up a flush would be worse.
    New,
    /// This open zone is finished, and an empty one opened with its token.
    FinishThenNew(ZoneId),
}

/// A placement policy. Its functions are pure: the same input gives the same choice.
pub trait Policy: Send + Sync + Debug {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Chooses a zone for a file. `tags` are final: a policy is asked at the first append.
    fn choose(&self, tags: &FileTags, choices: &Choices<'_>) -> Choice;
}

/// The names of all policies.
pub const NAMES: [&str; 4] = ["liza-zns", "liza-zenfs", "liza-caza", "ldp"];

/// The policy called `name`.
///
/// # Errors
/// `UnknownPolicy`.
pub fn by_name(name: &str) -> Result<Arc<dyn Policy>> {
    match name {
        "liza-zns" => Ok(Arc::new(LizaZns)),
        "liza-zenfs" => Ok(Arc::new(LizaZenfs)),
        "liza-caza" => Ok(Arc::new(LizaCaza)),
        "ldp" => Ok(Arc::new(Ldp)),
        other => Err(FileError::UnknownPolicy { name: other.to_string(), known: NAMES.join(", ") }),
    }
}

/// The open zone whose lifetime is nearest, idle ones first: where [`Choice::New`] cannot be had.
pub(crate) fn least_bad(tags: &FileTags, open: &[OpenZoneView]) -> Option<ZoneId> {
    let distance = |view: &&OpenZoneView| {
        let far = (view.lifetime as u8).abs_diff(tags.lifetime as u8);
        (far, view.writers, view.opened)
    };
    open.iter().min_by_key(distance).map(|view| view.zone)
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::FileKind;

    /// Open zones numbered from 0, with these lifetimes, oldest first.
    pub(crate) fn zones(lifetimes: &[Lifetime]) -> Vec<OpenZoneView> {
        let view = |(zone, &lifetime): (u32, &Lifetime)| OpenZoneView {
            zone: ZoneId(zone),
            lifetime,
            remaining_bytes: 1 << 20,
            writers: 0,
            opened: zone.into(),
        };
        (0..).zip(lifetimes).map(view).collect()
    }

    /// What `policy` chooses for a file of `lifetime`.
    pub(crate) fn choose(policy: &dyn Policy, lifetime: Lifetime, open: &[OpenZoneView], may_open: bool) -> Choice {
        policy.choose(&FileTags::of(FileKind::Data).with_lifetime(lifetime), &Choices { open, may_open })
    }
}
