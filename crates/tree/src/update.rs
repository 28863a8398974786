//! Atomic updates of one key.
//!
//! What is to be written is known only once the old value was seen, under the key's stripe, so room for it is asked afterwards: the stripe
//! is let go while reclaim works, which may need it, and then the decision stands if the value is still the one that it was made for.

use crate::{
    Durability, Update,
    buffer_end::{DELETES_END, PUTS_END},
    key::hash,
    tree::{Result, Tree, is_no_space},
    write::{Committed, PAGES_ASKED, check_key, check_value, tombstone},
};

/// What was decided, and for which value.
struct Decided {
    before: Option<Vec<u8>>,
    update: Update,
}

/// How an attempt went.
enum Attempt {
    /// It is applied; `None`: there was nothing to change.
    Done(Option<Committed>),
    /// Room for so many pages, and in its leaf for a pair with so many bytes, must be made first.
    Needs(u32, usize),
}

impl Tree {
    /// Lets `decide` see the value of `key` and change it, with all other writers of `key` kept out. Returns the value before. `decide` is
    /// called again only if another writer changed the key while room was made for what it wanted written.
    ///
    /// # Errors
    /// As [`put`](Self::put); a full store takes deletes from its reserve.
    pub(crate) fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        let mut admitted = match self.make_room(false, PAGES_ASKED) {
            Ok(()) if !self.unmerged.any() => PAGES_ASKED,
            // It may be a delete, or nothing; for a pair its leaf is to be looked at.
            Ok(()) => 0,
            Err(error) if is_no_space(&error) => 0,
            Err(error) => return Err(error),
        };
        self.make_ready(key, key.len(), DELETES_END)?;
        let (mut decided, mut tries) = (None, 0);
        let committed = loop {
            match self.try_update(key, (&mut decided, admitted), decide) {
                Ok(Attempt::Done(committed)) => break committed,
                Ok(Attempt::Needs(pages, bytes)) => {
                    self.make_room(false, pages)?;
                    self.reclaim_for(pages)?;
                    self.make_ready(key, bytes, PUTS_END)?;
                    admitted = pages;
                }
                Err(error) if is_no_space(&error) && self.admit_again(admitted, tries)? => tries += 1,
                Err(error) => return Err(error),
            }
        };
        committed.map_or(Ok(()), |committed| self.finish(committed, durability))?;
        Ok(decided.and_then(|decided| decided.before))
    }

    /// Decides, unless that is done, and applies it if it needs at most the `admitted` pages.
    fn try_update(
        &self,
        key: &[u8],
        (decided, admitted): (&mut Option<Decided>, u32),
        decide: &mut dyn FnMut(Option<&[u8]>) -> Update,
    ) -> Result<Attempt> {
        let _stripe = self.stripes.lock(hash(key));
        let mut value = Vec::new();
        let before = self.get_into(key, &mut value)?.then_some(value);
        let standing = decided.take().filter(|decided| decided.before == before);
        let Decided { before, update } = standing.unwrap_or_else(|| {
            let update = decide(before.as_deref());
            Decided { before, update }
        });
        let Decided { update, .. } = decided.insert(Decided { before, update });
        // A delete is taken from a full store's reserve.
        if let Update::Put(value) = update {
            check_value(value)?;
            let pages = PAGES_ASKED + self.pages_for(key, value)?;
            if pages > admitted {
                return Ok(Attempt::Needs(pages, key.len() + value.len()));
            }
        }
        let prepared = match update {
            Update::Keep => return Ok(Attempt::Done(None)),
            Update::Delete => tombstone(key),
            Update::Put(value) => self.prepare(key, value)?,
        };
        Ok(Attempt::Done(Some(self.commit(&[prepared])?)))
    }
}
