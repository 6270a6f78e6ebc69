//! Named, bounded queues between the stages.
//!
//! Every queue counts its items, how many it held, and how long its ends waited. A stage whose
//! input queue made others wait is the slow one, and `--verbose` shows this. Sending to a queue
//! without a receiver returns an error, and the sender stops. So a failure anywhere ends all
//! stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Clock;

use crate::stage::{WaitFor, waiting};

/// Statistics of a queue. They may be read at any time.
#[derive(Debug)]
pub struct QueueStats {
    /// The queue's name: the stage that reads it.
    pub name: &'static str,
    /// Items it can hold; `None`: any number.
    pub depth: Option<usize>,
    /// Items sent.
    pub items: AtomicU64,
    /// The number of items in it after each send, added up. Divided by `items`, it shows how full
    /// the queue was.
    pub stood: AtomicU64,
    /// The most items that it held.
    pub stood_max: AtomicU64,
    /// Nanoseconds that senders waited because it was full.
    pub full_nanos: AtomicU64,
    /// Nanoseconds that the receiver waited because it was empty.
    pub empty_nanos: AtomicU64,
}

/// The other end is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// The sending end.
#[derive(Debug)]
pub struct Sender<T> {
    inner: crossbeam_channel::Sender<T>,
    shared: Shared,
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<T> {
    inner: crossbeam_channel::Receiver<T>,
    shared: Shared,
}

#[derive(Debug, Clone)]
struct Shared {
    stats: Arc<QueueStats>,
    clock: Arc<dyn Clock>,
}

impl Shared {
    /// Counts a wait of the sender, which waits until its output is taken.
    fn full<R>(&self, wait: impl FnOnce() -> R) -> R {
        let (result, nanos) = waiting(&*self.clock, WaitFor::Output, wait);
        self.stats.full_nanos.fetch_add(nanos, Ordering::Relaxed);
        result
    }

    fn empty<R>(&self, wait: impl FnOnce() -> R) -> R {
        let (result, nanos) = waiting(&*self.clock, WaitFor::Input, wait);
        self.stats.empty_nanos.fetch_add(nanos, Ordering::Relaxed);
        result
    }
}

/// Makes a queue of at most `depth` items. With 0, a sender waits until the receiver takes the
/// item.
#[must_use]
pub fn queue<T>(name: &'static str, depth: usize, clock: &Arc<dyn Clock>) -> (Sender<T>, Receiver<T>) {
    make(name, Some(depth), crossbeam_channel::bounded(depth), clock)
}

/// Makes a queue without a bound, for the one that all others wait for.
#[must_use]
pub fn unbounded<T>(name: &'static str, clock: &Arc<dyn Clock>) -> (Sender<T>, Receiver<T>) {
    make(name, None, crossbeam_channel::unbounded(), clock)
}

fn make<T>(
    name: &'static str,
    depth: Option<usize>,
    (tx, rx): (crossbeam_channel::Sender<T>, crossbeam_channel::Receiver<T>),
    clock: &Arc<dyn Clock>,
) -> (Sender<T>, Receiver<T>) {
    let stats = QueueStats {
        name,
        depth,
        items: AtomicU64::new(0),
        stood: AtomicU64::new(0),
        stood_max: AtomicU64::new(0),
        full_nanos: AtomicU64::new(0),
        empty_nanos: AtomicU64::new(0),
    };
    let shared = Shared {
        stats: Arc::new(stats),
        clock: Arc::clone(clock),
    };
    (
        Sender {
            inner: tx,
            shared: shared.clone(),
        },
        Receiver { inner: rx, shared },
    )
}

impl<T> Sender<T> {
    /// Sends, waiting while the queue is full.
    ///
    /// # Errors
    /// [`Closed`] if there is no receiver.
    pub fn send(&self, item: T) -> Result<(), Closed> {
        let stats = &self.shared.stats;
        stats.items.fetch_add(1, Ordering::Relaxed);
        match self.inner.try_send(item) {
            Ok(()) => {}
            Err(crossbeam_channel::TrySendError::Disconnected(_)) => return Err(Closed),
            Err(crossbeam_channel::TrySendError::Full(item)) => {
                self.shared.full(|| self.inner.send(item)).map_err(|_| Closed)?;
            }
        }
        let stand = self.inner.len() as u64;
        stats.stood.fetch_add(stand, Ordering::Relaxed);
        stats.stood_max.fetch_max(stand, Ordering::Relaxed);
        Ok(())
    }

    /// The queue's counters.
    #[must_use]
    pub fn stats(&self) -> Arc<QueueStats> {
        Arc::clone(&self.shared.stats)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<T> Receiver<T> {
    /// Receives an item, if there is one.
    #[must_use]
    pub fn try_recv(&self) -> Option<T> {
        self.inner.try_recv().ok()
    }

    /// Receives, waiting while the queue is empty.
    ///
    /// # Errors
    /// [`Closed`] if it is empty and there is no sender.
    pub fn recv(&self) -> Result<T, Closed> {
        match self.inner.try_recv() {
            Ok(item) => Ok(item),
            Err(crossbeam_channel::TryRecvError::Disconnected) => Err(Closed),
            Err(crossbeam_channel::TryRecvError::Empty) => {
                self.shared.empty(|| self.inner.recv()).map_err(|_| Closed)
            }
        }
    }

    /// Receives, and waits at most for `time`. `None`: no item came.
    ///
    /// # Errors
    /// [`Closed`] if it is empty and there is no sender.
    pub fn recv_within(&self, time: Duration) -> Result<Option<T>, Closed> {
        match self.inner.try_recv() {
            Ok(item) => Ok(Some(item)),
            Err(crossbeam_channel::TryRecvError::Disconnected) => Err(Closed),
            Err(crossbeam_channel::TryRecvError::Empty) => {
                let received = self.shared.empty(|| self.inner.recv_timeout(time));
                match received {
                    Ok(item) => Ok(Some(item)),
                    Err(crossbeam_channel::RecvTimeoutError::Timeout) => Ok(None),
                    Err(crossbeam_channel::RecvTimeoutError::Disconnected) => Err(Closed),
                }
            }
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}
