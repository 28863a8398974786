//! Threads: start, wait for the end, sleep, yield.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::backend;
use crate::sim;

/// A thread ended by a panic instead of returning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("thread '{thread}' panicked: {message}")]
pub struct Panicked {
    /// The name given to [`spawn`].
    pub thread: String,
    /// The panic's message, or a note that it had none.
    pub message: String,
}

/// The right to wait for a thread's end and take its result. Dropping it lets the thread run on by
/// itself.
pub struct JoinHandle<T> {
    name: String,
    inner: Inner<T>,
}

enum Inner<T> {
    Real(backend::thread::JoinHandle<T>),
    Simulated(sim::Joinable<T>),
}

impl<T> JoinHandle<T> {
    /// The name given to [`spawn`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the thread to end.
    ///
    /// # Errors
    /// [`Panicked`] if the thread panicked. In a simulation it is never seen: a panic ends the
    /// whole simulation.
    #[track_caller]
    pub fn join(self) -> Result<T, Panicked> {
        let result = match self.inner {
            Inner::Real(handle) => handle.join().map_err(|payload| panic_message(&*payload)),
            Inner::Simulated(handle) => handle.join().ok_or_else(|| "in a simulation".to_string()),
        };
        result.map_err(|message| Panicked { thread: self.name, message })
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a panic said, for errors and reports.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("(a panic without a message)").to_string()
}

/// Starts a thread called `name`. Started by a simulated thread, the new one is simulated too.
///
/// # Panics
/// If the operating system refuses a thread; callers that can do without use [`try_spawn`].
pub fn spawn<T, F>(name: impl Into<String>, f: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let name = name.into();
    try_spawn(name.clone(), f).unwrap_or_else(|error| panic!("cannot start the thread '{name}': {error}"))
}

/// As [`spawn`], for callers that can report that there is no thread to be had.
///
/// # Errors
/// The operating system's, when it refuses another thread.
pub fn try_spawn<T, F>(name: impl Into<String>, f: F) -> std::io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let name = name.into();
    if sim::possible()
        && let sim::Entry::Inside(here) = sim::enter()
    {
        let inner = Inner::Simulated(here.spawn(name.clone(), f)?);
        return Ok(JoinHandle { name, inner });
    }
    let handle = backend::thread::Builder::new().name(name.clone()).spawn(f)?;
    Ok(JoinHandle { name, inner: Inner::Real(handle) })
}

/// Sleeps for at least `duration`; in a simulation, of virtual time. Under shuttle it only yields.
#[track_caller]
pub fn sleep(duration: Duration) {
    if sim::possible() {
        match sim::enter() {
            sim::Entry::Inside(here) => return here.sleep(duration, sim::Op::Sleep),
            sim::Entry::Ended => return sim::pause_ended(),
            sim::Entry::Outside => {}
        }
    }
    backend::thread::sleep(duration);
}

/// Lets other threads run. In a simulation a microsecond of virtual time passes, so that polling
/// loops end.
#[track_caller]
pub fn yield_now() {
    if sim::possible() {
        match sim::enter() {
            sim::Entry::Inside(here) => return here.relax(Duration::from_micros(1)),
            sim::Entry::Ended => return sim::pause_ended(),
            sim::Entry::Outside => {}
        }
    }
    backend::thread::yield_now();
}

/// A small number of the current thread, for spreading threads over stripes or rings.
///
/// Threads are numbered in the order of their first call; simulated threads from 0 in the order of
/// their start, so that a replay spreads them alike.
pub fn thread_ordinal() -> usize {
    if sim::possible()
        && let sim::Entry::Inside(here) = sim::enter()
    {
        return here.id();
    }
    real_ordinal()
}

#[cfg(not(feature = "shuttle"))]
fn real_ordinal() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static ORDINAL: usize = NEXT.fetch_add(1, Relaxed));
    ORDINAL.try_with(|ordinal| *ordinal).unwrap_or(0)
}

#[cfg(feature = "shuttle")]
fn real_ordinal() -> usize {
    usize::from(shuttle::current::me())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn join_returns_the_result_or_the_panic() {
        assert_eq!(spawn("adder", || 1 + 1).join(), Ok(2));
        let failed = spawn("faller", || panic!("down {}", 3)).join();
        let expected = Panicked { thread: "faller".into(), message: "down 3".into() };
        assert_eq!(failed, Err(expected.clone()));
        assert_eq!(expected.to_string(), "thread 'faller' panicked: down 3");
    }

    #[test]
    fn ordinals_differ_between_threads() {
        let mine = thread_ordinal();
        assert_eq!(mine, thread_ordinal());
        assert_ne!(Ok(mine), spawn("other", thread_ordinal).join());
    }
}
