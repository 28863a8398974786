//! Bounded channels on every back end.

mod common;

use common::on_each_backend;
use zonda_rt::channel::{RecvError, SendError, TrySendError, bounded};
use zonda_rt::spawn;

#[test]
fn values_arrive_in_order_through_a_small_queue() {
    on_each_backend(|| {
        let (sender, receiver) = bounded(2);
        let thread = spawn("sender", move || (0..20).for_each(|value| sender.send(value).unwrap()));
        let received: Vec<i32> = std::iter::from_fn(|| receiver.recv().ok()).collect();
        assert_eq!(received, (0..20).collect::<Vec<_>>());
        assert_eq!(receiver.try_recv(), Err(RecvError::Disconnected));
        thread.join().unwrap();
    });
}

#[test]
fn every_value_goes_to_one_receiver() {
    on_each_backend(|| {
        let (sender, receiver) = bounded(3);
        let sum = |receiver: zonda_rt::channel::Receiver<u64>| {
            move || std::iter::from_fn(|| receiver.recv().ok()).sum::<u64>()
        };
        let threads: Vec<_> = (0..2).map(|i| spawn(format!("receiver {i}"), sum(receiver.clone()))).collect();
        let second = sender.clone();
        let feeder = spawn("feeder", move || (1..=10).for_each(|value| second.send(value).unwrap()));
        (11..=20).for_each(|value| sender.send(value).unwrap());
        drop(sender);
        feeder.join().unwrap();
        let total: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(total, 210);
    });
}

#[test]
fn a_full_queue_and_a_missing_receiver_give_the_value_back() {
    on_each_backend(|| {
        let (sender, receiver) = bounded(1);
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        drop(receiver);
        assert_eq!(sender.try_send(3), Err(TrySendError::Disconnected(3)));
        assert_eq!(sender.send(4), Err(SendError(4)));
    });
}

#[test]
fn a_blocked_sender_learns_that_the_receiver_is_gone() {
    on_each_backend(|| {
        let (sender, receiver) = bounded(1);
        sender.send(1).unwrap();
        let thread = spawn("sender", move || sender.send(2));
        drop(receiver);
        assert_eq!(thread.join(), Ok(Err(SendError(2))));
    });
}

#[cfg(not(feature = "shuttle"))]
#[test]
fn receiving_times_out() {
    on_each_backend(|| {
        let (sender, receiver) = bounded(1);
        assert_eq!(receiver.recv_timeout(std::time::Duration::from_millis(1)), Err(RecvError::Timeout));
        assert_eq!(receiver.try_recv(), Ok(None));
        sender.send(9).unwrap();
        assert_eq!(receiver.recv_timeout(std::time::Duration::from_millis(1)), Ok(9));
        drop(sender);
        assert_eq!(receiver.recv_timeout(std::time::Duration::from_secs(9)), Err(RecvError::Disconnected));
    });
}
