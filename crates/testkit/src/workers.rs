//! Background work of a subject while clients use it.

use std::{sync::Arc, time::Duration};

use zonda_rt::{
    JoinHandle, Mutex,
    atomic::{AtomicBool, Ordering},
};

use crate::{Power, Refusal, Subject, Work};

/// Threads that call a subject's steps until they are stopped or the power goes.
pub struct Workers {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    /// The first error of a step while the power was on.
    trouble: Mutex<Option<String>>,
}

impl Workers {
    /// Starts one thread for the log and one for the rest, as the facade does.
    #[must_use]
    pub fn start(subject: &Arc<dyn Subject>, power: &Power) -> Self {
        let shared = Arc::new(Shared { stop: AtomicBool::new(false), trouble: Mutex::new(None) });
        let maintenance: &[Work] = &[Work::Checkpoint, Work::Reclaim, Work::Memory];
        let kinds: [(&str, &[Work]); 2] = [("log", &[Work::Log]), ("maintenance", maintenance)];
        let start = |(name, works): (&str, &'static [Work])| {
            let (shared, subject, power) = (Arc::clone(&shared), Arc::clone(subject), power.clone());
            zonda_rt::spawn(name, move || shared.work(&*subject, &power, works))
        };
        let handles = kinds.into_iter().map(start).collect();
        Self { shared, handles }
    }

    /// Ends the threads and answers what went wrong in one while the power was on.
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
    fn work(&self, subject: &dyn Subject, power: &Power, works: &[Work]) {
        while !self.stop.load(Ordering::Acquire) {
            let mut idle = true;
            for &work in works {
                match subject.step(work) {
                    Ok(progress) => idle &= !progress,
                    Err(_) if power.cut_report().is_some() => return,
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
