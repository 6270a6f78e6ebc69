//! A recording as a file.

use std::io::{BufRead, ErrorKind, Write};

use transport::TransportError;
use wire::{FRAME_BYTES_MAX, HEAD_BYTES, Head};

use crate::error::LabError;

const MAGIC: &[u8; 8] = b"onerec01";

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind of its message.
    pub kind: u8,
    /// The number of the request; 0 for messages that have no answer.
    pub number: u32,
    /// The encoded message.
    pub body: Vec<u8>,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// What happened on a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A client opened it.
    Opened,
    /// An end sent a frame.
    Sent(Side, Frame),
    /// The client closed it.
    Closed,
}

/// An event and its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The number of the connection: 0 for the first one.
    pub connection: u32,
    /// What happened.
    pub event: Event,
}

/// Writes a recording.
#[derive(Debug)]
pub struct RecordingWriter<W> {
    what: String,
    out: W,
    frames: u64,
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording; `what` names it in errors.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn new(what: impl Into<String>, out: W) -> Result<Self, LabError> {
        let mut writer = Self {
            what: what.into(),
            out,
            frames: 0,
        };
        writer.put(MAGIC)?;
        Ok(writer)
    }

    /// A client has opened a connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn opened(&mut self, connection: u32) -> Result<(), LabError> {
        self.begin(b'O', connection)
    }

    /// The client has closed the connection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn closed(&mut self, connection: u32) -> Result<(), LabError> {
        self.begin(b'X', connection)
    }

    /// An end has sent a frame.
    ///
    /// # Errors
    /// Errors of the operating system; `Connection` if the frame is longer than the protocol
    /// allows.
    pub fn sent(&mut self, connection: u32, side: Side, frame: &Frame) -> Result<(), LabError> {
        let tag = match side {
            Side::Client => b'C',
            Side::Server => b'S',
        };
        self.begin(tag, connection)?;
        self.frames += 1;
        let mut bytes = Vec::new();
        let framed = wire::frame_into(&mut bytes, frame.kind, frame.number, |out| {
            out.extend_from_slice(&frame.body);
        });
        framed.map_err(TransportError::from)?;
        self.put(&bytes)
    }

    fn begin(&mut self, tag: u8, connection: u32) -> Result<(), LabError> {
        self.put(&[tag])?;
        self.put(&connection.to_le_bytes())
    }

    /// Ends the recording. Returns the number of its frames, and the writer.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn finish(mut self) -> Result<(u64, W), LabError> {
        self.put(b"Z")?;
        self.put(&self.frames.to_le_bytes())?;
        self.out.flush().map_err(|source| self.failed(source))?;
        Ok((self.frames, self.out))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        self.out.write_all(bytes).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> LabError {
        LabError::io(&self.what, source)
    }
}

/// Reads a recording.
#[derive(Debug)]
pub struct RecordingReader<R> {
    what: String,
    input: R,
    at: u64,
    frames: u64,
}

impl<R: BufRead> RecordingReader<R> {
    /// Reads the beginning of a recording; `what` names it in errors.
    ///
    /// # Errors
    /// `Recording` if the input is no recording; errors of the operating system.
    pub fn new(what: impl Into<String>, input: R) -> Result<Self, LabError> {
        let mut reader = Self {
            what: what.into(),
            input,
            at: 0,
            frames: 0,
        };
        if reader.array()? == *MAGIC {
            Ok(reader)
        } else {
            reader.at = 0;
            Err(reader.wrong("this is no recording"))
        }
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// `Recording` if the file is damaged or truncated; errors of the operating system.
    pub fn next_record(&mut self) -> Result<Option<Record>, LabError> {
        let [tag] = self.array()?;
        if tag == b'Z' {
            return self.end().map(|()| None);
        }
        let connection = u32::from_le_bytes(self.array()?);
        let event = match tag {
            b'O' => Event::Opened,
            b'C' => Event::Sent(Side::Client, self.frame()?),
            b'S' => Event::Sent(Side::Server, self.frame()?),
            b'X' => Event::Closed,
            _ => return Err(self.wrong("an unknown record")),
        };
        Ok(Some(Record { connection, event }))
    }

    fn end(&mut self) -> Result<(), LabError> {
        if u64::from_le_bytes(self.array()?) != self.frames {
            return Err(self.wrong("the number of frames is not that of the frames before it"));
        }
        let rest = self.input.fill_buf();
        if !rest
            .map_err(|source| LabError::io(&self.what, source))?
            .is_empty()
        {
            return Err(self.wrong("bytes behind the end"));
        }
        Ok(())
    }

    fn frame(&mut self) -> Result<Frame, LabError> {
        let head: [u8; HEAD_BYTES] = self.array()?;
        let head = Head::decode(head, FRAME_BYTES_MAX)
            .map_err(|_| self.wrong("a frame has an impossible length"))?;
        let mut body = vec![0; head.len];
        self.fill(&mut body)?;
        self.frames += 1;
        Ok(Frame {
            kind: head.kind,
            number: head.number,
            body,
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LabError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), LabError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.at += bytes.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(self.wrong("the recording ends too early"))
            }
            Err(source) => Err(LabError::io(&self.what, source)),
        }
    }

    /// What is wrong at the present place.
    pub(super) fn wrong(&self, why: impl Into<String>) -> LabError {
        LabError::Recording {
            what: self.what.clone(),
            at: self.at,
            why: why.into(),
        }
    }
}
