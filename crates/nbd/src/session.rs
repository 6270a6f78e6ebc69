//! What a server does in a session, and why it ends one.

use crate::export::SelectedContext;
use crate::flags::TransmissionFlags;
use crate::numbers::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INIT_MAGIC, OPTION_MAGIC};

/// The first bytes that a server sends.
pub const GREETING: [u8; 18] = greeting();

/// A session has at most so many options. Clients need fewer than twenty.
pub(crate) const OPTIONS_MAX: u32 = 1024;

const fn greeting() -> [u8; 18] {
    let [a, b, c, d, e, f, g, h] = INIT_MAGIC.to_be_bytes();
    let [i, j, k, l, m, n, o, p] = OPTION_MAGIC.to_be_bytes();
    let [q, r] = (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes();
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r]
}

/// Whether a server speaks TLS ("TLS support").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never (`NOTLS`).
    #[default]
    Off,
    /// If the client asks (`SELECTIVETLS`, without exports that need it).
    Offered,
    /// Before anything else (`FORCEDTLS`).
    Required,
}

/// What the server does next. It always sends the appended bytes first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Waits for more bytes of the client. All given ones were used.
    More,
    /// Calls [`crate::ServerHaggle::listed`].
    List,
    /// Looks for this export and calls [`crate::ServerHaggle::found`].
    Find(String),
    /// Makes the connection secure, then calls [`crate::ServerHaggle::step`] with bytes from within
    /// TLS.
    StartTls,
    /// Serves requests. Unused bytes belong to the first one.
    Transmit(Transmission),
    /// Closes the connection.
    Close(CloseReason),
}

/// How a session was negotiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmission {
    /// The export's name, as the client says it.
    pub export: String,
    /// Replies are structured.
    pub is_structured: bool,
    /// The flags that the client knows.
    pub flags: TransmissionFlags,
    /// The selected metadata contexts.
    pub contexts: Vec<SelectedContext>,
}

/// Why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The client asked for it.
    #[error("the client ended the session")]
    Aborted,
    /// The client has flags that nobody offered.
    #[error("the client set unknown flags {flags:#x}")]
    UnknownFlags {
        /// The flags.
        flags: u32,
    },
    /// The client does not speak the protocol.
    #[error("the client sent {found:#x} where an option begins")]
    NoOption {
        /// The bytes.
        found: u64,
    },
    /// The option `EXPORT_NAME` can only succeed or end the session.
    #[error("the client asked for an export in a way that cannot be refused politely: {why}")]
    ExportName {
        /// What is wrong.
        why: &'static str,
    },
    /// An option before fixed newstyle was agreed on.
    #[error("the client sent option {option} without fixed newstyle negotiation")]
    NotFixed {
        /// The option.
        option: u32,
    },
    /// The client sent bytes before it could know that TLS begins.
    #[error("the client sent bytes after STARTTLS without waiting for the answer")]
    BytesBeforeTls,
    /// The session has too many options.
    #[error("the client sent more than {OPTIONS_MAX} options")]
    ManyOptions,
}
