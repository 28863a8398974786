//! The store's threads. Each runs step functions of the engine, which a simulator may call instead.

use std::sync::Arc;
use std::time::Duration;

use zonda_rt::atomic::{AtomicU8, Ordering};
use zonda_rt::{Condvar, JoinHandle, Mutex};
use zonda_tree::{Engine, Step};

use crate::governor::Governor;
use crate::{Error, Result};

/// The log worker sleeps at most this long when nothing is written: a write that it was not told of waits no longer.
const LOG_IDLE: Duration = Duration::from_millis(100);
/// Idle rounds after which a worker sleeps for long, until a write wakes it.
const IDLE_ROUNDS: u32 = 16;
/// How often the maintenance worker looks whether there is something to do.
const MAINTENANCE_INTERVAL: Duration = Duration::from_millis(5);
/// How often when nothing is written: memory still follows the reads.
const MAINTENANCE_IDLE: Duration = Duration::from_millis(50);

/// Buffers that the maintenance worker merges before it looks at the rest again, some ten milliseconds: one for each of them would leave
/// most to writers while reclaim has work.
const MERGES_MAX: usize = 64;

/// Bits of [`Shared::asleep`].
const LOG: u8 = 1;
const MAINTENANCE: u8 = 2;

/// Two threads: one writes log buffers in time, the other takes checkpoints, reclaims zones and merges buffers. They are two so that a
/// buffered write never waits for a checkpoint. A store that is only read has one, for its caches.
pub(crate) struct Workers {
    engine: Engine,
    shared: Arc<Shared>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// Stops writes if its thread panics: what that did is half done, and nobody does the rest.
struct Watch {
    engine: Engine,
    thread: String,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.engine.note_panic(&self.thread);
        }
    }
}

struct Shared {
    stop: Mutex<bool>,
    changed: Condvar,
    /// Which workers sleep for long: whoever writes wakes them.
    asleep: AtomicU8,
}

impl Workers {
    /// Starts both threads.
    ///
    /// # Errors
    /// `Io` if the system refuses a thread.
    pub(crate) fn start(engine: &Engine, governor: Governor, log_interval: Duration) -> Result<Self> {
        let workers = Self::none(engine);
        let (engine_log, engine_maintenance) = (engine.clone(), engine.clone());
        workers.spawn("zonda-log", move |shared| shared.log_loop(&engine_log, log_interval))?;
        workers.spawn("zonda-maintenance", move |shared| shared.maintenance_loop(&engine_maintenance, &governor))?;
        engine.tend_buffers(true);
        Ok(workers)
    }

