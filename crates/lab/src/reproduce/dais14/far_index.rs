//! One duplicates index for several hosts: a service on a Unix socket, and an index that asks it
//! (D3).
//!
//! Each host has a pool of its own, whose blocks no other host can refer to. So each host has a
//! bucket of its own: the hosts share the index's database, its journal and its disk, but no rows.
//!
//! A batch whose answer is lost is sent once more, on a new connection. The index applies it once,
//! by its sequence.

use std::io;
use std::ops::ControlFlow;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use ddi::{
    Bucket, BucketStatistics, DdiError, DuplicatesIndex, Operation, Outcome, Rebuild, Row, Statistics,
};
use format::pool::frame::PoolId;
use types::{BatchSequence, Fingerprint, VolumeId};

use super::frames::{Answer, Request, receive, send};
use crate::error::LabError;

/// The index of a host, in another process. Threads take turns.
#[derive(Debug)]
pub(super) struct FarIndex {
    socket: PathBuf,
    bucket: Bucket,
    connection: Mutex<Option<UnixStream>>,
}

impl FarIndex {
    /// The index behind a socket, for the host that has this bucket.
    pub(super) fn new(socket: &Path, bucket: Bucket) -> Self {
        Self {
            socket: socket.to_owned(),
            bucket,
            connection: Mutex::default(),
        }
    }

    fn ask(&self, request: &Request, action: &'static str) -> Result<Answer, DdiError> {
        let bytes = request.encoded();
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let first = self.once(&mut connection, &bytes);
        let answer = first.or_else(|_| {
            *connection = None;
            self.once(&mut connection, &bytes)
        });
        match answer {
            Ok(Answer::Failed(why)) => Err(self.failed(action, why)),
            Ok(answer) => Ok(answer),
            Err(error) => {
                *connection = None;
                Err(self.failed(action, error.to_string()))
            }
        }
    }

