use zonda::{Batch, Db, Update};

fn count(db: &Db, page: &str) -> zonda::Result<()> {
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
    db.tree("hits")?.fetch_update(page, |old| Update::Put((old.map_or(0, number) + 1).to_be_bytes().to_vec()))?;
    Ok(())
}

fn rename(db: &Db, from: &str, to: &str) -> zonda::Result<()> {
    let hits = db.tree("hits")?;
    let mut batch = Batch::new();
    if let Some(count) = hits.get(from)? {
        batch.delete_in(&hits, from).put_in(&hits, to, count); // in this order: both may be one
    }
    db.write(batch) // what others counted between the two is lost: a batch reads nothing
}
