//! Re-exports the errors of the floors below, which are within an [`Error`](crate::Error), and
//! their parts.

pub use chunking::ChunkingError;
pub use container::{ContainerError, Part};
pub use crypto::CryptoError;
pub use env::StorageError;
pub use format::frame::ObjectKind;
pub use format::names::LeaseRole;
pub use format::{FormatError, Result as FormatResult};
pub use index::IndexError;
pub use ingest::IngestError;
pub use object::ObjectError;
pub use object::config::SlotId;
pub use recipe::{RecipeError, StreamName};
pub use reclaim::ReclaimError;
pub use reclaim::retention::RetentionError;
pub use restore::RestoreError;
pub use session::{EndedBy, SessionError};
pub use tree::{Action, Change, LinkFault};
