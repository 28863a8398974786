//! Writes a trace while a store is used.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufWriter, Write};

use zonda_rt::{Mutex, Time, now};

use super::{TRACE_HEADER, TraceEvent, TraceRecord, line};
use crate::FileId;

/// Appended bytes of a file that are collected into one record at most.
const APPEND_BYTES_MAX: u64 = 1 << 20;

/// Where a store records what happens to it.
///
/// Records are in the order of the calls that returned. Neighbouring appends of a file become one record, of at most 1 MiB, which
/// is written before any other record of that file, and before any of names, jobs and marks. Cost: a line into a buffer under one lock for
/// each operation; where the buffer is full, whatever the sink costs. A sink that fails ends the trace, never the operation:
/// [`finish`](Self::finish) tells.
pub struct TraceWriter {
    state: Mutex<State>,
    began: Time,
    with_reads: bool,
}

struct State {
    out: BufWriter<Box<dyn Write + Send>>,
    appended: HashMap<FileId, u64>,
    failed: Option<io::Error>,
}

impl TraceWriter {
    /// Begins a trace.
    #[must_use]
    pub fn new(sink: Box<dyn Write + Send>) -> Self {
        let state = State { out: BufWriter::new(sink), appended: HashMap::new(), failed: None };
        let writer = Self { state: Mutex::new(state), began: now(), with_reads: false };
        writer.state.lock().line(TRACE_HEADER);
        writer
    }

    /// Records reads as well: each is a line.
    #[must_use]
    pub fn with_reads(self) -> Self {
        Self { with_reads: true, ..self }
    }

    /// Names this moment, for replays that measure from it. Of the name, letters, digits and `-` are kept.
    pub fn mark(&self, name: &str) {
        let name = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
        self.record(TraceEvent::Mark { name });
    }

    /// Records an event.
    pub(crate) fn record(&self, event: TraceEvent) {
        let is_unwanted = matches!(event, TraceEvent::Read { .. }) && !self.with_reads;
        if is_unwanted {
            return;
        }
        let at_us = u64::try_from(now().since(self.began).as_micros()).unwrap_or(u64::MAX);
        self.state.lock().record(at_us, event);
    }

    /// Hands everything to the sink. To be called when the store is no longer used; dropping a trace writes what it can.
    ///
    /// # Errors
    /// The first error of the sink; what came after it is not in the trace.
    pub fn finish(&self) -> io::Result<()> {
        let at_us = u64::try_from(now().since(self.began).as_micros()).unwrap_or(u64::MAX);
        let mut state = self.state.lock();
        state.put_all_appended(at_us);
        let flushed = state.out.flush();
        state.failed.take().map_or(flushed, Err)
    }
}

impl State {
    fn record(&mut self, at_us: u64, event: TraceEvent) {
        if let TraceEvent::Append { file, bytes } = event {
            let waiting = self.appended.entry(file).or_default();
            *waiting += bytes;
            if *waiting >= APPEND_BYTES_MAX {
                self.put_appended(at_us, file);
            }
            return;
        }
        match file_of(&event) {
            Some(file) => self.put_appended(at_us, file),
            // One of a name may be of any file that is written; one of a moment is of all.
            None => self.put_all_appended(at_us),
        }
        self.lines(&TraceRecord { at_us, event });
    }

    fn lines(&mut self, record: &TraceRecord) {
        line::lines(record).iter().for_each(|line| self.line(line));
    }

    fn put_all_appended(&mut self, at_us: u64) {
        let mut open: Vec<FileId> = self.appended.keys().copied().collect();
        open.sort_unstable();
        open.into_iter().for_each(|file| self.put_appended(at_us, file));
    }

    fn put_appended(&mut self, at_us: u64, file: FileId) {
        if let Some(bytes) = self.appended.remove(&file) {
            self.lines(&TraceRecord { at_us, event: TraceEvent::Append { file, bytes } });
        }
    }

    fn line(&mut self, line: &str) {
        if self.failed.is_none()
            && let Err(error) = writeln!(self.out, "{line}")
        {
            self.failed = Some(error);
        }
    }
}

/// The file whose appends must be recorded before the event.
fn file_of(event: &TraceEvent) -> Option<FileId> {
    match event {
        TraceEvent::Retag { file, .. }
        | TraceEvent::Describe { file, .. }
        | TraceEvent::Truncate { file, .. }
        | TraceEvent::Sync { file }
        | TraceEvent::Close { file }
        | TraceEvent::Read { file, .. } => Some(*file),
        _ => None,
    }
}

impl fmt::Debug for TraceWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceWriter").field("with_reads", &self.with_reads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn appends_are_collected_and_come_before_the_sync() {
        let sink = Sink::default();
        let trace = TraceWriter::new(Box::new(sink.clone()));
        let (one, other) = (FileId(1), FileId(2));
        for (file, bytes) in [(one, 5), (other, 7), (one, 6)] {
            trace.record(TraceEvent::Append { file, bytes });
        }
        trace.record(TraceEvent::Read { file: one, offset: 0, bytes: 1 });
        trace.record(TraceEvent::Sync { file: one });
        trace.finish().expect("the sink takes everything");
        let events: Vec<TraceEvent> = crate::trace::read(sink.0.lock().as_slice())
            .expect("it is a trace")
            .into_iter()
            .map(|record| record.event)
            .collect();
        let append = |file, bytes| TraceEvent::Append { file, bytes };
        assert_eq!(events, [append(one, 11), TraceEvent::Sync { file: one }, append(other, 7)]);
    }

    #[test]
    fn what_was_appended_comes_before_the_name_goes() {
        let sink = Sink::default();
        let trace = TraceWriter::new(Box::new(sink.clone()));
        let path = crate::FilePath::parse("/a").expect("a good path");
        trace.record(TraceEvent::Append { file: FileId(1), bytes: 5 });
        trace.record(TraceEvent::Unlink { path });
        trace.record(TraceEvent::Append { file: FileId(2), bytes: 7 });
        trace.mark("here");
        trace.finish().expect("the sink takes everything");
        let text = String::from_utf8(sink.0.lock().clone()).expect("a text");
        let kinds: Vec<_> = text.lines().skip(1).filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(kinds, ["append", "unlink", "append", "mark"], "{text}");
    }

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_fails_ends_the_trace_and_tells() {
        let trace = TraceWriter::new(Box::new(Full));
        (0..10_000).for_each(|file| trace.record(TraceEvent::Sync { file: FileId(file) }));
        assert_eq!(trace.finish().expect_err("it is full").kind(), io::ErrorKind::StorageFull);
    }
}
