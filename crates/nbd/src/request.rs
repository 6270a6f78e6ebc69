//! Requests of the transmission, and the rules that a server checks.

use crate::bytes::Taker;
use crate::flags::{CommandFlags, TransmissionFlags};
use crate::numbers::{Errno, REQUEST_MAGIC};

/// Bytes of a request. The payload of a write follows.
pub const REQUEST_BYTES: usize = 28;

/// What a client asks for ("Request types").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Ends the session. Has no reply.
    Disconnect,
    /// Makes durable what was answered.
    Flush,
    /// Drops the content of a range.
    Trim,
    /// Prepares for reading a range.
    Cache,
    /// Writes zeros.
    WriteZeroes,
    /// Tells the status of ranges.
    BlockStatus,
    /// A command that this crate does not know.
    Unknown(u16),
}

impl Command {
    /// The command's number.
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(number) => number,
        }
    }

    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            unknown => Self::Unknown(unknown),
        }
    }

    /// Whether it changes bytes of the export.
    #[must_use]
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Trim | Self::WriteZeroes)
    }
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// How it is to be done.
    pub flags: CommandFlags,
    /// What is to be done.
    pub command: Command,
    /// The client's number for it. The reply has the same.
    pub cookie: u64,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u32,
}

/// Bytes that are no request. The client and the server disagree where requests begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the client sent {found:#x} where a request begins")]
pub struct RequestFault {
    /// The first bytes.
    pub found: u32,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// [`RequestFault`]: the connection must be closed.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Result<Self, RequestFault> {
        let mut taker = Taker(bytes);
        let found = taker.u32().unwrap_or(0);
        let decode = |taker: &mut Taker<'_>| {
            Some(Self {
                flags: CommandFlags(taker.u16()?),
                command: Command::from_number(taker.u16()?),
                cookie: taker.u64()?,
                offset: taker.u64()?,
                len: taker.u32()?,
            })
        };
        let decoded = decode(&mut taker).filter(|_| found == REQUEST_MAGIC);
        decoded.ok_or(RequestFault { found })
    }

    /// The request as a client sends it.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut out = [0; REQUEST_BYTES];
        out[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        out[4..6].copy_from_slice(&self.flags.0.to_be_bytes());
        out[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        out[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..].copy_from_slice(&self.len.to_be_bytes());
        out
    }

    /// Bytes of its payload, which follow it.
    #[must_use]
    pub fn payload_bytes(&self) -> u32 {
        if self.command == Command::Write {
            self.len
        } else {
            0
        }
    }
}

/// What a server checks before it does a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The export's size in bytes.
    pub size_bytes: u64,
    /// What was negotiated.
    pub flags: TransmissionFlags,
    /// Replies are structured.
    pub is_structured: bool,
    /// A metadata context was selected.
    pub has_contexts: bool,
    /// The longest payload in bytes.
    pub payload_max: u32,
}

impl Rules {
    /// Checks a request. [`Command::Disconnect`] always passes.
    ///
    /// # Errors
    /// The error that the protocol names for it.
    pub fn check(&self, request: &Request) -> Result<(), Errno> {
        let command = request.command;
        let (needed, allowed) = match command {
            Command::Disconnect => return Ok(()),
            Command::Read => (TransmissionFlags::default(), CommandFlags::DF),
            Command::Write => (TransmissionFlags::default(), CommandFlags::default()),
            Command::Flush => (TransmissionFlags::SEND_FLUSH, CommandFlags::default()),
            Command::Trim => (TransmissionFlags::SEND_TRIM, CommandFlags::default()),
            Command::Cache => (TransmissionFlags::SEND_CACHE, CommandFlags::default()),
            Command::WriteZeroes => (
                TransmissionFlags::SEND_WRITE_ZEROES,
                CommandFlags::NO_HOLE | CommandFlags::FAST_ZERO,
            ),
            Command::BlockStatus => (TransmissionFlags::default(), CommandFlags::REQ_ONE),
            Command::Unknown(_) => return Err(Errno::Invalid),
        };
        if !self.flags.has(needed) || !self.allows(request.flags, allowed) {
            return Err(Errno::Invalid);
        }
        if command.writes() && self.flags.has(TransmissionFlags::READ_ONLY) {
            return Err(Errno::NotPermitted);
        }
        if command == Command::Flush {
            let is_plain = request.offset == 0 && request.len == 0;
            return if is_plain { Ok(()) } else { Err(Errno::Invalid) };
        }
        let end = request.offset.checked_add(u64::from(request.len));
        if end.is_none_or(|end| end > self.size_bytes) {
            let grows = matches!(command, Command::Write | Command::WriteZeroes);
            return Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        }
        match command {
            Command::Read if request.len > self.payload_max && self.is_structured => Err(Errno::TooLarge),
            Command::Read | Command::Write if request.len > self.payload_max => Err(Errno::Invalid),
            Command::BlockStatus if !self.has_contexts || request.len == 0 => Err(Errno::Invalid),
            _ => Ok(()),
        }
    }

    /// Whether a command that allows some flags may have these. `FUA` is allowed with all.
    fn allows(&self, flags: CommandFlags, mut allowed: CommandFlags) -> bool {
        if self.flags.has(TransmissionFlags::SEND_FUA) {
            allowed = allowed | CommandFlags::FUA;
        }
        if !self.flags.has(TransmissionFlags::SEND_DF) {
            allowed = allowed.without(CommandFlags::DF);
        }
        if !self.flags.has(TransmissionFlags::SEND_FAST_ZERO) {
            allowed = allowed.without(CommandFlags::FAST_ZERO);
        }
        allowed.has(flags)
    }
}
