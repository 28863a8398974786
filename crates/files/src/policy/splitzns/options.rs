//! The options of the policy behind its name.

use std::str::FromStr;

use super::super::NAMES;
use super::{SplitZns, SubzoneLevels};
use crate::{FileError, Result};

impl FromStr for SplitZns {
    type Err = FileError;

    fn from_str(text: &str) -> Result<Self> {
        let mut words = text.split(',');
        let mut policy = match words.next() {
            Some("splitzns") => Self::default(),
            Some("splitzns+") => Self { plus: true, ..Self::default() },
            _ => return Err(FileError::UnknownPolicy { name: text.to_owned(), known: NAMES.join(", ") }),
        };
        for word in words {
            let unknown = || {
                FileError::UnknownPolicy {
                name: text.to_owned(),
                known: "splitzns and splitzns+ with from=LEVEL or from-bottom=LEVELS, share=PERCENT, rule=paper, and wait=doomed"
                    .to_owned(),
            }
            };
            match word {
                "rule=paper" => policy.is_strict = true,
                "wait=doomed" => policy.waits_for_doomed = true,
                _ => policy.read_number(word, unknown)?,
            }
        }
        Ok(policy)
    }
}

impl SplitZns {
    /// An option with a number.
    fn read_number(&mut self, word: &str, unknown: impl Fn() -> FileError) -> Result<()> {
        let (key, value) = word.split_once('=').ok_or_else(&unknown)?;
        let number: u32 = value.parse().map_err(|_| unknown())?;
        match (key, number) {
            ("from", 0..=63) => self.levels = SubzoneLevels::From(number),
            ("from-bottom", 1..=63) => self.levels = SubzoneLevels::FromBottom(number),
            ("share", 1..=90) => self.split_percent_max = number,
            ("from", _) => return Err(bad("from", number, "it is a level, 0 to 63")),
            ("from-bottom", _) => return Err(bad("from-bottom", number, "it is a number of levels, 1 to 63")),
            ("share", _) => return Err(bad("share", number, "it is 1 to 90 percent")),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

fn bad(option: &'static str, value: u32, rule: &'static str) -> FileError {
    FileError::BadOption { option, value: value.into(), rule }
}
