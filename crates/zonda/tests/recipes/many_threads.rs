use zonda::{Db, Durability};

fn work(db: &Db, jobs: u64) -> zonda::Result<()> {
    let queue = db.tree("jobs")?;
    queue.ingest((0..jobs).map(|job| (job.to_be_bytes(), "")))?;
    std::thread::scope(|scope| {
        let worker = || -> zonda::Result<()> {
            while let Some((job, _)) = queue.pop_first()? {
                // A crash in between loses the job, or brings it back: one that must not be lost is moved by a batch, by its one owner.
                db.put_with(job, "done", Durability::Synced)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })
}