    fn once(&self, connection: &mut Option<UnixStream>, bytes: &[u8]) -> io::Result<Answer> {
        let stream = match connection {
            Some(stream) => stream,
            None => connection.insert(UnixStream::connect(&self.socket)?),
        };
        send(stream, bytes)?;
        let answer = receive(stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Answer::decode(&answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn failed(&self, action: &'static str, why: String) -> DdiError {
        DdiError::Failed {
            action,
            folder: self.socket.clone(),
            why,
        }
    }

    /// The error of what no experiment asks for.
    fn not_offered(&self, action: &'static str) -> DdiError {
        self.failed(
            action,
            "the index of another process does not offer this".to_owned(),
        )
    }

    fn other_answer(&self, action: &'static str) -> DdiError {
        self.failed(action, "this is the answer to another request".to_owned())
    }
}

impl DuplicatesIndex for FarIndex {
    /// `bucket` is that of the host's pool; the index has the host's own one.
    fn apply(
        &self,
        _: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, DdiError> {
        let request = Request::Apply {
            bucket: self.bucket,
            client,
            sequence,
            operations: operations.to_vec(),
        };
        match self.ask(&request, "applying a batch")? {
            Answer::Outcomes(outcomes) if outcomes.len() == operations.len() => Ok(outcomes),
            _ => Err(self.other_answer("applying a batch")),
        }
    }

    fn check_pool(&self, pool: PoolId) -> Result<(), DdiError> {
        match self.ask(&Request::Pool { pool }, "comparing the pool")? {
            Answer::Same => Ok(()),
            _ => Err(self.other_answer("comparing the pool")),
        }
    }

    fn client(&self, _: Bucket, client: VolumeId) -> Result<Option<BatchSequence>, DdiError> {
        let bucket = self.bucket;
        match self.ask(&Request::Client { bucket, client }, "reading a client's row")? {
            Answer::Last(last) => Ok(last),
            _ => Err(self.other_answer("reading a client's row")),
        }
    }

    fn forget_client(&self, _: VolumeId) -> Result<(), DdiError> {
        Err(self.not_offered("forgetting a client"))
    }

    fn look_up(&self, _: Bucket, _: &[Fingerprint]) -> Result<Vec<Option<Row>>, DdiError> {
        Err(self.not_offered("looking rows up"))
    }

    fn scan(&self, _: Bucket, _: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), DdiError> {
        Err(self.not_offered("reading all rows"))
    }

    fn statistics(&self) -> Result<Statistics, DdiError> {
        let bucket = self.bucket;
        match self.ask(&Request::Size { bucket }, "reading the sums")? {
            Answer::Size {
                rows,
                references,
                disk_bytes,
            } => Ok(Statistics {
                buckets: vec![BucketStatistics {
                    bucket,
                    rows,
                    references,
                }],
                disk_bytes,
            }),
            _ => Err(self.other_answer("reading the sums")),
        }
    }

    fn rebuild(&self) -> Result<Box<dyn Rebuild + '_>, DdiError> {
        Err(self.not_offered("rebuilding the index"))
    }
}

/// Serves an index until it is dropped. Connections end when their clients close them.
#[derive(Debug)]
pub(super) struct IndexService {
    socket: PathBuf,
    stopping: Arc<AtomicBool>,
    operations: Arc<AtomicU64>,
    batches: Arc<AtomicU64>,
    listener: Option<JoinHandle<()>>,
}

/// What the threads of a service share.
#[derive(Debug, Clone)]
struct Service {
    index: Arc<dyn DuplicatesIndex>,
    stopping: Arc<AtomicBool>,
    operations: Arc<AtomicU64>,
    batches: Arc<AtomicU64>,
}

impl IndexService {
    /// Listens on a new socket.
    ///
    /// # Errors
    /// `Io` if there is no such place, or no thread.
    pub(super) fn start(socket: &Path, index: Arc<dyn DuplicatesIndex>) -> Result<Self, LabError> {
        let failed = |source| LabError::io(&socket.display().to_string(), source);
        let listener = UnixListener::bind(socket).map_err(failed)?;
        let service = Service {
            index,
            stopping: Arc::default(),
            operations: Arc::default(),
            batches: Arc::default(),
        };
        let (stopping, operations) = (Arc::clone(&service.stopping), Arc::clone(&service.operations));
        let batches = Arc::clone(&service.batches);
        let thread = std::thread::Builder::new().name("index".to_owned());
        let listener = thread.spawn(move || service.listen(&listener)).map_err(failed)?;
        Ok(Self {
            socket: socket.to_owned(),
            stopping,
            operations,
            batches,
            listener: Some(listener),
        })
    }

    /// Operations and batches that were applied.
    pub(super) fn applied(&self) -> (u64, u64) {
        (
            self.operations.load(Ordering::Relaxed),
            self.batches.load(Ordering::Relaxed),
        )
    }
}

impl Drop for IndexService {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // Wakes the listener. If this fails, the listener has ended.
        drop(UnixStream::connect(&self.socket));
        if let Some(listener) = self.listener.take() {
            // A panic there was an experiment's failure before.
            drop(listener.join());
        }
    }
}

impl Service {
    fn listen(&self, listener: &UnixListener) {
        std::thread::scope(|scope| {
            for stream in listener.incoming() {
                if self.stopping.load(Ordering::Acquire) {
                    return;
                }
                let Ok(mut stream) = stream else { return };
                scope.spawn(move || {
                    // A client that is gone, or sends no request, has no answer.
                    drop(self.serve(&mut stream));
                });
            }
        });
    }

    fn serve(&self, stream: &mut UnixStream) -> io::Result<()> {
        while let Some(bytes) = receive(stream)? {
            let answer = match Request::decode(&bytes) {
                Ok(request) => self.answer(request),
                Err(error) => Answer::Failed(error.to_string()),
            };
            send(stream, &answer.encoded())?;
        }
        Ok(())
    }

    fn answer(&self, request: Request) -> Answer {
        let answer = match request {
            Request::Apply {
                bucket,
                client,
                sequence,
                operations,
            } => {
                self.operations
                    .fetch_add(operations.len() as u64, Ordering::Relaxed);
                self.batches.fetch_add(1, Ordering::Relaxed);
                self.index
                    .apply(bucket, client, sequence, &operations)
                    .map(Answer::Outcomes)
            }
            Request::Client { bucket, client } => self.index.client(bucket, client).map(Answer::Last),
            Request::Pool { pool } => self.index.check_pool(pool).map(|()| Answer::Same),
            Request::Size { bucket } => self.index.statistics().map(|all| {
                let here = all.buckets.iter().find(|one| one.bucket == bucket);
                Answer::Size {
                    rows: here.map_or(0, |one| one.rows),
                    references: here.map_or(0, |one| one.references),
                    disk_bytes: all.disk_bytes,
                }
            }),
        };
        answer.unwrap_or_else(|error| Answer::Failed(error.to_string()))
    }
}
