//! A small client that waits for each answer, for tests.
//!
//! It works on any stream of bytes. It can also send requests without waiting
//! ([`Client::send`], [`Client::receive`]), in any order.

use std::io::{self, Read, Write};

use nbd::client::{Content, OptionReply, Parsed, Reply, ServerFault, greeting};
use nbd::numbers::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES};
use nbd::{ClientOption, Command, CommandFlags, Errno, MetaQuery, Request, TransmissionFlags, Wants};

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The stream.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The server does not speak the protocol.
    #[error("{0}")]
    Server(#[from] ServerFault),
    /// The server refused an option.
    #[error("the server refused option {option} with {kind:#x}: {text}")]
    Refused {
        /// The option's number.
        option: u32,
        /// The kind of the refusal.
        kind: u32,
        /// The server's text.
        text: String,
    },
    /// The request failed.
    #[error("the request failed with {0:?}")]
    Failed(Errno),
    /// The server sent an answer that does not belong to the request.
    #[error("the server's answer does not belong to the request: {0}")]
    Unexpected(&'static str),
}

/// A whole answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The client's number of the request.
    pub cookie: u64,
    /// Why it failed.
    pub error: Option<Errno>,
    /// The bytes of a read.
    pub data: Vec<u8>,
    /// How many of them the server did not send, because they are a hole.
    pub hole_bytes: u64,
    /// The status of ranges, for each metadata context.
    pub status: Vec<(u32, Vec<(u32, u32)>)>,
}

/// What a client negotiates.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The export's name.
    pub export: String,
    /// Replies are to be structured.
    pub is_structured: bool,
    /// Queries for metadata contexts.
    pub contexts: Vec<String>,
}

/// A client with an export.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    /// Received bytes that were not read yet.
    received: Vec<u8>,
    is_structured: bool,
    /// The export's size in bytes.
    pub size_bytes: u64,
    /// What the export can do.
    pub flags: TransmissionFlags,
    /// The selected metadata contexts: their numbers and names.
    pub contexts: Vec<(u32, String)>,
    next_cookie: u64,
    /// Requests without an answer, and what arrived of it.
    open: Vec<(Request, Answer)>,
}

