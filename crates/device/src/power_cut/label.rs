//! Names for stretches of work, so that a harness can cut inside one and count how often it did.
use std::{cell::RefCell, marker::PhantomData};

thread_local! {
    static LABELS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// The name of work outside all labels.
pub(super) const UNLABELLED: &str = "other";

/// While this lives, the thread's device operations carry the label. Labels nest; the innermost counts.
#[derive(Debug)]
#[must_use = "the label holds while this lives"]
pub struct CutLabel {
    /// Labels are of one thread: not `Send`.
    one_thread: PhantomData<*const ()>,
}

/// Labels this thread's device operations until the guard is dropped. Costs a push and a pop; engines may leave it in.
pub fn cut_label(label: &'static str) -> CutLabel {
    LABELS.with_borrow_mut(|labels| labels.push(label));
    CutLabel { one_thread: PhantomData }
}

impl Drop for CutLabel {
    fn drop(&mut self) {
        LABELS.with_borrow_mut(|labels| labels.pop());
    }
}

/// As [`cut_label`], but only names work that has no name yet: who began it knows better what it is for.
pub fn cut_label_unless_named(label: &'static str) -> CutLabel {
    let name = LABELS.with_borrow(|labels| labels.last().copied());
    cut_label(name.unwrap_or(label))
}

/// The innermost label of this thread.
pub(super) fn current() -> &'static str {
    LABELS.with_borrow(|labels| labels.last().copied().unwrap_or(UNLABELLED))
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
}
