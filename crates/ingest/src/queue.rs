//! Named, bounded queues between the stages.
//!
//! Every queue counts what went through it and how long its ends waited: a stage whose input queue made
//! others wait is the slow one, and `--verbose` shows it. Sending to a queue whose receiver is gone
//! tells the sender to stop; that is how a failure anywhere ends all stages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Clock;

/// What a queue saw so far. Read at any time.
#[derive(Debug)]
pub struct QueueStats {
    /// The queue's name: the stage that reads it.
    pub name: &'static str,
    /// Items it can hold; 0 for any number.
    pub depth: usize,
    /// Items sent.
    pub items: AtomicU64,
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
    fn timed<R>(&self, total: &AtomicU64, wait: impl FnOnce() -> R) -> R {
        let before = self.clock.monotonic();
        let result = wait();
        let waited = self.clock.monotonic().saturating_sub(before);
        total.fetch_add(
            u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        result
    }
}

/// Makes a queue of at most `depth` items; 0 means without a bound, for the one queue that all others wait on.
#[must_use]
pub fn queue<T>(name: &'static str, depth: usize, clock: &Arc<dyn Clock>) -> (Sender<T>, Receiver<T>) {
    let (tx, rx) = if depth == 0 {
        crossbeam_channel::unbounded()
    } else {
        crossbeam_channel::bounded(depth)
    };
    let stats = QueueStats {
        name,
        depth,
        items: AtomicU64::new(0),
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
    /// [`Closed`] when nobody will receive it.
    pub fn send(&self, item: T) -> Result<(), Closed> {
        self.shared.stats.items.fetch_add(1, Ordering::Relaxed);
        match self.inner.try_send(item) {
            Ok(()) => Ok(()),
            Err(crossbeam_channel::TrySendError::Disconnected(_)) => Err(Closed),
            Err(crossbeam_channel::TrySendError::Full(item)) => self
                .shared
                .timed(&self.shared.stats.full_nanos, || self.inner.send(item))
                .map_err(|_| Closed),
        }
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
    /// Receives, waiting while the queue is empty.
    ///
    /// # Errors
    /// [`Closed`] when it is empty and nobody will send.
    pub fn recv(&self) -> Result<T, Closed> {
        match self.inner.try_recv() {
            Ok(item) => Ok(item),
            Err(crossbeam_channel::TryRecvError::Disconnected) => Err(Closed),
            Err(crossbeam_channel::TryRecvError::Empty) => self
                .shared
                .timed(&self.shared.stats.empty_nanos, || self.inner.recv())
                .map_err(|_| Closed),
        }
    }

    /// Receives, waiting no longer than `time`; `None` when nothing came.
    ///
    /// # Errors
    /// [`Closed`] when it is empty and nobody will send.
    pub fn recv_within(&self, time: Duration) -> Result<Option<T>, Closed> {
        match self.inner.try_recv() {
            Ok(item) => Ok(Some(item)),
            Err(crossbeam_channel::TryRecvError::Disconnected) => Err(Closed),
            Err(crossbeam_channel::TryRecvError::Empty) => {
                let received = self
                    .shared
                    .timed(&self.shared.stats.empty_nanos, || self.inner.recv_timeout(time));
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