impl<S: Read + Write> Client<S> {
    /// Negotiates over a fresh connection.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn open(stream: S, wish: &Wish) -> Result<Self, ClientError> {
        let mut client = Self::greet(stream)?;
        client.choose(wish)?;
        Ok(client)
    }

    /// Exchanges greetings, and no options.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn greet(mut stream: S) -> Result<Self, ClientError> {
        let mut bytes = [0; 18];
        stream.read_exact(&mut bytes)?;
        greeting(&bytes)?;
        stream.write_all(&u32::from(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes())?;
        Ok(Self {
            stream,
            received: Vec::new(),
            is_structured: false,
            size_bytes: 0,
            flags: TransmissionFlags::default(),
            contexts: Vec::new(),
            next_cookie: 1,
            open: Vec::new(),
        })
    }

    fn choose(&mut self, wish: &Wish) -> Result<(), ClientError> {
        if wish.is_structured {
            self.option(&ClientOption::StructuredReply)?;
            self.is_structured = true;
        }
        if !wish.contexts.is_empty() {
            let query = MetaQuery {
                export: wish.export.clone(),
                queries: wish.contexts.clone(),
            };
            for reply in self.option(&ClientOption::SetMetaContext(query))? {
                if let OptionReply::MetaContext(id, name) = reply {
                    self.contexts.push((id, name));
                }
            }
        }
        for reply in self.option(&ClientOption::Go(wish.export.clone(), Wants::default()))? {
            if let OptionReply::Export(size_bytes, flags) = reply {
                (self.size_bytes, self.flags) = (size_bytes, flags);
            }
        }
        Ok(())
    }

    /// Sends an option, and returns the replies but the last.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn option(&mut self, option: &ClientOption) -> Result<Vec<OptionReply>, ClientError> {
        let mut bytes = Vec::new();
        option.encode(&mut bytes);
        self.stream.write_all(&bytes)?;
        let mut replies = Vec::new();
        loop {
            let (number, reply) = self.message(OptionReply::parse)?;
            if number != option.number() {
                return Err(ClientError::Unexpected("a reply to another option"));
            }
            match reply {
                OptionReply::Ack => return Ok(replies),
                OptionReply::Error(kind, text) => {
                    let option = number;
                    return Err(ClientError::Refused { option, kind, text });
                }
                other => replies.push(other),
            }
        }
    }

    fn receive_more(&mut self) -> Result<(), ClientError> {
        let before = self.received.len();
        self.received.resize(before + (256 << 10), 0);
        let read = self.stream.read(&mut self.received[before..]);
        self.received.truncate(before + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(ClientError::Io(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(()),
        }
    }

    fn message<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Parsed<T>, ServerFault>,
    ) -> Result<T, ClientError> {
        loop {
            match parse(&self.received)? {
                Parsed::Whole(message, len) => {
                    self.received.drain(..len);
                    return Ok(message);
                }
                Parsed::Short(_) => self.receive_more()?,
            }
        }
    }

    /// Sends a request, and returns the number that its answer will have.
    ///
    /// # Errors
    /// [`ClientError::Io`]
    pub fn send(
        &mut self,
        command: Command,
        flags: CommandFlags,
        (offset, len): (u64, u32),
        payload: &[u8],
    ) -> Result<u64, ClientError> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let request = Request {
            flags,
            command,
            cookie,
            offset,
            len,
        };
        self.stream.write_all(&request.encode())?;
        self.stream.write_all(payload)?;
        self.open.push((
            request,
            Answer {
                cookie,
                ..Answer::default()
            },
        ));
        Ok(cookie)
    }

    /// Receives the next whole answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn receive(&mut self) -> Result<Answer, ClientError> {
        loop {
            let reply = self.message(Reply::parse)?;
            let place = self
                .open
                .iter()
                .position(|(request, _)| request.cookie == reply.cookie);
            let place = place.ok_or(ClientError::Unexpected("its number is of no request"))?;
            let (request, mut answer) = self.open.swap_remove(place);
            let is_read = request.command == Command::Read;
            match reply.content {
                Content::Simple(None) if is_read => {
                    if self.is_structured {
                        return Err(ClientError::Unexpected("a simple reply to a read"));
                    }
                    answer.data = self.bytes(request.len)?;
                }
                Content::Simple(error) => answer.error = error,
                Content::None => {}
                Content::Data(offset, len) => {
                    let bytes = self.bytes(len)?;
                    put(&request, &mut answer.data, offset, &bytes)?;
                }
                Content::Hole(offset, len) => {
                    answer.hole_bytes += u64::from(len);
                    put(
                        &request,
                        &mut answer.data,
                        offset,
                        &vec![0; usize::try_from(len).unwrap_or(0)],
                    )?;
                }
                Content::Status(context, ranges) => answer.status.push((context, ranges)),
                Content::Error(error, ..) => answer.error = Some(error),
            }
            if reply.is_last {
                return Ok(answer);
            }
            self.open.push((request, answer));
        }
    }

    fn bytes(&mut self, len: u32) -> Result<Vec<u8>, ClientError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        while self.received.len() < len {
            self.receive_more()?;
        }
        let rest = self.received.split_off(len);
        Ok(std::mem::replace(&mut self.received, rest))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn call(
        &mut self,
        command: Command,
        flags: CommandFlags,
        range: (u64, u32),
        payload: &[u8],
    ) -> Result<Answer, ClientError> {
        let cookie = self.send(command, flags, range, payload)?;
        let answer = self.receive()?;
        if answer.cookie != cookie {
            return Err(ClientError::Unexpected("an answer to another request"));
        }
        match answer.error {
            Some(error) => Err(ClientError::Failed(error)),
            None => Ok(answer),
        }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, ClientError> {
        let answer = self.call(Command::Read, CommandFlags::default(), (offset, len), &[])?;
        if answer.data.len() != usize::try_from(len).unwrap_or(usize::MAX) {
            return Err(ClientError::Unexpected("bytes are missing"));
        }
        Ok(answer.data)
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn write(&mut self, offset: u64, bytes: &[u8], flags: CommandFlags) -> Result<(), ClientError> {
        let len = u32::try_from(bytes.len()).map_err(|_| ClientError::Unexpected("too many bytes"))?;
        self.call(Command::Write, flags, (offset, len), bytes)?;
        Ok(())
    }

    /// Makes durable what was answered.
    ///
    /// # Errors
    /// [`ClientError`]
    pub fn flush(&mut self) -> Result<(), ClientError> {
        self.call(Command::Flush, CommandFlags::default(), (0, 0), &[])?;
        Ok(())
    }

    /// Ends the session, and returns the stream.
    ///
    /// # Errors
    /// [`ClientError::Io`]
    pub fn close(mut self) -> Result<S, ClientError> {
        self.send(Command::Disconnect, CommandFlags::default(), (0, 0), &[])?;
        Ok(self.stream)
    }

    /// The stream, for what a well-behaved client does not do.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }
}

/// Puts a chunk into the data of a read.
fn put(request: &Request, data: &mut Vec<u8>, offset: u64, bytes: &[u8]) -> Result<(), ClientError> {
    let inside = offset.checked_sub(request.offset);
    let inside = inside.and_then(|inside| usize::try_from(inside).ok());
    let len = usize::try_from(request.len).unwrap_or(usize::MAX);
    let end = inside.and_then(|inside| inside.checked_add(bytes.len()));
    let (Some(inside), Some(end)) = (inside, end.filter(|end| *end <= len)) else {
        return Err(ClientError::Unexpected("a chunk outside of its request"));
    };
    data.resize(data.len().max(end), 0);
    data[inside..end].copy_from_slice(bytes);
    Ok(())
}
