//! Running on a full disk.

use env::StorageError;
use object::ObjectError;
use session::{Session, SessionError};

use crate::error::Result;

/// Fails if there is no room for a heartbeat. Then other sessions find no room for their answers,
/// and waiting for those is useless. A caller with a reserve gives it up, and continues.
pub(crate) fn ensure_room_to_answer(session: &Session) -> Result<()> {
    match session.tick() {
        Err(
            error @ (SessionError::Storage(StorageError::NoSpace { .. })
            | SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))),
        ) => Err(error.into()),
        // The next tick may succeed; other code asks whether the session is over.
        Ok(_) | Err(_) => Ok(()),
    }
}
