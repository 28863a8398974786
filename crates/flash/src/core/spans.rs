//! What dies did during a window of time, for pictures.
use std::ops::Range;

use super::{Class, Nanos};

/// What a die did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Sensing, and holding what was sensed.
    Read,
    /// Programming.
    Program,
    /// Erasing.
    Erase,
}

/// One stretch of one die's work; an interrupted program is several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The die.
    pub die: u16,
    /// From.
    pub start: Nanos,
    /// To.
    pub end: Nanos,
    /// What it did.
    pub work: Work,
    /// For whom.
    pub class: Class,
}

/// Most spans that are kept: a picture has fewer pixels.
const SPANS_MAX: usize = 1 << 20;

/// Spans that touch a window. Without a window none are.
#[derive(Debug, Default)]
pub(super) struct Spans {
    window: Range<Nanos>,
    spans: Vec<Span>,
}

impl Spans {
    /// Keeps spans of this window from now on.
    pub(super) fn watch(&mut self, window: Range<Nanos>) {
        self.window = window;
        self.spans.clear();
    }

    pub(super) fn add(&mut self, span: Span) {
        if span.start < self.window.end && span.end > self.window.start && self.spans.len() < SPANS_MAX {
            self.spans.push(span);
        }
    }

    pub(super) fn window(&self) -> Range<Nanos> {
        self.window.clone()
    }

    pub(super) fn all(&self) -> &[Span] {
        &self.spans
    }
}
