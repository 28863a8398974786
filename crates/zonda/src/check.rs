//! What a check of a whole store saw.

use std::fmt;

use crate::Result;
use crate::prefix::Prefix;
use crate::store::Store;

/// What a check saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Leaves read.
    pub leaves: u64,
    /// Records in leaves and their buffers; a key that is in both counts twice.
    pub records: u64,
    /// Long values read.
    pub values: u64,
    /// Bytes of leaves read.
    pub bytes: u64,
    /// Things that are wrong.
    pub findings: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is, and where on the device.
    pub what: String,
    /// The keys that it may be about: reads of them may fail, or be wrong. None if it is about what trees are called, or about a
    /// header, without which all is still read.
    pub keys: Vec<KeySpan>,
}

/// Keys of one tree from one on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpan {
    /// The tree's name; empty for that of [`Db`](crate::Db) itself.
    pub tree: String,
    /// The first.
    pub from: Vec<u8>,
    /// The first that is not meant any more; `None`: all others.
    pub to: Option<Vec<u8>>,
}

impl fmt::Display for KeySpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.tree.is_empty() { String::new() } else { format!(" of tree {}", self.tree) };
        let to = self.to.as_ref().map_or_else(|| "on".to_owned(), |to| format!("to \"{}\"", to.escape_ascii()));
        write!(f, "keys{of} from \"{}\" {to}", self.from.escape_ascii())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        self.keys.iter().try_for_each(|span| write!(f, "; {span}"))
    }
}

impl Finding {
    fn of(store: &Store, zonda_tree::Finding { what, low, high }: zonda_tree::Finding) -> Self {
        let span = |tree: String, prefix: Prefix| span_of((&low, high.as_deref()), tree, prefix);
        let catalogue = store.catalogue();
        let names =
            catalogue.names().into_iter().filter_map(|name| catalogue.find(&name).ok().map(|tree| (name, tree.prefix)));
        let of_names = names.filter_map(|(name, prefix)| span(name, prefix));
        let keys = span(String::new(), Prefix::DEFAULT).into_iter().chain(of_names).collect();
        Self { what, keys }
    }
}

/// What lies of keys as they are stored, from `low` up to `high`, in the tree of `prefix`.
fn span_of((low, high): (&[u8], Option<&[u8]>), tree: String, prefix: Prefix) -> Option<KeySpan> {
    let end = prefix.end();
    let is_apart = low >= end.as_slice() || high.is_some_and(|high| high <= prefix.bytes());
    let from = prefix.strip(low).unwrap_or_default().to_vec();
    let to = high.filter(|high| *high < end.as_slice()).and_then(|high| prefix.strip(high)).map(<[u8]>::to_vec);
    (!is_apart).then_some(KeySpan { tree, from, to })
}

impl CheckReport {
    /// # Errors
    /// `Forked`, `Closed`; those of reading headers.
    pub(crate) fn of(
        store: &Store,
        progress: &mut dyn FnMut(u64, u64),
        finding: &mut dyn FnMut(Finding),
    ) -> Result<Self> {
        let report = store.reader()?.check(progress, &mut |found| finding(Finding::of(store, found)))?;
        let zonda_tree::CheckReport { leaves, records, values, bytes, mut findings } = report;
        store.pages().check_headers(&mut |what| {
            findings += 1;
            finding(Finding { what, keys: Vec::new() });
        })?;
        Ok(Self { leaves, records, values, bytes, findings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_become_those_of_trees() {
        let of = |low: &[u8], high: Option<&[u8]>, number: u32| {
            span_of((low, high), String::new(), Prefix::of(number)).map(|span| (span.from, span.to))
        };
        assert_eq!(of(b"\x01b", Some(b"\x01d"), 1), Some((b"b".to_vec(), Some(b"d".to_vec()))));
        assert_eq!(of(b"", Some(b"\x01d"), 1), Some((vec![], Some(b"d".to_vec()))), "the leaf begins before the tree");
        assert_eq!(of(b"\x01b", Some(b"\x02a"), 1), Some((b"b".to_vec(), None)), "and ends behind it");
        assert_eq!(of(b"\x01b", Some(b"\x02a"), 2), Some((vec![], Some(b"a".to_vec()))));
        assert_eq!(of(b"", None, 700), Some((vec![], None)));
        assert_eq!(of(b"\x01b", Some(b"\x02"), 2), None, "nothing below its first key");
        assert_eq!(of(b"\x02", None, 1), None);
    }
}
