//! The log on its way to the system in the background, as this project's own goes to the device: what was put meanwhile is handed over once
//! a millisecond, instead of by a call for each put.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use zonda_bench::Result;
use zonda_rt::atomic::{AtomicBool, Ordering};
use zonda_rt::{JoinHandle, Mutex, sleep, try_spawn};

use crate::peer::failed;

/// As this project's `log_interval_ms`.
const INTERVAL: Duration = Duration::from_millis(1);

/// A thread that flushes until it is stopped, and once more then. Its first error ends it and is everybody's from then on.
#[derive(Debug)]
pub(super) struct LogFlusher {
    engine: &'static str,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Looked at for every put, which a lock would slow down.
    has_failed: AtomicBool,
    said: Mutex<String>,
}

impl LogFlusher {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Peer` when the system refuses another thread.
    pub(super) fn start(engine: &'static str, flush: impl Fn() -> Result<()> + Send + 'static) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = try_spawn("compare-log", move || of_thread.run(flush));
        let thread = thread.map_err(failed(engine, "start the thread that flushes its log"))?;
        Ok(Self { engine, shared, thread: Mutex::new(Some(thread)) })
    }

    /// Whether all flushes so far went well.
    ///
    /// # Errors
    /// `Peer` with the words of the one that did not.
    pub(super) fn check(&self) -> Result<()> {
        if !self.shared.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let said = self.shared.said.lock().clone();
        Err(failed(self.engine, "flush its log")(said))
    }

    /// Ends the thread, after a last flush.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(super) fn stop(&self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().take();
        if let Some(Err(panicked)) = thread.map(JoinHandle::join) {
            self.shared.fail(panicked);
        }
        self.check()
    }
}

impl Drop for LogFlusher {
    fn drop(&mut self) {
        // Whoever wants to know its errors has stopped it.
        let _stopped = self.stop();
    }
}

impl Shared {
    fn run(&self, flush: impl Fn() -> Result<()>) {
        loop {
            sleep(INTERVAL);
            // Looked at before, so that the last flush has everything that was put before the stop.
            let is_last = self.stop.load(Ordering::Acquire);
            if let Err(error) = flush() {
                return self.fail(error);
            }
            if is_last {
                return;
            }
        }
    }

    fn fail(&self, said: impl Display) {
        *self.said.lock() = said.to_string();
        self.has_failed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use zonda_bench::BenchError;
    use zonda_rt::atomic::AtomicU64;
    use zonda_rt::yield_now;

    use super::*;

    #[test]
    fn it_flushes_by_itself_and_once_more_when_it_is_stopped() {
        let flushes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&flushes);
        let flusher = LogFlusher::start("test", move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        let flusher = flusher.unwrap();
        while flushes.load(Ordering::SeqCst) < 3 {
            yield_now();
        }
        let before = flushes.load(Ordering::SeqCst);
        flusher.stop().unwrap();
        let after = flushes.load(Ordering::SeqCst);
        assert!(after > before);
        drop(flusher);
        assert_eq!(flushes.load(Ordering::SeqCst), after, "its thread is gone");
    }

    #[test]
    fn what_a_flush_met_is_an_error_of_every_call_from_then_on() {
        let flusher = LogFlusher::start("test", || Err(BenchError::Child("no room".into()))).unwrap();
        while flusher.check().is_ok() {
            yield_now();
        }
        for result in [flusher.check(), flusher.stop(), flusher.check()] {
            let said = result.unwrap_err().to_string();
            assert!(said.contains("flush its log") && said.contains("no room"), "{said}");
        }
    }
}
