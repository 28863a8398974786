//! Waiting for the end of a simulated thread.

use std::sync::{Arc, Mutex, PoisonError};

use super::here::Sim;
use super::state::{Key, Op, Woken};
use super::{Entry, enter};

/// A simulated thread whose result can be taken.
pub(crate) struct Joinable<T> {
    sim: Arc<Sim>,
    id: usize,
    result: Arc<Mutex<Option<T>>>,
}

impl<T> Joinable<T> {
    pub(super) fn new(sim: Arc<Sim>, id: usize, result: Arc<Mutex<Option<T>>>) -> Self {
        Self { sim, id, result }
    }

    /// Waits for the end; `None` if the thread was unwound.
    ///
    /// The real thread is joined too, so that destructors of its thread-local values have run: they
    /// happen outside of the simulation's order.
    #[track_caller]
    pub(crate) fn join(self) -> Option<T> {
        if let Entry::Inside(here) = enter()
            && Arc::ptr_eq(here.sim(), &self.sim)
        {
            here.point(Op::Join);
            while !self.finished() && here.block(Op::Join, Key::Thread(self.id), None) != Woken::Ended {}
        }
        let real = self.sim.state().threads[self.id].real.take();
        if let Some(real) = real {
            // A panic has ended the simulation and is raised by `run`.
            let _ = real.join();
        }
        self.result.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn finished(&self) -> bool {
        self.sim.state().finished(self.id)
    }
}
