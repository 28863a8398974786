//! What a file is, by its name: RocksDB's names say it.

use zonda_files::{FileKind, FilePath};

/// What a name says of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `000012.log`: a write-ahead log.
    Wal,
    /// `MANIFEST-000005`.
    Manifest,
    /// `CURRENT`: the name of the MANIFEST that counts.
    Current,
    /// OPTIONS, IDENTITY, LOCK, temporary files: small, and read when a database is opened.
    Small,
    /// `LOG`, `LOG.old.*`: what RocksDB tells people.
    InfoLog,
    /// `000012.sst`.
    Table,
    /// `000012.blob`.
    Blob,
    /// Anything else: backups' and tools' files.
    Other,
}

/// What the last component of a path says.
#[must_use]
pub fn role_of(path: &FilePath) -> Role {
    let name = path.name();
    match name.split_once('.') {
        Some((number, "log")) if is_number(number) => return Role::Wal,
        Some((number, "sst" | "sst.trash")) if is_number(number) => return Role::Table,
        Some((number, "blob" | "blob.trash")) if is_number(number) => return Role::Blob,
        Some((number, "dbtmp")) if is_number(number) => return Role::Small,
        _ => {}
    }
    match name {
        "CURRENT" => Role::Current,
        "IDENTITY" | "LOCK" => Role::Small,
        _ if name.strip_prefix("MANIFEST-").is_some_and(is_number) => Role::Manifest,
        _ if name.starts_with("OPTIONS-") => Role::Small,
        // With `db_log_dir` the path of the database stands in front.
        _ if name == "LOG" || name.starts_with("LOG.") || name.ends_with("_LOG") => Role::InfoLog,
        _ => Role::Other,
    }
}

/// The number in the name of a table.
#[must_use]
pub(crate) fn table_number(path: &FilePath) -> Option<u64> {
    path.name().strip_suffix(".sst").filter(|number| is_number(number))?.parse().ok()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Role {
    /// How the store keeps it. Which tables and blob files are flushed ones only the listener knows.
    pub(crate) fn kind(self) -> FileKind {
        match self {
            Self::Wal => FileKind::Log,
            Self::Manifest | Self::Current | Self::Small | Self::InfoLog => FileKind::Meta,
            Self::Table | Self::Blob | Self::Other => FileKind::Data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_are() {
        for (name, role) in [
            ("/db/000012.log", Role::Wal),
            ("/db/archive/000012.log", Role::Wal),
            ("/db/MANIFEST-000005", Role::Manifest),
            ("/db/CURRENT", Role::Current),
            ("/db/OPTIONS-000007.dbtmp", Role::Small),
            ("/db/000003.dbtmp", Role::Small),
            ("/db/LOG", Role::InfoLog),
            ("/db/LOG.old.1700000000", Role::InfoLog),
            ("/logs/data_db_LOG", Role::InfoLog),
            ("/db/000012.sst", Role::Table),
            ("/db/000012.sst.trash", Role::Table),
            ("/db/000012.blob", Role::Blob),
            ("/backup/shared_checksum/000012_s1_99.sst", Role::Other),
            ("/db/x.log", Role::Other),
            ("/db/MANIFEST-", Role::Other),
        ] {
            assert_eq!(role_of(&FilePath::parse(name).unwrap()), role, "{name}");
        }
        assert_eq!(table_number(&FilePath::parse("/db/000012.sst").unwrap()), Some(12));
        assert_eq!(table_number(&FilePath::parse("/db/000012.sst.trash").unwrap()), None);
        assert_eq!(table_number(&FilePath::parse("/99999999999999999999999.sst").unwrap()), None);
    }
}
