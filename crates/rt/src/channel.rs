//! Bounded queues between threads, many senders to many receivers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::condvar::Condvar;
use crate::mutex::{Mutex, MutexGuard};
use crate::time::now;

/// Nobody can receive any more; the value comes back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the channel has no receiver left")]
pub struct SendError<T>(pub T);

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

/// Why a value was not sent at once; it comes back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrySendError<T> {
    /// The queue is full.
    #[error("the channel is full")]
    Full(T),
    /// Nobody can receive any more.
    #[error("the channel has no receiver left")]
    Disconnected(T),
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvError {
    /// The queue is empty and every sender is gone: nothing will ever come.
    #[error("the channel is empty and has no sender left")]
    Disconnected,
    /// Nothing came in the time given.
    #[error("nothing came over the channel in time")]
    Timeout,
}

struct Shared<T> {
    queue: Mutex<Queue<T>>,
    not_empty: Condvar,
    not_full: Condvar,
}

struct Queue<T> {
    values: VecDeque<T>,
    values_max: usize,
    senders: usize,
    receivers: usize,
}

/// The sending end. The receivers learn of the end when the last clone is dropped.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The receiving end. Each value goes to one receiver. Dropping the last clone drops what is
/// queued.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// A queue of at most `values_max` values, first in first out.
///
/// # Panics
/// If `values_max` is 0: a rendezvous is not offered.
pub fn bounded<T>(values_max: usize) -> (Sender<T>, Receiver<T>) {
    assert!(values_max > 0, "a channel needs room for at least one value");
    let queue = Queue { values: VecDeque::new(), values_max, senders: 1, receivers: 1 };
    let shared = Shared { queue: Mutex::new(queue), not_empty: Condvar::new(), not_full: Condvar::new() };
    let shared = Arc::new(shared);
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared })
}

impl<T> Sender<T> {
    /// Queues `value`, waiting while the queue is full.
    ///
    /// # Errors
    /// [`SendError`] with the value when the last receiver is gone, also during the wait.
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut queue = self.shared.queue.lock();
        while queue.receivers > 0 && queue.is_full() {
            queue = self.shared.not_full.wait(queue);
        }
        if queue.receivers == 0 {
            return Err(SendError(value));
        }
        self.push(queue, value);
        Ok(())
    }

    /// Queues `value` if there is room at once.
    ///
    /// # Errors
    /// [`TrySendError`] with the value.
    #[track_caller]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let queue = self.shared.queue.lock();
        if queue.receivers == 0 {
            return Err(TrySendError::Disconnected(value));
        }
        if queue.is_full() {
            return Err(TrySendError::Full(value));
        }
        self.push(queue, value);
        Ok(())
    }

    fn push(&self, mut queue: MutexGuard<'_, Queue<T>>, value: T) {
        queue.values.push_back(value);
        drop(queue);
        self.shared.not_empty.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Takes the oldest value, waiting for one.
    ///
    /// # Errors
    /// [`RecvError::Disconnected`] once the queue is empty and the last sender is gone.
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut queue = self.shared.queue.lock();
        loop {
            if !queue.values.is_empty() || queue.senders == 0 {
                return self.pop(queue).ok_or(RecvError::Disconnected);
            }
            queue = self.shared.not_empty.wait(queue);
        }
    }

    /// As [`recv`](Receiver::recv), but waits for at most `timeout`.
    ///
    /// # Errors
    /// [`RecvError::Timeout`] if nothing came, [`RecvError::Disconnected`] if nothing can come.
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvError> {
        let deadline = now() + timeout;
        let mut queue = self.shared.queue.lock();
        loop {
            if !queue.values.is_empty() || queue.senders == 0 {
                return self.pop(queue).ok_or(RecvError::Disconnected);
            }
            let left = deadline.since(now());
            if left.is_zero() {
                return Err(RecvError::Timeout);
            }
            queue = self.shared.not_empty.wait_timeout(queue, left).0;
        }
    }

    /// Takes the oldest value if there is one; `Ok(None)` if there is none yet.
    ///
    /// # Errors
    /// [`RecvError::Disconnected`] once the queue is empty and the last sender is gone.
    #[track_caller]
    pub fn try_recv(&self) -> Result<Option<T>, RecvError> {
        let queue = self.shared.queue.lock();
        let senders = queue.senders;
        match self.pop(queue) {
            None if senders == 0 => Err(RecvError::Disconnected),
            value => Ok(value),
        }
    }

    fn pop(&self, mut queue: MutexGuard<'_, Queue<T>>) -> Option<T> {
        let value = queue.values.pop_front();
        drop(queue);
        if value.is_some() {
            self.shared.not_full.notify_one();
        }
        value
    }
}

impl<T> Queue<T> {
    fn is_full(&self) -> bool {
        self.values.len() >= self.values_max
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.queue.lock().senders += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.shared.queue.lock().receivers += 1;
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.senders -= 1;
        let last = queue.senders == 0;
        drop(queue);
        if last {
            self.shared.not_empty.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.receivers -= 1;
        let orphans = if queue.receivers == 0 { Some(std::mem::take(&mut queue.values)) } else { None };
        drop(queue);
        if orphans.is_some() {
            self.shared.not_full.notify_all();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
