//! Names of trees: a map in memory, and its records in tree 0.
//!
//! Life cycle of a tree: 1 named (name record, written in one batch with the counter) -> 2 dropping (name record gone, dropping record
//! there, same batch; no write gets in any more) -> 3 gone (pairs deleted in batches, then the dropping record). A crash in 2 is finished
//! by the next opening. Numbers are not used again, so a stale handle can never reach another tree.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{Mutex, RwLock, RwLockReadGuard};
use zonda_tree::{BatchOp, Durability, Engine, Snapshot};

use crate::chunks;
use crate::format::{COUNTER_KEY, DROPPING_KEY, NAME_KEY, TreeRecord, UNFINISHED_KEY};
use crate::limits::{TREE_NAME_BYTES_MAX, TREES_MAX};
use crate::prefix::Prefix;
use crate::{Error, Result};

/// The first number that a named tree gets.
const FIRST_NAMED: u32 = 2;

/// One tree of a store.
#[derive(Debug)]
pub(crate) struct Named {
    /// Its name; the default tree's is empty.
    pub(crate) name: String,
    /// What its keys begin with.
    pub(crate) prefix: Prefix,
    dropped: AtomicBool,
    /// Whoever writes to the tree shares it, whoever drops it has it alone.
    writers: RwLock<()>,
}

/// The right to write to a tree. The default tree, which cannot be dropped, needs none.
pub(crate) type Admitted<'a> = Option<RwLockReadGuard<'a, ()>>;

impl Named {
    fn new(name: String, prefix: Prefix) -> Arc<Self> {
        Arc::new(Self { name, prefix, dropped: AtomicBool::new(false), writers: RwLock::new(()) })
    }

    /// # Errors
    /// `TreeDropped`. What was read before is what the tree had: its pairs go after it is dropped. Costs one load.
    pub(crate) fn check(&self) -> Result<()> {
        if self.dropped.load(Ordering::Acquire) {
            return Err(Error::TreeDropped { name: self.name.clone() });
        }
        Ok(())
    }

    /// The right to write to the tree; hold it until the write is done. For several trees take it in the order of their prefixes: else two
    /// writers, each waiting behind the drop of a tree that the other may write to, would wait for ever.
    ///
    /// # Errors
    /// `TreeDropped`.
    pub(crate) fn admit(&self) -> Result<Admitted<'_>> {
        if self.prefix == Prefix::DEFAULT {
            return Ok(None);
        }
        let admitted = self.writers.read();
        self.check()?;
        Ok(Some(admitted))
    }
}

/// Trees by name.
type Names = BTreeMap<String, Arc<Named>>;

/// All trees of a store by name.
///
/// Always: whoever writes to a named tree was [admitted](Named::admit), so that nothing is written behind a drop. Nobody holds the map
/// while it writes or waits for a writer, who may himself wait for space: other trees are found, made and dropped meanwhile.
#[derive(Debug)]
pub(crate) struct Catalogue {
    names: RwLock<Names>,
    /// Whoever makes a tree.
    creating: Mutex<()>,
    default_tree: Arc<Named>,
}

impl Catalogue {
    /// Reads the names of a store.
    ///
    /// # Errors
    /// Those of reading; `Damaged`.
    pub(crate) fn load(engine: &Engine) -> Result<Self> {
        let mut names = Names::new();
        for (key, value) in records(engine, NAME_KEY)? {
            let name = name_of(key)?;
            let prefix = Prefix::of(TreeRecord::decode(&value)?.number);
            names.insert(name.clone(), Named::new(name, prefix));
        }
        let default_tree = Named::new(String::new(), Prefix::DEFAULT);
        Ok(Self { names: RwLock::new(names), creating: Mutex::new(()), default_tree })
    }

    /// The tree without a name.
    pub(crate) fn default_tree(&self) -> &Arc<Named> {
        &self.default_tree
    }

