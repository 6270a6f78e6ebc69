//! A pipe of messages between two ends, which can be cut after so many of them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The pipe was cut, or the other end was dropped.
#[derive(Debug)]
pub(crate) struct Broken;

/// How many messages both ends have sent, and after how many the pipe is cut.
#[derive(Debug)]
pub(crate) struct Cut {
    sent: AtomicUsize,
    bytes: AtomicU64,
    after: Option<usize>,
    is_cut: AtomicBool,
}

impl Cut {
    pub(crate) fn new(after: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            sent: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            after,
            is_cut: AtomicBool::new(false),
        })
    }

    /// Messages sent, by both ends.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Acquire)
    }

    /// Counts a message. One beyond the limit cuts the pipe, and all later pipes of the test.
    fn pass(&self) -> Result<(), Broken> {
        let before = self.sent.fetch_add(1, Ordering::Relaxed);
        if self.after.is_some_and(|after| before >= after) {
            self.is_cut.store(true, Ordering::Release);
        }
        if self.is_cut() { Err(Broken) } else { Ok(()) }
    }
}

/// The end into which messages are put.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    sender: Sender<Vec<u8>>,
    cut: Arc<Cut>,
}

impl Output {
    pub(crate) fn send(&self, message: Vec<u8>) -> Result<(), Broken> {
        self.cut.pass()?;
        self.cut.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
        self.sender.send(message).map_err(|_| Broken)
    }
}

/// The end from which messages are taken.
#[derive(Debug)]
pub(crate) struct Input {
    receiver: Mutex<Receiver<Vec<u8>>>,
    cut: Arc<Cut>,
}

impl Input {
    /// Waits for the next message.
    pub(crate) fn recv(&self) -> Result<Vec<u8>, Broken> {
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.cut.is_cut() {
            match receiver.recv_timeout(Duration::from_millis(5)) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Err(Broken)
    }
}

pub(crate) fn pipe(cut: &Arc<Cut>) -> (Output, Input) {
    let (sender, receiver) = mpsc::channel();
    let output = Output {
        sender,
        cut: Arc::clone(cut),
    };
    let input = Input {
        receiver: Mutex::new(receiver),
        cut: Arc::clone(cut),
    };
    (output, input)
}
