//! The protocol's numbers ("Values").

/// The first 8 bytes that a server sends.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// The next 8 bytes that a server sends, and the first 8 bytes of every option.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// The first 8 bytes of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// The first 4 bytes of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// The first 4 bytes of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// The first 4 bytes of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake and client flag: fixed newstyle negotiation.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake and client flag: no 124 zeros after the answer to [`option::EXPORT_NAME`].
pub const FLAG_NO_ZEROES: u16 = 2;
/// Zeros after the answer to [`option::EXPORT_NAME`].
pub const RESERVED_ZEROES: usize = 124;

/// Options of the negotiation.
pub mod option {
    /// Chooses an export and ends the negotiation.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the session.
    pub const ABORT: u32 = 2;
    /// Lists the exports.
    pub const LIST: u32 = 3;
    /// Starts TLS.
    pub const STARTTLS: u32 = 5;
    /// Describes an export.
    pub const INFO: u32 = 6;
    /// Describes an export, and ends the negotiation.
    pub const GO: u32 = 7;
    /// Asks for structured replies.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Lists metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Selects metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Kinds of replies to options.
pub mod option_reply {
    /// Success, and the last reply to an option.
    pub const ACK: u32 = 1;
    /// The name of an export.
    pub const SERVER: u32 = 2;
    /// An item of information about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// The bit that every error has.
    pub const ERROR: u32 = 1 << 31;
    /// An option that the server does not know.
    pub const ERR_UNSUP: u32 = ERROR + 1;
    /// The server is configured to refuse the option.
    pub const ERR_POLICY: u32 = ERROR + 2;
    /// An option that makes no sense, or not now.
    pub const ERR_INVALID: u32 = ERROR + 3;
    /// TLS must be started first.
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    /// The server is being stopped.
    pub const ERR_SHUTDOWN: u32 = ERROR + 7;
    /// The option is too large.
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Items of information about an export.
pub mod info {
    /// Its size and flags.
    pub const EXPORT: u16 = 0;
    /// Its canonical name.
    pub const NAME: u16 = 1;
    /// Text for people.
    pub const DESCRIPTION: u16 = 2;
    /// The sizes of blocks and payloads.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Kinds of chunks of a structured reply.
pub mod chunk {
    /// No content. Ends a reply.
    pub const NONE: u16 = 0;
    /// Bytes of the export.
    pub const OFFSET_DATA: u16 = 1;
    /// A range of zeros of the export.
    pub const OFFSET_HOLE: u16 = 2;
    /// The status of ranges.
    pub const BLOCK_STATUS: u16 = 5;
    /// The bit that every error has.
    pub const ERROR_BIT: u16 = 1 << 15;
    /// The request failed.
    pub const ERROR: u16 = ERROR_BIT + 1;
    /// The request failed at an offset.
    pub const ERROR_OFFSET: u16 = ERROR_BIT + 2;
    /// Flag of the last chunk of a reply.
    pub const FLAG_DONE: u16 = 1;
}

/// Bits of the status of a range.
pub mod state {
    /// `base:allocation`: no space is allocated.
    pub const HOLE: u32 = 1;
    /// `base:allocation`: the range reads as zeros.
    pub const ZERO: u32 = 2;
    /// `qemu:dirty-bitmap:NAME`: the range was written.
    pub const DIRTY: u32 = 1;
}

/// Why a request failed ("Error values").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted, for example a write to an export that is read-only.
    NotPermitted = 1,
    /// The device failed.
    Io = 5,
    /// The request is wrong.
    Invalid = 22,
    /// No space is left.
    NoSpace = 28,
    /// The request is too large.
    TooLarge = 75,
    /// The server cannot do it. Only requests with `FAST_ZERO` fail so.
    NotSupported = 95,
    /// The server is being stopped.
    ShuttingDown = 108,
}

impl Errno {
    /// The number that is sent.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The error with this number. A client takes one that it does not know as [`Self::Invalid`].
    #[must_use]
    pub fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Self::NotPermitted),
            5 => Some(Self::Io),
            28 => Some(Self::NoSpace),
            75 => Some(Self::TooLarge),
            95 => Some(Self::NotSupported),
            108 => Some(Self::ShuttingDown),
            _ => Some(Self::Invalid),
        }
    }
}
