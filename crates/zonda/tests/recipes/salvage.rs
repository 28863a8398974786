use std::path::Path;
use zonda::{Db, Error, Options, file_uri};

/// The store, or a read-only view of what can still be read of it.
fn open_or_salvage(path: &Path) -> zonda::Result<Db> {
    let uri = file_uri(path)?;
    match Options::new().create_if_missing(false).open(&uri) {
        // If it is the log, what comes before the damage can be read, and copied to a new store; else this fails, too.
        Err(Error::Damaged { what, why }) => {
            eprintln!("{what} is damaged: {why}");
            let db = Options::new().log_up_to_damage(true).open_read_only(&uri)?;
            db.check(&mut |_, _| {}, &mut |finding| eprintln!("{finding}"))?;
            Ok(db)
        }
        opened => opened,
    }
}