    /// Starts the thread of a store that is only read: memory follows what is read there, too.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_for_readers(engine: &Engine, governor: Governor) -> Result<Self> {
        let workers = Self::none(engine);
        workers.spawn("zonda-memory", move |shared| shared.memory_loop(&governor))?;
        Ok(workers)
    }

    fn none(engine: &Engine) -> Self {
        let shared = Arc::new(Shared { stop: Mutex::new(false), changed: Condvar::new(), asleep: AtomicU8::new(0) });
        Self { engine: engine.clone(), shared, handles: Mutex::new(Vec::new()) }
    }

    fn spawn(&self, name: &str, run: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let watch = Watch { engine: self.engine.clone(), thread: name.to_owned() };
        let work = move || {
            let _watch = watch;
            run(&shared);
        };
        let handle = zonda_rt::try_spawn(name, work).map_err(|source| {
            self.stop();
            Error::Io { path: name.into(), action: "start a thread", source: Arc::new(source) }
        })?;
        self.handles.lock().push(handle);
        Ok(())
    }

    /// Something was written. Costs one relaxed load unless a worker sleeps for long.
    pub(crate) fn wake(&self) {
        if self.shared.asleep.load(Ordering::Relaxed) != 0 {
            self.shared.asleep.store(0, Ordering::Relaxed);
            self.shared.changed.notify_all();
        }
    }

    /// Ends both threads and waits for them. Idempotent.
    pub(crate) fn stop(&self) {
        self.engine.tend_buffers(false);
        *self.shared.stop.lock() = true;
        self.shared.changed.notify_all();
        let handles = std::mem::take(&mut *self.handles.lock());
        for handle in handles {
            // Of one that panicked the engine knows: every write and `close` say so.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn log_loop(&self, engine: &Engine, interval: Duration) {
        let mut idle_rounds = 0;
        loop {
            idle_rounds = if works(engine.log_step()) { 0 } else { idle_rounds + 1 };
            let pause = self.log_pause(idle_rounds, interval);
            if self.stopped_within(pause) {
                return;
            }
            // Somebody wrote: perhaps there is nothing in the log yet, or no more, and the next write wakes only who announces its sleep.
            if idle_rounds >= IDLE_ROUNDS && self.asleep.load(Ordering::Relaxed) & LOG == 0 {
                idle_rounds = 0;
            }
        }
    }

    /// How long to sleep. Before a long sleep comes one more round, after it is announced: what was written meanwhile is seen by
    /// that round, what is written later wakes.
    fn log_pause(&self, idle_rounds: u32, interval: Duration) -> Duration {
        if idle_rounds <= IDLE_ROUNDS {
            self.note_sleep(LOG, idle_rounds == IDLE_ROUNDS);
            return interval;
        }
        LOG_IDLE.max(interval)
    }

    fn note_sleep(&self, worker: u8, sleeps: bool) {
        if sleeps {
            self.asleep.fetch_or(worker, Ordering::Relaxed);
        } else {
            self.asleep.fetch_and(!worker, Ordering::Relaxed);
        }
    }

    fn maintenance_loop(&self, engine: &Engine, governor: &Governor) {
        let mut idle_rounds = 0;
        loop {
            governor.adjust();
            let checkpointed = works(engine.checkpoint_step());
            let reclaimed = works(engine.reclaim_step());
            let merged = (0..MERGES_MAX).take_while(|_| works(engine.buffer_step())).count() > 0;
            let joined = works(engine.join_step());
            idle_rounds = if checkpointed || reclaimed || merged || joined { 0 } else { idle_rounds + 1 };
            let rests = idle_rounds > IDLE_ROUNDS;
            self.note_sleep(MAINTENANCE, rests);
            let pause = match idle_rounds {
                0 => Duration::ZERO,
                1..=IDLE_ROUNDS => MAINTENANCE_INTERVAL,
                _ => MAINTENANCE_IDLE,
            };
            if self.stopped_within(pause) {
                return;
            }
            if rests && self.asleep.load(Ordering::Relaxed) & MAINTENANCE == 0 {
                idle_rounds = 0;
            }
        }
    }

    fn memory_loop(&self, governor: &Governor) {
        while !self.stopped_within(MAINTENANCE_IDLE) {
            governor.adjust();
        }
    }

    fn stopped_within(&self, pause: Duration) -> bool {
        let stop = self.stop.lock();
        if *stop || pause.is_zero() {
            return *stop;
        }
        let (stop, _) = self.changed.wait_timeout(stop, pause);
        *stop
    }
}

/// Whether there may be more to do at once. A failed step poisons the engine, which tells every writer; trying on at the
/// usual pace costs nothing.
fn works(step: std::result::Result<Step, zonda_tree::TreeError>) -> bool {
    matches!(step, Ok(Step::Progress))
}

/// One round of everything, for callers without threads.
///
/// # Errors
/// Those of the steps.
pub(crate) fn step(engine: &Engine, governor: &Governor) -> Result<bool> {
    governor.adjust();
    let [logged, checkpointed] = [engine.log_step()?, engine.checkpoint_step()?];
    let steps = [logged, checkpointed, engine.reclaim_step()?, engine.buffer_step()?, engine.join_step()?];
    Ok(steps.contains(&Step::Progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_panics_stops_the_writes() {
        let db = crate::Options::new().background(false).open("mem:").unwrap();
        db.put("key", "value").unwrap();
        let workers = Workers::none(db.store().writer().unwrap());
        workers.spawn("zonda-planted", |_| panic!("planted")).unwrap();
        workers.stop();
        let refused = db.put("key", "other").unwrap_err();
        assert!(refused.to_string().contains("zonda-planted panicked"), "{refused}");
        assert_eq!(db.get("key").unwrap(), Some(b"value".to_vec()));
        assert!(db.close().is_err());
    }
}
