//! Names for stretches of work, so that a harness can cut inside one and count how often it did.
use std::{cell::Cell, marker::PhantomData};

/// The name of work outside all labels.
pub(super) const UNLABELLED: &str = "other";

thread_local! {
    // Nothing to drop: there as long as the thread is, also for what a program closes when it exits.
    static LABEL: Cell<&'static str> = const { Cell::new(UNLABELLED) };
}

/// While this lives, the thread's device operations carry the label. Labels nest; the innermost counts.
#[derive(Debug)]
#[must_use = "the label holds while this lives"]
pub struct CutLabel {
    outer: &'static str,
    /// Labels are of one thread: not `Send`.
    one_thread: PhantomData<*const ()>,
}

/// Labels this thread's device operations until the guard is dropped. Costs two stores; engines may leave it in.
pub fn cut_label(label: &'static str) -> CutLabel {
    CutLabel { outer: LABEL.replace(label), one_thread: PhantomData }
}

impl Drop for CutLabel {
    fn drop(&mut self) {
        LABEL.set(self.outer);
    }
}

/// As [`cut_label`], but only names work that has no name yet: who began it knows better what it is for.
pub fn cut_label_unless_named(label: &'static str) -> CutLabel {
    let name = current();
    cut_label(if name == UNLABELLED { label } else { name })
}

/// The innermost label of this thread.
pub(super) fn current() -> &'static str {
    LABEL.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_nest() {
        assert_eq!(current(), UNLABELLED);
        let outer = cut_label("log");
        {
            let _inner = cut_label("reset");
            assert_eq!(current(), "reset");
        }
        assert_eq!(current(), "log");
        {
            let _inner = cut_label_unless_named("page group");
            assert_eq!(current(), "log");
        }
        drop(outer);
        {
            let _named = cut_label_unless_named("page group");
            assert_eq!(current(), "page group");
        }
        assert_eq!(current(), UNLABELLED);
    }

    /// A program that exits closes its stores when values of the main thread are gone already.
    #[test]
    fn labels_are_there_while_a_thread_ends() {
        struct Last;
        impl Drop for Last {
            fn drop(&mut self) {
                let _label = cut_label("late");
                assert_eq!(current(), "late");
            }
        }
        thread_local!(static LAST: Last = const { Last });
        let thread = zonda_rt::spawn("ends", || {
            LAST.with(|_| {});
            let _label = cut_label("early");
        });
        assert!(thread.join().is_ok());
    }
}
