//! What makes rows: a model in this program, or programs beside it with one of their own. Rows say it (`model`, and of programs
//! `from`), and a run that goes on takes none that another one made.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use zonda_built::{Built, FLASH_CODE, PROFILES, REPLAY_CODE, of_file};
use zonda_flash::profile::Profile;

use super::{DriveExperiment, DriveResults, DriveRow, Point};
use crate::{BenchError, Result};

/// Where the plugin is, if it is not beside this program.
pub(super) const PLUGIN_VARIABLE: &str = "ZONDA_ROCKSDB_LIBRARY";
pub(super) const PLUGIN: &str = "libzonda_rocksdb.so";
/// Where `zonda-db-bench` is, if it is not beside this program.
pub(super) const DRIVER_VARIABLE: &str = "ZONDA_DB_BENCH";
pub(super) const DRIVER: &str = "zonda-db-bench";

/// What makes the rows of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Maker {
    /// This program, without a model.
    #[default]
    Here,
    /// A modelled drive in this program, of this profile.
    Drive(&'static str),
    /// A replay on modelled zones.
    Replay,
    /// Stock `db_bench` through the plugin, on a modelled drive of this profile if there is one.
    Plugin(Option<&'static str>),
    /// `zonda-db-bench` on a modelled drive of this profile.
    Driver(&'static str),
}

/// Makers as they are now. Looks into each file once, and again when it has changed.
#[derive(Debug, Default)]
pub(super) struct Makers(BTreeMap<PathBuf, File>);

/// A library or program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct File {
    /// When it was last written.
    written: String,
    /// What it says that it was built from.
    built: Option<Built>,
}

impl Makers {
    /// The model behind a maker's rows: numbers of the drive, and the code. `None` where there is none, or it does not say.
    pub(super) fn model(&mut self, maker: Maker) -> Option<String> {
        match maker {
            Maker::Here | Maker::Plugin(None) => None,
            Maker::Drive(profile) => drive(profile, FLASH_CODE),
            Maker::Replay => Some(format!("replay {REPLAY_CODE}")),
            Maker::Plugin(Some(profile)) | Maker::Driver(profile) => drive_within(profile, &self.file(maker)?.built?),
        }
    }

    /// Which build the program beside this one is; `None` if there is none.
    pub(super) fn build(&mut self, maker: Maker) -> Option<String> {
        let File { written, built } = self.file(maker)?;
        let commit = built.map_or_else(|| "unknown".to_owned(), |built| built.commit);
        Some(format!("{commit} of {written}"))
    }

    /// Takes out rows of other models than make those of these points now: they are no part of what is shown, and their points are run
    /// anew. Says so, and keeps a copy of the file that has them.
    ///
    /// # Errors
    /// `Io`, if there can be no copy.
    pub(super) fn leave_out_others(
        &mut self,
        experiment: &DriveExperiment,
        results: &mut DriveResults,
        points: &[Point],
        json: &Path,
    ) -> Result<()> {
        let (mut others, mut unknown) = (Vec::new(), 0);
        for row in &results.rows {
            let point = points.iter().find(|point| point.id == row.point);
            let now = point.and_then(|point| self.model(point.maker));
            match differs(row, now.as_deref()) {
                Some(how) => others.push((row.point.clone(), row.seed, how)),
                None => unknown += u64::from(is_unknown(row, now.as_deref())),
            }
        }
        let name = experiment.name;
        if unknown > 0 {
            eprintln!("{name}: {unknown} rows do not say of which model they are, and are taken as they are");
        }
        others.dedup();
        if others.is_empty() {
            return Ok(());
        }
        for (point, seed, how) in &others {
            eprintln!("{name}: {point}, seed {seed} is left out, which another model made: {how}");
        }
        let copy = kept_copy(json)?;
        eprintln!("{name}: what was measured with it is in {}", copy.display());
        results.retain(|row| !others.iter().any(|(point, seed, _)| (point, *seed) == (&row.point, row.seed)));
        Ok(())
    }

    fn file(&mut self, maker: Maker) -> Option<File> {
        let path = match maker {
            Maker::Plugin(_) => plugin(),
            Maker::Driver(_) => driver(),
            Maker::Here | Maker::Drive(_) | Maker::Replay => None,
        }?;
        let written = fs::metadata(&path).and_then(|data| data.modified()).ok()?;
        let written = jiff::Timestamp::try_from(written).map(|at| format!("{at:.0}")).unwrap_or_default();
        match self.0.get(&path).filter(|file| file.written == written) {
            Some(file) => Some(file.clone()),
            None => {
                let file = File { written, built: of_file(&fs::read(&path).ok()?) };
                self.0.insert(path, file.clone());
                Some(file)
            }
        }
    }
}

/// The model of a drive: the numbers of a profile of this program, and code.
fn drive(profile: &str, code: &str) -> Option<String> {
    let profile = Profile::named(profile).ok()?;
    Some(format!("profile {}, drives {code}", by_numbers(&profile)))
}

/// A profile by its numbers: what it says about them is no part of a model.
pub(super) fn by_numbers(profile: &Profile) -> String {
    format!("{:016x}", profile.hash())
}

/// The same as rows said it before, when what it says about them was in it.
fn by_words(profile: &Profile) -> String {
    format!("{:016x}", profile.fingerprint())
}

/// Whether a row said before that it was of the model that rows are of now.
fn was_said_before(then: &str, now: &str) -> bool {
    let mut profiles = Profile::names().filter_map(|name| Profile::named(name).ok());
    profiles.any(|profile| now.replace(&by_numbers(&profile), &by_words(&profile)) == then)
}

/// The model of a drive within a library or program. It has profiles of its own: only where they are this program's is it known which
/// numbers one of them has. Of those who do not say, they are taken to be.
fn drive_within(profile: &str, built: &Built) -> Option<String> {
    match &built.profiles {
        Some(profiles) if profiles != PROFILES => Some(format!("profiles {profiles}, drives {}", built.flash_code)),
        _ => drive(profile, &built.flash_code),
    }
}

/// A copy of a file beside it, by the first number that is free: an older copy may have the only rows of another model.
fn kept_copy(json: &Path) -> Result<PathBuf> {
    let failed = |source| BenchError::io(format!("copy {}", json.display()), source);
    let text = fs::read(json).map_err(failed)?;
    let numbers = std::iter::once(String::new()).chain((2..=u64::MAX).map(|number| format!("-{number}")));
    for copy in numbers.map(|number| json.with_extension(format!("other-model{number}.json"))) {
        match fs::OpenOptions::new().write(true).create_new(true).open(&copy) {
            Ok(mut file) => return file.write_all(&text).map(|()| copy).map_err(failed),
            // Who goes on twice without a new row has it already.
            Err(_) if fs::read(&copy).is_ok_and(|older| older == text) => return Ok(copy),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// The plugin.
pub(super) fn plugin() -> Option<PathBuf> {
    beside(PLUGIN_VARIABLE, PLUGIN)
}

/// `zonda-db-bench`.
pub(super) fn driver() -> Option<PathBuf> {
    beside(DRIVER_VARIABLE, DRIVER)
}

/// The file that a variable names, or one beside this program, or above it, as tests are.
fn beside(variable: &str, name: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let program = env::current_exe().ok();
    let beside = program.iter().flat_map(|program| program.ancestors().skip(1).take(2)).map(|at: &Path| at.join(name));
    named.into_iter().chain(beside).find(|file| file.is_file())
}

/// Why a row is of another model than rows are now; `None` if it is of the same, or does not say.
pub(super) fn differs(row: &DriveRow, now: Option<&str>) -> Option<String> {
    match (&row.model, now) {
        (Some(then), Some(now)) if then == now || was_said_before(then, now) => None,
        (Some(then), Some(now)) => Some(format!("then {then}, now {now}")),
        (Some(_), None) => None,
        (None, _) => profile_differs(row),
    }
}

/// Of rows that were measured before they said their model, but for the profile.
fn profile_differs(row: &DriveRow) -> Option<String> {
    if row.profile_hash.is_empty() {
        return None;
    }
    let scale = row.options.get("scale").and_then(serde_json::Value::as_u64).unwrap_or(1);
    let now = Profile::named(&row.profile).and_then(|profile| profile.scaled(scale)).ok();
    let was_said = now.as_ref().is_some_and(|profile| by_words(profile) == row.profile_hash);
    let now = now.map_or_else(|| "none".to_owned(), |profile| by_numbers(&profile));
    (now != row.profile_hash && !was_said).then(|| format!("then profile {}, now {now}", row.profile_hash))
}

/// Whether a row of a drive says nothing of its model, as those do that were measured before it was kept.
pub(super) fn is_unknown(row: &DriveRow, now: Option<&str>) -> bool {
    row.model.is_none() && row.profile_hash.is_empty() && now.is_some() && !row.is_broken()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_other_profiles_differ() {
        let mut makers = Makers::default();
        let all = [Maker::Drive("zn540"), Maker::Drive("atc21-zns"), Maker::Replay];
        let models = all.map(|maker| makers.model(maker).unwrap());
        assert!(models[0] != models[1] && models[1] != models[2], "{models:?}");
        assert!(models[0].contains(FLASH_CODE) && models[2].contains(REPLAY_CODE), "{models:?}");
        assert_eq!((makers.model(Maker::Here), makers.build(Maker::Replay)), (None, None));
    }

    /// A plugin that was built before a profile was changed has the numbers of before.
    #[test]
    fn programs_have_profiles_of_their_own() {
        let of = |profiles: Option<&str>| {
            let profiles = profiles.map(str::to_owned);
            let built = Built { commit: String::new(), flash_code: FLASH_CODE.to_owned(), profiles };
            drive_within("zn540", &built).unwrap()
        };
        let here = Makers::default().model(Maker::Drive("zn540")).unwrap();
        assert_eq!((of(Some(PROFILES)), of(None)), (here.clone(), here));
        assert_eq!(of(Some("0")), format!("profiles 0, drives {FLASH_CODE}"));
    }

    #[test]
    fn rows_of_another_model_are_told_from_those_that_do_not_say() {
        let row = |model: Option<&str>| DriveRow { model: model.map(str::to_owned), ..DriveRow::of("a", "x") };
        assert_eq!(differs(&row(Some("one")), Some("two")), Some("then one, now two".to_owned()));
        assert_eq!((differs(&row(Some("one")), Some("one")), differs(&row(Some("one")), None)), (None, None));
        assert!(differs(&row(None), Some("one")).is_none() && is_unknown(&row(None), Some("one")));
        // What was kept before has the hash of the scaled profile.
        let profile = Profile::named("atc21-zns").unwrap().scaled(8).unwrap();
        let mut old = DriveRow::new("a", "x", &profile).option("scale", 8);
        assert!(differs(&old, Some("one")).is_none() && !is_unknown(&old, Some("one")));
        old.profile_hash = "0123456789abcdef".to_owned();
        assert!(differs(&old, None).unwrap().starts_with("then profile 0123456789abcdef, now "));
        let unscaled = DriveRow::new("a", "x", &Profile::named("zn540").unwrap());
        assert_eq!(differs(&unscaled, None), None);
    }

    #[test]
    fn what_a_profile_says_about_its_numbers_is_no_part_of_a_model() {
        let profile = Profile::named("zn540").unwrap();
        let hash_of = |profile: &Profile| DriveRow::new("a", "x", profile).profile_hash;
        let reworded = Profile { about: "A drive.".to_owned(), sources: Vec::new(), ..profile.clone() };
        assert_eq!(hash_of(&reworded), hash_of(&profile));
        let mut other = profile.clone();
        other.flash.sense_ns += 1;
        assert_ne!(hash_of(&other), hash_of(&profile));
        assert_ne!(hash_of(&profile.clone().scaled(8).unwrap()), hash_of(&profile));
    }

    /// Rows that were kept when it was are none of another model.
    #[test]
    fn rows_of_before_are_of_the_same_model() {
        let profile = Profile::named("zn540").unwrap();
        let row = |model: String| DriveRow { model: Some(model), ..DriveRow::of("a", "x") };
        let now = drive("zn540", "code").unwrap();
        let before = format!("profile {:016x}, drives ", profile.fingerprint());
        assert_eq!(differs(&row(format!("{before}code")), Some(&now)), None);
        assert!(differs(&row(format!("{before}other")), Some(&now)).is_some());
        assert!(differs(&row(format!("{before}code")), drive("splitzns", "code").as_deref()).is_some());
        let mut old = DriveRow::new("a", "x", &profile);
        old.profile_hash = format!("{:016x}", profile.fingerprint());
        assert_eq!(differs(&old, None), None);
    }
}
