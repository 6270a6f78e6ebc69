//! What is wrong with an option.

/// Why an option is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OptionFault {
    /// A part lies beyond the end of the data.
    #[error("the option's data ends too early")]
    Short,
    /// There is data after the last part.
    #[error("the option has more data than its parts")]
    Long,
    /// A string is not UTF-8, or has a NUL.
    #[error("a string of the option is not valid text")]
    NoText,
    /// A string is longer than the protocol allows.
    #[error("a string of the option has {len} bytes, more than the protocol allows")]
    LongString {
        /// Its bytes.
        len: usize,
    },
    /// There are too many queries.
    #[error("the option has {count} queries, more than the server answers")]
    ManyQueries {
        /// Their number.
        count: u32,
    },
    /// A query has no namespace.
    #[error("a query has no namespace before a colon")]
    NoNamespace,
}
