//! Words for people.

use std::fmt::Arguments;
use std::io::Write;

/// One line on stderr. A program that closed it does without: a file system is not refused because nobody can be told of it.
pub(crate) fn tell(line: Arguments<'_>) {
    _ = writeln!(std::io::stderr(), "zonda: {line}");
}