    /// All names in order.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.read().keys().cloned().collect()
    }

    /// The tree called `name`.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<Named>> {
        let found = self.names.read().get(name).cloned();
        found.ok_or_else(|| Error::NoSuchTree { name: name.to_owned() })
    }

    /// The tree called `name`, made if need be, as durably as is said.
    ///
    /// # Errors
    /// `TreeName`, `TooManyTrees`; those of writing.
    pub(crate) fn find_or_create(&self, engine: &Engine, name: &str, durability: Durability) -> Result<Arc<Named>> {
        check_name(name)?;
        if let Ok(found) = self.find(name) {
            return Ok(found);
        }
        let _creating = self.creating.lock();
        if let Ok(found) = self.find(name) {
            return Ok(found);
        }
        let created = Named::new(name.to_owned(), create(engine, name, durability)?);
        self.names.write().insert(name.to_owned(), Arc::clone(&created));
        Ok(created)
    }

    /// Forgets the name, as durably as is said, keeps writers out and deletes the pairs. Says whether there was such a tree. Waits for
    /// who writes to it.
    ///
    /// # Errors
    /// Those of writing. The name may be gone then; the next opening deletes what is left.
    pub(crate) fn drop_tree(&self, engine: &Engine, name: &str, durability: Durability) -> Result<bool> {
        let Some(dropped) = self.unname(engine, name, durability)? else {
            return Ok(false);
        };
        // Buffered: once the name is gone, what is lost of this is done again by the next opening.
        delete_all(engine, dropped.prefix)?;
        Ok(true)
    }

    fn unname(&self, engine: &Engine, name: &str, durability: Durability) -> Result<Option<Arc<Named>>> {
        let Ok(found) = self.find(name) else { return Ok(None) };
        let alone = found.writers.write();
        // By somebody else meanwhile.
        if found.check().is_err() {
            return Ok(None);
        }
        let batch = [
            BatchOp::Delete { key: &name_key(name) },
            BatchOp::Put { key: &dropping_key(found.prefix.number()), value: b"" },
        ];
        // A full store takes it: all pairs of the tree go for these few bytes.
        engine.write_from_reserve(&batch, Durability::Buffered)?;
        found.dropped.store(true, Ordering::Release);
        self.names.write().remove(name);
        drop(alone);
        // Not as part of the write: if this fails the name is gone all the same, and nobody may write to what the next opening deletes.
        match durability {
            Durability::Buffered => {}
            Durability::Synced => engine.sync()?,
        }
        Ok(Some(found))
    }

    /// Finishes drops that a crash interrupted. What of them cannot be read, or finds no space, is left for the next opening: nobody sees
    /// it, and all other trees are whole.
    ///
    /// # Errors
    /// Those of reading and writing; `Damaged` for a record.
    pub(crate) fn finish_drops(engine: &Engine) -> Result<()> {
        for (key, _) in records(engine, DROPPING_KEY)? {
            let number = key.try_into().map_err(|_| damaged("a dropping record's number is not 4 bytes long"))?;
            match delete_all(engine, Prefix::of(u32::from_be_bytes(number))) {
                Err(Error::Damaged { .. } | Error::NoSpace { .. } | Error::DiskFull { .. }) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

/// Marks a store as one that is being copied to, durably with a log or without.
///
/// # Errors
/// Those of writing.
pub(crate) fn begin_copy(engine: &Engine) -> Result<()> {
    engine.put(&Prefix::CATALOGUE.join(UNFINISHED_KEY), b"", Durability::Buffered)?;
    Ok(engine.checkpoint()?)
}

/// Takes the mark off again, once all that was copied is durable. Without a log both wait for the next checkpoint, which has all or
/// nothing.
///
/// # Errors
/// Those of writing.
pub(crate) fn end_copy(engine: &Engine) -> Result<()> {
    engine.sync()?;
    Ok(engine.delete(&Prefix::CATALOGUE.join(UNFINISHED_KEY), Durability::Synced)?)
}

/// # Errors
/// `CopyUnfinished` if a copy into the store called `uri` did not end; those of reading.
pub(crate) fn check_copied(engine: &Engine, uri: &str) -> Result<()> {
    if engine.contains(&Prefix::CATALOGUE.join(UNFINISHED_KEY))? {
        return Err(Error::CopyUnfinished { uri: uri.to_owned() });
    }
    Ok(())
}

fn create(engine: &Engine, name: &str, durability: Durability) -> Result<Prefix> {
    let number = next_number(engine)?;
    let next = number.checked_add(1).ok_or(Error::TooManyTrees { trees: TREES_MAX })?;
    let batch = [
        BatchOp::Put { key: &name_key(name), value: &TreeRecord { number }.encode() },
        BatchOp::Put { key: &Prefix::CATALOGUE.join(COUNTER_KEY), value: &next.to_le_bytes() },
    ];
    engine.write(&batch, durability)?;
    Ok(Prefix::of(number))
}

fn next_number(engine: &Engine) -> Result<u32> {
    let mut value = Vec::new();
    if !engine.get_into(&Prefix::CATALOGUE.join(COUNTER_KEY), &mut value)? {
        return Ok(FIRST_NAMED);
    }
    let bytes = value.try_into().map_err(|_| damaged("the tree counter is not 4 bytes long"))?;
    Ok(u32::from_le_bytes(bytes))
}

fn delete_all(engine: &Engine, tree: Prefix) -> Result<()> {
    let end = tree.end();
    chunks::delete_range(engine, Bound::Included(tree.bytes().to_vec()), Bound::Excluded(&end), |batch| {
        Ok(engine.write(batch, Durability::Buffered)?)
    })?;
    engine.delete(&dropping_key(tree.number()), Durability::Buffered)?;
    Ok(())
}

/// Names of all trees as `snapshot` sees them, in order.
///
/// # Errors
/// Those of reading; `Damaged`.
pub(crate) fn names_as_of(engine: &Engine, snapshot: &Snapshot) -> Result<Vec<String>> {
    records_as_of(engine, snapshot, NAME_KEY)?.into_iter().map(|(key, _)| name_of(key)).collect()
}

fn name_of(key: Vec<u8>) -> Result<String> {
    String::from_utf8(key).map_err(|_| damaged("a name is not UTF-8"))
}

/// The number that the record of `name` gives, if `value` is that record.
///
/// # Errors
/// `Damaged`, `NewerVersion`.
pub(crate) fn prefix_from_record(value: &[u8]) -> Result<Prefix> {
    Ok(Prefix::of(TreeRecord::decode(value)?.number))
}

/// The key of the record of `name`.
pub(crate) fn name_key(name: &str) -> Vec<u8> {
    Prefix::CATALOGUE.join(&[&[NAME_KEY], name.as_bytes()].concat())
}

fn dropping_key(number: u32) -> Vec<u8> {
    Prefix::CATALOGUE.join(&[&[DROPPING_KEY], number.to_be_bytes().as_slice()].concat())
}

/// All catalogue records whose key begins with `kind`, without it.
fn records(engine: &Engine, kind: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    records_as_of(engine, &engine.snapshot()?, kind)
}

fn records_as_of(engine: &Engine, snapshot: &Snapshot, kind: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (low, high) = (Prefix::CATALOGUE.join(&[kind]), Prefix::CATALOGUE.join(&[kind + 1]));
    let mut cursor = engine.scan(snapshot, Bound::Included(&low), Bound::Excluded(&high))?;
    let mut found = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        found.push((key[low.len()..].to_vec(), value.to_vec()));
    }
    Ok(found)
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if (1..=TREE_NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::TreeName { bytes: name.len(), bytes_max: TREE_NAME_BYTES_MAX })
}

fn damaged(why: &str) -> Error {
    Error::Damaged { what: "catalogue".to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use zonda_device::{CutAt, Geometry, PowerCut};
    use zonda_rt::Rng;

    use super::*;
    use crate::Options;
    use crate::backing::Device;
    use crate::open::{self, Access, Devices};
    use crate::store::Store;

    const PAIRS: u32 = 3_000;

    fn store(power: &PowerCut) -> Store {
        let options = Options::new().memory(4 << 20).seed(7).log_instances(2).log_ring(4 << 10).background(false);
        let devices = Devices::of(Device::Zoned(Arc::new(power.clone())), None);
        open::store(&devices, "a test", &options, Access::ReadWrite, &mut |_| {}).unwrap()
    }

    fn fill(engine: &Engine, tree: &Named) {
        let keys: Vec<Vec<u8>> = (0..PAIRS).map(|number| tree.prefix.join(&number.to_be_bytes())).collect();
        for keys in keys.chunks(500) {
            let puts: Vec<BatchOp<'_>> = keys.iter().map(|key| BatchOp::Put { key, value: b"x" }).collect();
            engine.write(&puts, Durability::Buffered).unwrap();
        }
        engine.sync().unwrap();
    }

    fn pairs(engine: &Engine, tree: Prefix) -> u32 {
        let (snapshot, end) = (engine.snapshot().unwrap(), tree.end());
        let mut cursor = engine.scan(&snapshot, Bound::Included(tree.bytes()), Bound::Excluded(&end)).unwrap();
        let mut found = 0;
        while cursor.next().unwrap().is_some() {
            found += 1;
        }
        found
    }

    /// The power goes at each change of a drop, and of the closing behind it. The next opening leaves a whole tree, or nothing of it.
    #[test]
    fn a_drop_that_a_power_cut_interrupts_is_finished_or_never_was() {
        let (mut whole, mut begun) = (0, 0);
        for nth in 1.. {
            let power = PowerCut::new(Geometry::new(1 << 20, 96).with_limits(14, 14)).unwrap();
            let made = store(&power);
            let engine = made.writer().unwrap();
            let tree = made.catalogue().find_or_create(engine, "t", Durability::Synced).unwrap();
            fill(engine, &tree);
            power.arm(CutAt::Change(nth));
            let dropped = made.catalogue().drop_tree(engine, "t", Durability::Synced);
            let was_cut = power.cut_report().is_some();
            drop(made);
            for seed in 0..4 {
                let opened = store(&PowerCut::over(power.reopen(&mut Rng::seeded(seed))));
                let (engine, names) = (opened.reader().unwrap(), opened.catalogue().names());
                let left = pairs(engine, tree.prefix);
                if names.is_empty() {
                    let records = records(engine, DROPPING_KEY).unwrap();
                    assert_eq!((left, records), (0, Vec::new()), "at change {nth}, seed {seed}");
                    begun += u32::from(dropped.is_err());
                } else {
                    assert!(
                        names == ["t"] && left == PAIRS && dropped.is_err(),
                        "at change {nth}, seed {seed}: {left}"
                    );
                    whole += 1;
                }
            }
            if !was_cut {
                break;
            }
        }
        assert!(whole > 0 && begun > 0, "{whole} whole, {begun} begun");
    }
}
