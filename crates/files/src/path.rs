//! Names of files: absolute, normalised, compared byte by byte.

use std::fmt;
use std::ops::Range;

use crate::{FileError, Result};

/// The longest path in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// The longest component of a path in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// An absolute path without empty components, `.` or `..`; the root is the empty string, everything else begins with `/`.
///
/// Ordered byte by byte; all that is below a directory stands together.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePath(String);

impl FilePath {
    /// The directory that always exists.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Normalises `path`: a missing first `/`, doubled and trailing `/` and `.` components are forgiven.
    ///
    /// # Errors
    /// `BadPath` for `..`, a NUL byte, or more than the limits.
    pub fn parse(path: &str) -> Result<Self> {
        let bad = |why| Err(FileError::BadPath { path: path.chars().take(200).collect(), why });
        if path.len() > PATH_BYTES_MAX {
            return bad("it has more than 4,096 bytes");
        }
        let mut normal = String::with_capacity(path.len() + 1);
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            match name {
                ".." => return bad("`..` is not resolved"),
                name if name.contains('\0') => return bad("it has a NUL byte"),
                name if name.len() > NAME_BYTES_MAX => return bad("a component has more than 255 bytes"),
                name => normal.extend(["/", name]),
            }
        }
        if normal.len() > PATH_BYTES_MAX {
            return bad("it has more than 4,096 bytes");
        }
        Ok(Self(normal))
    }

    /// The directory that it is in; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rfind('/').map(|at| Self(self.0[..at].to_string()))
    }

    /// Its last component; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.rfind('/').map_or("", |at| &self.0[at + 1..])
    }

    /// The path of `name` in this directory.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn join(&self, name: &str) -> Result<Self> {
        Self::parse(&format!("{}/{name}", self.0))
    }

    /// Whether it lies in `directory`, at any depth.
    #[must_use]
    pub fn is_in(&self, directory: &Self) -> bool {
        self.below(directory).is_some()
    }

    /// The same place below `to` as it has below `from`; `None` if it is not below `from`.
    pub(crate) fn moved(&self, from: &Self, to: &Self) -> Option<Self> {
        self.below(from).map(|rest| Self(format!("{}{rest}", to.0)))
    }

    /// Where everything below it stands in the order of paths.
    pub(crate) fn range_below(&self) -> Range<Self> {
        // `0` is the byte behind `/`.
        Self(format!("{}/", self.0))..Self(format!("{}0", self.0))
    }

    /// What its path adds to that of `directory`, with the first `/`; `None` if it does not lie in it.
    #[must_use]
    pub fn below(&self, directory: &Self) -> Option<&str> {
        self.0.strip_prefix(&directory.0).filter(|rest| rest.starts_with('/'))
    }

    /// The path as text: `/` for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        if self.0.is_empty() { "/" } else { &self.0 }
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> FilePath {
        FilePath::parse(text).expect("a good path")
    }

    #[test]
    fn paths_are_normalised() {
        assert_eq!(path("a//b/./c/").as_str(), "/a/b/c");
        assert_eq!(path("/").as_str(), "/");
        assert_eq!(path(""), FilePath::root());
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(FilePath::root()));
        assert_eq!(FilePath::root().parent(), None);
        assert_eq!(path("/a/b").name(), "b");
    }

    #[test]
    fn what_cannot_be_a_path_is_refused() {
        // The last one gets a slash.
        let as_long_as_may_be = format!("{}yy", "/y".repeat(2047));
        for bad in ["/a/../b", "a\0b", &"x".repeat(256), &"/y".repeat(2049), &format!("{}y", &as_long_as_may_be[1..])] {
            assert!(matches!(FilePath::parse(bad), Err(FileError::BadPath { .. })), "{bad:?}");
        }
        path(&"x".repeat(255));
        path(&"/y".repeat(2048));
        path(&as_long_as_may_be[..4096]);
    }

    #[test]
    fn a_directory_holds_only_what_is_below_it() {
        assert!(path("/db/CURRENT").is_in(&path("/db")));
        assert!(!path("/db2/CURRENT").is_in(&path("/db")));
        assert!(!path("/db").is_in(&path("/db")));
        assert!(path("/db").is_in(&FilePath::root()));
        assert_eq!(path("/tmp/x/1").moved(&path("/tmp"), &path("/db")), Some(path("/db/x/1")));
    }
}
