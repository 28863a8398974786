//! What a program was built from, so that its results say it: the commit, and the code of the models.
//!
//! A crate of its own, because its build script looks at all of the workspace: whoever uses it is compiled again for every commit, and
//! nobody else.

#[cfg(test)]
mod sources;

/// The commit; with a `+` when files that programs are made of differed from it, `unknown` outside of git.
pub const COMMIT: &str = env!("ZONDA_COMMIT");

/// Hash over the code of the modelled drives, tests and comments left out. Profiles are not in it: each has its own, and all of them
/// [`PROFILES`].
pub const FLASH_CODE: &str = env!("ZONDA_FLASH_CODE");

/// Hash over the names and numbers of the profiles of modelled drives that come with a program.
pub const PROFILES: &str = env!("ZONDA_PROFILES");

/// Hash over the code of replays: of the file store with its policies, and of the simulated LSM-tree.
pub const REPLAY_CODE: &str = env!("ZONDA_REPLAY_CODE");

/// [`COMMIT`], [`FLASH_CODE`] and [`PROFILES`] as they stand in the file of a library or program that has this in it: [`of_file`] finds
/// them.
pub const MARK: &str = concat!(
    "zonda built from ",
    env!("ZONDA_COMMIT"),
    ", drives ",
    env!("ZONDA_FLASH_CODE"),
    ", profiles ",
    env!("ZONDA_PROFILES"),
    "\u{1}"
);

/// How a [`MARK`] begins. Split, so that who looks for it is not found.
const BEGIN: [&str; 2] = ["zonda built ", "from "];

/// What a library or program was built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Its [`COMMIT`].
    pub commit: String,
    /// Its [`FLASH_CODE`].
    pub flash_code: String,
    /// Its [`PROFILES`]; `None` of what was built before they were said.
    pub profiles: Option<String>,
}

/// What the [`MARK`] in the bytes of a library or program says; `None` if there is none.
#[must_use]
pub fn of_file(bytes: &[u8]) -> Option<Built> {
    let begin = BEGIN.concat().into_bytes();
    let first = *begin.first()?;
    let mut rest = bytes;
    // Candidates are few: a byte is compared before the words are.
    while let Some(at) = rest.iter().position(|&byte| byte == first) {
        rest = rest.get(at..)?;
        if let Some(said) = rest.strip_prefix(begin.as_slice()).and_then(said) {
            return Some(said);
        }
        rest = rest.get(1..)?;
    }
    None
}

fn said(words: &[u8]) -> Option<Built> {
    let words = words.split(|&byte| byte == 1).next().filter(|words| words.len() < 100)?;
    let (commit, models) = std::str::from_utf8(words).ok()?.split_once(", drives ")?;
    let (flash_code, profiles) =
        models.split_once(", profiles ").map_or((models, None), |(code, all)| (code, Some(all)));
    let profiles = profiles.map(str::to_owned);
    Some(Built { commit: commit.to_owned(), flash_code: flash_code.to_owned(), profiles })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_was_built_from_is_found_in_it() {
        let profiles = Some(PROFILES.to_owned());
        let own = Built { commit: COMMIT.to_owned(), flash_code: FLASH_CODE.to_owned(), profiles };
        let file = [&b"\0zonda zonda built\xff"[..], MARK.as_bytes(), b"\0z"].concat();
        assert_eq!(of_file(&file), Some(own));
        let older = Built { commit: "c".to_owned(), flash_code: "f".to_owned(), profiles: None };
        assert_eq!(of_file(&[b"zonda built".as_slice(), b" from c, drives f\x01"].concat()), Some(older));
        assert_eq!(of_file(b"zonda built from nothing"), None);
        assert_eq!(of_file(b""), None);
    }

    #[test]
    fn the_commit_is_gits_or_unknown() {
        let name = COMMIT.trim_end_matches('+');
        let is_commit = name.len() >= 12 && name.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_commit || COMMIT == "unknown", "{COMMIT}");
        assert!([FLASH_CODE, REPLAY_CODE, PROFILES].iter().all(|hash| hash.len() == 16), "{MARK}, {REPLAY_CODE}");
    }
}
