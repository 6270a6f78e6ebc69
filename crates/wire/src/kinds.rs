//! The kinds of messages.

/// What a client sends.
pub mod request {
    /// [`Hello`](crate::Hello), the first message. Answered by [`Welcome`](crate::Welcome).
    pub const HELLO: u8 = 1;
    /// [`Joining`](crate::Joining): trades an invitation for a token. Answered by
    /// [`Joined`](crate::Joined).
    pub const JOIN: u8 = 2;
    /// [`Login`](crate::Login): a token for a namespace. Answered by
    /// [`LoggedIn`](crate::LoggedIn).
    pub const LOGIN: u8 = 3;
    /// Asks for the manifests of the namespace's backups. Answered by
    /// [`Manifests`](crate::Manifests).
    pub const LIST: u8 = 4;
    /// [`Begin`](crate::Begin): begins a backup. Answered by [`Begun`](crate::Begun).
    pub const BEGIN: u8 = 5;
    /// A list of [`Sent`](crate::Sent): offers and regions of the running backup. Never answered.
    pub const SUBMIT: u8 = 6;
    /// [`About`](ingest::About): makes the running backup durable. Answered by
    /// [`CommittedBackup`](crate::CommittedBackup).
    pub const COMMIT: u8 = 7;
    /// A tree root and a range: which parts of it must not be referred to. Answered by ranges.
    pub const UNSOUND: u8 = 8;
    /// The location of a node. Answered by a list of nodes: this one, and some behind it in its
    /// container, which the client probably asks for next.
    pub const NODE: u8 = 9;
    /// A container. Answered by [`SentCatalog`](crate::SentCatalog).
    pub const CATALOG: u8 = 10;
    /// A node's location and a stream's name. Answered by the root of that stream.
    pub const STREAM: u8 = 11;
    /// The root of a tree. Answered by a list of [`SentChildren`](crate::SentChildren): of this node,
    /// and of some behind it in its container, which the client probably asks for next.
    pub const CHILDREN: u8 = 12;
    /// The location of a chunk. Answered by its bytes.
    pub const CHUNK: u8 = 13;
    /// [`AskedRegions`](crate::AskedRegions). Answered by each region, compressed if the store has
    /// it so.
    pub const REGIONS: u8 = 14;
    /// [`SentCatalog`](crate::SentCatalog): asks for a newer generation. Answered by none or one.
    pub const NEWER: u8 = 15;
    /// A list of backups: pins them and begins to read them. Answered by
    /// [`ReadBegun`](crate::ReadBegun).
    pub const READ: u8 = 16;
    /// Ends the running backup without a commit, or the reading of backups. Answered by nothing, or
    /// by the warnings of the reading.
    pub const END: u8 = 17;
    /// An operation on backups as JSON. Answered by its report as JSON, and its warnings. While it
    /// runs, [`Progress`](crate::Progress) comes.
    pub const CALL: u8 = 18;
    /// Asks the server to make a later position of the running backup durable soon. Never answered;
    /// [`reply::DURABLE`](crate::reply::DURABLE) comes.
    pub const SYNC: u8 = 19;
    /// [`Sought`](crate::Sought): asks whether a backup was committed. Answered by a list of none
    /// or one [`CommittedBackup`](crate::CommittedBackup).
    pub const COMMITTED: u8 = 20;
    /// [`PutPart`](crate::PutPart): a part of a new object of a vault. Answered by nothing.
    pub const PUT: u8 = 32;
    /// [`StorageRequest`](crate::StorageRequest): another operation on objects of a vault. It says
    /// what the answer is.
    pub const STORAGE: u8 = 33;
}

/// What a server sends.
pub mod reply {
    /// The answer to the request with this number.
    pub const ANSWER: u8 = 1;
    /// [`Refusal`](crate::Refusal) of the request with this number.
    pub const REFUSAL: u8 = 2;
    /// A list of [`Verdict`](ingest::Verdict), unasked.
    pub const VERDICTS: u8 = 3;
    /// [`Refusal`](crate::Refusal): the running backup cannot go on. Unasked.
    pub const FAILED: u8 = 4;
    /// [`Progress`](crate::Progress) of the request with this number.
    pub const PROGRESS: u8 = 5;
    /// The next part of an answer that is longer than a frame. [`ANSWER`] has the last one.
    pub const PART: u8 = 7;
    /// A position of the running backup's single stream: the bytes before it are durable. Unasked.
    pub const DURABLE: u8 = 6;
}
