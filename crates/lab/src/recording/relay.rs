//! The relay that makes a recording.
//!
//! A frame is written to the recording before it is passed on. So a frame that answers another one
//! is behind it in the file. Each connection has two threads, one for each direction.

use std::io::{self, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use env::{Clock, SystemClock, socket};
use transport::{Channel, Closer, FrameReader, FrameWriter, Traffic, TransportError};
use wire::{FRAME_BYTES_MAX, Head};

use super::file::{Frame, RecordingWriter, Side};
use crate::error::LabError;

/// How often the relay looks for clients, and whether it is to end.
const LOOK: Duration = Duration::from_millis(10);
/// How long open connections may go on after the end was asked for.
const GRACE: Duration = Duration::from_secs(2);

/// A complete recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Connections that clients opened.
    pub connections: u32,
    /// Connections that were still open at the end. The recording has their beginning.
    pub cut: usize,
    /// Frames of both directions.
    pub frames: u64,
}

/// Listens on a socket, passes each client's frames on to a server's socket and back, and records
/// them, until `is_over`. The system tells the server which user the relay runs as.
///
/// # Errors
/// If the socket cannot be made, the server not be reached, or the recording not be written.
pub fn record<W: Write + Send>(
    listen: &Path,
    to: &Path,
    writer: RecordingWriter<W>,
    is_over: &AtomicBool,
) -> Result<Recorded, LabError> {
    let failed = |source| LabError::io(&listen.display().to_string(), source);
    let (socket, file) = socket::listen(listen, 0o600).map_err(|error| failed(error.into()))?;
    let relay = Relay {
        state: Mutex::new(State {
            writer,
            failed: None,
            closers: Vec::new(),
        }),
        open: AtomicUsize::new(0),
    };
    let served = socket
        .set_nonblocking(true)
        .map_err(failed)
        .and_then(|()| relay.serve(&socket, to, is_over));
    // The socket is of no use without the relay.
    file.remove();
    let (connections, cut) = served?;
    let state = relay.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = state.failed {
        return Err(error);
    }
    let (frames, _) = state.writer.finish()?;
    Ok(Recorded {
        connections,
        cut,
        frames,
    })
}

struct Relay<W> {
    state: Mutex<State<W>>,
    /// Connections that are open.
    open: AtomicUsize,
}

struct State<W> {
    writer: RecordingWriter<W>,
    /// The first fault. It ends the recording.
    failed: Option<LabError>,
    closers: Vec<Closer>,
}

/// Both ends of one direction.
struct Direction {
    reader: FrameReader,
    writer: FrameWriter,
    /// Ends both channels.
    closers: [Closer; 2],
}

impl<W: Write + Send> Relay<W> {
    /// Serves clients until `is_over`. Returns how many there were, and how many were cut off.
    fn serve(
        &self,
        socket: &UnixListener,
        to: &Path,
        is_over: &AtomicBool,
    ) -> Result<(u32, usize), LabError> {
        thread::scope(|scope| {
            let mut connections = 0;
            let mut take = || match socket.accept() {
                Ok((client, _)) => {
                    let number = connections;
                    let (up, down) = self.connect(number, client, to)?;
                    self.open.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move || self.carry(number, Side::Client, up));
                    scope.spawn(move || self.carry(number, Side::Server, down));
                    connections += 1;
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    SystemClock.sleep(LOOK);
                    Ok(())
                }
                Err(source) => Err(LabError::io("accepting a client", source)),
            };
            let mut taken = Ok(());
            while taken.is_ok() && !is_over.load(Ordering::Relaxed) && !self.has_failed() {
                taken = take();
            }
            // Threads of clients end with their connections, also after a fault.
            let cut = self.end(taken.is_ok());
            taken.map(|()| (connections, cut))
        })
    }

    /// Ends what is still open, and returns how much that is. A client that has left may be noticed
    /// a moment later.
    fn end(&self, has_grace: bool) -> usize {
        let until = SystemClock.monotonic() + if has_grace { GRACE } else { Duration::ZERO };
        while self.open.load(Ordering::Acquire) > 0 && SystemClock.monotonic() < until && !self.has_failed() {
            SystemClock.sleep(LOOK);
        }
        let cut = self.open.load(Ordering::Acquire);
        for closer in &self.state().closers {
            closer.close();
        }
        cut
    }

    /// Connects a client to the server: the direction to it, and the one back.
    fn connect(
        &self,
        connection: u32,
        client: UnixStream,
        to: &Path,
    ) -> Result<(Direction, Direction), LabError> {
        let unreachable = |source| TransportError::Unreachable {
            place: to.display().to_string(),
            source,
        };
        client.set_nonblocking(false).map_err(TransportError::from)?;
        let client = Channel::from(client);
        let server = Channel::from(UnixStream::connect(to).map_err(unreachable)?);
        let closers = [client.closer, server.closer];
        let direction = |input, output| Direction {
            reader: FrameReader::new(input, Traffic::default()),
            writer: FrameWriter::new(output, Traffic::default()),
            closers: closers.clone(),
        };
        self.state().closers.extend(closers.clone());
        self.write(|writer| writer.opened(connection));
        Ok((
            direction(client.input, server.output),
            direction(server.input, client.output),
        ))
    }

    /// Passes the frames of one direction on until its source closes. Then both ends are closed.
    fn carry(&self, connection: u32, from: Side, mut direction: Direction) {
        // An end that is gone needs nothing more.
        while let Ok(Some((Head { kind, number, .. }, body))) = direction.reader.next(FRAME_BYTES_MAX) {
            let frame = Frame { kind, number, body };
            let is_written = self.write(|writer| writer.sent(connection, from, &frame));
            if !is_written || direction.writer.send(kind, number, &frame.body).is_err() {
                break;
            }
        }
        if from == Side::Client {
            self.write(|writer| writer.closed(connection));
            self.open.fetch_sub(1, Ordering::AcqRel);
        }
        direction.closers.iter().for_each(Closer::close);
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Writes to the recording. Returns whether it could.
    fn write(&self, write: impl FnOnce(&mut RecordingWriter<W>) -> Result<(), LabError>) -> bool {
        let mut state = self.state();
        if state.failed.is_none() {
            state.failed = write(&mut state.writer).err();
        }
        state.failed.is_none()
    }
}
