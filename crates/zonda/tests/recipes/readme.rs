use zonda::{Batch, Db};

fn main() -> zonda::Result<()> {
    let db = Db::open("app.zonda")?;                       // an ordinary file; it takes what is written
    db.put(b"bern", b"capital")?;
    assert_eq!(db.get(b"bern")?.as_deref(), Some(&b"capital"[..]));

    let mut batch = Batch::new();                          // all of it or nothing, also over a crash
    batch.put(b"basel", b"rhine");
    batch.delete(b"bern");
    let before = db.snapshot()?;                           // stays as it is now
    db.write(batch)?;
    db.sync()?;                                            // survives a power cut from here on

    let b: Vec<_> = before.prefix(b"b")?.collect::<Result<_, _>>()?; // sorted, double-ended, owned pairs
    assert_eq!(b, [(b"bern".to_vec(), b"capital".to_vec())]);
    Ok(())
}
