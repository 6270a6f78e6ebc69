//! The client's side: what a server sends, read from bytes.
//!
//! Each function reads one message from the front of bytes. [`Parsed::Short`] says that more bytes
//! are needed. A client reads the messages of a trusted server, so it may store what they say.

use crate::bytes::{Taker, length, string};
use crate::fault::OptionFault;
use crate::flags::TransmissionFlags;
use crate::numbers::{
    CHUNK_MAGIC, Errno, INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, SIMPLE_REPLY_MAGIC, chunk, info,
    option_reply,
};
use crate::{PAYLOAD_BYTES_MAX, STRING_BYTES_MAX};

/// A reply to an option has at most so many bytes of data.
const OPTION_REPLY_BYTES_MAX: usize = 2 * STRING_BYTES_MAX + 16;
/// A chunk has at most so many bytes besides data.
const CHUNK_EXTRA_BYTES: usize = STRING_BYTES_MAX + 16;

/// A message from the front of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The message, and its length in bytes.
    Whole(T, usize),
    /// It has at least so many bytes in all.
    Short(usize),
}

/// A message that is not of the protocol. The client must close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// It begins with other bytes.
    #[error("the server sent {found:#x} where a message begins")]
    NoMessage {
        /// The bytes.
        found: u64,
    },
    /// It is too long.
    #[error("the server sent a message of {len} bytes")]
    Long {
        /// Its bytes.
        len: usize,
    },
    /// Its parts do not fit together.
    #[error("the server sent a message of kind {kind} whose parts do not fit together")]
    Parts {
        /// Its kind.
        kind: u32,
    },
}

/// Reads the greeting of a server, and returns its handshake flags.
///
/// # Errors
/// [`ServerFault`]
pub fn greeting(bytes: &[u8; 18]) -> Result<u16, ServerFault> {
    let mut taker = Taker(bytes);
    for magic in [INIT_MAGIC, OPTION_MAGIC] {
        let found = taker.u64().unwrap_or(0);
        if found != magic {
            return Err(ServerFault::NoMessage { found });
        }
    }
    Ok(taker.u16().unwrap_or(0))
}

/// A reply to an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionReply {
    /// Success, and the last reply.
    Ack,
    /// The name of an export.
    Server(String),
    /// The size in bytes and the flags of an export.
    Export(u64, TransmissionFlags),
    /// The canonical name of an export.
    Name(String),
    /// The description of an export.
    Description(String),
    /// The smallest, the preferred and the largest size in bytes.
    BlockSize(u32, u32, u32),
    /// A metadata context: its number and name.
    MetaContext(u32, String),
    /// A failure, and the last reply: its number, and text for people.
    Error(u32, String),
    /// A kind of reply that this crate does not know.
    Unknown,
}

impl OptionReply {
    /// Whether no other reply to the same option follows.
    #[must_use]
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Ack | Self::Error(..))
    }

    /// Reads a reply, and the number of its option.
    ///
    /// # Errors
    /// [`ServerFault`]
    pub fn parse(bytes: &[u8]) -> Result<Parsed<(u32, Self)>, ServerFault> {
        const HEAD: usize = crate::reply::option::HEAD_BYTES;
        let mut taker = Taker(bytes);
        let head = (|| Some((taker.u64()?, taker.u32()?, taker.u32()?, taker.u32()?)))();
        let Some((magic, option, kind, len)) = head else {
            return Ok(Parsed::Short(HEAD));
        };
        if magic != OPTION_REPLY_MAGIC {
            return Err(ServerFault::NoMessage { found: magic });
        }
        let len = length(len);
        if len > OPTION_REPLY_BYTES_MAX {
            return Err(ServerFault::Long { len });
        }
        let Some(data) = taker.bytes(len) else {
            return Ok(Parsed::Short(HEAD + len));
        };
        let reply = Self::read(kind, data).map_err(|_| ServerFault::Parts { kind })?;
        Ok(Parsed::Whole((option, reply), HEAD + len))
    }

    fn read(kind: u32, data: &[u8]) -> Result<Self, OptionFault> {
        let mut taker = Taker(data);
        Ok(match kind {
            option_reply::ACK => Self::Ack,
            option_reply::SERVER => Self::Server(taker.string()?),
            option_reply::META_CONTEXT => {
                Self::MetaContext(taker.u32().ok_or(OptionFault::Short)?, string(taker.0)?)
            }
            option_reply::INFO => {
                let item = taker.u16().ok_or(OptionFault::Short)?;
                Self::item(item, &mut taker)?
            }
            error if error & option_reply::ERROR != 0 => Self::Error(error, string(data)?),
            _ => Self::Unknown,
        })
    }

    fn item(item: u16, taker: &mut Taker<'_>) -> Result<Self, OptionFault> {
        let item = match item {
            info::EXPORT => (|| Some(Self::Export(taker.u64()?, TransmissionFlags(taker.u16()?))))(),
            info::NAME => Some(Self::Name(string(taker.0)?)),
            info::DESCRIPTION => Some(Self::Description(string(taker.0)?)),
            info::BLOCK_SIZE => (|| Some(Self::BlockSize(taker.u32()?, taker.u32()?, taker.u32()?)))(),
            _ => Some(Self::Unknown),
        };
        item.ok_or(OptionFault::Short)
    }
}

