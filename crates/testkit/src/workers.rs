//! Background work of a subject while clients use it.

use std::{sync::Arc, time::Duration};

use zonda_rt::{
    JoinHandle, Mutex,
    atomic::{AtomicBool, Ordering},
};

use crate::{Excuse, Refusal, Subject, Work};

/// Threads that call a subject's steps until they are stopped, or one fails and has an excuse.
pub struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    /// The first error of a step that nothing excuses.
    trouble: Mutex<Option<String>>,
}

impl Workers {
    /// Starts one thread for the log and one for the rest, as the facade does.
    #[must_use]
    pub fn start(subject: &Arc<dyn Subject>, excuse: &Excuse) -> Self {
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), trouble: Mutex::new(None) });
        let maintenance: &[Work] = &[Work::Memory, Work::Checkpoint, Work::Reclaim, Work::Buffers, Work::Join];
        let kinds: [(&str, &[Work]); 2] = [("log", &[Work::Log]), ("maintenance", maintenance)];
        let start = |(name, works): (&str, &'static [Work])| {
            let (shared, subject, excuse) = (Arc::clone(&shared), Arc::clone(subject), excuse.clone());
            zonda_rt::spawn(name, move || shared.work(&*subject, &excuse, works))
        };
        let handles = kinds.into_iter().map(start).collect();
        Self { shared, handles }
    }

    /// Ends the threads and answers what went wrong in one without an excuse.
    ///
    /// # Errors
    /// That.
    pub fn stop(self) -> Result<(), String> {
        self.shared.stop.store(true, Ordering::Release);
        for handle in self.handles {
            handle.join().map_err(|panicked| panicked.to_string())?;
        }
        self.shared.trouble.lock().take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn work(&self, subject: &dyn Subject, excuse: &Excuse, works: &[Work]) {
        while !self.stop.load(Ordering::Acquire) {
            let mut idle = true;
            for &work in works {
                match subject.step(work) {
                    Ok(progress) => idle &= !progress,
                    Err(_) if excuse.holds() => return,
                    // Back-pressure: space may come back.
                    Err(Refusal::NoSpace(_)) => {}
                    Err(error) => return self.report(work, &error),
                }
            }
            pause(idle);
        }
    }

    fn report(&self, work: Work, error: &Refusal) {
        self.trouble.lock().get_or_insert_with(|| format!("background {work:?} failed with the power on: {error}"));
    }
}

fn pause(idle: bool) {
    if idle {
        zonda_rt::sleep(Duration::from_millis(1));
    } else {
        zonda_rt::yield_now();
    }
}