/// A reply to a request, or a chunk of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The client's number of the request.
    pub cookie: u64,
    /// No other chunk for the request follows.
    pub is_last: bool,
    /// What it says.
    pub content: Content,
}

/// What a reply says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A simple reply. If the request is a read and did not fail, its data follows.
    Simple(Option<Errno>),
    /// Nothing.
    None,
    /// Bytes of the export: their offset and number. They follow.
    Data(u64, u32),
    /// Zeros of the export: their offset and number.
    Hole(u64, u32),
    /// The status of ranges in a metadata context: the length of each, and its flags.
    Status(u32, Vec<(u32, u32)>),
    /// A failure, with text for people, and the offset if one was told.
    Error(Errno, String, Option<u64>),
}

impl Reply {
    /// Reads a reply or a chunk, without the bytes of the export in it.
    ///
    /// # Errors
    /// [`ServerFault`]
    pub fn parse(bytes: &[u8]) -> Result<Parsed<Self>, ServerFault> {
        use crate::reply::transmission::{CHUNK_BYTES, DATA_CHUNK_BYTES, SIMPLE_BYTES};
        let mut taker = Taker(bytes);
        let Some(magic) = taker.u32() else {
            return Ok(Parsed::Short(SIMPLE_BYTES));
        };
        if magic == SIMPLE_REPLY_MAGIC {
            let Some((code, cookie)) = (|| Some((taker.u32()?, taker.u64()?)))() else {
                return Ok(Parsed::Short(SIMPLE_BYTES));
            };
            let content = Content::Simple(Errno::from_code(code));
            let is_last = true;
            return Ok(Parsed::Whole(
                Self {
                    cookie,
                    is_last,
                    content,
                },
                SIMPLE_BYTES,
            ));
        }
        if magic != CHUNK_MAGIC {
            return Err(ServerFault::NoMessage { found: magic.into() });
        }
        let head = (|| Some((taker.u16()?, taker.u16()?, taker.u64()?, taker.u32()?)))();
        let Some((flags, kind, cookie, len)) = head else {
            return Ok(Parsed::Short(CHUNK_BYTES));
        };
        let is_last = flags & chunk::FLAG_DONE != 0;
        if length(len) > length(PAYLOAD_BYTES_MAX) + CHUNK_EXTRA_BYTES {
            return Err(ServerFault::Long { len: length(len) });
        }
        if kind == chunk::OFFSET_DATA {
            let len = len.checked_sub(8).filter(|len| *len > 0);
            let len = len.ok_or(ServerFault::Parts { kind: kind.into() })?;
            let Some(offset) = taker.u64() else {
                return Ok(Parsed::Short(DATA_CHUNK_BYTES));
            };
            let content = Content::Data(offset, len);
            return Ok(Parsed::Whole(
                Self {
                    cookie,
                    is_last,
                    content,
                },
                DATA_CHUNK_BYTES,
            ));
        }
        let whole = CHUNK_BYTES + length(len);
        let Some(payload) = taker.bytes(length(len)) else {
            return Ok(Parsed::Short(whole));
        };
        let content = Content::read(kind, payload).ok_or(ServerFault::Parts { kind: kind.into() })?;
        Ok(Parsed::Whole(
            Self {
                cookie,
                is_last,
                content,
            },
            whole,
        ))
    }
}

impl Content {
    fn read(kind: u16, payload: &[u8]) -> Option<Self> {
        let mut taker = Taker(payload);
        Some(match kind {
            chunk::NONE if payload.is_empty() => Self::None,
            chunk::OFFSET_HOLE if payload.len() == 12 => {
                Self::Hole(taker.u64()?, taker.u32().filter(|len| *len > 0)?)
            }
            chunk::BLOCK_STATUS => {
                let context = taker.u32()?;
                let mut ranges = Vec::new();
                while !taker.0.is_empty() {
                    ranges.push((taker.u32().filter(|len| *len > 0)?, taker.u32()?));
                }
                Self::Status(context, Some(ranges).filter(|ranges| !ranges.is_empty())?)
            }
            error if error & chunk::ERROR_BIT != 0 => {
                let code = taker.u32()?;
                let len = taker.u16()?;
                let text = string(taker.bytes(len.into())?).ok()?;
                let offset = if error == chunk::ERROR_OFFSET {
                    Some(taker.u64()?)
                } else {
                    None
                };
                Self::Error(Errno::from_code(code)?, text, offset)
            }
            _ => return None,
        })
    }
}
